"""The plan of an atlas as data: problems, rules, rates and seeds, from one JSON file.

A problem is a training with its reason; a rule is a setting of :mod:`gaf.lab.study.settings`. To add one,
add an entry to ``suite.json`` or to a copy of it, which ``gaf atlas`` takes by its path. A suite names what
is imported (``module:function`` of a task, ``module:Class`` of a rule): run those of people you trust.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field, JsonValue, model_validator

from gaf.common.errors import GafError
from gaf.common.texts import did_you_mean
from gaf.lab.engine import config as configs
from gaf.lab.engine.config import Config, Count, RunConfig, override
from gaf.lab.study.plan import AT_END, Plan, TuningPlan
from gaf.lab.tasks import look_here
from gaf.optim.factory import CLASS

BUILT_IN = "suite.json"  # in this package

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,60}$")]  # it names files


class AtlasProblem(Config):
    """A training, and why f should help there or not.

    Args:
        name: of its study and of its records.
        title: what it is, in a few words.
        why: what is expected of a bounded step, and the reason.
        sources: of the reason.
        config: of the baseline, as a run's config has it.
        rules: the group of rules that are tried on it.
        seeds: of the table.
        tuning_seeds: on which each learning rate is tried.
        rates: how many learning rates each rule is tried at; unset: as many as the suite says.
        quick: changes that make a training of a second or two, as ``--set`` takes them.
    """

    name: Name
    title: str
    why: str
    sources: tuple[str, ...]
    config: dict[str, JsonValue]
    rules: str
    seeds: Count
    tuning_seeds: Count
    rates: Count | None = None
    quick: tuple[str, ...] = ()

    @property
    def base(self) -> RunConfig:
        """The config of the baseline; a training of seconds needs a checkpoint at its end."""
        short = {"name": self.name, "threads": 1, "checkpoint_every": AT_END, "monitor_every": 0}
        return configs.read({**short, **self.config})


class QuickSuite(Config):
    """What ``--quick`` takes of a suite: some problems and rules, and fewer rates and seeds."""

    problems: tuple[str, ...]
    rules: tuple[str, ...]
    rates: Count
    seeds: Count
    tuning_seeds: Count


class Suite(Config):
    """Problems and groups of rules; ``rates`` learning rates for each rule on each problem."""

    noun: ClassVar[str] = "suite"

    title: str
    rates: Count
    rules: dict[str, tuple[str, ...]]
    problems: Annotated[tuple[AtlasProblem, ...], Field(min_length=1)]
    quick: QuickSuite

    @model_validator(mode="after")
    def _whole(self) -> Suite:
        names = [problem.name for problem in self.problems]
        if len({*names}) < len(names):
            raise GafError("a suite has two problems of one name")
        for problem in self.problems:
            if problem.rules not in self.rules:
                hint = did_you_mean(problem.rules, self.rules)
                raise GafError(
                    f"{problem.name} has an unknown group of rules {problem.rules!r}{hint}"
                )
        for name in self.quick.problems:
            self.problem(name)
        return self

    def problem(self, name: str) -> AtlasProblem:
        """The problem of a name."""
        for problem in self.problems:
            if problem.name == name:
                return problem
        hint = did_you_mean(name, [problem.name for problem in self.problems])
        raise GafError(f"the suite has no problem {name!r}{hint}")

    def plan(self, problem: AtlasProblem, rules: Sequence[str] = ()) -> Plan:
        """The comparison of a problem, with all of its rules whose packages are here, or with some."""
        wanted = self.rules[problem.rules]
        unknown = [rule for rule in rules if rule not in self.all_rules]
        if unknown:
            raise GafError(
                f"the suite has no rule {unknown[0]!r}{did_you_mean(unknown[0], self.all_rules)}"
            )
        settings = [rule for rule in wanted if (not rules or rule in rules) and is_here(rule)]
        return Plan(
            problem.base,
            tuple(settings),
            tuple(range(problem.seeds)),
            TuningPlan(rates=problem.rates or self.rates, seeds=problem.tuning_seeds),
        )

    @property
    def all_rules(self) -> tuple[str, ...]:
        """Of all groups, each once, in order."""
        return tuple(dict.fromkeys(rule for group in self.rules.values() for rule in group))

    def absent(self, problems: Iterable[AtlasProblem]) -> list[str]:
        """Rules of these problems whose packages are not installed."""
        wanted = dict.fromkeys(rule for one in problems for rule in self.rules[one.rules])
        return [rule for rule in wanted if not is_here(rule)]

    def quickly(self) -> Suite:
        """The few problems, rules, rates and seeds of ``--quick``."""
        quick = self.quick
        group = "quick"
        problems = [
            self.problem(name).model_copy(
                update={
                    "rules": group,
                    "seeds": quick.seeds,
                    "tuning_seeds": quick.tuning_seeds,
                    "rates": None,
                    "config": _changed(self.problem(name)),
                }
            )
            for name in quick.problems
        ]
        return self.model_copy(
            update={
                "problems": tuple(problems),
                "rates": quick.rates,
                "rules": {group: quick.rules},
            }
        )


def _changed(problem: AtlasProblem) -> dict[str, Any]:
    return override(problem.base, problem.quick).model_dump(mode="json")


def is_here(rule: str) -> bool:
    """Whether the package of a rule such as ``prodigyopt:Prodigy`` can be imported; of others it can.

    Example:
        >>> is_here("adamw + clip-norm-1"), is_here("no_such_package:Rule + untuned")
        (True, False)
    """
    look_here()
    for part in rule.split("+"):
        named = part.strip().partition("(")[0]
        module = named.partition(":")[0].partition(".")[0]
        if CLASS.fullmatch(named) and importlib.util.find_spec(module) is None:
            return False
    return True


def read_suite(path: Path | None = None) -> Suite:
    """The suite in a file, unset the built-in one; GafError says in one sentence what is wrong."""
    if path is not None:
        return configs.read_file(path, Suite)
    return configs.read((files("gaf.lab.study.atlas") / BUILT_IN).read_text("utf-8"), Suite)
