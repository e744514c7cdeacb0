"""docs/models.md lists the models that there are, with their counts."""

import re
from pathlib import Path

from tests.lab.tasks.classification.test_models import COUNTS

PAGE = Path(__file__).resolve().parents[4] / "docs" / "models.md"


def test_list_of_models():
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| ([\d,]+) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert {name: int(count.replace(",", "")) for name, count in rows} == COUNTS
