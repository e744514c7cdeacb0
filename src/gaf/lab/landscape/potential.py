"""The potential that fits a field best, and how much of the field no potential can have.

A field V on a box in the plane is a gradient exactly if its curl ∂₁V₂ − ∂₂V₁ is 0. Any other has no
equivalent loss; the nearest thing is the φ whose gradient is closest to V:

    minimise Σ over the edges of a grid of ((φ(b) − φ(a) − ∫ V·dw from a to b) / length)²

Its normal equations are Poisson's with free boundary, which the cosine transform solves exactly. For a
gradient field the edges agree around every cell, and φ is exact at the grid points.

A field is integrated along straight lines, many at once, each as finely as it needs:

    ∫ V · dw from a to b  =  ∫₀¹ V(a + s(b − a)) · (b − a) ds

The value of a panel is ten-point Gauss-Legendre. Ten-point Gauss-Lobatto, which also looks at the ends of
the panel, judges it: where the two differ, in the integral or in its first moment, the panel is halved. So
smooth stretches are done at once, and the corner that a clipping or a logarithm puts into the field is
found by bisection. Gauss's nodes move with a and b and keep off the ends, so autograd sees through the sum:
nothing about the derivative of the result is assumed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from numpy.polynomial.legendre import Legendre, leggauss
from torch import Tensor

from gaf.common.errors import GafError
from gaf.lab.theory.conditioning import Box


@dataclass(frozen=True)
class Potential:
    """The least-squares potential of a field on a grid, 0 at the point nearest to the origin.

    ``curl`` is the largest absolute curl of the field over the cells of the grid (by Stokes, the
    circulation around a cell over its area), ``curl_at`` where it is, ``curl_rms`` the root mean
    square; ``residual`` is the share of the field that is no gradient, |V − ∇φ| / |V| in root mean
    squares: 0 for a gradient.
    """

    x: Tensor
    y: Tensor
    values: Tensor  # of shape (len(x), len(y))
    curl: float
    curl_at: tuple[float, float]
    curl_rms: float
    residual: float


def fit_potential(field: Field, box: Box, points: int = 101) -> Potential:
    """Fit a potential to a field on a box in the plane.

    Args:
        field: maps points (..., 2) to vectors (..., 2).
        box: where; two sides.
        points: of the grid, along each side.

    Example:
        >>> turning = fit_potential(lambda w: w.flip(-1) * torch.tensor([-1.0, 1.0]), Box.around(2, 1.0))
        >>> round(turning.curl, 9), round(turning.residual, 2)
        (2.0, 0.92)
    """
    from scipy.fft import dctn, idctn

    if len(box.lower) != 2:
        raise GafError(f"a potential is fitted in the plane; this box has {len(box.lower)} sides")
    x, y = grid_axes(box, points)
    step_x, step_y = (x[1] - x[0]).item(), (y[1] - y[0]).item()
    grid = torch.stack(torch.meshgrid(x, y, indexing="ij"), -1)
    along_x = _edges(field, grid[:-1], grid[1:])
    along_y = _edges(field, grid[:, :-1], grid[:, 1:])

    # D_xᵀ e_x / h_x² + D_yᵀ e_y / h_y²: what arrives at a point minus what leaves it
    source = _divergence(along_x, 0) / step_x**2 + _divergence(along_y, 1) / step_y**2
    angle = torch.pi * torch.arange(points, dtype=torch.float64) / points
    eigen = (2 - 2 * angle.cos()) / step_x**2
    laplace = eigen[:, None] + (2 - 2 * angle.cos())[None] / step_y**2
    laplace[0, 0] = 1.0  # the constant is free
    spectrum = torch.from_numpy(dctn(source.numpy(), type=2)) / laplace
    spectrum[0, 0] = 0.0
    values = torch.from_numpy(idctn(spectrum.numpy(), type=2))
    values = values - values[int(x.abs().argmin()), int(y.abs().argmin())]

    around = along_x[:, :-1] + along_y[1:] - along_x[:, 1:] - along_y[:-1]
    curl = around / (step_x * step_y)
    at = divmod(int(curl.abs().argmax()), points - 1)
    left_x, left_y = (
        (values.diff(dim=0) - along_x) / step_x,
        (values.diff(dim=1) - along_y) / step_y,
    )
    size = (along_x / step_x).square().sum() + (along_y / step_y).square().sum()
    left = left_x.square().sum() + left_y.square().sum()
    return Potential(
        x=x,
        y=y,
        values=values,
        curl=curl.abs().max().item(),
        curl_at=((x[at[0]] + x[at[0] + 1]).item() / 2, (y[at[1]] + y[at[1] + 1]).item() / 2),
        curl_rms=curl.square().mean().sqrt().item(),
        residual=(left / size).sqrt().item() if size > 0 else 0.0,
    )


def grid_axes(box: Box, points: int) -> tuple[Tensor, Tensor]:
    """The points of a grid along the two sides of a box."""
    if points < 3:
        raise GafError(f"a grid needs at least 3 points along a side, got {points}")
    x, y = (
        torch.linspace(low, high, points, dtype=torch.float64)
        for low, high in zip(box.lower, box.upper, strict=True)
    )
    return x, y


def _edges(field: Field, start: Tensor, end: Tensor) -> Tensor:
    flat = line_integral(field, start.reshape(-1, 2), end.reshape(-1, 2))
    return flat.reshape(start.shape[:-1])


def _divergence(edges: Tensor, axis: int) -> Tensor:
    """Dᵀe for the difference D along an axis."""
    none = torch.zeros_like(edges.narrow(axis, 0, 1))
    return torch.cat((none, edges), axis) - torch.cat((edges, none), axis)


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
