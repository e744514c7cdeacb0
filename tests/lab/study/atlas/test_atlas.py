"""The map: what a comparison becomes, what is counted, and a suite that goes on where it was killed."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from rich.console import Console

from gaf.common.errors import GafError
from gaf.lab.engine import config as configs
from gaf.lab.study.atlas.atlas import Atlas, Places, known, run_suite, study_of
from gaf.lab.study.atlas.cost import costs
from gaf.lab.study.atlas.predictions import Prediction, Predictions
from gaf.lab.study.atlas.records import NoTraining, RunRecords
from gaf.lab.study.atlas.suite import Suite, read_suite
from gaf.lab.study.statistics import paired
from tests.forked import ROOT
from tests.lab.reports.tuned import ARCTAN, SGD, TANH, tuned_comparison
from tests.lab.study.grid_tasks import KIND, Here

PROBLEM = read_suite().problem("digits-cnn")
QUIET = Console(quiet=True)


def predicted(rule, sign):
    cell = Prediction(
        problems=(PROBLEM.name,), rules=(rule,), sign=sign, why="so", source="a paper"
    )
    return Predictions(made="2026-01-01", cells=(cell,))


def suite_of(rules=("clip-norm-1", "lion"), **options):
    """Tiny trainings: two problems, two rates, two seeds."""
    config = {
        "task": {"kind": KIND, "options": options},
        "optimizer": {"lr": 0.1, "momentum": 0.9},
        "epochs": 3,
        "batch_size": 16,
        "accelerator": "cpu",
    }
    problem = {
        **{"title": "Tiny", "why": "no reason", "sources": ["none"], "rules": "few"},
        **{"seeds": 2, "tuning_seeds": 1, "config": config},
    }
    values = {
        **{"title": "A tiny atlas", "rates": 2, "rules": {"few": list(rules)}},
        "problems": [{**problem, "name": "one"}, {**problem, "name": "two"}],
        "quick": {
            **{"problems": ["one"], "rules": ["lion"]},
            **{"rates": 2, "seeds": 2, "tuning_seeds": 1},
        },
    }
    return configs.read(values, Suite)


def run(suite, places, executor, names=("one", "two"), rules=()):
    problems = [suite.problem(name) for name in names]
    return run_suite(suite, problems, rules, places, executor, QUIET)


# --- a comparison as a row of the map ---


def test_a_cell_has_what_the_comparison_says():
    comparison = tuned_comparison()
    study = study_of(PROBLEM, comparison, None)
    for row in comparison.rows:
        cell = study.cell(row.setting)
        curve = comparison.tuning.curves[row.setting]
        assert (cell.mean, cell.verdict, cell.vs_baseline) == (
            *(row.mean, row.verdict, row.vs_baseline),
        )
        assert (cell.window, cell.best_of) == (curve.window, curve.best_of)
        assert (cell.predicted, cell.hit) == (None, None)


def test_the_best_rule_is_chosen_by_validation_and_not_by_test():
    comparison = tuned_comparison()
    study = study_of(PROBLEM, comparison, None)
    # clip-norm-1 has the best validation score, tanh the best test score
    assert study.best == "clip-norm-1"
    assert max(study.cells, key=lambda cell: cell.mean or 0).rule == TANH
    assert study.cell("clip-norm-1").vs_best is None
    pair = paired(comparison.row(TANH).scores, comparison.row("clip-norm-1").scores)
    gap = study.cell(TANH).vs_best
    assert (gap.against, gap.mean, gap.low, gap.high) == (
        *("clip-norm-1", pair.mean, pair.low, pair.high),
    )


def test_a_rule_that_failed_has_no_gap():
    assert study_of(PROBLEM, tuned_comparison(), None).cell("broken").vs_best is None


def test_controls_stay_in_the_study():
    comparison = tuned_comparison()
    rows = tuple(
        row.model_copy(update={"kind": "control"}) if row.setting == TANH else row
        for row in comparison.rows
    )
    study = study_of(PROBLEM, comparison.model_copy(update={"rows": rows}), None)
    assert study.cell(TANH) is None


@pytest.mark.parametrize("sign", ["better", "worse", "no difference"])
def test_a_prediction_is_hit_by_its_own_verdict_alone(sign):
    comparison = tuned_comparison()
    cell = study_of(PROBLEM, comparison, predicted(ARCTAN, sign)).cell(ARCTAN)
    assert cell.verdict == "better"
    assert cell.hit is (sign == "better")
    assert cell.predicted.sign == sign


def test_neither_learned_counts_as_no_difference_and_a_failure_not_at_all():
    comparison = tuned_comparison()
    rows = tuple(
        row.model_copy(update={"verdict": "nothing learned"}) if row.setting == TANH else row
        for row in comparison.rows
    )
    changed = comparison.model_copy(update={"rows": rows})
    assert study_of(PROBLEM, changed, predicted(TANH, "no difference")).cell(TANH).hit is True
    assert study_of(PROBLEM, changed, predicted("broken", "worse")).cell("broken").hit is None


def test_what_chance_does_is_counted_by_problem_and_by_cell():
    study = study_of(PROBLEM, tuned_comparison(), predicted(ARCTAN, "worse"))
    atlas = Atlas(title="a", studies=(study,) * 4, planned=(), created="now")
    judged = sum(cell.vs_baseline is not None for cell in study.cells)
    assert atlas.by_chance == (pytest.approx(4 * 0.025), pytest.approx(4 * judged * 0.025))
    assert atlas.hits == (0, 4)
    assert SGD in atlas.rules


# --- running ---


@pytest.mark.slow
def test_a_suite_resumes_from_records_without_training(tmp_path):
    suite, executor = suite_of(), Here()
    first, _ = run(suite, Places(tmp_path / "a", tmp_path / "records"), executor)
    assert [study.name for study in first.studies] == ["one", "two"]
    assert len(executor.asked) >= 2 * 3 * (2 + 4)
    again = Here()
    second, _ = run(suite, Places(tmp_path / "b", tmp_path / "records"), again)
    assert again.asked == []
    run(suite, Places(tmp_path / "c", tmp_path / "records"), NoTraining())

    def plain(atlas):
        values = atlas.model_dump()
        for study in values["studies"]:
            del study["created"]
        return values["studies"]

    assert plain(first) == plain(second)


def test_a_problem_that_is_not_recorded_is_left_out_where_nothing_may_train(tmp_path):
    suite, said = suite_of(), []
    places = Places(tmp_path / "a", tmp_path / "records")
    problems = [suite.problem("one")]
    with pytest.raises(GafError, match="no problem could be studied"):
        run_suite(suite, problems, (), places, NoTraining(), QUIET, (), said.append)
    assert said == ["one is left out: one: sgd, lr 0.1, seed 1000, is not recorded"]


@pytest.mark.slow
def test_a_rule_that_comes_later_trains_alone(tmp_path):
    suite, places = suite_of(), Places(tmp_path / "a", tmp_path / "records")
    before, _ = run(suite, places, Here(), ["one"], ["lion"])
    shutil.rmtree(tmp_path / "a")
    executor = Here()
    after, _ = run(suite, places, executor, ["one"])
    assert {config.optimizer.clip_norm for config in executor.asked} == {1.0}
    assert before.studies[0].cell("lion").mean == after.studies[0].cell("lion").mean
    assert after.studies[0].cell("clip-norm-1") is not None


@pytest.mark.slow
def test_a_problem_that_was_studied_before_stays_in_the_map(tmp_path):
    suite, places = suite_of(), Places(tmp_path / "a", tmp_path / "records")
    run(suite, places, Here(), ["two"], ["lion"])
    atlas, comparisons = run(suite, places, Here(), ["one"], ["lion"])
    assert [study.name for study in atlas.studies] == ["one", "two"]
    assert list(comparisons) == ["one"]
    assert [study.name for study in known(suite, places.records).studies] == ["one", "two"]


def test_two_at_once_are_refused(tmp_path):
    from gaf.lab.study.atlas.atlas import locked

    places = Places(tmp_path / "a", tmp_path / "records")
    with (
        locked(places.records),
        pytest.raises(GafError, match="another process is writing the records"),
    ):
        run(suite_of(), places, Here())


def test_without_any_data_there_is_no_atlas(tmp_path, monkeypatch):
    monkeypatch.setenv("GAF_DATA", str(tmp_path / "nowhere"))
    suite, said = read_suite(), []
    problems = [suite.problem("fashion-mnist")]
    places = Places(tmp_path / "a", tmp_path / "records")
    with pytest.raises(GafError, match="no problem could be studied"):
        run_suite(suite, problems, ["lion"], places, Here(), QUIET, (), said.append)
    assert said[0].startswith("fashion-mnist is left out: ")


def test_the_cost_is_measured_on_a_few_steps_and_counts_all_runs(tmp_path):
    suite, said = suite_of(), []
    places = Places(tmp_path / "a", tmp_path / "records")
    (cost,) = costs(suite, [suite.problem("one")], (), places, said.append)
    assert (cost.rules, cost.runs, cost.recorded, cost.steps) == (3, 3 * (2 + 4), 0, 15)
    assert cost.seconds > 0
    assert cost.left == pytest.approx(18 * cost.seconds)
    assert said == ["timing 20 steps of one"]


def test_the_cost_of_a_problem_without_its_data_is_unknown(tmp_path, monkeypatch):
    monkeypatch.setenv("GAF_DATA", str(tmp_path / "nowhere"))
    suite = read_suite()
    places = Places(tmp_path / "a", tmp_path / "records")
    (cost,) = costs(suite, [suite.problem("fashion-mnist")], ["lion"], places)
    assert (cost.seconds, cost.left) == (None, None)
    assert "fashion-mnist" in cost.measured


# --- as people run it ---


def gaf(*arguments, **options):
    command = [sys.executable, "-m", "gaf.lab.cli", "atlas", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    return subprocess.Popen(command, env=environment, text=True, **options)


@pytest.mark.slow
def test_nothing_that_is_finished_is_lost_by_a_kill(tmp_path):
    """kill -9 at any moment, to the whole group; the runs go on from the records without their folders."""
    suite = tmp_path / "mine.json"
    values = suite_of(["lion"], pause=0.005).model_dump(mode="json")
    suite.write_text(json.dumps({**values, "problems": values["problems"][:1]}))
    records = tmp_path / "records"
    arguments = (suite, "--records", records, "--workers", 1)

    def recorded():
        path = records / "one.jsonl"
        return set(RunRecords(path).runs) if path.exists() else set()

    kept: set[str] = set()
    for number in (1, 4):
        with open(tmp_path / f"{number}.log", "w") as log:
            process = gaf(
                *(*arguments, "--out", tmp_path / f"out{number}"),
                **{"stdout": log, "stderr": log, "start_new_session": True, "cwd": tmp_path},
            )
            until = time.monotonic() + 120
            while len(recorded()) < number and time.monotonic() < until:
                assert process.poll() is None, (tmp_path / f"{number}.log").read_text()
                time.sleep(0.02)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        assert recorded() >= kept
        kept = recorded()
        assert len(kept) >= number
    last = gaf(
        *(*arguments, "--out", tmp_path / "last", "--json"),
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": tmp_path},
    )
    printed, said = last.communicate(timeout=200)
    assert last.returncode == 0, said
    assert [study["name"] for study in json.loads(printed)["studies"]] == ["one"]
    lines = (records / "one.jsonl").read_text().splitlines()
    runs = [line["run"] for line in map(json.loads, lines) if line["kind"] == "run"]
    assert len(runs) == len(set(runs))  # none was trained again
    assert kept <= set(runs)


def processor_seconds():
    """Of all child processes that have ended, and of theirs: what else the machine does is not in it."""
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.slow
def test_quick_ends_in_minutes_with_a_page(tmp_path):
    before = processor_seconds()
    process = gaf(
        *("--quick", "--json"),
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": tmp_path},
    )
    printed, said = process.communicate(timeout=600)
    took = processor_seconds() - before
    assert process.returncode == 0, said
    atlas = json.loads(printed)
    assert len(atlas["studies"]) == 3
    means = [cell["mean"] for study in atlas["studies"] for cell in study["cells"]]
    assert all(mean is not None and math.isfinite(float(mean)) for mean in means)
    page = tmp_path / "runs" / "atlas-quick" / "report.html"
    assert "The map" in page.read_text("utf-8")
    for study in atlas["studies"]:
        assert (page.parent / study["name"] / "report.html").is_file()
    assert took < 240  # of a core; 80 were seen
