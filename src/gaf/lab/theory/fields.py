"""What is done to a gradient vector before a step: nothing, a function f by element, or a clipping.

A transform maps g, (..., n), to the vector that is stepped along, and knows its own Jacobian. Without
it no curvature of the resulting field can be computed: J(w) = T'(∇L(w)) · ∇²L(w).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from gaf.common.errors import GafError
from gaf.functions import Activation, as_activation


class Transform(ABC):
    """A map of gradient vectors to gradient vectors."""

    #: whether each element is mapped by itself, so that a separable loss stays separable
    elementwise = True

    @property
    @abstractmethod
    def name(self) -> str:
        """What tables call it."""

    @abstractmethod
    def __call__(self, g: Tensor) -> Tensor:
        """The transformed gradient, (..., n) to (..., n)."""

    def slopes(self, g: Tensor) -> Tensor:
        """The diagonal of the Jacobian, (..., n) to (..., n), of an element-wise transform."""
        raise GafError(f"{self.name} does not act element by element")

    def jacobian(self, g: Tensor) -> Tensor:
        """The Jacobian, (..., n) to (..., n, n)."""
        return torch.diag_embed(self.slopes(g))


@dataclass(frozen=True)
class Identity(Transform):
    """The plain gradient."""

    @property
    def name(self) -> str:
        return "original"

    def __call__(self, g: Tensor) -> Tensor:
        return g

    def slopes(self, g: Tensor) -> Tensor:
        return torch.ones_like(g)


@dataclass(frozen=True)
class Activated(Transform):
    """A gradient activation function on each element."""

    f: Activation

    @property
    def name(self) -> str:
        return f"{self.f.name}({', '.join(f'{p:g}' for p in self.f.params)})"

    def __call__(self, g: Tensor) -> Tensor:
        return self.f(g)

    def slopes(self, g: Tensor) -> Tensor:
        return self.f.derivative(g)


@dataclass(frozen=True)
class Clipping(Transform):
    """A clipping at a positive limit."""

    limit: float
    what: ClassVar[str]

    def __post_init__(self) -> None:
        if not (self.limit > 0 and math.isfinite(self.limit)):
            raise GafError(f"clip at a positive limit, got {self.limit}")

    @property
    def name(self) -> str:
        return f"{self.what} clipping {self.limit:g}"


class ValueClip(Clipping):
    """Each element kept within ±limit, as ``clip_grad_value_`` does."""

    what = "value"

    def __call__(self, g: Tensor) -> Tensor:
        return g.clamp(-self.limit, self.limit)

    def slopes(self, g: Tensor) -> Tensor:
        return (g.abs() < self.limit).to(g.dtype)


class NormClip(Clipping):
    """The whole vector scaled down to norm ``limit`` where it is longer, as ``clip_grad_norm_`` does.

    Its field is no gradient: the Jacobian of the scaled vector times a Hessian is not symmetric.
    """

    what = "norm"
    elementwise = False

    def __call__(self, g: Tensor) -> Tensor:
        return g * self._factor(g)

    def jacobian(self, g: Tensor) -> Tensor:
        """I inside; (limit / |g|) (I − ĝĝᵀ) outside, with ĝ = g / |g|."""
        eye = torch.eye(g.shape[-1], dtype=g.dtype)
        norm = g.norm(dim=-1, keepdim=True)
        unit = g / norm.clamp_min(torch.finfo(g.dtype).tiny)
        outside = self._factor(g)[..., None] * (eye - unit[..., :, None] * unit[..., None, :])
        return torch.where((norm < self.limit)[..., None], eye, outside)

    def _factor(self, g: Tensor) -> Tensor:
        norm = g.norm(dim=-1, keepdim=True)
        return torch.where(norm > self.limit, self.limit / norm, torch.ones_like(norm))


def as_transform(value: Transform | Activation | str | None) -> Transform:
    """A transform, a function, the name of a function, or None for the plain gradient."""
    if isinstance(value, Transform):
        return value
    f = as_activation(value)
    return Identity() if f is None else Activated(f)
