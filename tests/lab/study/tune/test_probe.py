"""The probe: the gradients of the very training, layer by layer, and sentences where there are none."""

import pytest
import torch
from torch import nn

from gaf.lab.engine.distributed import make_fabric
from gaf.lab.engine.loop import steps_of, train_step
from gaf.lab.engine.run import prepare
from gaf.lab.engine.signals import Wish
from gaf.lab.study.recipes.laptop import hard_case
from gaf.lab.study.tune.probe import QUANTILES, probe, sizes
from gaf.lab.tasks import load_task
from tests.lab.engine.tiny import Tiny, tiny_config


def by_hand(config, steps, tmp_path):
    """Gradients and velocities of the same training with torch's own SGD."""
    rule = config.optimizer.model_copy(update={"activation": None, "placement": None})
    config = config.model_copy(update={"optimizer": rule, "monitor_every": 0})
    run = prepare(config, tmp_path, load_task(config.task), make_fabric(config), Wish())
    found = []
    optimizer = run.optimizer.optimizer
    optimizer.register_step_pre_hook(
        lambda *_: found.append([p.grad.clone() for p in run.model.parameters()])
    )
    for i, (parts, stream) in enumerate(steps_of(run, 0, 0)):
        train_step(run, parts, stream)
        if i + 1 == steps:
            break
    return found


def test_it_sees_the_gradients_of_the_training_without_f(tmp_path):
    config = tiny_config()
    before = torch.get_rng_state()
    found = probe(config, steps=4)
    assert torch.equal(torch.get_rng_state(), before)
    expected = by_hand(config, 4, tmp_path)
    assert (found.steps, found.of) == (4, 15)
    assert [each.name for each in found.layers] == ["0.weight", "0.bias", "3.weight", "3.bias"]
    for i, layer in enumerate(found.layers):
        for step, each in enumerate(layer.gradient):
            g = expected[step][i].abs()
            assert each.max == g.max().item()
            torch.testing.assert_close(
                torch.tensor(each.quantiles), torch.quantile(g[g > 0], torch.tensor(QUANTILES))
            )
    v = 0.9 * expected[0][0] + expected[1][0]  # the velocity after two steps
    assert found.layers[0].momentum[1].max == pytest.approx(v.abs().max().item())
    assert found.largest() == max(each.max for layer in found.layers for each in layer.gradient)
    assert found.layers[0].gradient[found.when - 1].max > 0


def test_gradients_of_the_hard_case_vanish_towards_the_input():
    found = probe(hard_case(), steps=10)
    typical = [layer.typical() for layer in found.weights]
    assert typical == sorted(typical)
    assert typical[0] < 1e-6
    assert found.spread > 1e4
    assert found.losses[0] == pytest.approx(2.34, abs=0.2)  # ln 10 and a little


def test_sizes_of_large_and_empty_tensors():
    assert sizes(torch.zeros(5)).max == 0
    assert sizes(torch.zeros(0)).quantiles == (0.0,) * 4
    large = torch.linspace(-1, 1, 20_000_001)  # torch.quantile refuses it
    found = sizes(large)
    assert found.max == 1
    assert found.quantiles[1] == pytest.approx(0.5, abs=0.01)


def test_the_sample_falls_on_all_columns_of_a_matrix():
    g = torch.ones(512, 512)
    g[:, ::4] = 1e-6  # the sample is of about every fourth element
    assert sizes(g).quantiles == pytest.approx((1e-6, 1.0, 1.0, 1.0))


def test_a_loss_that_is_no_number_is_a_sentence():
    with pytest.raises(ValueError, match="is nan at the first step, before anything was learned"):
        probe(tiny_config(explode=0.5))
    with pytest.raises(ValueError, match=r"became nan at step 3: lower the learning rate 0\.1"):
        probe(tiny_config(explode=3))  # one loss is computed to check the task


class Dead(Tiny):
    """A loss that does not depend on the weights."""

    def loss(self, model, batch):
        return 0.0 * super().loss(model, batch)


def test_gradients_that_are_all_0_are_a_sentence():
    config = tiny_config()
    task = config.task.model_copy(update={"kind": f"{__name__}:Dead"})
    with pytest.raises(ValueError, match="every gradient of tiny is 0"):
        probe(config.model_copy(update={"task": task}))


def test_several_devices_are_refused():
    with pytest.raises(ValueError, match="one device"):
        probe(tiny_config("devices=2"))


def test_the_hard_case_is_as_described():
    task = load_task(hard_case().task)
    assert (len(task.train_source()), len(task.test_source())) == (1200, 597)
    images, labels = next(
        task.train_source().batches(
            [torch.arange(1200)], seed=0, epoch=0, device=torch.device("cpu")
        )
    )
    assert (images.min().item(), images.max().item()) == (0, 1)
    assert labels.bincount(minlength=10).min() > 90
    layers = [m for m in task.build_model().modules() if isinstance(m, nn.Linear)]
    assert [(m.in_features, m.out_features) for m in layers] == [(64, 64)] * 5 + [(64, 10)]
