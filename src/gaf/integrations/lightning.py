"""f in a training by Lightning: a callback that activates the trainer's optimizers.

It acts inside ``optimizer.step()``, the one moment that is right under every precision plugin and
accumulation setting: after the last backward of an accumulation, after unscaling, after
``on_before_optimizer_step`` and clipping, and not at all in a step that a scaler skips.
"""

from __future__ import annotations

from typing import Any

import torch

from gaf.common.errors import GafError
from gaf.functions import Activation
from gaf.functions.lift import is_dtensor
from gaf.integrations.frameworks import needs
from gaf.optim import Auto, Monitor, activate, activation_of
from gaf.optim.activate import unhook
from gaf.optim.monitor import SHARES
from gaf.optim.sharding import together

with needs("lightning"):
    from lightning.pytorch import Callback, LightningModule, Trainer
    from lightning.pytorch.strategies import (
        DeepSpeedStrategy,
        FSDPStrategy,
        SingleDeviceXLAStrategy,
        Strategy,
        XLAStrategy,
    )

LOGGED = ("max", "nonfinite", *SHARES)


class GradientActivation(Callback):
    """Puts f in front of the optimizers of a Lightning training, as :func:`gaf.activate` does.

    For an optimizer that has an activation of its own (``gaf.SGD`` and its kin in ``configure_optimizers``)
    no callback is needed. After the training the optimizers step as they did before; what their groups and
    state say of f stays, for a checkpoint that is saved then.

    Args:
        activation: the function, or its name; or :class:`gaf.Auto`.
        log_every: log the figures of :class:`gaf.Monitor` each so many steps of an optimizer; None logs none.

    Example:
        >>> from gaf.integrations.lightning import GradientActivation
        >>> trainer = Trainer(callbacks=[GradientActivation("arctan(0.1, 20)")])  # doctest: +SKIP
    """

    def __init__(self, activation: Activation | Auto | str, *, log_every: int | None = 50) -> None:
        self.activation = activation
        self.log_every = log_every
        self.optimizers: list[torch.optim.Optimizer] = []
        self.monitors: list[Monitor] = []
        self._logged: list[int] = []

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """The optimizers exist, and a checkpoint is yet to be loaded into them."""
        refuse_strategy(trainer.strategy)
        refuse_shared(trainer.optimizers)
        for optimizer in trainer.optimizers:
            self.optimizers.append(activate(optimizer, self.activation))
            if self.log_every is not None:
                self.monitors.append(Monitor(optimizer, every=self.log_every, quantiles=()))
        refuse_flat(trainer.strategy, self.optimizers)
        self._logged = [0] * len(self.monitors)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, *args: Any, **kwargs: Any
    ) -> None:
        figures: dict[str, float] = {}
        for number, monitor in enumerate(self.monitors):
            new = monitor.records[self._logged[number] :]
            self._logged[number] += len(new)
            which = f"optimizer{number}/" if len(self.monitors) > 1 else ""
            for record in _over_processes(trainer, new):
                prefix = f"gaf/{which}group{record['group']}"
                figures |= {f"{prefix}/{name}": float(record[name]) for name in LOGGED}
        if figures:
            pl_module.log_dict(figures, on_step=True, on_epoch=False)

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._undo()

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        self._undo()

    def _undo(self) -> None:
        for optimizer in self.optimizers:
            unhook(optimizer)
        self.optimizers.clear()
        self.monitors.clear()


def refuse_strategy(strategy: Strategy) -> None:
    """Raise for a strategy whose optimizers do not step on ``p.grad``."""
    if isinstance(strategy, DeepSpeedStrategy):
        raise GafError(
            "DeepSpeed keeps and scales gradients in an engine of its own, where no callback can activate "
            "them: use DDPStrategy or ModelParallelStrategy, or give DeepSpeed gaf.SGD or gaf.AdamW"
        )
    if isinstance(strategy, XLAStrategy | SingleDeviceXLAStrategy):
        raise GafError(
            "XLA sums gradients over devices inside the step, after a callback would act, and f of a sum is "
            "not the sum of f: train on another accelerator"
        )


def refuse_flat(strategy: Strategy, optimizers: list[torch.optim.Optimizer]) -> None:
    """Raise for Auto on FSDP's flattened shards."""
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    if isinstance(strategy, FSDPStrategy) and any(
        isinstance(activation_of(group), Auto) for group in groups
    ):
        raise GafError(
            "FSDPStrategy flattens every weight, and Auto tells vectors from matrices: use "
            "ModelParallelStrategy, or a function with fixed values"
        )


def refuse_shared(optimizers: list[torch.optim.Optimizer]) -> None:
    """Raise where two optimizers share a parameter: its gradient would be activated twice."""
    seen: set[int] = set()
    for optimizer in optimizers:
        mine = {id(p) for group in optimizer.param_groups for p in group["params"]}
        if mine & seen:
            raise GafError(
                "two optimizers share a parameter, whose gradient each of them would activate: give each "
                "parameter to one optimizer"
            )
        seen |= mine


def _over_processes(trainer: Trainer, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records over all elements: under DDP each process sees them all, sharded only its own."""
    sharded = isinstance(trainer.strategy, FSDPStrategy) or any(
        is_dtensor(p)
        for optimizer in trainer.optimizers
        for group in optimizer.param_groups
        for p in group["params"]
    )
    if not records or not sharded:
        return records
    everyones: list[Any] = [None] * trainer.world_size
    torch.distributed.all_gather_object(everyones, records)
    return [together(each) for each in zip(*everyones, strict=True)]
