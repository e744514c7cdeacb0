"""What a suite will cost: runs that are not recorded yet, times the seconds of one, measured here."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gaf.lab.data import DataError
from gaf.lab.engine.config import RunConfig, override
from gaf.lab.engine.run import train
from gaf.lab.study import pool
from gaf.lab.study.atlas.atlas import Places
from gaf.lab.study.atlas.records import RunRecords
from gaf.lab.study.atlas.suite import AtlasProblem, Suite
from gaf.lab.tasks import load_task

TIMED_STEPS = 20


@dataclass(frozen=True)
class ProblemCost:
    """Of a problem: the least number of runs, how many have a record, and what the others take.

    ``seconds`` are those of a run, without its evaluations; None where its data is not here. ``measured`` on
    recorded runs, or on a few steps of the baseline now. Grids that grow and windows that are refined take
    some more runs.
    """

    problem: str
    rules: int
    runs: int
    recorded: int
    steps: int | None
    seconds: float | None
    measured: str

    @property
    def left(self) -> float | None:
        """Seconds of one worker."""
        if self.seconds is None:
            return None
        return max(0, self.runs - self.recorded) * self.seconds


def costs(
    suite: Suite,
    problems: Sequence[AtlasProblem],
    rules: Sequence[str],
    places: Places,
    say: Callable[[str], None] = lambda text: None,
) -> list[ProblemCost]:
    """Of each problem."""
    return [_cost(suite, problem, rules, places, say) for problem in problems]


def _cost(
    suite: Suite,
    problem: AtlasProblem,
    rules: Sequence[str],
    places: Places,
    say: Callable[[str], None],
) -> ProblemCost:
    plan = suite.plan(problem, rules)
    names = {entry.name for entry in plan.entries()}
    records = RunRecords(places.runs(problem)).runs.values()
    ended = [record for record in records if record.setting in names]
    whole = [record for record in ended if not record.diverged]
    steps: int | None
    seconds: float | None
    if whole:
        seconds = statistics.median(record.steps * record.seconds_per_step for record in whole)
        steps, measured = max(record.steps for record in whole), f"{len(whole)} recorded runs"
    else:
        say(f"timing {TIMED_STEPS} steps of {problem.name}")
        steps, seconds, measured = _timed(plan.base)
    return ProblemCost(
        problem=problem.name,
        rules=len(names),
        runs=sum(plan.least_runs()),
        recorded=len(ended),
        steps=steps,
        seconds=seconds,
        measured=measured,
    )


def _timed(config: RunConfig) -> tuple[int | None, float | None, str]:
    """The steps and seconds of a run, from the first steps of the baseline."""
    try:
        samples = len(load_task(config.task).training_part())
        short = override(config, [f"iterations={TIMED_STEPS}", "evaluate_every=0"])
        with tempfile.TemporaryDirectory() as folder:
            began, used = time.perf_counter(), time.process_time()
            result = train(short, Path(folder) / "run")
            # the share of a core that this process had: what else the machine does is no cost of a run
            share = (time.process_time() - used) / (time.perf_counter() - began)
    except DataError as error:
        return None, None, str(error)
    steps = config.iterations or (config.epochs or 0) * -(-samples // config.batch_size)
    on_cpu = not pool.gpus(config)
    seconds = steps * result.seconds_per_step * (min(1.0, share) if on_cpu else 1.0)
    return steps, seconds, f"{TIMED_STEPS} steps"
