"""What decides a run beside its config: the code and the data that the config names, as they are now.

A built-in part (the engine, a kind of task, a model, a rule, a function) counts by a version, which is kept
beside it and raised when the same config gives other numbers. What a user wrote counts by the bytes of its
files, data by the checksums of its sources. The commit does not count: most changes do not concern a run.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

from pydantic import JsonValue

import gaf
from gaf.functions import as_activation
from gaf.functions.registry import function_type
from gaf.lab.engine.config import Config, OptimizerConfig, RunConfig, TaskConfig, read

if TYPE_CHECKING:
    from gaf.lab.tasks import Task


class RunIdentity(Config):
    """The code and the data of a run.

    Args:
        versions: of the built-in parts, such as ``{"engine": 1, "rule sgd": 1, "function arctan": 1}``.
        source: the sha256 of each file that the user wrote, by what is made from it and by its path.
        data: what the data to train and to test on say of themselves.
    """

    versions: dict[str, int]
    source: dict[str, dict[str, str]]
    data: dict[str, dict[str, JsonValue]]

    def difference(self, later: RunIdentity, shared: bool = False) -> str:
        """What has changed from this one to a later one, in a few words; '' where nothing has.

        Args:
            later: the other one.
            shared: whether to look only at the parts that both have, as runs of several rules do.
        """
        for part, old, new in _pairs(self.versions, later.versions, shared):
            if old != new:
                return f"the {part} has changed (version {old}, now {new})"
        for part, old, new in _pairs(self.source, later.source, shared):
            files = {**(old or {}), **(new or {})}
            changed = [file for file in files if (old or {}).get(file) != (new or {}).get(file)]
            if changed:
                return f"the source of {part} has changed ({changed[0]})"
        return "" if self.data == later.data else "the data has changed"

    def digest(self, config: RunConfig, without: Iterable[str]) -> str:
        """Sixteen letters for the config with its code and data; ``without`` are keys that do not count."""
        content = [
            config.model_dump(mode="json", exclude=set(without)),
            self.model_dump(mode="json"),
        ]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _pairs(old: dict, new: dict, shared: bool) -> list[tuple]:
    keys = [key for key in {**old, **new} if not shared or (key in old and key in new)]
    return [(key, old.get(key), new.get(key)) for key in keys]


def identify(config: RunConfig, task: Task) -> RunIdentity:
    """The identity of a config whose task has been made."""
    return _combined(config, task.version, _data(task))


def identify_all(configs: Iterable[RunConfig]) -> list[RunIdentity]:
    """Those of many configs; data that several of them share is read once.

    Raises:
        GafError: a task cannot be made, or its data is not there.
    """
    known: dict[str, tuple[int, dict]] = {}
    found = []
    for config in configs:
        # a model changes nothing about the data
        key = config.task.model_dump_json(exclude={"model", "model_options", "label_smoothing"})
        if key not in known:
            task = _made(config.task)
            known[key] = (task.version, _data(task))
        found.append(_combined(config, *known[key]))
    return found


def _combined(config: RunConfig, task_version: int, data: dict) -> RunIdentity:
    from gaf.lab.engine.loop import VERSION
    from gaf.lab.tasks import models

    task = config.task
    versions = {"engine": VERSION, f"task {task.kind}": task_version}
    if not task.own:
        versions[f"model {task.model}"] = models.version(task.model)
    versions |= _rule_versions(config.optimizer)
    # through JSON, as it will be read again
    return read({"versions": versions, "source": _source(config), "data": data}, RunIdentity)


def _rule_versions(rule: OptimizerConfig) -> dict[str, int]:
    from gaf.lab.engine.optimizers import RULES

    f = as_activation(rule.activation)
    found = {f"rule {rule.name}": RULES[rule.name].version}
    if isinstance(f, gaf.Auto):
        found |= {"function auto": f.version, f"function {f.function}": _version(f.function)}
    elif f is not None and _ours(type(f).__module__):
        found[f"function {f.name}"] = f.version
    return found


def _version(function: str) -> int:
    return function_type(function).version


def _source(config: RunConfig) -> dict[str, dict[str, str]]:
    """The files of a task and of a function that are not the package's own."""
    from gaf.lab.tasks.source import checksums

    task, f = config.task, as_activation(config.optimizer.activation)
    made = {task.kind: task.kind.partition(":")[0]} if task.own else {}
    if f is not None:
        made[f"the function {f.name}"] = type(f).__module__
    return {name: checksums(module) for name, module in made.items() if not _ours(module)}


def _ours(module: str) -> bool:
    return module.partition(".")[0] == gaf.__name__


def _made(config: TaskConfig) -> Task:
    from gaf.lab.tasks import load_task

    # the command may print JSON, whatever a task of one's own prints
    with redirect_stdout(sys.stderr):
        return load_task(config)


def _data(task: Task) -> dict[str, dict]:
    with redirect_stdout(sys.stderr):
        sources = {"train": task.train_source(), "test": task.test_source()}
        return {split: dict(source.fingerprint) for split, source in sources.items()}
