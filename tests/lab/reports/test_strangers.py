"""Results that a stranger hands on: whatever stands in the files, a page comes of it or one sentence."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from gaf.common.errors import GafError
from gaf.common.files import LARGEST, LONGEST
from gaf.lab.cli.app import run
from gaf.lab.cli.trainings import trained_in
from gaf.lab.engine.config import RunConfig, read
from gaf.lab.engine.folder import IDENTITY
from gaf.lab.engine.run import train
from gaf.lab.reports import page, table_page, tables
from gaf.lab.reports.comparison_table import comparison_table
from gaf.lab.reports.comparison_terminal import TerminalComparison
from gaf.lab.reports.gather import gather
from gaf.lab.reports.history import histories
from gaf.lab.reports.paper_table import paper_table
from gaf.lab.study import recipes, results
from gaf.lab.study.compare import compare
from gaf.lab.study.compare import read as read_comparison
from gaf.lab.study.grid import RUNS
from gaf.lab.study.grid import places as run_places
from gaf.lab.study.landscape import reached
from gaf.lab.study.plan import Plan
from gaf.lab.study.results import Comparison, Filled
from gaf.lab.study.table.fill import fill
from gaf.lab.study.table.plan import make
from tests.lab.engine.tiny import tiny_config
from tests.lab.reports.example import BASELINE, ORDINARY, Setting, example, write_run
from tests.lab.reports.hostile import VALUES, Place, changed, places
from tests.lab.reports.tuned import small_tuning

ARCTAN = "arctan(0.1, 20)@momentum"
SENTENCE = 3000  # characters, a path among them


class Refusing:
    """An executor for what is finished already."""

    def submit(self, config, folder, seen) -> Future[None]:
        raise GafError("there was something to train")

    def stop(self) -> None:
        pass


def all_of(compared: Comparison, folder: Path) -> None:
    """The page and every text of a comparison."""
    page.render(compared, histories(compared, folder))
    every_text(comparison_table(compared))
    Console(file=io.StringIO(), width=80).print(TerminalComparison(compared))


def every_text(table: tables.ResultTable) -> None:
    for text in (tables.markdown, tables.latex, tables.as_csv):
        text(table)
    Console(file=io.StringIO(), width=80).print(tables.TerminalTable(table))


def compared(folder: Path) -> tuple[list[Path], Callable[[], None]]:
    settings = {
        BASELINE: Setting("baseline", (0.9, 0.0)),
        ARCTAN: Setting("function", (0.95, None), BASELINE, "arctan(0.1, 20)"),
    }
    found = example(folder, settings, seeds=(0, 1))
    results.write(found.model_copy(update={"tuning": small_tuning(settings)}), folder)
    files = [folder / "comparison.json", folder / "runs" / "1-0" / "metrics.jsonl"]
    return [*files, folder / "runs" / "1-0" / "config.json"], lambda: all_of(
        read_comparison(folder), folder
    )


def gathered(folder: Path) -> tuple[list[Path], Callable[[], None]]:
    runs = [folder / "a", folder / "b"]
    write_run(runs[0], 0.9, 0, None)
    write_run(runs[1], 0.95, 0, "arctan(0.1, 20)")
    names = ("metrics.jsonl", "config.json", "finished.json", "environment.json")
    return [runs[1] / name for name in names], lambda: all_of(*gather(runs))


def finish(configs: Iterable[RunConfig], runs: Path) -> list[Path]:
    """Runs that a grid takes for its own, finished."""
    at = list(run_places(configs, runs).values())
    for number, place in enumerate(at):
        write_run(place.folder, 0.8 + number / 100, number % 2, None)
        (place.folder / IDENTITY).write_text(place.identity.model_dump_json())
    return [place.folder for place in at]


def compare_again(folder: Path) -> tuple[list[Path], Callable[[], None]]:
    """What ``gaf compare`` reads when it goes on: all runs are finished."""
    plan = Plan(recipes.get("digits-cnn-sgdm"), ("arctan(0.1, 20)",), (0, 1), tuning=None)
    settings = [entry.setting for entry in plan.entries()]
    configs = [
        config
        for setting in settings
        for config in plan.finals(setting, setting.config.optimizer.lr, plan.seeds)
    ]
    runs = finish(configs, folder / RUNS)
    compare(plan, folder, Refusing())
    files = [folder / "comparison.json"]
    names = ("metrics.jsonl", "finished.json", "environment.json", IDENTITY)
    files += [runs[0] / name for name in names]
    return files, lambda: all_of(compare(plan, folder, Refusing()), folder)


def table_again(folder: Path) -> tuple[list[Path], Callable[[], None]]:
    """What ``gaf table`` reads when it goes on, and ``gaf report`` of it."""
    plan = make(
        "cifar-adam",
        models=["cifar10-resnet34"],
        settings=["arctan(0.1, 20)"],
        seeds=2,
        changes=("task.data=digits",),  # which are there on every machine
    )
    runs = finish(plan.runs(), folder / RUNS)
    fill(plan, folder, Refusing())

    def everything() -> None:
        for table in (results.read(folder, Filled), fill(plan, folder, Refusing())):
            table_page.render(table)
            every_text(paper_table(table))

    files = [folder / "table.json"]
    return [*files, runs[0] / "finished.json", runs[0] / "environment.json"], everything


def landscape(folder: Path) -> tuple[list[Path], Callable[[], None]]:
    """What ``gaf landscape`` builds before it looks; the task is a name that the user gives."""
    train(tiny_config("epochs=1"), folder)
    kind = "tests.lab.engine.tiny:Tiny"

    def build() -> None:
        reached(folder, trained_in(folder, kind))

    build()
    return [folder / "config.json"], build


MAKERS = (compared, gathered, compare_again, table_again, landscape)


def mutants(path: Path) -> list[tuple[str, Callable[[], str]]]:
    """What the file may be, with a name for each: every value at every place."""
    content = path.read_text("utf-8")
    lines = [json.loads(line) for line in content.splitlines()] if path.suffix == ".jsonl" else []
    tree = lines or json.loads(content)
    if path.name == "config.json":  # with all its keys
        tree = read(tree).model_dump(mode="json")

    def one(place: Place, text: str, only_first: bool) -> str:
        if not lines:
            return changed(tree, place, text, only_first)
        some = lines[:1] if only_first else lines
        new = [changed(each, place[1:], text) for each in some]
        return "".join(f"{line}\n" for line in (*new, *map(json.dumps, lines[len(some) :])))

    return [
        (
            f"{path.name} {'.'.join(place)} {name}, first only: {only_first}",
            partial(one, place, text, only_first),
        )
        for place in places(tree)
        if place or not lines
        for name, text in VALUES.items()
        for only_first in ((False, True) if "*" in place else (False,))
    ]


def tried(files: list[Path], use: Callable[[], None], every: int) -> tuple[int, int]:
    """Use the files with each ``every``-th mutant of each; how many gave a sentence, and how many a page."""
    sentences, pages = [], 0
    for path in files:
        before = path.read_bytes()
        for label, content in mutants(path)[::every]:
            path.write_bytes(content().encode())
            try:
                use()
                pages += 1
            except GafError as error:
                sentences.append(str(error))
            except Exception as error:
                raise AssertionError(f"{label}: {type(error).__name__}: {error}") from error
        path.write_bytes(before)
    use()  # as it was
    assert not [each for each in sentences if "\n" in each or len(each) > SENTENCE]
    return len(sentences), pages


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.__name__)
def test_a_stranger_s_file_gives_a_page_or_a_sentence(maker, tmp_path):
    """A prime step, so that every value comes by at some place."""
    sentences, _ = tried(*maker(tmp_path / "here"), every=151)
    assert sentences


@pytest.mark.slow
@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.__name__)
def test_many_values_at_every_place(maker, tmp_path):
    sentences, pages = tried(*maker(tmp_path / "here"), every=11)
    assert min(sentences, pages) > 0


def edit(path: Path, **changes) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


CASES = {
    "no rows": (
        lambda f: edit(f / "comparison.json", rows=[]),
        "comparison.json is damaged: rows",
    ),
    "not JSON": (lambda f: (f / "comparison.json").write_text("{"), "the comparison is not JSON"),
    "not an object": (
        lambda f: (f / "comparison.json").write_text("[]"),
        "the comparison should be an object",
    ),
    "a score that is a text": (
        lambda f: edit(f / "comparison.json", rows=[{**first_row(f), "scores": ["high"]}]),
        "rows.0.scores.0 should be a valid number, got 'high'",
    ),
    "no score for a seed": (
        lambda f: edit(f / "comparison.json", rows=[{**first_row(f), "scores": [0.5]}]),
        "a row does not have a score for each seed",
    ),
    "a step beyond numbers": (
        lambda f: record(f, '{"kind": "test", "step": 1e400, "top1": 0.5}'),
        "metrics.jsonl is damaged: line 1: step",
    ),
    "a text for a histogram": (
        lambda f: record(f, '{"kind": "gradients", "step": 1, "histogram": "tall"}'),
        "metrics.jsonl is damaged: line 1: histogram should be",
    ),
    "no share": (
        lambda f: record(f, '{"kind": "gradients", "step": 1, "saturated": null}'),
        "saturated should be a valid number, got None",
    ),
    "an edge beyond numbers": (
        lambda f: record(f, '{"kind": "gradients", "step": 1, "histogram": {"1e9": 0.5}}'),
        "histogram.1e9",
    ),
    "a score of a test that is a text": (
        lambda f: record(f, '{"kind": "test", "step": 1, "top1": "high"}'),
        "top1 should be a valid number, got 'high'",
    ),
    "a title of a million characters": (
        lambda f: edit(f / "comparison.json", title="x" * 1_000_000),
        f"a text of 1,000,000 characters is longer than {LONGEST:,}",
    ),
    "an environment of a million characters": (
        lambda f: edit(f / "comparison.json", environment={"cpu": ["x" * 1_000_000]}),
        f"a text of 1,000,000 characters is longer than {LONGEST:,}",
    ),
    "a file that is too large": (
        lambda f: (f / "comparison.json").write_bytes(b" " * (LARGEST + 1)),
        "comparison.json is larger than 16 MB: gaf has not written it",
    ),
}


def first_row(folder: Path) -> dict:
    return json.loads((folder / "comparison.json").read_text())["rows"][0]


def record(folder: Path, line: str) -> None:
    path = folder / "runs" / "0-0" / "metrics.jsonl"
    path.write_text(f"{line}\n{path.read_text()}")


@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_is_one_line_that_names_the_file(case, tmp_path, capsys):
    damage, says = CASES[case]
    example(tmp_path / "theirs", {BASELINE: ORDINARY[BASELINE], ARCTAN: ORDINARY["adam"]})
    damage(tmp_path / "theirs")
    assert run(["report", str(tmp_path / "theirs")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert len(err) < SENTENCE
    assert says in err
    assert "Error" not in err
    assert not (tmp_path / "theirs" / "report.html").exists()


def test_numbers_at_the_end_of_the_range_are_shown(tmp_path):
    """Sums and squares of them are beyond a float: inf, not an error."""
    huge = Setting("rule", (1.7e308, -1.7e308, 1.7e308))
    settings = {BASELINE: huge, "x": Setting("rule", (1.6e308, 1.7e308, 1.7e308))}
    runs = []
    for name, each in settings.items():
        for seed, score in enumerate(each.scores):
            place = tmp_path / f"{name}-{seed}"
            write_run(place, score, seed, None, name=name)
            edit(place / "config.json", name=name, epochs=1 + len(runs) // 3)
            edit(place / "finished.json", final={"top1": score, "loss": -1.7e308})
            line = {"kind": "train", "step": 1, "epoch": 1.0, "loss": 1.7e308}
            (place / "metrics.jsonl").write_text(2 * f"{json.dumps(line)}\n")
            runs.append(place)
    found, above = gather(runs)
    all_of(found, above)
    assert found.rows[0].std == math.inf
