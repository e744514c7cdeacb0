"""What our optimizers share: settings per group, checkpoints, and loss-scaling rules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from gaf.functions import Activation, as_activation
from gaf.optim import settings
from gaf.optim.monitor import Monitor
from gaf.optim.settings import Group


class ActivatedOptimizer(torch.optim.Optimizer):
    """Mixed into a torch optimizer, in front of it; the settings live in the parameter groups."""

    gaf_monitor: Monitor | None = None

    def _begin(self, activation: Activation | str | None, placement: str | None) -> None:
        """Keep the constructor's setting for the groups that torch's constructor will add."""
        self._setting = (as_activation(activation), settings.check_placement(placement))

    def _placement(self, group: Group, placement: str | None) -> str:
        """The placement for a group that asks for ``placement`` (None: the default)."""
        raise NotImplementedError

    def _meaning(self, group: Group) -> str:
        """What a pure rescaling by ``{slope}`` would amount to in a group."""
        raise NotImplementedError

    def _begin_observation(self) -> None:
        if self.gaf_monitor is not None:
            self.gaf_monitor.begin_step()

    def _observing(self) -> bool:
        return self.gaf_monitor is not None and self.gaf_monitor.due

    @torch._disable_dynamo
    def _observe(self, number: int, inputs: Iterable[Tensor]) -> None:
        group = self.param_groups[number]
        f = settings.activation_of(group)
        if self.gaf_monitor is not None and f is not None:
            self.gaf_monitor.observe(number, f, inputs, meaning=self._meaning(group))

    def add_param_group(self, param_group: Group) -> None:
        """Add a group; it may carry ``activation`` and ``placement`` of its own."""
        if isinstance(param_group, dict):
            group = dict(param_group)  # the caller's dict stays as it is
            activation, placement = self._setting
            if "gaf_function" in group:
                activation = settings.activation_of(group)
                placement = group["gaf_placement"]
            activation = as_activation(group.pop("activation", activation))
            placement = settings.check_placement(group.pop("placement", placement))
            if activation is not None:
                placement = self._placement({**self.defaults, **group}, placement)
            settings.store(group, activation, placement)
            _refuse_fused({**self.defaults, **group})
            param_group = group
        super().add_param_group(param_group)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_setting": self._setting}

    @torch._disable_dynamo
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a checkpoint of ours or of torch.optim (which leaves the activation as it is)."""
        super().load_state_dict(settings.adapt_checkpoint(self.param_groups, state_dict))

    @property
    def _step_supports_amp_scaling(self) -> bool:
        # Read by torch.amp.GradScaler: True hands step() scaled gradients. Only torch's own fused
        # kernels, which serve groups without an activation, unscale them.
        return all(group["fused"] and group["gaf_function"] is None for group in self.param_groups)

    @_step_supports_amp_scaling.setter
    def _step_supports_amp_scaling(self, value: bool) -> None:
        """torch's constructor sets this for ``fused=True``; here it follows from the groups."""

    def _skipping(self) -> bool:
        """Whether GradScaler found an inf, so that torch's fused kernels have written nothing."""
        found_inf = getattr(self, "found_inf", None)
        return found_inf is not None and found_inf.item() > 0


def _refuse_fused(group: Group) -> None:
    if group["fused"] and group["gaf_function"] is not None:
        if group["foreach"]:  # torch would say so, but only after its constructor has come here
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
        raise RuntimeError(
            "`fused=True` has no kernel for a group with an activation: leave `fused` unset"
        )
