"""Run a training script of the user's own for some steps, with a monitor on every optimizer that steps.

``python -m gaf.trials.watch train.py ARGUMENTS``: the script is not changed and does not know. Optimizers
are found when they first step, by torch's hook for all of them, clipping by its name in ``torch.nn.utils``.
``watch.json`` in the folder that ``GAF_TRIAL`` names says for how many steps; what was seen goes beside it.
After them :class:`Enough` ends the script, as Ctrl-C would.
"""

from __future__ import annotations

import gc
import os
import runpy
import sys
import traceback
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from gaf.common.files import read_json, write_json
from gaf.optim.clipping import watched_clipping
from gaf.optim.monitor import Monitor
from gaf.trials.run import VARIABLE

WATCH = "watch.json"  # what is asked
WATCHED = "watched.json"  # what was seen; the records of each optimizer are beside it
RECORDS = "optimizer-{}.jsonl"
MOST = 6000  # records of one optimizer: a page shows no more, and a file of them takes 4 MB
AGAIN = 10  # steps that a script may take after its end: one that catches everything is ended then
WRAPPERS = ("module.", "_orig_mod.", "_fsdp_wrapped_module.")  # of DDP, torch.compile and FSDP


class Enough(BaseException):
    """Enough steps have been seen; not an Exception, which scripts catch."""


class Watcher:
    """Attaches monitors, and keeps the norms of clipped gradients until their optimizer steps.

    Args:
        folder: where the records go.
        steps: of an optimizer, after which the script ends.
    """

    def __init__(self, folder: Path, steps: int) -> None:
        self.folder = folder
        self.steps = steps
        self.monitors: dict[int, Monitor] = {}
        self._taken: dict[int, int] = {}
        self._clips: list[tuple[set[int], Tensor, float]] = []
        self._names: dict[int, str] = {}

    def before_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Of any optimizer, before its own hooks."""
        monitor = self.monitors.get(id(optimizer))
        if monitor is None:
            monitor = self.monitors[id(optimizer)] = self._attach(optimizer)
            self._taken[id(optimizer)] = 0
        mine = {id(p) for group in optimizer.param_groups for p in group["params"]}
        for clip in [clip for clip in self._clips if clip[0] & mine]:
            self._clips.remove(clip)
            monitor.note_clip(*clip[1:])

    def _attach(self, optimizer: torch.optim.Optimizer) -> Monitor:
        given = vars(optimizer).get("gaf_monitor")
        if given is not None:  # the script's own
            return given
        params = [p for group in optimizer.param_groups for p in group["params"]]
        if not self._names.keys() >= {id(p) for p in params}:
            self._names = names_of_parameters()
        names = [(self._names[id(p)], p) for p in params if id(p) in self._names]
        every = max(1, -(-len(params) * self.steps // MOST))
        return Monitor(optimizer, every=every, per="tensor", names=names)

    def after_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Of any optimizer, after its own hooks."""
        taken = self._taken[id(optimizer)] = self._taken[id(optimizer)] + 1
        if taken >= self.steps:
            if taken >= self.steps + AGAIN:
                self.leave(0)
            raise Enough

    def note(self, params: list[Tensor], norm: Tensor, max_norm: float) -> None:
        """A call of clip_grad_norm_."""
        self._clips.append(({id(p) for p in params}, norm, max_norm))

    def write(self, error: str | None = None) -> None:
        """Put down what was seen; of several processes, by the first."""
        if os.environ.get("RANK", "0") != "0":
            return
        optimizers = []
        for number, monitor in enumerate(self.monitors.values()):
            monitor.write_jsonl(self.folder / RECORDS.format(number))
            optimizers.append({"name": monitor.optimizer_name, "every": monitor.every})
        steps = max(self._taken.values(), default=0)
        write_json(
            self.folder / WATCHED, {"steps": steps, "optimizers": optimizers, "error": error}
        )

    def leave(self, status: int, error: str | None = None) -> None:
        """Write, and end this process without what else it would do at its end."""
        self.write(error)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def names_of_parameters() -> dict[int, str]:
    """The name of each parameter in the largest module that holds it, of all modules in this process."""
    modules = [thing for thing in gc.get_objects() if issubclass(type(thing), nn.Module)]
    inner = {id(child) for module in modules for child in module.children()}
    names: dict[int, str] = {}
    for module in modules:
        if id(module) in inner:
            continue
        for name, p in module.named_parameters():
            for wrapper in WRAPPERS:
                name = name.replace(wrapper, "")
            names.setdefault(id(p), name)
    return names


def main() -> None:
    """Run the script that the first argument names, with the others."""
    script, *arguments = sys.argv[1:]
    folder = Path(os.environ[VARIABLE])
    watcher = Watcher(folder, int(read_json(folder / WATCH, "steps")["steps"]))
    register_optimizer_step_pre_hook(watcher.before_step)
    register_optimizer_step_post_hook(watcher.after_step)
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).absolute().parent)  # as Python has it for a script
    status, error = 0, None
    with watched_clipping(watcher.note):
        try:
            runpy.run_path(script, run_name="__main__")
        except Enough:
            pass
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
            error = None if not status else f"it ended with status {end.code}"
        except BaseException as raised:
            traceback.print_exc()
            status, error = 1, f"{type(raised).__name__}: {raised}"
    watcher.leave(status, error)


if __name__ == "__main__":
    main()
