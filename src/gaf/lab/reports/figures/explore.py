"""The page to play with: one HTML file that asks nobody for anything.

Nobody writes a formula twice: what the scripts in ``templates/`` compute with is printed as JavaScript from
the expressions that Python uses: a function's symbolic form, its derivative and its integral by sympy.
"""

from __future__ import annotations

import json

from markupsafe import Markup

from gaf.functions import PAPER, Activation, Arctan
from gaf.lab.landscape import closed_form
from gaf.lab.landscape.closed_form import without_overflow
from gaf.lab.reports import html
from gaf.lab.reports.figures.base import Settings
from gaf.lab.reports.figures.losses import CURVATURE, CURVES, REACH
from gaf.lab.theory.problems import Separable, quadratic

STEPS, MOMENTUM = 60, 0.7  # what the sliders begin with
SADDLE_RADIUS = 0.058  # of the box where arctan(0.1, 20) enlarges every gradient of the saddle
PARAMETERS = ("alpha", "beta")  # what the page has sliders for


def page(settings: Settings, scene: str = "bowl") -> str:
    """The page, opened on a scene: bowl, saddle or curves."""
    f = Arctan(settings.alpha, settings.beta)
    first = {
        "alpha": settings.alpha,
        "beta": settings.beta,
        "norm": settings.norm,
        "steps": STEPS,
        "momentum": MOMENTUM,
    }
    generated = {
        "FUNCTIONS": functions(),
        "CURVES": curves(CURVES),
        "REACH": json.dumps(REACH),
        "SADDLE": json.dumps(f.crossover / CURVATURE if f.slope > 1 else SADDLE_RADIUS),
        "FIRST": json.dumps(first),
        "OPEN": json.dumps(scene),
    }
    code = Markup("".join(f"const {name} = {text};\n" for name, text in generated.items()))
    return html.render("explore.html.jinja", scripts=(code, "surface.js", "explore.js"))


def functions() -> str:
    """``{name: {field, slope, potential}}`` of the paper's functions, each part of (t, alpha, beta)."""
    entries = [_function(kind()) for kind in sorted(PAPER, key=lambda kind: kind.name)]
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
