"""f in a training by transformers' Trainer: an optimizer by name, or a callback for any optimizer.

Both act inside ``optimizer.step()``: after the last backward of an accumulation, after clipping (or without
it, ``max_grad_norm=0``), and on unscaled gradients, whoever unscales them.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch

from gaf.common.errors import GafError
from gaf.functions import Activation
from gaf.integrations.accelerate import refuse_engine, unwrap
from gaf.integrations.frameworks import needs
from gaf.optim import Auto, Monitor, activate, activation_of, deactivate
from gaf.optim.clipping import watched_clipping
from gaf.optim.factory import OURS, read_name, refuse_twice
from gaf.optim.monitor import scalars_of

with needs("transformers"):
    from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments


class GradientActivation(TrainerCallback):
    """Puts f in front of the Trainer's optimizer, as :func:`gaf.activate` does; off again afterwards.

    Args:
        activation: the function, or its name; or :class:`gaf.Auto`.

    Example:
        >>> from gaf.integrations.transformers import GradientActivation
        >>> Trainer(model, args, callbacks=[GradientActivation("arctan(0.1, 20)")])  # doctest: +SKIP
    """

    def __init__(self, activation: Activation | Auto | str) -> None:
        self.activation = activation
        self.optimizer: torch.optim.Optimizer | None = None

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        *,
        optimizer: Any = None,
        **kwargs: Any,
    ) -> None:
        """The optimizer exists, and a checkpoint has been loaded into it: what that says of f stays."""
        refuse_engine(args.distributed_state.distributed_type)  # type: ignore[union-attr]
        inner = unwrap(optimizer)
        for group in inner.param_groups:
            if "gaf_function" in group:
                group.setdefault("activation", activation_of(group))
        self.optimizer = activate(inner, self.activation)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if self.optimizer is not None:
            deactivate(self.optimizer)
        self.optimizer = None


class GradientMonitor(TrainerCallback):
    """Watches the Trainer's optimizer with :class:`gaf.Monitor`, and the Trainer's own clipping.

    ``callback.monitor`` has the records, also after the training: ``print(callback.monitor)`` says what was
    found. The newest figures go into the Trainer's own log, as ``gaf/group0/norm`` and so on.

    Args:
        every: observe each so many steps.
        per: ``"group"`` or ``"tensor"``.

    Example:
        >>> from gaf.integrations.transformers import GradientMonitor
        >>> Trainer(model, args, callbacks=[GradientMonitor()])  # doctest: +SKIP
    """

    def __init__(self, *, every: int = 50, per: str = "group") -> None:
        self.every = every
        self.per = per
        self.monitor: Monitor | None = None
        self._watched = ExitStack()

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        *,
        model: Any = None,
        optimizer: Any = None,
        **kwargs: Any,
    ) -> None:
        self._watched.close()  # of a training that has raised
        self.monitor = Monitor(unwrap(optimizer), every=self.every, per=self.per, names=model)
        self._watched.enter_context(
            watched_clipping(lambda params, norm, most: self.monitor.note_clip(norm, most))  # type: ignore[union-attr]
        )

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        *,
        logs: dict[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        if self.monitor is None or logs is None or "loss" not in logs:
            return
        for place, record in self.monitor.latest.items():
            name = f"group{place}" if self.monitor.per == "group" else place
            logs.update({f"gaf/{name}/{key}": value for key, value in scalars_of(record).items()})

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._watched.close()
        if self.monitor is not None:
            self.monitor.detach()


def optimizer_cls_and_kwargs(
    name: str, args: TrainingArguments, **arguments: Any
) -> tuple[type[torch.optim.Optimizer], dict[str, Any]]:
    """What the Trainer's argument of this name takes, for a name as in :func:`gaf.create_optimizer`.

    The Trainer makes the parameter groups: its ``weight_decay`` spares biases and norm layers.

    Args:
        name: such as ``"adamw+arctan(0.1, 20)"``; of sgd, adam or adamw.
        args: the Trainer's: the learning rate, and betas and eps of Adam, are theirs.
        **arguments: more of the optimizer, such as ``momentum=0.9``.

    Example:
        >>> chosen = optimizer_cls_and_kwargs("adamw+arctan(0.1, 20)", args)  # doctest: +SKIP
        >>> Trainer(model, args, optimizer_cls_and_kwargs=chosen)  # doctest: +SKIP
    """
    optimizer, f, placement = read_name(name)
    if optimizer not in OURS:
        raise GafError(
            f"{name!r}: the Trainer makes sgd, adam and adamw from here; for {optimizer} set "
            "TrainingArguments(optim=...) and use the callback GradientActivation"
        )
    refuse_twice(name, arguments)
    own: dict[str, Any] = {"lr": args.learning_rate, "activation": f, "placement": placement}
    if optimizer != "sgd":
        own |= {"betas": (args.adam_beta1, args.adam_beta2), "eps": args.adam_epsilon}
    return OURS[optimizer], {**own, **arguments}
