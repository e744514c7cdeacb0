"""Definition 1 proved by sympy, for a function that comes with a symbolic form.

f(g) for g > 0 and for g < 0 are two expressions in t = |g|, a positive symbol, in which ``sign`` and
``Abs`` are gone. Parameters are positive symbols first, which proves a clause for the whole family, then
f's own values. Everything here may be undecided, which is None. sympy is imported where it is used:
the rest of gaf does without it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from gaf.functions.definition import Finding

if TYPE_CHECKING:
    from gaf.functions.base import Activation
    from gaf.functions.numeric import Samples


@dataclass(frozen=True)
class Form:
    """f(t), f(-t) and f(0) as expressions, and for which parameters they stand."""

    t: Any
    right: Any
    left: Any
    zero: Any
    scope: str = ""
    values: tuple[tuple[Any, Any], ...] = ()

    def show(self, expr: Any) -> str:
        """An expression in the parameters, with its value for those of f."""
        value = f"{float(expr.subs(self.values)):+.4g}"
        return f"{expr} = {value}" if expr.free_symbols else value

    def at_zero(self, expr: Any) -> Any:
        return _limit(expr, self.t, 0)

    def is_smooth(self) -> bool:
        return is_smooth(self.right, self.t) and is_smooth(self.left, self.t)


def prove(f: Activation, name: str) -> Finding | None:
    """Decide a clause, for all positive parameters if that can be done, else for those of f."""
    for form in forms(f):
        try:
            finding = PROOFS[name](form)
        except Exception:  # sympy raises many kinds where it cannot go on; that decides nothing
            continue
        if finding:
            return finding._replace(detail=form.scope + finding.detail)
    return None


def forms(f: Activation) -> list[Form]:
    """The symbolic form of f, with positive symbols for its parameters and with their own values."""
    import sympy

    symbolic = type(f).symbolic
    assert symbolic is not None
    t = _magnitude()

    def sides(params: list[Any]) -> tuple[Any, Any, Any]:
        right, left, zero = (symbolic(g, *params) for g in (t, -t, sympy.Integer(0)))
        return sympy.sympify(right), sympy.sympify(left), sympy.sympify(zero)

    values = [sympy.Rational(repr(value)) for value in f.params]  # 0.1 is a tenth
    own = Form(t, *sides(values))
    if not values or min(values) <= 0:
        return [own]
    symbols = [sympy.Symbol(field.name, positive=True) for field in fields(f)]
    scope = f"for all {', '.join(symbol.name for symbol in symbols)} > 0: "
    return [Form(t, *sides(symbols), scope, tuple(zip(symbols, values, strict=True))), own]


# What holds for all parameters is asked of each f of a family: the answers are kept.
@functools.cache
def _magnitude() -> Any:
    """t = |g|, the same in every form, and no symbol of the user's."""
    import sympy

    return sympy.Dummy("t", positive=True)


@functools.lru_cache(maxsize=1024)
def _limit(expr: Any, t: Any, where: Any) -> Any:
    """The limit from the right."""
    return expr.limit(t, where, "+")


def differentiable(form: Form) -> Finding | None:
    """Smooth on both sides of 0, and f, f', f'' have the same limit from both."""
    if not form.is_smooth():
        return None
    for order in range(3):
        # By the mean value theorem, equal limits of f^(k) at 0 make f^(k) continuous there, and
        # unequal ones leave f^(k) without a value.
        sides = (-1) ** order * form.left.diff(form.t, order), form.right.diff(form.t, order)
        before, after = map(form.at_zero, sides)
        middle = form.zero if order == 0 else after
        if sign(before - after) == 0 == sign(middle - after):
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
    """The sign of f' on both sides of 0, and no step down at 0."""
    if not form.is_smooth():
        return None
    slopes = sign(form.right.diff(form.t)), sign(-form.left.diff(form.t))
    if -1 in slopes:
        return Finding(False, "f' < 0 on a whole side of 0")
    steps = (
        sign(form.zero - form.at_zero(form.left)),
        sign(form.at_zero(form.right) - form.zero),
    )
    if None in slopes or None in steps or -1 in steps:
        return None
    return Finding(True, f"f' {'>=' if 0 in slopes else '>'} 0 for g != 0")


def odd(form: Form) -> Finding | None:
    """The sum f(g) + f(-g)."""
    total = form.right + form.left
    if sign(total) == 0 == sign(form.zero):
        return Finding(True, "f(-g) + f(g) = 0")
    return Finding(False, "f(-g) + f(g) is not 0") if sign(total) else None


def restraining(form: Form) -> Finding | None:
    """The limit of f(g) / g, or the sign of g - f(g) where that limit is 1."""
    import sympy

    ratio = _limit(form.right / form.t, form.t, sympy.oo)
    below = -1 if ratio == sympy.oo else sign(1 - ratio)
    if below == 1:
        return Finding(True, f"f(g) / g tends to {ratio} < 1")
    if below == -1:
        return Finding(False, f"f(g) / g tends to {ratio} > 1")
    if below == 0 and (gap := sign(form.t - form.right)) is not None:
        return Finding(gap >= 0, f"f(g) {'<=' if gap >= 0 else '>'} g for all g > 0")
    return None


def concave(form: Form) -> Finding | None:
    """The sign of f'' on both sides of 0."""
    if not form.is_smooth():
        return None
    bends = sign(form.right.diff(form.t, 2)), sign(-form.left.diff(form.t, 2))
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


def is_smooth(expr: Any, t: Any) -> bool:
    """Whether expr is visibly composed of functions smooth on t > 0; False means not known."""
    import sympy as sp

    everywhere = (sp.exp, sp.sin, sp.cos, sp.sinh, sp.cosh, sp.tanh, sp.atan, sp.asinh, sp.erf)
    if not expr.has(t):
        return expr.is_real is not False and expr.is_finite is not False
    if expr == t:
        return True
    if expr.func in (sp.Add, sp.Mul, *everywhere):
        return all(is_smooth(part, t) for part in expr.args)
    if expr.func is sp.log:
        return bool(expr.args[0].is_positive) and is_smooth(expr.args[0], t)
    if expr.func is sp.Pow and not expr.exp.has(t):
        base, power = expr.args
        whole = power.is_integer and (power.is_nonnegative or base.is_nonzero)
        return bool(whole or base.is_positive) and is_smooth(base, t)
    return False


@functools.lru_cache(maxsize=1024)
def sign(expr: Any) -> int | None:
    """The sign of expr for all t > 0 if sympy can tell, else None."""
    import sympy

    attempts = (
        lambda e: e,
        lambda e: _as_fraction(e),
        lambda e: _as_fraction(e.rewrite(sympy.exp)),
    )
    for attempt in attempts:
        tried = attempt(expr)
        for value, known in ((1, tried.is_positive), (-1, tried.is_negative), (0, tried.is_zero)):
            if known:
                return value
    return None


def _as_fraction(expr: Any) -> Any:
    """Write expr as a product of factors, with exp(x) = 1 + s, s > 0, for each x > 0 in it.

    What was a difference of exponentials is then a polynomial in s, whose signs can be read off. It
    has to be done before sympy factors: exp(0.1 t) would be a power of exp(t / 2**55) to it.
    """
    import sympy

    def size(atom: Any) -> Any:
        return abs(atom.args[0].subs(dict.fromkeys(atom.free_symbols, 1)).evalf())

    if expr.has(sympy.I):
        return expr  # sin and cos are exponentials too, but not of a real number
    bases: list[tuple[Any, Any]] = []
    replaced = {}
    for atom in sorted(expr.atoms(sympy.exp), key=lambda atom: (size(atom), str(atom))):
        x = atom.args[0]
        for base, value in bases:
            if (x / base).is_Integer and abs(x / base) <= 16:
                replaced[atom] = value ** (x / base)
                break
        else:
            s = sympy.Dummy("s", positive=True)
            value = (
                1 + s if x.is_positive or x.is_negative else s
            )  # exp(x) > 0 is all that is known
            bases.append((-x if x.is_negative else x, value))
            replaced[atom] = 1 / value if x.is_negative else value
    expr = expr.xreplace(replaced)
    powers = [power.exp for power in expr.atoms(sympy.Pow) if power.exp.is_Rational]
    if any(max(abs(power.p), power.q) > 100 for power in powers):
        return expr  # sympy would make a polynomial of that degree
    return expr.together().factor()


def agrees(f: Activation, samples: Samples) -> Finding:
    """Compare the symbolic form with the formula, over 24 decades around f's own scale."""
    import mpmath
    import sympy

    try:
        form = forms(f)[-1]
        sides = ((1, form.right), (-1, form.left))
        exact = [(side, sympy.lambdify(form.t, expr, "mpmath")) for side, expr in sides]
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
    reach = f"{1e-12 * samples.scale:.1g} to {1e12 * samples.scale:.1g}"
    return Finding(True, f"at 50 points, |g| from {reach}")
