"""The optimizer that one run of a script is asked to use, made from the script's own call."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.optim.optimizer import ParamsT

from gaf.common.errors import GafError
from gaf.functions import Activation, Adaptive, as_activation
from gaf.optim.activate import ANY, OWN, activate_groups
from gaf.optim.adam import Adam, AdamW
from gaf.optim.base import ActivatedOptimizer
from gaf.optim.factory import OURS, create_optimizer, optimizer_type, read_name
from gaf.optim.family import FAMILY
from gaf.optim.lion import Lion
from gaf.optim.settings import activation_of
from gaf.optim.sgd import SGD
from gaf.optim.treatment import Treatment
from gaf.trials.request import Request

# ours of torch's own classes
_SUBCLASSES: dict[Any, type[ActivatedOptimizer]] = {
    torch.optim.SGD: SGD,
    torch.optim.Adam: Adam,
    torch.optim.AdamW: AdamW,
}


def entries_of(params: ParamsT) -> list[Any]:
    """Parameters or groups as lists, which can be given to several constructors."""
    if isinstance(params, torch.Tensor | torch.nn.Module):
        raise TypeError("trial.optimizer takes parameters: pass model.parameters()")
    entries: list[Any] = list(params)
    for place, entry in enumerate(entries):
        if isinstance(entry, dict):
            own = entry["params"]
            own = [own] if isinstance(own, torch.Tensor) else list(own)
            entries[place] = {**entry, "params": own}
    return entries


def copies(entries: Iterable[Any]) -> list[Any]:
    """Groups that a constructor may write into."""
    return [dict(entry) if isinstance(entry, dict) else entry for entry in entries]


@dataclass(frozen=True)
class _Kind:
    """What makes an optimizer, with what its name says beside."""

    make: Callable[..., torch.optim.Optimizer]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    activation: Activation | None = None
    placement: str | None = None

    @property
    def known(self) -> set[str]:
        """The arguments that it names."""
        return {*inspect.signature(self.make).parameters} - {"params", *OWN}

    def takes(self, key: str) -> bool:
        """Whether it can be given an argument."""
        parameters = inspect.signature(self.make).parameters.values()
        return key in self.known or any(p.kind is p.VAR_KEYWORD for p in parameters)


def _kind(rule: str | Callable[..., torch.optim.Optimizer]) -> _Kind:
    if not isinstance(rule, str):
        return _Kind(rule)
    key = rule.strip().lower()
    if key in FAMILY and key not in OURS:
        member = FAMILY[key]
        return dataclasses.replace(_kind(member.setting), arguments=member.arguments)
    optimizer, f, placement = read_name(rule)
    return _Kind(OURS.get(optimizer) or optimizer_type(optimizer), {}, f, placement)


def script_optimizer(
    rule: str | Callable[..., torch.optim.Optimizer], groups: list[Any], arguments: dict[str, Any]
) -> torch.optim.Optimizer:
    if isinstance(rule, str):
        return create_optimizer(rule, groups, **arguments)
    return rule(groups, **arguments)


def requested_optimizer(
    request: Request,
    rule: str | Callable[..., torch.optim.Optimizer],
    entries: list[Any],
    arguments: dict[str, Any],
    own: torch.optim.Optimizer,
    unit: float,
) -> tuple[torch.optim.Optimizer, list[str]]:
    """The optimizer that the run is to use, and the arguments of the script that it does not know.

    Args:
        request: what is asked.
        rule: of the script.
        entries: parameters or groups of the script.
        arguments: of the script.
        own: the optimizer that the script would have.
        unit: the rate of the script that ``request.lr`` stands for.
    """
    old = _kind(rule)
    if request.activation is not None and request.rule is None:
        # which places f where the learning rate multiplies, and knows its matched control
        old = dataclasses.replace(old, make=_SUBCLASSES.get(old.make, old.make))
    new = old if request.rule is None else _kind(request.rule)
    kept, dropped = _kept(old, new, arguments, own)
    for key, value in request.arguments.items():
        if not new.takes(key):
            raise GafError(f"the optimizer of this run has no argument {key!r}")
        kept[key] = tuple(value) if isinstance(value, list) else value
    f, placement = new.activation, new.placement
    if request.activation is not None:
        f, placement = as_activation(request.activation), request.placement
        kept = {key: value for key, value in kept.items() if key not in OWN}

    def rate(own_lr: Any) -> Any:
        if request.lr is None:
            return own_lr * request.factor
        return float(own_lr) / unit * request.lr * request.factor

    if "lr" in own.defaults and not any(group.get("lr") for group in own.param_groups):
        raise GafError(
            "the script's optimizer has a learning rate of 0, which no factor changes: give trial.optimizer "
            "its lr, and trial.rate(lr) to a scheduler that sets another"
        )
    if "lr" in own.defaults and new.takes("lr"):
        kept["lr"] = rate(own.defaults["lr"])
    elif request.factor != 1.0 or request.lr is not None:
        raise GafError("the optimizer of this run has no lr, so its rate cannot be changed")
    groups = []
    unknown = set() if new is old else old.known - new.known
    for entry, group in zip(_as_groups(entries), own.param_groups, strict=True):
        changed = {key: value for key, value in entry.items() if key not in unknown}
        dropped |= entry.keys() & unknown
        if "lr" in changed:
            changed["lr"] = rate(group["lr"])
        groups.append(changed)
    made = _made(new, groups, kept, f, placement, request.treatment)
    if request.control:
        made = _made(new, _controls(made), kept, None, None, request.treatment)
    return made, sorted(dropped)


def own_rate(own: torch.optim.Optimizer) -> float:
    """The learning rate that stands for an optimizer: the one it was given, where a group has it.

    Where every group has a rate of its own, it is that of the first group that has one above 0.

    Example:
        >>> w = torch.nn.Parameter(torch.zeros(1))
        >>> own_rate(torch.optim.SGD([{"params": [w], "lr": 0.1}]))
        0.1
    """
    rates = [float(group.get("lr") or 0.0) for group in own.param_groups]
    given = float(own.defaults.get("lr") or 0.0)
    return (
        given if given > 0 and given in rates else next((rate for rate in rates if rate > 0), 1.0)
    )


def _kept(
    old: _Kind, new: _Kind, arguments: dict[str, Any], script: torch.optim.Optimizer
) -> tuple[dict[str, Any], set[str]]:
    """The script's arguments as another rule takes them, and those that it does not know."""
    if new is old:
        return {**old.arguments, **arguments}, set()
    # what a member of the family is defined by is its own; a decay, as in a comparison, the script's
    own = {key: value for key, value in new.arguments.items() if key not in ("lr", "weight_decay")}
    known = {key: value for key, value in arguments.items() if key in new.known}
    if "weight_decay" in script.defaults and "weight_decay" in new.known:
        known["weight_decay"] = script.defaults["weight_decay"]  # unset, it is another one in AdamW
    return {**known, **own}, arguments.keys() - new.known


def _as_groups(entries: list[Any]) -> list[dict[str, Any]]:
    """All as groups: parameters by themselves are one."""
    return entries if entries and isinstance(entries[0], dict) else [{"params": entries}]


def _made(
    kind: _Kind,
    groups: list[dict[str, Any]],
    arguments: dict[str, Any],
    f: Activation | None,
    placement: str | None,
    treatment: Treatment,
) -> torch.optim.Optimizer:
    """The optimizer with f; gradients are treated before f sees them."""
    if isinstance(kind.make, type) and issubclass(kind.make, ActivatedOptimizer):
        chosen = {} if f is None else {"activation": f, "placement": placement}
        made: torch.optim.Optimizer = kind.make(copies(groups), **{**arguments, **chosen})
        treatment.attach(made)
        return made
    made = kind.make(copies(groups), **arguments)
    treatment.attach(made)
    by_group = any(key in group for group in made.param_groups for key in OWN)
    return activate_groups(made, f, placement) if f is not None or by_group else made


def _controls(made: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """The groups with f replaced by its slope s, as :class:`gaf.optim.description.Rule` says for each."""
    groups = []
    rule = made.rule if isinstance(made, ActivatedOptimizer) else ANY
    for group in made.param_groups:
        f = activation_of(group)
        changed = {key: value for key, value in group.items() if not key.startswith("gaf_")}
        groups.append(changed)
        if f is None:
            continue
        if isinstance(f, Adaptive) or not math.isfinite(f.slope):
            raise GafError(f"{f.name} has no one slope, so there is no matched control of it")
        if rule is ANY and group["gaf_placement"] == "gradient":
            raise GafError(
                f"what a slope does to {type(made).__name__} is not known, so there is no matched control of "
                f"{f.name} on its gradient"
            )
        decoupled = isinstance(made, AdamW | Lion) or group.get("decoupled_weight_decay", False)
        apart = {**group, "decoupled_weight_decay": decoupled}
        changed.update(rule.matched(apart, group["gaf_placement"], f.slope))
    return groups


def described(
    made: torch.optim.Optimizer, own: torch.optim.Optimizer, dropped: list[str]
) -> dict[str, Any]:
    """An optimizer as ``report.json`` has it: plain values of each group."""
    plain = (bool, int, float, str, type(None))

    def values(group: dict[str, Any]) -> dict[str, Any]:
        settled = {key: _value(value) for key, value in group.items() if key != "params"}
        return {
            key: value
            for key, value in settled.items()
            if isinstance(value, plain)
            or (isinstance(value, list) and all(isinstance(part, plain) for part in value))
        }

    return {
        "rule": type(made).__name__,
        "groups": [values(group) for group in made.param_groups],
        "script_rule": type(own).__name__ + (f" + {f!r}" if (f := _function(own)) else ""),
        "script_rate": own_rate(own) if "lr" in own.defaults else None,
        "script_lr": [_value(group.get("lr")) for group in own.param_groups],
        "dropped": dropped,
    }


def _function(own: torch.optim.Optimizer) -> Any:
    """The activation that a script gives its optimizer by itself."""
    return activation_of(own.param_groups[0])


def _value(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        return value.item()
    return list(value) if isinstance(value, tuple) else value
