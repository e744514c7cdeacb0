"""The potential that fits best: exact for gradients, honest about the rest."""

import math

import pytest
import torch

from gaf.lab.landscape import fit_potential
from gaf.lab.landscape.potential import TOWARDS_START, line_integral
from gaf.lab.theory.conditioning import Box
from gaf.lab.theory.fields import NormClip, ValueClip
from gaf.lab.theory.problems import PAPER, rotated

BOX = Box((-1.0, -0.5), (1.0, 2.0))


def over(box, points):
    axes = [
        torch.linspace(low, high, points, dtype=torch.float64)
        for low, high in zip(box.lower, box.upper, strict=True)
    ]
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), -1)


@pytest.mark.parametrize("field", [ValueClip(0.1), torch.atan], ids=["clip", "atan"])
def test_a_gradient_is_recovered_exactly(field):
    found = fit_potential(lambda w: field(PAPER.gradient(w)), BOX, points=41)
    w = over(BOX, 41)
    exact = line_integral(
        lambda w: field(PAPER.gradient(w)),
        torch.zeros(41 * 41, 2, dtype=torch.float64),
        w.reshape(-1, 2),
        TOWARDS_START,
    ).reshape(41, 41)
    shift = found.values - exact
    assert (shift - shift.mean()).abs().max() <= 1e-11
    assert found.curl <= 1e-9
    assert found.residual <= 1e-12


def test_a_turning_field_is_nearly_all_residual():
    """(−w₂, w₁) has curl 2; on a square it crosses the sides, which a gradient can follow."""
    turn = torch.tensor([-1.0, 1.0], dtype=torch.float64)
    found = fit_potential(lambda w: w.flip(-1) * turn, Box.around(2, 1.0), points=101)
    assert found.curl == pytest.approx(2, abs=1e-9)
    assert found.curl_rms == pytest.approx(2, abs=1e-9)
    # residual² is the torsion constant of the square over its polar moment, 2.2492 / 2.6667
    assert found.residual == pytest.approx(0.918, abs=0.01)


def test_the_fit_is_the_best_one():
    """No change of the potential brings its gradient closer to the field."""

    def field(w):
        return NormClip(0.1)(PAPER.gradient(w))

    found = fit_potential(field, Box.around(2, 1.0), points=15)
    w = over(Box.around(2, 1.0), 15)

    def left(values):
        x = line_integral(field, w[:-1].reshape(-1, 2), w[1:].reshape(-1, 2)).reshape(14, 15)
        y = line_integral(field, w[:, :-1].reshape(-1, 2), w[:, 1:].reshape(-1, 2)).reshape(15, 14)
        return (values.diff(dim=0) - x).square().sum() + (values.diff(dim=1) - y).square().sum()

    values = found.values.clone().requires_grad_()
    least = left(values)
    (slope,) = torch.autograd.grad(least, values)
    assert slope.abs().max() <= 1e-12
    assert least > 0


def test_curl_is_that_of_the_jacobian():
    """By Stokes the mean curl of a cell; on a fine grid it is ∂₁V₂ − ∂₂V₁ at its middle."""
    loss, clip = rotated(PAPER, 30), NormClip(0.1)
    found = fit_potential(lambda w: clip(loss.gradient(w)), Box((0.5, 0.5), (0.6, 0.6)), points=41)
    at = torch.tensor(found.curl_at, dtype=torch.float64)
    jacobian = clip.jacobian(loss.gradient(at)) @ loss.hessian(at)
    assert found.curl == pytest.approx(abs(jacobian[1, 0] - jacobian[0, 1]).item(), rel=1e-4)


def test_line_integrals_find_corners():
    """∫ clamp(x) over lines whose corner lies anywhere, also next to an end."""
    ends = torch.linspace(1e-3, 1, 997, dtype=torch.float64)[:, None]
    got = line_integral(lambda w: w.clamp(max=0.5), torch.zeros_like(ends), ends)
    exact = torch.where(ends < 0.5, ends**2 / 2, 0.125 + 0.5 * (ends - 0.5))[:, 0]
    assert (got - exact).abs().max() <= 1e-14


def test_line_integrals_see_what_happens_next_to_the_start():
    beta = 1e7
    end = torch.ones(1, 1, dtype=torch.float64)
    got = line_integral(lambda w: torch.tanh(beta * w), 0 * end, end, TOWARDS_START)
    assert got.item() == pytest.approx(1 - math.log(2) / beta, abs=1e-14)
