"""Settings of a comparison by name: each changes the baseline's config in one respect, or several.

- ``baseline``: as it is; ``lr x3``: with three times its learning rate
- ``adam``, ``adam(0.01)``, ``adamw``: the other rules, at a rate of 0.001 unless one is given
- ``rmsprop``, ``nadam(0.002, betas=(0.8, 0.99))``, ``lion_pytorch:Lion(weight_decay=0.01)``: any optimizer of
  torch.optim or of an installed package, at its own default rate unless one is given
- ``prodigyopt:Prodigy + untuned``: at this rate only, where the rates of others are tuned
- ``clip-value-0.1``, ``clip-norm-0.1``, ``normalize``, ``normalize-0.1``, ``centralize``
- ``arctan(0.1, 20)@momentum``: a gradient activation function, and where it acts
- ``auto``, ``auto(step=0.1)@momentum``: :class:`gaf.Auto`, and its controls, as ``auto(function=line)``
- ``scaled(by=norm)``: :class:`gaf.Scaled`, and its control, ``scaled(function=line)``
- ``control(arctan(0.1, 20))``: its matched control, which is added to a comparison anyway
- ``presets``: the six functions of the paper's Table II
- ``adam-atan2``, ``lion`` and the other members of ``gaf.FAMILY``, at their published rate or at one that is
  given, as ``adam-atan2(0.001)``; ``family``: all of them
- ``adam + tanh(0.2, 10)``: both, in any order
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

from pydantic import ValidationError

import gaf
from gaf.common.errors import GafError
from gaf.common.texts import did_you_mean, near_names
from gaf.functions import Adaptive, as_activation
from gaf.functions.registry import is_registered, read_call
from gaf.functions.registry import names as function_names
from gaf.lab.engine.config import (
    OWN_KEYS,
    OptimizerConfig,
    RunConfig,
    explain,
    matched_control,
    rule_name,
)
from gaf.lab.engine.optimizers import check_arguments, import_rule, parameters
from gaf.lab.study.results import Kind
from gaf.optim.factory import CLASS, OURS, of_torch, read_name

BASELINE, PRESETS, MEMBERS, UNTUNED = "baseline", "presets", "family", "untuned"
# Rules that find their rate by themselves: lr is a factor on it, which is 1.
RATE_FREE = {"prodigyopt:Prodigy"}
ADAM_RATE = 1e-3  # torch's default: the paper gives none
PRESET_FUNCTIONS = tuple(
    f"{name}({values})" for values in ("0.1, 20", "0.2, 10") for name in ("tanh", "log", "arctan")
)
EXAMPLES = (
    *(BASELINE, PRESETS, "auto", "lr x3", "adam", "adamw", MEMBERS, *gaf.FAMILY),
    *("clip-value-0.1", "clip-norm-0.1", "normalize", "centralize"),
)

NUMBER = r"(\d+\.?\d*(?:e[+-]?\d+)?|\.\d+)"
RATE = re.compile(rf"lr *[x×*] *{NUMBER}")
ADAM = re.compile(rf"(adamw?)(?: *\( *{NUMBER} *\))?")
MEMBER = re.compile(rf"({'|'.join(gaf.FAMILY)})(?: *\( *{NUMBER} *\))?")
THRESHOLDS = {"clip-value": "clip_value", "clip-norm": "clip_norm", "normalize": "normalize"}
THRESHOLD = re.compile(rf"({'|'.join(THRESHOLDS)})(?:-{NUMBER})?")
CONTROL = re.compile(r"control *\((.*)\)")
OF_TORCH = {name: kind for name, kind in of_torch().items() if name not in OURS}
RULE = re.compile(rf"(?i:({CLASS.pattern}|{'|'.join(OF_TORCH)})) *(\(.*\))?")


@dataclass(frozen=True)
class Setting:
    """A config with the name and the kind that it has in a table.

    ``config.optimizer.lr`` is its usual rate, around which it is tuned; one whose ``has_rate`` is False is
    tried at that rate alone. ``parts`` are the names that its name is made of.
    """

    name: str
    kind: Kind
    config: RunConfig
    has_rate: bool = True
    parts: tuple[str, ...] = ()


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
    tuned = UNTUNED not in parts
    rules = [part for part in parts if part != UNTUNED] or [BASELINE]
    # another rule comes first: it decides what 'lr x3' multiplies and where a function acts by default
    for part in sorted(rules, key=lambda part: not _is_rule(part)):
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
    if not config.optimizer.ours:
        check_arguments(config.optimizer)
    if not tuned:
        names.append(UNTUNED)
    same = tuned and config.optimizer == base.optimizer
    kind = "baseline" if same else kind_of(config.optimizer)
    has_rate = tuned and rate_matters(config.optimizer)
    return Setting(" + ".join(names), kind, config, has_rate, tuple(names))


def rate_matters(rule: OptimizerConfig) -> bool:
    """Whether a rule has an axis of learning rates.

    Auto divides by the rate it begins with, so that steps do not depend on its level (a weight decay that f
    does not see does). In front of a rule that divides by its gradients the rate is that rule's.
    """
    f = as_activation(rule.activation)
    if isinstance(f, Adaptive) and not f.is_bound:
        # which rule a script has is not known before it runs
        return "name" in rule.script or (rule.where == "gradient" and rule.name != "sgd")
    return rule.name not in RATE_FREE


def _is_rule(part: str) -> bool:
    return any(pattern.fullmatch(part) for pattern in (ADAM, MEMBER, RULE))


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
    name = f"control({setting.name})"
    return Setting(name, "control", config, setting.has_rate, (name,))


def controls(setting: Setting, tuned: Iterable[Setting]) -> list[Setting]:
    """The control rules that a setting brings into a study in which all rates are tuned.

    A tuned rule is the matched control of a function that only scales its rate: where one of ``tuned`` is
    that rule it is the control, and none is needed where that is the baseline, which all are compared with.
    Where the control differs in more (a weight decay that f does not see, Adam's eps) it is a rule of its
    own. Auto and Scaled have the same scales with other curves.

    Example:
        >>> from gaf.lab.study import recipes
        >>> base = recipes.get("digits-cnn-sgdm")
        >>> tuned = [make(base, "baseline")]
        >>> controls(make(base, "arctan@momentum"), tuned)
        []
        >>> [control.name for control in controls(make(base, "arctan@gradient"), tuned)]
        ['control(arctan(0.1, 20)@gradient)']
        >>> [control.name for control in controls(make(base, "auto"), tuned)]
        ['auto(function=line)@gradient', 'auto(function=clip)@gradient', 'auto(function=sign)@gradient']
        >>> [control.name for control in controls(make(base, "scaled(by=max)"), tuned)]
        ['scaled(by=max, function=line)@gradient']
    """
    rule = setting.config.optimizer
    f = as_activation(rule.activation)
    if isinstance(f, Adaptive):
        return [_with_function(setting, other) for other in f.controls]
    if not rule.has_control or setting.kind == "control":
        return []
    matched = control(setting)
    rule = matched.config.optimizer
    for known in tuned:
        if known.has_rate and _at(known.config.optimizer, rule.lr) == rule:
            return [] if known.kind == "baseline" else [known]
    return [matched]


def baseline(base: RunConfig) -> Setting:
    """The rule of a training by itself, under its name."""
    return replace(make(base, BASELINE), name=base.optimizer.name)


def _with_function(setting: Setting, f: gaf.Activation) -> Setting:
    """A setting with another function in the place of its own, as a control."""
    rule = setting.config.optimizer
    place = f"@{rule.where}" if rule.where else ""  # as in :func:`_function`
    own, other = f"{rule.activation}{place}", f"{spelled(f)}{place}"
    parts = tuple(other if part == own else part for part in setting.parts)
    changed = OptimizerConfig.model_validate({**dict(rule), "activation": spelled(f)})
    config = setting.config.model_copy(update={"optimizer": changed})
    return replace(setting, name=" + ".join(parts), kind="control", config=config, parts=parts)


def at_rate(config: RunConfig, rate: float) -> RunConfig:
    """A config at another learning rate.

    Example:
        >>> from gaf.lab.study import recipes
        >>> at_rate(recipes.get("digits-cnn-sgdm"), 0.003).optimizer.lr
        0.003
    """
    return config.model_copy(update={"optimizer": _at(config.optimizer, rate)})


def _at(rule: OptimizerConfig, rate: float) -> OptimizerConfig:
    return OptimizerConfig.model_validate({**dict(rule), "lr": rate})


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
    if text == "tuned":
        raise GafError("every rule is tuned, the baseline too: leave 'tuned' out")
    if text == "centralize":
        return text, {"centralize": True}
    if matched := RATE.fullmatch(text):
        return f"lr x{short(float(matched[1]))}", {"lr": rule.lr * float(matched[1])}
    if matched := ADAM.fullmatch(text):
        rate = float(matched[2] or ADAM_RATE)
        name = matched[1] if rate == ADAM_RATE else f"{matched[1]}({short(rate)})"
        sgds = {"momentum": 0.0, "dampening": 0.0, "nesterov": False, "arguments": {}}
        return name, {"name": matched[1], "lr": rate, **sgds}
    if matched := MEMBER.fullmatch(text):
        return _member(matched[1], matched[2])
    if matched := RULE.fullmatch(text):
        return _imported(rule, text, matched[1], matched[2] or "()")
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
    changes = {**own, "name": optimizer, "arguments": {}, "activation": None, "placement": None}
    if f is not None:
        changes |= {"activation": spelled(f), "placement": placement}
    changes |= {key: value for key, value in member.arguments.items() if key != "weight_decay"}
    if rate is not None:
        changes["lr"] = float(rate)
    return name if rate is None else f"{name}({short(float(rate))})", changes


def _imported(
    rule: OptimizerConfig, text: str, name: str, given: str
) -> tuple[str, dict[str, Any]]:
    """An optimizer of torch.optim or of a package; if it takes a weight decay it has the baseline's."""
    full = rule_name(name)
    kind = import_rule(full)
    arguments = _arguments(text, given)
    rate = arguments.pop("lr", parameters(kind)["lr"].default)
    if isinstance(rate, bool) or not isinstance(rate, int | float):
        raise GafError(f"the setting {text!r} lacks its rate, as in '{name}(0.001)'")
    spelled_name = next((lower for lower, other in OF_TORCH.items() if other is kind), full)
    parts = [] if rate == parameters(kind)["lr"].default else [short(float(rate))]
    parts += [f"{key}={_value(value)}" for key, value in arguments.items()]
    changes = {
        **{key: OptimizerConfig.model_fields[key].default for key in OWN_KEYS},
        **{"name": full, "lr": float(rate)},
    }
    if "weight_decay" in arguments:
        changes["weight_decay"] = arguments.pop("weight_decay")
    elif "weight_decay" not in parameters(kind):
        changes["weight_decay"] = 0.0
    changes["arguments"] = arguments
    return f"{spelled_name}({', '.join(parts)})" if parts else spelled_name, changes


def _arguments(text: str, given: str) -> dict[str, Any]:
    """What stands in the brackets behind a rule, as values of JSON; the rate may go without its name."""
    try:
        _, rates, arguments = read_call(ast.parse(f"rule{given}", mode="eval").body)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise GafError(
            f"cannot read {text!r}: write values, as in 'rmsprop(0.01, alpha=0.9)'"
        ) from None
    if len(rates) > 1 or (rates and "lr" in arguments):
        raise GafError(f"cannot read {text!r}: only the rate goes without its name")
    arguments |= {"lr": rates[0]} if rates else {}
    if isinstance(arguments.get("weight_decay"), int):
        arguments["weight_decay"] = float(arguments["weight_decay"])  # type: ignore[arg-type]
    return {
        key: list(value) if isinstance(value, tuple) else value for key, value in arguments.items()
    }


def _value(value: Any) -> str:
    """A value as one types it, and as it is read again."""
    if isinstance(value, list):
        return f"({', '.join(map(_value, value))}{',' * (len(value) == 1)})"
    return repr(value)


def _function(rule: OptimizerConfig, text: str) -> tuple[str, dict[str, Any]]:
    function, _, placement = (part.strip() for part in text.partition("@"))
    word = _first_word(function)
    if not is_registered(word):
        known = (*EXAMPLES, *function_names())
        nearer = text if near_names(text, known) else word
        if not near_names(nearer, known) and near_names(word, OF_TORCH):
            known = tuple(OF_TORCH)
        raise GafError(f"unknown setting {text!r}{did_you_mean(nearer, known)}")
    f = gaf.parse(function)
    activation = spelled(f)
    if not placement and not rule.where:  # which the script knows
        return activation, {"activation": activation, "placement": None}
    where = placement or (f.usual_placement(rule.name) if isinstance(f, Adaptive) else rule.where)
    return f"{activation}@{where}", {"activation": activation, "placement": where}


def spelled(f: gaf.Activation) -> str:
    """A function as settings name it; equal ones have the same name, so that none is trained twice.

    Example:
        >>> spelled(gaf.Arctan(0.1, 20.0)), spelled(gaf.Auto()), spelled(gaf.Auto(0.1, decay=0.9))
        ('arctan(0.1, 20)', 'auto', 'auto(0.1, decay=0.9)')
        >>> spelled(gaf.Auto(function="line"))
        'auto(function=line)'
        >>> spelled(gaf.Tanh(0.2, 10) + gaf.Log())
        'tanh(0.2, 10) + log(0.1, 20)'
    """
    if len(f.terms) > 1:
        return " + ".join(map(spelled, f.terms))
    if not isinstance(f, Adaptive):
        return f"{f.name}({', '.join(map(short, f.params))})"
    given = [
        (f"{field.name}=" if field.name != "step" else "")
        + (value if isinstance(value, str) else short(value))
        for field, value in zip(fields(f), f.params, strict=True)
        if value != field.default
    ]
    return f"{f.name}({', '.join(given)})" if given else f.name


def short(number: float) -> str:
    """A number as one types it: 20, not 20.0."""
    return str(int(number)) if number == int(number) and abs(number) < 1e15 else repr(number)
