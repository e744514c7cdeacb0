"""The tables of speed: `python docs/speed.py` rewrites those of docs/kernels.md and README.md.

They are made from the records in benchmarks/results that `gaf bench --save` wrote: a column for the newest
record of each processor.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from gaf.common.files import write_whole

ROOT = Path(__file__).resolve().parent.parent
RECORDS, PAGES = ROOT / "benchmarks" / "results", (ROOT / "docs" / "kernels.md", ROOT / "README.md")
TABLE = re.compile(r"(<!-- benchmarks/results: (all|short) -->\n\n)((?:\|.*\n)*)")

# By the title of the target: SGD's velocity and f are "GAF-SGDM" there.
SHORT = {
    "fused GAF-SGDM / torch fused SGD, ResNet-50": "SGD with f / torch's fused SGD",
    "fused GAF-Adam / torch fused Adam, ResNet-50": "Adam with f / torch's fused Adam",
    "fused GAF-AdamW / torch fused AdamW, ResNet-50": "AdamW with f / torch's fused AdamW",
    "fused GAF-SGDM / (clip_grad_norm_ + torch fused SGD)": (
        "SGD with f / (`clip_grad_norm_` and torch's fused SGD)"
    ),
}
ALL = {
    **SHORT,
    "fused GAF-SGDM with Auto / torch fused SGD, ResNet-50": "SGD with Auto / torch's fused SGD",
    "fused GAF-SGDM / torch fused SGD, tiny tensors": "SGD, 1,000 tensors of 64 elements",
    "fused GAF-Adam / torch fused Adam, tiny tensors": "Adam, 1,000 tensors of 64 elements",
    "fused GAF-SGDM / torch fused SGD, busy machine": "SGD beside two processes that compute",
    "fused GAF-Adam / torch fused Adam, busy machine": "Adam beside two processes that compute",
    "activate_grad_ / clip_grad_norm_": "`activate_grad_` / `clip_grad_norm_`",
    "fused GAF-SGDM / bandwidth limit": (
        "SGD with f / a pass that moves the same bytes and computes nothing"
    ),
    "fused GAF-Adam / bandwidth limit": "Adam with f / such a pass",
}


def newest() -> list[dict[str, Any]]:
    """The newest record with targets of each processor and number of threads."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for path in sorted(RECORDS.glob("*.json")):
        record = json.loads(path.read_text("utf-8"))
        if "targets" in record and record["complete"]:
            key = record["cpu"], record["threads"]
            if key not in found or record["date"] > found[key]["date"]:
                found[key] = record
    return list(found.values())


def figure(record: dict[str, Any], title: str) -> str:
    """Median and interval of a target's ratio; those of earlier records have no interval."""
    over = next((one["ratio"] for one in record["targets"] if one["title"] == title), None)
    if not over:
        return "–"
    if over.get("low") is None:
        return f"{over['median']:.2f}"
    return f"{over['median']:.2f} ({over['low']:.2f} to {over['high']:.2f})"


def table(rows: dict[str, str]) -> str:
    records = newest()
    heads = ["", *(f"{record['cpu']}, {record['threads']} threads" for record in records)]
    lines = [heads, ["---"] * len(heads)]
    lines += [
        [name, *(figure(record, title) for record in records)] for title, name in rows.items()
    ]
    lines.append(["date", *(record["date"][:10] for record in records)])
    lines.append(["kernels", *(_kernels(record.get("kernels")) for record in records)])
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def _kernels(build: dict[str, Any] | None) -> str:
    return f"{build['in_use']}, {build['sources']}" if build else "not recorded"


def written(text: str) -> str:
    return TABLE.sub(lambda found: found[1] + table(ALL if found[2] == "all" else SHORT), text)


if __name__ == "__main__":
    for page in PAGES:
        write_whole(page, written(page.read_text("utf-8")).encode())
