"""Sums of functions: ``gaf.Tanh(1.35, 0.667) + gaf.Log(0.15, 0.667)``, a function of the parameters of both.

The class of a sum is made from those of its terms, once for each combination. So a name such as "tanh+log"
and plain numbers are all that a parameter group or a checkpoint holds of one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import fields, make_dataclass
from typing import Any, ClassVar

from gaf.common.errors import GafError
from gaf.functions.base import Activation, Adaptive

PLUS = "+"


class Sum(Activation):
    """A sum of functions, made by ``+``. Its parameters are those of the terms, numbered: alpha1, beta1."""

    kinds: ClassVar[tuple[type[Activation], ...]]

    def check(self) -> None:
        _ = self.terms  # each refuses what it does not allow

    @property
    def terms(self) -> tuple[Activation, ...]:
        shares = zip(self.kinds, _shares(self.kinds), strict=True)
        return tuple(kind(*self.params[share]) for kind, share in shares)

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.terms))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.kinds, self.params)  # pickle finds no class that was made here

    @property
    def slope(self) -> float:
        return sum(f.slope for f in self.terms)

    @property
    def bound(self) -> float:
        return sum(f.bound for f in self.terms)


def sum_of(functions: tuple[Activation, ...]) -> Activation:
    """The sum of functions, from left to right; one alone is itself."""
    if len(functions) == 1:
        return functions[0]
    terms = tuple(itertools.chain.from_iterable(f.terms for f in functions))
    kind = sum_type(tuple(map(type, terms)))
    return kind(*itertools.chain.from_iterable(f.params for f in terms))


def sum_type(kinds: tuple[type[Activation], ...]) -> type[Activation]:
    """The class of the sums of functions of these classes, the same whenever they are."""
    for kind in kinds:
        if issubclass(kind, Adaptive):
            raise GafError(
                f"{kind.__name__} sets its values for each tensor while training and cannot be a term of a "
                "sum: add functions with fixed values"
            )
        if not kind.name:
            raise TypeError(f"{kind.__name__} is not registered: put @gaf.register above the class")
    if kinds not in _SUMS:  # a dict, since torch.compile follows no cache of functools
        _SUMS[kinds] = _made(kinds)
    return _SUMS[kinds]


_SUMS: dict[tuple[type[Activation], ...], type[Activation]] = {}


def _made(kinds: tuple[type[Activation], ...]) -> type[Activation]:
    names = [
        f"{field.name}{number}"
        for number, kind in enumerate(kinds, start=1)
        for field in fields(kind)
    ]
    members: dict[str, Any] = {"kinds": kinds, "name": PLUS.join(kind.name for kind in kinds)}
    # how many arguments stand before the parameters
    before = {"formula": 2, "formula_derivative": 2, "formula_integral": 2, "symbolic": 1}
    for part, count in before.items():
        formulas = [getattr(kind, part) for kind in kinds]
        shares = _shares(kinds, count)
        members[part] = staticmethod(_added(formulas, shares, count)) if all(formulas) else None
    return make_dataclass(
        PLUS.join(kind.__name__ for kind in kinds),
        [(name, float) for name in names],
        bases=(Sum,),
        namespace=members,
        frozen=True,
        repr=False,
    )


def _added(formulas: list[Callable[..., Any]], shares: list[slice], count: int) -> Any:
    """The sum of the terms' formulas, a function of the parameters of all."""

    def formula(*arguments: Any) -> Any:
        total = None
        for term, share in zip(formulas, shares, strict=True):
            value = term(*arguments[:count], *arguments[share])
            total = value if total is None else total + value
        return total

    return formula


def _shares(kinds: tuple[type[Activation], ...], first: int = 0) -> list[slice]:
    """Which parameters are those of each term, where the first has this place."""
    ends = itertools.accumulate((len(fields(kind)) for kind in kinds), initial=first)
    return [slice(start, end) for start, end in itertools.pairwise(ends)]


def _restored(kinds: tuple[type[Activation], ...], params: tuple[float, ...]) -> Activation:
    return sum_type(kinds)(*params)
