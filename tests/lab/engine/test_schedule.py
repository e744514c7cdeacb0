"""The learning rate is torch's, where torch has the same schedule."""

import pytest
import torch

from gaf.lab.engine.config import ScheduleConfig
from gaf.lab.engine.optimizers import rate_factor


def rates(schedule, total=60, epoch_length=6):
    return [rate_factor(schedule, step, total, epoch_length) for step in range(total)]


def torch_rates(make, total):
    opt = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = make(opt)
    found = []
    for _ in range(total):
        found.append(opt.param_groups[0]["lr"])
        opt.step()
        scheduler.step()
    return found


def test_cosine_is_torchs():
    expected = torch_rates(lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 60), 60)
    assert rates(ScheduleConfig()) == pytest.approx(expected, abs=1e-12)


def test_cosine_by_epoch_is_torchs_stepped_once_an_epoch():
    by_epoch = torch_rates(lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 10), 10)
    expected = [rate for rate in by_epoch for _ in range(6)]
    assert rates(ScheduleConfig(every="epoch")) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("every", ["epoch", "iteration"])
def test_step_is_torchs(every):
    schedule = ScheduleConfig(name="step", milestones=(3, 7), gamma=0.5, every=every)
    expected = torch_rates(lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [18, 42], 0.5), 60)
    assert rates(schedule) == pytest.approx(expected)


def test_warmup_rises_in_equal_steps_then_cosine_begins_at_the_top():
    found = rates(ScheduleConfig(warmup=2))  # epochs
    assert found[:12] == pytest.approx([(i + 1) / 12 for i in range(12)])
    assert found[12] == 1.0
    assert found[12:] == sorted(found[12:], reverse=True)
    assert 0 < found[-1] < 0.01


def test_warmup_in_iterations():
    found = rates(ScheduleConfig(warmup=5, unit="iteration"))
    assert found[:6] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0, 1.0])


def test_warmup_by_epoch_keeps_a_rate_for_an_epoch():
    found = rates(ScheduleConfig(warmup=2, every="epoch"))
    assert found[:13] == [0.5] * 6 + [1.0] * 7


def test_floor_and_constant():
    assert min(rates(ScheduleConfig(floor=0.1))) > 0.1
    assert rates(ScheduleConfig(name="constant")) == [1.0] * 60


def test_a_warmup_longer_than_the_run_never_passes_1():
    assert max(rates(ScheduleConfig(warmup=20))) <= 1.0
