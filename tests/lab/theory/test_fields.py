"""Transforms of gradients: their values by hand, their Jacobians against finite differences."""

import pytest
import torch

import gaf
from gaf.lab.theory.fields import Activated, Identity, NormClip, ValueClip, as_transform

TRANSFORMS = [Identity(), Activated(gaf.Log(0.1, 20.0)), ValueClip(0.5), NormClip(0.5)]


@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda each: each.name)
def test_the_jacobian_is_that_of_the_field(transform):
    g = torch.tensor([[0.1, -0.2], [0.3, 0.7], [-3.0, 0.01]], dtype=torch.float64)
    h = 1e-7 * torch.eye(2, dtype=torch.float64)
    columns = torch.stack([(transform(g + e) - transform(g - e)) / 2e-7 for e in h], -1)
    torch.testing.assert_close(transform.jacobian(g), columns, rtol=1e-6, atol=1e-6)
    if transform.elementwise:
        torch.testing.assert_close(
            transform.jacobian(g).diagonal(dim1=-2, dim2=-1), transform.slopes(g)
        )


def test_clippings_are_those_of_torch():
    g = torch.tensor([3.0, -4.0], dtype=torch.float64)
    parameter = torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))
    for clip, ours in (
        (torch.nn.utils.clip_grad_norm_, NormClip(1.0)),
        (torch.nn.utils.clip_grad_value_, ValueClip(3.5)),
    ):
        parameter.grad = g.clone()
        clip([parameter], 1.0 if isinstance(ours, NormClip) else 3.5)
        torch.testing.assert_close(ours(g), parameter.grad, rtol=1e-6, atol=0)


def test_small_gradients_pass_both_clippings():
    g = torch.tensor([0.1, 0.0], dtype=torch.float64)
    for clip in (NormClip(0.5), ValueClip(0.5)):
        assert torch.equal(clip(g), g)


def test_what_counts_as_a_transform():
    assert as_transform(None) == Identity()
    assert as_transform("tanh(0.2, 10)") == Activated(gaf.Tanh(0.2, 10.0))
    assert as_transform(ValueClip(1.0)) == ValueClip(1.0)


class Nameless(gaf.functions.AlphaBeta):
    """A function that nobody registered."""

    @staticmethod
    def formula(xp, g, alpha, beta):
        return alpha * beta * g


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: ValueClip(0.0), ValueError, "positive limit"),
        (lambda: NormClip(float("inf")), ValueError, "positive limit"),
        (
            lambda: as_transform("qqqq(1, 2)"),
            ValueError,
            "unknown .* known are algebraic, arctan",
        ),
        (lambda: as_transform(Nameless(1.0, 1.0)), TypeError, "put @gaf.register above the class"),
        (lambda: as_transform(lambda g: g), TypeError, "activation must be a function such as"),
        (lambda: NormClip(1.0).slopes(torch.zeros(2)), ValueError, "element by element"),
    ],
)
def test_bad_input_is_one_sentence(make, error, says):
    with pytest.raises(error, match=says) as found:
        make()
    assert "\n" not in str(found.value)
