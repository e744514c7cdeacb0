"""Step (d): family, placement, α and β from what was measured, each with the sentence that explains it.

Two situations, told apart by the probe:

- Gradients vanish: typical sizes differ between layers by orders of magnitude. Then no learning rate suits
  all of them, and f has to bring them together: β = 1/|g| of the smallest layer, so that even there f leaves
  its straight part, and α so that a step at f's bound changes weights by a fair share of their size.
- They do not: the paper's rule. α bounds what f lets through below the largest gradient seen, and αβ, the
  slope at 0, is above 1 for a curve that is flatter than a quadratic (Type 1) and below 1 for a sharper one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gaf
from gaf.lab.study.settings import spelled
from gaf.lab.study.tune.probe import Layer, Probe
from gaf.lab.study.tune.shape import Shape

VANISHING = 300.0  # times the smallest layer's typical |g|: no learning rate suits both
STEP = 0.4  # of a weight's size: what momentum at f's bound may change it by in one step
ENLARGE, RESTRAIN, KEEP = 2.0, 0.5, 1.0  # αβ for Type 1, Type 2 and neither; 2 is the presets'
BOUND = 0.5  # of the largest |g| seen: α
PRESETS = ((0.1, 20.0), (0.2, 10.0))


@dataclass(frozen=True)
class Candidate:
    """A function and where it acts, with where it comes from."""

    function: gaf.Activation
    placement: str
    source: str

    @property
    def name(self) -> str:
        """As :mod:`gaf.lab.study.settings` reads it.

        Example:
            >>> Candidate(gaf.Arctan(0.02, 1e7), "gradient", "").name
            'arctan(0.02, 10000000)@gradient'
        """
        return f"{spelled(self.function)}@{self.placement}"

    def record(self) -> dict[str, Any]:
        """The values of a :class:`gaf.lab.study.results.NamedCandidate`."""
        _, beta = self.function.params
        return {"name": self.name, "source": self.source, "placement": self.placement, "beta": beta}


@dataclass(frozen=True)
class Recommendation:
    """What to use, why, and what else to try; ``reasons`` are (subject, sentence)."""

    first: Candidate
    others: tuple[Candidate, ...]
    reasons: tuple[tuple[str, str], ...]
    vanishing: bool

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Each once, the recommended one first."""
        by_name: dict[str, Candidate] = {}
        for candidate in (self.first, *self.others):
            by_name.setdefault(candidate.name, candidate)
        return tuple(by_name.values())


def recommend(probe: Probe, shape: Shape | None = None) -> Recommendation:
    """What the paper's step (d) makes of the probe (a) and the shape of the loss curve (b, c)."""
    vanishing = probe.spread >= VANISHING
    return _vanishing(probe) if vanishing else _paper(probe, shape)


def presets(probe: Probe) -> tuple[Candidate, ...]:
    """The paper's two, where they act by default and on the gradient."""
    wheres = dict.fromkeys((_default(probe), "gradient"))
    return tuple(
        Candidate(gaf.Arctan(*values), where, "preset of the paper")
        for values in PRESETS
        for where in wheres
    )


def _vanishing(probe: Probe) -> Recommendation:
    smallest = min(probe.weights, key=Layer.typical)
    widest = max(probe.weights, key=Layer.typical)
    low, middle, high = (smallest.typical(quantile=q) for q in (0.1, 0.5, 0.9))
    beta = _round(1 / math.sqrt(low * middle))
    alpha = _round(_step_alpha(probe))
    first = Candidate(gaf.Arctan(alpha, beta), "gradient", "recommended")
    rule = probe.config.optimizer
    reasons = (
        (
            "the case",
            f"Gradients vanish: the typical |g| is {widest.typical():.2g} in {widest.name} and "
            f"{smallest.typical():.2g} in {smallest.name}, {probe.spread:.2g} times less, so no learning "
            "rate suits both.",
        ),
        (
            "family",
            "arctan: it is bounded, so layers that saturate it all move at the same speed, and it nears "
            "its bound slowly, so the sizes within a layer still tell.",
        ),
        (
            "placement",
            "gradient: each gradient is brought to one scale before momentum averages it; after, the noise "
            "of one large gradient would decide the direction.",
        ),
        (
            "alpha",
            f"{alpha:g}: at f's bound απ/2, with lr {rule.lr:g} and momentum {rule.momentum:g}, a step "
            f"changes weights of size {_weight(probe):.2g} by {STEP:.0%} of it at most.",
        ),
        (
            "beta",
            f"{beta:g} = 1/|g| between the 10 % quantile {low:.2g} and the median {middle:.2g} of "
            f"{smallest.name}, so that f leaves its straight part even there.",
        ),
    )
    # steep ones first: they saturate in every layer; another α would be another learning rate, which is tuned
    values = [1 / low, 3 / low, 1 / middle, 1 / high]
    others = [
        Candidate(family(alpha, _round(b)), where, "around the recommendation")
        for where in dict.fromkeys(("gradient", _default(probe)))
        for b in values
        for family in (gaf.Tanh, gaf.Arctan)
    ]
    typical = [layer.typical() for layer in probe.weights]
    across = _round(1 / math.exp(sum(map(math.log, typical)) / len(typical)))
    others.append(Candidate(gaf.Arctan(alpha, across), "gradient", "the middle of all layers"))
    return Recommendation(first, _beside(probe, others), reasons, True)


def _paper(probe: Probe, shape: Shape | None) -> Recommendation:
    where = _default(probe)
    acts_on = "momentum" if where == "momentum" else "gradient"
    largest = probe.largest(acts_on)
    alpha = _round(BOUND * largest)
    slope, curve = _slope(shape)
    beta = _round(slope / alpha)
    first = Candidate(gaf.Arctan(alpha, beta), where, "recommended")
    seen = "velocity" if acts_on == "momentum" else "gradient"
    reasons = (
        (
            "the case",
            f"Layers agree on the size of gradients within a factor of {probe.spread:.2g}; the largest |g| "
            f"of {probe.steps} steps was {probe.largest():.2g}, at step {probe.when}.",
        ),
        ("curve", curve),
        ("family", "arctan: bounded, as the paper's rule for α needs; tanh and log are tried too."),
        ("placement", f"{where}: gaf's default for this rule."),
        (
            "alpha",
            f"{alpha:g}: half of the largest {seen} seen, {largest:.2g}, so that f restrains it "
            f"(to at most {alpha * math.pi / 2:.2g}).",
        ),
        ("beta", f"{beta:g}: makes the slope at 0 αβ = {slope:g}."),
    )
    others = [
        Candidate(family(_round(a), _round(s / a)), place, "around the recommendation")
        for place in dict.fromkeys((where, "gradient"))
        for a in (alpha, alpha / 4)
        for s in (slope, 2 * slope, 8 * slope)
        for family in (gaf.Arctan, gaf.Tanh, gaf.Log)
    ]
    return Recommendation(first, _beside(probe, others), reasons, False)


def _beside(probe: Probe, others: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """The first preset where it acts by default, the others around the recommendation, the other presets."""
    first, *rest = presets(probe)
    return (first, *others, *rest)


def _slope(shape: Shape | None) -> tuple[float, str]:
    """αβ, and why."""
    if shape is None:
        return (
            ENLARGE,
            "No optimum whose curve could be judged; the paper finds most curves to be of Type 1: αβ > 1.",
        )
    what = f"The loss curve near the optimum goes with |w|^{shape.power:.2f} ± {shape.error:.2f}"
    if shape.type == "Type 1":
        return (
            ENLARGE,
            f"{what}, flatter than a quadratic (Type 1): enlarge small gradients, αβ > 1.",
        )
    if shape.type == "Type 2":
        return RESTRAIN, f"{what}, sharper than a quadratic (Type 2): restrain them, αβ < 1."
    return KEEP, f"{what}: no different from a quadratic, so leave small gradients alone, αβ = 1."


def _default(probe: Probe) -> str:
    rule = probe.config.optimizer
    return "momentum" if rule.name == "sgd" and rule.momentum > 0 else "gradient"


def _weight(probe: Probe) -> float:
    """The size of a typical layer's weights."""
    sizes = sorted(layer.weight for layer in probe.weights if layer.weight > 0)
    return sizes[len(sizes) // 2] if sizes else 1.0


def _step_alpha(probe: Probe) -> float:
    """α with lr · α · π/2 / (1 − μ) = STEP · |w|; Adam divides α out of its steps again."""
    rule = probe.config.optimizer
    if rule.name != "sgd":
        return 1.0
    return STEP * _weight(probe) * (1 - rule.momentum) / (rule.lr * math.pi / 2)


def _round(value: float) -> float:
    """Two digits: more would claim a precision that nothing here has.

    Example:
        >>> _round(0.018334), _round(12345678.0)
        (0.018, 12000000.0)
    """
    return float(f"{value:.1e}")
