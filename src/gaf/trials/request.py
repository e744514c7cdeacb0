"""What is asked of one run of a script: ``trial.json``, plain data, checked when read and never executed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gaf.common.errors import GafError
from gaf.common.files import read_json
from gaf.common.texts import did_you_mean
from gaf.functions import as_activation
from gaf.optim.activate import OWN
from gaf.optim.description import check_placement
from gaf.optim.treatment import Treatment

REQUEST = "trial.json"


@dataclass(frozen=True)
class Request:
    """What is asked of a run: ``trial.json``.

    Args:
        seed: for the script to use.
        score_on: "validation" in tuning, where a test score is neither computed nor written; else "test".
        factor: on the learning rate of every group.
        rule: another optimizer, as :func:`gaf.create_optimizer` or ``module:Class`` names it; None: the
            script's.
        lr: the learning rate of that rule, before ``factor``; None: the script's.
        arguments: of the optimizer, over the script's.
        activation: the function; None: the script's own.
        placement: where it acts; None: the usual one of the rule that the script has.
        control: the matched control instead: the function replaced by its slope.
        centralize, clip_value, clip_norm, normalize: see :class:`gaf.optim.treatment.Treatment`.
    """

    seed: int = 0
    score_on: str = "test"
    factor: float = 1.0
    rule: str | None = None
    lr: float | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    activation: str | None = None
    placement: str | None = None
    control: bool = False
    centralize: bool = False
    clip_value: float | None = None
    clip_norm: float | None = None
    normalize: float | None = None

    def __post_init__(self) -> None:
        wrong = [key for key, fits in self._checks() if not fits]
        if wrong:
            raise GafError(f"{wrong[0]} cannot be {getattr(self, wrong[0])!r}")
        check_placement(self.placement)
        self.treatment  # noqa: B018  # refuses two of its kinds at once
        if as_activation(self.activation) is None and (self.placement or self.control):
            raise GafError("placement and control need an activation")

    def _checks(self) -> Iterator[tuple[str, bool]]:
        yield "seed", type(self.seed) is int and 0 <= self.seed < 2**31
        yield "score_on", self.score_on in ("validation", "test")
        yield "factor", _positive(self.factor)
        for key in ("lr", "clip_value", "clip_norm", "normalize"):
            yield key, getattr(self, key) is None or _positive(getattr(self, key))
        for key in ("rule", "activation", "placement"):
            yield key, getattr(self, key) is None or type(getattr(self, key)) is str
        for key in ("control", "centralize"):
            yield key, type(getattr(self, key)) is bool
        yield (
            "arguments",
            type(self.arguments) is dict and not {"lr", "params", *OWN} & {*self.arguments},
        )

    @property
    def treatment(self) -> Treatment:
        """What is done to gradients before the step."""
        return Treatment(self.centralize, self.clip_value, self.clip_norm, self.normalize)


def _positive(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and value > 0


def read_request(folder: Path) -> Request:
    """What is asked of the run in a folder; GafError says in one sentence what is wrong."""
    path = folder / REQUEST
    values = read_json(path)
    known = [key.name for key in dataclasses.fields(Request)]
    for key in values:
        if key not in known:
            raise GafError(f"{path} is damaged: unknown key {key!r}{did_you_mean(key, known)}")
    try:
        return Request(**values)
    except (GafError, TypeError) as error:
        raise GafError(f"{path} is damaged: {error}") from None
