"""The equivalent loss of a separable loss in closed form, by sympy.

    E(w) = Σ e(w_n),   e(w) = ∫ f(L_n'(s)) ds from 0 to w

Each coordinate is integrated on both sides of 0 in t = |w|, a positive symbol, in which the sign and the
absolute value of a gradient are gone: e(t), and e(−t) = −∫ f(L_n'(−s)) ds from 0 to t.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from gaf.common.errors import GafError
from gaf.functions import Activation
from gaf.lab.theory.fields import Activated, Identity, Transform, ValueClip, as_transform
from gaf.lab.theory.problems import Separable, as_points

LIMIT = "c"  # how formulas call the limit of a clipping


@dataclass(frozen=True)
class ClosedForm:
    """The equivalent loss as a formula: call it with points, (..., n) to (...), or print ``latex``.

    ``sides`` are the terms for w >= 0 and w < 0 of each coordinate, sympy expressions in t = |w|.
    """

    sides: tuple[tuple[Any, Any], ...]
    latex: str
    _functions: tuple[tuple[Callable[[Tensor], Tensor], ...], ...]

    def __call__(self, w: Tensor) -> Tensor:
        columns = as_points(w, len(self.sides)).unbind(-1)
        terms = []
        for x, (right, left) in zip(columns, self._functions, strict=True):
            t = torch.where(x >= 0, x, -x)
            terms.append(torch.where(x >= 0, right(t), left(t)))
        return torch.stack(terms).sum(0)


def closed_form(loss: Separable, transform: Transform | Activation | str | None) -> ClosedForm:
    r"""Integrate the transformed gradient of a separable loss.

    Quadratics take a second. Of other losses sympy may need minutes or find nothing:
    :class:`gaf.lab.landscape.Quadrature` integrates any of them.

    Args:
        loss: a separable loss.
        transform: an element-wise transform: a function with a symbolic form, its name, value
            clipping, or None.

    Example:
        >>> from gaf.lab.theory.problems import PAPER
        >>> form = closed_form(PAPER, "tanh(0.1, 20)")
        >>> form(torch.tensor([1.0, 1.0]))
        tensor(0.1896, dtype=torch.float64)
        >>> print(closed_form(PAPER, None).latex)
        w_{1}^{2} + \frac{w_{2}^{2}}{5}
    """
    import sympy

    transform = as_transform(transform)
    if not isinstance(loss, Separable):
        raise GafError("a closed form needs a separable loss; use Quadrature for any other")
    t = sympy.Symbol("t", positive=True)
    apply, values = _symbolic(transform)
    sides = []
    for x, term in _terms(loss):
        slope = sympy.diff(term, x)
        linear = sympy.diff(slope, x, 2) == 0
        both = apply(slope.subs(x, t)), -apply(slope.subs(x, -t))
        integrals = {integrand: _integral(integrand, t, linear) for integrand in both}
        if not all(_is_integral(*pair, t, values) for pair in integrals.items()):
            raise GafError(
                f"sympy finds no closed form for {transform.name} on this loss: use Quadrature instead"
            )
        sides.append((integrals[both[0]], integrals[both[1]]))
    functions = tuple(
        tuple(_compiled(t, expr.subs(values)) for expr in both)  # type: ignore[misc]
        for both in sides
    )
    return ClosedForm(tuple(sides), _latex(t, sides), functions)


def _terms(loss: Separable) -> list[tuple[Any, Any]]:
    import sympy

    symbols = sympy.symbols(f"w_1:{loss.dimension + 1}", real=True)
    return list(zip(symbols, loss.symbolic(symbols), strict=True))


def _symbolic(transform: Transform) -> tuple[Callable[[Any], Any], dict[Any, Any]]:
    """A transform over sympy expressions, and the values of the parameters it is written with."""
    import sympy

    if isinstance(transform, Identity):
        return lambda g: g, {}
    if isinstance(transform, ValueClip):
        c = sympy.Symbol(LIMIT, positive=True)
        clip = {c: sympy.Rational(repr(float(transform.limit)))}
        return lambda g: sympy.Piecewise((g, abs(g) < c), (c * sympy.sign(g), True)), clip
    if isinstance(transform, Activated) and type(transform.f).symbolic is not None:
        f, form = transform.f, type(transform.f).symbolic
        assert form is not None
        symbols = [
            sympy.Symbol(field.name, positive=value > 0, real=True)
            for field, value in zip(fields(f), f.params, strict=True)
        ]
        values = [sympy.Rational(repr(value)) for value in f.params]  # 0.1 is a tenth
        return lambda g: form(g, *symbols), dict(zip(symbols, values, strict=True))
    raise GafError(
        f"{transform.name} has no symbolic form to integrate; use Quadrature, or fit_potential for a "
        "field that is no gradient"
    )


@functools.lru_cache(maxsize=256)  # the parameters are symbols: one integral for a whole family
def _integral(integrand: Any, t: Any, linear: bool) -> Any:
    """The integral from 0 to t as sympy finds it."""
    import sympy

    # Integration by the steps people take finds the forms they write, but only of a linear gradient.
    integral = sympy.sympify(sympy.integrate(integrand, t, manual=linear))
    if integral.has(sympy.Integral):
        return integral
    if integral.has(sympy.Piecewise):
        return sympy.piecewise_fold(integral - integral.subs(t, 0))
    integral = integral - integral.limit(t, 0, "+")
    return sympy.expand(integral) if linear else integral


def _is_integral(integrand: Any, integral: Any, t: Any, values: dict[Any, Any]) -> bool:
    """Whether an integral was found, and differentiates back to the integrand.

    The second is no formality: sympy 1.14 loses a term of ∫ log(1 + βt³) dt for a symbol β > 0.
    """
    import sympy

    if integral.has(sympy.Integral):
        return False
    error = (sympy.diff(integral, t) - integrand).subs(values)
    size = integrand.subs(values)
    points = [sympy.Rational(3, 7) * sympy.Rational(10) ** k for k in range(-4, 3)]
    return all(
        abs(error.subs(t, x).evalf(30)) <= 1e-12 * abs(size.subs(t, x).evalf(30)) for x in points
    )


def _is_for_floats(part: Any) -> bool:
    """Whether torch cannot take a number as it is: a root such as 2^(1/3), or an integer beyond int64."""
    if not part.is_number:
        return False
    return not part.is_Number or (part.is_Rational and max(abs(part.p), part.q) > 2**53)


def without_overflow(expr: Any) -> Any:
    """The form to compute with: ln cosh(x) as x + ln(1 + exp(-2x)) - ln 2, as cosh(711) is too large."""
    import sympy

    def is_log_cosh(part: Any) -> bool:
        return isinstance(part, sympy.log) and isinstance(part.args[0], sympy.cosh)

    def spread(part: Any) -> Any:
        x = part.args[0].args[0]
        return x + sympy.log(1 + sympy.exp(-2 * x)) - sympy.log(2)

    return expr.replace(is_log_cosh, spread)


def _compiled(t: Any, expr: Any) -> Callable[[Tensor], Tensor]:
    """An expression over tensors; a constant becomes a tensor too."""
    import sympy

    expr = without_overflow(expr)
    expr = expr.replace(_is_for_floats, lambda part: part.evalf(17))
    function = sympy.lambdify(t, expr, modules="torch")
    return lambda x: function(x) + torch.zeros_like(x)


def _latex(t: Any, sides: list[tuple[Any, Any]]) -> str:
    """The sum over the coordinates, without absolute values where the form is even as it stands."""
    import sympy

    total, apart = sympy.Integer(0), []
    for number, (right, left) in enumerate(sides, start=1):
        w = sympy.Symbol(f"w_{number}", real=True)
        x = sympy.Dummy("x", real=True)
        if right == left and right.subs(t, x) == right.subs(t, -x):
            total += right.subs(t, w)
        elif right == left:
            total += right.subs(t, abs(w))
        else:
            apart.append(sympy.Piecewise((right.subs(t, w), w >= 0), (left.subs(t, -w), True)))
    shown = [sympy.latex(part, ln_notation=True) for part in apart]
    if total != 0 or not shown:
        shown.insert(0, sympy.latex(total, ln_notation=True))
    return " + ".join(shown)
