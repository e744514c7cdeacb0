"""What a run is, as a frozen value: everything that decides the outcome, and nothing else.

Configs are strict: a key that does not exist or a value of another type is refused in one sentence. They
are written to JSON and read back unchanged. ``override`` changes keys by name, as ``--set`` does.
"""

from __future__ import annotations

import inspect
import json
import math
import reprlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    TypeAdapter,
    ValidationError,
    model_validator,
)

import gaf
from gaf.common.errors import GafError
from gaf.common.files import check_texts, number, read_whole
from gaf.common.texts import did_you_mean
from gaf.functions import Adaptive, as_activation
from gaf.lab.tasks.base import Config, GrownConfig, Share, TaskConfig
from gaf.optim.activate import ANY
from gaf.optim.description import Rule, check_placement
from gaf.optim.factory import CLASS, OURS, of_torch
from gaf.optim.settings import placement_of
from gaf.optim.treatment import Treatment

LARGEST = 3.4e38  # torch refuses to compute with a number that is no float32
MOST = 2**31 - 1
Positive = Annotated[float, Field(gt=0, le=LARGEST, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, le=LARGEST, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=MOST)]
Whole = Annotated[int, Field(ge=0, le=MOST)]
Number = Annotated[float, BeforeValidator(number)]  # inf and nan are strings in JSON

# what other libraries call a key, by the last parts of the names
SYNONYMS = {
    **dict.fromkeys(("learning_rate", "learningrate", "rate", "step_size"), "lr"),
    **dict.fromkeys(("wd", "decay", "l2"), "weight_decay"),
    **dict.fromkeys(("bs", "batch", "batchsize", "train_batch_size"), "batch_size"),
    **dict.fromkeys(("max_epochs", "num_epochs", "n_epochs", "num_train_epochs"), "epochs"),
    **dict.fromkeys(("steps", "max_steps", "num_steps", "max_iters"), "iterations"),
    **dict.fromkeys(("beta", "beta1", "beta2"), "betas"),
    **dict.fromkeys(("clip", "grad_clip", "max_norm", "max_grad_norm"), "clip_norm"),
    **dict.fromkeys(("grad_accum", "gradient_accumulation_steps"), "accumulate"),
    **dict.fromkeys(("gpus", "num_gpus"), "devices"),
    **dict.fromkeys(("dtype", "amp"), "precision"),
    **dict.fromkeys(("warmup_epochs", "warmup_steps", "warmup_iters"), "warmup"),
    **{"epsilon": "eps", "random_seed": "seed", "dataset": "data", "num_threads": "threads"},
}

SHORT = reprlib.Repr()  # of a value in a sentence
SHORT.maxstring = SHORT.maxother = 80
SENTENCE = 1000  # characters
# dicts of keys that a task or an optimizer has of its own
FREE = ("task.data_options.", "task.model_options.", "task.options.", "optimizer.arguments.")
LENGTHS = ("epochs", "iterations")  # a run has one of them

# Not every rule's.
LATER_KEYS = frozenset({"decoupled_weight_decay", "eps_hat"})
OWN_KEYS = {"momentum", "dampening", "nesterov", "betas", "eps", "amsgrad", *LATER_KEYS}
SHARED_KEYS = ("lr", "weight_decay", "activation", "placement")  # of every rule
TORCH = "torch.optim"

# What a script of the user's decides as long as no setting does.
SCRIPT_KEYS = ("name", "lr", "weight_decay", *sorted(OWN_KEYS))
# keys of a training of ours, which nothing in a script reads
SCRIPTS_OWN = (
    *("schedule", "batch_size", "drop_last", "accumulate", "precision", "strategy"),
    *("channels_last", "compile"),
)

LION_BETAS: tuple[float, float] = inspect.signature(OURS["lion"]).parameters["betas"].default

C = TypeVar("C", bound="Config")


def rule_name(name: str) -> str:
    """A rule's name in full; nothing is imported, since a config may come from elsewhere.

    Example:
        >>> rule_name("adam"), rule_name("RMSprop"), rule_name("lion_pytorch:Lion")
        ('adam', 'torch.optim:RMSprop', 'lion_pytorch:Lion')
    """
    known = of_torch()
    if name in OURS or CLASS.fullmatch(name):
        return name
    if name.lower() in known:
        return f"{TORCH}:{known[name.lower()].__name__}"
    hint = did_you_mean(name, [*OURS, *known])
    raise GafError(f"unknown optimizer {name!r}{hint} (one of another package: 'module:Class')")


class OptimizerConfig(GrownConfig):
    """The update rule. A key that the rule does not have (betas of SGD) keeps its default.

    ``name`` is one of ours, or ``module:Class`` of torch.optim or another package. Such a class takes ``lr``,
    ``weight_decay`` where it has one, and ``arguments``, in which everything else of it stands.

    ``activation`` is written as :func:`gaf.parse` reads it, or ``auto``. Before it comes what else is done to
    gradients: ``centralize`` takes from each output's weights the mean of their gradient (Yong et al., 2020),
    clipping is by value or by norm, ``normalize`` gives all gradients together this very norm.

    ``script`` has the keys that a script of the user's decides: of these the values here do not count, but
    for ``lr``, which is a factor on the script's. ``control``: the script runs the matched control.
    """

    later_keys: ClassVar[frozenset[str]] = LATER_KEYS | {"arguments", "script", "control"}

    name: Annotated[str, AfterValidator(rule_name)] = "sgd"
    lr: Positive = 0.1
    weight_decay: NotNegative = 0.0
    momentum: Share = 0.0
    dampening: Share = 0.0
    nesterov: bool = False
    betas: tuple[Share, Share] = (0.9, 0.999)
    eps: NotNegative = 1e-8
    amsgrad: bool = False
    decoupled_weight_decay: bool = False
    eps_hat: bool = False
    arguments: dict[str, JsonValue] = Field(default={})
    activation: str | None = None
    placement: str | None = None
    clip_value: Positive | None = None
    clip_norm: Positive | None = None
    normalize: Positive | None = None
    centralize: bool = False
    script: tuple[str, ...] = ()
    control: bool = False

    @model_validator(mode="after")
    def _consistent(self) -> OptimizerConfig:
        if self.name == "lion" and "betas" not in self.model_fields_set:
            object.__setattr__(self, "betas", LION_BETAS)  # which differ from Adam's
        for key in sorted(OWN_KEYS - self.own_keys):
            if getattr(self, key) != type(self).model_fields[key].default:
                where = "" if self.ours else " here: what it takes stands in optimizer.arguments"
                raise GafError(f"{self.name} has no {key}{where}")
        if self.ours and self.arguments:
            raise GafError(f"{self.name} has no arguments but the keys of the config")
        for key in sorted(self.arguments.keys() & {"params", *SHARED_KEYS}):
            raise GafError(f"{key} is a key of the config, and not one of optimizer.arguments")
        if "eps" in self.own_keys and self.lr / (1 - self.betas[0]) > LARGEST:
            raise GafError(f"lr / (1 - betas[0]), as in the first step, goes beyond {LARGEST:g}")
        if self.nesterov and (self.momentum == 0 or self.dampening != 0):
            raise GafError("nesterov needs a momentum above 0 and no dampening")
        if self.activation is not None:
            self.where  # noqa: B018  # refuses a function or a placement that there is not
        elif self.placement is not None:
            raise GafError("placement needs an activation; unset it, or set one")
        self.treatment  # noqa: B018  # refuses two of its kinds at once
        for key in self.script:
            if key not in SCRIPT_KEYS:
                raise GafError(f"script: a script does not decide {key!r}")
            if key != "lr" and getattr(self, key) != type(self).model_fields[key].default:
                raise GafError(f"a script decides {key} by itself: leave optimizer.{key} out")
        if self.control and not (self.script and self.activation):
            raise GafError("control belongs to a script's rule with an activation")
        return self

    @property
    def treatment(self) -> Treatment:
        """What is done to gradients before f."""
        return Treatment(self.centralize, self.clip_value, self.clip_norm, self.normalize)

    @property
    def ours(self) -> bool:
        """Whether the rule is gaf's own, and not that of a class which is imported by its name."""
        return self.name in OURS

    @property
    def imported(self) -> bool:
        """Whether a package other than torch is imported for it."""
        return not self.ours and self.name.partition(":")[0].partition(".")[0] != "torch"

    @property
    def rule(self) -> Rule:
        """What is particular to it, as data."""
        return OURS[self.name].rule if self.ours else ANY

    @property
    def where(self) -> str:
        """The placement in force: gaf's own default where none is set, '' where the script knows it."""
        rule, f = self.rule, as_activation(self.activation)
        if {"name", "momentum"} & {*self.script}:
            return check_placement(self.placement) or ""
        if f is None:
            return rule.place(dict(self), self.placement)
        return placement_of(dict(self), f, rule, self.placement)

    @property
    def decays_apart(self) -> bool:
        """Whether the weight decay is decoupled from the gradient."""
        return self.name in ("adamw", "lion") or self.decoupled_weight_decay

    @property
    def own_keys(self) -> set[str]:
        """Those of :data:`OWN_KEYS` that the rule has."""
        if not self.ours:
            return set()
        return OWN_KEYS & inspect.signature(OURS[self.name]).parameters.keys()

    @property
    def sets_itself(self) -> bool:
        """Whether the activation adapts, as :class:`gaf.Auto`: it has no slope to speak of."""
        return isinstance(as_activation(self.activation), Adaptive)

    @property
    def has_control(self) -> bool:
        """Whether there is a function with one finite slope, which a learning rate can stand for.

        What a slope does to a rule of another package is not known.
        """
        f = as_activation(self.activation)
        return self.ours and f is not None and not self.sets_itself and math.isfinite(f.slope)


class ScheduleConfig(Config):
    """The learning rate over the run, as a factor on ``lr``.

    ``warmup`` and ``milestones`` are counted in ``unit``. ``every`` says how often the rate changes: at
    each iteration, or once an epoch as torch's schedulers are mostly used. ``floor`` is where cosine ends;
    at each milestone ``step`` multiplies the rate by ``gamma``.
    """

    name: Literal["cosine", "constant", "step"] = "cosine"
    warmup: NotNegative = 0.0
    unit: Literal["epoch", "iteration"] = "epoch"
    every: Literal["epoch", "iteration"] = "iteration"
    floor: Share = 0.0
    milestones: tuple[Positive, ...] = ()
    gamma: Positive = 0.1

    @model_validator(mode="after")
    def _own_keys(self) -> ScheduleConfig:
        for key, owner in (("floor", "cosine"), ("milestones", "step"), ("gamma", "step")):
            if self.name != owner and getattr(self, key) != type(self).model_fields[key].default:
                raise GafError(f"{key} belongs to the schedule {owner!r}, not to {self.name!r}")
        return self


class RunConfig(Config):
    """One training.

    ``batch_size`` is what one step of the optimizer sees, over all processes and accumulated parts, so
    that the number of processes does not change what is computed. ``epochs`` or ``iterations`` ends the run.
    ``threads``: torch's threads in each process; unset, what torch takes when the run begins.
    ``evaluate_every`` counts epochs (0: only at the end), ``checkpoint_every``, ``log_every`` and
    ``monitor_every`` iterations. ``checkpoint_every`` unset: at the end of an epoch, five seconds or more
    after the last; ``monitor_every`` 0: no statistics of what f sees.
    """

    name: str = Field(min_length=1)
    task: TaskConfig
    optimizer: OptimizerConfig = OptimizerConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    epochs: Count | None = None
    iterations: Count | None = None
    batch_size: Count = 128
    drop_last: bool = False
    accumulate: Count = 1
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    strategy: Literal["auto", "ddp", "fsdp2"] = "auto"
    devices: Count = 1
    nodes: Count = 1
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    seed: Whole = 0
    channels_last: bool = False
    compile: bool = False
    evaluate_every: Whole = 1
    checkpoint_every: Count | None = None
    log_every: Count = 50
    monitor_every: Whole = 100

    @model_validator(mode="after")
    def _consistent(self) -> RunConfig:
        if self.task.is_script:
            if self.epochs or self.iterations:
                raise GafError(
                    "a script decides how long it trains: leave epochs and iterations out"
                )
            for key in SCRIPTS_OWN:
                if getattr(self, key) != type(self).model_fields[key].default:
                    raise GafError(f"a script decides {key} by itself: leave it out")
            if self.task.validation:
                raise GafError("a script keeps its validation data by itself: leave it out")
        elif (self.epochs is None) == (self.iterations is None):
            raise GafError("set epochs or iterations, one of the two")
        if self.optimizer.script and not self.task.is_script:
            raise GafError("optimizer.script belongs to a task that is a script")
        if self.batch_size % self.accumulate:
            raise GafError(
                f"batch_size {self.batch_size} does not divide into accumulate={self.accumulate} parts"
            )
        lr, schedule = self.optimizer.lr, self.schedule
        growth = len(schedule.milestones) * math.log(max(1.0, schedule.gamma))
        if math.log(lr) + growth > math.log(LARGEST):
            raise GafError(
                f"lr {lr} times gamma {schedule.gamma} at each milestone goes beyond {LARGEST:g}"
            )
        return self


def read(data: Any, kind: type[C] = RunConfig) -> C:
    """A config from JSON text or from its values; GafError says in one sentence what is wrong."""
    try:
        # Through JSON, where strict means what one expects: a list is a tuple, 1 is not True.
        return kind.model_validate_json(data if isinstance(data, str | bytes) else json.dumps(data))
    except ValidationError as error:
        raise GafError(explain(error, kind)) from None


def read_file(path: Path, kind: type[C] = RunConfig) -> C:
    """What is in a JSON file of ours; GafError with its path where it is something else."""
    content = read_whole(path)
    try:
        values = read(content, kind)
        check_texts(values.model_dump())
    except GafError as error:
        raise GafError(f"{path} is damaged: {error}") from None
    return values


def matched_control(config: RunConfig) -> RunConfig:
    """The same rule with f replaced by its slope s: what a gain of f has to be measured against.

    Which arguments s multiplies or divides is the rule's to say: :class:`gaf.optim.description.Rule`.
    (Under a schedule ``update`` keeps each step's own rate in the velocity, the control does not.)
    """
    rule = config.optimizer
    if rule.activation is None:
        raise GafError(f"{config.name} has no activation, so there is no matched control of it")
    if rule.sets_itself:
        raise GafError(
            f"{rule.activation} has a slope for each tensor and step, so there is no matched control of it"
        )
    if not rule.ours:
        raise GafError(
            f"what a slope does to {rule.name} is not known, so there is no matched control of it"
        )
    s = gaf.parse(rule.activation).slope
    if not rule.has_control:
        raise GafError(f"{rule.activation} jumps at 0, so there is no matched control of it")
    if rule.script:  # it knows what s multiplies
        matched = rule.model_copy(update={"control": True})
        return config.model_copy(
            update={"name": f"{config.name}-matched-control", "optimizer": matched}
        )
    group = {**dict(rule), "decoupled_weight_decay": rule.decays_apart}
    change = {"activation": None, "placement": None, **rule.rule.matched(group, rule.where, s)}
    try:
        matched = OptimizerConfig.model_validate({**dict(rule), **change})
    except ValidationError as error:
        raise GafError(
            f"{rule.activation} has no matched control: its {explain(error, OptimizerConfig)}"
        ) from None
    return config.model_copy(
        update={"name": f"{config.name}-matched-control", "optimizer": matched}
    )


def keys(kind: type[BaseModel] = RunConfig, prefix: str = "") -> list[str]:
    """The dotted names of all keys."""
    names = []
    for name, field in kind.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            names += keys(inner, f"{prefix}{name}.")
        else:
            names.append(prefix + name)
    return names


def unknown_key(key: str, kind: type[Config] = RunConfig) -> str:
    """A sentence about a key that there is not.

    Example:
        >>> unknown_key("optimizer.learning_rate")
        "a config has no key 'optimizer.learning_rate'; did you mean 'optimizer.lr'?"
    """
    known = keys(kind)
    meant = SYNONYMS.get(key.rpartition(".")[2].lower())
    same = [name for name in known if name.rpartition(".")[2] == meant]
    return f"a {kind.noun} has no key {key!r}{did_you_mean(same[0] if same else key, known)}"


def explain(error: ValidationError, kind: type[Config] = RunConfig, within: str = "") -> str:
    """The first complaint of pydantic as a sentence; ``within`` is the key whose value was read."""
    first = error.errors(include_url=False)[0]
    key = ".".join(_short(str(part)) for part in (*filter(None, [within]), *first["loc"]))
    if first["type"] == "extra_forbidden":
        return unknown_key(key, kind)
    if first["type"] == "missing":
        return f"the {kind.noun} lacks the key {key!r}"
    cause = first.get("ctx", {}).get("error")
    if first["type"] == "json_invalid":
        return f"the {kind.noun} is not JSON: {cause}"
    if first["type"] == "less_than_equal" and "ctx" in first:
        return f"{key} should be at most {first['ctx']['le']}, got {SHORT.repr(first['input'])}"
    if isinstance(cause, ValueError) and not isinstance(cause, GafError):
        raise cause  # a bug in a validator
    if first["type"] == "value_error":
        reason = _short(str(cause), SENTENCE)
        return f"{key}: {reason}" if key else reason
    reason = _short(first["msg"].removeprefix("Input "), SENTENCE)
    return f"{key or f'the {kind.noun}'} {reason}, got {SHORT.repr(first['input'])}"


def _short(text: str, most: int = SHORT.maxstring) -> str:
    return text if len(text) <= most else f"{text[:most]}..."


def override(config: RunConfig, changes: Sequence[str]) -> RunConfig:
    """The config with changes such as ``"optimizer.lr=0.05"`` made, all of them at once.

    A value is read as JSON (``0.05``, ``true``, ``null``, ``[0.9, 0.99]``), and as text where it is not
    JSON or the key wants text. Setting ``iterations`` unsets ``epochs``, and the other way round; setting
    both is refused.

    Example:
        >>> config = read({"name": "a", "task": {"data": "digits", "model": "mlp"}, "epochs": 3})
        >>> override(config, ["optimizer.lr=0.05", "task.model_options.depth=8"]).optimizer.lr
        0.05
    """
    data, lengths = config.model_dump(mode="json"), set()
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals:
            raise GafError(f"{change!r} is not key=value")
        key = key.strip()
        value = _value(key, text)
        _set(data, key, value)
        if key in LENGTHS and value is not None:
            lengths.add(key)
            data.update({other: None for other in LENGTHS if other != key})
    if len(lengths) > 1:
        raise GafError("set epochs or iterations, one of the two")
    return read(data)


def _value(key: str, text: str) -> Any:
    """The text as the key wants it."""
    try:
        value = json.loads(text)
    except ValueError:  # no JSON, or a number of thousands of digits
        value = text
    if key.startswith(FREE):
        return value
    if key not in keys():
        raise GafError(unknown_key(key))
    complaint = _complaint(key, value)
    if complaint and _complaint(key, text):
        raise GafError(complaint)
    return text if complaint else value  # text: a name made of digits


def _complaint(key: str, value: Any) -> str:
    """What is wrong with a value by itself, '' where nothing is."""
    kind: type[BaseModel] = RunConfig
    *path, last = key.split(".")
    for part in path:
        kind = kind.model_fields[part].annotation  # type: ignore[assignment]
    field = kind.model_fields[last]
    wanted: Any = Annotated[field.annotation, field]  # type: ignore[valid-type]
    try:
        TypeAdapter(wanted, config=ConfigDict(strict=True)).validate_json(json.dumps(value))
    except ValidationError as error:
        return explain(error, within=key)
    return ""


def _set(data: dict[str, Any], key: str, value: Any) -> None:
    *path, last = key.split(".")
    inner = data
    for part in path:
        inner = inner.setdefault(part, {})
        if not isinstance(inner, dict):
            raise GafError(f"{key!r} goes into {part!r}, which holds a value")
    inner[last] = value
