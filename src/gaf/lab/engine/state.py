"""A run in progress, and how it is saved and found again.

Batches, learning rate and what is due are functions of the step, so the step is also the position in the
data and in the schedule. Beside it a checkpoint holds model, optimizer, loss scale, random states, the
figures so far and the lengths of the records.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

from gaf.common.errors import GafError
from gaf.lab.engine import checkpoint, rng
from gaf.lab.engine.config import RunConfig
from gaf.lab.engine.distributed import Fabric
from gaf.lab.engine.progress import Progress
from gaf.lab.engine.record import METRICS, Records
from gaf.lab.engine.rng import Sampler
from gaf.lab.engine.signals import Wish
from gaf.lab.landscape.slices import check_state
from gaf.lab.tasks.base import Task
from gaf.optim.switched import evaluation_weights, put_weights

# What torch's rules keep of each number of a parameter.
LIKE_PARAMETERS = {"momentum_buffer", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"}
KEYS = {"model", "optimizer", "scaler", "state", "loss_sum", "lengths"}  # of a checkpoint
TRAINING_WEIGHTS = (
    "training_weights"  # of one whose rule evaluates at others, which are the model's
)


@dataclass
class State:
    """Where a run is."""

    step: int = 0
    logged: int = 0  # the step of the last log line
    evaluated: int = 0  # the step of the last evaluation
    test: dict[str, float] = field(default_factory=dict)  # what it found
    best: dict[str, float] = field(default_factory=dict)  # the best of these by the task's score
    diverged: bool = False
    seconds: float = 0.0  # spent in steps


@dataclass
class Run:
    """A run in progress."""

    config: RunConfig
    folder: Path
    task: Task
    fabric: Fabric
    model: nn.Module
    optimizer: Any  # Fabric's, around the config's
    sampler: Sampler
    wish: Wish
    progress: Progress = field(default_factory=Progress)  # the first process shows it
    records: Records | None = None  # the first process keeps them
    state: State = field(default_factory=State)
    saved: bool = True  # nothing has happened since the last checkpoint

    def __post_init__(self) -> None:
        epochs, iterations = self.config.epochs, self.config.iterations
        self.total = iterations or (epochs or 0) * self.sampler.steps
        self.loss_sum = torch.zeros((), device=self.fabric.device)  # since the last log line
        self.mark = time.perf_counter()  # when the clock of the steps was last read
        self.saved_at = self.mark  # when the last checkpoint was written
        self.logged_seconds = 0.0

    @property
    def done(self) -> bool:
        """Whether there is nothing left to train."""
        return self.state.diverged or self.state.step >= self.total

    @property
    def epoch(self) -> float:
        """How many times the data has been seen."""
        return self.state.step / self.sampler.steps

    def mean_loss_sum(self) -> float:
        """The sum of the losses since the last log line, over all processes."""
        if self.fabric.world_size == 1:
            return self.loss_sum.item()
        return self.fabric.all_reduce(self.loss_sum.clone(), reduce_op="mean").item()  # type: ignore[union-attr]

    def write(self, kind: str, step: int, figures: dict[str, Any], **times: float) -> None:
        """Add a record."""
        if self.records is not None:
            self.records.write(kind, step, figures, **times)


def save(run: Run) -> None:
    """Write a checkpoint of this moment, unless the last one is."""
    if run.saved:
        return
    optimizer = run.optimizer.optimizer
    state = {
        "model": {},
        "optimizer": optimizer.state_dict(),
        "scaler": run.fabric.strategy.precision.state_dict(),
        "state": asdict(run.state),
        "loss_sum": run.mean_loss_sum(),
        "lengths": {METRICS: run.records.sync()} if run.records else None,
    }
    own = {"rng": rng.states(run.fabric.device)}
    folder = run.folder / checkpoint.CHECKPOINTS
    with evaluation_weights(optimizer) as training_weights:
        state["model"] = run.model.state_dict()
        if training_weights is not None:
            state[TRAINING_WEIGHTS] = training_weights
        checkpoint.save(run.fabric, folder, run.state.step, state, own)
    run.saved, run.saved_at = True, time.perf_counter()


def go_on(run: Run) -> None:
    """Go on from the last whole checkpoint, or from the beginning where there is none."""
    folder, rank = run.folder / checkpoint.CHECKPOINTS, run.fabric.global_rank
    loaded: dict[Path, tuple[dict[str, Any], dict[str, Any] | None]] = {}

    def check_records(path: Path) -> None:
        """Refuse a checkpoint whose records are gone: the one before repeats them, if it has its own."""
        loaded[path] = checkpoint.load(path, rank)
        lengths, records = loaded[path][0].get("lengths") or {}, run.folder / METRICS
        if lengths.get(METRICS, 0) > (records.stat().st_size if records.exists() else 0):
            raise checkpoint.Damaged(f"{records} is shorter than it was then")

    newest = checkpoint.latest(folder, check_records) if run.fabric.is_global_zero else None
    path = run.fabric.broadcast(newest)
    length = 0
    if path is not None:
        state, own = loaded.get(path) or checkpoint.load(path, rank)
        try:
            _restore(run, state, own)
        except GafError as error:
            raise checkpoint.Damaged(f"{path} cannot be resumed: {error}") from None
        except Exception as error:  # torch fails in many ways on values of another kind
            reason = " ".join(str(error).split()) or type(error).__name__
            raise checkpoint.Damaged(
                f"{path} cannot be resumed, it does not hold what a run saves: {reason}"
            ) from error
        length = (state["lengths"] or {METRICS: 0})[METRICS]
    if run.fabric.is_global_zero:
        run.records = Records(run.folder, length)
    run.mark = time.perf_counter()


def _restore(run: Run, state: dict[str, Any], own: dict[str, Any] | None) -> None:
    """Put what a checkpoint holds into a run."""
    if missing := KEYS - state.keys():
        raise GafError(f"it has no {min(missing)!r}")
    _load_model(run.model, state["model"])
    optimizer = run.optimizer.optimizer
    _load_optimizer(optimizer, state["optimizer"])
    if TRAINING_WEIGHTS in state:
        params = [p for group in optimizer.param_groups for p in group["params"]]
        weights = zip(params, state[TRAINING_WEIGHTS], strict=True)
        put_weights(optimizer, [_like(p, value) for p, value in weights])
    run.fabric.strategy.precision.load_state_dict(state["scaler"])
    run.state = State(**state["state"])
    for name, fresh in asdict(State()).items():
        kind = type(fresh)
        if not isinstance(getattr(run.state, name), kind):
            raise GafError(f"its {name!r} is not of the kind {kind.__name__}")
    if not all(
        isinstance(n, int | float) for n in (*run.state.test.values(), *run.state.best.values())
    ):
        raise GafError("its results are no numbers")
    lengths = state["lengths"]
    if lengths is not None and not (
        isinstance(lengths.get(METRICS), int) and lengths[METRICS] >= 0
    ):
        raise GafError("its lengths of the records are no lengths")
    run.loss_sum.fill_(state["loss_sum"])
    run.logged_seconds = run.state.seconds
    if own is not None:  # with more processes than before, the new ones keep their fresh states
        rng.restore(own["rng"], run.fabric.device)


def _load_model(model: nn.Module, state: dict[str, Any]) -> None:
    """Load whole tensors into a model, sharded or not."""
    check_state(model, state, "the checkpoint")
    own = model.state_dict()
    model.load_state_dict({key: _like(own.get(key), value) for key, value in state.items()})


def _load_optimizer(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Load whole tensors into an optimizer; state of a parameter's shape is sharded as the parameter is."""
    params = [p for group in optimizer.param_groups for p in group["params"]]
    for i, entries in state["state"].items():
        for key in LIKE_PARAMETERS & entries.keys():
            if _shape(entries[key]) != params[i].shape:
                raise GafError(
                    f"the checkpoint is one of another optimizer: its {key!r} of parameter {i} does not fit"
                )
    for own, saved in zip(optimizer.param_groups, state["param_groups"], strict=False):
        for key in own.keys() & saved.keys():
            if isinstance(own[key], int | float) and not isinstance(saved[key], int | float):
                raise GafError(
                    f"the checkpoint is one of another optimizer: its {key!r} is no number"
                )
    sharded = {
        i: {
            key: _like(params[i], value) if _shape(value) == params[i].shape else value
            for key, value in entries.items()
        }
        for i, entries in state["state"].items()
    }
    optimizer.load_state_dict({**state, "state": sharded})


def _shape(value: Any) -> torch.Size | None:
    return value.shape if isinstance(value, Tensor) else None


def _like(own: Any, value: Any) -> Any:
    if not isinstance(own, DTensor) or not isinstance(value, Tensor):
        return value
    # Every process has read the whole tensor: each keeps its part, and nothing is sent.
    value = value.to(own.device)
    return distribute_tensor(value, own.device_mesh, own.placements, src_data_rank=None)
