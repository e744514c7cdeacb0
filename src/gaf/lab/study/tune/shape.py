"""Steps (b) and (c): is a loss curve flatter or sharper than a quadratic near its optimum?

The curve is fitted by L(w) = c + a |w - w₀|^p. Near the optimum p > 2 is flatter than a quadratic (the
paper's Type 1: gradients there want to be enlarged), p < 2 sharper (Type 2: restrained). A type is only named
where the fit is close and p differs from 2 by more than its error allows, so a quadratic is neither.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gaf.common.errors import GafError

Type = Literal["Type 1", "Type 2", "neither"]

ERRORS = 3.0  # standard errors between p and 2 that name a type
NEAR = 0.1  # a p as close to 2 as this makes no difference to anybody
STARTS = (1.2, 2.0, 3.5)  # of p
POWERS = (0.3, 12.0)  # what p may be
AT_BOUND = 1.05  # times the least p, or a 1.05th of the largest: the fit wanted to go on
EDGE = 0.9  # of the way from the middle to an end: beyond it, one side has next to no points
# Of the curve's height, root mean square. Noise of 1 % leaves 0.01 and the trained networks of Figure 3 up to
# 0.025, but a step, a sine or a sigmoid 0.12 and more: there p and its error mean nothing.
CLOSE = 0.05
FEWEST = 9  # points that say something about four numbers


@dataclass(frozen=True)
class Shape:
    """What a curve looks like near its optimum.

    ``large`` is where |dL/dw| exceeds that of the best-fitting quadratic, as an interval of |w - w₀|;
    ``confidence`` the probability of the type, as far as the fit's errors tell: that p is on this side of 2,
    or for neither that it is within 0.1 of it.
    """

    type: Type
    power: float
    error: float  # standard error of the power
    confidence: float
    optimum: float  # w₀
    floor: float  # c
    scale: float  # a
    residual: float  # root mean square, as a share of the curve's height
    reach: float  # the largest |w - w₀|
    large: tuple[float, float]
    steepest: float  # the largest |dL/dw| of the fit within reach

    @property
    def misfit(self) -> str:
        """Why the fit says nothing about the curve; empty where it is close."""
        if self.residual <= CLOSE:
            return ""
        return (
            f"no type to name: the curve is no c + a |w - w₀|^p, the nearest one misses it by "
            f"{self.residual:.0%} of its height, and {CLOSE:.0%} is the most"
        )

    def loss(self, w: float) -> float:
        """The fitted curve."""
        return self.floor + self.scale * abs(w - self.optimum) ** self.power


def judge(w: Sequence[float], losses: Sequence[float]) -> Shape:
    """The shape of a curve; points whose loss is not a finite number are left out.

    Raises:
        GafError: there is no optimum to judge: the curve is flat or lowest at an end, no power fits it,
            or too few points are finite.

    Example:
        >>> w = [i / 20 - 1 for i in range(41)]
        >>> judge(w, [abs(x) ** 3 for x in w]).type, judge(w, [abs(x) ** 1.5 for x in w]).type
        ('Type 1', 'Type 2')
        >>> judge(w, [2 + 5 * (x - 0.1) ** 2 for x in w]).type
        'neither'
    """
    import numpy as np

    pairs = [(x, y) for x, y in zip(w, losses, strict=True) if math.isfinite(y)]
    if len(pairs) < FEWEST:
        raise GafError(
            f"{len(pairs)} finite points of a curve do not determine its shape; {FEWEST} are needed"
        )
    x, y = np.array(pairs, dtype=float).T
    height = float(y.max() - y.min())
    if not height > 1e-9 * max(abs(float(y.max())), 1e-30):
        raise GafError("the curve is flat: there is no optimum to judge")
    middle, half = float(x.max() + x.min()) / 2, float(x.max() - x.min()) / 2
    # In units of the curve, so that the fit's steps suit any loss.
    fitted, covariance = _fit((x - middle) / half, (y - y.min()) / height)
    c, a, w0, p = map(float, fitted)
    if abs(w0) > EDGE:
        raise GafError(
            "no optimum to judge: the curve that fits best has it at an end, not in the middle"
        )
    if not POWERS[0] * AT_BOUND < p < POWERS[1] / AT_BOUND:
        raise GafError(
            f"no optimum to judge: of all |w|^p with p from {POWERS[0]:g} to {POWERS[1]:g} the curve is "
            f"nearest to p = {p:.2g}, at the end of what is tried"
        )
    error = math.sqrt(max(0.0, float(covariance[3][3])))
    rest = (y - y.min()) / height - _power_law((x - middle) / half, *fitted)
    reach = float(max(x.max() - middle - w0 * half, middle + w0 * half - x.min()))
    scale = a * height / half**p
    residual = float(np.sqrt(np.mean(rest**2)))
    type_, confidence = _type(p, error, residual)
    return Shape(
        type=type_,
        power=p,
        error=error,
        confidence=confidence,
        optimum=middle + w0 * half,
        floor=float(y.min()) + c * height,
        scale=scale,
        residual=residual,
        reach=reach,
        large=_large(p, reach),
        steepest=scale * p * reach ** (p - 1),
    )


def _type(p: float, error: float, residual: float) -> tuple[Type, float]:
    """The type, and its probability where p is normal with this error."""
    away, error = abs(p - 2), max(error, 1e-12)

    def below(z: float) -> float:
        return 0.5 * (1 + math.erf(z / error / math.sqrt(2)))

    if residual <= CLOSE and away > max(ERRORS * error, NEAR):
        return "Type 1" if p > 2 else "Type 2", below(away)
    return "neither", below(NEAR - away) - below(-NEAR - away)


def _power_law(x, c, a, w0, p):
    import numpy as np

    return c + a * np.maximum(np.abs(x - w0), 1e-12) ** p


def _slopes(x, c, a, w0, p):
    """The derivatives of the power law by c, a, w₀ and p."""
    import numpy as np

    u = x - w0
    size = np.maximum(np.abs(u), 1e-12)
    raised = size**p
    by_w0 = -a * p * raised / size * np.sign(u)
    return np.stack([np.ones_like(x), raised, by_w0, a * raised * np.log(size)], axis=1)


def _fit(x, y):
    """Least squares for (c, a, w₀, p) from several starts; the best of them, with its covariance."""
    import numpy as np
    from scipy.optimize import least_squares

    best = None
    for power in STARTS:
        start = [0.0, 1.0, float(x[np.argmin(y)]), power]
        start[2] = min(max(start[2], -0.99), 0.99)
        fit = least_squares(
            lambda v: _power_law(x, *v) - y,
            start,
            jac=lambda v: _slopes(x, *v),  # type: ignore[arg-type]
            bounds=([-1, 1e-6, -1, POWERS[0]], [1, 1e3, 1, POWERS[1]]),
        )
        if best is None or fit.cost < best.cost:
            best = fit
    assert best is not None
    variance = 2 * best.cost / (len(x) - 4)
    return best.x, np.linalg.pinv(best.jac.T @ best.jac) * variance


def _large(p: float, reach: float) -> tuple[float, float]:
    """Where a p w^(p-1) exceeds 2 q w, with q w² the quadratic nearest to a w^p on [0, reach].

    q = a ∫ w^(p+2) / ∫ w⁴ = 5 a reach^(p-2) / (p + 3), so the two slopes meet at (2 q / (a p))^(1/(p-2)).
    """
    if abs(p - 2) < 1e-6:
        return reach, reach  # nowhere
    meet = reach * (10 / (p * (p + 3))) ** (1 / (p - 2))
    return (min(meet, reach), reach) if p > 2 else (0.0, min(meet, reach))
