"""docs/tables.md tells the truth: its commands name rows and columns that exist."""

import itertools
import re
import shlex
from pathlib import Path

from gaf.lab.study.settings import split
from gaf.lab.study.table.plan import TABLES, make

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "tables.md"
TEXT = PAGE.read_text("utf-8")


def test_commands_choose_what_there_is():
    commands = re.findall(r"^gaf table (.+?)(?: +#.*)?$", TEXT, re.MULTILINE)
    assert len(commands) >= 4
    for command in commands:
        name, *rest = shlex.split(command)
        given = dict(itertools.pairwise(rest))
        chosen = {key: split([given.get(f"--{key}", "")]) for key in ("models", "settings")}
        assert make(name, given.get("--scale", "small"), **chosen).entries


def test_every_table_is_listed():
    assert set(TABLES) <= set(re.findall(r"^\| `([a-z0-9-]+)` \|", TEXT, re.MULTILINE))
