"""Theorem 5, and gradients by depth: against backward, and what f can and cannot do."""

import pytest
import torch

from gaf.functions import Arctan, Log
from gaf.lab.theory import vanishing
from gaf.lab.theory.families import one
from gaf.lab.theory.learning import deep_sigmoid, digits_loss
from gaf.lab.theory.trials import tally, without

F = Arctan(0.1, 20.0)


def test_theorem_5():
    total = tally(vanishing.random_gradients(torch.Generator().manual_seed(1)))
    assert (total.sound.cases >= 10_000, total.sound.failures) == (True, 0)
    assert all(x.failures == x.cases > 0 for x in without(total, vanishing.examples()))


def test_either_side_of_the_crossover():
    edge = F.crossover
    g = torch.tensor([0.99 * edge, -0.99 * edge, 1.01 * edge], dtype=torch.float64)
    found = vanishing.theorem_5(one(F)[torch.zeros(3, dtype=torch.long)], g)
    assert found.claim.tolist() == [True, True, False]
    assert found.meeting().tolist() == [True, True, False]


def test_layers_are_the_gradients_of_backward():
    model = deep_sigmoid(4)
    loss = digits_loss(model)
    layers = vanishing.by_layer(model, loss, "log(0.1, 20)")
    loss().backward()
    assert [layer.name for layer in layers] == [name for name, _ in model.named_parameters()]
    for layer, p in zip(layers, model.parameters(), strict=True):
        after = Log(0.1, 20.0)(p.grad)
        assert layer.mean == pytest.approx(p.grad.abs().mean().item())
        assert layer.activated_mean == pytest.approx(after.abs().mean().item())
        assert layer.largest == pytest.approx(p.grad.abs().max().item())
        assert layer.activated_largest == pytest.approx(after.abs().max().item())
        share = (p.grad.abs() < Log(0.1, 20.0).crossover).double().mean().item()
        assert layer.below_crossover == share


def test_vanishing_gradients_are_enlarged_and_still_vanish():
    layers = vanishing.vanishing(F)
    assert len(layers) == 12
    assert layers[0].mean < 1e-9 * layers[-1].mean
    assert all(layer.activated_mean > layer.mean for layer in layers)
    assert layers[0].activated_mean == pytest.approx(2 * layers[0].mean)  # αβ, no more
    assert layers[0].activated_mean < 1e-9 * layers[-1].activated_mean


def test_exploding_gradients_are_bounded():
    layers = vanishing.exploding(F)
    assert max(layer.largest for layer in layers) > 1e4
    assert max(layer.activated_largest for layer in layers) <= F.bound


@pytest.mark.parametrize(
    ("loss", "activation", "says"),
    [
        (
            lambda model: lambda: model(torch.ones(2, 64).double()),
            F,
            r"one number, got shape \(2, 10\)",
        ),
        (digits_loss, None, "name a function such as"),
    ],
)
def test_bad_input_is_one_sentence(loss, activation, says):
    model = deep_sigmoid(2)
    with pytest.raises(ValueError, match=says):
        vanishing.by_layer(model, loss(model), activation)
