"""The page of the family: `python docs/family.py` rewrites the tables of docs/family.md.

What is measured comes from results/family.json; `python docs/family.py --measure` writes it anew, on a quiet
machine, in minutes: the difference of each member to its original after 100 steps, and the time of a step.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

import gaf
from gaf.common.files import write_whole
from gaf.lab.bench.timing import collect

ROOT = Path(__file__).parent.parent
PAGE, RECORD = ROOT / "docs" / "family.md", ROOT / "results" / "family.json"
TABLE = re.compile(r"(<!-- (members|figures) -->\n\n)((?:\|.*\n)*)")
SIZES = [2_359_296] * 2 + [589_824] * 4 + [2_304] * 20 + [512] * 60  # as a residual network's
REPETITIONS = 30


def members() -> str:
    rows = ["| name | step | setting | bound of a step, by lr | source |", "|---|---|---|---|---|"]
    for member in gaf.FAMILY.values():
        given = ", ".join(f"{key}={value}" for key, value in member.arguments.items())
        setting = f"`{member.setting}`" + (f", {given}" if given else "")
        cells = (f"`{member.name}`", member.formula, setting, member.bound, member.source)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "".join(row + "\n" for row in rows)


def figures() -> str:
    record = json.loads(RECORD.read_text("utf-8"))["members"]
    heads = (
        "name",
        "float64",
        "float32",
        "ours, ms",
        "original, ms",
        "what differs there",
        "evidence",
    )
    rows = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for name, member in gaf.FAMILY.items():
        one = record.get(name, {})
        parity = [f"{one[key]:.0e}" if key in one else "–" for key in ("float64", "float32")]
        times = [f"{one[key]:.1f}" if key in one else "–" for key in ("ours", "original")]
        if one.get("timed") == "package":
            times[1] += " (package)"
        cells = (f"`{name}`", *parity, *times, member.differs or "nothing known", member.evidence)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "".join(row + "\n" for row in rows)


def written(text: str) -> str:
    tables = {"members": members, "figures": figures}
    return TABLE.sub(lambda found: found[1] + tables[found[2]](), text)


def measure() -> dict:
    """Parity and step times of every member that has an original."""
    sys.path.insert(0, str(ROOT))
    from tests.optim.test_family import ORIGINALS, by_member, by_original, trained

    record = {}
    for name, (make, given) in ORIGINALS.items():
        one: dict = {}
        for dtype in (torch.float64, torch.float32):
            theirs = trained(by_original(make, given), dtype)
            ours = trained(by_member(name, given), dtype)
            gaps = [(a - b).abs().max().item() for a, b in zip(ours, theirs, strict=True)]
            one[str(dtype).removeprefix("torch.")] = max(gaps)
        steps = {"ours": by_member(name, given), "original": by_original(make, given)}
        record[name] = one | timed(steps)
        print(name, record[name], flush=True)
    record["adam-atan2"] |= package_time()
    return {"members": record, "torch": torch.__version__, "elements": sum(SIZES)}


def timed(steps: dict) -> dict[str, float]:
    """Median milliseconds of a step of each, interleaved."""
    run = {}
    for key, step_of in steps.items():
        params = [torch.randn(n) for n in SIZES]
        for p in params:
            p.grad = torch.randn_like(p) * 1e-2
        run[key] = step_of(params)
    times: dict[str, list[float]] = {}
    collect(run, times, repeats=REPETITIONS)
    return {key: 1e3 * statistics.median(values) for key, values in times.items()}


def package_time() -> dict:
    """Adam-atan2 against the published package and torch's fused Adam, in an environment that has it."""
    with tempfile.TemporaryDirectory() as folder:
        script = ROOT / "tests" / "optim" / "originals" / "packages.py"
        subprocess.run([sys.executable, script, folder], check=True, stdout=subprocess.DEVNULL)
        done = subprocess.run(
            [Path(folder) / "bin" / "python", __file__, "--package"],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )
    return json.loads(done.stdout.splitlines()[-1])


def package() -> None:
    from adam_atan2_pytorch import AdamAtan2

    steps = {
        "ours": lambda params: gaf.create_optimizer("adam-atan2", params, fused=True).step,
        "original": lambda params: AdamAtan2(params).step,
        "torch_fused_adam": lambda params: torch.optim.Adam(params, fused=True).step,
    }
    print(json.dumps({**timed(steps), "timed": "package"}))


if __name__ == "__main__":
    if "--package" in sys.argv:
        package()
    else:
        if "--measure" in sys.argv:
            write_whole(RECORD, json.dumps(measure(), indent=1).encode() + b"\n")
        write_whole(PAGE, written(PAGE.read_text("utf-8")).encode())
