"""A tiny task that can be slow, crash on a seed, or take its process with it."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import Future
from pathlib import Path

import torch

from gaf.lab.engine.config import RunConfig, override, read
from gaf.lab.engine.run import train
from gaf.lab.study.grid import RunFailed, digest, places
from tests.lab.engine.tiny import Tiny

KIND = "tests.lab.study.grid_tasks:Trouble"


class Trouble(Tiny):
    """``crash``: the seed that raises. ``die``: the seed that kills its process, once if ``once`` is a file's
    name and always otherwise. ``at``: after how many losses. ``pause``: seconds a step takes.
    """

    def __init__(self, crash=-1, die=-1, once="", pause=0.0, at=7, **options) -> None:
        super().__init__(**options)
        self.crash, self.die, self.once, self.pause = crash, die, once, pause
        self.at = at

    def build_model(self):
        self.seed = torch.initial_seed()
        return super().build_model()

    def loss(self, model, batch):
        if self.pause:
            time.sleep(self.pause)
        if self.losses == self.at and self.seed == self.crash:
            raise RuntimeError("a crash\nof this seed")
        if (
            self.losses == self.at
            and self.seed == self.die
            and not (self.once and Path(self.once).exists())
        ):
            if self.once:
                Path(self.once).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().loss(model, batch)


class Leaky(Tiny):
    """It looks at the test data while it learns."""

    def loss(self, model, batch):
        x, y = next(
            iter(
                self.test_source().batches(
                    [torch.arange(5)], seed=0, epoch=0, device=torch.device("cpu")
                )
            )
        )
        return super().loss(model, (torch.cat((batch[0], x)), torch.cat((batch[1], y))))


def base(*changes: str, **options: object) -> RunConfig:
    """Three epochs of five steps, each with a checkpoint."""
    config = {
        "name": "trouble",
        "task": {"kind": KIND, "options": options},
        "optimizer": {"lr": 0.1, "momentum": 0.9},
        "epochs": 3,
        "batch_size": 16,
        "accelerator": "cpu",
        "threads": 1,
        "checkpoint_every": 5,
    }
    return override(read(config), changes)


def run_folder(config: RunConfig, runs: Path) -> Path:
    """Where a grid keeps the run of a config."""
    return places([config], runs)[digest(config)].folder


class Here:
    """An executor in this process, which remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[RunConfig] = []
        self.stopped = False

    def submit(self, config, folder, seen):
        self.asked.append(config)
        future: Future[None] = Future()
        try:
            train(config, folder)
        except Exception as error:
            future.set_exception(RunFailed(f"{type(error).__name__}: {error}"))
        else:
            future.set_result(None)
        return future

    def stop(self):
        self.stopped = True


class HerePool(Here):
    """In the place of a pool of processes."""

    slots = 1

    def __init__(self, *_: object) -> None:
        super().__init__()

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def comes(process, condition):
    """Waits until something is so; False where the process ended first."""
    until = time.monotonic() + 300
    while not condition():
        if process.poll() is not None:
            return False
        assert time.monotonic() < until
        time.sleep(0.01)
    return True
