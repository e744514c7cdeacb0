"""A grid of runs on its way: a table with the time left on a terminal, a line for each run elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from gaf.lab.engine.config import RunConfig
from gaf.lab.engine.progress import clock
from gaf.lab.study.grid import Outcome, Watch, digest

NARROWEST = 60


class LiveTable(Watch):
    """On a rich console, with a row for each setting.

    Args:
        console: where it is shown.
        title: of all grids.
        runs: how many there will be at least, in all grids.
        slots: how many at once.
    """

    def __init__(self, console: Console, title: str = "", runs: int = 0, slots: int = 1) -> None:
        self._console, self._title, self._lock = console, title, threading.Lock()
        self._runs, self._slots = runs, slots
        self._live: Live | None = None
        self._configs: dict[str, RunConfig] = {}
        self._settings: Mapping[str, str] = {}
        self._phase = ""

    def phase(self, title: str) -> None:
        self._phase = title
        if not self._console.is_terminal:
            self._console.print(Text(self._heading()), soft_wrap=True)

    def _heading(self) -> str:
        return ": ".join(filter(None, (self._title, self._phase)))

    def settings(self, names: Mapping[str, str]) -> None:
        self._settings = names

    def begin(self, configs: Sequence[RunConfig], finished: int) -> None:
        self._configs = {digest(config): config for config in configs}
        self._outcomes: dict[str, Outcome] = {}
        self._running: dict[str, float] = {}  # the share of each run that is done
        self._before, self._began = finished, time.monotonic()
        self._share_at_start: dict[str, float] = {}  # of a run that goes on
        self._started: dict[str, float] = {}
        self._seconds: list[float] = []  # that each run of this grid took in its process
        if finished:
            verb = "was" if finished == 1 else "were"
            text = f"{finished} of {len(configs)} runs {verb} finished before"
            if self._console.is_terminal and self._heading():
                text = f"{self._heading()}: {text}"
            self._console.print(Text(text), soft_wrap=True)
        if self._console.is_terminal and finished < len(configs):
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()

    def progress(self, config: RunConfig, step: int, total: int) -> None:
        with self._lock:
            key, share = digest(config), step / max(1, total)
            self._share_at_start.setdefault(key, share)
            self._started.setdefault(key, time.monotonic())
            self._running[key] = share

    def ended(self, config: RunConfig, outcome: Outcome) -> None:
        key = digest(config)
        with self._lock:
            self._running.pop(key, None)
            if key in self._started:
                self._seconds.append(time.monotonic() - self._started[key])
            self._outcomes[key] = outcome
        new = len(self._outcomes) > self._before
        if outcome.result is None or (new and not self._live):
            self._say(config, outcome)

    def _say(self, config: RunConfig, outcome: Outcome) -> None:
        result = outcome.result
        if result is None:
            what = f"failed: {outcome.error}"
        elif result.diverged:
            what = "diverged"
        else:
            what = f"{result.score_name} {result.score:.4g}"
        text = f"[{len(self._outcomes)}/{len(self._configs)}] {config.name}, seed {config.seed}: {what}"
        left = self.left()
        if left is not None and len(self._outcomes) < len(self._configs):
            text += f", {clock(left)} left"
        self._console.print(Text(text), soft_wrap=True)

    def left(self) -> float | None:
        """Seconds, as the runs so far let one expect; None before anything is done."""
        done = len(self._outcomes) - self._before + sum(self._running.values())
        done -= sum(self._share_at_start.values())
        todo = len(self._configs) - len(self._outcomes) - sum(self._running.values())
        return (time.monotonic() - self._began) * todo / done if done > 0.05 else None

    def first_run(self) -> None:
        if self._before or not self._runs or not self._seconds:
            return
        (seconds,) = self._seconds
        left = seconds * (self._runs - 1) / self._slots
        text = f"{self._title}: a run takes {clock(seconds)}, so at least {clock(left)} for all"
        self._console.print(Text(text), soft_wrap=True)

    def look(self) -> None:
        if self._live:
            with self._lock:
                shown = self._table()
            self._live.update(shown, refresh=True)

    def end(self) -> None:
        if self._live:
            self._live.stop()
            self._live = None

    def _table(self) -> RenderableType:
        table = Table(title=Text(self._heading()), min_width=NARROWEST)
        for column in ("setting", "runs", "now", "score so far"):
            table.add_column(column, justify="left" if column == "setting" else "right")
        rows: dict[str, list[str]] = {}
        for key, config in self._configs.items():
            rows.setdefault(self._settings.get(key, config.name), []).append(key)
        for name, keys in rows.items():
            ended = [self._outcomes[key] for key in keys if key in self._outcomes]
            now = [f"{self._running[key]:.0%}" for key in keys if key in self._running]
            scores = [outcome.result.score for outcome in ended if outcome.result]
            failed = len(ended) - len(scores)
            score = f"{sum(scores) / len(scores):.4g}" if scores else ""
            score += f" ({failed} failed)" if failed else ""
            table.add_row(Text(name), f"{len(ended)}/{len(keys)}", " ".join(now), score)
        left = self.left()
        text = f"{len(self._outcomes)} of {len(self._configs)} runs"
        text += f", {clock(left)} left" if left is not None else ""
        return Group(table, Text(text))
