"""The numbers that the paper prints in Tables I to IV, to stand beside ours.

The paper gives one number for each cell, without a spread or a number of runs. Table I is printed with
one line for each model and setting; here a setting is a column, as in the other tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

WITHOUT = "w/o GAF"
VALUE_CLIPPING, NORM_CLIPPING = "value clipping, 0.1", "norm clipping, 0.1"
ARCTAN = ("Arctan (0.1, 20)", "Arctan (0.2, 10)")
TANH = ("Tanh (0.1, 20)", "Tanh (0.2, 10)")
LOG = ("Log (0.1, 20)", "Log (0.2, 10)")

# The columns as :mod:`gaf.lab.study.settings` names them. The threshold of both kinds of clipping is the
# paper's; the authors' script has 0.1·π/2, arctan's bound.
CLIPPINGS = {"clip-value-0.1": "clip-value", "clip-norm-0.1": "clip-norm"}  # and their kinds
SETTINGS = {
    WITHOUT: "baseline",
    **dict(zip((VALUE_CLIPPING, NORM_CLIPPING), CLIPPINGS, strict=True)),
    **dict(zip(ARCTAN, ("arctan(0.1, 20)", "arctan(0.2, 10)"), strict=True)),
    **dict(zip(TANH, ("tanh(0.1, 20)", "tanh(0.2, 10)"), strict=True)),
    **dict(zip(LOG, ("log(0.1, 20)", "log(0.2, 10)"), strict=True)),
}

# In the order of Table IV, by their names in the dataset.
VOC_CLASSES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
    *("diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa"),
    *("train", "tvmonitor"),
)


@dataclass(frozen=True)
class Cell:
    """What the paper prints for one training, in percent.

    ``data`` is the name of the dataset as in the paper, ``row`` that of the model, ``column`` the setting.
    Classification has ``top1`` and in Table I ``top5``; detection ``map``, the mean of the average
    precisions ``ap`` of the :data:`VOC_CLASSES`.
    """

    table: str
    data: str
    row: str
    column: str
    top1: float | None = None
    top5: float | None = None
    map: float | None = None
    ap: tuple[float, ...] = ()

    @property
    def score(self) -> float:
        """What a training is judged by."""
        score = self.map if self.top1 is None else self.top1
        assert score is not None
        return score

    @property
    def setting(self) -> str:
        """The column as :mod:`gaf.lab.study.settings` names it."""
        return SETTINGS[self.column]


@dataclass(frozen=True)
class PaperTable:
    """A table: its caption, and its cells by (data, row, column) in the order of the paper."""

    number: str
    caption: str
    cells: Mapping[tuple[str, str, str], Cell]


def _table(
    number: str, caption: str, *parts: tuple[str, tuple[str, ...], dict[str, tuple]]
) -> PaperTable:
    """From parts of (dataset, columns, scores of each row); a score is top-1, or (top-1, top-5)."""
    cells = {}
    for data, columns, rows in parts:
        for row, scores in rows.items():
            for column, score in zip(columns, scores, strict=True):
                top = score if isinstance(score, tuple) else (score,)
                cells[data, row, column] = Cell(number, data, row, column, *top)
    return PaperTable(number, caption, MappingProxyType(cells))


TABLE_1 = _table(
    "I",
    "Test accuracies of SGDM on ImageNet with and without GAF",
    (
        "ImageNet",
        (WITHOUT, VALUE_CLIPPING, NORM_CLIPPING, *ARCTAN),
        {
            "ResNet-18": (
                *((69.67, 89.00), (70.14, 89.29), (69.11, 88.55)),
                *((70.71, 89.57), (70.41, 89.47)),
            ),
            "ResNet-34": (
                *((73.03, 90.79), (72.43, 90.92), (72.61, 90.70)),
                *((73.64, 91.30), (73.49, 91.34)),
            ),
            "ResNet-50": (
                *((75.22, 92.15), (74.90, 92.04), (75.15, 92.24)),
                *((75.91, 92.60), (76.02, 92.64)),
            ),
            "SE-ResNet-18": (
                *((70.63, 89.65), (70.78, 89.58), (69.89, 88.99)),
                *((71.15, 90.14), (71.54, 90.24)),
            ),
            "SE-ResNet-34": (
                *((72.75, 90.94), (73.05, 90.97), (72.77, 90.91)),
                *((73.64, 91.67), (73.74, 91.50)),
            ),
            "SE-ResNet-50": (
                *((75.57, 92.25), (75.49, 92.32), (75.33, 92.37)),
                *((76.32, 92.96), (76.30, 92.95)),
            ),
        },
    ),
)

TABLE_2 = _table(
    "II",
    "Test accuracies of SGDM on CIFAR-100 with and without different GAFs",
    (
        "CIFAR-100",
        (WITHOUT, *TANH, *LOG, *ARCTAN),
        {
            "DenseNet-CIFAR": (76.22, 76.74, 77.30, 76.90, 76.72, 76.90, 76.91),
            "DenseNet-169": (79.99, 80.71, 80.29, 80.70, 80.40, 80.37, 79.77),
            "DPN-26": (79.05, 79.97, 79.90, 79.63, 79.76, 79.50, 79.26),
            "GoogLeNet": (79.78, 80.35, 80.56, 80.18, 80.43, 80.25, 80.26),
            "ResNet-50": (79.54, 80.43, 80.11, 80.58, 80.49, 79.73, 79.90),
            "RegNetX-200MF": (78.10, 78.52, 78.48, 78.71, 78.53, 78.26, 78.14),
        },
    ),
)

TABLE_3 = _table(
    "III",
    "Test accuracies of Adam on CIFAR with and without the GAF",
    (
        "CIFAR-10",
        (WITHOUT, *ARCTAN),
        {
            "ResNet-34": (94.14, 94.36, 94.44),
            "Pre-Act-ResNet-34": (93.63, 93.97, 93.96),
            "ResNet-50": (93.74, 94.41, 94.42),
            "Pre-Act-ResNet-50": (94.06, 94.15, 94.40),
        },
    ),
    (
        "CIFAR-100",
        (WITHOUT, *ARCTAN),
        {
            "ResNet-34": (74.57, 75.07, 75.06),
            "Pre-Act-ResNet-34": (73.48, 73.75, 73.69),
            "ResNet-50": (75.01, 75.34, 75.69),
            "Pre-Act-ResNet-50": (73.73, 74.82, 74.71),
        },
    ),
)

_PRECISIONS = {
    WITHOUT: (
        *(77.71, 82.57, 85.47, 75.54, 70.24, 52.13, 85.81, 86.37, 88.32, 60.85, 81.70),
        *(77.02, 85.02, 86.82, 84.17, 79.57, 52.34, 77.41, 79.15, 86.22, 77.38),
    ),
    ARCTAN[0]: (
        *(78.01, 82.81, 83.97, 76.64, 68.85, 53.28, 86.72, 87.14, 86.79, 64.32, 82.86),
        *(75.37, 83.82, 88.12, 84.20, 80.30, 52.07, 77.66, 81.82, 86.42, 77.03),
    ),
    ARCTAN[1]: (
        *(78.21, 84.07, 84.65, 78.01, 71.55, 54.57, 85.30, 87.03, 87.54, 62.84, 82.86),
        *(74.70, 84.77, 86.65, 85.67, 80.61, 52.20, 78.03, 78.84, 86.79, 77.57),
    ),
}
TABLE_4 = PaperTable(
    "IV",
    "Test accuracies of SGDM on PASCAL VOC 2007 with and without GAF",
    MappingProxyType(
        {
            ("PASCAL VOC 2007", "SSD300", column): Cell(
                "IV", "PASCAL VOC 2007", "SSD300", column, map=mean, ap=tuple(ap)
            )
            for column, (mean, *ap) in _PRECISIONS.items()
        }
    ),
)

TABLES = {table.number: table for table in (TABLE_1, TABLE_2, TABLE_3, TABLE_4)}
