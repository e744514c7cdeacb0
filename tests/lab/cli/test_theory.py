"""`gaf theory` as people run it; the checks themselves are in tests/lab/theory."""

import json

import pytest
import torch

from gaf.lab.cli.app import run
from gaf.lab.theory import statements
from gaf.lab.theory.statements import STATEMENTS


@pytest.fixture
def theory(capsys):
    """Run the command in this process: exit status, output, errors."""

    def call(*args):
        status = run(["theory", *map(str, args)])
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    return call


def test_help_shows_an_example(theory):
    status, out, _ = theory("--help")
    assert status == 0
    assert "Example: gaf theory --statement theorem-6" in out
    assert "--json" in out


def test_one_statement_in_full(theory):
    before = torch.get_num_threads()
    status, out, err = theory("--statement", "Lemma 2")
    assert status == 0
    assert out.startswith("Lemma 2: f shrinks distances between large gradients\n")
    assert "inside the assumptions: 10,689 cases, 0 violations" in out
    assert "without “ε₁ > 0”: false in" in out
    assert err == "Lemma 2: f shrinks distances between large gradients ...\n"
    assert torch.get_num_threads() == before


def test_the_seed_changes_the_cases_and_json_has_every_number(theory):
    found = []
    for seed in (0, 1, 1):
        status, out, _ = theory("--statement", "theorem-5", "--json", "--seed", seed)
        assert status == 0
        found.append(json.loads(out))
    assert found[0]["statements"] != found[1]["statements"] == found[2]["statements"]
    (statement,) = found[1]["statements"]
    assert found[1]["seed"] == 1
    assert statement["violations"] == 0
    assert statement["parts"][0]["sound"]["cases"] >= 10_000
    assert {row["assumption"] for row in statement["parts"][0]["dropped"]} == set(
        statement["assumed"]
    )
    assert len(statement["tables"][0]["rows"]) == 12


def test_the_table_and_the_page(theory, monkeypatch):
    few = tuple(each for each in STATEMENTS if each.name.startswith("lemma"))
    monkeypatch.setattr(statements, "STATEMENTS", few)
    status, out, err = theory()
    assert status == 0
    lines = out.splitlines()
    assert lines[0].split()[:2] == ["statement", "what"]
    assert "the same" in lines[1]  # Lemma 1 is printed as it is read
    assert "10,689" in lines[2]
    assert "\x1b" not in out + err
    assert err.count(" ...\n") == 2


def test_bad_input_is_one_sentence_and_exit_status_2(theory):
    calls = {
        ("--statement", "theorem-9"): "there is no statement 'theorem-9'",
        ("--markdown", "--json"): "leave --statement and --json out",
        ("--markdown", "--statement", "lemma-1"): "leave --statement and --json out",
        ("--seed", -1): "'--seed'",
        ("--seed", "one"): "'--seed'",
        ("extra",): "extra",
    }
    for args, says in calls.items():
        status, out, err = theory(*args)
        assert (status, out) == (2, ""), args
        assert err.startswith("gaf: "), args
        assert says in err, args
        assert len(err.splitlines()) == 1, args
