"""Theorem 4, the descent: does SGD keep to its bound, and is it faster with f?

The bound comes, step after step, from E[L(w − ηg)] − L* ≤ (1 − ηcμ)(L(w) − L*) + η²ℓM/2, η ≤ μ/(ℓM_G). With
f the loss is the equivalent one and the noise that on top of f(∇L). Noise of two values makes the
expectation a finite sum, and the inequality can be checked without error of sampling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from gaf.functions import AlphaBeta, Arctan
from gaf.lab.theory.bounds import bound, inside_theorem_3
from gaf.lab.theory.curvature import of_staircase, random_settings
from gaf.lab.theory.families import Functions, log_uniform, one, single, uniform
from gaf.lab.theory.noise import GradientNoise, outcomes
from gaf.lab.theory.staircase import Staircase, steps
from gaf.lab.theory.trials import Count, Example, Trials

AFTER = "Assumption 6 holds for f(∇L)"
RATE = "η ≤ μ/(ℓM_G)"
PRINTED = (RATE,)  # Assumption 6 is printed for ∇L, and f(∇L + noise) is what is stepped along

STEPS = 30
ROUNDING = 1e-9
WORST = 1e6  # the largest ζ that is looked at: beyond, a step changes less than rounding


def one_step(
    f: Functions,
    loss: Staircase,
    w: Tensor,
    constants: tuple[Tensor, Tensor],
    noise: tuple[Tensor, Tensor],
    factor: Tensor,
    before_f: Tensor,
) -> Trials:
    """One step of SGD on the equivalent loss against its bound, in exact expectation.

    Args:
        f: the functions.
        loss: the losses.
        w: where the step begins, (cases, n), inside the box.
        constants: ℓ and c of the activated gradient, (cases,).
        noise: the sizes of additive and relative noise, (cases,).
        factor: η as a multiple of 1/(ℓM_G).
        before_f: whether f acts on the noisy gradient; if not, the noise comes on top of f(∇L).
    """
    (ell, c), (additive, relative) = constants, noise
    m, m_g = w.shape[-1] * additive**2, relative**2 + 1
    eta = factor / (ell * m_g)
    g = loss.gradient(w)
    field = f(g)
    stepped = torch.where(before_f[:, None, None], f(outcomes(g, *noise)), outcomes(field, *noise))
    ends = (w[:, None] - eta[:, None, None] * stepped).unbind(1)
    after = torch.stack([loss.loss(end, f.integral).sum(-1) for end in ends]).mean(0)
    gap = loss.loss(w, f.integral).sum(-1)
    allowed = (1 - eta * c) * gap + eta**2 * ell * m / 2
    return Trials(
        {AFTER: _meets_assumption_6(field, stepped, m, relative**2), RATE: factor <= 1},
        after <= allowed + ROUNDING * (gap + allowed.abs()),
        lambda i: (
            f"{f.named(i)}, {loss.described(i)}, w = ({', '.join(f'{x:.4g}' for x in w[i].tolist())}), "
            f"noise {additive[i]:.3g} + {relative[i]:.3g}|g|{' before f' if before_f[i] else ''}, "
            f"η = {factor[i]:.3g}/(ℓM_G): the gap is {gap[i]:.4g}, the mean of the next {after[i]:.4g}, "
            f"the bound {allowed[i]:.4g}"
        ),
    )


def _meets_assumption_6(field: Tensor, stepped: Tensor, m: Tensor, m_v: Tensor) -> Tensor:
    """(b) and (c) with μ = μ_G = 1 for a field, (cases, n), and all values of what is stepped along."""
    mean = stepped.mean(1)
    square, mean_square = (field**2).sum(-1), (mean**2).sum(-1)
    variance = (stepped**2).sum(-1).mean(1) - mean_square
    slack = ROUNDING * ((stepped**2).sum(-1).mean(1) + square)
    aligned = (field * mean).sum(-1) >= square - slack
    return aligned & (mean_square <= square + slack) & (variance <= m + m_v * square + slack)


def random_steps(generator: Generator) -> Iterator[Trials]:
    """Random staircases, points in their boxes, noise, and step sizes at and beyond the theorem's."""
    for setting, every in random_settings(generator):
        active = setting.active
        keep = (active.lipschitz < WORST * active.convexity).nonzero().flatten()
        f, loss = setting.f[keep], every[keep]
        cases = len(keep)
        size = f(setting.high[keep]) * log_uniform((1e-3, 3.0), (cases,), generator)
        yield one_step(
            f,
            loss,
            loss.random_points(generator),
            (active.lipschitz[keep], active.convexity[keep]),
            (size, 2 * uniform((cases,), generator)),
            torch.where(uniform((cases,), generator) < 0.8, 1.0, 4.0),
            uniform((cases,), generator) < 0.3,
        )


#: A loss inside Theorem 3 under arctan(0.1, 20), with ε₀ = 0.04 and ε₂ = 0.12.
INSIDE = ((1.0, 0.04), (10.0, 0.12), (100.0, 0.2))


def step_examples() -> dict[str, Example]:
    f, loss = one(Arctan(0.1, 20.0)), steps(INSIDE)

    def case(w: float, relative: float = 0.0, factor: float = 1.0, before: bool = False) -> Trials:
        x = single(w, 29.59, 1.22, 0.0, relative, factor)
        return one_step(
            f, loss, x[0][:, None], (x[1], x[2]), (x[3], x[4]), x[5], torch.tensor([before])
        )

    return {
        AFTER: Example(
            case(0.048, relative=3.0, before=True),
            "The mean of f(∇L + noise) is not f(∇L): where f bends, noise shortens the step.",
        ),
        RATE: Example(case(0.02, factor=120.0), "Too long a step climbs the other side."),
    }


def really_faster(generator: Generator, cases: int) -> Count:
    """The printed claim itself, where there is no noise: is L(w_k) lower with f for k = 2, ..., 30?

    Gradient descent with η = 1/ℓ and with η = 1/ℓ^G on losses inside Theorem 3, from the same start.
    """
    count = Count()
    for setting, every, keep in inside_theorem_3(generator):
        f, loss = setting.f[keep], every[keep]
        ell, ell_g = (s.lipschitz[keep, None] for s in (setting.plain, setting.active))
        start = loss.random_points(generator)
        plain = active = start
        faster = torch.ones(len(keep), dtype=torch.bool)
        failure = torch.zeros(len(keep), 3, dtype=torch.float64)
        for k in range(2, STEPS + 1):
            plain = plain - loss.gradient(plain) / ell
            active = active - f(loss.gradient(active)) / ell_g
            gaps = [loss.loss(w).sum(-1) for w in (plain, active)]
            slower = faster & (gaps[1] > gaps[0] * (1 + ROUNDING))
            failure[slower] = torch.stack((torch.full_like(gaps[0], k), *gaps), -1)[slower]
            faster &= ~slower

        def describe(i: int, f=f, loss=loss, start=start, failure=failure) -> str:
            w = ", ".join(f"{x:.4g}" for x in start[i].tolist())
            k, gap, gap_f = failure[i].tolist()
            return (
                f"{f.named(i)}, {loss.described(i)}, from w = ({w}): at k = {k:g} the gap is {gap:.4g} "
                f"without and {gap_f:.4g} with f"
            )

        trials = Trials({}, faster, describe)
        count.add(trials, trials.meeting())
        if count.cases >= cases:
            break
    return count


@dataclass(frozen=True)
class MeanGap:
    """The mean gap of SGD over many runs at some steps, and its bound there."""

    steps: tuple[int, ...]
    gap: tuple[float, ...]
    error: tuple[float, ...]  # the standard error of the mean
    bound: tuple[float, ...]


def sgd(
    noise: GradientNoise,
    f: AlphaBeta | None = None,
    start: float = 0.05,
    runs: int = 2_000,
    at: tuple[int, ...] = (1, 2, 10, 100, 400),
    seed: int = 0,
) -> MeanGap:
    """SGD with η = μ/(ℓM_G) on the loss INSIDE, or with f on its equivalent loss, against the bound."""
    one_loss = steps(INSIDE)
    functions = one(f) if f else None
    derivative = functions.derivative if functions else torch.ones_like
    field: Callable[[Tensor], Tensor] = f or (lambda g: g)
    potential = f.integral if f else None
    ends = torch.tensor([0.04, 0.12], dtype=torch.float64)
    constants = of_staircase(one_loss, derivative, ends[:1], ends[1:])
    ell, c = constants.lipschitz, constants.convexity
    generator = torch.Generator().manual_seed(seed)
    loss = one_loss[torch.zeros(runs, dtype=torch.long)]
    w = torch.full((runs, 1), start, dtype=torch.float64)
    first = one_loss.loss(w[:1], potential)[0]
    limit = bound(ell, c, first, 1.0, torch.tensor(noise.m(1)), torch.tensor(noise.m_g))
    gaps, errors, bounds = [], [], []
    for k in range(1, max(at) + 1):
        if k in at:
            gap = loss.loss(w, potential)[:, 0]
            gaps.append(gap.mean().item())
            errors.append(gap.std().item() / runs**0.5)
            bounds.append(limit.at(torch.tensor(float(k))).item())
        w = w - noise.sample(field(loss.gradient(w)), generator) / (ell * noise.m_g)
    return MeanGap(at, tuple(gaps), tuple(errors), tuple(bounds))
