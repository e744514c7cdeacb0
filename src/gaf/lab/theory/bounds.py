"""Theorem 4, its bounds: SGD with η = μ/(ℓM_G), with and without f.

    E[L(w_k) − L*] ≤ F + (1 − cμ²/(ℓM_G))^(k−1) (Δ₁ − F),    F = M/(2cM_G),    Δ₁ = L(w₁) − L*

With f it is a bound on the equivalent loss, the one whose gradient is f(∇L), with that loss's own ℓ, c,
μ, M and M_G. Whether SGD keeps to it is the subject of convergence.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from gaf.lab.theory.curvature import CurvatureCase, random_settings
from gaf.lab.theory.families import EPS, log_uniform, single, uniform
from gaf.lab.theory.staircase import Staircase
from gaf.lab.theory.trials import Example, Trials

BETTER = "ζ^G < ζ and c^G > c"
SAME_NOISE = "M and M_G are the same with f"
SAME_GAP = "Δ₁ is the same with f"
ABOVE = "Δ₁ ≥ M/(2c^G M_G)"
LATER = "k ≥ 2"
PRINTED = (BETTER, SAME_NOISE, SAME_GAP, LATER)  # Δ₁ below the noise floor is not thought of


@dataclass(frozen=True)
class Bound:
    """The bound's constants, (cases,): a rate x = cμ²/(ℓM_G), a floor F and a start Δ₁."""

    rate: Tensor
    floor: Tensor
    start: Tensor

    def fallen(self, k: Tensor) -> Tensor:
        """Δ₁ minus the bound at step k, without the cancellation of 1 − (1 − x)^(k−1)."""
        return -torch.expm1((k - 1) * torch.log1p(-self.rate)) * (self.start - self.floor)

    def at(self, k: Tensor) -> Tensor:
        """The bound at step k, to all digits also where hardly anything is left."""
        return self.floor + torch.exp((k - 1) * torch.log1p(-self.rate)) * (self.start - self.floor)


def bound(
    ell: Tensor, c: Tensor, start: Tensor, mu: Tensor | float, m: Tensor, m_g: Tensor
) -> Bound:
    """The bound for SGD with η = μ/(ℓM_G)."""
    return Bound(c * mu**2 / (ell * m_g), m / (2 * c * m_g), start)


def compare(
    plain: tuple[Tensor, Tensor],
    active: tuple[Tensor, Tensor],
    noise: tuple[Tensor, Tensor, Tensor],
    noise_g: tuple[Tensor, Tensor],
    gaps: tuple[Tensor, Tensor],
    k: Tensor,
) -> Trials:
    """Is the bound with f below the one without it?

    Args:
        plain: ℓ and c, (cases,).
        active: those of the activated gradient.
        noise: μ, M and M_G.
        noise_g: M and M_G of the activated gradient.
        gaps: Δ₁ and that of the equivalent loss.
        k: the step.
    """
    (ell, c), (ell_g, c_g), (mu, m, m_g) = plain, active, noise
    before = bound(ell, c, gaps[0], mu, m, m_g)
    after = bound(ell_g, c_g, gaps[1], mu, *noise_g)
    lead = after.fallen(k) - (gaps[1] - gaps[0] + before.fallen(k))
    alike = lead.abs() <= 8 * EPS * (gaps[0] + gaps[1])  # then the rest tells them apart
    return Trials(
        {
            BETTER: (ell_g * c < ell * c_g) & (c_g > c),
            SAME_NOISE: (noise_g[0] == m) & (noise_g[1] == m_g),
            SAME_GAP: gaps[0] == gaps[1],
            ABOVE: (gaps[0] >= m / (2 * c_g * m_g)) & (gaps[0] > 0),
            LATER: k >= 2,
        },
        torch.where(alike, after.at(k) < before.at(k), lead > 0),
        lambda i: (
            f"ℓ = {ell[i]:.4g}, c = {c[i]:.4g}, ℓ^G = {ell_g[i]:.4g}, c^G = {c_g[i]:.4g}, μ = {mu[i]:.3g}, "
            f"M = {m[i]:.3g}, M_G = {m_g[i]:.3g}, M^G = {noise_g[0][i]:.3g}, M_G^G = {noise_g[1][i]:.3g}, "
            f"Δ₁ = {gaps[0][i]:.4g}, Δ₁^G = {gaps[1][i]:.4g}: at k = {k[i]:g} the bound is "
            f"{before.at(k)[i]:.4g} without and {after.at(k)[i]:.4g} with f"
        ),
    )


def random_comparisons(generator: Generator) -> Iterator[Trials]:
    """The constants of random staircases inside Theorem 3 with random noise, starts and steps."""
    for setting, _, keep in inside_theorem_3(generator):
        plain, active = (
            (s.lipschitz[keep], s.convexity[keep]) for s in (setting.plain, setting.active)
        )
        cases = (len(plain[0]),)
        mu = 0.2 + 0.8 * uniform(cases, generator)
        m_g = (mu * (1 + uniform(cases, generator))) ** 2 + 3 * uniform(cases, generator)
        m = log_uniform((1e-3, 1e3), cases, generator) * plain[1]
        m = torch.where(uniform(cases, generator) < 0.2, 0.0, m)
        floor = torch.where(m > 0, m / (2 * active[1] * m_g), 1.0)
        gap = floor * log_uniform((0.5, 1e3), cases, generator)
        changed = uniform(cases, generator)
        m_f = torch.where(changed < 0.1, 2 * m, m)
        gap_f = torch.where((changed > 0.1) & (changed < 0.2), gap * 1.5, gap)
        k = torch.ceil(log_uniform((0.5, 500.0), cases, generator))
        yield compare(plain, active, (mu, m, m_g), (m_f, m_g), (gap, gap_f), k)


def inside_theorem_3(generator: Generator) -> Iterator[tuple[CurvatureCase, Staircase, Tensor]]:
    """Random settings and which of them meet all assumptions of Theorem 3."""
    for setting, loss in random_settings(generator):
        keep = setting.trials(3).meeting().nonzero().flatten()
        if len(keep):
            yield setting, loss, keep


def comparison_examples() -> dict[str, Example]:
    def case(k: float = 10.0, **changed: float) -> Trials:
        known = {"ell": 100.0, "c": 1.0, "ell_g": 30.0, "c_g": 1.2, "m": 0.0, "gap": 1.0} | changed
        known = {"m_f": known["m"], "gap_f": known["gap"]} | known
        x = dict(zip(known, single(*known.values()), strict=True))
        (unit,) = single(1.0)
        return compare(
            (x["ell"], x["c"]),
            (x["ell_g"], x["c_g"]),
            (unit, x["m"], unit),
            (x["m_f"], unit),
            (x["gap"], x["gap_f"]),
            k * unit,
        )

    return {
        BETTER: Example(
            case(ell=2.0, c=0.4, ell_g=4.0, c_g=0.0024984),
            "The paper's L = w₁² + 0.2w₂² on [−1, 1]² under arctan(0.1, 20).",
        ),
        SAME_NOISE: Example(
            case(k=1000.0, m=1.0, m_f=2.0),
            "f multiplies noise by up to αβ where gradients are small: M changes with f.",
        ),
        SAME_GAP: Example(
            case(k=2.0, gap_f=1.5),
            "The bound with f is on the equivalent loss, which starts from a gap of its own.",
        ),
        ABOVE: Example(
            case(m=20.0, gap=0.1),
            "A start below the noise floor rises to it, and with the better rate it rises sooner.",
        ),
        LATER: Example(case(k=1.0), "At k = 1 nothing has happened; both are Δ₁."),
    }
