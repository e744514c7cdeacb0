"""Comparisons to make pages of, with run folders as the engine writes them but no training."""

from __future__ import annotations

import json
import math
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gaf.lab.study.judge import differences
from gaf.lab.study.protocol import judge_pair
from gaf.lab.study.results import Comparison, Row, RunRef, write

BASELINE = "baseline"
HOSTILE = "<script>alert(1)</script>"
SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Setting:
    kind: str
    scores: Sequence[float | None]
    control: str | None = None
    activation: str | None = None


ORDINARY: dict[str, Setting] = {
    BASELINE: Setting("baseline", (0.9554, 0.9415, 0.9694)),
    "lr x2": Setting("control", (0.9692, 0.9633, 0.9805)),
    "arctan(0.1, 20)@momentum": Setting(
        "function", (0.9777, 0.9633, 0.9877), "lr x2", "arctan(0.1, 20)"
    ),
    "log(0.1, 20)@momentum": Setting("function", (0.9866, 0.9661, 0.9749), "lr x2", "log(0.1, 20)"),
    "adam": Setting("rule", (0.1, 0.05, 0.08)),
    "lr x100": Setting("rule", (0.0, 0.0, 0.0)),
    "broken": Setting("rule", (0.91, None, None)),
}


def comparison_of(
    settings: Mapping[str, Setting],
    *,
    title: str = "Digits, a small network",
    seeds: Sequence[int] = SEEDS,
    error: str = "RuntimeError: the data is gone",
    environment: dict[str, Any] | None = None,
    higher_is_better: bool = True,
    folders: Mapping[tuple[str, int], str] | None = None,
) -> Comparison:
    """With differences and p-values as they are computed for people."""
    baseline = settings[BASELINE].scores
    judged = differences(
        {
            (name, other): judge_pair(
                (each.scores, None), (settings[other].scores, None), higher_is_better, 0
            )
            for name, each in settings.items()
            for other in dict.fromkeys((BASELINE, each.control))
            if other is not None and other != name and name != BASELINE
        }
    )

    rows, runs = [], []
    for name, each in settings.items():
        scores = [score for score in each.scores if score is not None]
        failed = {
            seed: error for seed, score in zip(seeds, each.scores, strict=True) if score is None
        }
        against = judged.get((name, BASELINE))
        verdict = "baseline" if name == BASELINE else against.verdict if against else "failed"
        mean = sum(scores) / len(scores) if scores else None
        rows.append(
            Row(
                setting=name,
                kind=each.kind,  # type: ignore[arg-type]
                changes={"optimizer.activation": each.activation} if each.activation else {},
                scores=tuple(each.scores),
                mean=mean,
                std=statistics.stdev(scores)
                if len(scores) > 1 and math.isfinite(sum(scores))
                else None,
                diverged=scores.count(0.0),
                failed=failed,
                vs_baseline=against,
                control=each.control,
                vs_control=judged.get((name, each.control or "")),
                train_test_gap=0.03 * min(1.0, mean or 0.0),
                seconds_per_step=0.012 + 0.001 * len(name),
                steps_to_baseline=40.0 * len(name) if (mean or 0) >= 0.95 else None,
                reached=sum(score >= b for score, b in zip(scores, baseline, strict=False)),
                verdict=verdict,  # type: ignore[arg-type]
                sentence=f"{verdict.capitalize()}, {mean if mean is None else round(mean, 4)} on average.",
            )
        )
        for seed, score in zip(seeds, each.scores, strict=True):
            status = "failed" if score is None else "finished" if score else "diverged"
            number = list(settings).index(name)
            folder = (folders or {}).get((name, seed), f"runs/{number}-{seed}")
            runs.append(
                RunRef(
                    setting=name,
                    seed=seed,
                    folder=folder,
                    status=status,
                    score=score,
                    error=error if score is None else "",
                )
            )
    return Comparison(
        title=title,
        task="Classification of 8 x 8 digits by three convolutions, 8 epochs of 23 steps.",
        score_name="top1",
        higher_is_better=higher_is_better,
        seeds=tuple(seeds),
        baseline=BASELINE,
        rows=tuple(rows),
        runs=tuple(runs),
        tuning=None,
        command=("gaf", "compare", "digits-cnn-sgdm", "--seeds", str(len(seeds))),
        environment=environment
        or {
            "versions": {"python": "3.11.7", "torch": "2.13.0+cpu"},
            "cpu": "A processor",
            "cores": 2,
            "data": {"train": {"digits": "65e5b461"}},
        },
        created="2026-11-16T01:00:00+00:00",
    )


def write_runs(comparison: Comparison, settings: Mapping[str, Setting], folder: Path) -> None:
    """Folders with records that end at the scores, for all runs that did not fail."""
    for run in comparison.runs:
        if run.score is not None:
            activation = settings[run.setting].activation
            write_run(folder / run.folder, run.score, run.seed, activation)


def write_run(
    place: Path, score: float, seed: int, activation: str | None, name: str = "example"
) -> None:
    """A finished run."""
    place.mkdir(parents=True)
    rng = random.Random(f"{seed}{score}")
    rule = {"lr": 0.1, "momentum": 0.9, "activation": activation}
    config = {
        "name": name,
        "task": {"kind": "classification", "data": "digits", "model": "digits-cnn"},
        "optimizer": rule,
        "epochs": 8,
        "seed": seed,
    }
    (place / "config.json").write_text(json.dumps(config))
    records: list[dict[str, Any]] = []
    for step in range(23, 185, 23):
        if activation:
            far = 0.3 * step / 184
            shares = {
                "linear": 0.9 - far,
                "enlarged": 1 - far,
                "restrained": far,
                "saturated": far / 3,
            }
            bins = {
                f"{-6 + i / 4:g}": math.exp(-((i - 10 - step / 40) ** 2) / 20) for i in range(24)
            }
            total = sum(bins.values())
            bins = {edge: share / total for edge, share in bins.items()}
            head = {"kind": "gradients", "step": step - 22, "group": 0, "max": 1.0, "nonfinite": 0}
            records.append({**head, **shares, "histogram": bins, "time": {}})
        train = {"kind": "train", "step": step, "epoch": step / 23}
        loss = 2.3 * math.exp(-4 * score * step / 184) + 0.02 * rng.random()
        if not score:
            records.append({**train, "loss": "nan", "lr": 0.1, "time": {}})
            records.append({"kind": "diverged", "step": step, "reason": "the loss is nan"})
            break
        records.append({**train, "loss": loss, "lr": 0.1, "time": {}})
        reached = 0.1 + (score - 0.1) * (1 - math.exp(-step / 40)) / (1 - math.exp(-184 / 40))
        records.append({"kind": "test", "step": step, "top1": reached, "loss": loss, "time": {}})
    (place / "metrics.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
    result = {
        "name": name,
        "score_name": "top1",
        "score": score,
        "higher_is_better": True,
        "final": {"top1": score},
        "best": {"step": 184, "top1": score},
        "diverged": not score,
        "steps": 184,
        "seconds_per_step": 0.0123,
        "folder": None,
    }
    (place / "finished.json").write_text(json.dumps(result))
    environment = {
        "command": ["/somewhere/bin/gaf", "train", "digits-cnn-sgdm"],
        "versions": {"torch": "2.13.0+cpu"},
        "data": {},
        "resumed": [],
    }
    (place / "environment.json").write_text(json.dumps(environment))


def example(folder: Path, settings: Mapping[str, Setting] = ORDINARY, **options: Any) -> Comparison:
    """A comparison with its run folders and comparison.json in a folder."""
    comparison = comparison_of(settings, **options)
    write_runs(comparison, settings, folder)
    write(comparison, folder)
    return comparison
