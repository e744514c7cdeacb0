"""What must hold, as data, and whether it does: measured, limit, verdict."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gaf.lab.bench.contenders import AUTO, FUNCTIONS, GRADIENTS, Contender, base_of
from gaf.lab.bench.memory import Allocations
from gaf.lab.bench.shapes import BESIDE_OTHERS
from gaf.lab.bench.timing import PRECISION, Spread, ratio

REACHED, NOT_REACHED, NOT_MEASURED = "reached", "not reached", "not measured"
NOISY = "too noisy"  # the interval holds the limit and is wider than what is asked for
BUSY = "undecided"  # others used the machine: a step of many barriers waits for them more than one of few
QUIET = 0.05  # share of the processors that others may take

Times = Mapping[str, Mapping[Contender, Sequence[float]]]  # by the name of the shapes
Memory = Mapping[Contender, Allocations]
Others = Mapping[tuple[str, str], float | None]  # by the name of the shapes and the optimizer


@dataclass(frozen=True)
class Claim:
    """Our fused steps take at most ``limit`` times as long as ``base`` on these shapes."""

    title: str
    shapes: str
    base: Contender
    limit: float
    aim: float | None = None
    functions: tuple[str, ...] = FUNCTIONS
    placements: tuple[str, ...] | None = None  # None: all


@dataclass(frozen=True)
class Target:
    """A claim next to what was measured."""

    title: str
    limit: str
    measured: str
    detail: str
    verdict: str
    ratio: Spread | None = None


def _authors(function: str, limit: float) -> Claim:
    base = Contender("SGD", "authors", None, function)
    return Claim(
        f"fused GAF-SGDM / the authors' formulation, {function}",
        "resnet50",
        base,
        limit,
        functions=(function,),
        placements=("momentum",),  # what the authors' formulation computes
    )


TORCH = {name: base_of(name) for name in ("SGD", "Adam", "AdamW")}
CLAIMS = (
    Claim("fused GAF-SGDM / torch fused SGD, ResNet-50", "resnet50", TORCH["SGD"], 1.03, 1.00),
    Claim("fused GAF-Adam / torch fused Adam, ResNet-50", "resnet50", TORCH["Adam"], 1.03, 1.00),
    Claim("fused GAF-AdamW / torch fused AdamW, ResNet-50", "resnet50", TORCH["AdamW"], 1.03, 1.00),
    Claim(
        "fused GAF-SGDM with Auto / torch fused SGD, ResNet-50",
        "resnet50",
        TORCH["SGD"],
        1.12,
        functions=(AUTO,),
    ),
    Claim("fused GAF-SGDM / torch fused SGD, tiny tensors", "tiny", TORCH["SGD"], 0.95),
    Claim("fused GAF-Adam / torch fused Adam, tiny tensors", "tiny", TORCH["Adam"], 0.95),
    Claim("fused GAF-SGDM / torch fused SGD, busy machine", BESIDE_OTHERS.name, TORCH["SGD"], 0.50),
    Claim(
        "fused GAF-Adam / torch fused Adam, busy machine", BESIDE_OTHERS.name, TORCH["Adam"], 0.50
    ),
    Claim("activate_grad_ / clip_grad_norm_", "resnet50", base_of(GRADIENTS), 0.60),
    Claim(
        "fused GAF-SGDM / (clip_grad_norm_ + torch fused SGD)",
        "resnet50",
        Contender("SGD", "clip_grad_norm_", "fused"),
        0.55,
    ),
    _authors("arctan", 0.35),
    _authors("log", 0.25),
    Claim("fused GAF-SGDM / bandwidth limit", "resnet50", Contender("SGD", "limit"), 1.25, 1.10),
    Claim("fused GAF-Adam / bandwidth limit", "resnet50", Contender("Adam", "limit"), 1.25, 1.10),
)


def verdict(reached: bool, others: float | None) -> str:
    """Whether a limit is reached, and whether others used the machine meanwhile."""
    text = REACHED if reached else NOT_REACHED
    busy = others is not None and others > QUIET
    return f"{text} (others took {others:.0%} of the processors)" if busy else text


def outcome(over: Spread, limit: float) -> str:
    """By the interval where it is on one side of the limit, by the median where it is narrow."""
    if over.low is None or over.high is None:
        return NOISY
    if over.low <= limit < over.high and over.precision > PRECISION:
        return NOISY
    return REACHED if over.median <= limit else NOT_REACHED


def judge(times: Times, others: Others) -> Iterator[Target]:
    """Each claim about time, by its worst function and placement; none where others use the machine."""
    for claim in CLAIMS:
        limit = f"{claim.limit:.2f}" + (f", aim {claim.aim:.2f}" if claim.aim else "")
        here = times.get(claim.shapes, {})
        ratios = {mine: ratio(here[mine], here[claim.base]) for mine in _judged(here, claim)}
        if not ratios:
            lacks = claim.base.who == "limit" and claim.shapes in times
            detail = "the native pass that measures the limit is missing" if lacks else ""
            yield Target(claim.title, limit, "", detail, NOT_MEASURED)
            continue
        worst = max(ratios, key=lambda contender: ratios[contender].median)
        outcomes = [outcome(over, claim.limit) for over in ratios.values()]
        detail = " ".join(filter(None, (worst.function, worst.placement)))
        if len(ratios) > 1:
            within = outcomes.count(REACHED)
            detail = f"worst of {len(ratios)}: {detail}; {within} within the limit"
        by_rank = (NOT_REACHED, NOISY, REACHED)
        decided = next(one for one in by_rank if one in outcomes)
        taken = others.get((claim.shapes, claim.base.optimizer))
        if taken is not None and taken > QUIET:
            decided = BUSY
            detail = f"others took {taken:.0%} of the processors; {detail}"
        over = ratios[worst]
        yield Target(claim.title, limit, over.estimate(".2f"), detail, decided, over)


def judged(shapes: str, contenders: Collection[Contender]) -> list[tuple[Contender, Contender]]:
    """The ratios that claims about these tensors are judged by: ours, and what it is compared with."""
    return [
        (mine, claim.base)
        for claim in CLAIMS
        if claim.shapes == shapes
        for mine in _judged(contenders, claim)
    ]


def _judged(contenders: Collection[Contender], claim: Claim) -> list[Contender]:
    if claim.base not in contenders:
        return []
    return [
        contender
        for contender in contenders
        if (contender.optimizer, contender.who) == (claim.base.optimizer, "gaf")
        and contender.implementation == "fused"
        and contender.function in claim.functions
        and (claim.placements is None or contender.placement in claim.placements)
    ]


@dataclass(frozen=True)
class MemoryFacts:
    """What memory is measured by: bytes of all parameters, of the smallest tensor, and f's own space."""

    shapes: str
    all_parameters: int
    smallest: int
    working: Mapping[str, int]  # by function: on the largest tensor, besides the result


def judge_memory(memory: Memory, facts: MemoryFacts | None) -> Iterator[Target]:
    """Extra memory beyond optimizer state: fused nothing the size of a tensor, foreach one list."""
    for optimizer in ("SGD", "Adam"):
        for how, title, limit, target in (
            ("fused", "extra memory of a fused GAF-{} step", "no tensor", _fused),
            ("foreach", "extra memory of a foreach GAF-{} step, fp32", "1 list", _foreach),
        ):
            chosen = (optimizer, "gaf", how)
            ours = {
                contender: allocated
                for contender, allocated in memory.items()
                if (contender.optimizer, contender.who, contender.implementation) == chosen
            }
            if facts is None or not ours:
                yield Target(title.format(optimizer), limit, "", "", NOT_MEASURED)
            else:
                torch_own = memory.get(Contender(optimizer, "torch", how))
                yield target(title.format(optimizer), ours, torch_own, facts)


def _fused(title: str, ours: Memory, _: Allocations | None, facts: MemoryFacts) -> Target:
    largest = max(allocated.largest for allocated in ours.values())
    detail = f"largest allocation; the smallest tensor has {facts.smallest:,} bytes"
    outcome = REACHED if largest < facts.smallest else NOT_REACHED
    return Target(title, "no tensor", f"{largest:,} bytes", detail, outcome)


def _foreach(title: str, ours: Memory, torch_own: Allocations | None, facts: MemoryFacts) -> Target:
    lists = {
        contender: allocated.peak / facts.all_parameters for contender, allocated in ours.items()
    }
    # One list, the space f works in on one tensor, and room for single numbers.
    most = {f: 1.005 + space / facts.all_parameters for f, space in facts.working.items()}
    bad = [contender for contender in lists if lists[contender] > most[str(contender.function)]]
    worst = max(bad or lists, key=lambda contender: lists[contender])
    detail = f"worst of {len(lists)}: {worst.function} {worst.placement}"
    detail += f"; {len(lists) - len(bad)} within the limit"
    if torch_own is not None:
        detail += f"; torch's own: {torch_own.peak / facts.all_parameters:.2f}"
    limit = f"1 list (and f's space: {most[str(worst.function)]:.2f})"
    outcome = NOT_REACHED if bad else REACHED
    return Target(title, limit, f"{lists[worst]:.2f} lists", detail, outcome)
