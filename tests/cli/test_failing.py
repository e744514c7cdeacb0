"""What a user can mend is one line; a bug keeps its traceback, wherever in the package it is."""

import ast
from pathlib import Path
from types import FunctionType

import pytest
import typer

import gaf
from gaf.cli.app import run
from gaf.cli.failing import said_in_a_sentence
from gaf.experiments import compare

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
    with pytest.raises(typer.TyperException, match="do this"), said_in_a_sentence():
        raise gaf.GafError("do this")
    with pytest.raises(ValueError, match="a bug") as seen, said_in_a_sentence():
        raise ValueError("a bug")
    assert not isinstance(seen.value, gaf.GafError)


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.stem)
def test_the_package_raises_its_own_class(path):
    bare = [
        node.lineno
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Call)
        and ast.unparse(node.exc.func) == "ValueError"
    ]
    assert not bare, f"{path}: raise gaf.errors.GafError on lines {bare}"
