"""An optimizer by one string, as configurations and command lines name it."""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import ParamsT

from gaf.common.errors import GafError
from gaf.common.texts import did_you_mean
from gaf.functions import Activation, as_activation
from gaf.optim.activate import ANY, OWN, activate_groups
from gaf.optim.adam import Adam, AdamW
from gaf.optim.base import ActivatedOptimizer
from gaf.optim.description import check_placement
from gaf.optim.family import FAMILY
from gaf.optim.lion import Lion
from gaf.optim.sgd import SGD

OURS: dict[str, type[ActivatedOptimizer]] = {"sgd": SGD, "adam": Adam, "adamw": AdamW, "lion": Lion}

CLASS = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")  # module:Class

# OPTIMIZER[+FUNCTION][@PLACEMENT]; a function may hold a plus of its own, as in tanh(1e+2, 3).
_NAME = re.compile(
    r"\s*(?P<optimizer>[\w.]+:\w+|[\w-]+)\s*(?:\+(?P<function>[^@]*))?(?:@\s*(?P<placement>\w*)\s*)?"
)


def create_optimizer(name: str, params: ParamsT, **arguments: Any) -> torch.optim.Optimizer:
    """Make an optimizer from a name such as ``"sgd+arctan(0.1, 20)@momentum"``.

    Args:
        name: an optimizer, a ``+`` and a function, an ``@`` and a placement; the last two may be left out.
            ``sgd``, ``adam``, ``adamw`` and ``lion`` are ours, any other of torch.optim is served by
            :func:`gaf.activate`, in whatever case of letters, as is ``module:Class`` of another package,
            which is imported. Or a member of ``gaf.FAMILY``, such as ``"adam-atan2"``, with its published
            defaults.
        params: what torch's optimizers take: parameters, or groups of them.
        **arguments: of the optimizer, such as ``lr``.

    Example:
        >>> import gaf, torch
        >>> w = torch.zeros(3, requires_grad=True)
        >>> opt = gaf.create_optimizer("sgd+arctan(0.1, 20)@momentum", [w], lr=0.1, momentum=0.9)
        >>> type(opt), gaf.activation_of(opt.param_groups[0])
        (<class 'gaf.optim.sgd.SGD'>, Arctan(alpha=0.1, beta=20.0))
        >>> opt = gaf.create_optimizer("rmsprop+tanh(0.2, 10)", [w], lr=0.01)
        >>> isinstance(opt, torch.optim.RMSprop), gaf.is_activated(opt)
        (True, True)
        >>> gaf.create_optimizer("adam-atan2", [w], lr=1e-3).param_groups[0]["eps"]
        0
    """
    if isinstance(params, nn.Module):
        raise TypeError("create_optimizer takes parameters: pass model.parameters(), not the model")
    return optimizer_maker(name)(params, **arguments)


def optimizer_maker(name: str) -> Callable[..., torch.optim.Optimizer]:
    """What makes the optimizer of a name from parameters and arguments; a wrong name is refused here."""
    known = name.strip().lower() if isinstance(name, str) else ""
    if known in FAMILY and known not in OURS:
        member = FAMILY[known]
        make_member = optimizer_maker(member.setting)
        return lambda params, **arguments: make_member(params, **{**member.arguments, **arguments})
    optimizer, f, placement = read_name(name)
    if optimizer in OURS:

        def make(params: ParamsT, **arguments: Any) -> torch.optim.Optimizer:
            chosen = {"activation": f, "placement": placement}
            refuse_twice(name, arguments)
            return OURS[optimizer](params, **arguments, **chosen)

        return make
    kind = optimizer_type(optimizer)
    ANY.place({}, placement)

    def make_activated(params: ParamsT, **arguments: Any) -> torch.optim.Optimizer:
        refuse_twice(name, arguments)
        made = kind(params, **arguments)
        asked = any(key in group for group in made.param_groups for key in OWN)
        return made if f is None and not asked else activate_groups(made, f, placement)

    return make_activated


def read_name(name: str) -> tuple[str, Activation | None, str | None]:
    """Optimizer, function and placement; each of the last two is None where it is not named."""
    match = _NAME.fullmatch(name) if isinstance(name, str) else None
    if match is None:
        raise GafError(
            f"cannot read {name!r}: write an optimizer, a function and a placement, such as "
            "'sgd+arctan(0.1, 20)@momentum'"
        )
    function, placement = match["function"], match["placement"]
    f = None if function is None else as_activation(function)
    if f is None and placement is not None:
        raise GafError(
            f"{name!r} names a placement and no function: write 'sgd+arctan@{placement}'"
        )
    optimizer = match["optimizer"]
    return optimizer if ":" in optimizer else optimizer.lower(), f, check_placement(placement)


def of_torch() -> dict[str, type[torch.optim.Optimizer]]:
    """The optimizers of torch.optim by their names in lower case."""
    return {
        name.lower(): kind
        for name, kind in vars(torch.optim).items()
        if isinstance(kind, type)
        and issubclass(kind, torch.optim.Optimizer)
        and kind is not torch.optim.Optimizer
    }


def optimizer_type(name: str) -> type[torch.optim.Optimizer]:
    """The class of ``module:Class``, whose module is imported, or of torch.optim by its lower-case name."""
    if CLASS.fullmatch(name):
        return _imported(name)
    known = of_torch()
    if name not in known:
        near = difflib.get_close_matches(name, [*known, *FAMILY], n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(known))}"
        raise GafError(f"unknown optimizer {name!r}; {hint}")
    return known[name]


def _imported(name: str) -> type[torch.optim.Optimizer]:
    module_name, _, class_name = name.partition(":")
    package = module_name.partition(".")[0]
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # whatever a module of somebody else's may raise
        if isinstance(error, ModuleNotFoundError) and error.name == package:
            raise GafError(
                f"the optimizer {name} needs the package {package}, which is not installed: "
                f"pip install {package}"
            ) from None
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise GafError(f"the optimizer {name} cannot be imported: {reason}") from error
    kind = getattr(module, class_name, None)
    classes = [
        other
        for other, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, torch.optim.Optimizer)
    ]
    if kind is None:
        hint = did_you_mean(class_name, classes)
        raise GafError(f"{module_name} has no optimizer {class_name!r}{hint}")
    if class_name not in classes or kind is torch.optim.Optimizer:
        raise GafError(f"{name} is not a subclass of torch.optim.Optimizer")
    if issubclass(kind, ActivatedOptimizer):
        ours = [short for short, own in OURS.items() if own is kind]
        raise GafError(f"{name} is one of gaf's own: name it {', '.join(ours) or 'by its rule'}")
    return kind


def refuse_twice(name: str, arguments: dict[str, Any]) -> None:
    """Raise where an argument says again what a name has said."""
    for key in arguments.keys() & set(OWN):
        raise TypeError(f"{key} is set by the name {name!r}: leave {key}= out")
