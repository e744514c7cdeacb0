"""Train a config in a folder: begun, gone on with, or found finished."""

from __future__ import annotations

import math
from contextlib import ExitStack
from pathlib import Path

import torch

from gaf.common.errors import GafError
from gaf.common.files import FULL, DiskFull, write_json
from gaf.lab.engine import checkpoint, rng
from gaf.lab.engine import folder as folders
from gaf.lab.engine.config import RunConfig
from gaf.lab.engine.distributed import Fabric, make_fabric
from gaf.lab.engine.folder import Result, read_result
from gaf.lab.engine.identity import facts, identify
from gaf.lab.engine.loop import fit
from gaf.lab.engine.optimizers import make_optimizer
from gaf.lab.engine.progress import Progress
from gaf.lab.engine.rng import Sampler
from gaf.lab.engine.script import train_script
from gaf.lab.engine.signals import Wish, listening
from gaf.lab.engine.state import Run, go_on
from gaf.lab.tasks import Task, load_task
from gaf.lab.tasks.script import Script


def train(
    config: RunConfig,
    folder: str | Path,
    *,
    resume: bool = True,
    progress: Progress | None = None,
) -> Result:
    """Train, and keep everything in a folder.

    A run that is finished there is not run twice, one that was interrupted resumes, and a run of another
    config, or whose code or data has changed since, is refused. Under ``torchrun`` every process calls
    this.

    Args:
        config: what to train.
        folder: of this run; made if missing.
        resume: continue a run that is there; False refuses it.
        progress: where to show how far it is; only the first process shows anything.

    Raises:
        GafError: the input is bad; the message is one sentence.
        Interrupted: a signal came; a checkpoint of that moment has been written.
        DiskFull: the disk is full; the checkpoints before are whole.
    """
    folder = Path(folder)
    there = folders.check(folder, config)
    if there and not resume:
        raise GafError(f"{folder} holds this run already")
    threads = config.threads
    if threads is None and not config.task.is_script and (folder / folders.ENVIRONMENT).is_file():
        threads = folders.read_environment(folder).threads  # results depend on them in the last bit
    try:
        with rng.own_settings(threads), listening() as wish:
            return _train(config, folder, progress or Progress(), wish)
    except OSError as error:
        if error.errno not in FULL:
            raise
        whole = checkpoint.steps(folder / checkpoint.CHECKPOINTS)
        kept = f"the checkpoint {whole[0].name} is whole" if whole else "there is no checkpoint yet"
        raise DiskFull(
            f"there is no room left for the run in {folder}; {kept}, free some space and resume"
        ) from error


def _train(config: RunConfig, folder: Path, progress: Progress, wish: Wish) -> Result:
    task = load_task(config.task)
    if isinstance(task, Script):
        return train_script(config, folder, task, progress, wish)
    identity = identify(config, task)
    folders.check_identity(folder, identity)
    if (folder / folders.FINISHED).is_file():
        return read_result(folder)
    fabric = make_fabric(config)
    run = prepare(config, folder, task, fabric, wish)
    with ExitStack() as stack:
        if fabric.is_global_zero:
            run.progress = progress
            stack.enter_context(folders.locked(folder))
            folders.check(folder, config)  # again: another process may have begun meanwhile
            folders.begin(folder, config, identity, facts(fabric, identity.data))
        fabric.barrier()
        go_on(run)
        if run.records is not None:
            stack.callback(run.records.close)
        run.progress.begin(config.name, run.state.step, run.total)
        stack.callback(run.progress.end)
        fit(run)
        result = _result(run)
        if fabric.is_global_zero:
            write_json(folder / folders.FINISHED, {**dict(result), "folder": None})
        fabric.barrier()
    return result


def prepare(config: RunConfig, folder: Path, task: Task, fabric: Fabric, wish: Wish) -> Run:
    """Model, optimizer and data of a run that has not begun; nothing is written yet."""
    samples = len(task.training_part())
    sampler = Sampler.of(config, samples, fabric.global_rank, fabric.world_size)
    rng.seed_all(config.seed)  # the same on all processes: each shards or copies the same model
    model = task.build_model()
    task.check(model)
    if config.channels_last:
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    model = fabric.setup_module(torch.compile(model) if config.compile else model)  # type: ignore[arg-type]
    optimizer = fabric.setup_optimizers(make_optimizer(config.optimizer, model.parameters()))
    rng.seed_all(config.seed, fabric.global_rank)
    return Run(config, folder, task, fabric, model.train(), optimizer, sampler, wish)


def _result(run: Run) -> Result:
    task, state = run.task, run.state
    # a loss that diverged is infinite, whatever its task forgot to say
    worst = task.worst if task.worst or task.higher_is_better else math.inf
    final = {task.score: worst} if state.diverged else state.test
    return Result(
        name=run.config.name,
        score_name=task.score,
        score=task.score_of(final),
        higher_is_better=task.higher_is_better,
        final=final,
        best=state.best,
        diverged=state.diverged,
        steps=state.step,
        seconds_per_step=state.seconds / max(1, state.step),
        folder=run.folder,
        chance=task.chance(),
    )
