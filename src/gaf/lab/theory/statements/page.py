"""docs/theory.md: the statements and what their checks found, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gaf.lab.theory.practice import Practice
from gaf.lab.theory.statements.findings import (
    SUMMARY,
    Cell,
    CountedClaim,
    Findings,
    Statement,
    cell,
    dropped_row,
    percent,
    summary_rows,
)
from gaf.lab.theory.trials import Count

Results = list[tuple[Statement, Findings]]

HEAD = """\
<!-- Written by `gaf theory --markdown`: change src/gaf/lab/theory, not this page. -->

# Theory

Each statement of the paper's Section III as something to run: what it assumes, what it
claims, and a check. The *printed* reading is the paper's; the *sound* one is what holds. A check draws at
least 10,000 random cases inside the assumptions and counts those in which the claim is false, then drops
one assumption at a time and shows a case in which the claim fails without it, where there is one: then the
assumption is *needed*.

| | |
|---|---|
| ε₃ | the crossover, the g > 0 with f(g) = g |
| ε₀, ε₂ | gradients up to ε₀ are *low* (f' > 1), beyond ε₂ *high* (f(g) < g); the band is between them |
| ℓ, c | the largest and the smallest slope of the gradient on a box; ζ = ℓ/c |
| index n, ᴸ and ᴴ | of coordinate n, where its gradient is low or high |
| G | of the activated gradient f(∇L) |
| η, Δ₁ | the step size, and the gap L(w₁) − L* at the beginning |
| μ, M, M_G | constants of the noise, in the paper's Assumption 6 |

```bash
gaf theory                              # the table below
gaf theory --statement theorem-3        # one statement in full
gaf theory --seed 1 --json              # other random cases; every number
gaf theory --markdown > docs/theory.md  # this page
```

It needs `pip install -e '.[lab]'`. All numbers are from seed {seed}.

## All statements
"""

APPLIES = """\
## Where Theorems 1 to 4 apply

In what share of {settings} settings (function, ε₀, ε₂) each assumption holds on problems people meet. The
functions are the paper's presets, and functions whose crossover lies within the gradients of the problem;
ε₀ is where f' > 1 and ε₂ beyond the crossover. Where a loss is not separable the other rows are estimates by
coordinate, at the points named below; that not all assumptions hold follows from the first row alone.
"""

WHERE = """\
Do not quote Theorems 1 to 4 for a quadratic, for logistic regression or for a network: in none of
these settings do all assumptions hold. Looked at were {where}.
"""

OWN = """\
## The curvature of your own network

`spectrum` gives the extreme eigenvalues of the Hessian H at a point, before f and after it, by Lanczos on
products of H with vectors: no matrix is ever made, so large networks fit. With D = diag(f'(∇L)) the
activated gradient has the Jacobian D·H. Its largest singular value is the ℓ of the activated field at that
point, and D^½·H·D^½ has its eigenvalues. No c is given: the loss of a network is not convex.

```python
import torch
from gaf.lab.theory.spectrum import spectrum

torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)
).double()
inputs = torch.randn(64, 8, dtype=torch.float64)
targets = torch.randn(64, 1, dtype=torch.float64)

found = spectrum(
    lambda: torch.nn.functional.mse_loss(model(inputs), targets),
    model.parameters(),
    "arctan(0.1, 20)",
)
print(found.smallest, found.largest)  # of H
print(found.activated_smallest, found.activated_largest)  # of D^½·H·D^½
print(found.lipschitz, found.activated_lipschitz)  # ℓ without f and with it
```

For a loss of a few parameters on a box, `constants` gives the tight ℓ, c and ζ = ℓ/c, and `anisotropy`
the other measure of Figure 1 ([figures](figures.md)).

```python
from gaf.lab.theory.conditioning import Box, anisotropy, constants
from gaf.lab.theory.problems import PAPER

found = constants(PAPER, Box.around(2, 1.0), "arctan(0.1, 20)")
print(found.lipschitz, found.convexity, found.condition)  # 4.0, 0.0025, 1601
print(anisotropy(PAPER, "arctan(0.1, 20)"))  # at (d, d), d = 0.01, 0.1, 1: 4.77, 1.96, 1.07
```
"""


def page(results: Results, seed: int) -> str:
    """The whole page, for the findings of all statements."""
    blocks = [
        HEAD.format(seed=seed),
        *_table(SUMMARY, summary_rows(results)),
        "",
        *_applies([findings for _, findings in results if findings.practice]),
        *(line for result in results for line in _section(*result)),
        OWN,
    ]
    return "\n".join(blocks)


def _applies(found: list[Findings]) -> Iterator[str]:
    """Assumptions by problem, each once, and whether all of a theorem's hold."""
    first = found[0].practice
    yield APPLIES.format(settings=first[0].settings)
    names = dict.fromkeys(name for each in found for row in each.practice for name in row.holds)
    rows: list[tuple[str, ...]] = []
    for name in names:
        source = next(each.practice for each in found if name in each.practice[0].holds)
        rows.append((name, *(percent(row.holds[name]) for row in source)))
    for number, each in enumerate(found, start=1):
        rows.append(
            (f"**all of Theorem {number}**", *(percent(row.every) for row in each.practice))
        )
        if number < 4:
            claims = (percent(row.claim) for row in each.practice)
            rows.append((f"claim of Theorem {number} true, whether or not", *claims))
    yield from _table(("", *(row.problem for row in first)), rows)
    yield ""
    yield WHERE.format(where=_places(first))


def _places(rows: tuple[Practice, ...]) -> str:
    return "; ".join(f"{row.problem}, {row.where}" for row in rows)


def _section(statement: Statement, findings: Findings) -> Iterator[str]:
    yield f"## {statement.title}: {statement.subject}\n"
    yield f"**Printed.** {_plain(statement.printed)}\n"
    yield f"**Sound.** {_plain(statement.sound)}\n"
    if statement.slips:
        yield "".join(f"- {_plain(slip)}\n" for slip in statement.slips)
    yield f"**Checked.** {_plain(statement.checked)}\n"
    for part in findings.parts:
        yield from _part(part)
    for table in findings.tables:
        yield f"### {table.title}\n"
        yield from _table(table.columns, ([cell(x) for x in row] for row in table.rows))
        yield f"\n{_plain(table.note)}\n" if table.note else ""


def _part(part: CountedClaim) -> Iterator[str]:
    yield f"**Claim:** {_plain(part.claim)}.\n"
    if part.sound:
        yield f"Inside the assumptions: {_count(part.sound)}\n"
    if part.printed:
        yield f"As printed: {_count(part.printed)}\n"
    if part.dropped:
        columns = ("without", "random cases", "claim false", "an example, or why there is none")
        yield from _table(columns, map(dropped_row, part.dropped))
        yield ""


def _count(count: Count) -> str:
    said = f"{count.cases:,} cases, **{count.failures:,} violations**."
    return f"{said} The first: {_plain(count.example)}." if count.failures else said


def _table(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Iterator[str]:
    yield _row(columns)
    yield "|" + "---|" * len(columns)
    yield from map(_row, rows)


def _row(cells: Sequence[Cell]) -> str:
    return "| " + " | ".join(_plain(str(each)).replace("|", "\\|") for each in cells) + " |"


def _plain(text: str) -> str:
    """Text that Markdown leaves alone: no tags; stars in formulas are no emphasis."""
    bold = text.startswith("**") and text.endswith("**")
    return text if bold else text.replace("<", "&lt;").replace("*", "\\*")
