"""What decides a run beside its config, and what it was made with.

The identity is the code and the data that the config names, as they are now. A built-in part (the engine, a
kind of task, a model, a rule, a function) counts by a version, which is kept beside it and raised when the
same config gives other numbers. What a user wrote counts by the bytes of its files, data by the checksums of
its sources. The commit does not count: most changes do not concern a run.

The environment is where and with which versions a run was made. Not who: no host name, no user name.
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import redirect_stdout
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from pydantic import JsonValue

import gaf
from gaf.functions import Adaptive, as_activation
from gaf.functions.registry import function_type
from gaf.lab.engine.config import Config, OptimizerConfig, RunConfig, read
from gaf.lab.engine.optimizers import import_rule
from gaf.lab.tasks.script import Script, ScriptOptions
from gaf.optim.factory import OURS

if TYPE_CHECKING:
    from gaf.lab.engine.distributed import Fabric
    from gaf.lab.tasks import Task


class RunIdentity(Config):
    """The code and the data of a run.

    Args:
        versions: of the built-in parts, such as ``{"engine": 1, "rule sgd": 1, "function arctan": 1}``.
        source: the sha256 of each file that the user wrote, by what is made from it and by its path; of a
            rule from an installed package that package's version.
        data: what the data to train and to score on say of themselves.
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
    from gaf.lab.tasks import load_task

    known: dict[str, tuple[int, dict]] = {}
    identities = []
    for config in configs:
        # a model changes nothing about the data
        key = config.task.model_dump_json(exclude={"model", "model_options", "label_smoothing"})
        if key not in known:
            # the command may print JSON, whatever a task of one's own prints
            with redirect_stdout(sys.stderr):
                task = load_task(config.task)
            known[key] = (task.version, _data(task))
        identities.append(_combined(config, *known[key]))
    return identities


def _combined(config: RunConfig, task_version: int, data: dict) -> RunIdentity:
    from gaf.lab.engine.loop import VERSION
    from gaf.lab.tasks import models

    task = config.task
    versions = {f"task {task.kind}": task_version}
    if not task.is_script:
        versions = {"engine": VERSION, **versions}
    if not task.own:
        versions[f"model {task.model}"] = models.version(task.model)
    versions |= _rule_versions(config.optimizer)
    # through JSON, as it will be read again
    return read({"versions": versions, "source": _source(config), "data": data}, RunIdentity)


def _rule_versions(rule: OptimizerConfig) -> dict[str, int]:
    f = as_activation(rule.activation)
    versions: dict[str, int] = {}
    if rule.ours and "name" not in rule.script:
        versions[f"rule {rule.name}"] = OURS[rule.name].version
    if isinstance(f, Adaptive):
        inner = function_type(f.function)
        versions |= {f"function {f.name}": f.version, f"function {f.function}": inner.version}
    elif f is not None:
        ours = (term for term in f.terms if _ours(type(term).__module__))
        versions |= {f"function {term.name}": term.version for term in ours}
    return versions


def _source(config: RunConfig) -> dict[str, dict[str, str]]:
    """The files of a task, a function and a rule that are not the package's own."""
    from gaf.lab.tasks.source import checksums, script_checksums

    task, f = config.task, as_activation(config.optimizer.activation)
    made = {task.kind: task.kind.partition(":")[0]} if task.own and not task.is_script else {}
    for term in () if f is None else f.terms:
        made[f"the function {term.name}"] = type(term).__module__
    source = {name: checksums(module) for name, module in made.items() if not _ours(module)}
    if task.is_script:
        path = ScriptOptions.of(task).path
        source[f"the script {path}"] = script_checksums(Path(path))
    rule = config.optimizer.name
    module = rule.partition(":")[0]
    if config.optimizer.imported:
        import_rule(rule)
        source[f"the rule {rule}"] = _installed(module.partition(".")[0]) or checksums(module)
    return source


@functools.cache
def _installed(package: str) -> dict[str, str]:
    """The versions of the distributions that have installed a package; empty for files that lie about."""
    return {
        name: metadata.version(name) for name in metadata.packages_distributions().get(package, ())
    }


def _ours(module: str) -> bool:
    return module.partition(".")[0] == gaf.__name__


def _data(task: Task) -> dict[str, dict]:
    if isinstance(task, Script):
        return {}  # which the script opens
    with redirect_stdout(sys.stderr):
        sources = {"train": task.training_part(), task.scored_on: task.scored_part()}
        return {split: dict(source.fingerprint) for split, source in sources.items()}


PACKAGES = ("torch", "lightning-fabric", "numpy", "pydantic", "pillow", "scikit-learn")


def facts(fabric: Fabric, data: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that is not in the config but may explain a difference."""
    device = fabric.device
    return {
        **facts_of_machine(data),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "processes": fabric.world_size,
    }


def facts_of_machine(data: Mapping[str, Any]) -> dict[str, Any]:
    """Those that do not depend on what a run computes with."""
    now = datetime.datetime.now(datetime.timezone.utc)
    return {
        "command": sys.argv,
        "versions": versions(),
        "system": platform.platform(),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "git": git_revision(Path.cwd()),
        "data": data,
        "time": {"began": now.isoformat(timespec="seconds")},
    }


@functools.cache
def versions() -> dict[str, str]:
    """Of Python, gaf and what trainings depend on."""
    installed = {"python": platform.python_version(), "gaf": gaf.__version__}
    for name in PACKAGES:
        try:
            installed[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return installed


@functools.cache
def cpu_model() -> str:
    """The name the processor gives itself."""
    info = Path("/proc/cpuinfo")
    named = re.search("model name.*: (.*)", info.read_text("utf-8")) if info.exists() else None
    return named[1] if named else platform.processor() or platform.machine()


def git_revision(folder: Path) -> str | None:
    """The commit of the project in a folder, with ``+`` where files have changed since; None without git."""
    try:
        commit = _git(folder, "rev-parse", "HEAD")
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{commit}+" if changed else commit


def _git(folder: Path, *args: str) -> str:
    done = subprocess.run(
        ["git", *args], cwd=folder, capture_output=True, text=True, check=True, timeout=10
    )
    return done.stdout.strip()
