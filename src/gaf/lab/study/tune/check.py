"""The winner once more: in full, on seeds that tuning did not use, beside other rules if wanted.

The final's interval is honest already; this is for whoever wants the evidence at length, and with Adam, other
learning rates or other functions in the same table.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gaf.common.errors import GafError
from gaf.lab.engine.config import RunConfig
from gaf.lab.study.compare import compare
from gaf.lab.study.comparison import Comparison
from gaf.lab.study.grid import Executor, Watch
from gaf.lab.study.plan import Plan
from gaf.lab.study.tune.budget import FIRST_SEEDS
from gaf.lab.study.tune.search import bare

CHECK = "check"


def plan(config: RunConfig, settings: Sequence[str], seeds: int) -> Plan:
    """What is compared: settings on the seeds 0, 1, 2, ..., which no rung and no final uses.

    Example:
        >>> from gaf.lab.study.tune.cases import hard_case
        >>> plan(hard_case(), ["adam(0.01)"], 3).seeds
        (0, 1, 2)
    """
    if seeds > FIRST_SEEDS[0]:
        raise GafError(f"tuning uses the seeds from {FIRST_SEEDS[0]} on, so check fewer")
    return Plan(bare(config), tuple(settings), tuple(range(seeds)))


def check(
    plan: Plan, folder: Path, executor: Executor, watch: Watch, command: Sequence[str]
) -> Comparison:
    """Train what is not finished yet, in a folder within the tuning's, and judge it."""
    return compare(plan, folder / CHECK, executor, watch, command)
