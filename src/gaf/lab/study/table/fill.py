"""Run what a table lacks, and put what came of it beside the paper's numbers."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from gaf.common.errors import GafError
from gaf.lab import data
from gaf.lab.engine import folder as folders
from gaf.lab.engine.config import RunConfig
from gaf.lab.study.comparison import Difference
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
from gaf.lab.study.recipes import paper
from gaf.lab.study.statistics import Paired, deviation, holm, paired, verdict
from gaf.lab.study.table import found as tables
from gaf.lab.study.table.cost import IMAGES
from gaf.lab.study.table.found import Beside, Filled, Line, Scores
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
        Stopped: a signal came; ``table.json`` holds what there is, and the same call goes on.
    """
    check_folder(folder, plan)
    with folders.locked(folder):
        try:
            outcomes = run_grid(plan.runs(), folder / RUNS, executor, watch)
        except Stopped:
            tables.write(conclude(plan, folder, so_far(plan, folder), command), folder)
            raise
        filled = conclude(plan, folder, outcomes, command)
        tables.write(filled, folder)
    return filled


def check_folder(folder: Path, plan: TablePlan) -> None:
    """Refuse a folder that holds something else; parts of one table, at any scale, may share one."""
    check_place(folder, "table", tables.TABLE)
    if (folder / tables.TABLE).is_file():
        name = tables.read(folder).name
        if name != plan.name:
            raise GafError(f"{folder} holds the table {name}; choose another folder")


def so_far(plan: TablePlan, folder: Path) -> dict[str, Outcome]:
    """The runs of a plan that are finished, by digest."""
    at = places(plan.runs(), folder / RUNS)
    ended = {key: place.finished() for key, place in at.items()}
    return {key: outcome for key, outcome in ended.items() if outcome is not None}


def conclude(
    plan: TablePlan, folder: Path, outcomes: Mapping[str, Outcome], command: Sequence[str] = ()
) -> Filled:
    """The table from the outcomes there are, by digest."""
    there = [each.result for each in outcomes.values() if each.result]
    higher = all(result.higher_is_better for result in there)
    ours = [_scores(plan, folder, entry.config, outcomes) for entry in plan.entries]
    controls = [
        None if entry.control is None else _scores(plan, folder, entry.control, outcomes)
        for entry in plan.entries
    ]
    baselines = {
        (entry.cell.data, entry.cell.row): scores
        for entry, scores in zip(plan.entries, ours, strict=True)
        if entry.cell.column == paper.WITHOUT
    }
    pairs = dict(_pairs(plan, ours, controls, baselines))
    corrected = holm({key: pair.p for key, pair in pairs.items()})

    learned = [
        _learned(entry, scores, baselines[entry.cell.data, entry.cell.row])
        for entry, scores in zip(plan.entries, ours, strict=True)
    ]
    subsets = stand_ins(plan)

    def difference(place: int, against: str) -> Difference | None:
        pair = pairs.get((place, against))
        if pair is None:
            return None
        p = corrected[place, against]
        return _difference(pair, against, p, verdict(pair, p, higher))

    return Filled(
        name=plan.name,
        title=title(plan, subsets),
        scale=plan.scale,
        placement=plan.placement,
        seeds=plan.seeds,
        score_name=there[0].score_name if there else "score",
        about=about(plan, subsets, any(learned)),
        changes=plan.changes,
        lines=tuple(
            Line(
                data=entry.cell.data,
                model=entry.cell.row,
                setting=entry.cell.column,
                paper=entry.cell.score,
                paper_gain=_paper_gain(plan, entry.cell),
                ours=ours[place],
                gain=difference(place, "baseline"),
                control=controls[place],
                beyond=difference(place, "control"),
                beside=_beside(plan, entry, outcomes),
                learned=learned[place],
            )
            for place, entry in enumerate(plan.entries)
        ),
        comparisons=len(pairs),
        command=tuple(command),
        environment=machine(there[0].folder) if there else {},
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    )


def _scores(
    plan: TablePlan, folder: Path, config: RunConfig, outcomes: Mapping[str, Outcome]
) -> Scores:
    by_seed = {seed: outcomes.get(digest(seeded(config, seed))) for seed in plan.seeds}
    values = tuple(
        PERCENT * each.result.score if each and each.result else None for each in by_seed.values()
    )
    there = [value for value in values if value is not None]
    return Scores(
        recipe=config.name,
        values=values,
        mean=sum(there) / len(there) if there else None,
        std=deviation(there),
        diverged=sum(
            bool(each and each.result and each.result.diverged) for each in by_seed.values()
        ),
        failed={seed: each.error for seed, each in by_seed.items() if each and not each.result},
        not_run=tuple(seed for seed, each in by_seed.items() if each is None),
        folders={
            seed: each.folder.relative_to(folder).as_posix()
            for seed, each in by_seed.items()
            if each
        },
    )


def _pairs(
    plan: TablePlan,
    ours: Sequence[Scores],
    controls: Sequence[Scores | None],
    baselines: Mapping[tuple[str, str], Scores],
) -> Iterator[tuple[tuple[int, str], Paired]]:
    """Every comparison of the table, where there is a seed that both sides finished."""
    for place, entry in enumerate(plan.entries):
        if entry.cell.column == paper.WITHOUT:
            continue
        others = {
            "baseline": baselines[entry.cell.data, entry.cell.row],
            "control": controls[place],
        }
        for name, other in others.items():
            both = zip(ours[place].values, other.values if other else (), strict=False)
            if other and any(None not in pair for pair in both):
                yield (place, name), paired(ours[place].values, other.values)


def _difference(pair: Paired, against: str, p: float, word: Any) -> Difference:
    return Difference(
        against=against,
        mean=pair.mean,
        low=pair.low,
        high=pair.high,
        p=pair.p,
        p_corrected=p,
        n=pair.n,
        verdict=word,
    )


def _paper_gain(plan: TablePlan, cell: paper.Cell) -> float | None:
    if cell.column == paper.WITHOUT:
        return None
    without = TABLES[plan.name].cells[cell.data, cell.row, paper.WITHOUT]
    return round(cell.score - without.score, 2)


def _beside(plan: TablePlan, entry: CellPlan, outcomes: Mapping[str, Outcome]) -> dict[str, Beside]:
    """The cell's other figures, by the names that the engine has for them."""
    cell = entry.cell
    printed = {} if cell.top5 is None else {"top5": cell.top5}
    printed |= dict(zip((f"AP/{name}" for name in paper.VOC_CLASSES), cell.ap, strict=False))
    results = [outcomes.get(digest(seeded(entry.config, seed))) for seed in plan.seeds]
    finals = [each.result.final for each in results if each and each.result]
    found = {}
    for name, number in printed.items():
        figures = [PERCENT * final[name] for final in finals if name in final]
        found[name] = Beside(paper=number, ours=sum(figures) / len(figures) if figures else None)
    return found


def floor(config: RunConfig) -> float:
    """The score in percent below which nothing was learned: twice chance, and 1 where chance is less."""
    classes = IMAGES[config.task.data][0] if config.task.data in IMAGES else 0
    guessing = config.task.kind == "classification" and classes
    return max(1.0, 2 * PERCENT / classes if guessing else 0.0)


def _learned(entry: CellPlan, ours: Scores, baseline: Scores) -> bool:
    """Whether the setting or the training without f is above the floor; else their difference is noise."""
    means = [each.mean for each in (ours, baseline) if each.mean is not None]
    return not means or max(means) >= floor(entry.config)


def stand_ins(plan: TablePlan) -> dict[str, str]:
    """In words, by name, the data that is trained on where the whole dataset is not on this machine."""
    found = {}
    for task in {entry.config.task.data: entry.config.task for entry in plan.entries}.values():
        root: Any = task.data_options.get("root")
        with suppress(data.DataError):  # it is not here: on a cluster the nodes have it
            if not task.own and data.stand_in(task.data, root):
                options: dict[str, Any] = dict(task.data_options)
                found[task.data] = data.used(task.data, **options)
    return found


def title(plan: TablePlan, subsets: Mapping[str, str]) -> str:
    """The table as the paper calls it where its data was used; else by the data that was."""
    own = {each.config.task.data for each in make(plan.name, plan.scale).entries}
    names = dict.fromkeys(entry.config.task.data for entry in plan.entries)
    if not subsets and own >= {*names}:
        return plan.title
    used = " and ".join(subsets.get(name, name) for name in names)
    return f"{plan.title.partition(': ')[0]}: its settings on {used}"


def about(plan: TablePlan, subsets: Mapping[str, str], learned: bool = True) -> str:
    """What was trained at this scale, in a sentence, and what follows for reading the numbers.

    Args:
        plan: of the table.
        subsets: as :func:`stand_ins` gives them.
        learned: whether any score is above its :func:`floor`.
    """
    config = plan.entries[0].config
    length = f"{config.epochs} epochs" if config.epochs else f"{config.iterations:,} iterations"
    limit = config.task.data_options.get("limit")
    images = f" of at most {limit:,} images" if isinstance(limit, int) else ""
    where = f", f on the {plan.placement}" if plan.placement else ""
    names = dict.fromkeys(entry.config.task.data for entry in plan.entries)
    used = " and ".join(subsets.get(name, name) for name in names)
    told = f"{length}{images} in batches of {config.batch_size}, data {used}{where}"
    if plan.scale == "full" and not plan.changes and not subsets:
        return f"The paper's scale: {told}."
    models = "slim models, " if plan.scale == "small" else ""
    scale = "Not the paper's data" if subsets else "Not the paper's scale"
    rest = (
        "the differences between settings may be"
        if learned
        else "as nothing was learned, the differences between settings tell nothing either"
    )
    return f"{scale}: {models}{told}. The numbers are not comparable with the paper's; {rest}."
