"""How long the races are, so that tuning costs at most a tenth of running all its candidates in full.

A good setting can sit at chance for the first tenth of a training, and a race that ends there misranks it. So
no race is shorter than a fifth of the training, and each has the whole schedule squeezed into its length.

    probe                                 a twentieth of the training
    first rung    all candidates          a fifth of it, one seed
    second rung   one in twelve           two fifths, two other seeds
    final         the best, its matched control, the baseline: the whole training, five other seeds

Everything is counted in steps of the optimizer. In full would be: each candidate over the final's seeds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from gaf.common.errors import GafError
from gaf.lab.engine.config import RunConfig

FIRST, SECOND = 0.2, 0.4  # of the training
FIRST_SEEDS, SECOND_SEEDS = (1000,), (1001, 1002)
FINAL_SEEDS = (1003, 1004, 1005, 1006, 1007)  # seeds below 1000 stay fresh for whoever checks
FINALISTS = 3  # the best candidate, its matched control, the baseline
KEPT = 12  # one in so many goes on to the second rung
CANDIDATES = (72, 64, 48, 40, 32, 24, 20, 16)
MOST = 0.1  # of running all candidates in full
WHOLE, LEAST = 0.5, 0.2  # of the training: a final to be content with, and the shortest


@dataclass(frozen=True)
class Budget:
    """Steps and numbers of a search."""

    total: int  # steps of the whole training
    probe: int
    candidates: int
    kept: int
    first: int
    second: int
    final: int

    @property
    def cost(self) -> int:
        """Steps in all, if no run diverges."""
        rungs = self.candidates * len(FIRST_SEEDS) * self.first
        rungs += self.kept * len(SECOND_SEEDS) * self.second
        return self.probe + rungs + FINALISTS * len(FINAL_SEEDS) * self.final

    @property
    def in_full(self) -> int:
        """Steps of training every candidate to the end over the final's seeds."""
        return self.candidates * len(FINAL_SEEDS) * self.total


def plan(total: int, probe: int, steps: int | None = None) -> Budget:
    """The largest search within so many steps (unset: as many as the tenth allows).

    Args:
        total: steps of the whole training.
        probe: steps that the probe took.
        steps: what may be spent, the probe included.

    Raises:
        GafError: it is too small for the smallest search, or the training too short for any.

    Example:
        >>> budget = plan(1140, 57)
        >>> budget.candidates, budget.final, f"{budget.cost / budget.in_full:.3f}"
        (72, 1140, '0.095')
    """
    plans = _plans(total, probe, steps)
    if not plans and not _plans(total, probe, None):
        raise GafError(
            f"a training of so few steps ({total}) cannot be tuned: races last whole steps, so they cost "
            f"more than {MOST:.0%} of running all candidates in full; train for more epochs or iterations"
        )
    if not plans:
        smallest = _needed(CANDIDATES[-1], total, probe)
        raise GafError(
            f"a budget of {steps} steps is too small for one race, which takes {smallest} here: "
            f"give {math.ceil(smallest / total * 10) / 10:g} times the length of the training or more"
        )
    content = [budget for budget in plans if budget.final >= WHOLE * total]
    return content[0] if content else max(plans, key=lambda budget: budget.final)


def _plans(total: int, probe: int, steps: int | None) -> list[Budget]:
    """Those that fit, the one with most candidates first."""
    return [budget for n in CANDIDATES if (budget := _within(n, total, probe, steps))]


def _within(candidates: int, total: int, probe: int, steps: int | None) -> Budget | None:
    kept = max(2, candidates // KEPT)
    lengths = math.ceil(FIRST * total), math.ceil(SECOND * total)
    empty = Budget(total, probe, candidates, kept, *lengths, final=0)
    cap = math.floor(MOST * empty.in_full)
    left = min(cap, cap if steps is None else steps) - empty.cost
    final = min(total, left // (FINALISTS * len(FINAL_SEEDS)))
    if final < LEAST * total:
        return None
    return Budget(total, probe, candidates, kept, *lengths, final=final)


def _needed(candidates: int, total: int, probe: int) -> int:
    """Steps of the smallest search with so many candidates."""
    kept = max(2, candidates // KEPT)
    lengths = math.ceil(FIRST * total), math.ceil(SECOND * total)
    return Budget(total, probe, candidates, kept, *lengths, final=math.ceil(LEAST * total)).cost


def squeezed(config: RunConfig, steps: int, total: int) -> RunConfig:
    """The same training in fewer steps: warm-up, milestones and decay shrink with it."""
    if steps == total:
        return config
    share = steps / total
    schedule = config.schedule.model_copy(
        update={
            "warmup": config.schedule.warmup * share,
            "milestones": tuple(epoch * share for epoch in config.schedule.milestones),
        }
    )
    return config.model_copy(update={"schedule": schedule, "epochs": None, "iterations": steps})
