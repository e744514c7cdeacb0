"""Definition 1 proved by sympy, for a function that comes with a symbolic form.

f(g) for g > 0 and for g < 0 are two expressions in t = |g|, a positive symbol, in which ``sign`` and
``Abs`` are gone. Parameters are positive symbols first, which proves a clause for the whole family, then
f's own values. Everything here may be undecided, which is None.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import mpmath
import sympy

from gaf.functions.definition import Finding
from gaf.functions.numeric import Samples

if TYPE_CHECKING:
    from gaf.functions.base import Activation

T = sympy.Dummy("t", positive=True)
ENTIRE = (sympy.exp, sympy.sin, sympy.cos, sympy.sinh, sympy.cosh, sympy.tanh, sympy.atan)
ENTIRE += (sympy.asinh, sympy.erf)


@dataclass(frozen=True)
class Form:
    """f(t), f(-t) and f(0) as expressions, and for which parameters."""

    right: Any
    left: Any
    zero: Any
    scope: str
    values: dict[Any, Any]

    def show(self, expr: Any) -> str:
        value = f"{float(expr.subs(self.values)):+.4g}"
        return f"{expr} = {value}" if expr.free_symbols else value


def prove(f: Activation, name: str) -> Finding | None:
    """Decide a clause, for all positive parameters if that can be done, else for those of f."""
    for form in forms(f):
        try:
            found = PROOFS[name](form)
        except Exception:  # sympy raises many kinds where it cannot go on; that decides nothing
            continue
        if found:
            return found._replace(detail=form.scope + found.detail)
    return None


def forms(f: Activation) -> list[Form]:
    """The symbolic form of f, with positive symbols for its parameters and with their own values."""
    values = [sympy.Rational(value) for value in f.params]
    symbols = [sympy.Symbol(field.name, positive=True) for field in fields(f)]
    names = ", ".join(symbol.name for symbol in symbols)
    own = _form(f, values, "", {})
    if not values or min(f.params) <= 0:
        return [own]
    scope = f"for all {names} > 0: "
    return [_form(f, symbols, scope, dict(zip(symbols, values, strict=True))), own]


def _form(f: Activation, params: list[Any], scope: str, values: dict[Any, Any]) -> Form:
    right, left, zero = (type(f).symbolic(g, *params) for g in (T, -T, sympy.Integer(0)))  # type: ignore[misc]
    return Form(*map(sympy.sympify, (right, left, zero)), scope, values)


def differentiable(form: Form) -> Finding | None:
    if not (is_smooth(form.right) and is_smooth(form.left)):
        return None
    for order in range(3):
        # with the mean value theorem, equal limits of f^(k) at 0 make f^(k) continuous there, and
        # unequal ones leave f^(k) without a value
        sides = (-1) ** order * form.left.diff(T, order), form.right.diff(T, order)
        before, after = (sympy.limit(side, T, 0, "+") for side in sides)
        middle = form.zero if order == 0 else after
        if is_zero(before - after) and is_zero(middle - after):
            continue
        which = "f" + "'" * order
        if before.is_infinite or after.is_infinite:
            return Finding(False, f"{which} grows without bound at 0; smooth elsewhere", 0.0)
        if not (sign(before - after) or sign(middle - after)):
            return None
        jump = f"{which} jumps from {form.show(before)} to {form.show(after)} at 0"
        return Finding(False, f"{jump}; smooth elsewhere", 0.0)
    return Finding(True, "f, f' and f'' are continuous")


def increasing(form: Form) -> Finding | None:
    if not (is_smooth(form.right) and is_smooth(form.left)):
        return None
    slopes = sign(form.right.diff(T)), sign(-form.left.diff(T))
    if -1 in slopes:
        return Finding(False, "f' < 0 on a whole side of 0")
    ends = [sympy.limit(side, T, 0, "+") for side in (form.left, form.right)]
    steps = sign(form.zero - ends[0]), sign(ends[1] - form.zero)
    if None in slopes or None in steps or -1 in steps:
        return None
    return Finding(True, "f' > 0 for g != 0" if 0 not in slopes else "f' >= 0 for g != 0")


def odd(form: Form) -> Finding | None:
    total = form.right + form.left
    if is_zero(total) and is_zero(form.zero):
        return Finding(True, "f(-g) + f(g) = 0")
    return Finding(False, "f(-g) + f(g) is not 0") if sign(total) else None


def restraining(form: Form) -> Finding | None:
    ratio = sympy.limit(form.right / T, T, sympy.oo)
    beyond = -1 if ratio == sympy.oo else sign(1 - ratio)
    if beyond == 1:
        return Finding(True, f"f(g) / g tends to {ratio} < 1")
    if beyond == -1:
        return Finding(False, f"f(g) / g tends to {ratio} > 1")
    if beyond == 0 and (below := sign(T - form.right)) is not None:
        return Finding(below >= 0, f"f(g) {'<=' if below >= 0 else '>'} g for all g > 0")
    return None


def concave(form: Form) -> Finding | None:
    if not (is_smooth(form.right) and is_smooth(form.left)):
        return None
    bends = sign(form.right.diff(T, 2)), sign(-form.left.diff(T, 2))
    if bends == (-1, -1):
        return Finding(True, "f'' < 0 for g > 0 and f'' > 0 for g < 0")
    if 1 in bends or 0 in bends:
        return Finding(False, f"f'' {'has the sign of g' if 1 in bends else '= 0'} on a side of 0")
    return None


PROOFS = {
    "differentiable": differentiable,
    "increasing": increasing,
    "odd": odd,
    "restraining": restraining,
    "concave": concave,
}


def is_smooth(expr: Any) -> bool:
    """Whether expr is visibly composed of functions smooth on t > 0; False means not known."""
    if not expr.has(T):
        return expr.is_real is not False and expr.is_finite is not False
    if expr == T:
        return True
    if expr.func in (sympy.Add, sympy.Mul) or expr.func in ENTIRE:
        return all(is_smooth(part) for part in expr.args)
    if expr.func is sympy.log:
        return bool(expr.args[0].is_positive) and is_smooth(expr.args[0])
    if expr.func is sympy.Pow and not expr.exp.has(T):
        base, power = expr.args
        whole = power.is_integer and (power.is_nonnegative or base.is_nonzero)
        return bool(whole or base.is_positive) and is_smooth(base)
    return False


def is_zero(expr: Any) -> bool:
    return sympy.simplify(expr) == 0


def sign(expr: Any) -> int | None:
    """The sign of expr for all t > 0 if sympy can tell, else None."""
    for attempt in (lambda e: e, lambda e: sympy.factor(sympy.together(e)), _by_exponentials):
        expr = attempt(expr)
        for value, known in ((1, expr.is_positive), (-1, expr.is_negative), (0, expr.is_zero)):
            if known:
                return value
    return None


def _by_exponentials(expr: Any) -> Any:
    """Rewrite expr with exp(x) = 1 + s, s > 0, for x > 0: what was a difference is then a sum."""
    expr = expr.rewrite(sympy.exp)
    powers = {atom.args[0] for atom in expr.atoms(sympy.exp)}
    powers = {abs(x) for x in powers if x.is_positive or x.is_negative}
    for x in sorted(powers, key=lambda x: (x.count_ops(), str(x))):
        expr = expr.subs(sympy.exp(x), 1 + sympy.Dummy("s", positive=True))
    return sympy.factor(sympy.together(expr))


def agrees(f: Activation, samples: Samples) -> Finding:
    """Compare the symbolic form with the formula, over 24 decades around f's own scale."""
    try:
        form = forms(f)[-1]
        sides = ((1, form.right), (-1, form.left))
        exact = [(side, sympy.lambdify(T, expr, "mpmath")) for side, expr in sides]
        for decade in sorted(range(-12, 13), key=abs):
            t = samples.scale * 1.37 * 10.0**decade
            for side, value in exact:
                with mpmath.workdps(60):  # enough for what cancels 12 decades from the scale
                    expected = value(mpmath.mpf(t))
                    error = abs(mpmath.mpf(f(side * t)) - expected)
                    allowed = 1e-9 * abs(expected) + 1e-12 * samples.size
                if not (error <= allowed or abs(expected) > 1e300):
                    detail = f"formula {f(side * t):.9g}, symbolic form {float(expected):.9g}"
                    return Finding(False, detail, side * t)
    except Exception as error:  # what the user's form raises, or sympy on it, is the finding
        return Finding(False, f"{type(error).__name__}: {error}")
    return Finding(True, f"at 50 points, |g| from {1e-12 * samples.scale:.1g} to {1e12 * samples.scale:.1g}")
