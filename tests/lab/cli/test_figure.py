"""`gaf figure` as people run it."""

import json
import subprocess
import sys

import pytest

from gaf.lab.cli.app import run


@pytest.fixture
def figure(capsys, tmp_path, monkeypatch):
    """Run the command in this process and an empty folder: exit status, output, errors."""
    monkeypatch.chdir(tmp_path)

    def call(*args):
        status = run(["figure", *map(str, args)])
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    return call


def test_help_shows_an_example(figure):
    status, out, _ = figure("--help")
    assert status == 0
    assert "Example: gaf figure 1 2 4" in out
    assert "--json" in out


def test_files_are_written_and_named(figure, tmp_path):
    status, out, err = figure(2, 4, 4)
    assert status == 0
    names = ["figure-2.png", "figure-2.svg", "figure-4.png", "figure-4.svg", "explore.html"]
    assert out.split() == [f"figures/{name}" for name in names]
    assert all((tmp_path / name).is_file() for name in out.split())
    assert 'const OPEN = "saddle"' in (tmp_path / "figures/explore.html").read_text("utf-8")
    assert "figure 2: a saddle, original and equivalent ..." in err  # plain lines: no terminal
    assert "\x1b" not in err


def test_json_has_every_number(figure, tmp_path):
    status, out, _ = figure(
        2, "--json", "--format", "svg", "--out", "a/b", "--alpha", 0.2, "--beta", 10
    )
    (found,) = json.loads(out)["figures"]
    assert status == 0
    assert found["files"] == ["a/b/figure-2.svg"]
    assert found["surfaces"][1]["name"] == "arctan(0.2, 10)"
    assert [each.name for each in (tmp_path / "a/b").iterdir()] == ["figure-2.svg"]


@pytest.mark.slow
def test_json_has_infinity_as_a_word(figure):
    _, out, _ = figure(1, "--json", "--format", "svg")
    rows = json.loads(out)["figures"][0]["surfaces"]
    assert [row["zeta_over_box"] for row in rows][-2:] == ["inf", "inf"]
    assert [round(ratio, 2) for ratio in rows[1]["anisotropy"]] == [4.77, 1.96, 1.07]


def test_bad_input_is_one_sentence_and_exit_status_2(figure, tmp_path):
    (tmp_path / "file").write_text("")
    calls = {
        (6,): "choose from 1, 2, 3, 4, 5",
        ("one",): "valid integer",
        (): "Missing argument",
        (1, "--alpha", -1): "alpha must be positive",
        (1, "--alpha", "nan"): "alpha must be positive",
        (1, "--norm", 0): "positive limit",
        (2, "--beta", 1): "alpha * beta > 1",
        (4, "--format", "gif"): "png, svg, html",
        (4, "--out", "file"): "file",
        (4, "--out", "file/inside"): "file",
    }
    for args, says in calls.items():
        status, out, err = figure(*args)
        assert (status, out) == (2, ""), args
        last = err.splitlines()[-1]
        assert last.startswith("gaf: "), args
        assert says in last, args
    assert not (tmp_path / "figures").exists()


@pytest.mark.slow
def test_a_missing_package_is_named(tmp_path):
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from gaf.lab.cli.app import run; sys.exit(run(['figure', '4']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 2
    assert "matplotlib, which is not installed" in done.stderr.splitlines()[-1]
