"""Every optimizer, placement and implementation, and torch's own counterpart of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

import gaf

F = gaf.Arctan(0.1, 20)
IMPLEMENTATIONS = {
    "single": {"foreach": False, "fused": False},
    "foreach": {"foreach": True, "fused": False},
    "fused": {"fused": True},
}
TORCH = {gaf.SGD: torch.optim.SGD, gaf.Adam: torch.optim.Adam, gaf.AdamW: torch.optim.AdamW}


def zero_redundancy(*args: Any, **kwargs: Any) -> torch.optim.Optimizer:
    from torch.distributed.optim import ZeroRedundancyOptimizer  # warns about torch's own torch.jit

    return ZeroRedundancyOptimizer(*args, **kwargs)


@dataclass(frozen=True)
class Config:
    """How one network is trained: f in our optimizer, in front of torch's, or by ``activate_grad_``."""

    name: str
    way: str  # "ours", "activated" or "functional"
    kind: Any
    arguments: dict[str, Any] = field(default_factory=dict)

    def make(self, params: Any, *, zero: bool = False, plain: bool = False) -> Any:
        """The optimizer: sharded by ZeRO-1 or not, with f or (plain) torch's own."""
        arguments, kind = dict(self.arguments), self.kind
        if self.way == "ours" and plain:
            kind = TORCH[kind]
            arguments.pop("placement", None)
            if (
                kind is torch.optim.SGD
            ):  # torch's own fused SGD takes no DTensor; it would send nothing
                arguments.pop("fused")
        elif self.way == "ours":
            arguments["activation"] = F
        made = zero_redundancy(params, kind, **arguments) if zero else kind(params, **arguments)
        return gaf.activate(made, F) if self.way == "activated" and not plain else made

    def before_step(self, params: Iterable[Tensor]) -> None:
        if self.way == "functional":
            gaf.activate_grad_(params, F)


def _configs() -> list[Config]:
    momentum = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}
    rules: dict[str, tuple[Any, dict[str, Any]]] = {
        "sgd": (gaf.SGD, {"lr": 0.1}),
        **{f"sgd@{place}": (gaf.SGD, {**momentum, "placement": place}) for place in gaf.PLACEMENTS},
        "nesterov@momentum": (gaf.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
        "adam": (gaf.Adam, {"lr": 0.01, "weight_decay": 0.01}),
        "adam@momentum": (gaf.Adam, {"lr": 0.01, "eps": 0, "placement": "momentum"}),
        "adamw": (gaf.AdamW, {"lr": 0.01, "amsgrad": True}),
        "adamw@update": (gaf.AdamW, {"lr": 0.01, "placement": "update"}),
    }
    found = [
        Config(f"{name} {how}", "ours", kind, {**arguments, **flags})
        for name, (kind, arguments) in rules.items()
        for how, flags in IMPLEMENTATIONS.items()
    ]
    for how, flags in IMPLEMENTATIONS.items():
        adam = {"lr": 0.01, **flags}
        found.append(Config(f"activated adam {how}", "activated", torch.optim.Adam, adam))
    found.append(Config("activated rmsprop", "activated", torch.optim.RMSprop, {"lr": 0.01}))
    return [*found, Config("activate_grad_", "functional", torch.optim.SGD, {"lr": 0.1})]


CONFIGS = _configs()


def groups_of(tower: nn.Module) -> list[dict[str, Any]]:
    """Plain tensors apart from DTensors: torch's foreach and fused operators do not take both at once."""
    by_type: dict[bool, list[Tensor]] = {}
    for p in tower.parameters():
        by_type.setdefault(hasattr(p, "device_mesh"), []).append(p)
    return [{"params": params} for params in by_type.values()]
