"""What the figures of a training mean: findings from records, and the words for them.

Findings are data; sentence and advice are made from it at the end of this file, and nowhere else.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

# Where something begins to be worth a word, each with its reason.

WINDOW = 500  # steps: long enough for a share in percent, short enough to be about now
FEWEST = 3  # records of a place: a single step may be odd by chance
FEWEST_CLIPS = 20  # calls: fewer do not make a share
ALWAYS = 0.95  # share of clipped steps: those that are left do not change the average step
DIVISOR = 2.0  # average factor of clipping: below, a learning rate is hardly another one
LARGER = (
    1000.0  # times the median tensor: biases and gains of healthy networks stay within about 100
)
FEWEST_PLACES = 4  # to have a median of others
HALF = 0.5  # share of zeros: rows of an embedding that a batch does not use are zeros too, so there is more
SMALLEST = (
    0.25  # share of the others near the smallest number: zeros beside them have been rounded away
)
LINEAR = 0.99  # share of elements: the rest does not bend the step
NAMED = 5  # places that a sentence lists

HALF_PRECISION = ("float16", "bfloat16")

# Their step does not depend on the scale of the gradients, but for eps.
SCALE_FREE = frozenset(
    (
        *(
            "Adam",
            "AdamW",
            "Adamax",
            "NAdam",
            "RAdam",
            "RMSprop",
            "Adagrad",
            "Adadelta",
            "Adafactor",
        ),
        *("SparseAdam", "Lion", "Rprop", "Muon"),
    )
)


@dataclass(frozen=True)
class GradientFinding:
    """One thing to say of a training.

    Args:
        kind: which of :data:`WORDS`.
        problem: whether something should be done.
        places: the tensors or groups it is about.
        values: the figures in it.
    """

    kind: str
    problem: bool
    places: tuple[str, ...] = ()
    values: dict[str, Any] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """What was seen."""
        return WORDS[self.kind][0](self)

    @property
    def advice(self) -> str:
        """What to try; empty where there is nothing to do."""
        return WORDS[self.kind][1](self)

    def __str__(self) -> str:
        return f"{self.sentence} {self.advice}".rstrip() if self.problem else self.sentence

    def as_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {
            **{"kind": self.kind, "problem": self.problem, "places": list(self.places)},
            **{"values": self.values, "sentence": self.sentence, "advice": self.advice},
        }


def diagnose(
    records: Sequence[dict[str, Any]],
    clips: Sequence[dict[str, Any]] = (),
    optimizer: str | None = None,
) -> list[GradientFinding]:
    """What there is to say of a training, problems first.

    Args:
        records: of :class:`gaf.Monitor`.
        clips: its ``clips``.
        optimizer: the name of the optimizer's class.
    """
    last = max((record["step"] for record in records), default=0)
    places: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        if record["step"] > last - WINDOW:
            places.setdefault(record["name"], []).append(record)
    found = [
        *_nonfinite(records),
        *_clipping(clips, optimizer),
        *_dead(places),
        *_large(places),
        *_underflow(places),
        *_functions(places),
    ]
    return sorted(found, key=lambda finding: not finding.problem)


def _nonfinite(records: Sequence[dict[str, Any]]) -> Iterable[GradientFinding]:
    """The first step with inf or NaN, and where it was."""
    bad = [record for record in records if record["nonfinite"]]
    if not bad:
        return
    step = bad[0]["step"]
    first = [record for record in bad if record["step"] == step]
    steps = {record["step"] for record in records if record["step"] >= step}
    bad_steps = {record["step"] for record in bad}
    yield GradientFinding(
        "nonfinite",
        True,
        tuple(record["name"] for record in first),
        {
            "step": step,
            "elements": sum(record["nonfinite"] for record in first),
            "lasting": bad_steps == steps,
            "steps": len(bad_steps),
        },
    )


def _clipping(clips: Sequence[dict[str, Any]], optimizer: str | None) -> Iterable[GradientFinding]:
    recent = [clip for clip in clips[-WINDOW:] if math.isfinite(clip["norm"])]
    if len(recent) < FEWEST_CLIPS:
        return
    norms = sorted(clip["norm"] for clip in recent)
    kept = [min(1.0, clip["max_norm"] / max(clip["norm"], 1e-300)) for clip in recent]
    acted = sum(share < 1 for share in kept) / len(kept)
    factor = 1 / max(statistics.fmean(kept), 1e-300)
    values = {
        "steps": len(recent),
        "acted": acted,
        "factor": factor,
        "max_norm": recent[-1]["max_norm"],
        "median": statistics.median(norms),
        "largest": norms[-1],
        "high": norms[math.ceil(0.95 * len(norms)) - 1],  # what 5 % of the steps exceed
        "scale_free": optimizer in SCALE_FREE,
    }
    kind = "clipping sometimes"
    if acted >= ALWAYS:
        kind = "clipping always"
    elif acted == 0:
        kind = "clipping never"
    yield GradientFinding(kind, kind == "clipping always" and factor >= DIVISOR, (), values)


def _dead(places: dict[str, list[dict[str, Any]]]) -> Iterable[GradientFinding]:
    names = [
        name
        for name, seen in places.items()
        if len(seen) >= FEWEST and all(r["elements"] and r["elements"] == r["zeros"] for r in seen)
    ]
    if names:
        steps = max(len(places[name]) for name in names)
        yield GradientFinding("dead", True, tuple(names), {"steps": steps})


def _large(places: dict[str, list[dict[str, Any]]]) -> Iterable[GradientFinding]:
    """Places whose usual element is far larger than that of the median place."""
    sizes = {name: _size(seen) for name, seen in places.items() if len(seen) >= FEWEST}
    sizes = {name: size for name, size in sizes.items() if size > 0}
    if len(sizes) < FEWEST_PLACES:
        return
    for name, size in sizes.items():
        middle = statistics.median(other for key, other in sizes.items() if key != name)
        if size >= LARGER * middle:
            yield GradientFinding("large", True, (name,), {"times": size / middle})


def _size(seen: Sequence[dict[str, Any]]) -> float:
    """The median over the steps of the root mean square of the elements."""
    return statistics.median(
        record["norm"] / math.sqrt(max(1, record["elements"] - record["nonfinite"]))
        for record in seen
    )


def _underflow(places: dict[str, list[dict[str, Any]]]) -> Iterable[GradientFinding]:
    for name, seen in places.items():
        if len(seen) < FEWEST or seen[-1]["dtype"] not in HALF_PRECISION:
            continue
        zeros = statistics.median(r["zeros"] / max(1, r["elements"]) for r in seen)
        near = statistics.median(r["near_smallest"] for r in seen)
        if HALF <= zeros < 1 and near >= SMALLEST:
            values = {"zeros": zeros, "near": near, "dtype": seen[-1]["dtype"]}
            yield GradientFinding("underflow", True, (name,), values)


def _functions(places: dict[str, list[dict[str, Any]]]) -> Iterable[GradientFinding]:
    """What f does in each group, from the last record of each of its places."""
    groups: dict[tuple[int, str], list[dict[str, Any]]] = {}
    for seen in places.values():
        if "function" in seen[-1]:
            key = seen[-1]["group"], seen[-1]["function"]
            groups.setdefault(key, []).append(seen[-1])
    for (group, function), last in groups.items():
        inputs = [record["input"] for record in last]
        alive = [each["elements"] - each["zeros"] - each["nonfinite"] for each in inputs]
        total = sum(alive)
        values: dict[str, Any] = {
            key: sum(n * r[key] for n, r in zip(alive, last, strict=True)) / max(1, total)
            for key in _SHARES
        }
        values |= {"function": function, "meaning": last[0]["meaning"]}
        values |= {key: sum(each[key] for each in inputs) for key in ("elements", "nonfinite")}
        kind = "linear" if values["linear"] >= LINEAR else "bent"
        yield GradientFinding(
            kind if total else "nothing to act on", False, (f"group {group}",), values
        )


_SHARES = ("linear", "enlarged", "restrained", "saturated")


# The words.


def _percent(share: float) -> str:
    tenths = int(1000 * share)  # rounded down: 99.96 % is not all
    return f"{tenths / 10:g} %"


def _number(value: float) -> str:
    """Two digits, and no exponent where one can do without.

    Example:
        >>> _number(19.7), _number(0.31), _number(1234567.0), _number(3e-7)
        ('20', '0.31', '1,200,000', '3e-07')
    """
    if value == 0 or not math.isfinite(value) or not 1e-4 <= abs(value) < 1e9:
        return f"{value:.2g}"
    digits = 1 - math.floor(math.log10(abs(value)))
    text = f"{round(value, digits):,.{max(0, digits)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _list(finding: GradientFinding) -> str:
    names = finding.places
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _nonfinite_sentence(f: GradientFinding) -> str:
    v = f.values
    what = "are inf or NaN" if v["elements"] != 1 else "is inf or NaN"
    again = "every observed step after it" if v["lasting"] else f"{v['steps'] - 1} later ones"
    return (
        f"{v['elements']:,} gradient element{'s' if v['elements'] != 1 else ''} of {_list(f)} {what} "
        f"at step {v['step']}, and so it is in {again}."
    )


def _always_sentence(f: GradientFinding) -> str:
    v = f.values
    factor = _number(v["factor"])
    what = (
        "this optimizer divides by the size of the gradients, so that a constant factor cancels, and "
        "clipping only evens out the size from step to step"
        if v["scale_free"]
        else f"it is a learning rate divided by {factor}"
    )
    return (
        f"Clipping acted on {_percent(v['acted'])} of the last {v['steps']} steps, on average by a factor "
        f"{factor}: {what}."
    )


def _always_advice(f: GradientFinding) -> str:
    v = f.values
    high = _number(v["high"])
    advice = f"To clip outliers only, set max_norm to {high}, which 5 % of the steps exceed"
    if not v["scale_free"]:
        advice += (
            f", and divide the learning rate by {_number(v['factor'])} to keep the size of the step"
        )
    return f"{advice}."


def _never_sentence(f: GradientFinding) -> str:
    v = f.values
    return (
        f"Clipping has not acted in the last {v['steps']} steps: the largest norm was "
        f"{_number(v['largest'])}, max_norm is {_number(v['max_norm'])}."
    )


def _sometimes_sentence(f: GradientFinding) -> str:
    v = f.values
    return (
        f"Clipping acted on {_percent(v['acted'])} of the last {v['steps']} steps: the median norm was "
        f"{_number(v['median'])}, the largest {_number(v['largest'])}, max_norm is {_number(v['max_norm'])}."
    )


def _sometimes_advice(f: GradientFinding) -> str:
    """A threshold for outliers alone, where clipping acts on more than those."""
    v = f.values
    high = _number(v["high"])
    if v["high"] <= v["max_norm"] or high == _number(v["max_norm"]):
        return ""
    return f"To clip outliers only, set max_norm to {high}, which 5 % of the steps exceed."


def _f(f: GradientFinding) -> str:
    """What a sentence about f begins with."""
    v = f.values
    text = f"{f.places[0]}, {v['function']}: "
    if v["nonfinite"]:
        text += f"{v['nonfinite']} of {v['elements']} elements are inf or NaN. "
    return text


def _linear_sentence(f: GradientFinding) -> str:
    share, meaning = _percent(f.values["linear"]), f.values["meaning"]
    return f"{_f(f)}{share} of elements are in the linear range: here this is {meaning}."


def _bent_sentence(f: GradientFinding) -> str:
    v = f.values
    return (
        f"{_f(f)}{_percent(v['enlarged'])} of elements are enlarged, {_percent(v['restrained'])} restrained, "
        f"{_percent(v['saturated'])} saturated; {_percent(v['linear'])} are in the linear range."
    )


def _large_sentence(f: GradientFinding) -> str:
    return (
        f"{f.places[0]} has {_number(f.values['times'])} times the median gradient of the others."
    )


def _dead_sentence(f: GradientFinding) -> str:
    verb = "gets" if len(f.places) == 1 else "get"
    return (
        f"{_list(f)} {verb} no gradient: all elements were 0 in {f.values['steps']} observed steps."
    )


def _underflow_sentence(f: GradientFinding) -> str:
    v = f.values
    return (
        f"{_percent(v['zeros'])} of the {v['dtype']} gradients of {f.places[0]} are 0 and "
        f"{_percent(v['near'])} of the others are close to the smallest number of that type: they underflow."
    )


def _nothing(_: GradientFinding) -> str:
    return ""


Words = Callable[[GradientFinding], str]

# For each kind what was seen, and what to try.
WORDS: dict[str, tuple[Words, Words]] = {
    "nonfinite": (
        _nonfinite_sentence,
        lambda f: (
            "Look at the loss and the inputs of that step; torch.autograd.detect_anomaly() names the "
            "operation. In float16 use torch.amp.GradScaler, which skips such steps."
        ),
    ),
    "clipping always": (_always_sentence, _always_advice),
    "clipping never": (
        _never_sentence,
        lambda f: (
            "It protects from rare spikes only; with "
            f"max_norm={_number(f.values['high'])} it would act on 5 % of the steps."
        ),
    ),
    "clipping sometimes": (
        _sometimes_sentence,
        _sometimes_advice,
    ),
    "dead": (
        _dead_sentence,
        lambda f: (
            "Look for a detach(), an output that the loss does not use, or units that are never active (a "
            "ReLU whose inputs are all negative); freeze with requires_grad_(False) what should not train."
        ),
    ),
    "large": (
        _large_sentence,
        lambda f: (
            "One norm for all would shrink every other layer with it: give this layer a learning rate of its "
            "own in a parameter group, or limit it by itself, as an element-wise function such as gaf.Arctan "
            "does."
        ),
    ),
    "underflow": (
        _underflow_sentence,
        lambda f: (
            "Scale the loss (torch.amp.GradScaler), or keep weights and gradients in float32 with "
            "torch.autocast around the forward pass."
        ),
    ),
    "linear": (
        _linear_sentence,
        lambda f: "Compare with that before you credit f, or raise beta so that f bends.",
    ),
    "bent": (_bent_sentence, _nothing),
    "nothing to act on": (
        lambda f: f"{_f(f)}there is nothing to act on: all elements are 0, inf or NaN.",
        _nothing,
    ),
}
