"""What is asked of a comparison: a training, the rules, their seeds, and how each rule's rate is tuned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gaf.common.errors import GafError
from gaf.lab.engine.config import RunConfig, override
from gaf.lab.study import recipes
from gaf.lab.study.grid import digest
from gaf.lab.study.judge import Entry
from gaf.lab.study.protocol import COUNT, RATIO
from gaf.lab.study.settings import (
    Setting,
    at_rate,
    baseline,
    control,
    controls,
    make,
    without_function,
)

# What any answer to "does it help?" has to stand beside, two functions, and Auto.
SETTINGS = ("clip-norm-1", "adam", "arctan(0.1, 20)", "tanh(0.1, 20)", "auto")
SEEDS = 5
FIRST_TUNING_SEED = (
    1000  # of the trials: a rate chosen on the table's own seeds would look too good on them
)
AT_END = 10_000_000  # steps between two checkpoints: a run that takes seconds needs one at its end
# Of the recipes' 20 and 30: as long as five minutes on two cores allow.
CNN_EPOCHS, MLP_EPOCHS = 13, 9
CNN_MONITOR = 40  # steps of 252: often enough for curves, and 3 % of the time a step takes


@dataclass(frozen=True)
class TuningPlan:
    """How the rate of every rule is tuned.

    Args:
        rates: how many, ``ratio`` apart, around the rule's usual one.
        ratio: from one rate to the next.
        seeds: of each trial.
        validation: the share of the training data that the rates are chosen on, and nothing is trained on;
            the config's ``task.validation`` comes first.
        within: how many points below the baseline's best score a window of usable rates reaches.
    """

    rates: int = COUNT
    ratio: float = RATIO
    seeds: int = 2
    validation: float = 0.2
    within: float = 1.0

    def __post_init__(self) -> None:
        if not 2 <= self.rates <= 100:
            raise GafError(f"a curve has 2 to 100 learning rates, not {self.rates}")
        if not 1 <= self.seeds <= 1000:
            raise GafError(f"a learning rate is tried on 1 to 1000 seeds, not on {self.seeds}")
        if not 0 < self.validation < 1:
            raise GafError(f"the validation data is a share between 0 and 1, not {self.validation}")
        if not 0 < self.within < 100:
            raise GafError(f"a window reaches 0 to 100 points below the best, not {self.within}")

    @property
    def seed_numbers(self) -> tuple[int, ...]:
        return tuple(range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + self.seeds))


@dataclass(frozen=True)
class Plan:
    """What to compare.

    Args:
        base: the baseline; the function of one that has one becomes a setting.
        settings: names as :mod:`gaf.lab.study.settings` reads them, beside the baseline.
        seeds: of the table.
        tuning: how rates are tuned; None compares at the rates that are given.
    """

    base: RunConfig
    settings: tuple[str, ...] = SETTINGS
    seeds: tuple[int, ...] = tuple(range(SEEDS))
    tuning: TuningPlan | None = TuningPlan()

    def __post_init__(self) -> None:
        base = self.base
        if base.devices * base.nodes > 1:
            raise GafError("a comparison trains each run on one device: set devices=1, nodes=1")
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise GafError("a comparison needs seeds, each once")
        if self.tuning and set(self.seeds) & set(self.tuning.seed_numbers):
            raise GafError(f"the seeds from {FIRST_TUNING_SEED} on are for tuning; choose others")
        override(base, [f"seed={max(self.seeds)}"])  # it may be too large for a config
        plain, own = without_function(base)
        # results depend on the threads in the last bit, so they are part of what is compared
        plain = plain.model_copy(update={"threads": base.threads or 1})
        if self.tuning and base.task.validation:
            tuning = replace(self.tuning, validation=base.task.validation)
            object.__setattr__(self, "tuning", tuning)
        object.__setattr__(self, "base", plain)
        object.__setattr__(self, "settings", tuple(dict.fromkeys((*own, *self.settings))))
        self.entries()  # a name that does not exist is refused here

    @property
    def title(self) -> str:
        return self.base.name

    def entries(self) -> list[Entry]:
        """The settings in order, each config once, followed by the controls that it needs.

        At given rates each function has a matched control. Where rates are tuned a tuned baseline is the
        control of a function that changes the rate alone, so that fewer are needed.
        """
        by_config: dict[
            tuple[str, bool], list[Setting]
        ] = {}  # of equal ones the first gives the name
        controlled: dict[tuple[str, bool], tuple[str, bool]] = {}

        def add(setting: Setting) -> tuple[str, bool]:
            key = digest(setting.config), self.tuning is None or setting.has_rate
            by_config.setdefault(key, []).append(setting)
            return key

        settings = [make(self.base, text) for text in self.settings]
        tuned = [baseline(self.base), *settings]
        add(tuned[0])
        for setting in settings:
            key = add(setting)
            if self.tuning:
                wanted = controls(setting, tuned)
                if self.base.task.is_script:
                    # which rule a control changes is not known before it runs: those that are named
                    named = {one.name for one in settings}
                    wanted = [one for one in wanted if one.name in named]
                added = [add(one) for one in wanted]
                if added:
                    controlled[key] = added[0]  # of Auto's the line: the same scales without a bend
            elif setting.kind == "function":
                controlled[key] = add(control(setting))
        return [
            Entry(
                first,
                tuple(dict.fromkeys(same.name for same in others if same.name != first.name)),
                by_config[controlled[key]][0].name if key in controlled else None,
            )
            for key, (first, *others) in by_config.items()
        ]

    def least_runs(self) -> tuple[int, int]:
        """How many trials and how many runs of the table there will be; a grid that grows has more."""
        has_rate = [entry.setting.has_rate for entry in self.entries()]
        if self.tuning is None:
            return 0, len(has_rate) * len(self.seeds)
        trials = sum(self.tuning.rates if rate else 1 for rate in has_rate) * self.tuning.seeds
        return trials, sum(2 if rate else 1 for rate in has_rate) * len(self.seeds)

    def trials(self, setting: Setting, rate: float) -> list[RunConfig]:
        """The runs that try a rate: one for each tuning seed, scored on the validation data, once."""
        assert self.tuning is not None
        config = self._at(setting, rate)
        task = config.task.model_copy(update={"score_on": "validation"})
        short = {
            "task": task,
            "evaluate_every": 0,
            "monitor_every": 0,
            "checkpoint_every": config.checkpoint_every or AT_END,
        }
        return _seeded(config.model_copy(update=short), self.tuning.seed_numbers)

    def finals(self, setting: Setting, rate: float, seeds: Sequence[int]) -> list[RunConfig]:
        """The runs of the table, in the order of the seeds."""
        return _seeded(self._at(setting, rate), seeds)

    def first(self, seeds: Sequence[int]) -> RunConfig:
        """The run of the baseline at its usual rate that the others begin with."""
        setting = self.entries()[0].setting
        rate = setting.config.optimizer.lr
        runs = self.trials(setting, rate) if self.tuning else self.finals(setting, rate, seeds)
        return runs[0]

    def _at(self, setting: Setting, rate: float) -> RunConfig:
        config = at_rate(setting.config, rate)
        name = f"{self.title}: {setting.name}"
        if self.tuning is None:
            return config.model_copy(update={"name": name})
        at = "lr x" if "lr" in config.optimizer.script else "lr "
        named = config.model_copy(update={"name": f"{name}, {at}{rate:.3g}"})
        if config.task.is_script:  # which has validation data of its own
            return named
        task = config.task.model_copy(update={"validation": self.tuning.validation})
        return named.model_copy(update={"task": task})


def table_seeds(base: RunConfig, count: int = SEEDS) -> tuple[int, ...]:
    """The seeds of a table: so many, from the config's own on."""
    return tuple(range(base.seed, base.seed + count))


def _seeded(config: RunConfig, seeds: Sequence[int]) -> list[RunConfig]:
    return [config.model_copy(update={"seed": seed}) for seed in seeds]


def digits() -> list[tuple[RunConfig, tuple[str, ...]]]:
    """What is compared when nothing is named, in minutes: data that needs no download.

    A CNN that trains well without any function, and a perceptron whose gradient vanishes.
    """
    short = {"checkpoint_every": AT_END}
    cnn = recipes.get("digits-cnn-sgdm").model_copy(
        update={
            "name": f"digits-cnn-{CNN_EPOCHS}-epochs",
            "epochs": CNN_EPOCHS,
            "monitor_every": CNN_MONITOR,
            **short,
        }
    )
    mlp = recipes.get("digits-deep-mlp-sgd").model_copy(
        update={
            "name": f"digits-deep-mlp-{MLP_EPOCHS}-epochs",
            "epochs": MLP_EPOCHS,
            **short,
        }
    )
    return [(cnn, SETTINGS), (mlp, SETTINGS)]
