"""`gaf report` as people run it: the page's path, tables on stdout, one line with status 2 for a mistake."""

import csv
import io
import json
import os

import pytest

from gaf.lab.cli.app import run
from tests.lab.reports.example import ORDINARY, example, write_run


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def compared(tmp_path):
    return example(tmp_path / "compared")


def test_help_shows_an_example(capsys):
    assert run(["report", "--help"]) == 0
    assert "Example: gaf report" in capsys.readouterr().out


@pytest.mark.usefixtures("compared")
def test_a_comparison_gets_its_page_and_the_path_is_printed(capsys, tmp_path):
    assert run(["report", "compared"]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == (f"compared{os.sep}report.html\n", "")
    first = (tmp_path / "compared" / "report.html").read_bytes()
    assert run(["report", "compared", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [os.path.join("compared", "report.html")]
    assert (tmp_path / "compared" / "report.html").read_bytes() == first


def test_a_run_gets_a_page_of_its_own(capsys, tmp_path):
    write_run(tmp_path / "mine", 0.9, 3, "arctan(0.1, 20)", name="my run")
    assert run(["report", "mine"]) == 0
    path = capsys.readouterr().out.strip()
    assert path == str(tmp_path.resolve() / "mine" / "report.html")
    text = (tmp_path / "mine" / "report.html").read_text("utf-8")
    assert "<h1>my run</h1>" in text
    assert "top1 0.9000 at the end." in text


def test_runs_make_one_page_in_the_folder_above(capsys, tmp_path):
    for seed in (0, 1):
        write_run(tmp_path / "runs" / f"a{seed}", 0.9, seed, None, name="plain")
        write_run(tmp_path / "runs" / f"b{seed}", 0.95, seed, "tanh(0.1, 20)", name="with f")
    for args in (["runs"], ["runs/a0", "runs/a1", "runs/b0", "runs/b1"]):
        assert run(["report", *args]) == 0
        assert capsys.readouterr().out.strip() == str(tmp_path.resolve() / "runs" / "report.html")
        text = (tmp_path / "runs" / "report.html").read_text("utf-8")
        assert "Of 1 setting against plain over 2 seeds" in text


def test_a_folder_of_both_and_of_a_run_in_progress(capsys, tmp_path):
    example(tmp_path / "all" / "compared")
    for name in ("done", "going"):
        write_run(tmp_path / "all" / name, 0.9, 0, None, name=name)
    (tmp_path / "all" / "going" / "finished.json").unlink()
    assert run(["report", "all"]) == 0
    out, err = capsys.readouterr()
    assert [line.split(os.sep)[-2] for line in out.splitlines()] == ["compared", "done"]
    assert err == f"gaf: left out all{os.sep}going, which is not finished\n"


@pytest.mark.usefixtures("compared")
def test_a_folder_of_comparisons_gets_a_page_for_each(capsys, tmp_path):
    example(tmp_path / "all" / "one")
    example(tmp_path / "all" / "two")
    assert run(["report", "all", "compared"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert (tmp_path / "all" / "two" / "report.html").is_file()


@pytest.mark.usefixtures("compared")
def test_tables_on_stdout(capsys, tmp_path):
    found = {}
    for form in ("table", "markdown", "csv", "latex"):
        assert run(["report", "compared", "--format", form]) == 0
        found[form] = capsys.readouterr().out
        assert "\x1b" not in found[form]
    assert found["markdown"].startswith("| setting | top1 |")
    rows = list(csv.DictReader(io.StringIO(found["csv"])))
    assert [row["setting"] for row in rows] == list(ORDINARY)
    assert found["latex"].startswith("\\begin{tabular}")
    assert "steps to baseline" in found["table"]  # a pipe has room
    assert not (tmp_path / "compared" / "report.html").exists()


def mistakes(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "comparison.json").write_text("{")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "comparison.json").write_text('{"title": "x"}')
    write_run(tmp_path / "unfinished", 0.9, 0, None)
    (tmp_path / "unfinished" / "finished.json").unlink()
    example(tmp_path / "records")
    (tmp_path / "records" / "runs" / "0-0" / "metrics.jsonl").write_text("no\n")
    write_run(tmp_path / "run", 0.9, 0, None)
    (tmp_path / "run" / "metrics.jsonl").write_text("[]\n")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "FOLDER"),
        (["nowhere"], "there is no folder nowhere"),
        (["file"], "there is no folder file"),
        (["empty"], "empty holds no comparison, no table and no finished run"),
        (["damaged"], "comparison.json"),
        (["other"], "lacks the key"),
        (["unfinished"], "not finished"),
        (["records"], "metrics.jsonl is damaged"),
        (["run"], "is damaged"),
        (["records", "--format", "pdf"], "pdf"),
        (["records", "--format", "csv", "--json"], "--json"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(args, says, capsys, tmp_path):
    mistakes(tmp_path)
    status = run(["report", *args])
    out, err = capsys.readouterr()
    assert (status, out) == (2, ""), err
    assert err.startswith("gaf: ")
    assert err.count("\n") == 1
    assert says in err
    assert not list(tmp_path.rglob("report.html"))


@pytest.mark.usefixtures("compared")
def test_a_page_that_cannot_be_written_is_a_sentence(capsys, tmp_path):
    (tmp_path / "compared" / "report.html").mkdir()  # not even root can replace a folder by a file
    assert run(["report", "compared"]) == 2
    err = capsys.readouterr().err
    assert "cannot be written" in err
    assert err.count("\n") == 1
