"""ℓ, c and ζ on a box, against difference quotients and by hand; anisotropy by hand."""

import math

import pytest
import torch

import gaf
from gaf.lab.theory.conditioning import Box, anisotropy, constants
from gaf.lab.theory.fields import NormClip, ValueClip, as_transform
from gaf.lab.theory.problems import PAPER, Monkey, TypeOne, TypeTwo, quadratic, rotated

BOX = Box.around(2, 1.0)


@pytest.mark.parametrize(
    ("loss", "transform"),
    [
        (PAPER, None),
        (PAPER, "arctan(0.1, 20)"),
        (rotated(PAPER, 30.0), "log(0.1, 20)"),
        (TypeOne((1.0, 0.2)), "tanh(1, 2)"),
        (TypeTwo((1.0, 0.2), 0.3), None),
        (Monkey(), None),
        (PAPER, NormClip(0.5)),
    ],
    ids=lambda each: each if isinstance(each, str) else type(each).__name__,
)
def test_constants_bound_the_quotients_of_definitions_3_and_4(loss, transform):
    """No pair of points is beyond ℓ and c, and some pair comes close."""
    field = as_transform(transform)
    found = constants(loss, BOX, transform)
    generator = torch.Generator().manual_seed(0)
    axis = torch.linspace(-1, 1, 201, dtype=torch.float64)
    w = torch.cartesian_prod(axis, axis)
    away = 1e-4 * torch.randn(w.shape, generator=generator, dtype=torch.float64)
    v = (w + away).clamp(-1, 1)
    far = 2 * torch.rand(w.shape, generator=generator, dtype=torch.float64) - 1
    ratios, inner = [], []
    for other in (v, far):
        d = w - other
        df = field(loss.gradient(w)) - field(loss.gradient(other))
        size = d.norm(dim=-1)
        keep = size > 1e-9
        ratios.append((df.norm(dim=-1) / size)[keep])
        inner.append(((df * d).sum(-1) / size**2)[keep])
    largest, smallest = torch.cat(ratios).max().item(), torch.cat(inner).min().item()
    assert largest <= found.lipschitz * (1 + 1e-5)
    assert largest >= found.lipschitz * 0.97
    assert smallest >= found.convexity - 1e-5 * found.lipschitz
    assert smallest <= found.convexity + 0.03 * found.lipschitz


def test_zeta_by_hand():
    h = 2.0 * 2.0  # f'(0) times the larger curvature
    c = 2.0 * 2.0 / (1 + 40.0**2)  # f' at g = 2, where the larger curvature is
    found = constants(PAPER, BOX, "arctan(0.1, 20)")
    assert (found.lipschitz, found.convexity) == pytest.approx((h, c))
    assert found.condition == pytest.approx(1601)
    assert constants(PAPER, BOX).condition == 5
    assert constants(PAPER, BOX, ValueClip(0.1)).condition == math.inf


def test_definition_4_sees_the_sign():
    """−w² has c = −2, though the ratio of norms in the printed definition is 2."""
    found = constants(quadratic([-2.0, -2.0]), BOX)
    assert (found.lipschitz, found.convexity, found.condition) == (2, -2, math.inf)


def test_an_inner_extreme_is_found():
    """Under f = tanh the slope f'(g) L'' of Type 1 has its maximum inside the box, off any grid."""
    loss, f = TypeOne((1.0,)), gaf.Tanh(1.0, 1.0)
    w = torch.linspace(0, 1, 2_000_001, dtype=torch.float64)[:, None]
    slope = f.derivative(loss.gradient(w)) * loss.curvature(w)
    found = constants(loss, Box.around(1, 1.0), f)
    assert found.lipschitz == pytest.approx(slope.max().item(), rel=1e-10)
    assert found.convexity == pytest.approx(slope.min().item(), rel=1e-6)


def test_anisotropy_by_hand():
    expected = [math.atan(20 * 2 * d) / math.atan(20 * 0.4 * d) for d in (0.01, 0.1, 1.0)]
    assert anisotropy(PAPER, "arctan(0.1, 20)") == pytest.approx(expected)
    assert anisotropy(PAPER, NormClip(0.1)) == pytest.approx([5, 5, 5])


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Box((1.0,), (0.0,)), "lower < upper, both finite; coordinate 1 has 1.0 and 0.0"),
        (lambda: Box((0.0, 1.0), (1.0, 1.0)), "coordinate 2"),
        (lambda: Box((0.0,), (math.inf,)), "finite"),
        (lambda: Box((0.0,), (1.0, 2.0)), "as many lower as upper"),
        (lambda: Box((), ()), "as many lower as upper"),
        (lambda: constants(PAPER, Box.around(3, 1.0)), "2 parameters and the box 3 sides"),
        (
            lambda: constants(quadratic([1, 2, 3]), Box.around(3, 1.0), NormClip(1.0)),
            "more than two dimensions",
        ),
        (lambda: constants(lambda w: w, BOX), "one number"),
        (lambda: constants(3.0, BOX), "a function of a point, got float"),  # type: ignore[arg-type]
        (lambda: anisotropy(lambda w: w.sum()), "FromFunction"),  # type: ignore[arg-type]
    ],
)
def test_bad_input_is_one_sentence(make, says):
    with pytest.raises(ValueError, match=says) as error:
        make()
    assert "\n" not in str(error.value)


def test_a_plain_function_is_a_loss():
    def paper(w):
        return w[0] ** 2 + 0.2 * w[1] ** 2

    assert constants(paper, BOX).condition == pytest.approx(5)
