"""Run the Python blocks of the pages: each page is one program, in a process and a folder of its own.

Run by `make docs`, after check.py. A block followed by a `text` block must print what that shows. A block
that cannot run everywhere has `<!-- not run: REASON -->` above it; check.py has compiled it.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import re
import sys
import tempfile
import time
import traceback
import types
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from check import ROOT, compile_block, fenced_blocks, pages

AT_ONCE = 2
FIRST = ("compare.md", "tables.md", "frameworks.md")  # what takes longest does not begin last
SECONDS = 600  # for a page, on a machine that is busy with other things too
SHARED = ("torch._dynamo", "torch.testing", "sklearn.datasets", "sympy", "gaf.lab.study.compare")
NOT_RUN = re.compile(r"<!-- not run: (.+) -->")


class Block(NamedTuple):
    """A Python block: its first line, its code, what it must print (or None), why it is not run (or "")."""

    first: int
    code: str
    prints: str | None
    not_run: str


def blocks(text: str) -> Iterator[Block]:
    """The Python blocks of a page, in order."""
    lines = text.splitlines()
    found = list(fenced_blocks(text))
    for number, (language, first, code) in enumerate(found):
        if language != "python":
            continue
        following = found[number + 1] if number + 1 < len(found) else None
        prints = None
        # the fence that closes the block and the one that opens the text, nothing else between
        if following and following[0] == "text":
            between = lines[first + len(code) - 1 : following[1] - 1]
            if sum(bool(line.strip()) for line in between) == 2:
                prints = "\n".join(following[2])
        above = next((line for line in reversed(lines[: first - 2]) if line.strip()), "")
        marked = NOT_RUN.fullmatch(above.strip())
        indent = min((len(x) - len(x.lstrip()) for x in code if x.strip()), default=0)
        yield Block(
            first,
            "\n".join(x[indent:] for x in code) + "\n",
            prints,
            marked[1] if marked else "",
        )


def complaint(page: Path) -> str:
    """Run a page's blocks; what is wrong with the first that fails, or nothing."""
    module = types.ModuleType("page")  # a real module: dataclasses and pickle look theirs up
    sys.modules["page"] = module
    for block in blocks(page.read_text("utf-8")):
        if block.not_run:
            continue
        said = io.StringIO()
        try:
            with contextlib.redirect_stdout(said):
                exec(compile_block(block.code, block.first, page), vars(module))
        except BaseException as error:
            frames = traceback.extract_tb(error.__traceback__)
            line = next((f.lineno for f in reversed(frames) if f.filename == str(page)), "?")
            return f"{page.name}:{line}: {type(error).__name__}: {error}"
        if block.prints is not None and said.getvalue().split() != block.prints.split():
            return f"{page.name}:{block.first}: prints\n{said.getvalue()}"
    return ""


def _in_a_process(page: Path, report: Path) -> None:
    import torch

    torch.set_num_threads(1)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)  # progress of what trains
        said = complaint(page)
        os.chdir(ROOT)
    report.write_text(f"{time.perf_counter() - began:.1f}\n{said}", "utf-8")


def run(chosen: Sequence[Path], reports: Path) -> dict[Path, tuple[float, str]]:
    """Seconds and complaint of each page, some pages at once."""
    for name in SHARED:  # forked, not imported again for each page
        import_module(name)
    context = multiprocessing.get_context("fork")
    waiting, going, found = list(chosen), {}, {}
    while waiting or going:
        while waiting and len(going) < AT_ONCE:
            page = waiting.pop(0)
            report = reports / f"{len(waiting)}.txt"
            process = context.Process(target=_in_a_process, args=(page, report))
            process.start()
            going[page] = process, report, time.monotonic() + SECONDS
        for page, (process, report, end) in list(going.items()):
            process.join(0.05)
            if process.is_alive() and time.monotonic() > end:
                process.kill()
                process.join()
            if not process.is_alive():
                seconds, _, said = (
                    report.read_text("utf-8") if report.exists() else f"0\n{page.name}: was killed"
                ).partition("\n")
                found[page] = float(seconds), said
                del going[page]
    return found


def main(names: Sequence[str]) -> int:
    """Run all pages, or those named; the exit status is 1 when one fails."""
    chosen = [Path(name).resolve() for name in names] or pages()
    texts = {page: list(blocks(page.read_text("utf-8"))) for page in chosen}
    chosen = [page for page in chosen if any(not block.not_run for block in texts[page])]
    chosen.sort(key=lambda page: page.name not in FIRST)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as reports:
        found = run(chosen, Path(reports))
    for page in chosen:
        seconds, said = found[page]
        if said:
            print(said, file=sys.stderr)
        if len(names) or seconds > 5:
            print(f"{page.name}: {seconds:.0f} s")
    left_out = [block for each in texts.values() for block in each if block.not_run]
    count = sum(not block.not_run for each in texts.values() for block in each)
    failed = sum(bool(said) for _, said in found.values())
    print(
        f"{count} blocks of {len(chosen)} pages run, {failed} pages fail, {len(left_out)} blocks "
        f"compiled only, in {time.perf_counter() - began:.0f} s"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
