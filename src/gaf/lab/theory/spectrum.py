"""The curvature of a network's loss, without its Hessian: Lanczos on products of H with vectors.

With D = diag(f'(∇L)) the activated gradient f(∇L) has the Jacobian D·H. Its largest singular value is the
ℓ of the activated field at that point. D·H is not symmetric, but it has the eigenvalues of D^½·H·D^½. No
c is given: a network's loss is not convex, and one point says nothing of a box.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gaf.common.errors import GafError
from gaf.functions import Activation, as_activation
from gaf.lab.theory.problems import check_scalar

# of the residual; the error of an eigenvalue is about its square over the gap to the next one
TOLERANCE = {torch.float64: 1e-5, torch.float32: 1e-4}
VECTORS = 20  # that Lanczos keeps, each as long as the parameters

Operator = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Spectrum:
    """Extremes of the Hessian H at a point, and with D = diag(f') of what f makes of it.

    Attributes:
        parameters: how many there are.
        smallest: the smallest eigenvalue of H.
        largest: the largest one.
        activated_smallest: the smallest eigenvalue of D^½·H·D^½.
        activated_largest: the largest one.
        activated_lipschitz: the largest singular value of D·H.
        products: how many products of H with a vector it took.
    """

    parameters: int
    smallest: float
    largest: float
    activated_smallest: float
    activated_largest: float
    activated_lipschitz: float
    products: int

    @property
    def lipschitz(self) -> float:
        """ℓ of the plain gradient at the point, the largest singular value of H."""
        return max(abs(self.smallest), abs(self.largest))


class HessianProduct:
    """v ↦ H·v for the loss of some parameters, by differentiating its gradient along v."""

    def __init__(self, loss: Callable[[], Tensor], parameters: Iterable[Tensor]) -> None:
        self.parameters = [p for p in parameters if p.requires_grad]
        if not self.parameters:
            raise GafError("the loss has no parameters that require a gradient")
        value = loss()
        check_scalar(value)
        self._gradients = torch.autograd.grad(
            value, self.parameters, create_graph=True, materialize_grads=True
        )
        self._curved = [g for g in self._gradients if g.requires_grad]
        if not self._curved:
            raise GafError("the loss is linear in its parameters: its Hessian is 0")
        self.gradient = torch.cat([g.detach().flatten() for g in self._gradients])
        self.count = 0

    def __call__(self, v: Tensor) -> Tensor:
        self.count += 1
        pieces = v.split([p.numel() for p in self.parameters])
        along = [
            piece.reshape(p.shape)
            for piece, p, g in zip(pieces, self.parameters, self._gradients, strict=True)
            if g.requires_grad
        ]
        products = torch.autograd.grad(
            self._curved, self.parameters, along, retain_graph=True, materialize_grads=True
        )
        return torch.cat([product.flatten() for product in products])


def spectrum(
    loss: Callable[[], Tensor],
    parameters: Iterable[Tensor],
    activation: Activation | str | None = None,
    seed: int = 0,
) -> Spectrum:
    """The extreme eigenvalues of a loss's Hessian, before and after f, by Lanczos.

    Args:
        loss: returns the loss, a tensor without dimensions, of the parameters as they are.
        parameters: of the model, all of one dtype.
        activation: f or its name; None leaves D = 1.
        seed: of the vector that Lanczos starts from.

    Example:
        >>> w = torch.tensor([1.0, 1.0], dtype=torch.float64, requires_grad=True)
        >>> found = spectrum(lambda: w[0] ** 2 + 0.2 * w[1] ** 2, [w], "arctan(0.1, 20)")
        >>> found.smallest, found.largest
        (0.4, 2.0)
        >>> round(found.activated_smallest, 6), round(found.activated_lipschitz, 6)
        (0.002498, 0.012308)
    """
    f = as_activation(activation)
    product = HessianProduct(loss, parameters)
    slope = torch.ones_like(product.gradient) if f is None else f.derivative(product.gradient)
    root = slope.sqrt()
    search = _Search(len(slope), slope.dtype, seed)
    smallest, largest = search.extremes(product)
    inner = search.extremes(lambda v: root * product(root * v))
    squared = search.largest(
        lambda v: product(slope**2 * product(v))
    )  # (D·H)ᵀ(D·H), H being symmetric
    return Spectrum(len(slope), smallest, largest, *inner, max(squared, 0.0) ** 0.5, product.count)


class _Search:
    """Lanczos, by scipy, on symmetric operators over vectors of one size and dtype.

    The vector found for one operator is where the search for the next one starts, with some of a random
    vector in it: f scales curvature, and often does not turn it much.
    """

    def __init__(self, size: int, dtype: torch.dtype, seed: int) -> None:
        self.dtype = dtype if dtype in TOLERANCE else torch.float32
        generator = torch.Generator().manual_seed(seed)
        random = torch.randn(size, generator=generator, dtype=torch.float64)
        self.random = (random / random.norm()).to(self.dtype)
        self.starts = {"first": self.random, "other": self.random}

    def extremes(self, operator: Operator) -> tuple[float, float]:
        """The smallest and the largest eigenvalue.

        The one that is larger in size comes first, s. The other is found as that of s − A, which is of
        the size of s even where A's is near 0, so that a relative tolerance makes sense.
        """
        first = self.largest(operator, "first")
        other = first - self.largest(lambda v: first * v - operator(v), "other")
        return min(first, other), max(first, other)

    def largest(self, operator: Operator, start: str = "first") -> float:
        """The eigenvalue that is largest in size."""
        from scipy.sparse import linalg

        def apply(v: Any) -> Any:
            return operator(torch.from_numpy(v.reshape(-1))).to(self.dtype).numpy()

        size = len(self.random)
        if size <= 3:  # too few dimensions for Lanczos
            return _by_columns(operator, size, self.dtype)
        if not operator(self.random).any():
            return 0.0  # what maps a random vector to 0 is 0
        begin = self.starts[start].numpy()
        matrix = linalg.LinearOperator((size, size), matvec=apply, dtype=begin.dtype)  # type: ignore[call-arg]
        try:
            values, vectors = linalg.eigsh(
                matrix,
                k=1,
                which="LM",
                v0=begin,
                ncv=min(size, VECTORS),
                tol=TOLERANCE[self.dtype],  # type: ignore[arg-type]  # scipy's own stub says int
            )
        except linalg.ArpackNoConvergence:
            raise GafError("Lanczos did not converge: try another seed, or float64") from None
        self.starts[start] = torch.from_numpy(vectors[:, 0]) + 0.1 * self.random
        return float(values[0])


def _by_columns(operator: Operator, size: int, dtype: torch.dtype) -> float:
    columns = torch.stack([operator(row) for row in torch.eye(size, dtype=dtype)])
    values = torch.linalg.eigvalsh(columns)
    return values[values.abs().argmax()].item()
