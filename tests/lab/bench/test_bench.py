"""`gaf bench` as people run it. No test looks at how long anything took."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gaf.kernels import native
from gaf.lab.bench.contenders import FUNCTIONS
from gaf.lab.bench.targets import CLAIMS
from gaf.lab.cli.app import run
from tests import forked

# One thread: the suite runs in two processes, and torch's threads would wait for each other.
QUICK = ("bench", "--quick", "--shapes", "tiny", "--repeats", "2", "--threads", "1")


def gaf(
    *args: str, cwd: Path | None = None, code: str | None = None
) -> subprocess.CompletedProcess:
    """Run the command, or Python code that does."""
    start = ["-m", "gaf.lab.cli"] if code is None else ["-c", code]
    return subprocess.run(
        [sys.executable, "-W", "error", *start, *args],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "120", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """One quick run, saved in both ways."""
    folder = tmp_path_factory.mktemp("bench")
    (folder / "benchmarks").mkdir()
    done = gaf(*QUICK, "--json", "out.json", "--save", cwd=folder)
    return folder, done


def test_help_shows_an_example(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")
    assert run(["bench", "--help"]) == 0
    out = capsys.readouterr().out
    assert "Example: gaf bench" in out
    for option in (
        "--shapes",
        "--growth",
        "--training",
        "--kernels",
        "--quick",
        "--json",
        "--save",
    ):
        assert option in out


def test_without_arguments_the_command_lists_its_commands(capsys):
    assert run([]) == 0
    assert "bench" in capsys.readouterr().out


def test_version():
    status, out, err = forked.run(["-m", "gaf.lab.cli", "--version"])
    assert (status, err) == (0, "")
    assert re.fullmatch(r"gaf \d+\.\d+\.\d+\S*\n", out)


def test_kernels_tells_what_serves_which_dtype(tmp_path, capsys):
    assert run(["bench", "--kernels", "--json", str(tmp_path / "kernels.json")]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    found = json.loads((tmp_path / "kernels.json").read_text("utf-8"))
    assert found["served_by"].keys() >= {"float32", "float64", "bfloat16", "float16"}
    assert set(found["served_by"]["float32"]) >= set(FUNCTIONS)
    for isa in found["native"]:
        assert isa in out
        assert found["served_by"]["float32"]["arctan"] == "native"


@pytest.mark.slow
def test_quick_prints_every_table_and_plain_progress(quick):
    _, done = quick
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr  # neither colours nor a bar in a pipe
    assert "Tiny tensors, SGD" in done.stderr
    for title in ("parameters: SGD", "parameters: Adam", "Extra memory", "Targets", "verdict"):
        assert title in done.stdout


@pytest.mark.slow
def test_quick_json_is_complete(quick):
    folder, _ = quick
    found = json.loads((folder / "out.json").read_text("utf-8"))
    assert found["complete"] is True
    assert found.keys() >= {
        "date",
        "cpu",
        "cores",
        "threads",
        "ram_gib",
        "torch",
        "gaf",
        "git",
        "python",
    }
    assert found["threads"] == 1
    tiny = found["shapes"]["tiny"]
    assert (tiny["tensors"], tiny["parameters"]) == (1000, 64_000)
    for row in tiny["rows"]:
        assert len(row["seconds"]) == row["n"] == 2
        assert 0 < row["p10"] <= row["median"] <= row["p90"]
        assert row["over_torch_fused"]["median"] > 0
    rules = [row["rule"] for row in tiny["rows"]]
    assert len(set(zip(rules, (row["optimizer"] for row in tiny["rows"]), strict=True))) == len(
        rules
    )
    assert {"torch fused", "clip_grad_norm_, then torch fused"} <= set(rules)
    assert {f"authors' formulation, {f}" for f in FUNCTIONS} <= set(rules)
    assert [target["title"] for target in found["targets"][: len(CLAIMS)]] == [
        claim.title for claim in CLAIMS
    ]
    assert len(found["targets"]) == len(CLAIMS) + 4  # two kinds of step, two optimizers: memory


@pytest.mark.slow
def test_quick_measures_memory(quick):
    folder, _ = quick
    rows = json.loads((folder / "out.json").read_text("utf-8"))["memory"]["rows"]
    for row in rows:
        if (row["who"], row["implementation"]) == ("gaf", "fused"):
            assert row["largest"] < 64 * 4  # bytes of a tensor
        elif row["implementation"] == "foreach":
            assert row["peak"] >= 64_000 * 4 / 4  # a list of all, or of the quarter Adam works on


@pytest.mark.slow
def test_saved_results_name_neither_host_nor_path(quick):
    folder, _ = quick
    saved = sorted((folder / "benchmarks" / "results").iterdir())
    assert [path.suffix for path in saved] == [".json", ".txt"]
    assert saved[0].stem == saved[1].stem
    assert json.loads(saved[0].read_text("utf-8")) == json.loads(
        (folder / "out.json").read_text("utf-8")
    )
    host = os.uname().nodename
    for path in saved:
        text = path.name + path.read_text("utf-8")
        assert str(folder) not in text
        assert len(host) < 6 or host not in text  # a short name may be part of a word
    assert "Targets" in saved[1].read_text("utf-8")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["bench", "--shapes", "vgg"], "--shapes"),
        (["bench", "--repeats", "1"], "--repeats"),
        (["bench", "--threads", "many"], "--threads"),
        (["bench", "--json", "no/such/folder/out.json"], "--json"),
        (["bench", "--json", "."], "--json"),
        (["bench", "--save"], "--save"),
        (["bench", "--wrong"], "--wrong"),
        (["bench", "more"], "more"),
        (["wrong"], "wrong"),
    ],
)
def test_bad_input_is_one_line_and_status_2(args, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("gaf: ")
    assert err.count("\n") == 1
    assert says in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not native.INSTRUCTION_SETS, reason="the native kernels were not built")
def test_a_wrong_instruction_set_is_bad_input_too(monkeypatch, capsys):
    monkeypatch.setenv("GAF_ISA", "mmx")
    assert run(["bench", "--kernels"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "GAF_ISA" in err


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_without_its_packages_the_command_names_the_extra(package):
    code = f"import sys; sys.modules[{package!r}] = None; import gaf_command; gaf_command.main()"
    done = gaf("bench", "--help", code=code)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert package in done.stderr
    assert "pip install 'activated-gradients[cli]'" in done.stderr


@pytest.mark.slow
def test_ctrl_c_prints_what_there_is(tmp_path):
    out = tmp_path / "out.json"
    args = [*QUICK, "--repeats", "1000000", "--json", str(out)]
    code = (
        "import signal, gaf.lab.cli.app, gaf.lab.cli.bench as command\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's `&` ignores it
        "command.QUICK_BUDGET = 1e9\n"
        "gaf.lab.cli.app.main()"
    )
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", code, *args]
    measuring = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
    assert measuring.stderr is not None
    assert "Tiny tensors" in measuring.stderr.readline()  # it has begun to measure
    with pytest.raises(subprocess.TimeoutExpired):
        measuring.wait(3)
    measuring.send_signal(signal.SIGINT)
    stdout, stderr = measuring.communicate(timeout=120)
    assert measuring.returncode == 130
    assert "interrupted" in stderr
    assert "Traceback" not in stderr
    assert "Targets, from a benchmark that was interrupted" in stdout
    found = json.loads(out.read_text("utf-8"))
    assert found["complete"] is False
    rows = found["shapes"]["tiny"]["rows"]
    assert len({len(row["seconds"]) for row in rows}) <= 1  # whole repetitions only
