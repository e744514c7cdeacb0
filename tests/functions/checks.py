"""Checks that hold for every gradient activation function, built in or a user's own."""

from __future__ import annotations

import math

import torch

import gaf

# Points from 1e-6 to 1e6, none where a function has a kink, and steps that make a central difference right
# to about 1e-10 of f / g.
POINTS = 1.03 * 10.0 ** torch.linspace(-6, 6, 97, dtype=torch.float64)
POINTS = torch.cat((-POINTS.flip(0), POINTS))
STEP = 1e-5


def check_derivative(f: gaf.Activation) -> None:
    """f' against central differences of f."""
    check_rate(f, f.derivative, f"{f}.derivative")
    step = 5e-324 if math.isinf(f.derivative(0.0)) else 1e-150  # f jumps at 0, or does not
    assert math.isclose(f.derivative(0.0), f(step) / step, rel_tol=1e-9), f"{f}.derivative(0)"


def check_integral(f: gaf.Activation) -> None:
    """Central differences of the integral against f; the integral is 0 at 0 and even."""
    check_rate(f.integral, f, f"{f}.integral")
    assert f.integral(0.0) == 0
    assert torch.equal(f.integral(POINTS), f.integral(-POINTS))


def check_rate(function, rate, name: str) -> None:
    """``rate`` against central differences of ``function``, observed to agree to 3e-9."""
    h = STEP * POINTS.abs()
    right, left = POINTS + h, POINTS - h
    measured = (function(right) - function(left)) / (right - left)
    error = (rate(POINTS) - measured).abs()
    allowed = 1e-7 * measured.abs() + 1e-9 * (function(POINTS) / POINTS).abs()
    worst = int((error - allowed).argmax())
    assert error[worst] <= allowed[worst], (
        f"{name} is {rate(POINTS)[worst]} at g = {POINTS[worst]}, differences say {measured[worst]}"
    )


def check_facts(f: gaf.Activation) -> None:
    """Slope, bound and crossover against values of f."""
    assert f.slope == f.derivative(0.0)
    top = f(POINTS).max().item()
    assert top <= f.bound * (1 + 1e-15)
    if math.isfinite(f.bound):
        assert f(1e300) >= f.bound * (1 - 1e-9)
    c = f.crossover
    if f.slope <= 1:
        assert c == 0
    elif math.isfinite(c):
        end = (
            f.high if isinstance(f, gaf.BiClip) else c
        )  # BiClip keeps what is between low and high
        assert math.isclose(f(c), c, rel_tol=1e-14)
        assert math.isclose(f(end), end, rel_tol=1e-14)
        assert f(0.9 * c) > 0.9 * c
        assert f(1.1 * end) < 1.1 * end
