"""The training loop, to be read from top to bottom.

A step takes its batch in parts (gradient accumulation), clips if asked to, and lets the optimizer act once.
After it, in this order and each only when due: a log line, an evaluation, a checkpoint. What is due
depends on the number of the step alone, so a run that was killed repeats what it would have done.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch

import gaf
from gaf.lab.engine import rng
from gaf.lab.engine.distributed import gather_rows, highest
from gaf.lab.engine.folder import summary
from gaf.lab.engine.optimizers import rate_factor
from gaf.lab.engine.rng import Part, evaluation_indices
from gaf.lab.engine.signals import Interrupted
from gaf.lab.engine.state import Run, save
from gaf.optim.observation import SHARES
from gaf.optim.switched import evaluation_weights

# Raised when the same config gives other numbers by what the engine does: the order of samples, seeds,
# schedules, what is done to gradients before a step, the evaluation.
VERSION = 1

# Without `checkpoint_every`, an epoch that ends sooner after the last checkpoint writes none: checkpoints of
# short epochs would cost more than what a kill loses.
CHECKPOINT_SECONDS = 5

SAMPLE = 65536  # elements that shares and histograms are of


def fit(run: Run) -> None:
    """Train to the end, to a divergence, or to a signal (which raises :class:`Interrupted`)."""
    try:
        settle(run)  # what an interruption left undone
        while not run.done:
            epoch, position = divmod(run.state.step, run.sampler.steps)
            for parts, stream in steps_of(run, epoch, position):
                train_step(run, parts, stream)
                settle(run)
                if run.done:
                    break
    except Interrupted:
        save(run)
        raise


def steps_of(run: Run, epoch: int, position: int) -> Iterator[tuple[list[Part], Iterator[Any]]]:
    """The rest of an epoch, step by step: the parts of each, and the stream that yields their batches."""
    batches = run.sampler.epoch(epoch)[position : run.total - epoch * run.sampler.steps]
    steps = [run.sampler.parts(batch) for batch in batches]
    indices = [part.indices for parts in steps for part in parts]
    where = {"seed": run.config.seed, "epoch": epoch, "device": run.fabric.device}
    stream = iter(run.task.training_part().batches(indices, **where))
    for parts in steps:
        yield parts, stream


def train_step(run: Run, parts: list[Part], stream: Iterator[Any]) -> None:
    """One step of the optimizer."""
    for group in run.optimizer.param_groups:
        group["lr"] = learning_rate(run, run.state.step)
    for number, part in enumerate(parts, start=1):
        with rng.untouched():
            batch = next(stream)
        with accumulating(run, more_to_come=number < len(parts)):
            loss = run.task.loss(run.model, batch) * part.weight
            run.fabric.backward(loss)
        run.loss_sum += loss.detach()
    with watching(run):
        run.optimizer.step()
    run.optimizer.zero_grad()
    run.state.step += 1
    run.saved = False
    run.progress.step(run.state.step, run.config.batch_size)


def learning_rate(run: Run, step: int) -> float:
    factor = rate_factor(run.config.schedule, step, run.total, run.sampler.steps)
    return run.config.optimizer.lr * factor


def accumulating(run: Run, more_to_come: bool) -> AbstractContextManager[Any]:
    """Processes exchange gradients once, after the last part."""
    if run.fabric.world_size == 1:
        return nullcontext()
    return run.fabric.no_backward_sync(run.model, enabled=more_to_come)  # type: ignore[arg-type]


def settle(run: Run) -> None:
    """What is due after a step; then, if a signal has come, stop."""
    config, state = run.config, run.state
    state.seconds += time.perf_counter() - run.mark
    ends = state.step >= run.total
    epoch_ends = ends or state.step % run.sampler.steps == 0
    if state.logged < state.step and (epoch_ends or state.step % config.log_every == 0):
        log(run)
    every = config.evaluate_every * run.sampler.steps
    if state.evaluated < state.step and (ends or (every and state.step % every == 0)):
        evaluate(run)
    if ends or checkpoint_due(run, epoch_ends):
        save(run)
    stop_if_asked(run)
    run.mark = time.perf_counter()


def checkpoint_due(run: Run, epoch_ends: bool) -> bool:
    """All processes take the same decision, whatever their clocks say."""
    if every := run.config.checkpoint_every:
        return run.state.step % every == 0
    elapsed = time.perf_counter() - run.saved_at
    return epoch_ends and bool(highest(run.fabric, int(elapsed >= CHECKPOINT_SECONDS)))


def log(run: Run) -> None:
    """The mean loss since the last log line; one that is not a number ends the run."""
    state = run.state
    steps, seconds = state.step - state.logged, state.seconds - run.logged_seconds
    loss = run.mean_loss_sum() / steps
    run.loss_sum.zero_()
    state.logged, run.logged_seconds, run.saved = state.step, state.seconds, False
    figures = {"epoch": run.epoch, "loss": loss, "lr": learning_rate(run, state.step - 1)}
    run.write("train", state.step, figures, seconds=state.seconds, step_seconds=seconds / steps)
    if not math.isfinite(loss):
        diverge(run, f"the loss is {loss}")


def evaluate(run: Run) -> None:
    """The task's metrics on the whole test set, or on all validation data."""
    if run.state.diverged:
        return
    state, fabric, source = run.state, run.fabric, run.task.scored_part()
    size = max(1, run.config.batch_size // run.config.accumulate)
    indices = evaluation_indices(len(source), size, fabric.global_rank, fabric.world_size)
    run.model.eval()
    weights = evaluation_weights(run.optimizer.optimizer)
    with weights, torch.no_grad(), rng.untouched():
        stream = source.batches(indices, seed=run.config.seed, epoch=0, device=fabric.device)
        gather = partial(gather_rows, fabric, samples=len(source))
        metrics = run.task.evaluate(run.model, interruptible(run, stream), gather)
    run.model.train()
    metrics = {name: float(value) for name, value in metrics.items()}
    score = run.task.score_of(metrics)
    state.test, state.evaluated, run.saved = metrics, state.step, False
    run.write(run.task.scored_on, state.step, {"epoch": run.epoch, **metrics})
    run.progress.say(f"step {state.step}/{run.total}: {summary(metrics, run.task.scored_on)}")
    if not math.isfinite(score):
        diverge(run, f"{run.task.score} is {score}")
    elif not state.best or run.task.is_better(score, run.task.score_of(state.best)):
        state.best = {"step": state.step, **metrics}


def interruptible(run: Run, stream: Iterable[Any]) -> Iterator[Any]:
    """An evaluation can be long; one that is interrupted is begun anew when the run goes on."""
    for batch in stream:
        yield batch
        stop_if_asked(run)


def diverge(run: Run, reason: str) -> None:
    """A divergence is a result: it is recorded, and the run ends."""
    run.state.diverged = True
    run.write("diverged", run.state.step, {"epoch": run.epoch, "reason": reason})
    run.progress.say(f"diverged at step {run.state.step}: {reason}")


def stop_if_asked(run: Run) -> None:
    """End the run here, all processes together."""
    number = highest(run.fabric, run.wish.number)  # it may have reached one of them only
    if number:
        raise Interrupted(run.folder, run.state.step, number)


@contextmanager
def watching(run: Run) -> Iterator[None]:
    """Record what f sees in the step inside, every so often."""
    every = run.config.monitor_every if run.config.optimizer.activation else 0
    if not every or run.state.step % every:
        yield
        return
    optimizer = run.optimizer.optimizer
    monitor = gaf.Monitor(optimizer, quantiles=(), sample=SAMPLE, histogram=True)
    try:
        yield
    finally:
        monitor.detach()
    for record in monitor.records:
        if "function" in record:
            run.write("gradients", run.state.step + 1, figures_of(record))


def figures_of(record: dict[str, Any]) -> dict[str, Any]:
    """What a run keeps of a monitor's record."""
    shares = record["histogram"].items()
    return {
        "group": record["group"],
        **{name: record["input"][name] for name in ("max", "nonfinite")},
        **{name: record[name] for name in SHARES},
        "histogram": {edge: float(f"{share:.4g}") for edge, share in shares},
    }
