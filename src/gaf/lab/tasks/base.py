"""What the engine needs of a task, and no more, with the config that names one.

A task of your own is a subclass like the built-in ones.

Example:
    A regression, with ``my_source`` as in ``examples/own_task.py``::

        class Curve(Task):
            score, higher_is_better, worst = "loss", False, math.inf

            def build_model(self):
                return nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))

            def train_source(self):
                return my_source("train")

            def test_source(self):
                return my_source("test")

            def loss(self, model, batch):
                x, y = batch
                return nn.functional.mse_loss(model(x), y)
"""

from __future__ import annotations

import inspect
import math
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, NoReturn, TypeVar

import torch
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from torch import Tensor, nn

from gaf.common.errors import GafError
from gaf.common.texts import did_you_mean

if TYPE_CHECKING:
    from gaf.lab.data.sources import Source

S = TypeVar("S", bound="Source")
Share = Annotated[float, Field(ge=0, lt=1)]


class Config(BaseModel):
    """Frozen, strict, and closed to keys it does not know.

    ``noun`` is what a sentence about the file calls it.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")
    noun: ClassVar[str] = "config"


class GrownConfig(Config):
    """A config with keys that came later, written only where they are set: older runs are found again."""

    later_keys: ClassVar[frozenset[str]]

    @model_serializer(mode="wrap")
    def _without_unset(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields = type(self).model_fields
        unset = [key for key in self.later_keys if getattr(self, key) == fields[key].default]
        return {key: value for key, value in dump(self).items() if key not in unset}


ScoredOn = Literal["test", "validation"]
SCRIPT = "script"  # the kind of a task that is a script of the user's


class TaskConfig(GrownConfig):
    """What is learned: a built-in kind with data and model by name, a user's own function or script.

    ``kind="my_module:make_task"`` calls ``make_task(**options)``; data, model and label smoothing are then
    unused. ``validation`` is the share of the training data that is kept out of the training, ``score_on``
    whether the test data or that share is evaluated: in the second case the test data stays closed.
    ``kind="script"`` runs the script that ``options`` name, see :mod:`gaf.lab.tasks.script`, which keeps
    validation data by itself.
    """

    later_keys: ClassVar[frozenset[str]] = frozenset({"validation", "score_on"})

    kind: str = "classification"
    data: str = ""
    data_options: dict[str, JsonValue] = {}
    model: str = ""
    model_options: dict[str, JsonValue] = {}
    label_smoothing: Share = 0.0
    options: dict[str, JsonValue] = {}
    validation: Share = 0.0
    score_on: ScoredOn = "test"

    @model_validator(mode="after")
    def _whole(self) -> TaskConfig:
        if self.own:
            for key in ("data", "model", "data_options", "model_options", "label_smoothing"):
                if getattr(self, key):
                    raise GafError(
                        f"{key} belongs to built-in tasks; give {self.kind} its own settings in options"
                    )
        else:
            if self.options:
                raise GafError("options belong to tasks of your own, kind='my_module:make_task'")
            if not self.data or not self.model:
                raise GafError(f"a {self.kind} task needs the names of its data and its model")
        if self.score_on == "validation" and not self.validation and not self.is_script:
            raise GafError(
                "score_on=validation needs validation data: set validation to a share of the training "
                "data, such as 0.2"
            )
        return self

    @property
    def own(self) -> bool:
        """Whether the task is made by a function of the user's, or is a script of theirs."""
        return ":" in self.kind or self.is_script

    @property
    def is_script(self) -> bool:
        """Whether the task is a script of the user's."""
        return self.kind == SCRIPT


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """A model that only looks: no gradients, no dropout, no running statistics."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)


def first_line(error: Exception) -> str:
    """The beginning of a long message, in quotes."""
    return repr(str(error).partition("\n")[0])


def lucky_guess(targets: Tensor) -> float:
    """The share that naming one class for all samples gets right, and three standard errors more.

    Example:
        >>> lucky_guess(torch.arange(900) % 9)  # 1 / 9, on 900 samples
        0.1425...
    """
    counts = targets.bincount()
    share, samples = counts.max().item() / len(targets), len(targets)
    return share + 3 * math.sqrt(share * (1 - share) / samples)


class Task:
    """A model, data to train and to test on, a loss and a score.

    A batch is whatever the source yields: tensors, nested as one likes. Everything random must come from
    torch's generators or from (seed, epoch, sample index), so that a run can be repeated and resumed.
    """

    score: ClassVar[str] = "top1"  # the metric a run is judged by
    higher_is_better: ClassVar[bool] = True
    worst: ClassVar[float] = 0.0  # the score of a run that diverged
    version: ClassVar[int] = 1  # raised when the same config gives other data, losses or scores

    _held_out_share: float = 0.0  # of the config, as the next
    scored_on: ScoredOn = "test"

    def build_model(self) -> nn.Module:
        """A new model; its initial weights may use torch's generator, which the engine has seeded."""
        raise self._left_out("build_model")

    def train_source(self) -> Source:
        """Samples by index, in batches that the engine chooses."""
        raise self._left_out("train_source")

    def test_source(self) -> Source:
        """Samples to evaluate on, all of them, in order."""
        raise self._left_out("test_source")

    def split_training(self, share: float) -> tuple[Tensor, Tensor]:
        """Indices of the training source to train on, and those of the share kept for validation.

        They must not depend on the seed of a run. By default they are drawn at random, once for all.
        """
        from gaf.lab.data.sources import hold_out

        return hold_out(torch.zeros(len(self.train_source()), dtype=torch.int64), share)

    def use_validation(self, config: TaskConfig) -> None:
        """Keep the validation data of a config out of the training; scored on it, close the test data."""
        self._held_out_share, self.scored_on = config.validation, config.score_on
        if config.score_on == "validation":
            # on the object: it comes before what any class has
            self.test_source = self._refuse_test_data  # type: ignore[method-assign]

    def _refuse_test_data(self) -> NoReturn:
        raise GafError(
            f"{type(self).__name__} opens its test data, which stays closed while rates are tuned; what a "
            "run is scored on is scored_part()"
        )

    @cached_property
    def _split_indices(self) -> tuple[Tensor, Tensor]:
        training, validation = self.split_training(self._held_out_share)
        if not len(training) or not len(validation):
            samples = len(training) + len(validation)
            none = "validate" if len(training) else "train"
            raise GafError(
                f"validation={self._held_out_share} of {samples} training samples leaves none to {none} on"
            )
        if len(torch.cat((training, validation)).unique()) < len(training) + len(validation):
            raise GafError(f"{type(self).__name__}.split_training gives a sample twice")
        return training, validation

    def training_part(self) -> Source:
        """What the engine trains on: the training source without its validation data."""
        from gaf.lab.data.sources import Subset

        source = self.train_source()
        return Subset(source, self._split_indices[0]) if self._held_out_share else source

    def validation_part(self) -> Source:
        """The validation data: by default what is kept out of the training source."""
        from gaf.lab.data.sources import Subset

        return Subset(self.train_source(), self._split_indices[1])

    def scored_part(self) -> Source:
        """What the engine evaluates on: the test source, or the validation data where the config says so."""
        return self.test_source() if self.scored_on == "test" else self.validation_part()

    def _left_out(self, method: str) -> GafError:
        return GafError(f"{type(self).__name__} does not say what its {method} is")

    def check(self, model: nn.Module) -> None:
        """Raise GafError with a sentence where model and data do not fit; called before training.

        By default the loss and the outcomes of two samples are computed, on the CPU.
        """
        me = type(self).__name__
        scored = "test_source" if self.scored_on == "test" else "validation_part"
        for which in ("train_source", scored):
            source = getattr(self, which)()
            lacks = [
                name for name in ("batches", "fingerprint", "__len__") if not hasattr(source, name)
            ]
            if lacks:
                kind = type(source).__name__
                raise GafError(f"{me}.{which} gives a {kind}, which lacks {' and '.join(lacks)}")
        with evaluating(model):
            loss = self._tried("loss", model, self.training_part())
            if not isinstance(loss, Tensor) or loss.ndim:
                given = f"shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else repr(loss)
                raise GafError(f"{me}.loss gives {given}; it is one number, the mean of the batch")
            source = self.scored_part()
            samples = min(2, len(source))
            for name, rows in self._tried("outcomes", model, source).items():
                if not rows.ndim or len(rows) != samples:
                    raise GafError(
                        f"{me}.outcomes needs a row for each sample; for {samples} samples "
                        f"{name!r} has shape {tuple(rows.shape)}"
                    )
        if self.scored_on == "validation":
            self.chance()  # one that opens the test data is refused now, not after the training

    def _tried(self, method: str, model: nn.Module, source: Source) -> Any:
        """What a method gives for two samples; a sentence where torch refuses them."""
        pair = torch.arange(min(2, len(source)))
        stream = source.batches([pair], seed=0, epoch=0, device=torch.device("cpu"))
        try:
            return getattr(self, method)(model, next(iter(stream)))
        except RuntimeError as error:
            frames = traceback.extract_tb(error.__traceback__)
            mine = [
                frame for frame in frames if frame.filename == inspect.getsourcefile(type(self))
            ]
            place = f" ({Path(mine[-1].filename).name}:{mine[-1].lineno})" if mine else ""
            raise GafError(
                f"{type(self).__name__}.{method} fails on two samples: {first_line(error)}{place}"
            ) from error

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """The mean loss over the samples of a batch."""
        raise self._left_out("loss")

    def outcomes(self, model: nn.Module, batch: Any) -> dict[str, Tensor]:
        """What :meth:`metrics` needs of each scored sample: tensors whose first axis runs over the batch.

        The engine splits the scored set over processes and puts the rows together again in order, so that
        a figure of the whole set, such as a mean average precision, counts each sample once. The default
        evaluates the loss sample by sample, for batches that are tuples of tensors.
        """
        losses = [
            self.loss(model, tuple(x[i : i + 1] for x in batch)) for i in range(len(batch[0]))
        ]
        return {"loss": torch.stack(losses)}

    def metrics(self, outcomes: dict[str, Tensor]) -> dict[str, float]:
        """Figures of the whole scored set, from the outcomes of all its samples: by default their means."""
        return {name: rows.double().mean().item() for name, rows in outcomes.items()}

    def chance(self) -> float | None:
        """The score up to which nothing has been learned; None: the task does not say.

        It is what the best guess that does not look at its input reaches, with some luck. A comparison whose
        baseline is no better says so instead of "no difference".
        """
        return None

    def score_of(self, metrics: dict[str, float]) -> float:
        """The score among metrics."""
        if self.score not in metrics:
            measured = ", ".join(metrics)
            raise GafError(
                f"{type(self).__name__} is scored by {self.score!r}, but measures {measured}"
            )
        return metrics[self.score]

    def is_better(self, score: float, than: float) -> bool:
        """Whether a score beats another."""
        return score > than if self.higher_is_better else score < than

    def evaluate(
        self,
        model: nn.Module,
        batches: Iterable[Any],
        gather: Callable[[dict[str, Tensor]], dict[str, Tensor]] = lambda rows: rows,
    ) -> dict[str, float]:
        """The metrics over batches; ``gather`` puts together what several processes have found."""
        outcomes = [self.outcomes(model, batch) for batch in batches]
        rows = {name: torch.cat([part[name] for part in outcomes]) for name in outcomes[0]}
        return self.metrics(gather(rows))


class NamedTask(Task, Generic[S]):
    """A built-in task: data of the catalog and a model of the registry.

    Args:
        config: their names and options.
    """

    def __init__(self, config: TaskConfig) -> None:
        self.config = config

    def open_split(self, split: str, **changes: Any) -> Any:
        """The data of a split, with changed options; GafError where it is of another kind than the task's."""
        from gaf.lab import data

        options: dict[str, Any] = {**self.config.data_options, **changes}
        parameters = inspect.signature(data.load).parameters
        known = [name for name in parameters if name not in ("name", "split")]
        for option in options:
            if option not in known:
                hint = did_you_mean(option, known)
                raise GafError(f"unknown option {option!r} of the data {self.config.data}{hint}")
        if split == "test":
            # what changes the images that are learned from is no part of the test
            options.pop("augment", None)
        return data.load(self.config.data, split, **options)

    @cached_property
    def _train_split(self) -> S:
        return self.open_split("train")

    @cached_property
    def _test_split(self) -> S:
        return self.open_split("test")

    @cached_property
    def _train_split_as_it_is(self) -> S:
        return self.open_split("train", augment=False)

    def train_source(self) -> S:
        return self._train_split

    def test_source(self) -> S:
        if self.scored_on == "validation":  # asked through super()
            self._refuse_test_data()
        return self._test_split

    def validation_part(self) -> Any:
        """What is kept out of the training source, without augmentation."""
        from gaf.lab.data.sources import Subset

        if (
            type(self).train_source is not NamedTask.train_source
        ):  # indices are those of another source
            return super().validation_part()
        return Subset(self._train_split_as_it_is, self._split_indices[1])

    def build(self, **options: Any) -> nn.Module:
        """The model of the config with these options."""
        from gaf.lab.tasks import models

        return models.build(self.config.model, **options)
