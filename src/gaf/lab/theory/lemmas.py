"""Lemmas 1 and 2: f stretches distances between small gradients and shrinks them between large ones."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from gaf.functions import Arctan
from gaf.lab.theory.families import (
    BATCH,
    EPS,
    Functions,
    batches,
    log_uniform,
    one,
    single,
    uniform,
)
from gaf.lab.theory.trials import Example, Trials

COORDINATES = 3

STEEP = "f' > 1 on |g| ≤ ε₀"
SMALL = "every |g_n| ≤ ε₀"
DIFFERENT = "ḡ ≠ g̃"

POSITIVE = "ε₁ > 0"
ORDERED = "ε₁ ≤ ε₂"
FLAT = "f'(ε₁) ≤ 1"
RESTRAINED = "f(ε₂) ≤ ε₂"
LARGE = "every |g_n| > ε₂"
PRINTED_2 = (ORDERED, FLAT, RESTRAINED, LARGE, DIFFERENT)


def lemma_1(f: Functions, a: Tensor, b: Tensor, low: Tensor) -> Trials:
    """‖f(a) − f(b)‖ > ‖a − b‖ for vectors a, b, (cases, n), of gradients up to ``low`` in size."""
    largest = torch.maximum(a.abs(), b.abs()).amax(-1)
    after, before, slack = _distances(f, a, b)
    return Trials(
        {
            # f' falls with |g|, so that its least value on |g| ≤ ε₀ is at ε₀
            STEEP: f.derivative(low) > 1,
            SMALL: largest <= low,
            DIFFERENT: before > 0,
        },
        (after - before > -slack) & (after > 0),
        lambda case: f"{f.named(case)}, ε₀ = {low[case]:.4g}, {_pair(f, a, b, case)}",
    )


def lemma_2(f: Functions, a: Tensor, b: Tensor, first: Tensor, second: Tensor) -> Trials:
    """‖f(a) − f(b)‖ < ‖a − b‖ for vectors a, b, (cases, n), of gradients above ε₂ in size."""
    smallest = torch.minimum(a.abs(), b.abs()).amin(-1)
    after, before, slack = _distances(f, a, b)
    return Trials(
        {
            POSITIVE: first > 0,
            ORDERED: first <= second,
            FLAT: f.derivative(first) <= 1,
            RESTRAINED: f(second) <= second,
            LARGE: smallest > second,
            DIFFERENT: before > 0,
        },
        (before - after > -slack) & (before > 0),
        lambda case: (
            f"{f.named(case)}, ε₁ = {first[case]:.4g}, ε₂ = {second[case]:.4g}, "
            f"{_pair(f, a, b, case)}"
        ),
    )


def _distances(f: Functions, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The distances after and before f, and what rounding can do to their difference."""
    fa, fb = f(a), f(b)
    size = fa.norm(dim=-1) + fb.norm(dim=-1) + a.norm(dim=-1) + b.norm(dim=-1)
    return (fa - fb).norm(dim=-1), (a - b).norm(dim=-1), 8 * EPS * size


def _pair(f: Functions, a: Tensor, b: Tensor, case: int) -> str:
    after, before, _ = _distances(f, a, b)
    ḡ, g̃ = (", ".join(f"{x:.4g}" for x in v[case].tolist()) for v in (a, b))
    return f"ḡ = ({ḡ}), g̃ = ({g̃}): {before[case]:.4g} becomes {after[case]:.4g}"


def random_lemma_1(generator: Generator) -> Iterator[Trials]:
    """Gradients inside and outside ε₀, which is inside and outside of where f' > 1; pairs near and far."""
    for f in batches(generator, slopes=(0.5, 1e3)):
        low = f.steep_end * log_uniform((1e-3, 3.0), (BATCH,), generator)
        reach = low * torch.where(uniform((BATCH,), generator) < 0.8, 1.0, 2.0)
        a, b = _pairs(generator)
        yield lemma_1(f, reach[:, None] * a, reach[:, None] * b, low)


def random_lemma_2(generator: Generator) -> Iterator[Trials]:
    """Gradients above and below ε₂, which is above and below the crossover, or 0; ε₁ of both signs."""
    for f in batches(generator, slopes=(0.1, 1e3)):
        second = f.scale * log_uniform((0.1, 30.0), (BATCH,), generator)
        first = second * (1.4 * uniform((BATCH,), generator) - 0.2)
        second = torch.where(uniform((BATCH,), generator) < 0.9, second, 0.0)
        floor = second * torch.where(uniform((BATCH,), generator) < 0.8, 1.0, 0.3)
        a, b = _pairs(generator)
        spread = f.scale[:, None] * log_uniform((1e-3, 1e3), (BATCH, 1), generator)
        a, b = (floor[:, None] * x.sign() + spread * x for x in (a, b))
        yield lemma_2(f, a, b, first, second)


def _pairs(generator: Generator) -> tuple[Tensor, Tensor]:
    """Pairs of vectors with components in (-1, 1): half of them far apart, half close together.

    In a fifth of the cases some components are equal, in a hundredth all of them.
    """
    shape = (BATCH, COORDINATES)
    a = 2 * uniform(shape, generator) - 1
    b = 2 * uniform(shape, generator) - 1
    near = a * (1 - 1e-3 * uniform(shape, generator))
    b = torch.where(uniform((BATCH, 1), generator) < 0.5, near, b)
    equal = uniform(shape, generator) < torch.where(uniform((BATCH, 1), generator) < 0.2, 0.5, 0.0)
    equal |= uniform((BATCH, 1), generator) < 0.01
    return a, torch.where(equal, a, b)


def _row(*values: float) -> Tensor:
    return torch.tensor([values], dtype=torch.float64)


def examples_1() -> dict[str, Example]:
    f = one(Arctan(0.1, 20.0))
    shallow = one(Arctan(0.1, 5.0))
    (low,) = single(0.04)
    return {
        STEEP: Example(
            lemma_1(shallow, _row(0.03), _row(-0.03), low), "αβ = 0.5: f' is below 1 everywhere."
        ),
        SMALL: Example(
            lemma_1(f, _row(1.0), _row(2.0), low), "Beyond ε₀ f flattens and distances shrink."
        ),
        DIFFERENT: Example(
            lemma_1(f, _row(0.03), _row(0.03), low), "Both distances are 0, and 0 > 0 is false."
        ),
    }


def examples_2() -> dict[str, Example]:
    f = one(Arctan(0.1, 20.0))

    def case(a: float, b: float, first: float, second: float) -> Trials:
        return lemma_2(f, _row(a), _row(b), *single(first, second))

    return {
        POSITIVE: Example(
            case(0.01, 0.02, -1.0, 0.0),
            "f' is even, so f'(−1) ≤ 1 says nothing of the gradients between −1 and 1.",
        ),
        ORDERED: Example(
            case(0.01, 0.02, 1.0, 0.0),
            "f(0) ≤ 0 always holds; ε₂ = 0 lets the steep part of f in.",
        ),
        FLAT: Example(
            None,
            "There is none: f is concave with f(0) = 0, so f'(ε₂) < f(ε₂)/ε₂ ≤ 1 follows from the "
            "others, and ε₁ = ε₂ will do.",
        ),
        RESTRAINED: Example(
            case(0.09, -0.09, 0.06, 0.06),
            "Between f' = 1 (at 0.05) and the crossover (at 0.117) f still enlarges: gradients of "
            "opposite sign move apart.",
        ),
        LARGE: Example(case(0.01, 0.02, 0.2, 0.2), "Below ε₂ f is steep."),
        DIFFERENT: Example(case(1.0, 1.0, 0.2, 0.2), "Both distances are 0, and 0 < 0 is false."),
    }
