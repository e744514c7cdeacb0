"""The integral of a field along straight lines, many at once, each as finely as it needs.

    ∫ V · dw from a to b  =  ∫₀¹ V(a + s(b − a)) · (b − a) ds

Ten-point Gauss-Lobatto on a panel is compared with the same rule on its two halves; where they differ the
halves are looked at in turn. Smooth stretches are done at once, and the corner that a clipping or a
logarithm puts into the field is found by bisection (Lobatto's rule looks at the ends of a panel too;
Gauss's would miss a corner behind its last node). The nodes move with a and b, so autograd sees through the
sum: nothing about the derivative of the result is assumed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from numpy.polynomial.legendre import Legendre
from torch import Tensor

TOLERANCE = 1e-15  # of a panel, on the scale of its line; the error of a line is some 1e-14
BISECTIONS = 48  # a panel of 2^-48 of a line no longer matters

# Panels halving towards the start: whatever the scale on which f bends around 0, some panels see it.
TOWARDS_START = (0.0, *(0.5**k for k in range(30, -1, -1)))

Field = Callable[[Tensor], Tensor]


@cache
def lobatto(n: int) -> tuple[Tensor, Tensor]:
    """Nodes, -1, the roots of P'_{n-1} and 1, and weights 2 / (n (n - 1) P_{n-1}(x)²).

    Example:
        >>> lobatto(3)
        (tensor([-1., 0., 1.], ...), tensor([0.3333, 1.3333, 0.3333], ...))
    """
    p = Legendre.basis(n - 1)
    inner = torch.tensor(p.deriv().roots())
    ends = torch.tensor([-1.0, 1.0], dtype=torch.float64)
    nodes = torch.cat((ends[:1], inner, ends[1:]))
    return nodes, 2 / (n * (n - 1) * torch.from_numpy(p(nodes.numpy())) ** 2)


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
    value = _rule(field, start, end, line, low, high)
    scale = torch.zeros_like(start[:, 0]).index_add(0, line, value.detach().abs())
    total = torch.zeros_like(start[:, 0])
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        left = _rule(field, start, end, line, low, middle)
        right = _rule(field, start, end, line, middle, high)
        rough = (left + right - value).detach().abs() > TOLERANCE * scale[line]
        total = total.index_add(0, line[~rough], (left + right)[~rough])
        line = line[rough].repeat(2)
        low = torch.cat((low[rough], middle[rough]))
        high = torch.cat((middle[rough], high[rough]))
        value = torch.cat((left[rough], right[rough]))
        if not len(line):
            return total
    return total.index_add(0, line, value)


def _rule(
    field: Field, start: Tensor, end: Tensor, line: Tensor, low: Tensor, high: Tensor
) -> Tensor:
    """Gauss-Lobatto on panels, each a part [low, high] of its line."""
    nodes, weights = (each.to(start.dtype) for each in lobatto(10))
    width = high - low
    share = low[:, None] + width[:, None] * (nodes + 1) / 2
    a, along = start[line][:, None], (end - start)[line][:, None]
    values = (field(a + share[..., None] * along) * along).sum(-1)
    return (values * weights).sum(-1) * width / 2
