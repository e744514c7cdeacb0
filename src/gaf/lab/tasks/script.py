"""A training script of the user's own: which file, with which arguments, started how.

It keeps its loop, data and devices. What it is asked for and what it reports goes through :func:`gaf.trial`.
"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from gaf.common.errors import GafError
from gaf.lab.tasks.base import Config, Task, TaskConfig

TORCHRUN = ("torchrun", "torch.distributed.run")
# of torchrun: where its processes meet, which no two launches may share
MEETING = ("--rdzv", "--master", "--node", "--standalone")


class ScriptOptions(Config):
    """``task.options`` of a script.

    Args:
        path: of the script, from the folder in which the command is called.
        arguments: of the script.
        launch: what starts it, such as ``torchrun --nproc-per-node 2``; empty: Python.
    """

    path: Annotated[str, Field(min_length=1)]
    arguments: tuple[str, ...] = ()
    launch: str = ""

    @classmethod
    def of(cls, config: TaskConfig) -> ScriptOptions:
        """The options of a task; GafError says in one sentence what is wrong."""
        try:
            return cls.model_validate_json(json.dumps(config.options))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = ".".join(map(str, first["loc"]))
            raise GafError(f"task.options.{key} of a script: {first['msg']}") from None

    @property
    def call(self) -> str:
        """The script as one types it.

        Example:
            >>> ScriptOptions(path="train.py", arguments=("--epochs", "10")).call
            'train.py --epochs 10'
        """
        return shlex.join([*shlex.split(self.launch), self.path, *self.arguments])


class Script(Task):
    """A task that a process of its own trains; the engine builds no model of it."""

    version = 1  # raised when the same trial.json asks a script for something else

    def __init__(self, config: TaskConfig) -> None:
        self.options = ScriptOptions.of(config)
        if not Path(self.options.path).is_file():
            raise GafError(f"there is no script {self.options.path} in {Path.cwd()}")
        self.command()  # what cannot be started is refused here

    def command(self) -> list[str]:
        """What starts the script; each launch of torchrun finds a port of its own."""
        script = [self.options.path, *self.options.arguments]
        try:
            words = shlex.split(self.options.launch)
        except ValueError as error:
            raise GafError(f"cannot read the launch {self.options.launch!r}: {error}") from None
        if not words:
            return [sys.executable, *script]
        torchrun = next((place for place, word in enumerate(words) if word in TORCHRUN), None)
        if torchrun is None:
            return [_found(words[0]), *words[1:], *script]
        options = words[torchrun + 1 :]
        for option in options:
            if option.replace("_", "-").startswith(MEETING):
                raise GafError(
                    f"leave {option} out of the launch: each run has a port of its own, on this machine"
                )
        module = [sys.executable, "-m", "torch.distributed.run"]
        return [*module, "--standalone", *options, *script]


def _found(name: str) -> str:
    """A program of the path, or beside this Python."""
    program = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if program is None:
        raise GafError(f"there is no program {name!r} to launch the script with")
    return program
