"""The core tests on another Python and another torch: `make compat PYTHON=python3.12 TORCH=2.6.0`.

For Linux on a CPU. PyPI's torch is a CUDA build, several gigabytes with all it asks for; to import it takes
the CUDA runtime, CUPTI, and for every other library an empty one of the same name. The environment lies in
build/compat and is removed at the end. `SUITE=distributed` runs the tests with several processes.

`RECORD=--record` keeps the counts in results/compat.json and writes the tables of docs/machines.md anew.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import venv
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RECORD, PAGE = ROOT / "results" / "compat.json", ROOT / "docs" / "machines.md"
CORE = ("tests/functions", "tests/optim", "tests/kernels")
SUITES = {  # folders, and which of their tests
    "core": (CORE, "not slow"),
    "examples": (CORE, "not slow and not hypothesis"),  # half the time
    "distributed": (("tests/distributed",), ""),
}
TOOLS = ("pytest", "pytest-xdist", "hypothesis", "numpy", "rich", "typer")
NOT_ON_A_CPU = re.compile("nvidia-|cuda-|triton")

REQUIREMENTS = "import importlib.metadata as m; print(*m.requires('torch'), sep='\\n')"
FACTS = """
import platform, torch, gaf
from gaf.kernels import available
print("Python", platform.python_version(), "torch", torch.__version__, "kernels", available()["native"])
"""


def main(torch: str, suite: str = "core", *options: str) -> int:
    """Make the environment with this interpreter, run the tests, remove it; returns pytest's status."""
    place = ROOT / "build" / "compat" / f"{sys.version_info.major}.{sys.version_info.minor}-{torch}"
    shutil.rmtree(place, ignore_errors=True)
    venv.create(place, with_pip=True)
    python, report = str(place / "bin" / "python"), place / "report.xml"
    folders, marked = SUITES[suite]
    try:
        stubs = install(python, torch, place)
        # src has the kernels that `make setup` built, which depend on no version of Python or torch
        environment = {**os.environ, "LD_LIBRARY_PATH": str(stubs), "PYTHONPATH": str(ROOT / "src")}
        subprocess.run([python, "-c", FACTS], check=True, env=environment)
        tests = [python, "-m", "pytest", "-q", "-n", "2", "--dist", "worksteal", "-m", marked]
        command = [*tests, f"--junitxml={report}", *folders]
        status = subprocess.run(command, cwd=ROOT, env=environment).returncode
        if "--record" in options:
            record({"suite": suite, "torch": torch, **counts(report)})
        return status
    finally:
        shutil.rmtree(place)


def counts(report: Path) -> dict[str, Any]:
    """What pytest's report says: how many tests ended how, and why some were skipped."""
    root = ElementTree.parse(report).getroot()
    ends = {
        kind: len(root.findall(f".//testcase/{kind}")) for kind in ("failure", "error", "skipped")
    }
    reasons = Counter(each.get("message", "") for each in root.iterfind(".//testcase/skipped"))
    return {
        "python": platform.python_version(),
        "date": datetime.date.today().isoformat(),
        "passed": len(root.findall(".//testcase")) - sum(ends.values()),
        "failed": ends["failure"] + ends["error"],
        "skipped": dict(sorted(reasons.items())),
    }


def record(row: dict[str, Any]) -> None:
    """Keep a run in the place of an earlier one of the same suite, torch and Python."""
    rows = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else []
    rows = [row, *(each for each in rows if identity(each) != identity(row))]
    text = json.dumps(sorted(rows, key=identity), indent=2, ensure_ascii=False)
    RECORD.write_text(text + "\n", "utf-8")
    PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")


def identity(row: dict[str, Any]) -> tuple[Any, ...]:
    version = tuple(int(part) for part in row["torch"].split("."))
    return row["suite"], version, row["python"]


def written(text: str) -> str:
    """The page with its tables as the record has them."""
    rows = json.loads(RECORD.read_text("utf-8"))
    for suite in SUITES:
        lines = [
            "| torch | Python | passed | failed | skipped | run on |",
            "|---|---|---|---|---|---|",
        ]
        for row in rows:
            if row["suite"] == suite:
                skipped = sum(row["skipped"].values())
                cells = [row[name] for name in ("torch", "python", "passed", "failed")]
                lines.append("| " + " | ".join(map(str, [*cells, skipped, row["date"]])) + " |")
        table = "".join(f"{line}\n" for line in lines)
        marker = re.compile(rf"(<!-- results/compat.json: {suite} -->\n\n)(?:\|.*\n)*\n*")
        text = marker.sub(lambda found, table=table: f"{found[1]}{table}\n", text)
    return text


def install(python: str, torch: str, place: Path) -> Path:
    """torch and what it imports, the tests' tools, this project; returns the folder of empty libraries."""
    pip(python, "--no-deps", f"torch=={torch}")
    asked = subprocess.run([python, "-c", REQUIREMENTS], check=True, capture_output=True, text=True)
    requirements = [line for line in asked.stdout.splitlines() if "extra ==" not in line]
    light = [line for line in requirements if not NOT_ON_A_CPU.match(line)]
    pip(python, *light)  # torch's own bounds, which may lie below the pins
    pip(python, "-c", str(ROOT / "constraints.txt"), *TOOLS)
    libraries = next(place.glob("lib/python*/site-packages/torch/lib"))
    if missing(libraries):
        pip(python, "--no-deps", *runtime(requirements))
    return stub(libraries, place / "stubs")


def pip(python: str, *words: str) -> None:
    command = [python, "-m", "pip", "install", "-qq", "--no-compile", *words]
    subprocess.run(command, check=True)


def runtime(requirements: list[str]) -> list[str]:
    """The wheels of the CUDA runtime and of CUPTI: by exact version, or by that of `cuda-toolkit`."""
    exact = [
        line.split(";")[0] for line in requirements if re.match("nvidia-cuda-(runtime|cupti)", line)
    ]
    toolkit = [
        m[1] for line in requirements if (m := re.search(r"^cuda-toolkit.*==(\d+\.\d+)", line))
    ]
    return exact or [f"nvidia-cuda-{part}=={toolkit[0]}.*" for part in ("runtime", "cupti")]


def run_text(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True).stdout


def missing(libraries: Path) -> set[str]:
    """The libraries that those of torch need and this machine lacks."""
    found = set()
    for path in libraries.glob("*.so"):
        found |= set(re.findall(r"(\S+) => not found", run_text("ldd", path)))
    return found


SYMBOL = re.compile(r"^ +U ([^@\s]+)(?:@+(\S+))?$", re.MULTILINE)


def stub(libraries: Path, folder: Path) -> Path:
    """Empty libraries for what is missing, with the symbols and versions that torch refers to."""
    folder.mkdir()
    versions: dict[str, set[str]] = defaultdict(set)  # by library
    wanted: dict[str, set[str]] = defaultdict(set)  # by version, "" for none
    defined = set()
    for path in libraries.glob("*.so"):
        needs = run_text("objdump", "-p", path)
        for name, lines in re.findall(r"required from (\S+):\n((?:    .*\n)*)", needs):
            versions[name] |= set(re.findall(r"(\S+)\n", lines))
        for symbol, version in SYMBOL.findall(run_text("nm", "-D", "--undefined-only", path)):
            wanted[version].add(symbol)
        defined |= set(re.findall(r"(\S+)\n", run_text("nm", "-D", "--defined-only", path)))
    lacking = sorted(missing(libraries))
    plain = sorted(wanted[""] - defined)  # of which library is not said, so the first has them all
    for name in lacking:
        nodes = {version: sorted(wanted[version]) for version in sorted(versions[name])}
        symbols = [
            *(plain if name == lacking[0] else []),
            *(each for some in nodes.values() for each in some),
        ]
        code, script = folder / f"{name}.c", folder / f"{name}.map"
        code.write_text("".join(f"void {symbol}(void) {{}}\n" for symbol in symbols))
        lines = [
            f"{node} {{ {' '.join(f'{each};' for each in some)} }};" for node, some in nodes.items()
        ]
        script.write_text("\n".join(lines))
        given = [f"-Wl,--version-script={script}"] if nodes else []
        command = [
            "gcc",
            "-w",
            "-shared",
            "-fPIC",
            code,
            "-o",
            folder / name,
            f"-Wl,-soname,{name}",
        ]
        subprocess.run([*command, *given], check=True)
    return folder


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
