"""What a parameter group says about its activation, in plain values.

Three keys of our own hold it: ``gaf_function`` (a registered name or None), ``gaf_params`` (a tuple of
floats) and ``gaf_placement``. Plain values can be scheduled, saved, and loaded with
``weights_only=True``.
"""

from __future__ import annotations

import difflib
import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from gaf.common.errors import GafError
from gaf.functions import Activation, as_activation, function_type
from gaf.functions.lift import elementwise
from gaf.optim import adapt
from gaf.optim.auto import Auto
from gaf.optim.rules import PLACEMENTS

Group = dict[str, Any]

KEYS = ("gaf_function", "gaf_params", "gaf_placement")

# SGD's velocity. In the placement "update" the learning rate of every past step is baked into it, so
# it is kept apart from torch's momentum_buffer.
VELOCITY = {
    None: "momentum_buffer",
    "gradient": "momentum_buffer",
    "momentum": "momentum_buffer",
    "update": "gaf_velocity",
}


def as_setting(value: Activation | Auto | str | None) -> Activation | Auto | None:
    """An activation, Auto, the name of either, or None, as users may pass it."""
    if isinstance(value, Auto):
        return value
    return (Auto.named(value) if isinstance(value, str) else None) or as_activation(value)


def as_function(value: Activation | Auto | str | None, framework: str) -> Activation:
    """The same for a framework that offers functions with fixed values only."""
    f = as_setting(value)
    if isinstance(f, Auto):
        raise TypeError(
            f"gaf.Auto is not offered for {framework}: give a function such as gaf.Arctan(0.1, 20)"
        )
    if f is None:
        raise TypeError("activate needs an activation such as gaf.Arctan(0.1, 20), got None")
    return f


def type_of(name: str) -> type[Activation] | type[Auto]:
    """The class that ``gaf_function`` names."""
    return Auto if name == Auto.name else function_type(name)


def store(group: Group, activation: Activation | Auto | None, placement: str | None) -> None:
    """Write an activation and where it acts into a group."""
    off = activation is None
    group["gaf_function"] = None if off else activation.name
    group["gaf_params"] = None if off else activation.params
    group["gaf_placement"] = None if off else placement


def remove(group: Group) -> None:
    """Take the keys out of a group."""
    for key in KEYS:
        group.pop(key, None)


def activation_of(group: Group) -> Activation | Auto | None:
    """The activation a group describes, as a value; refuses values that describe none.

    Example:
        >>> import gaf, torch
        >>> opt = gaf.SGD([torch.zeros(2)], lr=0.1, activation="tanh(0.2, 10)")
        >>> gaf.activation_of(opt.param_groups[0])
        Tanh(alpha=0.2, beta=10.0)
    """
    try:
        return _read(group)
    except (TypeError, ValueError) as error:
        raise _unreadable("a parameter group's", group, error) from None


def is_active(group: Group, placements: Sequence[str] = ("gradient",)) -> bool:
    """Whether the group has an activation.

    What was set by hand is checked, and completed as a constructor does it: Auto by its learning rate, a
    function without a placement by the usual one of ``placements``, those that the optimizer takes.
    """
    f = activation_of(group)
    if f is not None and group.get("gaf_placement") is None:
        group["gaf_placement"] = _usual_placement(group, f, placements)
    if isinstance(f, Auto) and f.lr is None:
        f = f.of(group)
        store(group, f, group["gaf_placement"])
    # ZeroRedundancyOptimizer copies the arguments it was made with into the groups before each step.
    if "activation" in group and not _says(group["activation"], f):
        raise GafError(
            'a parameter group\'s "activation" is read when the group is added; later set '
            'group["gaf_function"] and group["gaf_params"], or use gaf.ParamScheduler'
        )
    if f is not None and group["gaf_placement"] not in placements:
        check_placement(group["gaf_placement"])
        raise GafError(
            f"gaf_placement was set to {group['gaf_placement']!r}, and the optimizer takes "
            f"{' or '.join(map(repr, placements))} only"
        )
    return f is not None


def _read(group: Group) -> Activation | Auto | None:
    """The activation a group describes."""
    name, params = group.get("gaf_function"), group.get("gaf_params")
    if name is None:
        return None
    if not isinstance(name, str):
        raise TypeError(f"gaf_function is a name or None, got {type(name).__name__}")
    if not isinstance(params, tuple | list):
        raise TypeError(f"gaf_params is a tuple of numbers, got {type(params).__name__}")
    make = _made if torch.compiler.is_compiling() else _made_once
    return make(type_of(name), *params)


def _made(kind: type[Activation] | type[Auto], *params: float) -> Activation | Auto:
    names = kind.__match_args__  # of the fields; torch.compile does not follow dataclasses.fields
    if len(params) != len(names):
        raise GafError(f"{kind.name} takes ({', '.join(names)}), got {len(params)} values")
    return kind(*params)


_made_once = functools.lru_cache(_made)  # most steps read what the step before has read


def _unreadable(whose: str, group: Group, error: Exception) -> GafError:
    entries = ", ".join(f"{key}={group.get(key)!r}" for key in KEYS)
    return GafError(f"{whose} activation ({entries}) cannot be read: {error}")


def _usual_placement(group: Group, f: Activation | Auto, placements: Sequence[str]) -> str:
    if isinstance(f, Auto):
        return Auto.placement
    return sgd_placement(group["momentum"], None) if "momentum" in placements else "gradient"


def _says(given: Activation | Auto | str | None, held: Activation | Auto | None) -> bool:
    """Whether a group that was given this holds that."""
    f = as_setting(given)
    if isinstance(f, Auto) and isinstance(held, Auto):
        f = f.of({"lr": held.lr})
    return f == held


def formulas_of(
    group: Group, count: int, factors: Tensor | None
) -> list[Callable[[Tensor], Tensor]]:
    """f of each of the group's tensors; ``factors`` is what Auto has set."""
    return [_formula(group)] * count if factors is None else adapt.formulas(factors)


def kernel_of(group: Group) -> tuple[str, tuple[float, ...]]:
    """The function that a kernel computes, and what is known of its parameters before a step."""
    if adapt.is_auto(group):
        return Auto.function, ()  # within the kernels' range by themselves
    return group["gaf_function"], group["gaf_params"]


def _formula(group: Group) -> Callable[[Tensor], Tensor]:
    """The group's f on tensors, from its plain values (no object to build, so torch.compile can)."""
    formula, params = function_type(group["gaf_function"]).formula, group["gaf_params"]

    def act(x: Tensor) -> Tensor:
        y = formula(torch, x, *params)
        return y.clone() if y is x else y  # the rules write into f(g), never into g

    return lambda g: elementwise(act, g)


def check_placement(placement: str | None) -> str | None:
    """Refuse a placement that does not exist, naming the nearest."""
    if placement is None or placement in PLACEMENTS:
        return placement
    near = difflib.get_close_matches(str(placement), PLACEMENTS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"it is one of {', '.join(PLACEMENTS)}"
    raise GafError(f"unknown placement {placement!r}; {hint}")


def sgd_placement(momentum: float, placement: str | None) -> str:
    """Where f acts in SGD: behind the velocity if there is one, unless another placement is asked for."""
    if placement is None:
        return "momentum" if momentum > 0 else "gradient"
    if placement == "momentum" and not momentum > 0:
        raise GafError(
            f'placement="momentum" needs a momentum above 0, got momentum={momentum}; set one, or use '
            'placement="gradient"'
        )
    return placement


def adapt_checkpoint(groups: list[Group], state_dict: dict[str, Any]) -> dict[str, Any]:
    """A checkpoint made fit for ``groups``: what it says wins, what it does not say stays.

    A torch.optim checkpoint says nothing of an activation, so the constructor's stays on. One saved
    under another placement is refused: its velocities mean something else.
    """
    saved_groups = [dict(saved) for saved in state_dict["param_groups"]]
    state = dict(state_dict["state"])
    for number, (group, saved) in enumerate(zip(groups, saved_groups, strict=False)):
        if "gaf_function" not in saved:
            saved.update({key: group[key] for key in KEYS})
            if group["gaf_placement"] == "update":
                _bake_learning_rate(saved, state)
            continue
        if saved["gaf_function"] is None and group["gaf_function"] is not None:
            warnings.warn(
                f"the checkpoint was saved without an activation: {activation_of(group)} is switched "
                f"off in parameter group {number}",
                stacklevel=3,
            )
        _check_saved(saved)
        here, there = group["gaf_placement"], saved["gaf_placement"]
        if None not in (here, there) and here != there:
            raise GafError(
                f"the checkpoint was saved with placement={there!r}, this optimizer was made with "
                f"placement={here!r}, and their velocities mean different things: make the optimizer "
                f"with placement={there!r} to resume it"
            )
    return {**state_dict, "state": state, "param_groups": saved_groups}


def _check_saved(saved: Group) -> None:
    """Refuse settings that no optimizer of ours can have written, before they reach a step."""
    try:
        if any(key not in saved for key in KEYS):
            raise GafError("a key is missing")
        check_placement(saved["gaf_placement"])
        f = _read(saved)
        if (f is None) != (saved["gaf_placement"] is None):
            raise GafError("a function and its placement go together")
        if isinstance(f, Auto) and f.lr is None:
            raise GafError("its learning rate is missing")
    except (TypeError, ValueError) as error:
        raise _unreadable("the checkpoint's", saved, error) from None


def _bake_learning_rate(saved: Group, state: dict[Any, Any]) -> None:
    """Turn torch's momentum buffers into the velocities of "update": v = -lr * buffer."""
    for index in saved["params"]:
        entry = dict(state.get(index, {}))
        buffer = entry.pop(VELOCITY[None], None)
        if buffer is not None:
            state[index] = {**entry, VELOCITY["update"]: buffer * -saved["lr"]}
