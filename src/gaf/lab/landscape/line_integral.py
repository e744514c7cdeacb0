"""The integral of a field along straight lines, many at once, each as finely as it needs.

    ∫ V · dw from a to b  =  ∫₀¹ V(a + s(b − a)) · (b − a) ds

The value of a panel is ten-point Gauss-Legendre. Ten-point Gauss-Lobatto, which also looks at the ends of
the panel, judges it: where the two differ, in the integral or in its first moment, the panel is halved. So
smooth stretches are done at once, and the corner that a clipping or a logarithm puts into the field is
found by bisection. Gauss's nodes move with a and b and keep off the ends, so autograd sees through the sum:
nothing about the derivative of the result is assumed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from numpy.polynomial.legendre import Legendre, leggauss
from torch import Tensor

from gaf.common.errors import GafError

NODES = 10
TOLERANCE = 1e-15  # of a panel, on the scale of its line; the error of a line is some 1e-14
BISECTIONS = 48  # a panel of 2^-48 of a line no longer matters
PANELS = 500  # for a line, on average; a smooth field with some corners needs far fewer

# Panels halving towards the start: whatever the scale on which f bends around 0, some panels see it.
TOWARDS_START = (0.0, *(0.5**k for k in range(30, -1, -1)))

Field = Callable[[Tensor], Tensor]
Rule = tuple[Tensor, Tensor]  # nodes on [-1, 1] and their weights


@cache
def gauss() -> Rule:
    nodes, weights = map(torch.from_numpy, leggauss(NODES))
    return nodes, weights


@cache
def lobatto() -> Rule:
    """Nodes -1, the roots of P'(x) and 1 with P = P_{n-1}, weights 2 / (n (n - 1) P(x)²)."""
    p = Legendre.basis(NODES - 1)
    nodes = torch.tensor([-1.0, *p.deriv().roots(), 1.0], dtype=torch.float64)
    return nodes, 2 / (NODES * (NODES - 1) * torch.from_numpy(p(nodes.numpy())) ** 2)


def line_integral(
    field: Field, start: Tensor, end: Tensor, breaks: tuple[float, ...] = (0.0, 1.0)
) -> Tensor:
    """Integrate a field along the lines from start to end.

    Args:
        field: maps points (..., n) to vectors (..., n).
        start: points (m, n).
        end: points (m, n).
        breaks: where on a line, from 0 to 1, its first panels begin and end.

    Returns:
        The m integrals.

    Example:
        >>> origin, ends = torch.zeros(1, 2), torch.tensor([[1.0, 2.0]], dtype=torch.float64)
        >>> line_integral(lambda w: 2 * w, origin.double(), ends)
        tensor([5.], dtype=torch.float64)
    """
    lines, count = len(start), len(breaks) - 1
    line = torch.arange(lines).repeat_interleave(count)
    ends = torch.tensor(breaks, dtype=start.dtype)
    low, high = ends[:-1].repeat(lines), ends[1:].repeat(lines)
    total = torch.zeros_like(start[:, 0])
    scale = None
    for _ in range(BISECTIONS):
        value, moment, size = _apply(gauss(), field, start, end, line, low, high)
        with torch.no_grad():
            second, its_moment, _ = _apply(lobatto(), field, start, end, line, low, high)
            if scale is None:
                scale = torch.zeros_like(total).index_add(0, line, size.detach())
            gap = torch.maximum((value - second).abs(), (moment - its_moment).abs())
            rough = gap > TOLERANCE * scale[line]
        total = total.index_add(0, line[~rough], value[~rough])
        if not rough.any():
            break
        if rough.sum() > PANELS * lines:
            raise GafError(
                "this field is too rough to integrate: compute the loss and its gradient in float64"
            )
        middle = (low[rough] + high[rough]) / 2
        line = line[rough].repeat(2)
        low, high = torch.cat((low[rough], middle)), torch.cat((middle, high[rough]))
    return total


def _apply(
    rule: Rule, field: Field, start: Tensor, end: Tensor, line: Tensor, low: Tensor, high: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The integral over panels, each a part [low, high] of its line, its first moment, and its size.

    The size is the integral without signs: on a saddle the terms cancel, and 0 is nothing to compare with.
    """
    nodes, weights = rule
    width = (high - low)[:, None]
    share = low[:, None] + width * (nodes + 1) / 2
    a, along = start[line][:, None], (end - start)[line][:, None]
    terms = field(a + share[..., None] * along) * along * (weights * width / 2)[..., None]
    values = terms.sum(-1)
    return values.sum(-1), (values * nodes).sum(-1), terms.abs().sum((-1, -2))
