"""The formulas of functions and loss curves in JavaScript, printed from the expressions Python uses.

Nobody writes a formula twice: a function's symbolic form, its derivative and its integral by sympy become the
code that the page runs.
"""

from __future__ import annotations

import json
from dataclasses import fields

from gaf.functions import Activation, function_type, names
from gaf.lab.landscape import closed_form
from gaf.lab.landscape.closed_form import without_overflow
from gaf.lab.theory.problems import Separable, quadratic

PARAMETERS = ("alpha", "beta")  # what the page has sliders for


def functions() -> str:
    """``{name: {field, slope, potential}}`` of the functions, each part of (t, alpha, beta) for t >= 0.

    A registered function is on the page if it has a symbolic form and the parameters alpha and beta.
    """
    known = (function_type(name) for name in names())
    entries = [_function(each()) for each in known if _is_drawable(each)]
    return "{\n" + ",\n".join(entries) + "\n}"


def curves(losses: dict[str, Separable]) -> str:
    """``{name: slope of w}`` of losses of one parameter."""
    import sympy

    w = sympy.Symbol("w", real=True)
    entries = []
    for name, loss in losses.items():
        slope = sympy.diff(loss.symbolic([w])[0], w)
        entries.append(f"{json.dumps(name)}: (w) => {_code(slope)}")
    return "{\n" + ",\n".join(entries) + "\n}"


def _is_drawable(kind: type[Activation]) -> bool:
    return kind.symbolic is not None and tuple(each.name for each in fields(kind)) == PARAMETERS


def _function(f: Activation) -> str:
    import sympy

    t = sympy.Symbol("t", positive=True)
    symbols = [sympy.Symbol(name, positive=True) for name in PARAMETERS]
    form = type(f).symbolic
    assert form is not None
    field = form(t, *symbols)
    # the equivalent loss of w²/2 is the potential itself
    potential = without_overflow(closed_form(quadratic([1.0]), f).sides[0][0])
    # 1 - tanh(x)² is 0 in floats long before it is; sympy's shorter form 1 / cosh(x)² is not
    slope = sympy.simplify(sympy.diff(field, t))
    parts = {"field": field, "slope": slope, "potential": potential}
    arguments = ", ".join(("t", *PARAMETERS))
    printed = (f"{name}: ({arguments}) => {_code(part)}" for name, part in parts.items())
    return f"{json.dumps(f.name)}: {{ {', '.join(printed)} }}"


def _code(expression: object) -> str:
    """An expression as JavaScript, on one line."""
    import sympy

    return " ".join(str(sympy.jscode(expression)).split())
