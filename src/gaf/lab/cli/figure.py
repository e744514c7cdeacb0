"""``gaf figure``: the figures of the paper, for print and as a page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gaf.common.errors import GafError
from gaf.lab.cli import terminal
from gaf.lab.engine.progress import working

if TYPE_CHECKING:
    from gaf.lab.reports.figures import Figure, Settings


def figure(
    numbers: Annotated[
        list[int], typer.Argument(metavar="NUMBER", help="Figures of the paper, 1 to 5.")
    ],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the files go.")] = Path(
        "figures"
    ),
    alpha: Annotated[
        float, typer.Option(help="Alpha of the functions, and the threshold of value clipping.")
    ] = 0.1,
    beta: Annotated[float, typer.Option(help="Beta of the functions.")] = 20.0,
    norm: Annotated[float, typer.Option(help="Threshold of norm clipping.")] = 0.1,
    formats: Annotated[
        list[str] | None,
        typer.Option("--format", help="png, svg or html; may repeat. Unset: all three."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the numbers shown as JSON.")
    ] = False,
) -> int:
    """Draw figures of the paper: PNG and SVG for print, and one interactive page, which works offline.

    The paper gives no alpha, beta or range for them; unset, alpha and beta are its preset (0.1, 20).

    Figures 3 and 5 train small models on digits first, which takes some seconds.

    Example: gaf figure 1 2 4 --out figures
    """
    from gaf.common.files import plain
    from gaf.lab.reports.figures import FORMATS, Settings, find, write_page

    for form in formats or ():
        if form not in FORMATS:
            raise GafError(f"--format {form!r} is not one of {', '.join(FORMATS)}")
    chosen = tuple(form for form in FORMATS if not formats or form in formats)
    settings = Settings(alpha, beta, norm)
    kinds = [find(number) for number in dict.fromkeys(numbers)]
    try:
        results = [_draw(kind, settings, out, chosen) for kind in kinds]
        page = None
        if "html" in chosen:
            with working(terminal.stderr(), "the page"):
                page = str(write_page(settings, kinds[0].scene, out))
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        raise GafError(f"{place}{error.strerror or error}") from None
    if as_json:
        print(json.dumps(plain({"figures": results, "page": page}), indent=2))
    else:
        paths = [path for result in results for path in result["files"]]
        terminal.show("\n".join(paths + ([page] if page else [])))
    return 0


def _draw(
    kind: type[Figure], settings: Settings, out: Path, formats: tuple[str, ...]
) -> dict[str, Any]:
    """Draw one figure; returns what it shows and where."""
    from gaf.lab.reports.figures import PRINT, write

    with working(terminal.stderr(), f"figure {kind.number}: {kind.title}"):
        drawn = kind(settings)
        paths = write(drawn, out, [form for form in formats if form in PRINT])
    files = [str(path) for path in paths]
    return {"figure": kind.number, "title": kind.title, "files": files, **drawn.numbers()}
