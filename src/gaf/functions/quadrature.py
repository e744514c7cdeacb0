"""Derivative and integral of a function that comes without closed forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from gaf.functions.base import Activation

# Gauss-Legendre nodes and weights on [0, 1], ten points.
_NODES = (
    0.013046735741414140,
    0.067468316655507745,
    0.160295215850487797,
    0.283302302935376404,
    0.425562830509184394,
    0.574437169490815606,
    0.716697697064623596,
    0.839704784149512203,
    0.932531683344492255,
    0.986953264258585860,
)
_WEIGHTS = (
    0.033335672154344069,
    0.074725674575290296,
    0.109543181257991022,
    0.134633359654998178,
    0.147762112357376435,
    0.147762112357376435,
    0.134633359654998178,
    0.109543181257991022,
    0.074725674575290296,
    0.033335672154344069,
)
_PANELS = 60  # [g/2, g], [g/4, g/2], ...: whatever the scale on which f bends, some panels see it


def derivative_by_autograd(f: Activation) -> Callable[..., Tensor]:
    """f' by differentiating the formula."""

    def derivative(xp: Any, g: Tensor, *params: float) -> Tensor:
        with torch.enable_grad():
            x = g.detach().requires_grad_()
            (slope,) = torch.autograd.grad(type(f).formula(xp, x, *params).sum(), x)
        return slope

    return derivative


def integral_by_quadrature(f: Activation) -> Callable[..., Tensor]:
    """The integral of f from 0 to g by Gauss-Legendre on panels halving towards 0."""

    def integral(xp: Any, g: Tensor, *params: float) -> Tensor:
        total = torch.zeros_like(g)
        for panel in range(_PANELS):
            right = g * 0.5**panel
            width = right / 2
            for node, weight in zip(_NODES, _WEIGHTS, strict=True):
                value = type(f).formula(xp, width + width * node, *params)
                total = total + weight * width * value
        return total

    return integral
