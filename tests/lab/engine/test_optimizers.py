"""What is done to gradients before the optimizer sees them."""

import pytest
import torch
from lightning_fabric import Fabric
from torch import nn

from gaf.lab.engine.config import OptimizerConfig
from gaf.lab.engine.optimizers import make_optimizer
from gaf.lab.engine.run import train
from tests.lab.engine.processes import arguments, run, together
from tests.lab.engine.tiny import last_checkpoint, tiny_config

BOTH = ("optimizer.normalize=0.5", "optimizer.centralize=true")


def treated(gradient_scale=1.0, **rule):
    """Gradients of a small CNN before and after."""
    torch.manual_seed(0)
    config = OptimizerConfig(**rule)
    fabric = Fabric(accelerator="cpu", devices=1)
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.Flatten(), nn.Linear(12, 2))
    module = fabric.setup_module(model)
    optimizer = fabric.setup_optimizers(make_optimizer(config, module.parameters()))
    fabric.backward(gradient_scale * module(torch.randn(5, 1, 4, 4)).square().mean())
    before = [p.grad.clone() for p in model.parameters()]
    optimizer.step()
    return before, [p.grad for p in model.parameters()]


def test_centralize_takes_the_mean_from_each_outputs_weights_and_leaves_biases():
    before, after = treated(centralize=True)
    for old, new in zip(before, after, strict=True):
        if old.ndim == 1:
            assert torch.equal(old, new)
        else:
            assert old.flatten(1).mean(1).abs().min() > 1e-4
            assert new.flatten(1).mean(1).abs().max() < 1e-7
            moved = (old - new).flatten(1)
            torch.testing.assert_close(moved, moved[:, :1].expand_as(moved))


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_normalize_gives_all_gradients_together_one_norm_and_keeps_their_direction(scale):
    before, after = treated(scale, normalize=0.25)
    old, new = (torch.cat([each.flatten() for each in some]) for some in (before, after))
    assert new.norm().item() == pytest.approx(0.25, rel=1e-5)
    assert torch.cosine_similarity(old, new, dim=0).item() == pytest.approx(1, abs=1e-6)


def test_a_gradient_of_zeros_stays_zeros():
    _, after = treated(0.0, normalize=1.0)
    assert not any(each.any() for each in after)


def test_normalize_sees_gradients_without_the_loss_scale(tmp_path):
    """With the scale of 65,536 in them, the first steps would go nowhere near those of single precision."""
    plain = train(tiny_config(*BOTH), tmp_path / "plain")
    half = train(tiny_config(*BOTH, "precision=16-mixed"), tmp_path / "half")
    assert half.final["loss"] == pytest.approx(plain.final["loss"], rel=0.02)
    assert plain.final["loss"] < 2.0


@pytest.mark.slow
def test_two_processes_with_shards_train_to_the_weights_of_one(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    assert run(arguments(one, "epochs=2", "batch_size=16", *BOTH))[0] == 0
    together(2, arguments(two, "epochs=2", "batch_size=16", *BOTH, "strategy=fsdp2"))
    a, b = (last_checkpoint(each)["model"] for each in (one, two))
    for name in a:
        torch.testing.assert_close(b[name], a[name], rtol=0, atol=2e-6)
