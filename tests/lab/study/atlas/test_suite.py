"""The built-in suite says what it promises, and another one is read with care."""

import json
from pathlib import Path

import pytest

from gaf.common.errors import GafError
from gaf.lab.engine import config as configs
from gaf.lab.study.atlas.predictions import read_predictions
from gaf.lab.study.atlas.records import RunRecords
from gaf.lab.study.atlas.suite import Suite, is_here, read_suite
from gaf.lab.study.settings import make

RECORDS = Path(__file__).resolve().parents[4] / "results" / "atlas"
SUITE = read_suite()
FIRST = SUITE.problems[0].model_dump(mode="json")
LONG = ("text", "text-spoilt", "fashion-mnist")  # a run takes half a minute
LONGEST = ("cifar10", "cifar100", "voc")  # minutes


def changed(**values):
    return {**SUITE.model_dump(mode="json"), **values}


@pytest.mark.parametrize("problem", SUITE.problems, ids=lambda problem: problem.name)
def test_every_problem_has_a_plan_a_reason_and_a_source(problem):
    plan = SUITE.plan(problem)
    assert plan.title == problem.name
    assert plan.tuning.rates == (3 if problem.name in LONGEST else 7)
    seeds = {**dict.fromkeys(LONG, 5), **dict.fromkeys(LONGEST, 3)}.get(problem.name, 10)
    assert len(plan.seeds) == seeds
    assert len(problem.why.split()) > 8
    assert problem.sources
    # the names of the map are those of the suite: predictions and --rules name them
    names = [entry.name for entry in plan.entries()]
    here = [rule for rule in SUITE.rules[problem.rules] if is_here(rule)]
    assert [name for name in names if name in here] == here


@pytest.mark.parametrize("problem", SUITE.problems, ids=lambda problem: problem.name)
def test_long_runs_have_few_rules(problem):
    rules = 1 + len(SUITE.rules[problem.rules])
    if problem.name in LONGEST:
        assert rules in (4, 5)
    else:
        assert rules == 8 if problem.name in LONG else rules > 8


def test_every_cell_was_predicted_once_and_no_other():
    predictions = read_predictions(RECORDS)
    cells = {
        (problem.name, rule) for problem in SUITE.problems for rule in SUITE.rules[problem.rules]
    }
    named = [(p, r) for cell in predictions.cells for p in cell.problems for r in cell.rules]
    assert sorted(named) == sorted(cells)
    assert all(cell.why and cell.source for cell in predictions.cells)


def test_a_cell_that_is_predicted_twice_is_refused(tmp_path):
    cell = {"problems": ["a"], "rules": ["b"], "sign": "better", "why": "x", "source": "y"}
    text = json.dumps({"made": "2026-01-01", "cells": [cell, {**cell, "sign": "worse"}]})
    (tmp_path / "predictions.json").write_text(text)
    with pytest.raises(GafError, match="b on a is predicted twice"):
        read_predictions(tmp_path)


def test_quick_is_three_problems_two_rates_and_two_seeds():
    quick = SUITE.quickly()
    assert len(quick.problems) == 3
    for problem in quick.problems:
        plan = quick.plan(problem)
        assert (plan.tuning.rates, len(plan.seeds)) == (2, 2)
        whole = SUITE.problem(problem.name).base
        assert (plan.base.epochs or plan.base.iterations) < (whole.epochs or whole.iterations)


def test_some_rules_of_a_problem():
    plan = SUITE.plan(SUITE.problem("cauchy"), ["lion", "clip-norm-1"])
    assert [entry.name for entry in plan.entries()] == ["sgd", "clip-norm-1", "lion"]


def test_a_rule_whose_package_is_not_here_is_left_out():
    missing = "no_such_package:Rule(0.1, beta=(1, 2))"
    problem = SUITE.problem("cauchy")
    suite = configs.read(changed(rules={**SUITE.rules, "all": ["lion", missing]}), Suite)
    assert [entry.name for entry in suite.plan(problem).entries()] == ["sgd", "lion"]
    assert suite.absent([problem]) == [missing]
    with pytest.raises(GafError, match="no_such_package"):
        make(problem.base, missing)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"problems": []}, "problems"),
        ({"problems": [{**FIRST, "name": "../x"}]}, r"problems\.0\.name String should match"),
        ({"problems": [{**FIRST, "name": "x/y"}]}, r"problems\.0\.name String should match"),
        ({"rules": {"everything": []}}, "unknown group of rules 'all'"),
        ({"quick": {**SUITE.quick.model_dump(), "problems": ["hat"]}}, "did you mean 'heat'"),
        ({"depth": 3}, "a suite has no key 'depth'"),
    ],
)
def test_what_is_wrong_with_a_suite_is_one_sentence(tmp_path, change, message):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(changed(**change)))
    with pytest.raises(GafError, match=message):
        read_suite(path)


def test_two_problems_of_one_name_and_unknown_names_are_refused():
    problems = [problem.model_dump(mode="json") for problem in SUITE.problems]
    with pytest.raises(GafError, match="two problems of one name"):
        configs.read(changed(problems=[*problems, problems[0]]), Suite)
    with pytest.raises(GafError, match="no problem 'caucy'; did you mean 'cauchy'"):
        SUITE.problem("caucy")
    with pytest.raises(GafError, match="no rule 'loin'; did you mean 'lion'"):
        SUITE.plan(SUITE.problems[0], ["loin"])


def test_the_committed_records_can_be_read_and_belong_to_the_suite():
    paths = sorted(RECORDS.glob("*.jsonl"))
    assert paths
    for path in paths:
        rules = {entry.name for entry in SUITE.plan(SUITE.problem(path.stem)).entries()}
        runs = RunRecords(path).runs.values()
        imported = {run.setting for run in runs if ":" in run.setting}  # its package may be missing
        assert {run.setting for run in runs} - imported <= rules
