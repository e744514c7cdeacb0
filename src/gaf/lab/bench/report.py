"""The report of the whole benchmark: as tables, the targets last, and as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gaf.common.files import write_whole
from gaf.lab.bench.contenders import ALPHA, BETA, BYTES, GRADIENTS, HYPER, Contender, base_of
from gaf.lab.bench.run import Report, growth_contenders
from gaf.lab.bench.shapes import COMPANY, LISTS
from gaf.lab.bench.targets import NOT_REACHED, REACHED
from gaf.lab.bench.timing import ratio, sheet, spread
from gaf.lab.bench.training import PAPER

RESULTS = Path("benchmarks", "results")
STYLES = {REACHED: "green", NOT_REACHED: "bold red"}


def tables(report: Report) -> Group:
    """All that was measured, the targets last."""
    parts: list[RenderableType] = [_about(report)]
    for name, times in report.times.items():
        for optimizer in report.plan.optimizers:
            own = {
                contender: seconds
                for contender, seconds in times.items()
                if contender.optimizer == optimizer
            }
            if own:
                parts.append(_times(f"{LISTS[name].label}: {optimizer}", own, optimizer))
    if report.memory and report.memory_facts:
        parts.append(_memory(report))
    if any(growth.seconds for growth in report.growth):
        parts.append(_growth(report))
    if report.training and report.training.whole:
        parts.append(_training(report))
    return Group(*parts, _targets(report))


def _about(report: Report) -> str:
    about = report.about
    most = max((share for share in report.others.values() if share is not None), default=None)
    commit = (
        f" (commit {about['git'][:9]}{'+' * about['git'].endswith('+')})" if about["git"] else ""
    )
    taken = "" if most is None else f"; others took up to {most:.0%} of the processors"
    return (
        f"{about['cpu']}, {about['cores']} cores, {about['threads']} threads, {about['ram_gib']} GiB"
        f"{taken}\n"
        f"{about['date']}, gaf {about['gaf']}{commit}, torch {about['torch']}, Python {about['python']}\n"
        f"kernels: {_kernels(about['kernels'])}\n"
    )


def _kernels(build: Mapping[str, Any]) -> str:
    """Which were run, of which sources."""
    if not build["instruction_sets"]:
        return "not built"
    return f"{build['in_use']}, sources {build['sources']}, compiled by {build['compiler']}"


def _times(title: str, times: Mapping[Contender, Sequence[float]], optimizer: str) -> Table:
    base = base_of(optimizer)
    base_times = times.get(base)

    def row(contender: Contender, seconds: Sequence[float]) -> Iterator[str]:
        milliseconds = spread(seconds).times(1e3)
        yield from (str(contender), f"{milliseconds.median:.2f}", milliseconds.range(".2f"))
        alike = times.get(Contender(optimizer, "torch", contender.implementation))
        shown = alike if contender.who in ("gaf", "torch") else None
        yield f"{ratio(seconds, shown).median:.2f}" if shown else ""
        over = ratio(seconds, base_times) if base_times else None
        yield from (over.estimate(".3f"), str(over.n)) if over else ("", "")

    columns = ("rule", "ms", "10 % to 90 %", "x torch alike", f"x {base} (95 % interval)", "of")
    caption = "medians of interleaved repetitions; of: how many the ratio and its interval have"
    return sheet(title, columns, (list(row(*pair)) for pair in times.items()), caption=caption)


def _memory(report: Report) -> Table:
    facts = report.memory_facts
    assert facts is not None
    rows = (
        (
            f"{contender.optimizer}: {contender}",
            f"{allocated.peak / 1e6:.2f}",
            f"{allocated.peak / facts.all_parameters:.2f}",
            f"{allocated.largest:,}",
        )
        for contender, allocated in report.memory.items()
    )
    title = f"Extra memory of a step, {LISTS[facts.shapes].title}"
    return sheet(title, ("rule", "peak, MB", "peak, lists", "largest allocation, bytes"), rows)


def _growth(report: Report) -> Table:
    base, *ours, bandwidth = growth_contenders()
    columns = ("parameters", "torch fused, ms", "ns/parameter")
    columns += (*(f"x {contender.function}" for contender in ours), f"x {bandwidth.who}")
    rows = []
    for growth in report.growth:
        if base not in growth.seconds:
            continue
        torch_fused = growth.seconds[base]
        median = spread(torch_fused).median
        others = [growth.seconds.get(contender) for contender in (*ours, bandwidth)]
        rows.append(
            (
                f"{growth.millions} M",
                f"{1e3 * median:.2f}",
                f"{1e9 * median / (1e6 * growth.millions):.2f}",
                *(f"{ratio(times, torch_fused).median:.2f}" if times else "" for times in others),
                f"{growth.bytes / spread(growth.seconds[bandwidth]).median / 1e9:.1f}",
            )
        )
    title = "Growth: fused SGD steps, f on the momentum, in multiples of torch's fused step"
    return sheet(title, (*columns, f"{bandwidth.who}, GB/s"), rows)


def _training(report: Report) -> Table:
    training = report.training
    assert training is not None
    shares, rows = training.shares(), []
    for contender, whole in training.whole.items():
        share = spread(shares[contender]) if contender in shares else None
        rows.append(
            (
                str(contender),
                f"{1e3 * spread(whole).median:.1f}",
                f"{1e3 * spread(training.part[contender]).median:.2f}",
                *((f"{share.median:.2%}", share.range(".2%")) if share else ("", "")),
            )
        )
    title = "Whole training step of a ResNet-20: forward, backward, optimizer"
    columns = ("rule", "whole, ms", "optimizer's part, ms", "activation's share", "10 % to 90 %")
    caption = f"the paper: 1.2 s of an epoch of 42 s, {PAPER:.1%}"
    return sheet(title, columns, rows, caption=caption)


def _targets(report: Report) -> Table:
    title = "Targets" if report.complete else "Targets, from a benchmark that was interrupted"
    table = Table(title=title, title_justify="left")
    for name in ("target", "measured", "at most", "verdict", "detail"):
        table.add_column(name, overflow="fold")
    for target in report.targets():
        verdict = Text(target.verdict, STYLES.get(target.verdict, "yellow"))
        table.add_row(target.title, target.measured, target.limit, verdict, target.detail)
    return table


def as_dict(report: Report) -> dict[str, Any]:
    """Everything, the single measurements included; times are in seconds."""
    return {
        **report.about,
        "complete": report.complete,
        "repeats": report.plan.repeats,
        "functions": {"alpha": ALPHA, "beta": BETA},
        "optimizers": HYPER,
        "bytes_per_parameter": BYTES,
        "company": COMPANY,
        "others": {
            f"{name} {optimizer}": share for (name, optimizer), share in report.others.items()
        },
        "shapes": {
            name: {
                "tensors": len(LISTS[name].tensors),
                "parameters": LISTS[name].parameters,
                "rows": [
                    row for optimizer in (*BYTES, GRADIENTS) for row in _rows(times, optimizer)
                ],
            }
            for name, times in report.times.items()
        },
        "memory": {
            "shapes": report.memory_facts.shapes if report.memory_facts else None,
            "rows": [
                {**asdict(contender), **asdict(used)} for contender, used in report.memory.items()
            ],
        },
        "growth": [
            {"millions": size.millions, "bytes": size.bytes, "rows": _rows(size.seconds, "SGD")}
            for size in report.growth
        ],
        "training": _training_rows(report),
        "targets": [asdict(target) for target in report.targets()],
    }


def _rows(times: Mapping[Contender, Sequence[float]], optimizer: str) -> list[dict[str, Any]]:
    torch_fused = times.get(Contender(optimizer, "torch", "fused"))
    return [
        {
            **asdict(contender),
            "rule": str(contender),
            **asdict(spread(seconds)),
            "over_torch_fused": asdict(ratio(seconds, torch_fused)) if torch_fused else None,
            "seconds": [float(f"{second:.6g}") for second in seconds],
        }
        for contender, seconds in times.items()
        if contender.optimizer == optimizer
    ]


def _training_rows(report: Report) -> list[dict[str, Any]] | None:
    if report.training is None:
        return None
    shares = report.training.shares()
    return [
        {
            **asdict(contender),
            "rule": str(contender),
            "whole": asdict(spread(whole)),
            "step": asdict(spread(report.training.part[contender])),
            "share": asdict(spread(shares[contender])) if contender in shares else None,
        }
        for contender, whole in report.training.whole.items()
    ]


def write_record(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON indented, with lists of numbers on one line."""
    text = json.dumps(content, indent=1)
    text = re.sub(r"\[[-+\d.e,\s]+\]", lambda numbers: " ".join(numbers[0].split()), text)
    write_whole(path, f"{text}\n".encode())
