"""Many runs: each in a folder named by a digest of config, code and data, found again where it is finished.

What trains them is an executor: the processes of :mod:`gaf.lab.study.pool` on this machine, or anything
else that can train a config in a folder that both sides see, and go on there with what was begun elsewhere.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gaf.common.errors import GafError
from gaf.common.files import LONGEST
from gaf.lab.engine import folder as folders
from gaf.lab.engine.config import RunConfig
from gaf.lab.engine.folder import Result, read_result
from gaf.lab.engine.identity import RunIdentity, identify_all
from gaf.lab.engine.signals import listening

RUNS = "runs"  # the folder of the runs, within that of what they are for
NOT_COMPUTED = ("name", *folders.WHERE)  # keys of a config that do not change the result
LOOK = 0.2  # seconds between two looks at the runs


class RunFailed(Exception):
    """A run that crashed, with its error in a line; other runs go on."""


class Stopped(KeyboardInterrupt):
    """The grid was told to stop by a signal; what has run is kept, and the same grid goes on from there."""

    def __init__(self, number: int, finished: int, total: int) -> None:
        super().__init__(f"stopped with {finished} of {total} runs finished")
        self.number = number


class Executor(Protocol):
    """What trains runs."""

    def submit(
        self, config: RunConfig, folder: Path, seen: Callable[[int, int], None]
    ) -> Future[None]:
        """Train in a folder, now or later; the future ends when the run is finished there.

        It goes on from the last checkpoint in the folder. ``seen(step, total)`` may be told how far the
        run is. The future raises :class:`RunFailed` where the run crashed; any other error ends the grid.
        """
        ...

    def stop(self) -> None:
        """Let runs in progress save and end, and begin no more; all futures end."""
        ...


@dataclass(frozen=True)
class Outcome:
    """What came of a run: a result, which may be a divergence, or the error it failed with."""

    folder: Path
    result: Result | None
    error: str = ""

    @property
    def score(self) -> float | None:
        """None where the run failed."""
        return None if self.result is None else self.result.score


def higher_is_better(outcomes: Iterable[Outcome]) -> bool:
    """What the first run that came to an end says of its score."""
    return next((one.result.higher_is_better for one in outcomes if one.result), True)


class Watch:
    """Whoever wants to see a grid on its way; this one does nothing."""

    def phase(self, title: str) -> None:
        """What the next grid is for."""

    def settings(self, names: Mapping[str, str]) -> None:
        """The setting of each run of the next grid, by :func:`digest`."""

    def begin(self, configs: Sequence[RunConfig], finished: int) -> None:
        """All runs of the grid; so many were found finished, and are the first to end."""

    def progress(self, config: RunConfig, step: int, total: int) -> None:
        """How far a run is; called from other threads."""

    def ended(self, config: RunConfig, outcome: Outcome) -> None:
        """A run has ended, or was found finished."""

    def first_run(self) -> None:
        """The last grid was the first run of a script, which is sound; the others follow."""

    def look(self) -> None:
        """A fifth of a second has passed."""

    def end(self) -> None:
        """No more."""


def digest(config: RunConfig) -> str:
    """Sixteen letters that tell configs apart by what they ask for, not by name or place.

    Example:
        >>> from gaf.lab.study import recipes
        >>> config = recipes.get("digits-cnn-sgdm")
        >>> digest(config) == digest(config.model_copy(update={"name": "x", "devices": 2}))
        True
        >>> digest(config) == digest(config.model_copy(update={"seed": 1}))
        False
    """
    data = config.model_dump(mode="json", exclude=set(NOT_COMPUTED))
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Place:
    """Where a run belongs: a folder whose name stands for config, code and data."""

    folder: Path
    identity: RunIdentity

    def finished(self) -> Outcome | None:
        """The outcome of the run, where it is finished there with this code and data."""
        if folders.read_identity(self.folder) != self.identity:
            return None
        return finished(self.folder)


def places(configs: Iterable[RunConfig], folder: Path) -> dict[str, Place]:
    """The place of each config in the folder of the runs, by :func:`digest`; this reads the data.

    Raises:
        GafError: a task cannot be made, or its data is not there.
    """
    wanted = {digest(config): config for config in configs}
    identities = zip(wanted.items(), identify_all(wanted.values()), strict=True)
    return {
        key: Place(folder / identity.digest(config, NOT_COMPUTED), identity)
        for (key, config), identity in identities
    }


def check_place(folder: Path, what: str, *parts: str) -> None:
    """Refuse a folder with other things in it: ``what`` is known by its runs, or by one of these parts."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise GafError(f"{folder} is not a folder")
    if any((folder / part).exists() for part in (RUNS, *parts)):
        return
    if any(not path.name.startswith(".") for path in folder.iterdir()):
        raise GafError(f"{folder} is not empty and holds no {what}; choose another folder (--out)")


def machine(run: Path) -> dict[str, Any]:
    """What a run recorded about the machine, without what is the run's own."""
    return folders.read_environment(run).machine()


def run_grid(
    configs: Iterable[RunConfig], folder: Path, executor: Executor, watch: Watch | None = None
) -> dict[str, Outcome]:
    """Train each config once, in ``folder``, in this order as far as the executor keeps it.

    Returns:
        The outcomes by :func:`digest`, in the order of the configs.

    Raises:
        Stopped: a signal came; what is finished stays so, what was in progress has a checkpoint.
    """
    watch = watch or Watch()
    wanted = {digest(config): config for config in configs}
    at = places(wanted.values(), folder)
    outcomes = {key: outcome for key, place in at.items() if (outcome := place.finished())}
    watch.begin(list(wanted.values()), len(outcomes))
    for key, outcome in outcomes.items():
        watch.ended(wanted[key], outcome)
    try:
        with listening() as wish:
            futures = {
                _submit(config, at[key].folder, executor, watch): key
                for key, config in wanted.items()
                if key not in outcomes
            }
            waiting = set(futures)
            while waiting:
                done, waiting = concurrent.futures.wait(
                    waiting, timeout=LOOK, return_when=concurrent.futures.FIRST_COMPLETED
                )
                if wish.number:
                    executor.stop()
                    raise Stopped(wish.number, len(outcomes), len(wanted))
                for future in done:
                    key = futures[future]
                    outcomes[key] = _outcome(future, at[key])
                    watch.ended(wanted[key], outcomes[key])
                watch.look()
    finally:
        watch.end()
    return {key: outcomes[key] for key in wanted}


def finished(folder: Path) -> Outcome | None:
    """The outcome of a run that is finished in a folder."""
    if not (folder / folders.FINISHED).is_file():
        return None
    try:
        return Outcome(folder, read_result(folder))
    except GafError:
        raise GafError(
            f"{folder / folders.FINISHED} is damaged; remove {folder} to run it again"
        ) from None


def _submit(config: RunConfig, folder: Path, executor: Executor, watch: Watch) -> Future[None]:
    def seen(step: int, total: int) -> None:
        watch.progress(config, step, total)

    return executor.submit(_as_begun(config, folder), folder, seen)


def _as_begun(config: RunConfig, folder: Path) -> RunConfig:
    """The config under the name with which the run in the folder was begun."""
    try:
        return config.model_copy(update={"name": folders.read_config(folder).name})
    except GafError:  # nothing there, or a damaged folder, which the run will complain of
        return config


def _outcome(future: Future[None], place: Place) -> Outcome:
    folder = place.folder
    try:
        future.result()
    except RunFailed as failed:
        return Outcome(folder, None, str(failed)[:LONGEST])
    there = folders.read_identity(folder)
    if there is None or (changed := place.identity.difference(there)):
        what = changed if there else "the code or the data has changed"
        return Outcome(folder, None, f"{what} while the runs went on; run the same command again")
    return Outcome(folder, read_result(folder))
