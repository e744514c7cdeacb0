"""The page of an atlas: every cell, its words, and names that stay text."""

import pytest

from gaf.lab.reports.atlas_page import atlas_words, render, terminal_map, write_atlas
from gaf.lab.reports.html import PAGE
from gaf.lab.study.atlas.atlas import Atlas, study_of
from gaf.lab.study.atlas.predictions import Prediction, Predictions
from gaf.lab.study.atlas.suite import read_suite
from tests.lab.reports.example import HOSTILE
from tests.lab.reports.tuned import ARCTAN, RULES, TANH, tuned_comparison

PROBLEMS = read_suite().problems


def atlas_of(comparison=None, **changes):
    cells = (
        Prediction(
            problems=tuple(problem.name for problem in PROBLEMS),
            rules=(ARCTAN,),
            sign="better",
            why="because",
            source="a paper",
        ),
        Prediction(problems=(PROBLEMS[0].name,), rules=(TANH,), sign="worse", why="so", source="x"),
    )
    predictions = Predictions(made="2026-01-02", cells=cells)
    comparison = comparison or tuned_comparison()
    studies = tuple(
        study_of(problem.model_copy(update=changes), comparison, predictions)
        for problem in PROBLEMS[:3]
    )
    return Atlas(
        title="A map",
        studies=studies,
        planned=tuple(problem.name for problem in PROBLEMS[:4]),
        predicted=predictions.made,
        created="2026-11-18T12:00:00+00:00",
    )


def test_every_cell_is_on_the_page_with_its_verdict_and_its_study(tmp_path):
    atlas = atlas_of()
    (tmp_path / PROBLEMS[0].name).mkdir()
    (tmp_path / PROBLEMS[0].name / PAGE).touch()
    text = write_atlas(atlas, tmp_path).read_text("utf-8")
    # a cell of each rule but the baseline on each problem
    assert text.count("<td class=") >= 3 * (len(RULES) - 1)
    assert f'href="{PROBLEMS[0].name}/{PAGE}"' in text
    assert f'href="#{PROBLEMS[1].name}"' in text  # a study that was not made here
    assert f"Still without a study: {PROBLEMS[3].name}" in text
    assert all(problem.title in text for problem in PROBLEMS[:3])


def test_hits_and_misses_and_chance_are_said():
    words = " ".join(atlas_words(atlas_of()))
    # arctan is better on three problems as predicted, tanh too, once against the prediction
    assert "3 of 4 cells came out as expected, 1 did not" in words
    assert "Predicted on 2026-01-02, before the runs" in words
    assert "some 0.075 cells would be called better by chance" in words
    assert f"it helps on {', '.join(problem.name for problem in PROBLEMS[:3])}" in words


def test_names_of_users_stay_text(tmp_path):
    rules = {**RULES, HOSTILE: RULES["adam"]}
    text = render(atlas_of(tuned_comparison(rules), title=HOSTILE, why=HOSTILE), tmp_path)
    assert HOSTILE not in text
    assert "&lt;script&gt;" in text


def test_the_terminal_has_a_row_for_each_rule_and_a_column_for_each_problem():
    table = terminal_map(atlas_of())
    assert len(table.columns) == 4
    assert len(table.rows) == len(RULES) - 1


@pytest.mark.parametrize("value", [float("inf"), -float("inf"), float("nan")])
def test_a_difference_that_is_not_finite_is_shown(tmp_path, value):
    atlas = atlas_of()
    study = atlas.studies[0]
    cells = []
    for cell in study.cells:
        if cell.vs_baseline is None:
            cells.append(cell)
            continue
        gap = cell.vs_baseline.model_copy(update={"mean": value, "low": value, "high": value})
        cells.append(cell.model_copy(update={"vs_baseline": gap}))
    changed = study.model_copy(update={"cells": tuple(cells)})
    assert "The map" in render(atlas.model_copy(update={"studies": (changed,)}), tmp_path)
