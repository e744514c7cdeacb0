"""The page to play with: one HTML file that asks nobody for anything.

plotly.js, the style and the code stand in the file, and its policy lets these scripts run and nothing be
loaded. The code is in ``page/``; what it needs to know of Python's formulas and settings is generated here.
"""

from __future__ import annotations

import json
from importlib.resources import files

from gaf.functions import Arctan
from gaf.lab.reports.figures import formulas
from gaf.lab.reports.figures.base import Settings
from gaf.lab.reports.figures.figure_2 import CURVATURE
from gaf.lab.reports.figures.figure_4 import CURVES, REACH
from gaf.lab.reports.html import policy, script_safe

PARTS = files("gaf.lab.reports.figures") / "page"
STEPS, MOMENTUM = 60, 0.7  # what the sliders begin with
SADDLE_RADIUS = 0.058  # of the box where arctan(0.1, 20) enlarges every gradient of the saddle


def page(settings: Settings, scene: str = "bowl") -> str:
    """The page, opened on a scene: bowl, saddle or curves."""
    from plotly.offline import get_plotlyjs

    f = Arctan(settings.alpha, settings.beta)
    first = {
        "alpha": settings.alpha,
        "beta": settings.beta,
        "norm": settings.norm,
        "steps": STEPS,
        "momentum": MOMENTUM,
    }
    generated = {
        "FUNCTIONS": formulas.functions(),
        "CURVES": formulas.curves(CURVES),
        "REACH": json.dumps(REACH),
        "SADDLE": json.dumps(f.crossover / CURVATURE if f.slope > 1 else SADDLE_RADIUS),
        "FIRST": json.dumps(first),
        "OPEN": json.dumps(scene),
    }
    scripts = {
        "plotly": get_plotlyjs(),
        "generated": "".join(f"const {name} = {code};\n" for name, code in generated.items()),
        "surface": _read("surface.js"),
        "explore": _read("explore.js"),
    }
    scripts = {name: script_safe(code) for name, code in scripts.items()}
    parts = {**scripts, "css": _read("explore.css"), "policy": policy(*scripts.values())}
    # Split once, so that nothing in a part can be taken for the place of another.
    text, *rest = _read("explore.html").split("@")
    for name, after in zip(rest[::2], rest[1::2], strict=True):
        text += parts[name] + after
    return text


def _read(name: str) -> str:
    return (PARTS / name).read_text("utf-8")
