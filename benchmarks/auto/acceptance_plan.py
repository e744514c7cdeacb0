"""What the acceptance of gaf.Auto and gaf.QuantileClip trains: the problems, their rules, the margins.

Auto and its controls are not tuned: their rates stand here. The other rules' rates are tuned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gaf.lab.engine.config import RunConfig, TaskConfig, override
from gaf.lab.study import recipes
from gaf.lab.study.plan import AT_END, Plan, TuningPlan
from gaf.lab.study.recipes.laptop import hard_case
from gaf.lab.study.settings import Setting, baseline, make

TUNING = TuningPlan(rates=5, seeds=2)
SHORT = {"threads": 1, "monitor_every": 0, "evaluate_every": 0, "checkpoint_every": AT_END}
SPOILT = "gaf.lab.tasks.spoilt:spoilt"  # 2 % of the steps, gradients x 1000
CONTROLS = tuple(f"auto(function={name})" for name in ("line", "clip", "sign"))
# Adam's ratio of moments seldom reaches the corner of the clip, which is then the line.
ADAM_CONTROLS = ("auto(function=line)", "auto(function=sign)")


@dataclass(frozen=True)
class Problem:
    """A training, and the rules that run on it.

    Args:
        bases: configs by the name of their rule; a rule that begins with none of them changes the first.
        tuned: rules whose rate is tuned. Without any no validation data is kept from the trainings.
        given: rules and the rates they run at.
        borrowed: rules that run at the rate of a tuned one, by problem and name.
        seeds: of the table.
        level: a score; the table counts the seeds above it.
    """

    bases: Mapping[str, RunConfig]
    tuned: tuple[str, ...]
    given: Mapping[str, tuple[float, ...]]
    borrowed: Mapping[str, tuple[str, str]]
    seeds: int
    level: float | None = None

    @property
    def rules(self) -> tuple[str, ...]:
        """All of them, in the order of the table."""
        return (*self.tuned, *self.borrowed, *self.given)

    @property
    def plan(self) -> Plan:
        seeds = tuple(range(self.seeds))
        return Plan(next(iter(self.bases.values())), (), seeds, TUNING if self.tuned else None)

    def setting(self, rule: str) -> Setting:
        """A rule by its name, under this name."""
        first, _, rest = rule.partition(" + ")
        if first not in self.bases:
            made = make(next(iter(self.bases.values())), rule)
        elif rest:
            made = make(self.bases[first], rest)
        else:
            made = baseline(self.bases[first])
        return replace(made, name=rule)

    def spoilt(self) -> Problem:
        """The same with spoilt steps; borrowed rates are those without."""
        bases = {}
        for name, config in self.bases.items():
            task = TaskConfig(kind=SPOILT, options=config.task.model_dump(exclude_defaults=True))
            changes = {"name": f"{config.name}-spoilt", "task": task}
            bases[name] = config.model_copy(update=changes)
        return replace(self, bases=bases)


def _digits() -> Problem:
    return Problem(
        bases={"sgd": recipes.get("digits-cnn-sgdm").model_copy(update=SHORT)},
        tuned=("sgd", "sgd + clip-norm-1", "adam"),
        given={
            "sgd + auto": (0.01, 0.1, 1.0),
            "adam + auto": (0.001,),
            **{f"sgd + {name}": (0.1,) for name in CONTROLS},
            **{f"adam + {name}": (0.001,) for name in ADAM_CONTROLS},
        },
        borrowed={"sgd + quantileclip": ("digits", "sgd")},
        seeds=10,
    )


def _deep_sigmoid() -> Problem:
    return Problem(
        bases={"sgd": hard_case().model_copy(update=SHORT)},
        tuned=("adam",),
        given={
            "sgd": (0.1,),
            **{f"sgd + {name}": (0.1,) for name in ("auto", *CONTROLS)},
            "adam + auto": (0.001,),
        },
        borrowed={},
        seeds=10,
        level=0.9,
    )


def _text() -> Problem:
    """The transformer of docs/spikes.py. Auto has no weight decay, AdamW that of its recipe."""
    changes = ["iterations=300", "batch_size=16", "task.data_options.size=32"]
    changes += ["task.model_options.depth=2", "task.model_options.width=48"]
    changes += ["schedule.every=iteration", "schedule.unit=iteration", "schedule.warmup=20"]

    def short(name: str) -> RunConfig:
        return override(recipes.get(name).model_copy(update=SHORT), changes)

    return Problem(
        bases={"sgd": short("text-transformer-sgdm"), "adamw": short("text-transformer-adamw")},
        tuned=("adamw",),
        given={
            **{f"sgd + {name}": (0.1,) for name in ("auto", *CONTROLS)},
            **{f"adam + {name}": (0.001,) for name in ("auto", *ADAM_CONTROLS)},
        },
        borrowed={"adamw + quantileclip": ("text", "adamw")},
        seeds=5,
    )


PROBLEMS: dict[str, Problem] = {
    "deep-sigmoid-whole": replace(_deep_sigmoid(), tuned=(), given={"sgd + auto": (0.1,)}),
    "digits": _digits(),
    "text": _text(),
    "deep-sigmoid": _deep_sigmoid(),
    "text-spoilt": _text().spoilt(),
    "digits-spoilt": _digits().spoilt(),
}


@dataclass(frozen=True)
class Margin:
    """What one rule may lose against another, seed by seed; with ``both_sides`` what it may gain as well.

    Args:
        title: in the table.
        rule, reference: problem and rule of each side.
        margin: in the unit of the score.
    """

    title: str
    rule: tuple[str, str]
    reference: tuple[str, str]
    margin: float
    both_sides: bool = False

    @property
    def sides(self) -> tuple[tuple[str, str], tuple[str, str]]:
        return self.rule, self.reference


MARGINS = (
    Margin(
        "QuantileClip on SGD minus SGD, digits",
        ("digits", "sgd + quantileclip"),
        ("digits", "sgd"),
        0.01,
        both_sides=True,
    ),
    Margin(
        "QuantileClip on SGD, digits: spoilt minus clean",
        ("digits-spoilt", "sgd + quantileclip"),
        ("digits", "sgd + quantileclip"),
        0.01,
    ),
    Margin(
        "QuantileClip on AdamW minus AdamW, text",
        ("text", "adamw + quantileclip"),
        ("text", "adamw"),
        0.05,
        both_sides=True,
    ),
    Margin(
        "QuantileClip on AdamW, text: spoilt minus clean",
        ("text-spoilt", "adamw + quantileclip"),
        ("text", "adamw + quantileclip"),
        0.05,
    ),
    Margin("Auto with Adam minus AdamW, text", ("text", "adam + auto"), ("text", "adamw"), 0.05),
    Margin("Auto with SGD minus AdamW, text", ("text", "sgd + auto"), ("text", "adamw"), 0.05),
)
