"""f in a training by Lightning: a callback that activates the trainer's optimizers.

It acts inside ``optimizer.step()``, the one moment that is right under every precision plugin and
accumulation setting: after the last backward of an accumulation, after unscaling, after
``on_before_optimizer_step`` and clipping, and not at all in a step that a scaler skips.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch

from gaf.common.errors import GafError
from gaf.functions import Activation
from gaf.integrations.frameworks import needs
from gaf.optim import Auto, Monitor, Scaled, activate, activation_of
from gaf.optim.activate import unhook
from gaf.optim.clipping import watched_clipping
from gaf.optim.monitor import scalars_of

with needs("lightning"):
    from lightning.pytorch import Callback, LightningModule, Trainer
    from lightning.pytorch.strategies import (
        DeepSpeedStrategy,
        FSDPStrategy,
        SingleDeviceXLAStrategy,
        Strategy,
        XLAStrategy,
    )


class GradientMonitor(Callback):
    """Watches the optimizers of a Lightning training with :class:`gaf.Monitor`, and Lightning's own clipping.

    The figures are logged as ``gaf/group0/norm`` and so on; ``callback.monitors`` has one monitor for each
    optimizer, also after the training: ``print(callback.monitors[0])`` says what was found. Under
    ``FSDPStrategy``, which flattens weights, they are those of all shards.

    Args:
        every: observe each so many steps of an optimizer.
        per: ``"group"`` or ``"tensor"``.

    Example:
        >>> from gaf.integrations.lightning import GradientMonitor
        >>> trainer = Trainer(callbacks=[GradientMonitor()], gradient_clip_val=1.0)  # doctest: +SKIP
    """

    def __init__(self, *, every: int = 50, per: str = "group") -> None:
        self.every = every
        self.per = per
        self.monitors: list[Monitor] = []
        self._watched = ExitStack()
        self._logged: list[int] = []

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """The optimizers exist."""
        self.monitors = watch(trainer, pl_module, self.every, self.per)
        self._logged = [0] * len(self.monitors)
        self._watched.enter_context(watched_clipping(self._note))

    def _note(self, params: list[torch.Tensor], norm: torch.Tensor, max_norm: float) -> None:
        for monitor in self.monitors:
            if monitor.owns(params):
                monitor.note_clip(norm, max_norm)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, *args: Any, **kwargs: Any
    ) -> None:
        log_new(pl_module, self.monitors, self._logged)

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._end()

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        self._end()

    def _end(self) -> None:
        self._watched.close()
        for monitor in self.monitors:
            monitor.detach()


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
            self.monitors = watch(trainer, pl_module, self.log_every, "group")
        refuse_flat(trainer.strategy, self.optimizers)
        self._logged = [0] * len(self.monitors)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, *args: Any, **kwargs: Any
    ) -> None:
        log_new(pl_module, self.monitors, self._logged)

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


def watch(trainer: Trainer, module: LightningModule, every: int, per: str) -> list[Monitor]:
    """A monitor for each optimizer; of FSDP's flat shards, which are plain tensors, over all processes."""
    flat = isinstance(trainer.strategy, FSDPStrategy)
    group = torch.distributed.group.WORLD if flat else None
    names = list(module.named_parameters())
    return [
        Monitor(optimizer, every=every, per=per, names=names, quantiles=(), process_group=group)
        for optimizer in trainer.optimizers
    ]


def log_new(module: LightningModule, monitors: list[Monitor], logged: list[int]) -> None:
    """Log the figures that are new since the last time; ``logged`` counts them."""
    figures: dict[str, float] = {}
    for number, monitor in enumerate(monitors):
        new = monitor.records[logged[number] :]
        logged[number] += len(new)
        which = f"optimizer{number}/" if len(monitors) > 1 else ""
        for record in new:
            place = f"group{record['group']}" if monitor.per == "group" else record["name"]
            scalars = scalars_of(record).items()
            figures |= {f"gaf/{which}{place}/{name}": float(value) for name, value in scalars}
    if figures:
        module.log_dict(figures, on_step=True, on_epoch=False)


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
    """Raise for Auto and Scaled on FSDP's flattened shards."""
    if not isinstance(strategy, FSDPStrategy):
        return
    reasons = {
        Auto: "Auto tells vectors from matrices",
        Scaled: "Scaled takes the size of each tensor",
    }
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            activation = activation_of(group)
            reason = next((r for kind, r in reasons.items() if isinstance(activation, kind)), None)
            if reason is not None:
                raise GafError(
                    f"FSDPStrategy flattens every weight, and {reason}: use ModelParallelStrategy, or a "
                    "function with fixed values"
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
