"""Losses with exact gradients and Hessians, in float64, over any batch of points.

A point is the last dimension of a tensor: ``loss(w)`` maps (..., n) to (...), ``loss.gradient(w)`` to
(..., n) and ``loss.hessian(w)`` to (..., n, n). A separable loss is one formula over an array namespace
``xp``, so that torch evaluates it and sympy integrates it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.func import grad, jacrev, vmap

from gaf.common.errors import GafError


class Loss(ABC):
    """A scalar loss of n parameters."""

    dimension: int

    @abstractmethod
    def __call__(self, w: Tensor) -> Tensor:
        """The loss at the points w, (..., n) to (...)."""

    @abstractmethod
    def gradient(self, w: Tensor) -> Tensor:
        """The gradient at the points w, (..., n) to (..., n)."""

    @abstractmethod
    def hessian(self, w: Tensor) -> Tensor:
        """The Hessian at the points w, (..., n) to (..., n, n)."""


class Separable(Loss):
    """A sum over the coordinates, L(w) = Σ term(w_n): gradient and Hessian go by coordinate.

    Subclasses write ``term``, ``slope`` and ``bend`` (its first and second derivative) over ``xp`` and
    one tuple of parameters for each coordinate, in ``parameters``.
    """

    parameters: tuple[tuple[float, ...], ...]

    @staticmethod
    @abstractmethod
    def term(xp: Any, w: Any, *parameters: Any) -> Any:
        """What a coordinate adds to the loss."""

    @staticmethod
    @abstractmethod
    def slope(xp: Any, w: Any, *parameters: Any) -> Any:
        """The derivative of ``term``."""

    @staticmethod
    @abstractmethod
    def bend(xp: Any, w: Any, *parameters: Any) -> Any:
        """The second derivative of ``term``."""

    @property
    def dimension(self) -> int:  # type: ignore[override]
        return len(self.parameters)

    def terms(self, w: Tensor) -> Tensor:
        """The loss by coordinate, (..., n) to (..., n)."""
        return self._apply(self.term, w)

    def curvature(self, w: Tensor) -> Tensor:
        """The diagonal of the Hessian, (..., n) to (..., n); the rest of it is 0."""
        return self._apply(self.bend, w)

    def __call__(self, w: Tensor) -> Tensor:
        return self.terms(w).sum(-1)

    def gradient(self, w: Tensor) -> Tensor:
        return self._apply(self.slope, w)

    def hessian(self, w: Tensor) -> Tensor:
        return torch.diag_embed(self.curvature(w))

    def symbolic(self, symbols: Sequence[Any]) -> tuple[Any, ...]:
        """The terms as sympy expressions, one for each symbol; parameters become fractions."""
        import sympy

        if len(symbols) != self.dimension:
            raise GafError(f"this loss has {self.dimension} parameters, got {len(symbols)} symbols")
        return tuple(
            self.term(sympy, symbol, *(sympy.Rational(repr(float(p))) for p in parameters))
            for symbol, parameters in zip(symbols, self.parameters, strict=True)
        )

    def _apply(self, formula: Callable[..., Any], w: Tensor) -> Tensor:
        w = as_points(w, self.dimension)
        columns = torch.tensor(self.parameters, dtype=w.dtype).unbind(-1)
        return formula(torch, w, *columns)


@dataclass(frozen=True)
class Powers(Separable):
    """L(w) = Σ a w_n^p / p with an even power p for each coordinate; a < 0 makes it a saddle.

    Example:
        >>> PAPER.gradient(torch.tensor([1.0, 1.0]))
        tensor([2.0000, 0.4000], dtype=torch.float64)
        >>> import sympy
        >>> PAPER.symbolic(sympy.symbols("w1 w2"))
        (w1**2, w2**2/5)
    """

    parameters: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        if not self.parameters:
            raise GafError("a loss needs at least one coordinate")
        for scale, power in self.parameters:
            if not math.isfinite(scale):
                raise GafError(f"the scale of a coordinate must be finite, got {scale}")
            if power < 2 or power % 2:
                raise GafError(f"the power of a coordinate must be 2, 4, 6, ..., got {power}")

    @staticmethod
    def term(xp: Any, w: Any, scale: Any, power: Any) -> Any:
        return scale * w**power / power

    @staticmethod
    def slope(xp: Any, w: Any, scale: Any, power: Any) -> Any:
        return scale * w ** (power - 1)

    @staticmethod
    def bend(xp: Any, w: Any, scale: Any, power: Any) -> Any:
        return scale * (power - 1) * w ** (power - 2)


def quadratic(curvatures: Sequence[float]) -> Powers:
    """L(w) = Σ h w_n² / 2 with a curvature h for each coordinate."""
    return Powers(tuple((float(h), 2.0) for h in curvatures))


def conditioned(condition: float, dimension: int = 2) -> Powers:
    """A quadratic of a condition number: curvatures from 1 up to it, evenly in their logarithm."""
    if not (condition >= 1 and math.isfinite(condition) and dimension >= 2):
        raise GafError(
            f"a condition number is at least 1, in 2 or more dimensions; got {condition} in {dimension}"
        )
    return quadratic([condition ** (k / (dimension - 1)) for k in reversed(range(dimension))])


def strict_saddle(stable: float = 1.0, unstable: float = 1.0) -> Powers:
    """L = stable w₁²/2 − unstable w₂²/2: a direction of negative curvature at the saddle."""
    return quadratic([stable, -unstable])


def plateau(stable: float = 1.0, unstable: float = 1.0) -> Powers:
    """L = stable w₁²/2 − unstable w₂⁴/4: a saddle without negative curvature at 0, flat around it."""
    return Powers(((float(stable), 2.0), (-float(unstable), 4.0)))


#: The loss of the paper's Figure 1, L = w₁² + 0.2 w₂².
PAPER = quadratic([2.0, 0.4])


@dataclass(frozen=True)
class Figure4Type(Separable):
    """A type of loss in the paper's Figure 4: a scale a for each coordinate, and one δ."""

    scales: tuple[float, ...] = (1.0, 1.0)
    delta: float = 0.1

    def __post_init__(self) -> None:
        if not self.scales or min(self.scales) <= 0 or self.delta <= 0:
            raise GafError(
                f"scales and delta must be positive, got scales={self.scales}, delta={self.delta}"
            )

    @property
    def parameters(self) -> tuple[tuple[float, ...], ...]:  # type: ignore[override]
        return tuple((scale, self.delta) for scale in self.scales)


@dataclass(frozen=True)
class TypeOne(Figure4Type):
    """Type 1 of the paper's Figure 4, flat near the minimum: Σ a (δw² + w⁴) / (1 + δ).

    For a = 1 it is 1 where the quadratic w² is 1, below that flatter than w² and above it steeper.
    """

    @staticmethod
    def term(xp: Any, w: Any, scale: Any, delta: Any) -> Any:
        return scale * (delta * w**2 + w**4) / (1 + delta)

    @staticmethod
    def slope(xp: Any, w: Any, scale: Any, delta: Any) -> Any:
        return scale * (2 * delta * w + 4 * w**3) / (1 + delta)

    @staticmethod
    def bend(xp: Any, w: Any, scale: Any, delta: Any) -> Any:
        return scale * (2 * delta + 12 * w**2) / (1 + delta)


@dataclass(frozen=True)
class TypeTwo(Figure4Type):
    """Type 2 of the paper's Figure 4, sharp near the minimum: Σ a (2(√(w² + δ²) − δ) + w⁴) / 3.

    For a = 1 and δ = 0 it is (2|w| + w⁴)/3, which touches the quadratic w² from above at |w| = 1.
    """

    delta: float = 0.05

    @staticmethod
    def term(xp: Any, w: Any, scale: Any, delta: Any) -> Any:
        return scale * (2 * (xp.sqrt(w**2 + delta**2) - delta) + w**4) / 3

    @staticmethod
    def slope(xp: Any, w: Any, scale: Any, delta: Any) -> Any:
        return scale * (2 * w / xp.sqrt(w**2 + delta**2) + 4 * w**3) / 3

    @staticmethod
    def bend(xp: Any, w: Any, scale: Any, delta: Any) -> Any:
        return scale * (2 * delta**2 / xp.sqrt(w**2 + delta**2) ** 3 + 12 * w**2) / 3


class Monkey(Loss):
    """The monkey saddle w₁³ − 3w₁w₂², degenerate and not separable: three ways down, Hessian 0 at 0."""

    dimension = 2

    def __call__(self, w: Tensor) -> Tensor:
        x, y = as_points(w, 2).unbind(-1)
        return x**3 - 3 * x * y**2

    def gradient(self, w: Tensor) -> Tensor:
        x, y = as_points(w, 2).unbind(-1)
        return torch.stack((3 * x**2 - 3 * y**2, -6 * x * y), -1)

    def hessian(self, w: Tensor) -> Tensor:
        x, y = as_points(w, 2).unbind(-1)
        rows = torch.stack((6 * x, -6 * y, -6 * y, -6 * x), -1)
        return rows.unflatten(-1, (2, 2))


class Rotated(Loss):
    """A loss in turned coordinates, L(w) = base(Qᵀw) with Q orthogonal: in general not separable."""

    def __init__(self, base: Loss, rotation: Tensor) -> None:
        n = base.dimension
        rotation = rotation.to(torch.float64)
        if rotation.shape != (n, n) or not torch.allclose(
            rotation @ rotation.T, torch.eye(n, dtype=torch.float64), atol=1e-9
        ):
            raise GafError(f"a rotation of this loss is an orthogonal {n} by {n} matrix")
        self.base, self.rotation, self.dimension = base, rotation, n

    def __call__(self, w: Tensor) -> Tensor:
        return self.base(self._turned(w))

    def gradient(self, w: Tensor) -> Tensor:
        return self.base.gradient(self._turned(w)) @ self.rotation.T

    def hessian(self, w: Tensor) -> Tensor:
        return self.rotation @ self.base.hessian(self._turned(w)) @ self.rotation.T

    def _turned(self, w: Tensor) -> Tensor:
        return as_points(w, self.dimension) @ self.rotation


def rotated(base: Loss, degrees: float) -> Rotated:
    """A loss of two parameters, turned by an angle."""
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return Rotated(base, torch.tensor([[c, -s], [s, c]], dtype=torch.float64))


class FromFunction(Loss):
    """Any function of one point, a vector of n numbers, to a scalar; derivatives by autograd."""

    def __init__(self, function: Callable[[Tensor], Tensor], dimension: int) -> None:
        self.function, self.dimension = function, dimension
        check_scalar(function(torch.zeros(dimension, dtype=torch.float64)))

    def __call__(self, w: Tensor) -> Tensor:
        w = as_points(w, self.dimension)
        return vmap(self.function)(w.reshape(-1, self.dimension)).reshape(w.shape[:-1])

    def gradient(self, w: Tensor) -> Tensor:
        w = as_points(w, self.dimension)
        return vmap(grad(self.function))(w.reshape(-1, self.dimension)).reshape(w.shape)

    def hessian(self, w: Tensor) -> Tensor:
        # reverse mode twice: torch's forward mode warns of its own torch.jit when it is first used
        w = as_points(w, self.dimension)
        flat = vmap(jacrev(grad(self.function)))(w.reshape(-1, self.dimension))
        return flat.reshape(*w.shape, self.dimension)


def as_loss(loss: Loss | Callable[[Tensor], Tensor], dimension: int | None = None) -> Loss:
    """A loss as it is, or a function of one point as one; refuses anything else."""
    if isinstance(loss, Loss):
        return loss
    if not callable(loss):
        raise GafError(f"a loss is a function of a point, got {type(loss).__name__}")
    if dimension is None:
        raise GafError("how many parameters the function has is not known: FromFunction(f, 2)")
    return FromFunction(loss, dimension)


def as_points(w: Tensor, dimension: int) -> Tensor:
    """Points of a loss in float64; refuses another number of parameters."""
    if w.dim() == 0 or w.shape[-1] != dimension:
        raise GafError(
            f"this loss has {dimension} parameters, got points of shape {tuple(w.shape)}"
        )
    return w.to(torch.float64)


def check_scalar(value: object) -> None:
    """Refuse what a loss must not return: anything but one number as a tensor."""
    if not isinstance(value, Tensor) or value.dim():
        got = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise GafError(f"a loss must return one number as a tensor without dimensions, got {got}")
