"""What a user can mend is one line; a bug keeps its traceback, wherever in the package it is."""

import ast
from pathlib import Path
from types import FunctionType

import pytest
import typer
from pydantic import model_validator

import gaf
from gaf.lab.cli.app import run
from gaf.lab.cli.terminal import errors_in_a_line
from gaf.lab.engine.config import Config, read
from gaf.lab.reports import curves
from gaf.lab.reports.history import RunHistory
from gaf.lab.study import compare, worker

SOURCE = Path(gaf.__file__).parent


def test_what_gaf_refuses_is_one_line(capsys):
    assert run(["train", "digits-cnn-sgdn"]) == 2
    assert capsys.readouterr().err.startswith("gaf: ")


def test_a_bug_inside_the_package_keeps_its_traceback(monkeypatch):
    """The last Python frame of ``int("abc")`` is the package's own."""
    buggy = FunctionType((lambda *_, **__: int("abc")).__code__, vars(compare))
    monkeypatch.setattr(compare, "check_folder", buggy)
    with pytest.raises(ValueError, match="invalid literal"):
        run(["compare", "digits-cnn-sgdm"])


def test_only_our_class_becomes_a_sentence():
    with pytest.raises(typer.TyperException, match="do this"), errors_in_a_line():
        raise gaf.GafError("do this")
    with pytest.raises(ValueError, match="a bug") as seen, errors_in_a_line():
        raise ValueError("a bug")
    assert not isinstance(seen.value, gaf.GafError)


def test_a_bug_in_a_validator_keeps_its_traceback():
    """pydantic takes every ValueError in a validator for a complaint about the value."""

    class Buggy(Config):
        n: int

        @model_validator(mode="after")
        def _bug(self):
            int("abc")

    with pytest.raises(ValueError, match="invalid literal") as seen:
        read({"n": 1}, Buggy)
    assert type(seen.value) is ValueError


def test_a_bug_in_a_function_is_not_taken_for_an_unknown_one(monkeypatch):
    """A report leaves out a function that is not registered here; a bug is no such thing."""

    def bug(text):
        raise ValueError("a bug")

    monkeypatch.setattr(curves, "as_activation", bug)
    run_of = RunHistory(0, {}, {}, (), None, "arctan(0.1, 20)")
    with pytest.raises(ValueError, match="a bug"):
        curves._function([run_of])


def test_a_bug_while_a_folder_is_locked_is_not_waited_for(monkeypatch, tmp_path):
    def bug(folder):
        raise ValueError("a bug")

    monkeypatch.setattr("gaf.lab.engine.folder.locked", bug)
    with pytest.raises(ValueError, match="a bug"):
        worker.wait_until_free(tmp_path)  # with a GafError it would wait for a minute


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.stem)
def test_the_package_raises_its_own_class(path):
    bare = [
        node.lineno
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Call)
        and ast.unparse(node.exc.func) == "ValueError"
    ]
    assert not bare, f"{path}: raise gaf.common.errors.GafError on lines {bare}"
