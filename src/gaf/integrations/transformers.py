"""f in a training by transformers' Trainer: an optimizer by name, or a callback for any optimizer.

Both act inside ``optimizer.step()``: after the last backward of an accumulation, after clipping (or without
it, ``max_grad_norm=0``), and on unscaled gradients, whoever unscales them.
"""

from __future__ import annotations

from typing import Any

import torch

from gaf.common.errors import GafError
from gaf.functions import Activation
from gaf.integrations.accelerate import refuse_engine, unwrap
from gaf.integrations.frameworks import needs
from gaf.optim import Auto, activate, activation_of, deactivate
from gaf.optim.factory import OURS, read_name, refuse_twice

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
