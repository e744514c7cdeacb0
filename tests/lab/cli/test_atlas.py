"""`gaf atlas` as people type it: help, a price, and mistakes in a sentence."""

import json

import pytest

from gaf.lab.cli.app import run


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_help_shows_an_example(capsys):
    assert run(["atlas", "--help"]) == 0
    assert "Example: gaf atlas" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["--problems", "caucy"], "the suite has no problem 'caucy'; did you mean 'cauchy'?"),
        (["--problems", "heat", "--rules", "loin"], "no rule 'loin'; did you mean 'lion'?"),
        (["missing.json"], "missing.json cannot be read"),
        (["--address", "a:1"], "--address is for --on ray"),
        (["--on", "ray", "--workers", "2"], "--workers is for this machine"),
    ],
)
def test_a_mistake_is_a_sentence(capsys, args, complaint):
    assert run(["atlas", *args]) == 2
    said = capsys.readouterr().err
    assert complaint in said
    assert "Traceback" not in said


def test_a_dry_run_trains_nothing_and_says_what_is_left(capsys, tmp_path):
    args = ["atlas", "--problems", "cauchy", "--rules", "lion, clip-norm-1", "--dry-run"]
    assert run([*args, "--json"]) == 0
    (cost,) = json.loads(capsys.readouterr().out)
    assert (cost["problem"], cost["rules"], cost["recorded"]) == ("cauchy", 3, 0)
    assert cost["runs"] == 3 * (7 * 3 + 2 * 10)
    assert cost["left"] == pytest.approx(cost["runs"] * cost["seconds"])
    assert list(tmp_path.iterdir()) == []
