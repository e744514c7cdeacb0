"""The files that a task of the user's own is made of: its module, and what that imports from its folder.

Imports are read from the text, not followed as Python runs: statements inside functions and branches count,
whether or not they have run yet, so that every process reads the same files.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PACKAGE = "gaf"  # its parts have versions

# By module: the spec it was imported with and the checksums at that time. A process that trains several runs
# keeps the code it has imported, whatever happens to the files.
_imported: dict[str, tuple[Any, dict[str, str]]] = {}


def checksums(module_name: str) -> dict[str, str]:
    """The sha256 of each file of an imported module, by its path from the folder of the top-level module.

    The files are the module, the packages it is in, and what these import, directly or not, from below that
    folder. The package gaf is left out. A module that was typed at a prompt has no files.
    """
    module = sys.modules[module_name]
    spec, known = _imported.get(module_name, (None, {}))
    if known and spec is module.__spec__:
        return known
    file = getattr(module, "__file__", None)
    if file is None:
        return {}
    path = Path(file).absolute()
    parts = len(module_name.split("."))
    root = path.parents[parts if path.name == "__init__.py" else parts - 1]
    digests = _digests(root, path)
    _imported[module_name] = (module.__spec__, digests)
    return digests


def script_checksums(path: Path) -> dict[str, str]:
    """The sha256 of a script as it is now and of each file it imports from below its folder."""
    return _digests(path.absolute().parent, path.absolute())


def _digests(root: Path, first: Path) -> dict[str, str]:
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in _files(root, first)
    }


def _files(root: Path, first: Path) -> list[Path]:
    """The file and all it imports from below root, sorted."""
    files: set[Path] = set()
    # the packages between root and a file run before it
    folders = [folder for folder in first.parents if folder.is_relative_to(root) and folder != root]
    packages = [init for folder in folders if (init := folder / "__init__.py").is_file()]
    waiting = [first, *packages]
    while waiting:
        path = waiting.pop()
        if path in files:
            continue
        files.add(path)
        for parts in _imports(root, path):
            waiting += _resolved(root, parts)
    return sorted(files)


def _imports(root: Path, path: Path) -> Iterator[tuple[str, ...]]:
    """Every name that may be a module, as its parts counted from root."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # an extension module: it imports what nobody can read here
        return
    here = path.relative_to(root).parts[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield tuple(alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) + 1 - node.level] if node.level else ()
            base += tuple(node.module.split(".")) if node.module else ()
            yield base
            for alias in node.names:
                yield (*base, alias.name)


def _resolved(root: Path, parts: tuple[str, ...]) -> list[Path]:
    """The files below root that importing this name runs: the module and the packages above it."""
    if not parts or parts[0] == PACKAGE:
        return []
    files = []
    for count in range(1, len(parts) + 1):
        place = root.joinpath(*parts[:count])
        for candidate in (place / "__init__.py", place.with_name(f"{place.name}.py")):
            if candidate.is_file():
                files.append(candidate)
                break
    return files
