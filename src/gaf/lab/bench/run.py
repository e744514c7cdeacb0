"""The whole benchmark: a plan in, a report out; interrupted, what there is so far."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console

import gaf
from gaf.lab.bench import machine
from gaf.lab.bench.contenders import (
    ALPHA,
    BETA,
    BYTES,
    FUNCTIONS,
    GRADIENTS,
    IMPLEMENTATIONS,
    Contender,
    Model,
    contenders,
    kind,
)
from gaf.lab.bench.memory import (
    Allocations,
    allocations,
    fits,
    free_memory,
    settle_allocator,
    working_space,
)
from gaf.lab.bench.shapes import BESIDE_OTHERS, COMPANY, SHAPES, flat
from gaf.lab.bench.targets import MemoryFacts, Target, judge, judge_memory, judged
from gaf.lab.bench.timing import stage, timed
from gaf.lab.bench.training import TrainingTimes, training_steps

MILLIONS = (
    1,
    2,
    5,
    10,
    25,
    50,
    100,
    200,
)  # parameters: from what fits in the caches to what does not
QUICK_MILLIONS = (1, 5, 25)


@dataclass(frozen=True)
class BenchPlan:
    """What to measure; ``budget`` is in seconds for one optimizer on one list of tensors."""

    shapes: tuple[str, ...]
    optimizers: tuple[str, ...] = ("SGD", "Adam", "AdamW", GRADIENTS)
    implementations: tuple[str, ...] = IMPLEMENTATIONS
    repeats: int = 21
    budget: float = 600.0
    memory_functions: tuple[str, ...] = FUNCTIONS
    growth: tuple[int, ...] = ()
    training: bool = False
    busy: bool = False


@dataclass
class Growth:
    """Seconds of fused SGD steps at a size, by contender; ``bytes`` is what one step moves."""

    millions: int
    seconds: dict[Contender, list[float]] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        return self.millions * 1_000_000 * BYTES["SGD"]


def growth_contenders() -> list[Contender]:
    """Those whose growth is shown: torch's fused step, ours with f on the momentum, and the limit."""
    ours = [Contender("SGD", "gaf", "fused", f, "momentum") for f in FUNCTIONS]
    return [Contender("SGD", "torch", "fused"), *ours, Contender("SGD", kind())]


@dataclass
class Report:
    """What was measured, under the names of the shapes."""

    plan: BenchPlan
    about: dict[str, Any] = field(default_factory=machine.facts)
    times: dict[str, dict[Contender, list[float]]] = field(default_factory=dict)
    others: dict[tuple[str, str], float | None] = field(default_factory=dict)
    memory: dict[Contender, Allocations] = field(default_factory=dict)
    memory_facts: MemoryFacts | None = None
    growth: list[Growth] = field(default_factory=list)
    training: TrainingTimes | None = None
    complete: bool = False

    def targets(self) -> list[Target]:
        """Every target, measured or not."""
        return [*judge(self.times, self.others), *judge_memory(self.memory, self.memory_facts)]


def run(plan: BenchPlan, console: Console) -> Report:
    """Measure; Ctrl-C ends it early and leaves ``complete`` False."""
    report = Report(plan)
    settle_allocator()
    try:
        for name in plan.shapes:
            _shapes(report, console, name)
        if plan.busy:
            _busy(report, console)
        for millions in plan.growth:
            _growth(report, console, millions)
        if plan.training:
            _training(report, console)
        report.complete = True
    except KeyboardInterrupt:
        console.print("interrupted; this is what there is so far", highlight=False)
    return report


def _shapes(report: Report, console: Console, name: str) -> None:
    """Time every contender of every optimizer on one list of tensors, then look at the memory it takes."""
    plan, times = report.plan, report.times.setdefault(name, {})
    model = Model(SHAPES[name])
    for optimizer in plan.optimizers:
        steps = contenders(optimizer, model, plan.implementations)
        seconds: dict[Contender, list[float]] = {}
        title = f"{SHAPES[name].title}, {optimizer}, {len(steps)} rules"
        pairs = judged(name, steps)
        limits = {"repeats": plan.repeats, "budget": plan.budget}
        try:
            with _watching(report, name, optimizer):
                timed(console, title, steps, seconds, judged=pairs, **limits)
        finally:
            times.update(seconds)
        if optimizer == GRADIENTS:
            continue
        if report.memory_facts is None or report.memory_facts.shapes == name:
            _memory(report, console, model, optimizer)
        model.forget(optimizer)


def _busy(report: Report, console: Console) -> None:
    """The fused steps of SGD and Adam again, beside other processes that compute all the time."""
    plan, times = report.plan, report.times.setdefault(BESIDE_OTHERS.name, {})
    model = Model(BESIDE_OTHERS)
    for optimizer in ("SGD", "Adam"):
        steps = contenders(optimizer, model, ("fused",))
        pairs = judged(BESIDE_OTHERS.name, steps)
        steps = {contender: steps[contender] for contender in dict.fromkeys(sum(pairs, ()))}
        seconds: dict[Contender, list[float]] = {}
        try:
            with machine.company(COMPANY):
                title = f"{BESIDE_OTHERS.title}, {optimizer}, {len(steps)} rules"
                limits = {"repeats": plan.repeats, "budget": plan.budget}
                timed(console, title, steps, seconds, judged=pairs, **limits)
        finally:
            times.update(seconds)
        model.forget(optimizer)


def _memory(report: Report, console: Console, model: Model, optimizer: str) -> None:
    """Peak extra memory of the fused and foreach steps: the first list of tensors is enough."""
    if report.memory_facts is None:
        sizes = [4 * p.numel() for p in model.params]
        largest = max(model.params, key=lambda p: p.numel())
        fs = {f: gaf.parse(f"{f}({ALPHA}, {BETA})") for f in FUNCTIONS}
        working = {f: working_space(fs[f], largest) for f in fs}
        report.memory_facts = MemoryFacts(model.shapes.name, sum(sizes), min(sizes), working)
    functions = report.plan.memory_functions
    steps = {
        contender: step
        for contender, step in contenders(optimizer, model, ("foreach", "fused")).items()
        if contender.who == "torch"
        or (
            contender.who == "gaf"
            and contender.function in FUNCTIONS
            and (contender.implementation == "fused" or contender.function in functions)
        )
    }
    with stage(console, f"{model.shapes.title}, {optimizer}, memory", len(steps)) as tick:
        for contender, step in steps.items():
            report.memory[contender] = allocations(step)
            tick()


def _growth(report: Report, console: Console, millions: int) -> None:
    title = f"Growth, {millions} M parameters"
    if not fits(flat(millions), free_memory()):
        console.print(f"{title}: left out, too little free memory")
        return
    growth, repeats = Growth(millions), max(3, report.plan.repeats // 2)
    report.growth.append(growth)
    steps = contenders("SGD", Model(flat(millions)), ("fused",))
    shown = {contender: steps[contender] for contender in growth_contenders() if contender in steps}
    with _watching(report, f"growth {millions}", "SGD"):
        timed(console, title, shown, growth.seconds, repeats=repeats, budget=report.plan.budget)


def _training(report: Report, console: Console) -> None:
    """All contenders train the same model in turn."""
    times = report.training = TrainingTimes()
    limits: dict[str, Any] = {"budget": report.plan.budget, "shortest": 0.0}
    parts: dict[Contender, list[float]] = {}
    steps = training_steps(parts)
    try:
        with _watching(report, "training", "SGD"):
            title, repeats = "Training of a ResNet-20", report.plan.repeats
            timed(console, title, steps, times.whole, repeats=repeats, **limits)
    finally:
        for contender, seconds in times.whole.items():
            times.part[contender] = parts[contender][
                2 : 2 + len(seconds)
            ]  # after two steps of warm-up


@contextmanager
def _watching(report: Report, name: str, optimizer: str) -> Iterator[None]:
    """Note what others took of the processors meanwhile."""
    others = machine.Others()
    try:
        yield
    finally:
        report.others[name, optimizer] = others.share()
