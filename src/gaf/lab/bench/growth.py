"""How the time of a fused SGD step grows, from what fits in the caches to what does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gaf.lab.bench.contenders import FUNCTIONS, Model, Rule, contenders
from gaf.lab.bench.limit import BYTES, kind
from gaf.lab.bench.shapes import flat
from gaf.lab.bench.timing import collect

MILLIONS = (1, 2, 5, 10, 25, 50, 100, 200)
QUICK_MILLIONS = (1, 5, 25)


@dataclass
class Growth:
    """Seconds of each rule at a size; ``bytes`` is what one step moves."""

    millions: int
    seconds: dict[Rule, list[float]] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        return self.millions * 1_000_000 * BYTES["SGD"]


def rules() -> list[Rule]:
    """Those whose growth is shown: torch's fused step, ours with f on the momentum, and the limit."""
    ours = [Rule("SGD", "gaf", "fused", f, "momentum") for f in FUNCTIONS]
    return [Rule("SGD", "torch", "fused"), *ours, Rule("SGD", kind())]


def measure(
    growth: Growth, *, repeats: int, budget: float, tick: Callable[[], None] = lambda: None
) -> None:
    """Fill ``growth`` with the seconds at its size."""
    steps = contenders("SGD", Model(flat(growth.millions)), ("fused",))
    kept = {rule: steps[rule] for rule in rules() if rule in steps}
    collect(kept, growth.seconds, repeats=repeats, budget=budget, tick=tick)
