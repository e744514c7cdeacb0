"""Runs made one by one, put together as if they had been compared."""

import json

import pytest

from gaf.lab.reports.comparison_table import comparison_table
from gaf.lab.reports.gather import gather
from gaf.lab.reports.tables import markdown
from tests.lab.reports.example import write_run

F = "arctan(0.1, 20)"


def change(place, **keys):
    path = place / "config.json"
    config = json.loads(path.read_text())
    for key, value in keys.items():
        part, _, inner = key.partition("__")
        if inner:
            config[part][inner] = value
        else:
            config[part] = value
    path.write_text(json.dumps(config))


@pytest.fixture
def runs(tmp_path):
    """f, the baseline and the control of f, two seeds each."""
    for seed in (0, 1):
        write_run(tmp_path / f"a-f-{seed}", 0.95 + 0.01 * seed, seed, F, name="with f")
        write_run(tmp_path / f"b-plain-{seed}", 0.9 + 0.02 * seed, seed, None, name="plain")
        write_run(tmp_path / f"c-twice-{seed}", 0.93, seed, None, name="twice the rate")
        change(tmp_path / f"c-twice-{seed}", optimizer__lr=0.2)
    return sorted(tmp_path.iterdir())


def test_settings_seeds_baseline_and_control_are_found(runs, tmp_path):
    found, above = gather(runs)
    assert above == tmp_path.resolve()
    assert [(row.setting, row.kind) for row in found.rows] == [
        ("plain", "baseline"),
        ("with f", "function"),
        ("twice the rate", "control"),
    ]
    assert found.seeds == (0, 1)
    assert found.row("with f").scores == (0.95, 0.96)
    assert found.row("with f").control == "twice the rate"
    assert found.row("with f").vs_control.mean == pytest.approx(0.025)
    assert {run.folder for run in found.runs} == {path.name for path in runs}
    assert found.environment["versions"] == {"torch": "2.13.0+cpu"}
    assert found.environment["trained by"]["a-f-1"] == ["gaf", "train", "digits-cnn-sgdm"]
    assert found.command[:3] == ("gaf", "report", "b-plain-0")


def test_runs_scored_on_validation_data_say_so(runs):
    for place in runs:
        change(place, task__validation=0.2, task__score_on="validation")
    assert gather(runs)[0].score_on == "validation"


def test_one_run(runs):
    found, above = gather(runs[:1])
    assert above == runs[0]
    assert found.title == "with f"
    assert [run.folder for run in found.runs] == ["."]
    assert len(found.rows) == 1
    assert found.command == ("gaf", "train", "digits-cnn-sgdm")


def test_a_seed_that_one_setting_lacks_is_not_compared(runs):
    found, _ = gather(runs[:3])  # f on both seeds, plain on seed 0
    assert found.row("with f").vs_baseline.n == 1
    assert list(found.row("plain").failed) == [1]
    assert len(found.runs) == 3
    text = found.row("plain").sentence + markdown(comparison_table(found))
    assert "1 of 2 not run" in text
    assert "failed" not in text


def test_settings_of_one_name_are_told_apart(runs):
    change(runs[4], name="plain")
    names = [row.setting for row in gather(runs[2:5])[0].rows]
    assert names[0] == "plain"
    assert names[1].startswith("plain (")


def test_auto_is_a_rule_without_a_matched_control(tmp_path):
    for seed in (0, 1):
        write_run(tmp_path / f"auto-{seed}", 0.95 + 0.01 * seed, seed, "auto", name="with auto")
        write_run(tmp_path / f"plain-{seed}", 0.9, seed, None, name="plain")
    alone, _ = gather([tmp_path / "auto-0", tmp_path / "auto-1"])
    assert [(row.kind, row.scores) for row in alone.rows] == [("baseline", (0.95, 0.96))]
    beside, _ = gather(sorted(tmp_path.iterdir()))
    assert [(row.setting, row.kind, row.control) for row in beside.rows] == [
        ("plain", "baseline", None),
        ("with auto", "rule", None),
    ]


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda runs: (runs[0] / "finished.json").unlink(), "not finished; resume with: gaf train"),
        (lambda runs: (runs[0] / "finished.json").write_text("{"), "is damaged"),
        (lambda runs: (runs[0] / "config.json").unlink(), "holds no run"),
        (lambda runs: (runs[0] / "config.json").write_text("{"), "not JSON"),
        (lambda runs: change(runs[0], task__model="mlp"), "different tasks"),
        (lambda runs: change(runs[1], seed=0), "hold the same run"),
        (lambda runs: change(runs[0], optimizer__activation="mine(3)"), "mine"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_a_sentence(runs, damage, says):
    damage(runs)
    with pytest.raises(ValueError, match=says) as error:
        gather(runs)
    assert "\n" not in str(error.value)


def test_a_missing_environment_is_no_obstacle(runs):
    (runs[0] / "environment.json").write_text("[]")
    found, _ = gather(runs[:1])
    assert found.environment == {}
