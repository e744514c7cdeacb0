"""Triton kernels for CUDA: one launch for the whole list of tensors of a dtype.

The functions have the signatures of :mod:`gaf.kernels.native` and are the CUDA side of the same operators.
Nothing here waits for the device: ``grad_scale``, ``found_inf`` and Adam's step counts are read by the
kernels, and where ``found_inf`` is not 0 nothing is written. Under ``TRITON_INTERPRET=1`` the kernels run
on CPU tensors.

Each launch reads a table with a row per tensor: the first of its blocks, its size and its addresses. The
table travels by an asynchronous copy and is kept for the next step, under its own numbers as the key.

CUDA graphs (``capturable``): during a capture the table is instead built on the device by kernels that
take its numbers as arguments, so that a graph holds all it needs, as with any temporary tensor. It needs

- one step of the same kind before the capture, which compiles the kernels;
- parameters, gradients and state that stay where they are, as for every captured optimizer;
- Adam's step counts on the device (``capturable=True`` or ``fused=True`` put them there);
- tensors on the device for the numbers that are to change between replays: the learning rate, the
  function's parameters, a weight decay, Adam's betas. A Python number is frozen into the graph.

Triton is imported on first use. The formulas take primitives of ``triton.language`` only, and are compiled
without contraction (``enable_fp_fusion=False``): multiplications and additions are fused exactly where
``tl.fma`` says so, and in float32 the interpreter computes what the GPU computes.
"""

from __future__ import annotations

import functools
import os
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from gaf.common.errors import GafError
from gaf.kernels import native
from gaf.kernels.native import FUNCTIONS
from gaf.kernels.triton import functions
from gaf.kernels.triton import steps as jitted

BLOCK = 1024  # elements per program


# The host's side: which tensors go together, and what a launch is told of them.


@dataclass
class _Batch:
    """Tensors of one device and dtype, all aligned to 16 bytes or not, which one launch serves.

    A row holds the addresses of a parameter and of what belongs to it, and after them the extra number.
    """

    device: torch.device
    dtype: torch.dtype
    aligned: bool
    sizes: list[int]
    rows: list[tuple[int, ...]]
    places: list[int]  # of its tensors in the lists of the call

    @functools.cached_property
    def blocks(self) -> list[int]:
        """Up to each tensor, the number of programs; the last entry is that of all."""
        return list(accumulate((-(-size // BLOCK) for size in self.sizes), initial=0))

    @functools.cached_property
    def table(self) -> Tensor:
        rows = zip(self.blocks, self.sizes, self.rows, strict=False)
        return _table(
            tuple(n for start, size, row in rows for n in (start, size, *row)), self.device
        )

    def numbers(self, numbers: Tensor | list[float]) -> tuple[Tensor | None, list[float]]:
        """A step's numbers as a tensor for the kernel to read, or as arguments if they are elsewhere."""
        if not isinstance(numbers, Tensor):
            return None, numbers
        if numbers.device.type != self.device.type:
            return None, numbers.tolist()
        return numbers.to(self.device), [0.0] * numbers.numel()

    def factors(self, factors: Tensor | None) -> Tensor | None:
        """The rows of these tensors."""
        if factors is None:
            return None
        rows = list(
            factors.unbind()
        )  # by Python's numbers: an index on the device would be copied there
        own = torch.stack([rows[place] for place in self.places])
        return own.to(self.device, torch.float64, non_blocking=True)

    def near(self, number: Tensor | None) -> Tensor | None:
        return None if number is None else number.to(self.device, non_blocking=True)

    def launch(self, kernel: Any, programs: int, *args: Any, **constants: Any) -> None:
        if programs:
            with torch.cuda.device(self.device) if self.device.type == "cuda" else nullcontext():
                kernel[(programs,)](
                    self.table, len(self.rows), *args, enable_fp_fusion=False, **constants
                )

    def launch_blocks(self, kernel: Any, *args: Any, **constants: Any) -> None:
        """Launch a kernel with one program per block of elements."""
        constants.update(TYPE=_type(self.dtype), ALIGNED=self.aligned, BLOCK=BLOCK)
        self.launch(kernel, self.blocks[-1], *args, **constants)


def _batches(lists: Sequence[Sequence[Tensor]], extra: Sequence[int] | None = None) -> list[_Batch]:
    functions.load()
    batches: dict[tuple[torch.device, torch.dtype, bool], _Batch] = {}
    for i, tensors in enumerate(zip(*lists, strict=True)):
        size, addresses = tensors[0].numel(), tuple(t.data_ptr() for t in tensors)
        # what lets the compiler move 16 bytes at a time
        aligned = size % 8 == 0 and all(address % 16 == 0 for address in addresses)
        key = (tensors[0].device, tensors[0].dtype, aligned)
        batch = batches.setdefault(key, _Batch(*key, [], [], []))
        batch.sizes.append(size)
        batch.rows.append(addresses if extra is None else (*addresses, extra[i]))
        batch.places.append(i)
    return list(batches.values())


_TABLES: OrderedDict[Any, Tensor] = OrderedDict()
_KEPT_TABLES = 64


def _table(numbers: tuple[int, ...], device: torch.device) -> Tensor:
    """The numbers on the device, without waiting for it; see the top of the file."""
    if _capturing(device):
        table = torch.zeros(len(numbers), dtype=torch.int64, device=device)
        torch._foreach_add_(list(table.unbind()), list(numbers))  # they travel as kernel arguments
        return table
    cuda = device.type == "cuda"
    # the copy is ordered before the launches of its own stream only
    key = (device, torch.cuda.current_stream(device).cuda_stream if cuda else 0, numbers)
    if key not in _TABLES:
        host = torch.tensor(numbers, dtype=torch.int64, pin_memory=cuda)
        _TABLES[key] = host.to(device, non_blocking=True)
        if len(_TABLES) > _KEPT_TABLES:
            _TABLES.popitem(last=False)
    _TABLES.move_to_end(key)
    return _TABLES[key]


def _capturing(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def _type(dtype: torch.dtype) -> Any:
    return getattr(jitted.tl, str(dtype).removeprefix("torch."))


def _on_cuda(tensors: Sequence[Tensor]) -> bool:
    return bool(tensors) and tensors[0].device.type == "cuda"


def _numbers(tensors: Sequence[Tensor], *values: float | Tensor) -> Tensor | list[float]:
    """A step's numbers: on the device of ``tensors`` if one of them is there, and read here otherwise."""
    device = tensors[0].device if tensors else torch.device("cpu")

    def is_near(value: float | Tensor) -> bool:
        return isinstance(value, Tensor) and value.device.type == device.type

    if any(map(is_near, values)):
        return torch.stack(
            [
                v.detach().to(device, torch.float64).reshape(())  # type: ignore[union-attr]
                if is_near(v)
                else torch.full((), float(v), dtype=torch.float64, device=device)
                for v in values
            ]
        )
    numbers = [float(v) for v in values]
    return torch.tensor(numbers, dtype=torch.float64) if _on_cuda(tensors) else numbers


def refusal(function: str, *lists: Sequence[Tensor | None]) -> str | None:
    """Why the kernels cannot serve these tensors (parallel lists), or None if they can."""
    if not _installed():
        return "triton is not installed"
    if function not in FUNCTIONS:
        return f"{function} has no Triton kernel"
    # Triton is not imported only to refuse CPU tensors
    kind = "cpu" if os.environ.get("TRITON_INTERPRET") and functions.load() else "cuda"
    return native.refusal_of_rows("Triton", kind, lists)


@functools.cache
def _installed() -> bool:
    return find_spec("triton") is not None


def sgd(
    ws: Sequence[Tensor],
    gs: Sequence[Tensor],
    vs: Sequence[Tensor | None],
    function: str,
    params: tuple[float | Tensor, ...] | Tensor,
    *,
    placement: str,
    lr: float | Tensor,
    momentum: float,
    dampening: float,
    weight_decay: float | Tensor,
    nesterov: bool,
    maximize: bool,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> list[Tensor | None]:
    """One step of each tensor of ``ws`` in place, as :func:`gaf.optim.rules.sgd`.

    Only the device knows whether ``found_inf`` skips a step. A first step that it skips leaves velocities
    of 0, and the next step then applies ``dampening``, as a second one does.
    """
    fresh: list[bool] = []
    velocities: list[Tensor] = []
    if momentum != 0:
        fresh = [v is None for v in vs]
        new = torch.empty_like if found_inf is None else torch.zeros_like
        velocities = [new(w) if v is None else v for w, v in zip(ws, vs, strict=True)]
    ws = native._local(ws)
    step = torch.ops.gaf.sgd_ if _on_cuda(ws) else _sgd
    step(
        ws,
        native._local(gs),
        native._local(velocities),
        fresh,
        function,
        placement,
        nesterov,
        maximize,
        _numbers(ws, *native.for_all(params), lr, weight_decay, momentum, 1 - dampening),
        grad_scale,
        found_inf,
        native.for_each(params),
    )
    return list(velocities) or [None] * len(ws)


@torch.library.impl(native._LIBRARY, "sgd_", "CUDA")
def _sgd(
    ws: list[Tensor],
    gs: list[Tensor],
    vs: list[Tensor],
    fresh: list[bool],
    function: str,
    placement: str,
    nesterov: bool,
    maximize: bool,
    numbers: Tensor | list[float],
    grad_scale: Tensor | None,
    found_inf: Tensor | None,
    factors: Tensor | None,
) -> None:
    old = [0 if first else v.numel() for v, first in zip(vs, fresh, strict=True)] if vs else None
    for batch in _batches([ws, gs, vs] if vs else [ws, gs], old):
        tensor, scalars = batch.numbers(numbers)
        batch.launch_blocks(
            jitted.sgd_kernel,
            tensor,
            *scalars,
            batch.near(grad_scale),
            batch.near(found_inf),
            batch.factors(factors),
            FUNCTION=function,
            PLACEMENT=placement,
            NESTEROV=nesterov,
            MAXIMIZE=maximize,
            CARRY=bool(vs),
        )


def adam(
    ws: Sequence[Tensor],
    gs: Sequence[Tensor],
    ms: Sequence[Tensor],
    vs: Sequence[Tensor],
    tops: Sequence[Tensor],
    steps: Sequence[Tensor],
    function: str,
    params: tuple[float | Tensor, ...] | Tensor,
    *,
    lr: float | Tensor,
    betas: tuple[float | Tensor, float | Tensor],
    eps: float,
    weight_decay: float,
    decoupled_weight_decay: bool,
    maximize: bool,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> None:
    """One step of Adam on f(gradient), in place; ``tops`` is empty without amsgrad."""
    for w, step in zip(ws, steps, strict=True):
        if step.device != w.device or step.dtype != steps[0].dtype:
            raise GafError(
                f"a step count is {step.dtype} on {step.device}: Adam's kernel counts on the device of the "
                f"parameter, {w.device} (capturable=True or fused=True puts counts there), in one dtype"
            )
    ws = native._local(ws)
    step = torch.ops.gaf.adam_ if _on_cuda(ws) else _adam
    step(
        ws,
        native._local(gs),
        native._local(ms),
        native._local(vs),
        native._local(tops),
        list(steps),
        function,
        decoupled_weight_decay,
        maximize,
        _numbers(ws, *native.for_all(params), lr, *betas, eps, weight_decay),
        grad_scale,
        found_inf,
        native.for_each(params),
    )


@torch.library.impl(native._LIBRARY, "adam_", "CUDA")
def _adam(
    ws: list[Tensor],
    gs: list[Tensor],
    ms: list[Tensor],
    vs: list[Tensor],
    tops: list[Tensor],
    steps: list[Tensor],
    function: str,
    decoupled: bool,
    maximize: bool,
    numbers: Tensor | list[float],
    grad_scale: Tensor | None,
    found_inf: Tensor | None,
    factors: Tensor | None,
) -> None:
    lists = [ws, gs, ms, vs, tops] if tops else [ws, gs, ms, vs]
    for batch in _batches(lists, [step.data_ptr() for step in steps]):
        count, found = len(batch.rows), batch.near(found_inf)
        tensor, scalars = batch.numbers(numbers)
        corrections = torch.empty(2 * count, dtype=torch.float64, device=batch.device)
        batch.launch(
            jitted.advance_kernel,
            -(-count // 128),
            corrections,
            tensor,
            *scalars[2:5],  # lr, beta1, beta2
            found,
            COLUMNS=len(lists) + 3,
            TYPE=_type(steps[0].dtype),
            BLOCK=128,
        )
        batch.launch_blocks(
            jitted.adam_kernel,
            corrections,
            tensor,
            *scalars,
            batch.near(grad_scale),
            found,
            batch.factors(factors),
            FUNCTION=function,
            DECOUPLED=decoupled,
            MAXIMIZE=maximize,
            AMSGRAD=bool(tops),
        )


def activate(gs: Sequence[Tensor], function: str, params: tuple[float | Tensor, ...]) -> Tensor:
    """f in place on each tensor; returns the largest absolute value there was, NaN if one was."""
    gs = native._local(gs)
    step = torch.ops.gaf.activate_ if _on_cuda(gs) else _activate
    return step(gs, function, _numbers(gs, *params))


@torch.library.impl(native._LIBRARY, "activate_", "CUDA")
def _activate(gs: list[Tensor], function: str, numbers: Tensor | list[float]) -> Tensor:
    home = gs[0].device if gs else None
    wide = torch.float64 if any(g.dtype == torch.float64 for g in gs) else torch.float32
    found = [torch.zeros((), dtype=wide, device=home)]
    for batch in _batches([gs]):
        tensor, scalars = batch.numbers(numbers)
        dtype = torch.promote_types(batch.dtype, torch.float32)
        largest = torch.empty(batch.blocks[-1], dtype=dtype, device=batch.device)
        batch.launch_blocks(jitted.activate_kernel, largest, tensor, *scalars, FUNCTION=function)
        if batch.blocks[-1]:
            found.append(largest.amax().to(home, wide))
    return torch.stack(found).amax()
