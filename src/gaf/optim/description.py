"""What an optimizer rule is, as data, and the placements that there are."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from gaf.common.errors import GafError
from gaf.functions import Activation
from gaf.optim import rules
from gaf.optim.rules import PLACEMENTS

USUAL_EPS = 1e-8  # torch's


def check_placement(placement: str | None) -> str | None:
    """Refuse a placement that does not exist, naming the nearest."""
    if placement is None or placement in PLACEMENTS:
        return placement
    near = difflib.get_close_matches(str(placement), PLACEMENTS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"it is one of {', '.join(PLACEMENTS)}"
    raise GafError(f"unknown placement {placement!r}; {hint}")


@dataclass(frozen=True)
class Rule:
    """What is particular to a rule, as data: read by optimizers, configs, comparisons and docs.

    Args:
        name: of the reference in :mod:`gaf.optim.rules`, and of its loop in ``gaf.kernels.native``.
        arguments: of a group, which the reference takes.
        placements: where f may act.
        usual_placement: the one for a group, where none is asked for.
        control: the powers of f's slope by which a group's arguments are multiplied in the matched control,
            the same rule with f replaced by its slope; for a group and a placement.
        refusal: why a group cannot have a placement with a function, or None.
        counts: whether the reference takes the number of the step.
        native: the placements for which ``gaf.kernels.native`` has a loop; the others are served without.
    """

    name: str
    arguments: tuple[str, ...]
    placements: tuple[str, ...]
    usual_placement: Callable[[Mapping[str, Any]], str]
    control: Callable[[Mapping[str, Any], str], dict[str, int]]
    refusal: Callable[[Mapping[str, Any], str, Activation | None], str | None] = lambda *_: None
    counts: bool = False
    native: tuple[str, ...] = ()

    @property
    def reference(self) -> Callable[..., tuple[Tensor | None, ...]]:
        """The rule on one tensor."""
        return getattr(rules, self.name)

    def place(
        self, group: Mapping[str, Any], placement: str | None, f: Activation | None = None
    ) -> str:
        """The placement in force where ``placement`` is asked for, None being the usual one."""
        if placement is None:
            return self.usual_placement(group)
        check_placement(placement)
        reason = self.refusal(group, placement, f)
        if reason is not None:
            raise GafError(reason)
        return placement

    def matched(self, group: Mapping[str, Any], placement: str, slope: float) -> dict[str, Any]:
        """The arguments of a group that its matched control has otherwise.

        Example:
            >>> import gaf
            >>> gaf.SGD.rule.matched({"lr": 0.1, "weight_decay": 0.1}, "gradient", 2.0)
            {'lr': 0.2, 'weight_decay': 0.05}
        """
        # without a bounded f an element that has had no gradient would be 0 / 0
        changed: dict[str, Any] = {"eps": USUAL_EPS} if group.get("eps") == 0 else {}
        for key, power in self.control(group, placement).items():
            value = changed.get(key, group[key])
            changed[key] = value * slope if power > 0 else value / slope
        return changed

    def meaning(self, group: Mapping[str, Any], placement: str) -> str:
        """What a pure rescaling by ``{slope}`` would amount to, in words.

        Example:
            >>> import gaf
            >>> gaf.SGD.rule.meaning({"weight_decay": 0.1}, "gradient")
            'a learning rate times {slope} and a weight decay divided by {slope}'
        """
        powers = self.control(group, placement)
        sides = [
            (" and ".join(_WORDS[key] for key, power in powers.items() if power == sign), how)
            for sign, how in ((1, "times {slope}"), (-1, "divided by {slope}"))
        ]
        return " and ".join(f"{names} {how}" for names, how in sides if names)


_WORDS = {"lr": "a learning rate", "weight_decay": "a weight decay", "eps": "an eps"}
