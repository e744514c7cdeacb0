"""What is kept of a tuning: one JSON object, which ``--json`` prints and the page shows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from gaf.lab.study.compare import describe
from gaf.lab.study.tune.budget import FINAL_SEEDS, Budget
from gaf.lab.study.tune.optimum import Curve
from gaf.lab.study.tune.probe import QUANTILES, Probe
from gaf.lab.study.tune.recommend import Candidate, Recommendation
from gaf.lab.study.tune.search import SearchOutcome


@dataclass(frozen=True)
class Tuned:
    """Everything that came of a tuning."""

    probe: Probe
    budget: Budget
    curve: Curve
    recommendation: Recommendation
    found: SearchOutcome
    line: str
    verdict: str
    seconds: float
    created: str
    command: tuple[str, ...]
    environment: dict[str, Any]


def record(tuned: Tuned) -> dict[str, Any]:
    """What ``tune.json``, ``--json`` and the page hold."""
    seen, budget, found = tuned.probe, tuned.budget, tuned.found
    advice = tuned.recommendation
    return {
        "title": seen.config.name,
        "task": describe(seen.config),
        "verdict": tuned.verdict,
        "helps": found.helps,
        "line": tuned.line,
        "winner": _candidate(found.winner),
        "recommended": _candidate(advice.first),
        "reasons": [list(each) for each in advice.reasons],
        "cost": {
            "steps": found.steps,
            "in_full": budget.in_full,
            "share": found.steps / budget.in_full,
            **asdict(budget),
        },
        "seconds": round(tuned.seconds, 1),
        "score": {
            "name": found.score_name,
            "higher_is_better": found.higher_is_better,
            "seeds": list(FINAL_SEEDS),
            "winner": list(found.scores),
        },
        "against": [
            {
                "name": each.name,
                "scores": list(each.scores),
                **asdict(each.difference),
                "verdict": each.verdict,
            }
            for each in (found.baseline, found.control)
        ],
        "raced": [
            {**_candidate(each.candidate), "first": each.first, "second": list(each.second)}
            for each in found.raced
        ],
        "probe": {
            "steps": seen.steps,
            "of": seen.of,
            "largest": seen.largest(),
            "when": seen.when,
            "spread": seen.spread,
            "losses": list(seen.losses),
            "quantiles": list(QUANTILES),
            "layers": [
                {
                    "name": layer.name,
                    "shape": list(layer.shape),
                    "weight": layer.weight,
                    "max": [each.max for each in layer.gradient],
                    "gradient": [layer.typical(quantile=q) for q in QUANTILES],
                    "momentum": [layer.typical("momentum", q) for q in QUANTILES],
                }
                for layer in seen.layers
            ],
        },
        "curve": {
            "w": list(tuned.curve.w),
            "losses": list(tuned.curve.losses),
            "each": [list(each) for each in tuned.curve.each],
            "shape": asdict(tuned.curve.shape) if tuned.curve.shape else None,
            "why": tuned.curve.why,
        },
        "command": list(tuned.command),
        "created": tuned.created,
        "environment": tuned.environment,
    }


def _candidate(each: Candidate) -> dict[str, Any]:
    return {"name": each.name, "source": each.source}
