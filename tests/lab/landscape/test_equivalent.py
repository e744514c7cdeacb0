"""Equivalent losses: closed form against quadrature, and both against the field by autograd."""

import pytest
import torch

import gaf
from gaf.lab.landscape import Quadrature, closed_form, equivalent, fit_potential
from gaf.lab.theory.conditioning import Box
from gaf.lab.theory.fields import Activated, NormClip, ValueClip, as_transform
from gaf.lab.theory.problems import (
    PAPER,
    FromFunction,
    TypeOne,
    TypeTwo,
    conditioned,
    plateau,
    quadratic,
    rotated,
    strict_saddle,
)

BOX = Box.around(2, 1.0)
LINE = torch.linspace(-1, 1, 21, dtype=torch.float64)
GRID = torch.cartesian_prod(LINE, LINE)  # with 0, both axes and the diagonal
QUADRATICS = {  # beside the paper's
    "round": conditioned(1.0),
    "narrow": conditioned(100.0),
    "saddle": strict_saddle(2.0, 0.5),
    "steep": quadratic([1e3, 1.0]),
}
ELEMENTWISE = [
    None,
    "arctan(0.1, 20)",
    "tanh(0.1, 20)",
    "log(0.1, 20)",
    "arctan(0.2, 10)",
    "tanh(2, 0.1)",
    "log(0.03, 300)",
    ValueClip(0.1),
]


def gradient(function, w):
    w = w.clone().requires_grad_()
    return torch.autograd.grad(function(w).sum(), w)[0]


def check(loss, transform, w=GRID):
    """E by both ways: 1e-8 apart, and each with the gradient f(∇L) to 1e-6 (corners of clippings aside
    the errors observed are 1e-13)."""
    by_values = Quadrature(loss, as_transform(transform))
    by_formula = closed_form(loss, transform)
    field = by_values.field(w)
    w = w.clone().requires_grad_()
    values = [function(w) for function in (by_formula, by_values)]
    assert (values[0] - values[1]).abs().max() <= 1e-8
    for each in values:
        assert (torch.autograd.grad(each.sum(), w)[0] - field).abs().max() <= 1e-6


@pytest.mark.parametrize("transform", ELEMENTWISE, ids=str)
def test_closed_form_and_quadrature_agree_on_the_paper_s_loss(transform):
    check(PAPER, transform)


@pytest.mark.slow
@pytest.mark.parametrize("transform", ELEMENTWISE, ids=str)
@pytest.mark.parametrize("loss", QUADRATICS.values(), ids=QUADRATICS)
def test_closed_form_and_quadrature_agree(loss, transform):
    """On half of the plane: f is odd, so that both sides are the same at -w."""
    check(loss, transform, GRID[len(GRID) // 2 :])


@pytest.mark.parametrize("loss", [plateau(2.0, 3.0), TypeOne(), TypeTwo((1.0, 0.2))])
@pytest.mark.parametrize("transform", ["arctan", "tanh(0.1, 1e4)", "log", ValueClip(0.1)], ids=str)
def test_quadrature_of_other_separable_losses(loss, transform):
    by_values = Quadrature(loss, as_transform(transform))
    assert (gradient(by_values, GRID[::3]) - by_values.field(GRID[::3])).abs().max() <= 1e-6


def test_a_clipped_quartic_in_closed_form():
    check(plateau(2.0, 3.0), ValueClip(0.1), GRID[::3])


@pytest.mark.parametrize("name", ["arctan", "tanh", "log"])
def test_closed_forms_do_not_overflow(name):
    """cosh(711) is too large for a float64; β·g is 4e5 here."""
    f = gaf.functions.function_type(name)(0.1, 2e5)
    w = torch.tensor([[1.0, -1.0]], dtype=torch.float64)
    h = torch.tensor([2.0, 0.4], dtype=torch.float64)
    expected = (f.integral(w * h) / h).sum(-1)
    assert closed_form(PAPER, f)(w).item() == pytest.approx(expected.item(), rel=1e-12)


def test_the_loss_itself_needs_no_transform():
    for loss in (PAPER, TypeOne(), TypeTwo()):
        assert (closed_form(loss, None)(GRID) - loss(GRID)).abs().max() <= 1e-14


def test_quadrature_takes_any_separable_callable():
    loss = FromFunction(lambda w: w[0] ** 2 + 0.2 * w[1] ** 2, 2)
    expected = closed_form(PAPER, "arctan(0.1, 20)")(GRID)
    got = Quadrature(loss, as_transform("arctan(0.1, 20)"))(GRID)
    assert (got - expected).abs().max() <= 1e-8


@pytest.mark.parametrize("name", gaf.names())
def test_a_registered_potential_is_the_equivalent_loss_of_a_quadratic(name):
    """∫ f(hw) dw = F(hw) / h with the potential F that the function itself knows."""
    f = gaf.parse(name)
    got = Quadrature(PAPER, Activated(f))(GRID)
    h = torch.tensor([2.0, 0.4], dtype=torch.float64)
    assert (got - (f.integral(GRID * h) / h).sum(-1)).abs().max() <= 1e-12


def test_latex_shows_the_closed_form():
    assert closed_form(PAPER, "tanh").latex == (
        r"\frac{\alpha \ln{\left(\cosh{\left(2 \beta w_{1} \right)} \right)}}{2 \beta} + "
        r"\frac{5 \alpha \ln{\left(\cosh{\left(\frac{2 \beta w_{2}}{5} \right)} \right)}}{2 \beta}"
    )
    assert "|" not in closed_form(PAPER, "arctan").latex  # even as it stands
    assert r"\begin{cases}" in closed_form(PAPER, ValueClip(0.1)).latex


def test_what_sympy_gets_wrong_is_not_shown():
    # Without the check, sympy 1.14 loses a term here and the slope is wrong by as much as alpha.
    with pytest.raises(ValueError, match=r"no closed form for log\(0.1, 20\).*Quadrature"):
        closed_form(plateau(), "log(0.1, 20)")
    with pytest.raises(ValueError, match=r"no closed form for tanh"):
        closed_form(plateau(), "tanh(0.1, 20)")


def test_the_method_follows_the_problem():
    twenty = {"points": 21}
    assert equivalent(PAPER, "arctan", BOX, **twenty).method == "closed form"
    assert equivalent(TypeOne(), "arctan", BOX, **twenty).method == "quadrature"
    assert equivalent(rotated(PAPER, 30), None, BOX, **twenty).method == "quadrature"
    assert equivalent(rotated(PAPER, 30), "arctan", BOX, **twenty).method == "least squares"
    assert equivalent(PAPER, NormClip(0.1), BOX, **twenty).method == "least squares"
    # a round loss has no preferred direction, and norm clipping keeps the direction
    assert equivalent(conditioned(1.0), NormClip(0.1), BOX, **twenty).exact


@pytest.mark.parametrize("box", [BOX, Box((0.5, -2.0), (1.0, 0.25))])
def test_surfaces_are_0_at_the_origin_by_every_method(box):
    def plain(w):
        return w[0] ** 2 + 0.2 * w[1] ** 2

    surface = equivalent(PAPER, "arctan(0.1, 20)", box, points=21)
    grid = torch.stack(torch.meshgrid(surface.x, surface.y, indexing="ij"), -1)
    expected = closed_form(PAPER, "arctan(0.1, 20)")(grid)
    assert (surface.values - expected).abs().max() == 0
    by_fit = equivalent(plain, "arctan(0.1, 20)", box, points=21)
    assert by_fit.method == "quadrature"
    assert (by_fit.values - expected).abs().max() <= 1e-8


def test_own_functions_without_a_symbolic_form_are_integrated():
    class Softclip(gaf.Activation):
        name = "softclip"

        @staticmethod
        def formula(xp, g):
            return g / (1 + xp.abs(g))

    surface = equivalent(conditioned(1.0), Softclip(), BOX, points=11)
    x = surface.x.abs()
    side = x - torch.log1p(x)
    assert surface.method == "quadrature"
    assert (surface.values - (side[:, None] + side[None])).abs().max() <= 1e-12


def test_a_field_in_single_precision_is_refused():
    def single(w):
        return (w.float() ** 3).sum().double()

    with pytest.raises(ValueError, match="float64"):
        Quadrature(FromFunction(single, 2), as_transform("arctan"))(GRID[:9])


def test_bad_input_is_one_sentence():
    with pytest.raises(ValueError, match="one number"):
        equivalent(lambda w: w, "arctan", BOX)
    with pytest.raises(ValueError, match="lower < upper"):
        equivalent(PAPER, "arctan", Box((1.0, 0.0), (0.0, 1.0)))
    with pytest.raises(ValueError, match="in the plane"):
        equivalent(PAPER, "arctan", Box.around(3, 1.0))
    with pytest.raises(ValueError, match="two parameters"):
        equivalent(conditioned(5.0, 3), "arctan", BOX)
    with pytest.raises(ValueError, match="did you mean 'arctan'"):
        equivalent(PAPER, "arctn", BOX)
    with pytest.raises(ValueError, match="at least 3 points"):
        equivalent(PAPER, "arctan", BOX, points=2)
    with pytest.raises(ValueError, match="separable"):
        closed_form(rotated(PAPER, 30), "arctan")
    with pytest.raises(ValueError, match="no symbolic form"):
        closed_form(PAPER, NormClip(0.1))

    class Nameless(gaf.Activation):
        @staticmethod
        def formula(xp, g):
            return g

    with pytest.raises(TypeError, match="not registered"):
        equivalent(PAPER, Nameless(), BOX)


def test_nothing_random_is_touched():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    equivalent(rotated(PAPER, 30), "arctan", BOX, points=11)
    assert torch.rand(1) == expected


def test_fit_needs_a_plane():
    with pytest.raises(ValueError, match="in the plane"):
        fit_potential(lambda w: w, Box.around(3, 1.0))
