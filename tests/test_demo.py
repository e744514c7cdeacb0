"""What README and results/demo/README.md say of the demo is what its record has."""

import html
from pathlib import Path

import pytest

from gaf.lab.cli.app import run
from gaf.lab.study.compare import read
from gaf.lab.study.words import answer

ROOT = Path(__file__).resolve().parents[1]
CNN = read(ROOT / "results" / "demo" / "digits-cnn")


def test_the_function_widens_the_window_and_adam_is_as_good_at_its_own_rate():
    curves = CNN.tuning.curves
    for rule in ("arctan(0.1, 20)@momentum", "tanh(0.1, 20)@momentum"):
        assert curves[rule].window.widened >= 2
    rows = {row.setting: row for row in CNN.rows}
    assert rows["adam"].rate != curves["adam"].usual
    assert abs(rows["adam"].mean - rows["sgd"].mean) <= 0.01


@pytest.mark.parametrize("page", ["README.md", "results/demo/README.md"])
@pytest.mark.parametrize(
    "rule", ["arctan(0.1, 20)@momentum", "tanh(0.1, 20)@momentum", "clip-norm-1"]
)
def test_the_widths_are_the_records(page, rule):
    assert f"{CNN.tuning.curves[rule].window.widened:.1f}" in (ROOT / page).read_text("utf-8")


def test_no_rule_is_better_as_the_pages_say():
    assert "better" not in {row.verdict for row in CNN.rows}


@pytest.mark.slow
def test_the_command_of_the_demo_with_less_to_train(tmp_path, monkeypatch, capsys):
    """`make demo` takes five minutes; here one epoch, two rates and two seeds: the same way to both pages."""
    monkeypatch.chdir(tmp_path)
    less = ("--rates", "2", "--tuning-seeds", "1", "--seeds", "2", "--set", "epochs=1")
    assert run(["compare", "--out", "runs/demo", *less]) == 0
    shown = capsys.readouterr().out
    folders = sorted((tmp_path / "runs" / "demo").iterdir())
    assert [folder.name.partition("-")[0] for folder in folders] == ["digits", "digits"]
    for folder in folders:
        comparison = read(folder)
        assert {"sgd", "clip-norm-1", "adam"} < {row.setting for row in comparison.rows}
        page = (folder / "report.html").read_text("utf-8")
        said = answer(comparison)
        assert said in shown
        assert 0 < page.index(html.escape(said)) < page.index("over the learning rate")
