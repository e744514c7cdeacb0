"""What is trained: a task brings a model, data, a loss and a score. The engine knows no more of it.

:func:`load_task` makes the task of a config.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path

from gaf.common.errors import GafError
from gaf.common.texts import did_you_mean
from gaf.lab.tasks.base import Task, TaskConfig

__all__ = ["Task", "load_task"]

# Modules and classes by kind. They are imported when a task is made: their data need more packages than a
# config does.
BUILT_IN = {
    "classification": ("gaf.lab.tasks.classification", "Classification"),
    "detection": ("gaf.lab.tasks.detection", "Detection"),
    "language": ("gaf.lab.tasks.language", "Language"),
    "policy-gradient": ("gaf.lab.tasks.policy", "PolicyGradient"),
}


def built_in(kind: str) -> type[Task]:
    """The class of a built-in task."""
    module, name = BUILT_IN[kind]
    return getattr(importlib.import_module(module), name)


def load_task(config: TaskConfig) -> Task:
    """The built-in task of ``config.kind``, the script, or what the user's function makes of ``options``."""
    if not config.own:
        if config.kind not in BUILT_IN:
            hint = did_you_mean(config.kind, BUILT_IN)
            raise GafError(
                f"unknown kind of task {config.kind!r}{hint} (a task of your own: 'my_module:make_task')"
            )
        task = built_in(config.kind)(config)  # type: ignore[call-arg]
        task.use_validation(config)
        return task
    if config.is_script:
        from gaf.lab.tasks.script import Script

        return Script(config)
    make = import_maker(config.kind)
    try:
        inspect.signature(make).bind(**config.options)
    except TypeError as error:
        raise GafError(f"{config.kind} and task.options do not fit: {error}") from None
    task = make(**config.options)
    if not isinstance(task, Task):
        raise GafError(f"{config.kind} gave {type(task).__name__}, not a gaf.lab.tasks.Task")
    task.use_validation(config)
    return task


def look_here() -> None:
    """Let modules of the current folder be found, as the interpreter finds them for a script there."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)


def import_maker(kind: str) -> Callable[..., object]:
    """The function or class that ``my_module:make_task`` names; modules of the current folder are found.

    It is called with options that a config holds, so what was not written to make a task is refused.
    """
    module_name, _, name = kind.partition(":")
    look_here()
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # whatever a module of the user's may raise
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise GafError(f"the task {kind} cannot be imported: {reason}") from error
    make = getattr(module, name, None)
    if not callable(make):
        public = [
            other for other in vars(module) if callable(getattr(module, other)) and other[0] != "_"
        ]
        raise GafError(f"{module_name} has no function {name!r}{did_you_mean(name, public)}")
    # whether the module that defines it holds a class of tasks: that of os.system does not
    home = sys.modules.get(getattr(make, "__module__", None) or "")
    classes = [value for value in vars(home).values() if isinstance(value, type)] if home else []
    if not any(Task in kind.__mro__ for kind in classes):
        raise GafError(
            f"{kind} is not a task: the module that defines it must have imported the class "
            "gaf.lab.tasks.Task, or one derived from it"
        )
    return make
