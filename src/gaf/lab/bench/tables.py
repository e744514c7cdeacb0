"""The report as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table

from gaf.lab.bench import growth
from gaf.lab.bench.contenders import Rule
from gaf.lab.bench.run import Report
from gaf.lab.bench.shapes import SHAPES
from gaf.lab.bench.targets import NOT_REACHED, REACHED
from gaf.lab.bench.timing import Spread, ratio, spread
from gaf.lab.bench.training import PAPER

STYLES = {REACHED: "green", NOT_REACHED: "bold red"}


def tables(report: Report) -> Group:
    """All that was measured, the targets last."""
    parts: list[RenderableType] = [_about(report)]
    for name, times in report.times.items():
        for optimizer in report.plan.optimizers:
            own = {rule: each for rule, each in times.items() if rule.optimizer == optimizer}
            if own:
                parts.append(_times(f"{SHAPES[name].label}: {optimizer}", own, optimizer))
    if report.memory and report.memory_facts:
        parts.append(_memory(report))
    if any(each.seconds for each in report.growth):
        parts.append(_growth(report))
    if report.training and report.training.whole:
        parts.append(_training(report))
    parts.append(_targets(report))
    return Group(*parts)


def _table(title: str, first: str, *columns: str, caption: str | None = None) -> Table:
    table = Table(title=title, title_justify="left", caption=caption, caption_justify="left")
    table.add_column(first, no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _about(report: Report) -> str:
    about = report.about
    most = max((each for each in report.others.values() if each is not None), default=None)
    commit = (
        f" (commit {about['git'][:9]}{'+' * about['git'].endswith('+')})" if about["git"] else ""
    )
    taken = "" if most is None else f"; others took up to {most:.0%} of the processors"
    return (
        f"{about['cpu']}, {about['cores']} cores, {about['threads']} threads, {about['ram_gib']} GiB"
        f"{taken}\n"
        f"{about['date']}, gaf {about['gaf']}{commit}, torch {about['torch']}, Python {about['python']}\n"
    )


def _times(title: str, times: Mapping[Rule, Sequence[float]], optimizer: str) -> Table:
    repeats = len(next(iter(times.values())))
    caption = f"medians of {repeats} interleaved repetitions (10 % to 90 %)"
    columns = ("ms", "10 % to 90 %", "x torch alike", "x torch fused", "10 % to 90 %")
    table = _table(title, "rule", *columns, caption=caption)
    fused = times.get(Rule(optimizer, "torch", "fused"))
    for rule, seconds in times.items():
        alike = times.get(Rule(optimizer, "torch", rule.implementation))
        alike = alike if rule.who in ("gaf", "torch") else None
        over = ratio(seconds, fused) if fused else None
        table.add_row(
            str(rule),
            *_milliseconds(spread(seconds)),
            f"{ratio(seconds, alike).median:.2f}" if alike else "",
            f"{over.median:.2f}" if over else "",
            _range(over) if over else "",
        )
    return table


def _milliseconds(each: Spread) -> tuple[str, str]:
    scaled = Spread(1e3 * each.median, 1e3 * each.low, 1e3 * each.high, each.n)
    return f"{scaled.median:.2f}", _range(scaled)


def _range(each: Spread) -> str:
    return f"{each.low:.2f} to {each.high:.2f}"


def _memory(report: Report) -> Table:
    facts = report.memory_facts
    assert facts is not None
    title = f"Extra memory of a step, {SHAPES[facts.shapes].title}"
    table = _table(title, "rule", "peak, MB", "peak, lists", "largest allocation, bytes")
    for rule, each in report.memory.items():
        lists = each.peak / facts.all_parameters
        name = f"{rule.optimizer}: {rule}"
        table.add_row(name, f"{each.peak / 1e6:.2f}", f"{lists:.2f}", f"{each.largest:,}")
    return table


def _growth(report: Report) -> Table:
    base, *ours, bandwidth = growth.rules()
    names = [f"x {rule.function}" for rule in ours]
    title = "Growth: fused SGD steps, f on the momentum, in multiples of torch's fused step"
    columns = (
        "torch fused, ms",
        "ns/parameter",
        *names,
        f"x {bandwidth.who}",
        f"{bandwidth.who}, GB/s",
    )
    table = _table(title, "parameters", *columns)
    for each in report.growth:
        if base not in each.seconds:
            continue
        torch_fused = each.seconds[base]
        median = spread(torch_fused).median
        shown = [each.seconds.get(rule) for rule in (*ours, bandwidth)]
        table.add_row(
            f"{each.millions} M",
            f"{1e3 * median:.2f}",
            f"{1e9 * median / (1e6 * each.millions):.2f}",
            *(f"{ratio(one, torch_fused).median:.2f}" if one else "" for one in shown),
            f"{each.bytes / spread(each.seconds[bandwidth]).median / 1e9:.1f}",
        )
    return table


def _training(report: Report) -> Table:
    training = report.training
    assert training is not None
    shares = training.shares()
    title = "Whole training step of a ResNet-20: forward, backward, optimizer"
    caption = f"the paper: 1.2 s of an epoch of 42 s, {PAPER:.1%}"
    columns = ("whole, ms", "optimizer's part, ms", "activation's share", "10 % to 90 %")
    table = _table(title, "rule", *columns, caption=caption)
    for rule, whole in training.whole.items():
        part = spread(training.part[rule])
        share = spread(shares[rule]) if rule in shares else None
        table.add_row(
            str(rule),
            f"{1e3 * spread(whole).median:.1f}",
            f"{1e3 * part.median:.2f}",
            f"{share.median:.2%}" if share else "",
            f"{share.low:.2%} to {share.high:.2%}" if share else "",
        )
    return table


def _targets(report: Report) -> Table:
    title = "Targets" if report.complete else "Targets, from a benchmark that was interrupted"
    table = Table(title=title, title_justify="left")
    for name in ("target", "measured", "at most", "verdict", "detail"):
        table.add_column(name, overflow="fold")
    for row in _target_rows(report):
        table.add_row(*row)
    return table


def _target_rows(report: Report) -> Iterator[tuple[str, ...]]:
    for each in report.targets():
        style = STYLES.get(each.verdict, "yellow")
        verdict = f"[{style}]{each.verdict}[/{style}]"
        yield each.title, each.measured, each.limit, verdict, each.detail
