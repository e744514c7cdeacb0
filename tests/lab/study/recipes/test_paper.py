"""The paper's numbers: how many there are, and that they stay as they are."""

import pytest

from gaf.lab.study.recipes import paper


def test_shape():
    sizes = {number: len(table.cells) for number, table in paper.TABLES.items()}
    assert sizes == {"I": 6 * 5, "II": 6 * 7, "III": 2 * 4 * 3, "IV": 3}


def test_cells_cannot_be_changed():
    key = ("ImageNet", "ResNet-18", paper.WITHOUT)
    with pytest.raises(TypeError):
        paper.TABLE_1.cells[key] = None  # type: ignore[index]
    with pytest.raises(AttributeError):
        paper.TABLE_1.cells[key].top1 = 0.0  # type: ignore[misc]
