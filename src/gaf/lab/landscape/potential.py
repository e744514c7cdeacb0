"""The potential that fits a field best, and how much of the field no potential can have.

A field V on a box in the plane is a gradient exactly if its curl ∂₁V₂ − ∂₂V₁ is 0. Any other has no
equivalent loss; the nearest thing is the φ whose gradient is closest to V:

    minimise Σ over the edges of a grid of ((φ(b) − φ(a) − ∫ V·dw from a to b) / length)²

Its normal equations are Poisson's with free boundary, which the cosine transform solves exactly. For a
gradient field the edges agree around every cell, and φ is exact at the grid points.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gaf.common.errors import GafError
from gaf.lab.landscape.line_integral import Field, line_integral
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
