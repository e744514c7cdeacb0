"""``gaf figure``: the figures of the paper, for print and as a page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gaf.common.errors import GafError
from gaf.lab.cli import terminal
from gaf.lab.cli.failing import said_in_a_sentence

if TYPE_CHECKING:
    from gaf.lab.reports.figures import Figure, Settings


def figure(
    numbers: Annotated[
        list[int], typer.Argument(metavar="NUMBER...", help="As in the paper: 1 to 5.")
    ],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the files go.")] = Path(
        "figures"
    ),
    alpha: Annotated[
        float, typer.Option(help="Of the functions, and where values are clipped.")
    ] = 0.1,
    beta: Annotated[float, typer.Option(help="Of the functions.")] = 20.0,
    norm: Annotated[float, typer.Option(help="Where the norm is clipped.")] = 0.1,
    formats: Annotated[
        list[str] | None,
        typer.Option("--format", help="png, svg or html; may repeat. Unset: all three."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the numbers shown as JSON.")
    ] = False,
) -> int:
    """Draw figures of the paper: PNG and SVG for print, and one page to play with, which works offline.

    The paper gives no alpha, beta or range for them; unset, alpha and beta are its preset (0.1, 20).

    Figures 3 and 5 train small models on digits first, which takes some seconds.

    Example: gaf figure 1 2 4 --out figures
    """
    with said_in_a_sentence():
        from gaf.lab.reports.figures import Settings, find

        chosen = _formats(formats)
        settings = Settings(alpha, beta, norm)
        kinds = [find(number) for number in dict.fromkeys(numbers)]
        results = [_draw(kind, settings, out, chosen) for kind in kinds]
        page = _page(settings, kinds[0].scene, out) if "html" in chosen else None
    if as_json:
        from gaf.common.files import plain

        print(json.dumps(plain({"figures": results, "page": page}), indent=2))
    else:
        paths = [path for result in results for path in result["files"]]
        terminal.show("\n".join(paths + ([page] if page else [])))
    return 0


def _formats(asked: list[str] | None) -> tuple[str, ...]:
    from gaf.lab.reports.figures import FORMATS

    for each in asked or ():
        if each not in FORMATS:
            raise GafError(f"--format {each!r} is not one of {', '.join(FORMATS)}")
    return tuple(form for form in FORMATS if not asked or form in asked)


def _draw(
    kind: type[Figure], settings: Settings, out: Path, formats: tuple[str, ...]
) -> dict[str, Any]:
    """Draw one figure; returns what it shows and where."""
    from gaf.lab.reports.figures import PRINT, write

    with _working(f"figure {kind.number}: {kind.title}"):
        drawn = kind(settings)
        paths = write(drawn, out, [form for form in formats if form in PRINT])
    files = [str(path) for path in paths]
    return {"figure": kind.number, "title": kind.title, "files": files, **drawn.numbers()}


def _page(settings: Settings, scene: str, out: Path) -> str:
    from gaf.lab.reports.figures import write_page

    with _working("the page"):
        return str(write_page(settings, scene, out))


@contextmanager
def _working(said: str) -> Iterator[None]:
    """A sign of life; what is wrong with the folder or the disk becomes a sentence."""
    console = terminal.stderr()
    if not console.is_terminal:
        terminal.stderr().print(f"{said} ...", highlight=False, soft_wrap=True)
    try:
        with console.status(said) if console.is_terminal else nullcontext():
            yield
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        raise GafError(f"{place}{error.strerror or error}") from None
