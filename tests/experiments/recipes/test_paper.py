"""The paper's numbers are the paper's: all of them against its source, where that is at hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gaf.experiments.recipes import paper

LABELS = {"I": "TBImageNetCom", "II": "TBGAFs", "III": "TBAdam"}
NUMBER = re.compile(r"(\d\d\.\d\d)(?: \(([+-]\d\.\d\d)\))?")


@pytest.fixture(scope="module")
def source(data_dir: Path) -> str:
    file = data_dir.parent / "paper" / "activated-gradients.tex"
    if not file.is_file():
        pytest.skip("needs the source of the paper: paper/activated-gradients.tex beside GAF_DATA")
    return file.read_text("utf-8")


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


@pytest.mark.parametrize("number", paper.TABLES)
def test_all_numbers_are_as_printed(source, number):
    ours: dict[str, list[str]] = {}
    for cell in paper.TABLES[number].cells.values():
        scores = [cell.top1] if cell.top5 is None else [cell.top1, cell.top5]
        ours.setdefault(cell.row, []).extend(f"{score:.2f}" for score in scores)
    printed = printed_rows(source, number)
    assert ours == {row: [score for score, _ in pairs] for row, pairs in printed.items()}


@pytest.mark.parametrize("number", paper.TABLES)
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


def test_columns_are_those_of_the_header(source):
    for column in (*paper.ARCTAN, *paper.TANH, *paper.LOG):
        assert column in source.replace("$", "")


def test_shape():
    sizes = {number: len(table.cells) for number, table in paper.TABLES.items()}
    assert sizes == {"I": 6 * 5, "II": 6 * 7, "III": 2 * 4 * 3}


def test_cells_cannot_be_changed():
    key = ("ImageNet", "ResNet-18", paper.WITHOUT)
    with pytest.raises(TypeError):
        paper.TABLE_1.cells[key] = None  # type: ignore[index]
    with pytest.raises(AttributeError):
        paper.TABLE_1.cells[key].top1 = 0.0  # type: ignore[misc]
