"""Run what a table lacks, and put what came of it beside the paper's numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from gaf.common.errors import GafError
from gaf.lab import data
from gaf.lab.engine import folder as folders
from gaf.lab.engine.config import RunConfig
from gaf.lab.study import results
from gaf.lab.study.grid import (
    RUNS,
    Executor,
    Outcome,
    Stopped,
    Watch,
    check_place,
    digest,
    machine,
    places,
    run_grid,
)
from gaf.lab.study.judge import at_chance, differences
from gaf.lab.study.protocol import Judgement, judge_pair
from gaf.lab.study.recipes import paper
from gaf.lab.study.results import Beside, Filled, FilledCell, Scores
from gaf.lab.study.statistics import deviation, mean, share_a_seed
from gaf.lab.study.table.plan import TABLES, CellPlan, TablePlan, make, seeded

PERCENT = 100.0  # the paper's unit; our scores are shares


def fill(
    plan: TablePlan,
    folder: Path,
    executor: Executor,
    watch: Watch | None = None,
    command: Sequence[str] = (),
) -> Filled:
    """Run what is not finished yet in the folder, and write ``table.json`` there.

    Raises:
        GafError: the folder holds something else.
        Stopped: a signal came; ``table.json`` holds what there is, and the same call resumes.
    """
    check_folder(folder, plan)
    watch = watch or Watch()
    # a row for each model: with all settings a live table would be longer than a screen
    watch.settings({digest(run): f"{run.task.model} on {run.task.data}" for run in plan.runs()})
    with folders.locked(folder):
        try:
            outcomes = run_grid(plan.runs(), folder / RUNS, executor, watch)
        except Stopped:
            results.write(conclude(plan, folder, so_far(plan, folder), command), folder)
            raise
        filled = conclude(plan, folder, outcomes, command)
        results.write(filled, folder)
    return filled


def check_folder(folder: Path, plan: TablePlan) -> None:
    """Refuse a folder that holds something else; parts of one table, at any scale, may share one."""
    check_place(folder, Filled.noun, Filled.file)
    if (folder / Filled.file).is_file():
        name = results.read(folder, Filled).name
        if name != plan.name:
            raise GafError(f"{folder} holds the table {name}; choose another folder")


def so_far(plan: TablePlan, folder: Path) -> dict[str, Outcome]:
    """The runs of a plan that are finished, by digest."""
    at = places(plan.runs(), folder / RUNS)
    return {key: outcome for key, place in at.items() if (outcome := place.finished())}


def conclude(
    plan: TablePlan, folder: Path, outcomes: Mapping[str, Outcome], command: Sequence[str] = ()
) -> Filled:
    """The table from the outcomes there are, by digest."""
    ended = [outcome.result for outcome in outcomes.values() if outcome.result]
    higher_is_better = all(result.higher_is_better for result in ended)
    cells = [RunCell(plan, entry, folder, outcomes) for entry in plan.entries]
    baselines = {
        (cell.entry.cell.data, cell.entry.cell.row): cell
        for cell in cells
        if cell.entry.cell.column == paper.WITHOUT
    }
    pairs: dict[tuple[int, str], Judgement] = {}
    lines: list[dict[str, Any]] = []
    for place, cell in enumerate(cells):
        printed = cell.entry.cell
        baseline = baselines[printed.data, printed.row]
        if cell is not baseline:
            for against, other in (("baseline", baseline.ours), ("control", cell.control)):
                if other and share_a_seed(cell.ours.values, other.values):
                    pairs[place, against] = judge_pair(
                        (cell.ours.values, None), (other.values, None), higher_is_better, 0
                    )
        lines.append(
            {
                "data": printed.data,
                "model": printed.row,
                "setting": printed.column,
                "paper": printed.score,
                "paper_gain": _paper_gain(plan, printed),
                "ours": cell.ours,
                "control": cell.control,
                "beside": cell.beside(),
                # where neither it nor the training without f learned anything, differences are noise
                "learned": not at_chance([*cell.results, *baseline.results]),
            }
        )
    judged = differences(pairs)
    subsets = stand_ins(plan)
    caption = _caption(plan, subsets)
    return Filled(
        name=plan.name,
        title=f"Table {TABLES[plan.name].number}: {caption}",
        caption=caption,
        scale=plan.scale,
        placement=plan.placement,
        seeds=plan.seeds,
        score_name=ended[0].score_name if ended else "score",
        about=about(plan, subsets, any(line["learned"] for line in lines)),
        changes=plan.changes,
        lines=tuple(
            FilledCell(
                **line,
                gain=judged.get((place, "baseline")),
                beyond=judged.get((place, "control")),
            )
            for place, line in enumerate(lines)
        ),
        comparisons=len(pairs),
        command=tuple(command),
        environment=machine(ended[0].folder) if ended else {},
        created=results.now(),
    )


class RunCell:
    """What came of the runs of a cell."""

    def __init__(
        self, plan: TablePlan, entry: CellPlan, folder: Path, outcomes: Mapping[str, Outcome]
    ) -> None:
        self.entry, self._plan, self._folder, self._outcomes = entry, plan, folder, outcomes
        self.results = [
            outcome.result
            for outcome in self._by_seed(entry.config).values()
            if outcome and outcome.result
        ]
        self.ours = self._scores(entry.config)
        self.control = self._scores(entry.control) if entry.control else None

    def _by_seed(self, config: RunConfig) -> dict[int, Outcome | None]:
        return {seed: self._outcomes.get(digest(seeded(config, seed))) for seed in self._plan.seeds}

    def _scores(self, config: RunConfig) -> Scores:
        by_seed = self._by_seed(config)
        ended = {seed: outcome for seed, outcome in by_seed.items() if outcome}
        results = {seed: outcome.result for seed, outcome in ended.items() if outcome.result}
        values = {seed: PERCENT * result.score for seed, result in results.items()}
        return Scores(
            recipe=config.name,
            values=tuple(values.get(seed) for seed in by_seed),
            mean=mean(list(values.values())) if values else None,
            std=deviation(list(values.values())),
            diverged=sum(result.diverged for result in results.values()),
            failed={seed: ended[seed].error for seed in ended if seed not in results},
            not_run=tuple(seed for seed in by_seed if seed not in ended),
            folders={
                seed: outcome.folder.relative_to(self._folder).as_posix()
                for seed, outcome in ended.items()
            },
        )

    def beside(self) -> dict[str, Beside]:
        """The cell's other figures, by the names that the engine has for them."""
        cell = self.entry.cell
        printed = {} if cell.top5 is None else {"top5": cell.top5}
        printed |= dict(zip((f"AP/{name}" for name in paper.VOC_CLASSES), cell.ap, strict=False))
        figures = {}
        for name, number in printed.items():
            ours = [PERCENT * one.final[name] for one in self.results if name in one.final]
            figures[name] = Beside(paper=number, ours=mean(ours) if ours else None)
        return figures


def _paper_gain(plan: TablePlan, cell: paper.Cell) -> float | None:
    if cell.column == paper.WITHOUT:
        return None
    without = TABLES[plan.name].cells[cell.data, cell.row, paper.WITHOUT]
    return round(cell.score - without.score, 2)


def stand_ins(plan: TablePlan) -> dict[str, str]:
    """In words, by name, the data that is trained on where the whole dataset is not on this machine."""
    subsets = {}
    for task in {entry.config.task.data: entry.config.task for entry in plan.entries}.values():
        root: Any = task.data_options.get("root")
        with suppress(data.DataError):  # it is not here: on a cluster the nodes have it
            if not task.own and data.stand_in(task.data, root):
                options: dict[str, Any] = dict(task.data_options)
                subsets[task.data] = data.used(task.data, **options)
    return subsets


def _caption(plan: TablePlan, subsets: Mapping[str, str]) -> str:
    """The paper's where its data was used; else by the data that was."""
    own = {entry.config.task.data for entry in make(plan.name, plan.scale).entries}
    if not subsets and own >= {entry.config.task.data for entry in plan.entries}:
        return TABLES[plan.name].caption
    return f"its settings on {_used(plan, subsets)}"


def _used(plan: TablePlan, subsets: Mapping[str, str]) -> str:
    names = dict.fromkeys(entry.config.task.data for entry in plan.entries)
    return " and ".join(subsets.get(name, name) for name in names)


def about(plan: TablePlan, subsets: Mapping[str, str], learned: bool = True) -> str:
    """What was trained at this scale, in a sentence, and what follows for reading the numbers.

    Args:
        plan: of the table.
        subsets: as :func:`stand_ins` gives them.
        learned: whether any run scored better than chance.
    """
    config = plan.entries[0].config
    length = f"{config.epochs} epochs" if config.epochs else f"{config.iterations:,} iterations"
    limit = config.task.data_options.get("limit")
    images = f" of at most {limit:,} images" if isinstance(limit, int) else ""
    where = f", f on the {plan.placement}" if plan.placement else ""
    trained = (
        f"{length}{images} in batches of {config.batch_size}, data {_used(plan, subsets)}{where}"
    )
    if plan.scale == "full" and not plan.changes and not subsets:
        return f"The paper's scale: {trained}."
    models = "slim models, " if plan.scale == "small" else ""
    scale = "Not the paper's data" if subsets else "Not the paper's scale"
    rest = (
        "the differences between settings may be"
        if learned
        else "as nothing was learned, the differences between settings mean nothing either"
    )
    return f"{scale}: {models}{trained}. The numbers are not comparable with the paper's; {rest}."
