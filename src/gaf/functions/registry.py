"""Functions by name: ``register``, ``parse``, and what configurations and checkpoints store."""

from __future__ import annotations

import ast
import difflib
import inspect
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, TypeVar

from gaf.common.errors import GafError
from gaf.functions.base import Activation, Adaptive, supremum
from gaf.functions.sums import PLUS, sum_of, sum_type

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_):
        return lambda decorator: decorator


A = TypeVar("A", bound=type[Activation])

_REGISTRY: dict[str, type[Activation]] = {}
REGISTERED = [0]  # how often a function was: what is kept by a name is for as long as this stands


@dataclass_transform(frozen_default=True)
def register(cls: A) -> A:
    """Register a function under its lower-case class name; use it as a class decorator.

    The class becomes a frozen dataclass whose fields are the function's parameters. From then on
    its name works wherever a function is named: in :func:`gaf.parse`, in optimizers, in
    checkpoints and on the command line. Running the same definition again replaces it.

    Example:
        >>> import gaf
        >>> @gaf.register
        ... class Softcap(gaf.Activation):
        ...     scale: float = 1.0
        ...
        ...     @staticmethod
        ...     def formula(xp, g, scale):
        ...         return 2 * scale * xp.arctan(xp.tanh(g / (2 * scale)))
        >>> round(gaf.parse("softcap(0.5)")(0.5), 6)
        0.432885
    """
    if not (isinstance(cls, type) and issubclass(cls, Activation)):
        raise TypeError(f"register a subclass of gaf.Activation, got {cls!r}")
    adapts = issubclass(cls, Adaptive)
    if not adapts and "formula" not in vars(cls) and getattr(cls, "formula", None) is None:
        raise TypeError(f"{cls.__name__} has no formula(xp, g, *parameters)")
    name = cls.__name__.lower()
    known = _REGISTRY.get(name)
    if known and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise GafError(f"a function named {name!r} exists already ({known.__module__})")
    cls.name = name
    cls = dataclass(frozen=True, repr=False)(cls)
    for field in fields(cls):
        if hasattr(Activation, field.name) and not _is_fact(cls, field.name):
            raise TypeError(f"{cls.__name__}: a parameter cannot be called {field.name!r}")
    if not adapts:
        _check_formula(cls)
    _REGISTRY[name] = cls
    REGISTERED[0] += 1
    return cls


def _check_formula(cls: type[Activation]) -> None:
    """The formula takes the namespace, g, and the fields in their order."""
    known = [field.name for field in fields(cls)]
    try:
        inspect.signature(cls.formula).bind(*range(2 + len(known)))
    except TypeError:
        raise TypeError(
            f"{cls.__name__}.formula must be a static method of (xp, g, {', '.join(known)}): annotated "
            "fields of the class, such as `alpha: float = 1.0`, are its parameters"
        ) from None


def _is_fact(cls: type[Activation], name: str) -> bool:
    """Whether a parameter is the fact of f whose name it has, as the slope of a line is."""
    try:
        f = cls()
    except TypeError:  # no defaults to try it with
        return False
    facts = {"slope": lambda: f.derivative(0.0), "bound": lambda: supremum(f)}
    return name in facts and getattr(f, name) == facts[name]()


def names() -> tuple[str, ...]:
    """The names of all registered functions of fixed values, in the order of their registration."""
    return tuple(name for name, cls in _REGISTRY.items() if not issubclass(cls, Adaptive))


def is_registered(name: str) -> bool:
    """Whether a name, in any case of letters, names an activation."""
    return name.lower() in _REGISTRY


def function_type(name: str) -> type[Activation]:
    """The class registered under ``name``, in any case of letters; of "tanh+log" that of their sums."""
    if PLUS in name:
        return sum_type(tuple(function_type(term.strip()) for term in name.split(PLUS)))
    if not is_registered(name):
        near = difflib.get_close_matches(name.lower(), _REGISTRY, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(_REGISTRY)}"
        raise GafError(f"unknown gradient activation function {name!r}; {hint}")
    return _REGISTRY[name.lower()]


def parse(text: str) -> Activation:
    """Read a function as configurations and the command line name it.

    Example:
        >>> import gaf
        >>> gaf.parse("arctan(0.1, 20)")
        Arctan(alpha=0.1, beta=20.0)
        >>> gaf.parse("tanh(alpha=0.2, beta=10)") == gaf.Tanh(0.2, 10)
        True
        >>> gaf.parse("log")
        Log(alpha=0.1, beta=20.0)
        >>> gaf.parse("auto(function=line)") == gaf.parse("auto(function='line')")
        True
        >>> gaf.parse("tanh(0.2, 10) + log")
        Tanh(alpha=0.2, beta=10.0) + Log(alpha=0.1, beta=20.0)
    """
    if not isinstance(text, str):
        raise TypeError(f"name a function by a string such as 'arctan(0.1, 20)', got {text!r}")
    try:
        calls = [read_call(node) for node in _terms(ast.parse(text.strip(), mode="eval").body)]
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise GafError(
            f"cannot read {text!r}: write a name and numbers, such as 'arctan(0.1, 20)'"
        ) from None
    return sum_of(tuple(_made(text, *call) for call in calls))


def _made(text: str, name: str, args: list[object], kwargs: dict[str, object]) -> Activation:
    cls = function_type(name)
    known = [field.name for field in fields(cls)]
    if len(args) > len(known) or set(kwargs) - set(known[len(args) :]):
        raise GafError(f"cannot read {text!r}: {cls.name} takes ({', '.join(known)})")
    try:
        return cls(*args, **kwargs)
    except TypeError as error:
        raise GafError(f"cannot read {text!r}: {error}") from None


def _terms(node: ast.expr) -> list[ast.expr]:
    """What is added up, from left to right."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [*_terms(node.left), *_terms(node.right)]
    return [node]


def read_call(node: ast.expr) -> tuple[str, list[object], dict[str, object]]:
    """Name, arguments and keywords of a call of a plain name with literals; nothing is evaluated."""
    call = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
    args = [ast.literal_eval(arg) for arg in call.args]
    kwargs = {kw.arg: _value(kw.value) for kw in call.keywords if kw.arg}
    if not isinstance(call.func, ast.Name) or len(kwargs) < len(call.keywords):  # **, or one twice
        raise GafError("not a name and numbers")
    return call.func.id, args, kwargs


def _value(node: ast.expr) -> object:
    """A literal; a plain name is the string of it, so that a command line needs no quotes within quotes."""
    return node.id if isinstance(node, ast.Name) else ast.literal_eval(node)


def as_activation(value: Activation | str | None) -> Activation | None:
    """An activation, the name of one, or None, as users may pass it; anything else is refused."""
    if isinstance(value, Activation) and not value.name:
        raise TypeError(
            f"{type(value).__name__} is not registered: put @gaf.register above the class"
        )
    if value is None or isinstance(value, Activation):
        return value
    if isinstance(value, str):
        return parse(value)
    if isinstance(value, type) and issubclass(value, Activation):
        raise TypeError(f"pass an instance such as {value.__name__}(...), not the class")
    raise TypeError(
        f"activation must be a function such as gaf.Arctan(0.1, 20), its name, or None; "
        f"got {type(value).__name__}"
    )
