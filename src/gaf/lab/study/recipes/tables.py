"""From the cells of the paper's tables to recipes: one for each cell and placement, with matched controls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gaf.lab.engine.config import OptimizerConfig, RunConfig, ScheduleConfig, TaskConfig
from gaf.lab.study.recipes import paper
from gaf.lab.study.recipes.base import (
    PREFIX,
    Recipe,
    cifar,
    cifar_adam,
    imagenet,
    on_a_core,
    placements,
    small,
    with_activation,
    with_controls,
    with_setting,
)

VOC_WIDTH = 0.125  # of the small detector's channels
VOC_EPOCHS, VOC_BATCH = 30, 8  # of its training: 270 steps on 70 images

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


def table_recipes() -> Iterator[Recipe]:
    """Tables I, II and III at the paper's scale, then their small counterparts; then both of Table IV."""
    for change in (lambda recipe: recipe, small_counterpart):
        for table in (paper.TABLE_1, paper.TABLE_2, paper.TABLE_3):
            yield from with_controls(map(change, _of_table(table)))
    yield from with_controls(_of_voc(voc_ssd300(), _heading(paper.TABLE_4)))
    small_group = f"{_heading(paper.TABLE_4)}, small"
    yield from with_controls(
        replace(recipe, small=True) for recipe in _of_voc(small_voc_ssd300(), small_group)
    )


def small_counterpart(recipe: Recipe) -> Recipe:
    """The same for a laptop."""
    return replace(
        recipe,
        config=small(recipe.config),
        group=f"{recipe.group}, small",
        base=PREFIX + recipe.base,
        small=True,
    )


def _heading(table: paper.PaperTable) -> str:
    return f"Table {table.number}: {table.caption}"


def _of_table(table: paper.PaperTable) -> Iterator[Recipe]:
    for cell in table.cells.values():
        base = _base(cell)
        for config in _configs(base, cell.setting):
            yield Recipe(config, _heading(table), base.name, cell)


def _configs(base: RunConfig, setting: str) -> list[RunConfig]:
    """What a cell can mean: one config, or for a function one for each placement."""
    if setting == paper.SETTINGS[paper.WITHOUT]:
        return [base]
    if setting in paper.CLIPPINGS:
        return [with_setting(base, setting)]
    return [with_activation(base, setting, placement) for placement in placements(base.optimizer)]


def _base(cell: paper.Cell) -> RunConfig:
    data, model = SLUGS[cell.data], SLUGS[cell.row]
    if cell.table == paper.TABLE_1.number:
        return imagenet(model)
    if cell.table == paper.TABLE_2.number:
        return cifar(data, model)
    return cifar_adam(data, model)


def voc_ssd300() -> RunConfig:
    """SGDM and SSD300 on VOC 07+12, tested on VOC 2007 (Table IV)."""
    return RunConfig(
        name="voc-ssd300-sgdm",
        # "All models are trained from scratch". From ImageNet's weights, as others do:
        # --set task.model_options.weights=vgg16.pth.
        task=TaskConfig(kind="detection", data="voc", model="ssd300"),
        # Decay acts on all parameters: the paper names no exception.
        optimizer=OptimizerConfig(name="sgd", lr=1e-3, momentum=0.9, weight_decay=5e-4),
        # "Warmup for 500 iterations": linear, and the rate is set at each iteration.
        schedule=ScheduleConfig(name="cosine", warmup=500.0, unit="iteration", every="iteration"),
        iterations=120_000,
        batch_size=32,
        evaluate_every=20,  # epochs, of 232
    )


def small_voc_ssd300() -> RunConfig:
    """The same rule on a slim SSD300 and 70 images, for minutes of a core."""
    config = voc_ssd300()
    task = config.task.model_copy(
        update={"model_options": {"width": VOC_WIDTH}, "data_options": {"limit": 70}}
    )
    changes = {
        "name": PREFIX + config.name,
        "task": task,
        "iterations": None,
        "epochs": VOC_EPOCHS,
        "batch_size": VOC_BATCH,
        "evaluate_every": 10,
        "schedule": config.schedule.model_copy(update={"warmup": 20.0}),
    }
    return on_a_core(config.model_copy(update=changes))


def _of_voc(base: RunConfig, group: str) -> Iterator[Recipe]:
    """Table IV's cells with f at each placement, and value and norm clipping, which it left out."""
    without, *functions = paper.TABLE_4.cells.values()
    yield Recipe(base, group, base.name, without)
    for setting in paper.CLIPPINGS:
        yield Recipe(with_setting(base, setting), group, base.name)
    for cell in functions:
        for config in _configs(base, cell.setting):
            yield Recipe(config, group, base.name, cell)
