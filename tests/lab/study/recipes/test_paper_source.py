"""The paper's numbers are the paper's: all of them against its source, where that is at hand."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from gaf.lab.study.recipes import paper

DATA = os.environ.get("GAF_DATA", "")
FILE = Path(DATA).resolve().parent / "paper/activated-gradients.tex"
if not DATA or not FILE.is_file():
    pytest.skip(
        "needs the source of the paper: paper/activated-gradients.tex beside GAF_DATA",
        allow_module_level=True,
    )

LABELS = {"I": "TBImageNetCom", "II": "TBGAFs", "III": "TBAdam", "IV": "TBOD"}
CLASSIFICATION = ("I", "II", "III")
NUMBER = re.compile(r"(\d\d\.\d\d)(?: \(([+-]\d\.\d\d)\))?")


@pytest.fixture(scope="module")
def source() -> str:
    return FILE.read_text("utf-8")


def printed_rows(source: str, number: str) -> dict[str, list[tuple[str, str]]]:
    """First column -> (number, gain in brackets) of the others; the lines of Table I are put together."""
    body = source[: source.index(rf"\label{{{LABELS[number]}}}")].rpartition(r"\begin{tabular}")[2]
    found: dict[str, list[tuple[str, str]]] = {}
    for line in body.replace("$", "").splitlines():
        first, *rest = line.split("&")
        numbers = [pair for cell in rest for pair in NUMBER.findall(cell)]
        if numbers:
            found.setdefault(re.split(r"\s+w/", first.strip())[0], []).extend(numbers)
    return found


@pytest.mark.parametrize("number", CLASSIFICATION)
def test_all_numbers_are_as_printed(source, number):
    ours: dict[str, list[str]] = {}
    for cell in paper.TABLES[number].cells.values():
        scores = [cell.top1] if cell.top5 is None else [cell.top1, cell.top5]
        ours.setdefault(cell.row, []).extend(f"{score:.2f}" for score in scores)
    printed = printed_rows(source, number)
    assert ours == {row: [score for score, _ in pairs] for row, pairs in printed.items()}


@pytest.mark.parametrize("number", CLASSIFICATION)
def test_printed_gains_are_differences(source, number):
    """A second reading of each number: its gain over the baseline, which the paper prints in brackets."""
    table = paper.TABLES[number]
    printed = {
        row: [gain for _, gain in pairs] for row, pairs in printed_rows(source, number).items()
    }
    ours: dict[str, list[str]] = {}
    for (data, row, column), cell in table.cells.items():
        without = table.cells[data, row, paper.WITHOUT]
        for score in ("top1", "top5") if cell.top5 is not None else ("top1",):
            gain = getattr(cell, score) - getattr(without, score)
            shown = "" if column == paper.WITHOUT else f"{gain:+.2f}"
            ours.setdefault(row, []).append(shown)
    assert ours == printed


def test_precisions_are_as_printed(source):
    """In Table IV a line is a training; no gains are printed, but the first number is the others' mean."""
    body = source[: source.index(rf"\label{{{LABELS['IV']}}}")].rpartition(r"\begin{tabular}")[2]
    printed = [
        [float(number) for number in re.findall(r"\d\d\.\d{1,2}", line)]
        for line in body.splitlines()
        if line.strip().startswith("SSD300")
    ]
    cells = list(paper.TABLE_4.cells.values())
    assert [[cell.map, *cell.ap] for cell in cells] == printed
    names = re.search("Model .*", body)
    assert names is not None
    for short, name in zip(names[0].split("&")[3:], paper.VOC_CLASSES, strict=True):
        assert re.sub(r"[\s\\]|midrule", "", short)[:2] in {name[:2], "mb", "ta", "pl"}
    for cell in cells:
        assert len(cell.ap) == 20
        assert sum(cell.ap) / 20 == pytest.approx(cell.map, abs=0.0051)  # of rounding
        assert cell.score == cell.map


def test_columns_are_those_of_the_header(source):
    for column in (*paper.ARCTAN, *paper.TANH, *paper.LOG):
        assert column in source.replace("$", "")
