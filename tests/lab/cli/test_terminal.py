"""What comes from files, servers and users is shown as text: no terminal obeys it, no markup is read."""

import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.table import Table

from gaf.common.texts import printable
from gaf.lab.cli import terminal
from gaf.lab.cli.app import run
from gaf.lab.engine.config import read
from gaf.lab.engine.folder import IDENTITY, read_config
from gaf.lab.engine.identity import identify_all
from gaf.lab.engine.progress import ConsoleProgress, Transfer
from gaf.lab.study.grid import Outcome
from gaf.lab.study.live import LiveTable
from tests.lab.data.server import Site, serve
from tests.lab.reports.example import BASELINE, ORDINARY, example, write_run

SRC = Path(__file__).resolve().parents[3] / "src" / "gaf"
# The window's title, a colour, a C1 control, text from right to left, the line's beginning, half a character.
HOSTILE = "\x1b]0;owned\x07\x1b[31mred\x9b2J\u202eabc\r\x08\x00\ud800 [red]markup[/red] :smile:"
OBEYED = re.compile(r"\x1b|\x07|\x9b|\u202e|\r|\x08|\x00|\ud800")
SHOWN = "[red]markup[/red] :smile:"


def assert_plain(*texts: str) -> None:
    for text in texts:
        assert not OBEYED.search(text), repr(text)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_every_code_a_terminal_obeys_becomes_a_space():
    codes = [*range(32), *range(127, 160), 0xAD, *range(0x200B, 0x2010), *range(0x2028, 0x202F)]
    codes += [*range(0x2066, 0x206A), 0xFEFF, 0xD800, 0xDFFF]
    for code in codes:
        assert printable(f"a{chr(code)}b") == ("a\nb" if chr(code) == "\n" else "a b"), hex(code)
    assert printable("Größe 数 😀 ±∞") == "Größe 数 😀 ±∞"


def on_terminal() -> tuple[terminal.PlainConsole, io.StringIO]:
    text = io.StringIO()
    return terminal.PlainConsole(file=text, force_terminal=True, width=200), text


def without_richs_own(text: str) -> str:
    """Colours, movements of the cursor and the link to nowhere that rich makes."""
    return re.sub(r"\x1b\[[?0-9;]*[A-Za-z]|\r", "", text)


def test_a_terminal_shows_colours_of_ours_and_no_others():
    console, text = on_terminal()
    table = Table(HOSTILE, title=HOSTILE)
    table.add_row(HOSTILE)
    console.print(HOSTILE, style="bold")
    console.print(table)
    assert "\x1b[1m" in text.getvalue()
    assert "\x1b[31m" not in text.getvalue()
    found = without_richs_own(text.getvalue())
    assert found.count(SHOWN) == 4
    assert_plain(found)


def test_progress_shows_names_as_they_are():
    console, text = on_terminal()
    bar = ConsoleProgress(console)
    bar.begin(HOSTILE, 0, 10)
    bar.say(HOSTILE)
    bar.end()
    with Transfer(console) as transfer:
        transfer.announce(HOSTILE)(1, 10)
        transfer.say(HOSTILE)
    config = read({"name": f"{SHOWN}: {SHOWN}", "task": {"kind": "a:b"}, "epochs": 1})
    live = LiveTable(console, HOSTILE)
    live.phase(HOSTILE)
    live.begin([config], 0)
    live.ended(config, Outcome(Path(), None, HOSTILE))
    live.look()
    live.end()
    found = text.getvalue()
    assert found.count(SHOWN) >= 8
    for code in ("\x1b]0", "\x1b[31mred", "\x9b", "\u202e", "\x00"):
        assert code not in found


def hostile_results(folder: Path) -> None:
    name = HOSTILE.replace("\ud800", "")  # which JSON does not hold
    settings = {BASELINE: ORDINARY[BASELINE], name: ORDINARY["adam"]}
    found = example(folder, settings, title=name)
    assert found.title == name


@pytest.mark.parametrize("form", ["table", "markdown", "csv", "latex"])
def test_tables_of_a_comparison(form, tmp_path, capsys):
    hostile_results(tmp_path / "theirs")
    assert run(["report", "theirs", "--format", form]) == 0
    out, err = capsys.readouterr()
    assert_plain(out, err)
    assert "markup" in out


def test_a_run_of_a_hostile_name_in_a_hostile_folder(tmp_path, capsys):
    place = tmp_path / "run\x1b[31m[red]"
    write_run(place, 0.9, 0, None, name="\x1b]0;owned\x07[red]x")
    (identity,) = identify_all([read_config(place)])
    (place / IDENTITY).write_text(identity.model_dump_json())
    assert run(["report", place.name, "--format", "table"]) == 0
    assert run(["train", "--resume", place.name]) == 0
    assert run(["report", place.name]) == 0
    (place / "finished.json").write_text("{")
    assert run(["report", place.name]) == 2
    out, err = capsys.readouterr()
    assert_plain(out, err)
    assert "0;owned [red]x: top1 0.9" in out
    assert "run [31m[red]" in err
    assert err.count("\n") == 2


def test_a_run_of_a_hostile_name_goes_on(tmp_path, capsys):
    changes = ("epochs=1", "accelerator=cpu", "task.data_options.limit=64", "log_every=1")
    args = [part for change in changes for part in ("--set", change)]
    name = "name=\x1b]0;owned\x07[red]x"
    assert run(["train", "digits-cnn-sgdm", *args, "--set", name, "--out", "run"]) == 0
    (tmp_path / "run" / "finished.json").unlink()
    assert run(["train", "--resume", "run"]) == 0
    out, err = capsys.readouterr()
    assert_plain(out, err)
    assert " ]0;owned[red]x: resumed at step 1 of 1" in err
    assert " ]0;owned [red]x: loss" in out


@pytest.mark.parametrize("status", [404, 503])
def test_a_server_s_reason(status, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("gaf.lab.data.download.WAIT", 0.0)
    reason = "\x1b]0;owned\x07\x9b2J[red]sorry"
    with serve(Site({}, statuses=[status] * 9, reason=reason)) as site:
        assert run(["data", "get", "mnist", "--url", site.url, "--root", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert_plain(out, err)
    assert f"{status}  ]0;owned  2J[red]sorry" in err.splitlines()[-1]
    assert len(err.splitlines()) == (2 if status == 404 else 6)  # the tries are told too


def test_an_argument_and_a_warning(capsys):
    assert run(["train", "\x1b[31m[red]"]) == 2
    assert run(["\x9b2J"]) == 2
    terminal.warn(UserWarning("\x1b[31m[red]"))
    out, err = capsys.readouterr()
    assert_plain(out, err)
    assert err.endswith("gaf: warning:  [31m[red]\n")


@pytest.mark.slow
def test_on_a_real_terminal(tmp_path):
    """The process's output goes to a pseudo-terminal: rich's colours come, the stranger's do not."""
    hostile_results(tmp_path / "theirs")
    outer, inner = pty.openpty()
    command = [sys.executable, "-m", "gaf.lab.cli", "report", "theirs", "--format", "table"]
    process = subprocess.Popen(
        command, stdout=inner, stderr=inner, env={**os.environ, "TERM": "xterm"}
    )
    os.close(inner)
    found = b""
    try:
        while block := os.read(outer, 4096):
            found += block
    except OSError:  # the other end is closed
        pass
    os.close(outer)
    assert process.wait() == 0
    text = found.decode()
    assert "markup" in text
    for code in ("\x1b]0", "\x1b[31mred", "\x9b", "\u202e", "\x07", "\x08", "\x00"):
        assert code not in text


def test_nothing_prints_but_the_terminal():
    """Beside it there is ``print`` of JSON, whose text is ASCII, and a console that writes to a file."""
    for path in sorted((SRC / "cli").rglob("*.py")):
        if path.name != "terminal.py":
            text = path.read_text("utf-8")
            assert not re.search(r"\bConsole\((?!file=text)", text), path
            assert not re.search(r"(?<![.\w])print\((?!json\.dumps\()", text), path
