"""The checks of the statements: each from a seed to what it found."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial

import torch
from torch import Generator

from gaf.functions import Arctan
from gaf.lab.theory import (
    bounds,
    convergence,
    curvature,
    curvature_examples,
    definition,
    escape,
    lemmas,
    saddle,
    vanishing,
)
from gaf.lab.theory.noise import GradientNoise, minibatches
from gaf.lab.theory.practice import practice
from gaf.lab.theory.statements.findings import CountedClaim, Findings, Measurement
from gaf.lab.theory.trials import CASES, Count, Example, Trials, tally, without

Batches = Callable[[Generator], Iterable[Trials]]

PRESET = Arctan(0.1, 20.0)


def part(
    claim: str,
    batches: Iterable[Trials],
    examples: dict[str, Example],
    printed: Collection[str] | None = None,
    cases: int = CASES,
) -> CountedClaim:
    """Count random cases, and show what happens without each assumption."""
    total = tally(batches, printed, cases)
    return CountedClaim(
        claim, total.sound, total.printed if printed else None, without(total, examples)
    )


def definition_1(seed: int) -> Findings:
    batches = definition.random_functions(_generator(seed))
    claim = "f(−g) = −f(g), f' > 0, f(g) ≤ g from the crossover on, g f''(g) < 0"
    clauses = part(claim, batches, definition.examples(), definition.PRINTED)
    rows = tuple(
        (met.function, "proof" if met.method == "symbolic" else "values", *_missed(met))
        for met in definition.verdicts()
    )
    columns = ("function", "clauses that hold, by", "misses", "because")
    note = "Each clause has a function that misses it alone: none follows from the others."
    return Findings((clauses,), tables=(Measurement("Which clauses hold", columns, rows, note),))


def _missed(met: definition.Met) -> tuple[str, str]:
    return ", ".join(met.missed) or "none", "; ".join(met.missed.values())


def lemma_1(seed: int) -> Findings:
    batches = lemmas.random_lemma_1(_generator(seed))
    return Findings((part("‖f(ḡ) − f(g̃)‖ > ‖ḡ − g̃‖", batches, lemmas.examples_1()),))


def lemma_2(seed: int) -> Findings:
    batches = lemmas.random_lemma_2(_generator(seed))
    claim = "‖f(ḡ) − f(g̃)‖ < ‖ḡ − g̃‖"
    return Findings((part(claim, batches, lemmas.examples_2(), lemmas.PRINTED_2),))


def _conditioning(theorem: int, claim: str, seed: int) -> Findings:
    batches = (
        setting.trials(theorem) for setting, _ in curvature.random_settings(_generator(seed))
    )
    examples = curvature_examples.examples(theorem)
    counted = part(claim, batches, examples, curvature.PRINTED[theorem])
    return Findings((counted,), practice(theorem))


theorem_1 = partial(_conditioning, 1, "ℓ^G < ℓ")
theorem_2 = partial(_conditioning, 2, "c^G > c")
theorem_3 = partial(_conditioning, 3, "ζ^G < ζ")


def theorem_4(seed: int) -> Findings:
    compared = part(
        "the bound with f is below the one without it",
        bounds.random_comparisons(_generator(seed)),
        bounds.comparison_examples(),
        bounds.PRINTED,
    )
    stepped = part(
        "a step of SGD on the equivalent loss keeps to its bound",
        convergence.random_steps(_generator(seed)),
        convergence.step_examples(),
        convergence.PRINTED,
    )
    faster = convergence.really_faster(_generator(seed), CASES)
    claim = "L(w_k) itself is lower with f, k = 2 to 30, no noise, from the same start"
    parts = (compared, stepped, CountedClaim(claim, None, faster))
    return Findings(parts, practice(4), (_runs(seed), _batches(seed)))


def _runs(seed: int) -> Measurement:
    noise = GradientNoise(additive=0.01, relative=1.0)
    plain, active = (convergence.sgd(noise, f, seed=seed) for f in (None, PRESET))
    rows = zip(plain.steps, plain.gap, plain.bound, active.gap, active.bound, strict=True)
    return Measurement(
        "SGD against its bound, on a loss inside Theorem 3",
        ("step", "mean gap", "its bound", "mean gap of the equivalent loss with f", "its bound"),
        tuple(rows),
        "2,000 runs with η = μ/(ℓM_G). The noise, 0.01 + the size of the field, is added after f, as "
        "Theorem 4 assumes; in training f acts on the noisy gradient, see the next table. The two gaps are "
        "of two losses with two step sizes and cannot be compared.",
    )


def _batches(seed: int) -> Measurement:
    rows = tuple(
        (x.step, x.gradient, x.activated_variance / x.variance, x.bias)
        for x in minibatches(PRESET, seed)
    )
    return Measurement(
        "Mini-batches of 32 digits, logistic regression, arctan(0.1, 20)",
        ("step", "‖∇L‖", "variance with f / without", "‖E f(g) − f(∇L)‖ / ‖f(∇L)‖"),
        rows,
        "Theorem 4 takes M and M_V, which bound the variance, to be the same with f, and the last "
        "column to be 0.",
    )


def theorem_5(seed: int) -> Findings:
    batches = vanishing.random_gradients(_generator(seed))
    columns = (
        "parameter",
        "mean |g|",
        "mean |f(g)|",
        "largest |g|",
        "largest |f(g)|",
        "below ε₃, %",
    )
    shown = {
        "Vanishing: the weights of a 12-layer sigmoid network, from input to output": (
            vanishing.vanishing(PRESET),
            "f enlarges every layer, by αβ = 2 where gradients are tiny and by less in the last; the first "
            "stays some 10⁹ times below the last.",
        ),
        "Exploding: an RNN that reads digits eight times over": (
            vanishing.exploding(PRESET),
            f"The bound of arctan(0.1, 20) is απ/2 = {PRESET.bound:.4g}.",
        ),
    }
    tables = tuple(
        Measurement(title, columns, tuple(_layer(layer) for layer in layers), note)
        for title, (layers, note) in shown.items()
    )
    return Findings((part("|f(g)| > |g|", batches, vanishing.examples()),), tables=tables)


def _layer(layer: vanishing.LayerGradient) -> tuple[str | float, ...]:
    sizes = (layer.mean, layer.activated_mean, layer.largest, layer.activated_largest)
    return layer.name, *sizes, 100 * layer.below_crossover


def theorem_6(seed: int) -> Findings:
    generator = _generator(seed)
    functions = saddle.functions()
    batches = [saddle.starts(f, generator) for f in functions]
    steep = [(f, trials) for f, trials in zip(functions, batches, strict=True) if f.slope > 1]
    claim = "|w − start| is at least as large with f, at every step"
    cases = saddle.STARTS * len(steep)
    counted = part(claim, batches, saddle.examples(), saddle.PRINTED, cases)
    rows = []
    for f, trials in steep:
        count = Count()
        count.add(trials, trials.meeting())
        name = f"{f.name}({f.alpha:g}, {f.beta:g})"
        rows.append((name, f.slope, f.crossover, count.cases, count.failures))
    columns = ("function", "αβ", "ε₃", "starts", "behind")
    by_function = Measurement("Unstable coordinates, by function", columns, tuple(rows))
    return Findings(
        (counted,), tables=(by_function, *(_left(name, seed) for name in escape.SADDLES))
    )


SLOWER_STABLE = "slower though its unstable coordinates were ahead, %"
#: Why a function can be slower at a saddle, below its table.
SLOWER = {
    "strict": "Slower with a GAF because the stable coordinates, which count for the distance, contract "
    "faster too: the last column says how often the unstable ones were ahead.",
    "monkey": "The loss is not separable: stable and unstable coordinates cannot be told apart.",
    "plateau": "Gradients fall with the cube of the distance; what enlarges them by 50, or scales each "
    "coordinate as Adam does, gets away.",
}


def _left(name: str, seed: int) -> Measurement:
    rows = tuple(
        (x.method, x.median, *(_percent(share) for share in (x.stuck, x.slower, x.slower_stable)))
        for x in escape.escapes(name, escape.default_functions(), seed)
    )
    columns = (
        "method",
        "median steps, at most 500",
        "stuck, %",
        "slower than GD, %",
        SLOWER_STABLE,
    )
    title = f"Time to leave a ball of radius 0.1 around a saddle: {name}"
    note = f"1,000 starts; stuck after {escape.MOST} steps. {SLOWER[name]}"
    return Measurement(title, columns, rows, note)


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 1)


def _generator(seed: int) -> Generator:
    return torch.Generator().manual_seed(seed)
