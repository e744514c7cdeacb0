"""The whole benchmark: a plan in, a report out; interrupted, what there is so far."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console

import gaf
from gaf.lab.bench import growth, machine, training
from gaf.lab.bench.contenders import (
    ALPHA,
    BETA,
    FUNCTIONS,
    IMPLEMENTATIONS,
    Model,
    Rule,
    contenders,
)
from gaf.lab.bench.memory import (
    Allocations,
    allocations,
    fits,
    free_memory,
    settle_allocator,
    working_space,
)
from gaf.lab.bench.progress import stage
from gaf.lab.bench.shapes import SHAPES, flat
from gaf.lab.bench.targets import MemoryFacts, Target, judge, judge_memory
from gaf.lab.bench.timing import collect


@dataclass(frozen=True)
class BenchPlan:
    """What to measure; ``budget`` is in seconds for one optimizer on one list of tensors."""

    shapes: tuple[str, ...]
    optimizers: tuple[str, ...] = ("SGD", "Adam", "AdamW")
    implementations: tuple[str, ...] = IMPLEMENTATIONS
    repeats: int = 21
    budget: float = 600.0
    memory_functions: tuple[str, ...] = FUNCTIONS
    growth: tuple[int, ...] = ()
    training: bool = False


@dataclass
class Report:
    """What was measured, under the names of the shapes."""

    plan: BenchPlan
    about: dict[str, Any] = field(default_factory=machine.facts)
    times: dict[str, dict[Rule, list[float]]] = field(default_factory=dict)
    others: dict[tuple[str, str], float | None] = field(default_factory=dict)
    memory: dict[Rule, Allocations] = field(default_factory=dict)
    memory_facts: MemoryFacts | None = None
    growth: list[growth.Growth] = field(default_factory=list)
    training: training.TrainingTimes | None = None
    complete: bool = False

    def targets(self) -> list[Target]:
        """Every target, measured or not."""
        return [*judge(self.times, self.others), *judge_memory(self.memory, self.memory_facts)]


def run(plan: BenchPlan, console: Console) -> Report:
    """Measure; Ctrl-C ends it early and leaves ``complete`` False."""
    report = Report(plan)
    settle_allocator()
    try:
        for part in _parts(plan):
            part(report, console)
        report.complete = True
    except KeyboardInterrupt:
        console.print("interrupted; this is what there is so far", highlight=False)
    return report


def _parts(plan: BenchPlan) -> Iterator[Any]:
    for name in plan.shapes:
        yield lambda report, console, name=name: _shapes(report, console, name)
    for millions in plan.growth:
        yield lambda report, console, millions=millions: _growth(report, console, millions)
    if plan.training:
        yield _training


def _shapes(report: Report, console: Console, name: str) -> None:
    """Time every rule of every optimizer on one list of tensors, then look at the memory it takes."""
    plan, times = report.plan, report.times.setdefault(name, {})
    model = Model(SHAPES[name])
    for optimizer in plan.optimizers:
        steps = contenders(optimizer, model, plan.implementations)
        found: dict[Rule, list[float]] = {}
        title = f"{SHAPES[name].title}, {optimizer}, {len(steps)} rules"
        with _watching(report, name, optimizer), stage(console, title, plan.repeats) as tick:
            try:
                collect(steps, found, repeats=plan.repeats, budget=plan.budget, tick=tick)
            finally:
                times.update(found)
        if report.memory_facts is None or report.memory_facts.shapes == name:
            _memory(report, console, model, optimizer)
        model.forget(optimizer)


def _memory(report: Report, console: Console, model: Model, optimizer: str) -> None:
    """Peak extra memory of the fused and foreach steps: the first list of tensors is enough."""
    if report.memory_facts is None:
        sizes = [4 * p.numel() for p in model.params]
        largest = max(model.params, key=lambda p: p.numel())
        fs = {f: gaf.parse(f"{f}({ALPHA}, {BETA})") for f in FUNCTIONS}
        working = {f: working_space(fs[f], largest) for f in fs}
        report.memory_facts = MemoryFacts(model.shapes.name, sum(sizes), min(sizes), working)
    steps = {
        rule: step
        for rule, step in contenders(optimizer, model, ("foreach", "fused")).items()
        if rule.who == "torch" or (rule.who == "gaf" and _wanted(rule, report.plan))
    }
    with stage(console, f"{model.shapes.title}, {optimizer}, memory", len(steps)) as tick:
        for rule, step in steps.items():
            report.memory[rule] = allocations(step)
            tick()


def _wanted(rule: Rule, plan: BenchPlan) -> bool:
    return rule.implementation == "fused" or rule.function in plan.memory_functions


def _growth(report: Report, console: Console, millions: int) -> None:
    if not fits(flat(millions), free_memory()):
        console.print(f"Growth, {millions} M parameters: left out, too little free memory")
        return
    found = growth.Growth(millions)
    report.growth.append(found)
    repeats = max(3, report.plan.repeats // 2)
    with (
        _watching(report, f"growth {millions}", "SGD"),
        stage(console, f"Growth, {millions} M parameters", repeats) as tick,
    ):
        growth.measure(found, repeats=repeats, budget=report.plan.budget, tick=tick)


def _training(report: Report, console: Console) -> None:
    report.training = training.TrainingTimes()
    repeats, budget = report.plan.repeats, report.plan.budget
    with (
        _watching(report, "training", "SGD"),
        stage(console, "Training of a ResNet-20", repeats) as tick,
    ):
        training.measure(report.training, repeats=repeats, budget=budget, tick=tick)


@contextmanager
def _watching(report: Report, name: str, optimizer: str) -> Iterator[None]:
    """Note what others took of the processors meanwhile."""
    others = machine.Others()
    try:
        yield
    finally:
        report.others[name, optimizer] = others.share()
