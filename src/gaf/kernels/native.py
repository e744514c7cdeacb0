"""Native CPU kernels: one pass over memory for the whole list of tensors.

The loops are C (``csrc/``), chosen at run time by what the CPU has. Sharded tensors are served by their
local shard. Where :func:`refusal` returns a reason, the rules over torch operations serve instead.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from gaf.functions.lift import local_shard
from gaf.kernels import layout
from gaf.kernels.layout import PLAIN, TANGLED, TYPES, Batch, Column, Lists, all_plain, integers

try:
    from gaf.kernels import _native  # type: ignore[attr-defined]
except ImportError:  # built without a C compiler
    _native: Any = None

FUNCTIONS: dict[str, int] = _native.functions() if _native else {}  # the number of each

INSTRUCTION_SETS: tuple[str, ...] = tuple(_native.instruction_sets()) if _native else ()


def instruction_set() -> str:
    """The instruction set in use: the best the CPU has, or the one that GAF_ISA names."""
    wanted = os.environ.get("GAF_ISA")
    if wanted is None:
        return INSTRUCTION_SETS[0]
    if wanted not in INSTRUCTION_SETS:
        raise RuntimeError(
            f"GAF_ISA={wanted} is not available; this machine has {', '.join(INSTRUCTION_SETS)}"
        )
    return wanted


def build() -> dict[str, Any]:
    """Which kernels there are: instruction sets, the one in use, and what they were compiled from and by."""
    return {
        "instruction_sets": list(INSTRUCTION_SETS),
        "in_use": instruction_set() if INSTRUCTION_SETS else None,
        "sources": _native.SOURCES if _native else None,  # a digest of csrc/
        "compiler": _native.COMPILER if _native else None,
    }


RANGE = (1e-18, 1e18)  # of alpha and beta: beyond it products leave the range of float32
_LEAST, _MOST = 1e-36, 1e36  # of those products

# DLPack's table of C functions, by which one call in C looks at all tensors of a step. Torch has it from 2.10
# on; before, and where its version is another one, :func:`gaf.kernels.layout.look` asks each tensor.
_TABLE: Any = getattr(Tensor, "__dlpack_c_exchange_api__", None)
if _native is None or not _native.can_look(_TABLE):
    _TABLE = None


def refusal(function: str, *lists: Column, params: Sequence[float] = ()) -> str | None:
    """Why the kernels cannot serve these tensors (parallel lists), or None if they can."""
    batches = look(function, *lists, params=params)
    return batches if isinstance(batches, str) else None


def look(function: str, *lists: Column, params: Sequence[float] = ()) -> list[Batch] | str:
    """Where these tensors (parallel lists) lie, by their types, or why the kernels cannot serve them.

    With a thousand tiny tensors this is what a step costs. In a compiled step they lie nowhere yet.
    """
    if _native is None:
        return "the native kernels were not built (no C compiler when gaf was installed)"
    if function not in FUNCTIONS:
        return f"{function} has no native kernel"
    for value in params:
        if not RANGE[0] <= value <= RANGE[1]:
            return f"the native kernels take alpha and beta from {RANGE[0]} to {RANGE[1]}"
    if not lists[0]:
        return []
    if torch.compiler.is_compiling():
        return layout.refusal_of_rows("native", "cpu", lists) or []
    return _look(lists)


def _look(lists: Lists) -> list[Batch] | str:
    """By one call in C in the usual case: plain dense CPU tensors of one type."""
    whole = None if _TABLE is None else _native.look(_TABLE, PLAIN, Tensor.is_neg, lists)
    if whole is None:
        return layout.look(lists)
    *batch, tangled = whole
    return TANGLED if tangled else [Batch(*batch)]


def _batches(*lists: Column) -> list[Batch]:
    """Where tensors lie that nobody has looked at in this step. A list may be empty: it has no tensors."""
    count = len(lists[0])
    batches = _look(tuple(column or [None] * count for column in lists)) if count else []
    if isinstance(batches, str):  # such as in a compiled step, which asks before there are tensors
        raise RuntimeError(f"`fused=True` cannot be honoured: {batches}; leave `fused` unset")
    return batches


# The kernels are operators of torch's dispatcher, so that torch.compile sees an op; an eager step calls the
# same functions without the way through the dispatcher. Numbers that may change from step to step travel in a
# tensor: a compiled step need not be compiled anew for them.
_LIBRARY = torch.library.Library("gaf", "DEF")
_LIBRARY.define(
    "sgd_(Tensor(a!)[] ws, Tensor[] gs, Tensor(b!)[] vs, bool[] fresh, str function, str placement, "
    "bool nesterov, bool maximize, bool decoupled, Tensor numbers, Tensor? grad_scale, "
    "Tensor? found_inf, Tensor? factors) -> ()"
)
_LIBRARY.define(
    "adam_(Tensor(a!)[] ws, Tensor[] gs, Tensor(b!)[] ms, Tensor(c!)[] vs, Tensor(d!)[] tops, "
    "Tensor(e!)[] steps, str function, str placement, bool decoupled, bool maximize, "
    "bool eps_hat, Tensor numbers, "
    "Tensor? grad_scale, Tensor? found_inf, Tensor? factors) -> ()"
)
_LIBRARY.define("activate_(Tensor(a!)[] gs, str function, Tensor numbers) -> Tensor")


def sgd(
    ws: Sequence[Tensor],
    gs: Sequence[Tensor],
    vs: Sequence[Tensor | None],
    function: str,
    params: tuple[float, ...] | Tensor,
    *,
    placement: str,
    lr: float | Tensor,
    momentum: float,
    dampening: float,
    weight_decay: float | Tensor,
    nesterov: bool,
    maximize: bool,
    decoupled_weight_decay: bool = False,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    batches: list[Batch] | None = None,
) -> tuple[Column]:
    """One step of each tensor of ``ws`` in place, as :func:`gaf.optim.rules.sgd`; returns the velocities.

    ``params`` is the function's alpha and beta, or a tensor with a row of them for each of ``ws``.
    ``batches`` is what :func:`look` has returned for these very lists.
    """
    fresh: list[bool] = []
    if momentum == 0:
        velocities: Sequence[Tensor] = ()
    elif type(None) in set(map(type, vs)):
        batches = None  # of velocities that there were not yet
        fresh = [v is None for v in vs]
        velocities = [torch.empty_like(w) if v is None else v for w, v in zip(ws, vs, strict=True)]
    else:
        velocities = vs  # type: ignore[assignment]
    if ws:
        factors = params if isinstance(params, Tensor) else None
        shared = (1.0, 1.0) if isinstance(params, Tensor) else params  # nobody reads those of each
        numbers = (*shared, lr, weight_decay, momentum, 1 - dampening)
        flags = (function, placement, nesterov, maximize, decoupled_weight_decay)
        scale = (grad_scale, found_inf, factors)
        if torch.compiler.is_compiling():
            local = map(_local, (ws, gs, velocities))
            torch.ops.gaf.sgd_(*local, fresh, *flags, _numbers(numbers), *scale)
        else:
            _sgd((ws, gs, velocities), fresh, flags, map(float, numbers), *scale, batches)
            torch.autograd.graph.increment_version([*ws, *velocities])
    return (velocities or vs,)


@torch.library.impl(_LIBRARY, "sgd_", "CPU")
@torch._disable_dynamo  # torch 2.6 would trace an operator's own Python
def _sgd_operator(
    ws: list[Tensor],
    gs: list[Tensor],
    vs: list[Tensor],
    fresh: list[bool],
    function: str,
    placement: str,
    nesterov: bool,
    maximize: bool,
    decoupled: bool,
    numbers: Tensor,
    grad_scale: Tensor | None,
    found_inf: Tensor | None,
    factors: Tensor | None,
) -> None:
    flags = (function, placement, nesterov, maximize, decoupled)
    _sgd((ws, gs, vs), fresh, flags, numbers.tolist(), grad_scale, found_inf, factors)


def _sgd(
    lists: Lists,
    fresh: list[bool],
    flags: tuple[str, str, bool, bool, bool],
    numbers: Iterable[float],
    grad_scale: Tensor | None,
    found_inf: Tensor | None,
    factors: Tensor | None,
    batches: list[Batch] | None = None,
) -> None:
    if found_inf is not None and found_inf.item():
        return
    function, placement, nesterov, maximize, decoupled = flags
    alpha, beta, lr, weight_decay, momentum, gain = numbers
    inner, outer = (-lr, 1.0) if placement == "update" else (1.0, -lr)
    sign = -1.0 if maximize else 1.0
    first = placement == "gradient"
    shrink, l2 = (1 - lr * weight_decay, 0.0) if decoupled else (1.0, weight_decay)
    scale = 1.0
    if grad_scale is not None:
        lists, scale, batches = _unscaling(
            lists, grad_scale, first, (alpha, beta), factors, batches
        )
    for batch in batches or _batches(*lists):
        w, g, v = batch.addresses
        _native.sgd(
            instruction_set(),
            FUNCTIONS[function],
            batch.kind,
            first,
            (alpha, beta),
            None if factors is None else _rows(factors, batch),
            batch.sizes,
            w,
            g,
            v,
            bytes(_part(fresh, batch)) or None,
            (sign, scale, l2, shrink, inner, outer, momentum, gain, nesterov),
            torch.get_num_threads(),
        )


def adam(
    ws: Sequence[Tensor],
    gs: Sequence[Tensor],
    ms: Sequence[Tensor],
    vs: Sequence[Tensor],
    tops: Sequence[Tensor | None],
    steps: Sequence[Tensor],
    function: str,
    params: tuple[float, ...] | Tensor,
    *,
    placement: str,
    lr: float | Tensor,
    betas: tuple[float | Tensor, float | Tensor],
    eps: float,
    weight_decay: float,
    decoupled_weight_decay: bool,
    maximize: bool,
    eps_hat: bool = False,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    batches: list[Batch] | None = None,
) -> tuple[Column, ...]:
    """One step of each tensor of ``ws`` in place, as :func:`gaf.optim.rules.adam`; returns the moments.

    ``params`` and ``batches`` as in :func:`sgd`.
    """
    if ws:
        there = [top for top in tops if top is not None]
        lists: Lists = (ws, gs, ms, vs, there)
        flags = (function, placement, decoupled_weight_decay, maximize, eps_hat)
        factors = params if isinstance(params, Tensor) else None
        shared = (1.0, 1.0) if isinstance(params, Tensor) else params
        numbers = (*shared, lr, *betas, eps, weight_decay)
        scale = (grad_scale, found_inf, factors)
        if torch.compiler.is_compiling():
            local = map(_local, lists)
            torch.ops.gaf.adam_(*local, list(steps), *flags, _numbers(numbers), *scale)
        else:
            _adam(lists, steps, flags, map(float, numbers), *scale, batches)
            torch.autograd.graph.increment_version([*ws, *ms, *vs, *there, *steps])
    return ms, vs, tops


@torch.library.impl(_LIBRARY, "adam_", "CPU")
@torch._disable_dynamo  # torch 2.6 would trace an operator's own Python
def _adam_operator(
    ws: list[Tensor],
    gs: list[Tensor],
    ms: list[Tensor],
    vs: list[Tensor],
    tops: list[Tensor],
    steps: list[Tensor],
    function: str,
    placement: str,
    decoupled: bool,
    maximize: bool,
    eps_hat: bool,
    numbers: Tensor,
    grad_scale: Tensor | None,
    found_inf: Tensor | None,
    factors: Tensor | None,
) -> None:
    lists = (ws, gs, ms, vs, tops)
    flags = (function, placement, decoupled, maximize, eps_hat)
    _adam(lists, steps, flags, numbers.tolist(), grad_scale, found_inf, factors)


def _adam(
    lists: Lists,
    steps: Sequence[Tensor],
    flags: tuple[str, str, bool, bool, bool],
    numbers: Iterable[float],
    grad_scale: Tensor | None,
    found_inf: Tensor | None,
    factors: Tensor | None,
    batches: list[Batch] | None = None,
) -> None:
    if found_inf is not None and found_inf.item():
        return
    function, placement, decoupled, maximize, eps_hat = flags
    alpha, beta, lr, beta1, beta2, eps, weight_decay = numbers
    inner, outer = (1.0, -lr) if placement == "momentum" else (-lr, 1.0)
    first = placement == "gradient"
    sign = -1.0 if maximize else 1.0
    scale = 1.0
    if grad_scale is not None:
        lists, scale, batches = _unscaling(
            lists, grad_scale, first, (alpha, beta), factors, batches
        )
    shrink, l2 = (1 - lr * weight_decay, 0.0) if decoupled else (1.0, weight_decay)
    batches = batches or _batches(*lists)
    counts = _count(steps)
    for batch in batches:
        w, g, m, v, top = batch.addresses
        own = array("d", _part(counts, batch)).tobytes()
        step_sizes, roots = _native.corrections(own, inner, beta1, beta2)
        _native.adam(
            instruction_set(),
            FUNCTIONS[function],
            batch.kind,
            first,
            (alpha, beta),
            None if factors is None else _rows(factors, batch),
            batch.sizes,
            w,
            g,
            m,
            v,
            top,
            step_sizes,
            roots,
            (sign, scale, shrink, l2, outer, 1 - beta1, beta2, 1 - beta2, eps, eps_hat),
            torch.get_num_threads(),
        )


def _part(column: Sequence[Any], batch: Batch) -> Sequence[Any]:
    """The entries of a list, or of an empty one, that go with the tensors of a batch."""
    return column if batch.members is None else [column[i] for i in batch.members if column]


def _rows(factors: Tensor, batch: Batch) -> bytes:
    """Alpha and beta of each tensor of a batch."""
    rows = factors if batch.members is None else factors[batch.members]
    rows = rows.to("cpu", torch.float64).contiguous()
    return ctypes.string_at(rows.data_ptr(), rows.nbytes)


def _unscaling(
    lists: Lists,
    grad_scale: Tensor,
    first: bool,
    shared: tuple[float, float],
    factors: Tensor | None,
    batches: list[Batch] | None,
) -> tuple[Lists, float, list[Batch] | None]:
    """The lists, and the factor that takes the loss's scale out of the gradients, the second of them.

    Where f comes ``first`` the kernels multiply beta with it. If that leaves float32, for factors and scales
    that make f(g) vanish or overflow by themselves, it goes to copies of the gradients, whose place nobody
    has looked up.
    """
    scale = 1.0 / grad_scale.item()
    rows = [] if not first else [shared] if factors is None else factors.tolist()
    if all(
        _LEAST <= x <= _MOST for alpha, beta in rows for x in (scale * beta, scale * beta * alpha)
    ):
        return lists, scale, batches
    ws, gs, *states = lists
    return (ws, [g * scale for g in gs], *states), 1.0, None  # type: ignore[operator]


_ONE = integers([1])


def _count(steps: Sequence[Tensor]) -> array[float]:
    """Add 1 to each step of Adam and return them; one call for a thousand of the usual ones."""
    batches = _look((steps,))
    if isinstance(batches, list) and len(batches) == 1:
        (batch,) = batches
        if batch.kind == TYPES[torch.float32] and batch.sizes == _ONE * len(steps):
            return array("d", _native.count(batch.addresses[0]))
    torch._foreach_add_(list(steps), 1)
    return array("d", [step.item() for step in steps])


def activate(gs: Sequence[Tensor], function: str, params: tuple[float, ...]) -> Tensor:
    """f in place on each tensor; returns the largest absolute value there was, NaN if one was."""
    if torch.compiler.is_compiling():
        return torch.ops.gaf.activate_(_local(gs), function, _numbers(params))
    largest = _activate(gs, function, *params)
    torch.autograd.graph.increment_version(list(gs))
    return largest


@torch.library.impl(_LIBRARY, "activate_", "CPU")
@torch._disable_dynamo  # torch 2.6 would trace an operator's own Python
def _activate_operator(gs: list[Tensor], function: str, numbers: Tensor) -> Tensor:
    return _activate(gs, function, *numbers.tolist())


def _activate(gs: Sequence[Tensor], function: str, alpha: float, beta: float) -> Tensor:
    largest = [
        _native.activate(
            instruction_set(),
            FUNCTIONS[function],
            batch.kind,
            (alpha, beta),
            batch.sizes,
            batch.addresses[0],
            torch.get_num_threads(),
        )
        for batch in _batches(gs)
    ]
    return torch.tensor(largest or [0.0], dtype=_widest(gs), device="cpu").amax()


def _widest(gs: Sequence[Tensor]) -> torch.dtype:
    return torch.float64 if any(g.dtype == torch.float64 for g in gs) else torch.float32


def squares(gs: Sequence[Tensor]) -> float:
    """The sum of the squares of tensors that :func:`refusal` finds fit; inf or NaN where an element is."""
    threads = torch.get_num_threads()
    return sum(
        _native.squares(batch.kind, batch.sizes, batch.addresses[0], threads)
        for batch in _batches(gs)
    )


def norm(gs: Sequence[Tensor]) -> float:
    """The norm of all elements of such tensors."""
    return math.sqrt(squares(gs))


def sample(tensors: Sequence[Tensor], spacing: Callable[[int], int]) -> Tensor:
    """Evenly spaced elements of each tensor in memory: a float64 row each, filled up with NaN.

    ``spacing`` gives the distance between those taken, for a number of elements.
    """
    tensors = _local(tensors)
    types = bytes([TYPES[t.dtype] for t in tensors])
    sizes, addresses = (integers(map(of, tensors)) for of in (Tensor.numel, Tensor.data_ptr))
    return _sample(types, sizes, addresses, spacing)


def sampled(batch: Batch, which: int, spacing: Callable[[int], int]) -> Tensor:
    """What :func:`sample` gives for the tensors of one of a batch's lists."""
    places = batch.addresses[which]
    assert places is not None
    types = bytes([batch.kind]) * (len(places) // len(_ONE))
    return _sample(types, batch.sizes, places, spacing)


def _sample(types: bytes, sizes: bytes, addresses: bytes, spacing: Callable[[int], int]) -> Tensor:
    steps, width = _spacings(sizes, spacing)
    rows = torch.empty(len(types), width, dtype=torch.float64, device="cpu")
    _native.sample(types, sizes, steps, addresses, rows.data_ptr(), width)
    return rows


def sampled_quantiles(
    batch: Batch, spacing: Callable[[int], int], quantile: float, scale: float
) -> Tensor:
    """What :func:`quantiles` finds in :func:`sample` over ``scale``, of the gradients of a batch."""
    steps, _ = _spacings(batch.sizes, spacing)
    quantile_of = torch.empty(len(steps) // len(_ONE), dtype=torch.float64, device="cpu")
    _native.sampled_quantiles(
        batch.kind,
        batch.sizes,
        steps,
        batch.addresses[1],
        quantile,
        scale,
        quantile_of.data_ptr(),
        torch.get_num_threads(),
    )
    return quantile_of


@functools.lru_cache
def _spacings(sizes: bytes, spacing: Callable[[int], int]) -> tuple[bytes, int]:
    """The distance between the elements that are sampled of each tensor, and most of how many those are."""
    numbers = array("q", sizes)
    steps = list(map(spacing, numbers))
    return integers(steps), max(-(-n // step) for n, step in zip(numbers, steps, strict=True))


def quantiles(rows: Tensor, quantile: float) -> Tensor:
    """A quantile of the magnitudes in each row that are neither 0 nor infinite, 0 where there is none.

    The rows are float64, contiguous, and reordered.
    """
    found = torch.empty(len(rows), dtype=torch.float64, device="cpu")
    _native.quantiles(rows.data_ptr(), *rows.shape, quantile, found.data_ptr())
    return found


def stream(
    ws: Sequence[Tensor], gs: Sequence[Tensor], vs: Sequence[Tensor], ms: Sequence[Tensor] = ()
) -> None:
    """The memory traffic of a step of SGD (of Adam with ``ms``) in float32, and nothing else."""
    (batch,) = _batches(ws, gs, vs, ms)
    _native.stream(instruction_set(), batch.sizes, *batch.addresses, torch.get_num_threads())


@torch.library.register_fake("gaf::sgd_", lib=_LIBRARY)
@torch.library.register_fake("gaf::adam_", lib=_LIBRARY)
def _nothing(*args: Any) -> None:
    """What torch.compile sees of a step: it returns nothing."""


@torch.library.register_fake("gaf::activate_", lib=_LIBRARY)
def _a_number(gs: list[Tensor], function: str, numbers: Tensor) -> Tensor:
    return torch.empty((), dtype=_widest(gs), device=gs[0].device)


def _numbers(values: Sequence[float | Tensor]) -> Tensor:
    """Numbers, and tensors of one number, in one float64 tensor."""
    one = torch.ones((), dtype=torch.float64, device="cpu")  # torch.tensor(x) would compile x in
    return torch.stack([(one * value).reshape(()) for value in values])


def _local(tensors: Sequence[Tensor]) -> list[Tensor]:
    if all_plain(tensors):
        return list(tensors)
    return [local_shard(t) for t in tensors]
