"""What our optimizers share: settings per group, checkpoints, and loss-scaling rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from gaf.common.errors import GafError
from gaf.functions import Activation
from gaf.optim import adapt, settings
from gaf.optim.auto import Auto
from gaf.optim.monitor import Monitor
from gaf.optim.select import check_fused
from gaf.optim.settings import Group


class ActivatedOptimizer(torch.optim.Optimizer):
    """Mixed into a torch optimizer, in front of it; the settings live in the parameter groups."""

    version: ClassVar[int] = 1  # raised when the same settings and gradients give other weights
    gaf_monitor: Monitor | None = None

    def _begin(self, activation: Activation | Auto | str | None, placement: str | None) -> None:
        """Keep the constructor's setting for the groups that torch's constructor will add."""
        self._setting = (settings.as_setting(activation), settings.check_placement(placement))

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
    def _observe(self, number: int, inputs: Iterable[Tensor], factors: Tensor | None) -> None:
        group = self.param_groups[number]
        f = settings.activation_of(group)
        if self.gaf_monitor is not None and f is not None:
            skipped = self._loss_scale()["found_inf"]
            self.gaf_monitor.observe(
                number, f, inputs, meaning=self._meaning(group), skipped=skipped, factors=factors
            )

    def add_param_group(self, param_group: Group) -> None:
        """Add a group; it may carry ``activation`` and ``placement`` of its own."""
        if isinstance(param_group, dict):
            group = dict(param_group)  # the caller's dict stays as it is
            activation, placement = self._setting
            if "gaf_function" in group:
                activation = settings.activation_of(group)
                placement = group["gaf_placement"]
            activation = settings.as_setting(group.pop("activation", activation))
            placement = settings.check_placement(group.pop("placement", placement))
            if isinstance(activation, Auto):
                activation = activation.of({**self.defaults, **group})
                if {**self.defaults, **group}["differentiable"]:
                    raise GafError(
                        "Auto reads its alpha and beta off the gradients, which autograd does not follow: "
                        "leave differentiable=False, or give a function with fixed values"
                    )
                placement = placement or Auto.placement
            if activation is not None:
                placement = self._placement({**self.defaults, **group}, placement)
            settings.store(group, activation, placement)
            param_group = group
        super().add_param_group(param_group)
        try:
            check_fused(self.param_groups[-1])
        except RuntimeError:
            self.param_groups.pop()
            raise

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_setting": self._setting}

    @torch._disable_dynamo
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a checkpoint of ours or of torch.optim (which leaves the activation as it is).

        ``foreach`` and ``fused`` of a group with an activation stay as they were made: they are about this
        machine, not about the training.
        """
        state_dict = settings.adapt_checkpoint(self.param_groups, state_dict)
        for group, saved in zip(self.param_groups, state_dict["param_groups"], strict=False):
            if saved["gaf_function"] is not None:
                saved.update(foreach=group["foreach"], fused=group["fused"])
        super().load_state_dict(state_dict)
        for p, state in adapt.saved(self, state_dict).items():
            self.state[p][adapt.KEY] = state

    @property
    def _step_supports_amp_scaling(self) -> bool:
        # Read by torch.amp.GradScaler: True hands step() scaled gradients, the scale and found_inf. Fused
        # kernels honour both, ours (with an activation) and torch's own (without).
        return all(group["fused"] for group in self.param_groups)

    @_step_supports_amp_scaling.setter
    def _step_supports_amp_scaling(self, value: bool) -> None:
        """torch's constructor sets this for ``fused=True``; here it follows from the groups."""

    def _loss_scale(self) -> dict[str, Any]:
        """What GradScaler tells a fused step."""
        return {name: getattr(self, name, None) for name in ("grad_scale", "found_inf")}

    def _unscaled(self, grads: list[Tensor]) -> list[Tensor]:
        """The gradients as f sees them."""
        scale = self._loss_scale()["grad_scale"]
        return grads if scale is None else [unscaled(g, scale) for g in grads]

    def _adapted(
        self,
        group: Group,
        params: list[Tensor],
        grads: list[Tensor],
        velocities: Sequence[Tensor | None] = (),
        hyper: dict[str, Any] | None = None,
    ) -> Tensor | None:
        """Let Auto see the step; returns each tensor's alpha and beta, None for any other function."""
        if not adapt.is_auto(group) or not params:
            return None
        entries = [self.state[p] for p in params]
        told = self._loss_scale()
        new, factors = adapt.adapt(
            group,
            params,
            grads,
            velocities,
            [entry.get(adapt.KEY) for entry in entries],
            hyper=hyper,
            scale=told["grad_scale"],
            skipped=told["found_inf"],
        )
        if all(adapt.KEY in entry for entry in entries) or not self._skipping():
            adapt.write(entries, new)
        return factors

    def _skipping(self) -> bool:
        """Whether GradScaler found an inf, so that torch's fused kernels have written nothing."""
        found_inf = getattr(self, "found_inf", None)
        return found_inf is not None and found_inf.item() > 0


def unscaled(g: Tensor, scale: Tensor) -> Tensor:
    """What GradScaler.unscale_ does, in float32 for half precision: f(g) is rounded to it, not g."""
    wide = g.to(torch.promote_types(g.dtype, torch.float32))
    return wide * scale.double().reciprocal().float().to(g.device)
