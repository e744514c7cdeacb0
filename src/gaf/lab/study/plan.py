"""What to compare: a baseline, the settings beside it, the seeds; which runs that makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gaf.common.errors import GafError
from gaf.lab.engine.config import RunConfig, override
from gaf.lab.study import recipes
from gaf.lab.study.grid import digest
from gaf.lab.study.judge import Entry
from gaf.lab.study.recipes.laptop import STEEP
from gaf.lab.study.settings import BASELINE, TUNED, Setting, control, make, scaled, without_function

# What any answer to "does it help?" has to stand beside, two functions, one of them bounded, and Auto.
SETTINGS = (
    *("tuned", "adam", "clip-value-0.1", "clip-norm-0.1"),
    *("arctan(0.1, 20)", "log(0.1, 20)", "auto"),
)
SEEDS = 5
CNN_EPOCHS = 8  # of the recipe's 20
CNN_MONITOR = 40  # steps of 184: often enough for curves, and 3 % of the time a step takes
FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0)  # on the baseline's learning rate
TUNING_SEEDS = (
    1000,
    1001,
)  # not those of the table: a rate chosen on them would look too good on them


@dataclass(frozen=True)
class Plan:
    """What to compare.

    Args:
        base: the baseline; the function of one that has one becomes a setting.
        settings: names as :mod:`gaf.lab.study.settings` reads them, beside the baseline.
        seeds: of the table.
    """

    base: RunConfig
    settings: tuple[str, ...] = SETTINGS
    seeds: tuple[int, ...] = tuple(range(SEEDS))

    def __post_init__(self) -> None:
        base = self.base
        if base.devices * base.nodes > 1:
            raise GafError("a comparison trains each run on one device: set devices=1, nodes=1")
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise GafError("a comparison needs seeds, each once")
        if set(self.seeds) & set(TUNING_SEEDS):
            raise GafError(f"the seeds {TUNING_SEEDS} are for tuning; choose others")
        override(base, [f"seed={max(self.seeds)}"])  # it may be too large for a config
        plain, own = without_function(base)
        # results depend on the threads in the last bit, so they are part of what is compared
        plain = plain.model_copy(update={"threads": base.threads or 1})
        object.__setattr__(self, "base", plain)
        object.__setattr__(self, "settings", (*own, *self.settings))
        self.entries()  # a name that does not exist is refused here

    @property
    def title(self) -> str:
        return self.base.name

    def entries(self, tuned: RunConfig | None = None) -> list[Entry]:
        """The settings in order, each config once, each function followed by its matched control."""
        order: dict[str, Setting] = {}
        names: dict[str, list[str]] = {}
        controls: dict[str, str] = {}

        def add(setting: Setting) -> str:
            key = digest(setting.config)
            order.setdefault(key, setting)
            known = names.setdefault(key, [])
            if setting.name not in known:
                known.append(setting.name)
            return key

        add(Setting(BASELINE, "baseline", self.base))
        for text in self.settings:
            if text == TUNED:
                add(Setting(TUNED, "tuned", tuned or self.base))
                continue
            setting = make(self.base, text)
            key = add(setting)
            if setting.kind == "function":
                controls[key] = add(control(setting))
        return [
            Entry(setting, tuple(names[key][1:]), _name(order, controls.get(key)))
            for key, setting in order.items()
        ]

    def tuning(self) -> dict[str, list[RunConfig]]:
        """The runs that choose the tuned baseline's learning rate, by factor."""
        if TUNED not in self.settings:
            return {}
        return {
            f"x{factor:g}": [
                self.run(Setting(f"lr x{factor:g}", "rule", scaled(self.base, factor)), seed)
                for seed in TUNING_SEEDS
            ]
            for factor in FACTORS
        }

    def run(self, setting: Setting, seed: int) -> RunConfig:
        """The config of a run."""
        name = f"{self.title}: {setting.name}"
        return setting.config.model_copy(update={"name": name, "seed": seed})


def _name(order: Mapping[str, Setting], key: str | None) -> str | None:
    return None if key is None else order[key].name


def digits() -> list[tuple[RunConfig, tuple[str, ...]]]:
    """What is compared when nothing is named, in a minute or two: data that needs no download.

    A perceptron whose gradient vanishes, so that plain SGD stays at chance and a steep f makes the largest
    difference, and a CNN that trains well without any.
    """
    short = {"checkpoint_every": 10_000}  # at the end, or when stopped: the runs take seconds
    cnn = recipes.get("digits-cnn-sgdm").model_copy(
        update={
            "name": f"digits-cnn-{CNN_EPOCHS}-epochs",
            "epochs": CNN_EPOCHS,
            "monitor_every": CNN_MONITOR,
            **short,
        }
    )
    mlp = recipes.get("digits-deep-mlp-sgd").model_copy(update=short)
    steep = tuple(STEEP if name.startswith("log") else name for name in SETTINGS)
    return [(mlp, steep), (cnn, SETTINGS)]
