"""The house stands: folders import only what stands left of them, and `import gaf` stays light."""

from __future__ import annotations

import ast
import graphlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parent.parent / "src"

# A folder imports only what stands before it, of the library and then of the lab.
LIBRARY = ("common", "functions", "kernels", "optim", "trials", "integrations")
LAB = ("theory", "landscape", "data", "tasks", "engine", "study", "reports", "bench", "cli")
LIGHT = ("common", "functions", "kernels", "optim", "trials")  # these need torch alone
LIGHT_MAY_IMPORT = {*sys.stdlib_module_names, "torch", "gaf"}

HEAVY = {
    *("matplotlib", "plotly", "pandas", "scipy", "sklearn", "sympy", "tensorboard"),
    *("lightning", "lightning_fabric", "pytorch_lightning", "jax", "keras", "typer", "rich"),
    *("transformers", "accelerate", "ray", "optax", "gymnasium"),
}
IMPORT_SECONDS = 0.2

FILES = sorted((SRC / "gaf").rglob("*.py"))


def imported_names(node: ast.AST, module: str, is_package: bool) -> list[str]:
    """The full dotted names an import statement may bind: `from ..a import b` gives `gaf.a.b`."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = node.module or ""
    if node.level:
        here = module.split(".")
        up = node.level - is_package  # one dot means the package the module is in
        base = ".".join(here[: len(here) - up] + ([base] if base else []))
    return [f"{base}.{alias.name}" for alias in node.names]


def run_on_import(tree: ast.AST) -> Iterator[ast.AST]:
    """Statements that run when the module is imported: not in functions or under TYPE_CHECKING."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield other
                yield from run_on_import(other)
            continue
        yield child
        yield from run_on_import(child)


def room_of(name: str) -> str:
    """The folder of a module: ``gaf.optim.sgd`` is in optim, ``gaf.lab.data.voc`` in lab.data."""
    parts = name.split(".")
    if parts[:2] == ["gaf", "lab"]:
        return ".".join(parts[1:3])
    return parts[1] if len(parts) > 1 and parts[1] in LIBRARY else "gaf"


HOUSE = (*LIGHT, "gaf", "integrations", "lab", *(f"lab.{folder}" for folder in LAB))


def may_import(room: str) -> set[str]:
    """The rooms that stand before; nobody needs the integrations, and the library no lab."""
    return {*HOUSE[: HOUSE.index(room) + 1]} - ({"integrations"} - {room})


def module_of(path: str | Path) -> tuple[str, bool]:
    """The name of the module at a path relative to src/, and whether it is a package."""
    parts = Path(path).with_suffix("").parts
    is_package = parts[-1] == "__init__"
    return ".".join(parts[:-1] if is_package else parts), is_package


def complaints(source: str, path: str) -> list[str]:
    """What the imports of a module at `path` (relative to src/) do against the design."""
    module, is_package = module_of(path)
    if len(Path(path).parts) < 3:
        return []  # gaf/__init__.py re-exports what it likes; its weight is measured below
    room = room_of(module)
    if room not in HOUSE or room == "gaf":
        return [f"{path}: this folder is not one of the design"]

    tree = ast.parse(source)
    found = []
    for node in ast.walk(tree):
        for name in imported_names(node, module, is_package):
            if name.split(".")[0] == "gaf" and room_of(name) not in may_import(room):
                found.append(f"{path}:{node.lineno}: {room} must not import {name}")
    if room in LIGHT:
        for node in run_on_import(tree):
            for name in imported_names(node, module, is_package):
                if name.split(".")[0] not in LIGHT_MAY_IMPORT:
                    found.append(f"{path}:{node.lineno}: {room} needs torch alone, not {name}")
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(SRC).as_posix())
def test_a_folder_imports_only_what_stands_before_it(file):
    assert complaints(file.read_text("utf-8"), file.relative_to(SRC).as_posix()) == []


def names_and_parents(name: str) -> list[str]:
    """``gaf.lab.data``: gaf, gaf.lab and itself, which are imported in this order."""
    parts = name.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts) + 1)]


def test_any_module_can_be_imported_first():
    """No circle of imports, through the packages that are imported on the way either; CycleError names it."""
    modules = {}
    for file in FILES:
        module, is_package = module_of(file.relative_to(SRC))
        modules[module] = file, is_package
    graph = {
        module: {
            needed
            for node in run_on_import(ast.parse(file.read_text("utf-8")))
            for name in imported_names(node, module, is_package)
            for needed in names_and_parents(name)
            if needed in modules and needed not in names_and_parents(module)
        }
        for module, (file, is_package) in modules.items()
    }
    assert "gaf.functions.base" in graph["gaf.functions.arctan"]
    graphlib.TopologicalSorter(graph).prepare()


def test_there_is_code_to_check():
    assert {"functions", "optim"} <= {file.relative_to(SRC).parts[1] for file in FILES}


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("gaf/functions/a.py", "import gaf.optim"),
        ("gaf/functions/a.py", "from gaf.optim.sgd import SGD"),
        ("gaf/functions/a.py", "from gaf import optim"),
        ("gaf/functions/a.py", "from ..optim import SGD"),
        ("gaf/functions/a.py", "from .. import kernels"),
        ("gaf/functions/deep/a.py", "from ...optim import SGD"),
        ("gaf/functions/__init__.py", "from ..lab.theory import check"),
        ("gaf/functions/a.py", "def f():\n    from gaf.lab.reports import page"),
        ("gaf/optim/a.py", "import gaf"),
        ("gaf/optim/a.py", "from .. import Arctan"),
        ("gaf/lab/engine/a.py", "from gaf.lab.study.tune import probe"),
        ("gaf/lab/data/a.py", "def f():\n    from gaf.lab import tasks"),
        ("gaf/optim/a.py", "from gaf.lab.theory import problems"),
        ("gaf/integrations/a.py", "import gaf.lab.theory"),
        ("gaf/lab/reports/a.py", "from gaf.lab.cli import main"),
        ("gaf/lab/cli/a.py", "from gaf.integrations import lightning"),
        ("gaf/optim/a.py", "import numpy as np"),
        ("gaf/kernels/a.py", "try:\n    import numpy\nexcept ImportError:\n    pass"),
        ("gaf/utils/a.py", ""),
        ("gaf/lab/utils/a.py", ""),
    ],
)
def test_a_wrong_import_is_reported(path, source):
    assert len(complaints(source, path)) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("gaf/__init__.py", "from gaf.optim import SGD\nfrom gaf.functions import Arctan"),
        ("gaf/optim/a.py", "import math\nimport torch\nfrom torch import Tensor"),
        ("gaf/functions/a.py", "from gaf.common.errors import GafError"),
        ("gaf/optim/a.py", "from gaf.functions import Arctan\nfrom . import b\nfrom .b import c"),
        ("gaf/optim/__init__.py", "from .a import SGD\nfrom ..functions.log import Log"),
        ("gaf/optim/a.py", "from ..kernels import foreach\nfrom .. import functions"),
        ("gaf/functions/a.py", "def f():\n    import sympy"),
        ("gaf/functions/a.py", "if TYPE_CHECKING:\n    import sympy"),
        ("gaf/lab/theory/a.py", "import gaf\nimport sympy\nfrom gaf import Arctan"),
        (
            "gaf/lab/cli/a.py",
            "import typer\nfrom gaf.lab.reports import page\nfrom gaf.optim import SGD",
        ),
        ("gaf/integrations/a.py", "import lightning\nimport gaf"),
    ],
)
def test_a_right_import_is_not_reported(path, source):
    assert complaints(source, path) == []


def import_gaf_in_a_new_process() -> dict:
    code = (
        "import json, sys, time, torch\n"
        "before, start = set(sys.modules), time.process_time()\n"
        "import gaf\n"
        "seconds = time.process_time() - start\n"
        "print(json.dumps({'seconds': seconds, 'added': sorted(set(sys.modules) - before)}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_import_gaf_is_light_and_quick():
    run = import_gaf_in_a_new_process()
    modules = set(run["added"])
    assert "gaf" in modules
    assert not {name.split(".")[0] for name in modules} & HEAVY
    assert not modules & {"gaf.lab", "gaf.integrations"}
    # of processor time; a busy machine may take longer once
    assert (
        run["seconds"] <= IMPORT_SECONDS
        or import_gaf_in_a_new_process()["seconds"] <= IMPORT_SECONDS
    )
