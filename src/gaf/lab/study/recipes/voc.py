"""SSD300 on PASCAL VOC: Table IV with the settings of Section IV-C, the clippings it left out, small ones."""

from __future__ import annotations

from collections.abc import Iterator

from gaf.lab.engine.config import OptimizerConfig, RunConfig, ScheduleConfig, TaskConfig
from gaf.lab.study.recipes import paper
from gaf.lab.study.recipes.base import with_activation, with_norm_clipping, with_value_clipping
from gaf.lab.study.recipes.small import PREFIX, on_a_core
from gaf.lab.study.recipes.tables import SGDM_PLACEMENTS, THRESHOLD, Recipe, with_controls

GROUP = f"Table {paper.TABLE_4.number}: {paper.TABLE_4.caption}"
WIDTH = 0.125  # of the small model's channels
EPOCHS, BATCH = 30, 8  # of the small training: 270 steps on 70 images


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
        update={"model_options": {"width": WIDTH}, "data_options": {"limit": 70}}
    )
    changes = {
        "name": PREFIX + config.name,
        "task": task,
        "iterations": None,
        "epochs": EPOCHS,
        "batch_size": BATCH,
        "evaluate_every": 10,
        "schedule": config.schedule.model_copy(update={"warmup": 20.0}),
    }
    return on_a_core(config.model_copy(update=changes))


def voc_recipes() -> Iterator[Recipe]:
    """Table IV's rows with f at each placement, value and norm clipping, controls; then the small ones."""
    for base, group, small in (
        (voc_ssd300(), GROUP, False),
        (small_voc_ssd300(), f"{GROUP}, small", True),
    ):
        without, *functions = paper.TABLE_4.cells.values()
        configs = [
            (base, without),
            (with_value_clipping(base, THRESHOLD), None),
            (with_norm_clipping(base, THRESHOLD), None),
            *(
                (with_activation(base, cell.column.lower().replace(" (", "("), where), cell)
                for cell in functions
                for where in SGDM_PLACEMENTS
            ),
        ]
        yield from with_controls(Recipe(each, group, cell, small) for each, cell in configs)
