"""Which runs fill a table of the paper: a recipe for each cell, its matched control, the seeds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import gaf
from gaf.common.errors import GafError
from gaf.common.texts import did_you_mean
from gaf.lab.engine.config import RunConfig, override
from gaf.lab.study import recipes
from gaf.lab.study.recipes import Recipe, paper
from gaf.lab.study.recipes.base import control

TABLES = {
    "imagenet": paper.TABLE_1,
    "cifar100": paper.TABLE_2,
    "cifar-adam": paper.TABLE_3,
    "voc": paper.TABLE_4,
}
SCALES = ("small", "full")
Scale = Literal["small", "full"]
FIXED = ("optimizer.activation", "optimizer.placement", "optimizer.clip", "devices", "nodes")


@dataclass(frozen=True)
class CellPlan:
    """A cell of the paper, the training that fills it, and f's matched control where there is an f."""

    cell: paper.Cell
    config: RunConfig
    control: RunConfig | None = None


@dataclass(frozen=True)
class TablePlan:
    """A table, or the part of it that was asked for.

    ``placement`` is where f acts, None in a table without f. ``changes`` were made to all configs. Each
    row has the cell without f first: the others are compared with it.
    """

    name: str
    scale: Scale
    placement: str | None
    seeds: tuple[int, ...]
    entries: tuple[CellPlan, ...]
    changes: tuple[str, ...] = ()

    def runs(self) -> list[RunConfig]:
        """All runs, seed by seed, so that a grid that is stopped has whole tables of few seeds."""
        return [
            seeded(config, seed)
            for seed in self.seeds
            for entry in self.entries
            for config in (entry.config, entry.control)
            if config is not None
        ]


def seeded(config: RunConfig, seed: int) -> RunConfig:
    """A run of a config."""
    return config.model_copy(update={"seed": seed})


def make(
    name: str,
    scale: Scale = "small",
    *,
    seeds: int = 1,
    placement: str | None = None,
    models: Sequence[str] = (),
    settings: Sequence[str] = (),
    changes: Sequence[str] = (),
) -> TablePlan:
    """The plan of a table.

    Args:
        name: one of :data:`TABLES`.
        scale: the paper's, or that of the small counterparts.
        seeds: how many.
        placement: of f; unset: momentum for SGDM, as the authors' scripts had it, gradient for Adam.
        models: rows, by model (``resnet50``), dataset (``cifar10``) or both (``cifar10-resnet50``).
        settings: columns beside the one without f, such as ``arctan(0.1, 20)``, ``tanh`` or ``clipping``.
        changes: ``key=value``, made to the config of every cell.

    Example:
        >>> plan = make("cifar100", models=["dpn26"], settings=["log"], seeds=2)
        >>> [entry.cell.column for entry in plan.entries], len(plan.runs())
        (['w/o GAF', 'Log (0.1, 20)', 'Log (0.2, 10)'], 10)
    """
    if name not in TABLES:
        raise GafError(f"there is no table {name!r}{did_you_mean(name, TABLES)}")
    if scale not in SCALES:
        raise GafError(f"a table's scale is full or small, not {scale!r}")
    if seeds < 1:
        raise GafError("a table needs at least one seed")
    _check_changes(changes)
    known = _recipes(name, scale)
    where = _placement(known, placement, name)
    chosen = [recipe for recipe in known if recipe.config.optimizer.placement in (None, where)]
    cells = [recipe.cell for recipe in chosen if recipe.cell]
    rows = _chosen(models, {(cell.data, cell.row): _row_names(cell) for cell in cells}, "model")
    columns = _chosen(settings, {cell.column: _column_names(cell) for cell in cells}, "setting")
    entries = []
    for recipe in chosen:
        cell = recipe.cell
        if cell is None or (cell.data, cell.row) not in rows:
            continue
        if cell.column == paper.WITHOUT or cell.column in columns:
            config = override(recipe.config, changes)
            # results depend on the threads in the last bit, so a number is part of the config
            config = config.model_copy(update={"threads": config.threads or 1})
            has_f = config.optimizer.activation is not None
            entries.append(CellPlan(cell, config, control(config) if has_f else None))
    first = entries[0].config.seed
    override(entries[0].config, [f"seed={first + seeds - 1}"])  # it may be too large for a config
    numbers = tuple(range(first, first + seeds))
    return TablePlan(name, scale, where, numbers, tuple(entries), tuple(changes))


def _check_changes(changes: Sequence[str]) -> None:
    for change in changes:
        if change.strip().startswith(FIXED):
            key = change.partition("=")[0].strip()
            raise GafError(
                f"{key} cannot be changed here: the table decides what differs from cell to cell, and "
                "each run trains on one device"
            )


def _recipes(name: str, scale: Scale) -> list[Recipe]:
    """Those of the table's cells, in the paper's order, without controls."""
    table = TABLES[name]
    cells = [
        recipe
        for recipe in map(recipes.recipe, recipes.names())
        if recipe.cell and recipe.cell.table == table.number and recipe.small == (scale == "small")
    ]
    if not cells:
        models = ", ".join(dict.fromkeys(f"{data} {row}" for data, row, _ in table.cells))
        raise GafError(
            f"Table {table.number} cannot be filled at {scale} scale yet: there are no recipes for {models}"
        )
    return [recipe for recipe in cells if not recipe.control_of]


def _placement(known: Iterable[Recipe], wanted: str | None, name: str) -> str | None:
    there = {recipe.config.optimizer.placement for recipe in known} - {None}
    if wanted is None:
        return "momentum" if "momentum" in there else next(iter(sorted(map(str, there))), None)
    if wanted not in there:
        raise GafError(
            f"in the recipes of {name} f acts on {', '.join(sorted(map(str, there)))}, not on {wanted!r}"
        )
    return wanted


def _chosen(wanted: Sequence[str], known: dict, what: str) -> set:
    """The keys of which a name was given; all of them where none was."""
    if not wanted:
        return set(known)
    chosen = set()
    for text in wanted:
        hits = {key for key, names in known.items() if _plain(text) in map(_plain, names)}
        if not hits:
            every = {name for names in known.values() for name in names}
            raise GafError(f"the table has no {what} {text!r}{did_you_mean(text.lower(), every)}")
        chosen |= hits
    return chosen


def _plain(text: str) -> str:
    """Letters and digits alone: ResNet-50, resnet50 and resnet_50 are one name."""
    return re.sub(r"[^a-z0-9.+]", "", text.lower())


def _row_names(cell: paper.Cell) -> tuple[str, ...]:
    return cell.data.lower(), cell.row.lower(), f"{cell.data}-{cell.row}".lower()


def _column_names(cell: paper.Cell) -> tuple[str, ...]:
    """``Arctan (0.1, 20)`` goes by ``arctan`` too, ``value clipping, 0.1`` by ``clip-value-0.1``."""
    column = cell.column.lower()
    if cell.setting in paper.CLIPPINGS:
        return cell.setting, paper.CLIPPINGS[cell.setting], "clipping", column
    if cell.column == paper.WITHOUT:
        return (column,)
    return cell.setting, gaf.parse(cell.setting).name
