"""What a parameter group says about its activation, in plain values.

Three keys of our own hold it: ``gaf_function`` (a registered name or None), ``gaf_params`` (a tuple of
floats; Auto's has a name) and ``gaf_placement``. Plain values can be scheduled, saved, and loaded with
``weights_only=True``.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gaf.common.errors import GafError
from gaf.functions import Activation, Adaptive, as_activation, function_type
from gaf.functions.lift import elementwise
from gaf.functions.registry import REGISTERED
from gaf.optim import _torch
from gaf.optim.description import Rule, check_placement

Group = dict[str, Any]

KEYS = ("gaf_function", "gaf_params", "gaf_placement")


@dataclass(frozen=True)
class Acting:
    """What acts in one group in one step: its keys, read once.

    ``function``, ``kind``, which has its formula, and ``params`` are what a kernel computes. An activation
    that adapts has no ``params`` here: they come with the step, as ``factors``, a row for each tensor.
    ``activation`` is None for a formula that a rule has by itself. What was set by hand is not ``complete``:
    something is to be read off the group.
    """

    activation: Any
    placement: str
    function: str
    kind: Any
    params: tuple[float, ...]
    adaptive: bool = False
    complete: bool = True

    def formulas(self, count: int, factors: Tensor | None) -> list[Callable[[Tensor], Tensor]]:
        """f of each of ``count`` tensors."""
        formula = self.kind.formula
        if factors is None:
            return [lifted(formula, self.params)] * count
        return [lifted(formula, row) for row in factors.unbind()]


def lifted(
    formula: Callable[..., Tensor], params: tuple[float, ...] | Tensor
) -> Callable[[Tensor], Tensor]:
    """f on any kind of tensor, from plain values (no object to build, so torch.compile can)."""

    def act(x: Tensor) -> Tensor:
        # a row in the dtype of x: beside a scalar x a number of more digits would widen the result
        values = params.to(x.device, x.dtype).unbind() if isinstance(params, Tensor) else params
        y = formula(torch, x, *values)
        # the rules write into f(g), never into g: neither the same tensor nor a view of it
        shares = y is x or (not torch.compiler.is_compiling() and y._is_view())
        return y.clone() if shares else y

    return lambda g: elementwise(act, g)


def as_function(value: Activation | str | None, framework: str) -> Activation:
    """An activation as users may pass it, where functions with fixed values only are offered."""
    f = as_activation(value)
    if isinstance(f, Adaptive):
        raise TypeError(
            f"gaf.{type(f).__name__} is not offered for {framework}: give a function such as "
            "gaf.Arctan(0.1, 20)"
        )
    if f is None:
        raise TypeError("activate needs an activation such as gaf.Arctan(0.1, 20), got None")
    return f


def store(group: Group, activation: Activation | None, placement: str | None) -> None:
    """Write an activation and where it acts into a group."""
    off = activation is None
    group["gaf_function"] = None if off else activation.name
    group["gaf_params"] = None if off else activation.params
    group["gaf_placement"] = None if off else placement


def remove(group: Group) -> None:
    """Take the keys out of a group."""
    for key in KEYS:
        group.pop(key, None)


def activation_of(group: Group) -> Activation | None:
    """The activation a group describes, as a value; refuses values that describe none.

    Example:
        >>> import gaf, torch
        >>> opt = gaf.SGD([torch.zeros(2)], lr=0.1, activation="tanh(0.2, 10)")
        >>> gaf.activation_of(opt.param_groups[0])
        Tanh(alpha=0.2, beta=10.0)
    """
    acting = _read("a parameter group's", group)
    return None if acting is None else acting.activation


def resolve(group: Group, rule: Rule) -> Acting | None:
    """What acts in a group, or None.

    What was set by hand is checked, and completed as a constructor does it: an adaptive activation by what it
    reads off the group, a function without a placement by the rule's usual one.
    """
    name, params, placement = map(group.get, KEYS)
    try:  # most steps read what the step before has read
        once = _acting if torch.compiler.is_compiling() else _acting_once
        acting = None if name is None else once(name, params, placement, REGISTERED[0])
    except (TypeError, ValueError):  # not hashable, or to be refused: by name below
        acting = _read("a parameter group's", group)
    if acting is not None and not acting.complete:
        f = acting.activation
        if isinstance(f, Adaptive):
            f = f.bound_to(group)
        assert f is not None
        store(group, f, placement_of(group, f, rule, group.get("gaf_placement")))
        acting = _read("a parameter group's", group)
    # ZeroRedundancyOptimizer copies the arguments it was made with into the groups before each step.
    if "activation" in group and not _says(group["activation"], group, acting):
        raise GafError(
            'a parameter group\'s "activation" is read when the group is added; later set '
            'group["gaf_function"] and group["gaf_params"], or use gaf.ParamScheduler'
        )
    if acting is not None and acting.placement not in rule.placements:
        check_placement(acting.placement)
        raise GafError(
            f"gaf_placement was set to {acting.placement!r}, and the optimizer takes "
            f"{' or '.join(map(repr, rule.placements))} only"
        )
    return acting


def placement_of(group: Mapping[str, Any], f: Activation, rule: Rule, placement: str | None) -> str:
    """Where f acts in a group that asks for ``placement`` (None: the usual one)."""
    if placement is None and isinstance(f, Adaptive):
        usual = f.usual_placement(rule.name)
        placement = usual if usual in rule.placements else None
    return rule.place(group, placement, f)


def _read(whose: str, group: Group) -> Acting | None:
    """A group's three keys as one value."""
    name = group.get("gaf_function")
    if name is None:
        return None
    try:
        return _acting(name, group.get("gaf_params"), group.get("gaf_placement"), REGISTERED[0])
    except (TypeError, ValueError) as error:
        raise _unreadable(whose, group, error) from None


@_torch.disable_dynamo  # torch 2.6 does not compile join
def _unreadable(whose: str, group: Group, reason: object) -> GafError:
    entries = ", ".join(f"{key}={group.get(key)!r}" for key in KEYS)
    return GafError(f"{whose} activation ({entries}) cannot be read: {reason}")


def _acting(name: Any, params: Any, placement: Any, registered: int) -> Acting:
    """What the three keys say; ``registered`` makes a class that is registered again be read again."""
    if not isinstance(name, str):
        raise TypeError(f"gaf_function is a name or None, got {type(name).__name__}")
    if not isinstance(params, (tuple, list)):  # in a union torch 2.6 breaks the graph
        raise TypeError(f"gaf_params is a tuple of numbers, got {type(params).__name__}")
    kind = function_type(name)
    names = kind.__match_args__  # of the fields; torch.compile does not follow dataclasses.fields
    later = kind.later if issubclass(kind, Adaptive) else 0
    if not len(names) - later <= len(params) <= len(names):
        raise GafError(f"{kind.name} takes ({', '.join(names)}), got {len(params)} values")
    f = kind(*params)
    placed = placement is not None
    if isinstance(f, Adaptive):  # its factors are within the kernels' range by themselves
        return Acting(f, placement, f.function, f.curve, (), True, placed and f.is_bound)
    return Acting(f, placement, f.name, kind, f.params, False, placed)


_acting_once = functools.lru_cache(_acting)


def _says(given: Activation | str | None, group: Group, acting: Acting | None) -> bool:
    """Whether a group that was given this has that."""
    f = as_activation(given)
    if isinstance(f, Adaptive) and acting is not None and acting.adaptive:
        f = f.bound_to(group)
    return f == (None if acting is None else acting.activation)


def adapt_checkpoint(
    groups: list[Group],
    state_dict: dict[str, Any],
    convert: Callable[[Group, dict[Any, Any]], None] = lambda group, state: None,
) -> dict[str, Any]:
    """A checkpoint made fit for ``groups``: what it says wins, what it does not say stays.

    A torch.optim checkpoint says nothing of an activation, so the constructor's stays on. One saved
    under another placement is refused: its velocities mean something else. ``convert`` may change the state
    of a group that torch.optim has saved.
    """
    saved_groups = [dict(saved) for saved in state_dict["param_groups"]]
    state = dict(state_dict["state"])
    for number, (group, saved) in enumerate(zip(groups, saved_groups, strict=False)):
        if "gaf_function" not in saved:
            saved.update({key: group[key] for key in KEYS})
            convert(saved, state)
            continue
        if saved["gaf_function"] is None and group["gaf_function"] is not None:
            warnings.warn(
                f"the checkpoint was saved without an activation: {activation_of(group)} is switched "
                f"off in parameter group {number}",
                stacklevel=3,
            )
        f = _check_saved(saved)
        if f is not None:
            saved["gaf_params"] = f.params  # an earlier version's may be fewer
        here, there = group["gaf_placement"], saved["gaf_placement"]
        if None not in (here, there) and here != there:
            raise GafError(
                f"the checkpoint was saved with placement={there!r}, this optimizer was made with "
                f"placement={here!r}, and their velocities mean different things: make the optimizer "
                f"with placement={there!r} to resume it"
            )
    return {**state_dict, "state": state, "param_groups": saved_groups}


def _check_saved(saved: Group) -> Activation | None:
    """The activation that was saved; refuses settings that no optimizer of ours can have written."""
    whose = "the checkpoint's"
    if any(key not in saved for key in KEYS):
        raise _unreadable(whose, saved, "a key is missing")
    try:
        check_placement(saved["gaf_placement"])
    except ValueError as error:
        raise _unreadable(whose, saved, error) from None
    acting = _read(whose, saved)
    if (acting is None) != (saved["gaf_placement"] is None):
        raise _unreadable(whose, saved, "a function and its placement go together")
    if acting is not None and not acting.complete:
        raise _unreadable(whose, saved, "its learning rate is missing")
    return None if acting is None else acting.activation
