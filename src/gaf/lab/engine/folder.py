"""A run's folder: config, environment, metrics, checkpoints, and at the end what came of it.

config.json         what was asked for
identity.json       the code and the data it was asked of
environment.json    versions, machine, data; each resumption adds its own
metrics.jsonl       the records, tensorboard/ has the same
checkpoints/        the last two
finished.json       the result, there when the run has ended
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, JsonValue, ValidationError

from gaf.common import files
from gaf.common.errors import GafError
from gaf.common.files import read_json, write_json
from gaf.lab.engine import config as configs
from gaf.lab.engine.config import Config, Number, RunConfig, Whole, explain
from gaf.lab.engine.identity import RunIdentity
from gaf.lab.tasks.base import ScoredOn

CONFIG, IDENTITY, ENVIRONMENT = "config.json", "identity.json", "environment.json"
FINISHED = "finished.json"

# Where a run is computed, as opposed to what: these may change from one session to the next.
WHERE = ("accelerator", "strategy", "devices", "nodes")


class Environment(Config):
    """What ``environment.json`` must hold; versions and the machine are for people to read."""

    model_config = ConfigDict(extra="allow")
    noun: ClassVar[str] = "environment"
    __pydantic_extra__: dict[str, JsonValue]

    command: tuple[str, ...] = ()
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    data: dict[str, JsonValue]
    time: dict[str, JsonValue] = Field(default_factory=dict)
    resumed: tuple[dict[str, JsonValue], ...] = ()

    def machine(self) -> dict[str, Any]:
        """What is not the run's own."""
        return self.model_dump(exclude_unset=True, exclude={"command", "time", "resumed"})


def read_config(folder: Path) -> RunConfig:
    """The config of the run in a folder."""
    path = folder / CONFIG
    if not path.is_file():
        raise GafError(f"{folder} holds no run: there is no {CONFIG}")
    return configs.read_file(path)


def read_environment(folder: Path) -> Environment:
    """What the run in a folder recorded about where it was made."""
    return configs.read_file(folder / ENVIRONMENT, Environment)


def read_identity(folder: Path) -> RunIdentity | None:
    """The code and the data of the run in a folder; None where it was begun before these were recorded."""
    path = folder / IDENTITY
    return configs.read_file(path, RunIdentity) if path.is_file() else None


def check(folder: Path, config: RunConfig) -> bool:
    """Whether the folder holds this very run; GafError where it holds something else."""
    if folder.exists() and not folder.is_dir():
        raise GafError(f"{folder} is not a folder")
    # a start that was killed leaves nothing but hidden files
    if not folder.exists() or all(path.name.startswith(".") for path in folder.iterdir()):
        return False
    if not (folder / CONFIG).is_file():
        raise GafError(f"{folder} is not empty and holds no run; choose another folder")
    difference = first_difference(read_config(folder), config)
    if difference:
        raise GafError(
            f"{folder} holds another run: {difference}; a run keeps its config, so choose another "
            "folder (--out)"
        )
    return True


def check_identity(folder: Path, identity: RunIdentity) -> None:
    """GafError where the run in a folder was begun with other code or other data."""
    if not (folder / ENVIRONMENT).is_file() and not (folder / IDENTITY).is_file():
        return  # nothing has been computed yet
    there = read_identity(folder)
    if there is None:
        raise GafError(
            f"the run in {folder} does not say with which code and data it began; choose another folder "
            "(--out)"
        )
    if difference := there.difference(identity):
        raise GafError(
            f"{difference} since the run in {folder} began; choose another folder (--out), or undo "
            "the change"
        )


def first_difference(there: RunConfig, here: RunConfig) -> str:
    """The first key in which two configs differ, '' where they do not."""
    flat_there, flat_here = _flat(there.model_dump()), _flat(here.model_dump())
    for key in {**flat_there, **flat_here}:
        a, b = flat_there.get(key), flat_here.get(key)
        if a != b and key not in WHERE:
            return f"its {key} is {a!r}, not {b!r}"
    return ""


def _flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in tree.items():
        nested = isinstance(value, dict) and value
        values |= _flat(value, f"{prefix}{key}.") if nested else {prefix + key: value}
    return values


def begin(folder: Path, config: RunConfig, identity: RunIdentity, facts: dict[str, Any]) -> None:
    """Write config, identity and environment, or note that the run goes on with the same."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / CONFIG).is_file():  # first: with it the folder counts as a run
        write_json(folder / CONFIG, config.model_dump(mode="json"))
    check_identity(folder, identity)
    if not (folder / IDENTITY).is_file():
        write_json(folder / IDENTITY, identity.model_dump(mode="json"))
    path = folder / ENVIRONMENT
    if path.is_file():
        first = read_environment(folder)
        content = first.model_dump(exclude_unset=True)
        write_json(path, {**content, "resumed": [*first.resumed, facts]})
    else:
        write_json(path, {**facts, "resumed": []})


def locked(folder: Path) -> AbstractContextManager[None]:
    """Keep a second training out of the folder; a killed one leaves no lock behind."""
    return files.locked(folder, GafError(f"another process is training in {folder}"))


class Result(Config):
    """What came of a run.

    ``final`` and ``best`` are the metrics on the test set, or on the validation data where the config's
    ``task.score_on`` says so, at the end and at the best score (with its step). A run that ``diverged`` has
    the task's worst score. ``score`` is ``final[score_name]``.
    ``chance`` is the score up to which nothing has been learned, None where the task does not say.
    The file has no ``folder``: a run may be moved.
    """

    noun: ClassVar[str] = "result"

    name: str
    score_name: str
    score: Number
    higher_is_better: bool
    final: dict[str, Number]
    best: dict[str, Number]
    diverged: bool
    steps: Whole
    seconds_per_step: Number
    folder: Path
    chance: Number | None = None

    @property
    def learned(self) -> bool:
        """Whether the score is better than chance, as far as the task says."""
        if self.chance is None:
            return True
        return self.score > self.chance if self.higher_is_better else self.score < self.chance


def summary(metrics: Mapping[str, float], scored_on: ScoredOn = "test") -> str:
    """Figures in a line. Those with a slash in their name are details, recorded and not shown.

    Args:
        metrics: by name.
        scored_on: what they were measured on; said where it is not the test data.

    Example:
        >>> summary({"mAP": 0.77714, "AP/dog": 0.8413})
        'mAP 0.7771'
    """
    figures = [f"{name} {value:.4g}" for name, value in metrics.items() if "/" not in name]
    return ", ".join(figures) + ("" if scored_on == "test" else f" on {scored_on} data")


def read_result(folder: Path) -> Result:
    """The result of a finished run."""
    path = folder / FINISHED
    if not path.is_file():
        raise GafError(f"the run in {folder} is not finished: there is no {FINISHED}")
    content = read_json(path)
    try:
        return Result(**{**content, "folder": folder})
    except ValidationError as error:
        raise GafError(f"{path} is damaged: {explain(error, Result)}") from None
