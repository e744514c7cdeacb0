"""The learning rate as a pure function of the step: nothing to save, nothing to restore."""

from __future__ import annotations

import math

from gaf.lab.engine.config import ScheduleConfig


def factor(schedule: ScheduleConfig, step: int, total: int, epoch_length: int) -> float:
    """What ``lr`` is multiplied by at a step.

    Args:
        schedule: the schedule.
        step: the number of steps done before.
        total: the number of steps of the run.
        epoch_length: the number of steps of an epoch.

    Example:
        >>> cosine = ScheduleConfig(warmup=2, unit="iteration")
        >>> [round(factor(cosine, step, total=6, epoch_length=3), 3) for step in range(6)]
        [0.5, 1.0, 1.0, 0.854, 0.5, 0.146]
    """
    unit = epoch_length if schedule.every == "epoch" else 1  # steps at one rate
    at = step // unit * unit
    scale = epoch_length if schedule.unit == "epoch" else 1
    warmup = schedule.warmup * scale
    if at < warmup:  # from one unit's share up to the whole
        return min((at + unit) / warmup, 1.0)
    if schedule.name == "cosine":
        share = (at - warmup) / max(total - warmup, 1)
        return schedule.floor + (1 - schedule.floor) * (1 + math.cos(math.pi * share)) / 2
    if schedule.name == "step":
        return schedule.gamma ** sum(at >= milestone * scale for milestone in schedule.milestones)
    return 1.0
