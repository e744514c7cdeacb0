"""Check the Markdown pages: links resolve, Python blocks compile, names exist, numbers have a record.

Run by `make docs`, before blocks.py runs the Python blocks. Links to other sites are not followed. A line
such as `gaf table cifar100 --dry-run` is parsed by the command itself, which is not started.
"""

from __future__ import annotations

import ast
import re
import shlex
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

FENCE = re.compile(r"^\s*(?P<ticks>`{3,}|~{3,})\s*(?P<language>[\w+-]*)")
INLINE_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
LINKS = (
    re.compile(r"\]\(\s*<?([^)\s>]+)"),  # [text](target) and ![text](target)
    re.compile(r"^\s{0,3}\[[^\]]+\]:\s*<?([^\s>]+)"),  # [label]: target
    re.compile(r"<(?:a|img|source)\b[^>]*?\b(?:href|src|srcset)=[\"']([^\"']+)"),
)
NAME = re.compile(r"(?<!`)`(gaf(?:\.\w+)+)`(?!`)")
HISTORY = ("CHANGELOG.md",)  # may name what is gone
# What only a measurement gives: a decimal with its unit, a spread, an interval, a share of seeds ...
MEASURED = re.compile(
    r"\d+\.\d+ ?(?:%|points?\b|ms\b|µs\b|MB\b|bits?\b|times\b)|\d ± ?\d|× ?\d+\.\d"
    r"|[+−]\d+\.\d+ \[|\b\d+ of \d+ seeds\b|\bon all (?:\d+|ten) seeds\b"
)
# ... and where it comes from: a record, a test, a script, or a page that is written by a command.
SOURCE = re.compile(r"results/|benchmarks/|tests/|docs/\w+\.py|<!-- (?:no record|results)")
WRITTEN = "<!-- Written by `gaf "
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")
OTHER_SITE = re.compile(r"^([a-z][a-z0-9+.-]*:|//)", re.IGNORECASE)


def python_blocks(text: str) -> Iterator[tuple[int, str]]:
    """Each fenced ``python`` block as (number of its first line, its code)."""
    for language, first, lines in fenced_blocks(text):
        if language == "python":
            indent = min((len(x) - len(x.lstrip()) for x in lines if x.strip()), default=0)
            yield first, "\n".join(x[indent:] for x in lines) + "\n"


def compile_block(code: str, first_line: int, page: Path):
    """Compile a block so that a traceback names the page and the line in it."""
    return compile("\n" * (first_line - 1) + code, str(page), "exec", dont_inherit=True)


def complaints(page: Path, root: Path = ROOT) -> Iterator[str]:
    """What is wrong with a page, one line for each thing."""
    text = page.read_text(encoding="utf-8")
    name = page.relative_to(root)
    for first, code in python_blocks(text):
        try:
            compile_block(code, first, page)
        except SyntaxError as error:
            yield f"{name}:{error.lineno}: Python block does not compile: {error.msg}"
    for number, line in shell_lines(text):
        if problem := command_problem(line):
            yield f"{name}:{number}: {line}: {problem}"
    for number, line in _prose(text, keep_code=True):
        for dotted in NAME.findall(line) if page.name not in HISTORY else ():
            if problem := name_problem(dotted):
                yield f"{name}:{number}: {dotted}: {problem}"
    if page.name not in HISTORY and not text.startswith(WRITTEN):
        yield from (f"{name}:{place}" for place in unrecorded(text))
    for number, line in _prose(text):
        for target in (match for pattern in LINKS for match in pattern.findall(line)):
            if not OTHER_SITE.match(target) and (problem := _broken(target, page, root)):
                yield f"{name}:{number}: link to {target}: {problem}"


def unrecorded(text: str) -> Iterator[str]:
    """Measured numbers in a section that names no source, with their lines.

    `<!-- no record: REASON -->` in the section says why there is none.
    """
    sections: list[list[tuple[int, str]]] = [[]]
    for number, line in _prose(text, keep_code=True):
        if HEADING.match(line):
            sections.append([])
        sections[-1].append((number, line))
    for section in sections:
        if not any(SOURCE.search(line) for _, line in section):
            for number, line in section:
                if found := MEASURED.search(INLINE_CODE.sub("", line)):
                    yield f"{number}: {found[0]}: a measured number, and the section names no record"


def name_problem(name: str) -> str:
    """Why a dotted name of ours does not exist, by the sources: nothing is imported.

    What a module imports from another one, and what a class may inherit, is taken to exist.
    """
    folder, parts = ROOT / "src", name.split(".")
    while parts and (folder / parts[0]).is_dir():
        folder /= parts.pop(0)
    file = folder / "__init__.py"
    if parts and (folder / f"{parts[0]}.py").is_file():
        file = folder / f"{parts.pop(0)}.py"
    scope: ast.AST = ast.parse(file.read_text("utf-8"))
    for part in parts:
        defined = [node for node in ast.iter_child_nodes(scope) if part in _binds(node)]
        if not defined and not getattr(scope, "bases", ()):
            return f"{file.relative_to(ROOT)} has no {part}"
        if not defined or isinstance(defined[0], ast.Import | ast.ImportFrom):
            return ""
        scope = defined[0]
    return ""


def _binds(node: ast.AST) -> set[str]:
    """The names that a statement gives to something."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name for alias in node.names}
    targets = [*getattr(node, "targets", ()), getattr(node, "target", None)]
    return {
        name.id
        for target in targets
        if target
        for name in ast.walk(target)
        if isinstance(name, ast.Name)
    }


def shell_lines(text: str) -> Iterator[tuple[int, str]]:
    """Numbered lines of shell blocks, a line that goes on after a backslash as one."""
    for language, first, lines in fenced_blocks(text):
        if language == "bash":
            begun, number = "", first
            for place, line in enumerate(lines, start=first):
                begun, number = (begun + line.strip(), number if begun else place)
                if begun.endswith("\\"):
                    begun = begun[:-1]
                else:
                    yield number, begun
                    begun = ""


def command_problem(line: str) -> str:
    """Why a line of a shell block cannot work: no such command or option, target of make, or file."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError as error:
        return str(error)
    for end in (">", "|", "&&"):
        words = words[: words.index(end)] if end in words else words
    if "-m" in words and "gaf.lab.cli" in words:  # torchrun ... -m gaf.lab.cli train ...
        words = ["gaf", *words[words.index("gaf.lab.cli") + 1 :]]
    if words[:1] == ["gaf"]:
        return gaf_problem(words[1:])
    if words[:1] == ["make"]:
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
        missing = [each for each in words[1:] if "=" not in each and each not in targets]
        return f"make has no target {missing[0]}" if missing else ""
    if words[:1] == ["python"] and words[1:] and words[1].endswith(".py"):
        return "" if (ROOT / words[1]).exists() else f"there is no {words[1]}"
    return ""


def gaf_problem(words: list[str]) -> str:
    """What ``gaf WORDS`` would say about its words; nothing is run."""
    from typer import TyperException

    command, name = _gaf(), "gaf"
    while words and hasattr(command, "commands"):
        if words[0].startswith("--"):  # --version, --help
            return "" if words[0] in ("--version", "--help") else f"gaf has no {words[0]}"
        if words[0] not in command.commands:
            return f"{name} has no command {words[0]}"
        command, name, words = command.commands[words[0]], f"{name} {words[0]}", words[1:]
    try:
        command.make_context(name, list(words))
    except TyperException as error:
        return " ".join(error.format_message().split())
    return ""


@cache
def _gaf() -> Any:
    from typer.main import get_command

    from gaf.lab.cli.app import app

    return get_command(app)


def _broken(target: str, page: Path, root: Path) -> str:
    path, _, anchor = target.partition("#")
    file = (page.parent / path).resolve() if path else page
    if not file.is_relative_to(root):
        return "outside the repository"
    if not file.exists():
        return "no such file"
    if anchor and file.suffix == ".md" and anchor not in _anchors(file.read_text("utf-8")):
        return "no such heading"
    return ""


def _anchors(text: str) -> set[str]:
    """The names of a page's headings as code hosts make them: lower case, dashes for spaces."""
    found: list[str] = []
    for _, line in _prose(text, keep_code=True):
        if match := HEADING.match(line):
            title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match[1])
            found.append(re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-"))
    # the second heading of a name gets -1, the third -2
    return {f"{x}-{found[:i].count(x)}" if x in found[:i] else x for i, x in enumerate(found)}


def _prose(text: str, keep_code: bool = False) -> Iterator[tuple[int, str]]:
    """Numbered lines outside fenced blocks, by default without inline code."""
    fenced = {
        number
        for _, first, lines in fenced_blocks(text)
        for number in range(first - 1, first + len(lines) + 1)
    }
    for number, line in enumerate(text.splitlines(), start=1):
        if number not in fenced:
            yield number, line if keep_code else INLINE_CODE.sub("", line)


def fenced_blocks(text: str) -> Iterator[tuple[str, int, list[str]]]:
    """Each fenced block as (language, number of the first line inside, lines inside)."""
    ticks, language, first, inside = "", "", 0, []
    for number, line in enumerate(text.splitlines(), start=1):
        if ticks:
            if line.strip().startswith(ticks) and not line.strip().strip(ticks[0]):
                yield language, first, inside
                ticks = ""
            else:
                inside.append(line)
        elif match := FENCE.match(line):
            ticks, language, first, inside = match["ticks"], match["language"], number + 1, []
    if ticks:  # an unclosed fence runs to the end of the page
        yield language, first, inside


def pages() -> list[Path]:
    """README.md and the other pages of the repository, without what was built from them."""
    found = [ROOT / "README.md", *sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")})]
    return [page for page in dict.fromkeys(found) if "_build" not in page.parts]


def main() -> int:
    """Check all pages; the exit status is 1 when there is a complaint."""
    if not (ROOT / "README.md").exists():
        print("README.md: no such file", file=sys.stderr)
        return 1
    found = [line for page in pages() for line in complaints(page)]
    for line in found:
        print(line, file=sys.stderr)
    texts = [page.read_text("utf-8") for page in pages()]
    blocks = sum(1 for text in texts for _ in python_blocks(text))
    commands = sum(line.startswith("gaf") for text in texts for _, line in shell_lines(text))
    print(
        f"{len(texts)} pages, {blocks} Python blocks, {commands} commands, {len(found)} complaints"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
