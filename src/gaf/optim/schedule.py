"""Schedules of a function's parameters, in the manner of torch's LR schedulers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import torch

from gaf.common.errors import GafError
from gaf.functions import function_type


@dataclass(frozen=True)
class Ramp:
    """A factor that goes from ``start`` to ``end`` in ``steps`` steps and stays there.

    Args:
        start: the factor at step 0.
        end: the factor from step ``steps`` on.
        steps: how long the way is.
        cosine: along half a cosine instead of a line.

    Example:
        >>> warmup = Ramp(0.1, 1.0, steps=3)
        >>> [round(warmup(step), 2) for step in range(5)]
        [0.1, 0.4, 0.7, 1.0, 1.0]
    """

    start: float
    end: float
    steps: int
    cosine: bool = False

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise GafError(f"steps must be at least 1, got {self.steps}")
        for end in (self.start, self.end):
            if not 0 < end < math.inf:  # f's parameters are positive and finite
                raise GafError(f"start and end must be positive and finite, got {end}")

    def __call__(self, step: int) -> float:
        done = min(step / self.steps, 1.0)
        if self.cosine:
            done = (1 - math.cos(math.pi * done)) / 2
        return self.start * (1 - done) + self.end * done


class ParamScheduler:
    """Multiplies parameters of the activation by factors that depend on the step.

    Works on our optimizers and on activated ones, beside any LR scheduler; call :meth:`step` after the
    optimizer's. Each factor is a function of the step number, such as :class:`gaf.Ramp`, and multiplies
    the value the group had when the scheduler was made.

    Args:
        optimizer: an optimizer with an activation in at least one group.
        **factors: for a parameter's name, a function from the step number to its factor.

    Example:
        >>> import gaf, torch
        >>> opt = gaf.SGD([torch.zeros(1)], lr=0.1, activation=gaf.Arctan(0.1, 20))
        >>> schedule = gaf.ParamScheduler(opt, alpha=gaf.Ramp(2.0, 1.0, steps=10))
        >>> opt.param_groups[0]["gaf_params"]
        (0.2, 20.0)
        >>> for _ in range(10):
        ...     schedule.step()
        >>> opt.param_groups[0]["gaf_params"]
        (0.1, 20.0)
    """

    def __init__(self, optimizer: torch.optim.Optimizer, **factors: Callable[[int], float]) -> None:
        if not factors:
            raise GafError("name a parameter to schedule, such as alpha=gaf.Ramp(0.1, 1.0, 500)")
        for name, factor in factors.items():
            if not callable(factor):
                raise TypeError(
                    f"{name} takes a function of the step number, such as gaf.Ramp(0.1, 1.0, 500), "
                    f"got {type(factor).__name__}"
                )
        self.optimizer = optimizer
        self.factors = factors
        self.last_step = 0
        # The values that the factors multiply, per group; None for a group that is not scheduled.
        self.base_params = [self._base(group) for group in optimizer.param_groups]
        if all(base is None for base in self.base_params):
            raise GafError("the optimizer has no activation to schedule")
        self._write()

    def _base(self, group: dict[str, Any]) -> tuple[float, ...] | None:
        if group.get("gaf_function") is None:
            return None
        known = _names(group)
        for name in self.factors:
            if name not in known:
                raise GafError(
                    f"{group['gaf_function']} has no parameter {name!r}; it has {', '.join(known)}"
                )
            if isinstance(dict(zip(known, group["gaf_params"], strict=False)).get(name), str):
                raise GafError(
                    f"{name} of {group['gaf_function']} is a name, which no factor multiplies"
                )
        return group["gaf_params"]

    def step(self) -> None:
        """Go to the next step."""
        self.last_step += 1
        self._write()

    def _write(self) -> None:
        for group, base in zip(self.optimizer.param_groups, self.base_params, strict=False):
            if base is None or group.get("gaf_function") is None:
                continue
            params = (
                value * self.factors[name](self.last_step) if name in self.factors else value
                for name, value in zip(
                    _names(group), base, strict=False
                )  # fewer: an earlier version's
            )
            f = function_type(group["gaf_function"])(*params)  # refuses values f does not allow
            group["gaf_params"] = f.params

    def get_last_params(self) -> list[tuple[float, ...] | None]:
        """The current parameters of each group."""
        return [group.get("gaf_params") for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Plain values; the factors are code and belong to the constructor."""
        return {"last_step": self.last_step, "base_params": list(self.base_params)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where ``state_dict`` was taken."""
        self.last_step = state_dict["last_step"]
        self.base_params = list(state_dict["base_params"])
        self._write()


def _names(group: dict[str, Any]) -> list[str]:
    return [field.name for field in fields(function_type(group["gaf_function"]))]
