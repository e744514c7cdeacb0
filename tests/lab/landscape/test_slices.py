"""Slices: the numbers of a deep-copy loop, a model left alone to the bit, the same from the same seed."""

import copy

import pytest
import torch
from torch import nn

from gaf.lab.bench.slices import deep_copy_loop, plain_loop
from gaf.lab.landscape import slices
from gaf.lab.landscape.slices import random_direction, towards
from gaf.lab.landscape.slices_evaluate import losses_at

X = torch.randn(32, 1, 6, 6, generator=torch.Generator().manual_seed(0))
Y = torch.arange(32) % 4


def mlp():
    torch.manual_seed(1)
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 16), nn.Tanh(), nn.Linear(16, 4))


def cnn():
    torch.manual_seed(1)
    model = nn.Sequential(
        *(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5)),
        *(nn.Flatten(), nn.Linear(64, 4)),
    )
    model(X)  # running statistics of its own
    return model


def tied():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 36), nn.Tanh(), nn.Linear(36, 36))
    model[3].weight = model[1].weight
    return model


def loss(model):
    return nn.functional.cross_entropy(model(X), Y)


@pytest.mark.parametrize("method", ["loop", "batch", None])
@pytest.mark.parametrize("make", [mlp, cnn, tied])
@pytest.mark.parametrize("count", [1, 2])
def test_equal_to_both_loops(make, method, count):
    model = make().eval()
    directions = [random_direction(model, seed) for seed in range(count)]
    many = method is None and make is not cnn  # so many that both are tried
    points = torch.randn(520 if many else 7, count, dtype=torch.float64)
    found, _ = losses_at(model, loss, directions, points, method)
    for reference in (plain_loop, deep_copy_loop):
        torch.testing.assert_close(
            found, reference(model, loss, directions, points), rtol=1e-6, atol=0
        )


@pytest.mark.parametrize("method", ["loop", "batch"])
def test_the_model_is_left_alone_to_the_bit(method):
    model = cnn()
    model[3].eval()  # modes that differ come back as they were
    modes = [module.training for module in model.modules()]
    before = copy.deepcopy(model.state_dict())
    identities = [id(p) for p in model.parameters()]
    versions = [p._version for p in model.parameters()]
    random = torch.get_rng_state()
    slices.curve(model, loss, points=5, method=method)
    slices.between(model, loss, mlike(before), points=3, method=method)
    assert all(torch.equal(before[name], now) for name, now in model.state_dict().items())
    assert [module.training for module in model.modules()] == modes
    assert [id(p) for p in model.parameters()] == identities
    assert [p._version for p in model.parameters()] == versions
    assert all(p.grad is None and p.requires_grad for p in model.parameters())
    assert torch.equal(torch.get_rng_state(), random)


def mlike(state):
    return {name: each + 0.1 if each.is_floating_point() else each for name, each in state.items()}


def test_an_error_of_the_loss_leaves_the_model_alone():
    model = cnn()
    before = copy.deepcopy(model.state_dict())

    def breaks(m):
        raise KeyError("loss")

    with pytest.raises(KeyError):
        slices.curve(model, breaks, points=5)
    assert model.training
    assert all(torch.equal(before[name], now) for name, now in model.state_dict().items())


def test_batch_norm_and_dropout_are_in_evaluation_mode():
    model = cnn()
    middle = slices.curve(model, loss, points=3).losses[1]
    assert middle.item() == pytest.approx(loss(model.eval()).item(), rel=1e-6)


def test_the_same_seed_makes_the_same_slice():
    runs = [slices.surface(mlp(), loss, seed=3, side=5) for _ in range(2)]
    assert torch.equal(runs[0].losses, runs[1].losses)
    other = slices.surface(mlp(), loss, seed=4, side=5)
    assert not torch.equal(other.losses, runs[0].losses)
    along = slices.curve(mlp(), loss, seed=3, points=5)
    assert torch.equal(along.losses, runs[0].losses[:, 2])  # the plane's middle row


def test_filters_keep_their_norm_and_biases_stay():
    model = cnn()
    found = random_direction(model, 0)
    assert list(found) == ["0.weight", "5.weight"]
    for name, d in found.items():
        w = model.get_parameter(name)
        torch.testing.assert_close(d.flatten(1).norm(dim=1), w.flatten(1).norm(dim=1))
    everything = random_direction(model, 0, biases_and_norms=True)
    assert set(everything) == {name for name, _ in model.named_parameters()}
    torch.testing.assert_close(everything["1.weight"].norm(), model[1].weight.norm())
    assert everything["1.bias"].abs().max() == 0  # as the bias itself


def test_the_line_between_two_states_ends_at_them():
    one, other = cnn(), cnn()
    nn.init.normal_(other[0].weight)
    other(2 * X)  # other running statistics
    ends = [loss(model.eval()).item() for model in (one, other)]
    found = slices.between(one, loss, other.state_dict(), points=5)
    assert found.losses[0].item() == pytest.approx(ends[0], rel=1e-6)
    assert found.losses[-1].item() == pytest.approx(ends[1], rel=1e-5)
    assert found.axes[0].tolist() == [0, 0.25, 0.5, 0.75, 1]


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (nn.Linear(2, 2), "it lacks '1.weight'"),
        (nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.Tanh(), nn.Linear(8, 4)), "shape"),
        (nn.Sequential(*mlp(), nn.Linear(4, 4)), "it has '4.weight', this one has not"),
    ],
)
def test_a_state_of_another_model_is_refused(other, says):
    with pytest.raises(ValueError, match="is one of another model") as error:
        towards(mlp(), other.state_dict())
    assert says in str(error.value)


def test_bad_arguments_are_refused():
    for wrong in ({"points": 4}, {"points": 1}, {"radius": 0.0}, {"radius": float("nan")}):
        with pytest.raises(ValueError, match="a slice"):
            slices.curve(mlp(), loss, **wrong)
    with pytest.raises(ValueError, match="2 points"):
        slices.between(mlp(), loss, mlp().state_dict(), points=1)
    with pytest.raises(ValueError, match="no weights of two axes"):
        slices.curve(nn.BatchNorm2d(1), loss)


def test_a_model_that_vmap_cannot_follow_is_looped():
    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = mlp()

        def forward(self, x):
            out = self.inner(x)
            return out if out.sum() > 0 else -out

    model = Branches().eval()
    found = slices.surface(model, loss, side=23)
    assert found.method == "loop"
    axis = found.axes[0]
    directions = [random_direction(model, 0), random_direction(model, 0x5DEECE66D)]
    reference = plain_loop(model, loss, directions, torch.cartesian_prod(axis, axis))
    torch.testing.assert_close(found.losses.flatten(), reference, rtol=1e-6, atol=0)
