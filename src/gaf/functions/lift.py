"""From a formula on real numbers to any tensor a gradient can be.

Complex numbers are activated by their real and imaginary parts, sparse tensors by their coalesced
values (f(0) = 0 keeps them sparse), sharded tensors by their local shard (no communication), and
dtypes below 32 bits in float32, rounded once at the end.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from gaf.common.errors import GafError


def elementwise(formula: Callable[[Tensor], Tensor], g: Tensor) -> Tensor:
    """Apply a formula over real dense tensors to ``g``, whatever kind of tensor it is."""
    if is_dtensor(g):
        return _on_local_shard(formula, g)
    if g.layout == torch.sparse_coo:
        g = g.coalesce()
        values = elementwise(formula, g.values())
        # The indices are g's own; with check_invariants unset, torch would warn about them.
        return torch.sparse_coo_tensor(
            g.indices(), values, g.shape, is_coalesced=True, check_invariants=False
        )
    if g.layout != torch.strided:
        raise TypeError(f"activate dense or sparse COO tensors; got layout {g.layout}")
    if g.is_complex():
        return torch.view_as_complex(elementwise(formula, real_view(g)))
    if not g.is_floating_point():
        raise TypeError(f"a gradient activation needs a float or complex tensor; got {g.dtype}")
    if g.dtype.itemsize < 4:
        return formula(g.float()).to(g.dtype)
    return formula(g)


def is_dtensor(g: object) -> bool:
    """Whether ``g`` is a DTensor, without importing torch.distributed where nobody has."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(g, module.DTensor)


def local_shard(g: Tensor) -> Tensor:
    """The part of ``g`` that this process holds; refuses a DTensor whose sum is still pending."""
    if not is_dtensor(g):
        return g
    refuse_partial([g])
    return g.to_local()  # type: ignore[attr-defined]


def refuse_partial(tensors: Iterable[Tensor | None]) -> None:
    """Raise if one is a DTensor whose sum over processes is still pending."""
    if "torch.distributed.tensor" not in sys.modules:
        return
    for g in tensors:
        if is_dtensor(g) and any(placement.is_partial() for placement in g.placements):  # type: ignore[union-attr]
            raise GafError(
                "a DTensor with a Partial placement is a sum still to be made, and f of a sum is not "
                "the sum of f: call redistribute() first"
            )


def real_values(g: Tensor) -> Tensor:
    """The real numbers of this process that f acts on, one by one."""
    g = local_shard(g)
    if g.layout == torch.sparse_coo:
        g = g.coalesce().values()
    return real_view(g)


def real_view(g: Tensor) -> Tensor:
    """A complex tensor by its real and imaginary parts; any other as it is."""
    return torch.view_as_real(g.resolve_conj()) if g.is_complex() else g


def writable_view(t: Tensor) -> Tensor:
    """The same of a tensor that is written to: torch refuses a lazy conjugate, whose copy would be lost."""
    return torch.view_as_real(t) if t.is_complex() else t


def _on_local_shard(formula: Callable[[Tensor], Tensor], g: Tensor) -> Tensor:
    from torch.distributed.tensor import DTensor

    assert isinstance(g, DTensor)
    return DTensor.from_local(
        elementwise(formula, local_shard(g)),
        g.device_mesh,
        g.placements,
        shape=g.shape,
        stride=g.stride(),
        run_check=False,
    )
