"""Settings of a comparison by name: each changes the baseline's config in one respect, or several.

- ``baseline``: as it is; ``tuned``: with the best learning rate of a small grid; ``lr x3``: times 3
- ``adam``, ``adam(0.01)``, ``adamw``: the other rules, at a rate of 0.001 unless one is given
- ``clip-value-0.1``, ``clip-norm-0.1``, ``normalize``, ``normalize-0.1``, ``centralize``
- ``arctan(0.1, 20)@momentum``: a gradient activation function, and where it acts
- ``auto``, ``auto(step=0.1)@momentum``: :class:`gaf.Auto`, which has no matched control
- ``control(arctan(0.1, 20))``: its matched control, which is added to a comparison anyway
- ``presets``: the six functions of the paper's Table II
- ``adam-atan2``, ``lion`` and the other members of ``gaf.FAMILY``, at their published rate or at one that is
  given, as ``adam-atan2(0.001)``; ``family``: all of them
- ``adam + tanh(0.2, 10)``: both, in any order
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from pydantic import ValidationError

import gaf
from gaf.common.errors import GafError
from gaf.common.texts import did_you_mean, near_names
from gaf.functions import Adaptive
from gaf.functions.registry import is_registered
from gaf.functions.registry import names as function_names
from gaf.lab.engine.config import (
    OWN_KEYS,
    OptimizerConfig,
    RunConfig,
    explain,
    matched_control,
)
from gaf.lab.study.results import Kind
from gaf.optim.factory import read_name

BASELINE, TUNED, PRESETS, MEMBERS = "baseline", "tuned", "presets", "family"
ADAM_RATE = 1e-3  # torch's default: the paper gives none
PRESET_FUNCTIONS = tuple(
    f"{name}({values})" for values in ("0.1, 20", "0.2, 10") for name in ("tanh", "log", "arctan")
)
EXAMPLES = (
    *(BASELINE, TUNED, PRESETS, "auto", "lr x3", "adam", "adamw", MEMBERS, *gaf.FAMILY),
    *("clip-value-0.1", "clip-norm-0.1", "normalize", "centralize"),
)

NUMBER = r"(\d+\.?\d*(?:e[+-]?\d+)?|\.\d+)"
RATE = re.compile(rf"lr *[x×*] *{NUMBER}")
ADAM = re.compile(rf"(adamw?)(?: *\( *{NUMBER} *\))?")
MEMBER = re.compile(rf"({'|'.join(gaf.FAMILY)})(?: *\( *{NUMBER} *\))?")
THRESHOLDS = {"clip-value": "clip_value", "clip-norm": "clip_norm", "normalize": "normalize"}
THRESHOLD = re.compile(rf"({'|'.join(THRESHOLDS)})(?:-{NUMBER})?")
CONTROL = re.compile(r"control *\((.*)\)")


@dataclass(frozen=True)
class Setting:
    """A config with the name and the kind that it has in a table.

    ``factor`` is where it stands on the axis of learning rates: 1 as the setting is named, 3 with three times
    that rate. A study over rates has one setting for each.
    """

    name: str
    kind: Kind
    config: RunConfig
    factor: float = 1.0


def split(texts: Iterable[str]) -> list[str]:
    """Names from lists of names; commas within brackets do not part them.

    Example:
        >>> split(["adam, arctan(0.1, 20)@momentum", "clip-norm-0.1"])
        ['adam', 'arctan(0.1, 20)@momentum', 'clip-norm-0.1']
    """
    groups = {PRESETS: PRESET_FUNCTIONS, MEMBERS: tuple(gaf.FAMILY)}
    names: list[str] = []
    for text in texts:
        for name in _outside_brackets(text, ","):
            names += groups.get(name, [name])
    return names


def _outside_brackets(text: str, mark: str) -> list[str]:
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == mark and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def make(base: RunConfig, text: str) -> Setting:
    """The setting of a name on a baseline; GafError suggests the nearest names.

    Example:
        >>> from gaf.lab.study import recipes
        >>> made = make(recipes.get("digits-cnn-sgdm"), "arctan(.1, 20)")
        >>> made.name, made.config.optimizer.placement
        ('arctan(0.1, 20)@momentum', 'momentum')
    """
    controlled = CONTROL.fullmatch(text.strip())
    if controlled:
        return control(make(base, controlled[1]))
    config = base
    names: list[str] = []
    by: dict[str, str] = {}  # the part that changed a key
    parts = _with_sums(_outside_brackets(text, "+")) or [""]
    # another rule comes first: it decides what 'lr x3' multiplies and where a function acts by default
    for part in sorted(
        parts, key=lambda part: not (ADAM.fullmatch(part) or MEMBER.fullmatch(part))
    ):
        name, changes = _part(config.optimizer, part)
        undone = [by[key] for key in changes if key in by and key != "lr"]  # rates multiply
        if undone:
            raise GafError(
                f"the setting {text!r}: {part!r} undoes {undone[0]!r}; leave one of them out"
            )
        by |= dict.fromkeys(changes, part)
        # a script decides what no setting has set; a factor on its rate leaves it the script's
        left = [
            key for key in config.optimizer.script if key not in changes or RATE.fullmatch(part)
        ]
        changes["script"] = tuple(left)
        try:
            rule = OptimizerConfig.model_validate({**dict(config.optimizer), **changes})
        except ValidationError as error:
            raise GafError(f"the setting {part!r}: {explain(error, OptimizerConfig)}") from None
        config = config.model_copy(update={"optimizer": rule})
        names.append(name)
    kind = "baseline" if config.optimizer == base.optimizer else kind_of(config.optimizer)
    return Setting(" + ".join(names), kind, config)


def _with_sums(parts: list[str]) -> list[str]:
    """The parts of a setting, where functions that stand side by side are one: the sum of them.

    Example:
        >>> _with_sums(["adam", "tanh(0.2, 10)", "log@gradient", "arctan"])
        ['adam', 'tanh(0.2, 10) + log@gradient', 'arctan']
    """
    joined: list[str] = []
    for part in parts:
        if joined and "@" not in joined[-1] and _is_function(joined[-1]) and _is_function(part):
            joined[-1] += f" + {part}"
        else:
            joined.append(part)
    return joined


def _is_function(text: str) -> bool:
    return is_registered(_first_word(text))


def _first_word(text: str) -> str:
    return text.partition("@")[0].partition("(")[0].partition("+")[0].strip()


def kind_of(rule: OptimizerConfig) -> Kind:
    """What a rule is beside a baseline: "function" has a matched control, "rule" (Auto, sign) has none."""
    return "function" if rule.has_control else "rule"


def control(setting: Setting) -> Setting:
    """The matched control of a setting that has a function."""
    if setting.config.optimizer.activation is None:
        raise GafError(f"{setting.name} has no function, so there is no matched control of it")
    config = matched_control(setting.config).model_copy(update={"name": setting.config.name})
    return Setting(f"control({setting.name})", "control", config)


def at_rate(base: RunConfig, factor: float) -> Setting:
    """The baseline with its learning rate times a factor."""
    rule = base.optimizer.model_copy(update={"lr": base.optimizer.lr * factor})
    config = base.model_copy(update={"optimizer": rule})
    return Setting(f"lr x{factor:g}", "rule", config, factor)


def without_function(base: RunConfig) -> tuple[RunConfig, list[str]]:
    """A config without its function, and the name of the setting that brings it back."""
    rule = base.optimizer
    if rule.activation is None:
        return base, []
    plain = OptimizerConfig.model_validate({**dict(rule), "activation": None, "placement": None})
    return base.model_copy(update={"optimizer": plain}), [f"{rule.activation}@{rule.where}"]


def _part(rule: OptimizerConfig, text: str) -> tuple[str, dict[str, Any]]:
    """The name in full, and the keys of the rule that it changes."""
    if text == BASELINE:
        return text, {}
    if text == TUNED:
        raise GafError(f"the setting {TUNED!r} stands by itself")
    if text == "centralize":
        return text, {"centralize": True}
    if matched := RATE.fullmatch(text):
        return f"lr x{short(float(matched[1]))}", {"lr": rule.lr * float(matched[1])}
    if matched := ADAM.fullmatch(text):
        rate = float(matched[2] or ADAM_RATE)
        name = matched[1] if rate == ADAM_RATE else f"{matched[1]}({short(rate)})"
        sgds = {"momentum": 0.0, "dampening": 0.0, "nesterov": False}
        return name, {"name": matched[1], "lr": rate, **sgds}
    if matched := MEMBER.fullmatch(text):
        return _member(matched[1], matched[2])
    if matched := THRESHOLD.fullmatch(text):
        if matched[2] is None and matched[1] != "normalize":
            raise GafError(f"the setting {text!r} lacks its threshold, as in '{text}-0.1'")
        number = float(matched[2] or 1)
        name = text if matched[2] is None else f"{matched[1]}-{short(number)}"
        return name, {THRESHOLDS[matched[1]]: number}
    return _function(rule, text)


def _member(name: str, rate: str | None) -> tuple[str, dict[str, Any]]:
    """A member of the family; the weight decay stays the baseline's, and a rate that is not published."""
    member = gaf.FAMILY[name]
    optimizer, f, placement = read_name(member.setting)
    own = {key: OptimizerConfig.model_fields[key].default for key in OWN_KEYS}
    changes = {**own, "name": optimizer, "activation": None, "placement": None}
    if f is not None:
        changes |= {"activation": spelled(f), "placement": placement}
    changes |= {key: value for key, value in member.arguments.items() if key != "weight_decay"}
    if rate is not None:
        changes["lr"] = float(rate)
    return name if rate is None else f"{name}({short(float(rate))})", changes


def _function(rule: OptimizerConfig, text: str) -> tuple[str, dict[str, Any]]:
    function, _, placement = (part.strip() for part in text.partition("@"))
    word = _first_word(function)
    if not is_registered(word):
        known = (*EXAMPLES, *function_names())
        nearer = text if near_names(text, known) else word
        raise GafError(f"unknown setting {text!r}{did_you_mean(nearer, known)}")
    f = gaf.parse(function)
    activation = spelled(f)
    if not placement and not rule.where:  # which the script knows
        return activation, {"activation": activation, "placement": None}
    where = placement or (f.usual_placement if isinstance(f, Adaptive) else rule.where)
    return f"{activation}@{where}", {"activation": activation, "placement": where}


def spelled(f: gaf.Activation) -> str:
    """A function as settings name it; equal ones have the same name, so that none is trained twice.

    Example:
        >>> spelled(gaf.Arctan(0.1, 20.0)), spelled(gaf.Auto()), spelled(gaf.Auto(0.1, decay=0.9))
        ('arctan(0.1, 20)', 'auto', 'auto(0.1, decay=0.9)')
        >>> spelled(gaf.Tanh(0.2, 10) + gaf.Log())
        'tanh(0.2, 10) + log(0.1, 20)'
    """
    if len(f.terms) > 1:
        return " + ".join(map(spelled, f.terms))
    if not isinstance(f, Adaptive):
        return f"{f.name}({', '.join(map(short, f.params))})"
    given = [
        (f"{field.name}=" if field.name != "step" else "") + short(value)
        for field, value in zip(fields(f), f.params, strict=True)
        if value != field.default
    ]
    return f"{f.name}({', '.join(given)})" if given else f.name


def short(number: float) -> str:
    """A number as one types it: 20, not 20.0."""
    return str(int(number)) if number == int(number) and abs(number) < 1e15 else repr(number)
