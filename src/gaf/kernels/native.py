"""Native CPU kernels: one pass over memory for the whole list of tensors.

The loops are C (``csrc/``), chosen at run time by what the CPU has. Sharded tensors are served by their
local shard. Where :func:`refusal` returns a reason, the rules over torch operations serve instead.
"""

from __future__ import annotations

import itertools
import math
import operator
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from gaf.functions.lift import local_shard
from gaf.kernels.layout import PLAIN, TYPES, refusal_of_rows

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

Lists = Sequence[Sequence[Tensor]]  # parallel: parameters, gradients, states
Column = Sequence[Tensor | None]


class Known:
    """What was found of the tensors of a group, kept from one step to the next.

    Parameters and states are known again by being the same objects at the same addresses. Gradients are
    mostly new ones, and are looked at in every step.
    """

    def __init__(self) -> None:
        self.dtype = torch.float32
        self.sizes: list[int] = []
        self.spacings: list[int] = []  # between the elements that are sampled of each
        self.columns: list[Sequence[Tensor | None]] = []  # parameters and states
        self.addresses: list[list[int] | None] = []  # of parameters, gradients and states

    def learn(self, ws: Sequence[Tensor], gs: Sequence[Tensor], *states: Column) -> None:
        """Keep what :func:`refusal` has found to be alike."""
        self.columns, self.spacings = [], []
        if all(column[0] is None or type(None) not in set(map(type, column)) for column in states):
            self.dtype, self.sizes = ws[0].dtype, list(map(Tensor.numel, ws))
            self.columns = [ws, *states]
            lists = (ws, gs, *states)
            self.addresses = [
                None if column[0] is None else list(map(Tensor.data_ptr, column))  # type: ignore[arg-type]
                for column in lists
            ]

    def holds(self, ws: Sequence[Tensor], gs: Sequence[Tensor], *states: Column) -> bool:
        """Whether it is true of these lists; then ``addresses`` are theirs."""
        columns = (ws, *states)
        if len(columns) != len(self.columns):
            return False
        addresses: list[list[int] | None] = []
        for column, before in zip(columns, self.columns, strict=True):
            if len(column) != len(before) or not all(map(operator.is_, column, before)):
                return False
            absent = column[0] is None
            if not absent and not all(map(Tensor.is_contiguous, column)):  # type: ignore[arg-type]
                return False
            addresses.append(None if absent else list(map(Tensor.data_ptr, column)))  # type: ignore[arg-type]
        if not PLAIN.issuperset(map(type, gs)):
            return False
        try:
            gradients = list(map(Tensor.data_ptr, gs))
        except RuntimeError:  # sparse ones have no address
            return False
        if not (
            [self.addresses[0], *self.addresses[2:]] == addresses
            and list(map(Tensor.numel, ws))
            == self.sizes  # a shorter view begins at the same address
            and {g.dtype for g in gs} == {self.dtype}
            and {g.is_cpu for g in gs} == {True}
            and all(map(Tensor.is_contiguous, gs))
            and list(map(Tensor.numel, gs)) == self.sizes
            and 0 not in gradients  # zeros that nobody has computed, or no elements
            and not any(map(Tensor.is_neg, gs))
        ):
            return False
        self.addresses = [addresses[0], gradients, *addresses[1:]]
        self.columns = list(columns)  # the same tensors in the lists of this step
        return True


def refusal(
    function: str,
    *lists: Column,
    params: Sequence[float] = (),
    known: Known | None = None,
) -> str | None:
    """Why the kernels cannot serve these tensors (parallel lists), or None if they can.

    In the usual case all are plain contiguous CPU tensors of one type that has a kernel. Each question is
    asked of all tensors at once, since with a thousand tiny ones it is what a step costs; ``known`` is what
    the step before has found.
    """
    if _native is None:
        return "the native kernels were not built (no C compiler when gaf was installed)"
    if function not in FUNCTIONS:
        return f"{function} has no native kernel"
    for value in params:
        if not RANGE[0] <= value <= RANGE[1]:
            return f"the native kernels take alpha and beta from {RANGE[0]} to {RANGE[1]}"
    if not lists[0] or (known is not None and known.holds(*lists)):  # type: ignore[arg-type]
        return None
    if known is not None:
        known.columns = []  # nothing is known until it is learned anew
    sizes = list(map(Tensor.numel, lists[0]))  # type: ignore[arg-type]
    present: list[Sequence[Tensor]] = [lists[0]]  # type: ignore[list-item]
    for column in lists[1:]:
        there, expected = column, sizes
        if type(None) in set(map(type, column)):
            indices = [i for i, t in enumerate(column) if t is not None]
            there, expected = [column[i] for i in indices], [sizes[i] for i in indices]
        if list(map(Tensor.numel, there)) != expected:  # type: ignore[arg-type]
            return refusal_of_rows("native", "cpu", lists)
        present.append(there)  # type: ignore[arg-type]
    tensors = list(itertools.chain(*present))
    dtypes = {t.dtype for t in tensors}
    # A tensor may stand for a negation or for zeros that nobody has computed; not in a compiled step.
    lazy = () if torch.compiler.is_compiling() else tensors
    if (
        PLAIN.issuperset(map(type, tensors))
        # The layout is asked of the parameters alone: sparse gradients are not contiguous.
        and {t.layout for t in present[0]} == {torch.strided}
        and {t.is_cpu for t in tensors} == {True}
        and all(map(Tensor.is_contiguous, tensors))
        and len(dtypes) == 1
        and dtypes.issubset(TYPES)
        and not any(map(Tensor.is_neg, lazy))
        and not any(map(Tensor._is_zerotensor, lazy))
    ):
        if known is not None:
            known.learn(*lists)  # type: ignore[arg-type]
        return None
    return refusal_of_rows("native", "cpu", lists)


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
    known: Known | None = None,
) -> tuple[Sequence[Tensor | None]]:
    """One step of each tensor of ``ws`` in place, as :func:`gaf.optim.rules.sgd`; returns the velocities.

    ``params`` is the function's alpha and beta, or a tensor with a row of them for each of ``ws``. ``known``
    is what :func:`refusal` has found of these very lists.
    """
    fresh: list[bool] = []
    if momentum == 0:
        velocities: Sequence[Tensor] = ()
    elif type(None) in set(map(type, vs)):
        known = None  # of velocities that there are not yet
        fresh = [v is None for v in vs]
        velocities = [torch.empty_like(w) if v is None else v for w, v in zip(ws, vs, strict=True)]
    else:
        velocities = vs  # type: ignore[assignment]
    if ws:
        factors = params if isinstance(params, Tensor) else None
        shared = (1.0, 1.0) if isinstance(params, Tensor) else params  # nobody reads those of each
        numbers = (*shared, lr, weight_decay, momentum, 1 - dampening)
        flags = (function, placement, nesterov, maximize, decoupled_weight_decay)
        lists = (ws, gs, velocities)
        if torch.compiler.is_compiling():
            local = map(_local, lists)
            scale = (grad_scale, found_inf, factors)
            torch.ops.gaf.sgd_(*local, fresh, *flags, _numbers(numbers), *scale)
        else:
            rows = [] if factors is None else factors.tolist()
            _sgd(lists, fresh, flags, map(float, numbers), rows, grad_scale, found_inf, known)
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
    rows = [] if factors is None else factors.tolist()
    _sgd((ws, gs, vs), fresh, flags, numbers.tolist(), rows, grad_scale, found_inf)


def _sgd(
    lists: Lists,
    fresh: list[bool],
    flags: tuple[str, str, bool, bool, bool],
    numbers: Iterable[float],
    rows: list[list[float]],
    grad_scale: Tensor | None,
    found_inf: Tensor | None,
    known: Known | None = None,
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
        known = None  # the gradients may be copies
        lists, scale = _unscaling(lists, grad_scale, (rows or [(alpha, beta)]) if first else [])
    for kind, sizes, (w, g, v), (new, own) in _batches(lists, fresh, rows, known=known):
        _native.sgd(
            instruction_set(),
            FUNCTIONS[function],
            kind,
            first,
            (alpha, beta),
            list(itertools.chain(*own)) or None,
            sizes,
            w,
            g,
            v,
            new or None,
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
    known: Known | None = None,
) -> tuple[Sequence[Tensor | None], ...]:
    """One step of each tensor of ``ws`` in place, as :func:`gaf.optim.rules.adam`; returns the moments.

    ``params`` and ``known`` as in :func:`sgd`.
    """
    if ws:
        there = [top for top in tops if top is not None]
        lists: Lists = (ws, gs, ms, vs, there)  # type: ignore[assignment]
        flags = (function, placement, decoupled_weight_decay, maximize, eps_hat)
        factors = params if isinstance(params, Tensor) else None
        shared = (1.0, 1.0) if isinstance(params, Tensor) else params
        numbers = (*shared, lr, *betas, eps, weight_decay)
        if torch.compiler.is_compiling():
            local = map(_local, lists)
            scale = (grad_scale, found_inf, factors)
            torch.ops.gaf.adam_(*local, list(steps), *flags, _numbers(numbers), *scale)
        else:
            rows = [] if factors is None else factors.tolist()
            _adam(lists, steps, flags, map(float, numbers), rows, grad_scale, found_inf, known)
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
    rows = [] if factors is None else factors.tolist()
    _adam(lists, steps, flags, numbers.tolist(), rows, grad_scale, found_inf)


def _adam(
    lists: Lists,
    steps: Sequence[Tensor],
    flags: tuple[str, str, bool, bool, bool],
    numbers: Iterable[float],
    rows: list[list[float]],
    grad_scale: Tensor | None,
    found_inf: Tensor | None,
    known: Known | None = None,
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
        known = None  # the gradients may be copies
        lists, scale = _unscaling(lists, grad_scale, (rows or [(alpha, beta)]) if first else [])
    shrink, l2 = (1 - lr * weight_decay, 0.0) if decoupled else (1.0, weight_decay)
    batches = _batches(lists, range(len(steps)), rows, known=known)
    counts = _count(steps)
    step_sizes = {count: inner / (1 - beta1**count) for count in set(counts)}
    roots = {count: (1 - beta2**count) ** 0.5 for count in set(counts)}
    for kind, sizes, (w, g, m, v, top), (indices, own) in batches:
        count = [counts[i] for i in indices] if len(batches) > 1 else counts
        _native.adam(
            instruction_set(),
            FUNCTIONS[function],
            kind,
            first,
            (alpha, beta),
            list(itertools.chain(*own)) or None,
            sizes,
            w,
            g,
            m,
            v,
            top,
            [step_sizes[n] for n in count],
            [roots[n] for n in count],
            (sign, scale, shrink, l2, outer, 1 - beta1, beta2, 1 - beta2, eps, eps_hat),
            torch.get_num_threads(),
        )


class Tangled(RuntimeError):
    """Raised before anything is written: the kernels do not serve a parameter whose tensors share memory."""


def _unscaling(
    lists: Lists, grad_scale: Tensor, factors: Sequence[Sequence[float]]
) -> tuple[Lists, float]:
    """The lists, and the factor that takes the loss's scale out of the gradients, the second of them.

    Where f comes first the kernels multiply beta of ``factors`` with it. If that leaves float32, for factors
    and scales that make f(g) vanish or overflow by themselves, it goes to copies of the gradients.
    """
    scale = 1.0 / grad_scale.item()
    if all(
        _LEAST <= x <= _MOST
        for alpha, beta in factors
        for x in (scale * beta, scale * beta * alpha)
    ):
        return lists, scale
    ws, gs, *states = lists
    return (ws, [g * scale for g in gs], *states), 1.0


def _count(steps: Sequence[Tensor]) -> list[float]:
    """Add 1 to each step of Adam and return them; one call for a thousand of the usual ones."""
    if (
        PLAIN.issuperset(map(type, steps))
        and {t.dtype for t in steps} == {torch.float32}
        and {t.is_cpu for t in steps} == {True}
        and {t.numel() for t in steps} == {1}
    ):
        return _native.count(list(map(Tensor.data_ptr, steps)))
    torch._foreach_add_(list(steps), 1)
    return [step.item() for step in steps]


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
            kind,
            (alpha, beta),
            sizes,
            addresses,
            torch.get_num_threads(),
        )
        for kind, sizes, (addresses,), _ in _batches((gs,))
        if sizes
    ]
    return torch.tensor(largest or [0.0], dtype=_widest(gs), device="cpu").amax()


def _widest(gs: Sequence[Tensor]) -> torch.dtype:
    return torch.float64 if any(g.dtype == torch.float64 for g in gs) else torch.float32


def norm(gs: Sequence[Tensor]) -> float:
    """The norm of all elements of tensors that :func:`refusal` finds fit; inf or NaN where one of them is."""
    threads = torch.get_num_threads()
    batches = _batches((gs,))
    return math.sqrt(
        sum(_native.squares(kind, sizes, g, threads) for kind, sizes, (g,), _ in batches)
    )


def squares(x: Tensor) -> float:
    """The sum of the squares of a tensor that :func:`refusal` finds fit; inf or NaN where an element is."""
    sizes, addresses = [x.numel()], [x.data_ptr()]
    return _native.squares(TYPES[x.dtype], sizes, addresses, torch.get_num_threads())


def sample(tensors: Sequence[Tensor], spacing: Callable[[int], int]) -> Tensor:
    """Evenly spaced elements of each tensor in memory: a float64 row each, filled up with NaN.

    ``spacing`` gives the distance between those taken, for a number of elements.
    """
    tensors = _local(tensors)
    sizes = list(map(Tensor.numel, tensors))
    steps = list(map(spacing, sizes))
    width = max(-(-size // step) for size, step in zip(sizes, steps, strict=True))
    rows = torch.empty(len(tensors), width, dtype=torch.float64, device="cpu")
    types = [TYPES[t.dtype] for t in tensors]
    _native.sample(types, sizes, steps, list(map(Tensor.data_ptr, tensors)), rows.data_ptr(), width)
    return rows


def sampled_quantiles(
    known: Known, spacing: Callable[[int], int], quantile: float, scale: float
) -> Tensor:
    """What :func:`quantiles` finds in :func:`sample` over ``scale``, of the gradients that are known."""
    known.spacings = known.spacings or list(map(spacing, known.sizes))
    found = torch.empty(len(known.sizes), dtype=torch.float64, device="cpu")
    _native.sampled_quantiles(
        TYPES[known.dtype],
        known.sizes,
        known.spacings,
        known.addresses[1],
        quantile,
        scale,
        found.data_ptr(),
        torch.get_num_threads(),
    )
    return found


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
    _native.stream(
        instruction_set(),
        list(map(Tensor.numel, ws)),
        *(list(map(Tensor.data_ptr, tensors)) or None for tensors in (ws, gs, vs, ms)),
        torch.get_num_threads(),
    )


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
    if PLAIN.issuperset(map(type, tensors)):
        return list(tensors)
    return [local_shard(t) for t in tensors]


def _batches(
    lists: Lists, *extras: Sequence[Any], known: Known | None = None
) -> list[tuple[int, list[int], list[list[int] | None], list[Sequence[Any]]]]:
    """Parallel lists by the type of the tensors in the first: sizes, addresses, and what else goes with them.

    Lists that are empty stay so. A gradient that shares memory with its parameter is refused before anything
    is written, since a loop would read what it has just written. Tensors of different parameters may share
    memory: they are served one after the other.
    """
    if known is not None and known.columns and known.columns[0] is lists[0]:
        batches = [(TYPES[known.dtype], known.sizes, known.addresses, list(extras))]
    else:
        batches = []
        if not PLAIN.issuperset(map(type, itertools.chain(*lists))):
            lists = tuple(map(_local, lists))
        dtypes = [t.dtype for t in lists[0]]
        for dtype in dict.fromkeys(dtypes):
            part, beside = lists, extras
            if len(set(dtypes)) > 1:
                chosen = [i for i, other in enumerate(dtypes) if other is dtype]
                part = [[column[i] for i in chosen] if column else column for column in lists]
                beside = [[column[i] for i in chosen] if column else column for column in extras]
            sizes = list(map(Tensor.numel, part[0]))
            addresses = [list(map(Tensor.data_ptr, column)) or None for column in part]
            batches.append((TYPES[dtype], sizes, addresses, list(beside)))
    for kind, sizes, addresses, _ in batches:
        if _native.tangled(kind, sizes, addresses):
            raise Tangled(
                "`fused=True` cannot be honoured: a gradient or a state shares memory with its parameter; "
                "leave `fused` unset"
            )
    return batches
