"""From the cells of the paper's tables to recipes: one for each cell and placement, with matched controls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from gaf.lab.engine.config import RunConfig
from gaf.lab.study.recipes import paper
from gaf.lab.study.recipes.base import (
    cifar,
    control,
    imagenet,
    with_activation,
    with_adam,
    with_norm_clipping,
    with_value_clipping,
)
from gaf.lab.study.recipes.small import small

# The paper prints Algorithm 1 (update) for SGDM, the authors' scripts ran momentum, and for other
# optimizers f acts on the gradient. A cell does not say which: each is a recipe.
SGDM_PLACEMENTS = ("momentum", "update", "gradient")
ADAM_PLACEMENTS = ("gradient",)
# The paper's threshold for both kinds of clipping. The authors' script has 0.1·π/2, arctan's bound.
THRESHOLD = 0.1

# As the paper calls models and data, and as names of recipes do.
SLUGS = {
    "ImageNet": "imagenet",
    "CIFAR-10": "cifar10",
    "CIFAR-100": "cifar100",
    "DenseNet-CIFAR": "densenet121",
    "DenseNet-169": "densenet169",
    "DPN-26": "dpn26",
    "GoogLeNet": "googlenet",
    "RegNetX-200MF": "regnetx-200mf",
    "ResNet-18": "resnet18",
    "ResNet-34": "resnet34",
    "ResNet-50": "resnet50",
    "Pre-Act-ResNet-34": "preact-resnet34",
    "Pre-Act-ResNet-50": "preact-resnet50",
    "SE-ResNet-18": "se-resnet18",
    "SE-ResNet-34": "se-resnet34",
    "SE-ResNet-50": "se-resnet50",
}


@dataclass(frozen=True)
class Recipe:
    """A training by name.

    Args:
        config: the whole of it.
        group: the heading under which lists show it.
        cell: the paper's own result. A small counterpart and a matched control carry the cell of the
            recipe that they belong to: what they stand beside.
        small: whether it is the counterpart for a laptop.
        control_of: the name of the recipe that it is the matched control of.
    """

    config: RunConfig
    group: str
    cell: paper.Cell | None = None
    small: bool = False
    control_of: str | None = None

    @property
    def name(self) -> str:
        """What ``gaf train`` is given."""
        return self.config.name


def table_recipes() -> Iterator[Recipe]:
    """Tables I, II and III at the paper's scale, then their small counterparts."""
    for change in (lambda recipe: recipe, small_counterpart):
        for table in (paper.TABLE_1, paper.TABLE_2, paper.TABLE_3):
            yield from with_controls(map(change, _of_table(table)))


def with_controls(recipes: Iterable[Recipe]) -> Iterator[Recipe]:
    """Each recipe, and after one with an activation its matched control."""
    for recipe in recipes:
        yield recipe
        if recipe.config.optimizer.activation is not None:
            yield replace(recipe, config=control(recipe.config), control_of=recipe.name)


def small_counterpart(recipe: Recipe) -> Recipe:
    """The same for a laptop."""
    return replace(recipe, config=small(recipe.config), group=f"{recipe.group}, small", small=True)


def _of_table(table: paper.PaperTable) -> Iterator[Recipe]:
    for cell in table.cells.values():
        for config in _configs(cell):
            yield Recipe(config, f"Table {table.number}: {table.caption}", cell)


def _configs(cell: paper.Cell) -> Iterator[RunConfig]:
    """What the cell can mean: one config, or one for each placement."""
    base, placements = _base(cell)
    if cell.column == paper.WITHOUT:
        yield base
    elif cell.column == paper.VALUE_CLIPPING:
        yield with_value_clipping(base, THRESHOLD)
    elif cell.column == paper.NORM_CLIPPING:
        yield with_norm_clipping(base, THRESHOLD)
    else:
        activation = cell.column.lower().replace(" (", "(")  # "Arctan (0.1, 20)"
        for placement in placements:
            yield with_activation(base, activation, placement)


def _base(cell: paper.Cell) -> tuple[RunConfig, tuple[str, ...]]:
    data, model = SLUGS[cell.data], SLUGS[cell.row]
    if cell.table == paper.TABLE_1.number:
        return imagenet(model), SGDM_PLACEMENTS
    if cell.table == paper.TABLE_2.number:
        return cifar(data, model), SGDM_PLACEMENTS
    return with_adam(cifar(data, model)), ADAM_PLACEMENTS
