"""The core tests on another Python and another torch: `make compat PYTHON=python3.12 TORCH=2.13.0`.

For Linux on a CPU. PyPI's torch is a CUDA build, several gigabytes with all it asks for; to import it takes
the CUDA runtime, CUPTI, and for every other library an empty one of the same name. The environment lies in
build/compat and is removed at the end.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORE = ("tests/functions", "tests/optim", "tests/kernels")
TOOLS = ("pytest", "pytest-xdist", "hypothesis", "numpy", "rich", "typer")
NOT_ON_A_CPU = re.compile("nvidia-|cuda-|triton")

REQUIREMENTS = "import importlib.metadata as m; print(*m.requires('torch'), sep='\\n')"
FACTS = """
import platform, torch, gaf
from gaf.kernels import available
print("Python", platform.python_version(), "torch", torch.__version__, "kernels", available()["native"])
"""


def main(torch: str) -> int:
    """Make the environment with this interpreter, run the tests, remove it; returns pytest's status."""
    place = ROOT / "build" / "compat" / f"{sys.version_info.major}.{sys.version_info.minor}-{torch}"
    shutil.rmtree(place, ignore_errors=True)
    venv.create(place, with_pip=True)
    python = str(place / "bin" / "python")
    try:
        stubs = install(python, torch, place)
        environment = {**os.environ, "LD_LIBRARY_PATH": str(stubs)}
        subprocess.run([python, "-c", FACTS], check=True, env=environment)
        tests = [python, "-m", "pytest", "-q", "-n", "2", "-m", "not slow", *CORE]
        return subprocess.run(tests, cwd=ROOT, env=environment).returncode
    finally:
        shutil.rmtree(place)


def install(python: str, torch: str, place: Path) -> Path:
    """torch and what it imports, the tests' tools, this project; returns the folder of empty libraries."""
    pip(python, "--no-deps", f"torch=={torch}")
    asked = subprocess.run([python, "-c", REQUIREMENTS], check=True, capture_output=True, text=True)
    requirements = [line for line in asked.stdout.splitlines() if "extra ==" not in line]
    light = [line for line in requirements if not NOT_ON_A_CPU.match(line)]
    pip(python, "-c", str(ROOT / "constraints.txt"), *light, *TOOLS)
    pip(python, "--no-deps", "-e", str(ROOT))
    libraries = next(place.glob("lib/python*/site-packages/torch/lib"))
    if missing(libraries):
        pip(python, "--no-deps", *runtime(requirements))
    return stub(libraries, place / "stubs")


def pip(python: str, *words: str) -> None:
    command = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", *words]
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


def missing(libraries: Path) -> set[str]:
    """The libraries that those of torch need and this machine lacks."""
    found = set()
    for path in libraries.glob("*.so"):
        listed = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
        found |= set(re.findall(r"(\S+) => not found", listed))
    return found


SYMBOL = re.compile(r"^\S+ (.{7}) (\S+)\s+\S+ +\(?([^\s()]+)\)? +(\S+)$", re.MULTILINE)


def stub(libraries: Path, folder: Path) -> Path:
    """Empty libraries for what is missing, with the symbols and versions that torch refers to."""
    folder.mkdir()
    versions: dict[str, set[str]] = defaultdict(set)  # by library
    wanted: dict[str, set[str]] = defaultdict(set)  # by version, "Base" for none
    defined = set()
    for path in libraries.glob("*.so"):
        dump = subprocess.run(["objdump", "-pT", path], capture_output=True, text=True).stdout
        for name, lines in re.findall(r"required from (\S+):\n((?:    .*\n)*)", dump):
            versions[name] |= set(re.findall(r"(\S+)\n", lines))
        for flags, section, version, symbol in SYMBOL.findall(dump):
            if section != "*UND*":
                defined.add(symbol)
            elif "w" not in flags:
                wanted[version].add(symbol)
    lacking = sorted(missing(libraries))
    plain = sorted(
        wanted["Base"] - defined
    )  # nobody says of which library, so the first has them all
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
