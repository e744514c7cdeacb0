"""Losses: gradients and Hessians against finite differences, and the shapes that the paper gives them."""

import math

import pytest
import sympy
import torch

from gaf.lab.theory.learning import LogisticRegression
from gaf.lab.theory.problems import (
    PAPER,
    FromFunction,
    Monkey,
    Powers,
    Rotated,
    TypeOne,
    TypeTwo,
    conditioned,
    plateau,
    quadratic,
    rotated,
    strict_saddle,
)

LOSSES = {
    "paper": PAPER,
    "quadratic": quadratic([3.0, -1.0, 0.5]),
    "conditioned": conditioned(100.0, 3),
    "saddle": strict_saddle(2.0, 0.5),
    "plateau": plateau(2.0, 3.0),
    "Type 1": TypeOne((1.0, 0.2), 0.3),
    "Type 2": TypeTwo((1.0, 0.2), 0.4),
    "monkey": Monkey(),
    "rotated": rotated(TypeOne((1.0, 0.2)), 30.0),
    "own": FromFunction(lambda w: (w[0] * w[1]).sin() + w[2].exp(), 3),
    "logistic": LogisticRegression(),
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_gradient_and_hessian_are_the_differences_of_the_loss(loss):
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(2, 3, loss.dimension, generator=generator, dtype=torch.float64) / 2
    h = 1e-5 * torch.eye(loss.dimension, dtype=torch.float64)
    gradient = torch.stack([(loss(w + e) - loss(w - e)) / 2e-5 for e in h], -1)
    hessian = torch.stack([(loss.gradient(w + e) - loss.gradient(w - e)) / 2e-5 for e in h], -1)
    assert loss(w).shape == (2, 3)
    torch.testing.assert_close(loss.gradient(w), gradient, rtol=1e-8, atol=1e-8)  # seen: 2e-10
    torch.testing.assert_close(loss.hessian(w), hessian, rtol=1e-7, atol=1e-7)


def test_a_batch_is_its_points_one_by_one():
    for loss in LOSSES.values():
        w = torch.linspace(-1, 1, 4 * loss.dimension, dtype=torch.float64).reshape(4, -1)
        each = torch.stack([loss.hessian(point) for point in w])
        torch.testing.assert_close(loss.hessian(w), each)


def test_values_by_hand():
    w = torch.tensor([2.0, 3.0])
    assert PAPER(w).item() == pytest.approx(4 + 0.2 * 9)
    assert plateau(2.0, 3.0)(w).item() == pytest.approx(4 - 3 * 81 / 4)
    assert Monkey()(w).item() == 8 - 3 * 2 * 9
    assert TypeOne((1.0,), 0.5)(w[:1]).item() == pytest.approx((0.5 * 4 + 16) / 1.5)
    two = (2 * (math.sqrt(4 + 0.25) - 0.5) + 16) / 3
    assert TypeTwo((1.0,), 0.5)(w[:1]).item() == pytest.approx(two)
    assert conditioned(1e4, 3).parameters == ((1e4, 2.0), (100.0, 2.0), (1.0, 2.0))


def test_type_1_is_flat_and_type_2_sharp_near_the_minimum():
    near = torch.tensor([0.1], dtype=torch.float64)
    assert TypeOne((1.0,))(near) < near**2 / 2
    assert TypeTwo((1.0,))(near) > 2 * near**2
    for loss in (TypeOne((1.0,)), TypeTwo((1.0,), 1e-9)):
        assert loss(torch.ones(1)).item() == pytest.approx(1.0)  # where w² is 1


def test_the_digits_of_logistic_regression_add_up_to_its_gradient():
    loss = LogisticRegression()
    w = torch.linspace(-0.1, 0.1, loss.dimension, dtype=torch.float64)
    torch.testing.assert_close(loss.gradients(w).mean(0), loss.gradient(w))


def test_symbolic_terms_are_the_loss():
    x, y = sympy.symbols("x y")
    for loss in (PAPER, plateau(2.0, 3.0), TypeOne((1.0, 0.2)), TypeTwo((1.0, 0.2))):
        value = float(sum(loss.symbolic((x, y))).subs({x: 0.3, y: -0.7}))
        assert value == pytest.approx(loss(torch.tensor([0.3, -0.7], dtype=torch.float64)).item())


def test_a_rotation_keeps_the_loss():
    turned = rotated(PAPER, 90.0)
    w = torch.tensor([0.3, -0.7], dtype=torch.float64)
    assert turned(w).item() == pytest.approx(0.2 * 0.3**2 + 0.7**2)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: FromFunction(lambda w: w, 2), r"one number .* got shape \(2,\)"),
        (lambda: FromFunction(lambda w: 1.0, 2), "one number .* got float"),
        (lambda: PAPER(torch.zeros(3)), "2 parameters, got points of shape"),
        (lambda: PAPER.symbolic(sympy.symbols("x y z")), "2 parameters, got 3 symbols"),
        (lambda: Powers(()), "at least one coordinate"),
        (lambda: Powers(((1.0, 3.0),)), "must be 2, 4, 6"),
        (lambda: quadratic([math.nan]), "finite"),
        (lambda: conditioned(0.5), "at least 1"),
        (lambda: TypeOne((1.0,), -1.0), "positive"),
        (lambda: TypeTwo(()), "positive"),
        (lambda: Rotated(PAPER, torch.ones(2, 2)), "orthogonal 2 by 2"),
    ],
)
def test_bad_input_is_one_sentence(make, says):
    with pytest.raises(ValueError, match=says) as error:
        make()
    assert "\n" not in str(error.value)
