"""What :class:`gaf.Auto` and others that adapt know of each tensor, and the values that follow.

Per parameter one small tensor, ``state[p]["gaf_auto"]``, holds four numbers: the weight of the running mean
(1 - decay^t, which corrects its bias), the running sum of the quantile's logarithm, the size of the weights,
and the logarithm of the pace, which multiplies alpha on Adam's ratio. A mean of logarithms follows magnitudes
over many decades, and one spike moves it little. The states of a group are rows of one tensor, its
:class:`Table`, which a step reads and writes at once.

The quantile is of at most 256 elements, evenly spaced, so that a step reads next to nothing beside the
kernels' own pass; zeros, inf and NaN are left out. For placements behind the momentum the rule is run on the
sampled elements of weight, gradient and velocity. Everything stays on the device. Sizes of whole tensors,
which :class:`gaf.Scaled` asks for in the place of a quantile, come from :mod:`gaf.optim.sizes`.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from gaf.common.errors import GafError
from gaf.functions.lift import is_dtensor, local_shard, real_values, real_view
from gaf.kernels import native
from gaf.kernels.layout import Batch, Lists, all_plain
from gaf.optim.auto import Auto
from gaf.optim.sizes import sizes

KEY = "gaf_auto"
SAMPLE = 256
LEAST, MOST = 1e-18, 1e18  # of alpha and beta, which the kernels take
VECTOR = 0.1  # the size of vectors (biases, gains of norm layers), and of matrices that are all 0
NUMBERS = 4  # of a state
RATIO = 3.0  # of alpha on Adam's ratio: the momentum averages, where SGD's sums
PACE = 0.1  # how much of a cosine is added to the logarithm of the pace in a step
SLOWEST, FASTEST = math.log(1e-3), math.log(10)  # of that logarithm

Group = dict[str, Any]
Sampler = Callable[..., Tensor]  # of a list by its number, and of which entries; unset: of all


@torch.no_grad()
def adapt(
    auto: Any,
    group: Group,
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    columns: Sequence[Sequence[Tensor | None]],
    old: Tensor,
    *,
    reference: Any = None,
    hyper: dict[str, Any] | None = None,
    counts: Sequence[Any] | None = None,
    scale: Tensor | None = None,
    skipped: Tensor | None = None,
    batches: list[Batch] | None = None,
) -> tuple[Tensor, Tensor]:
    """The states after this step, (n, 4), and each tensor's alpha and beta, (n, 2).

    Args:
        auto: the activation.
        group: the parameter group.
        params: its tensors.
        grads: their gradients.
        columns: lists of the rule's states, None for one that does not exist yet; unused where f acts on the
            gradient.
        old: the states so far, (n, 4).
        reference: the rule; unused where f acts on the gradient.
        hyper: the rule's numbers, and the placement; None where f acts on ``grads``.
        counts: the number of each tensor's step, for a rule that takes it.
        scale: GradScaler's, where the gradients still carry it.
        skipped: GradScaler's found_inf; where it is set the states stay as they are.
        batches: what the native kernels have found of these tensors in this step.
    """
    home = local_shard(params[0]).device
    if hyper is not None and hyper["placement"] == "gradient":
        hyper = None
    if hyper is not None and any(g.is_sparse for g in grads):
        name = type(auto).__name__
        raise GafError(f'{name} takes sparse gradients with placement="gradient" only')
    if isinstance(auto.measure, str):
        # maximize, where f acts on gradients that nobody has negated yet
        negated = bool(group.get("maximize")) and group["gaf_placement"] == "gradient"
        found = sizes(
            *(auto.measure, params, grads, columns, _wide(home)),
            reference=reference,
            hyper=hyper,
            counts=counts,
            scale=scale,
            negated=negated,
        )
        return _followed(auto, group, old, _logs(found), skipped)
    lists = (params, grads, *(() if hyper is None else columns))
    if batches is None and not torch.compiler.is_compiling():
        served = native.look(Auto.function, *lists)
        batches = None if isinstance(served, str) else served
    if hyper is None and batches and len(batches) == 1:
        number = 1.0 if scale is None else float(scale)
        q = native.sampled_quantiles(batches[0], _known_spacing, auto.measure, number)
        return _followed(auto, group, old, _over_processes(_logs(q), grads), skipped)
    sampled = functools.partial(_sampled_in_memory if batches else _sampled, lists, batches)
    x = sampled(1)
    if scale is not None:
        x = x / scale.to(x)
    if hyper is not None and counts is not None and not auto.measures_ratios:
        cosines = _agreement(grads, x, hyper, counts, sampled)
        return _paced(auto, group, old, cosines, skipped)
    if hyper is not None:
        x = _seen_by_f(reference, x, columns, hyper, counts, sampled)
    q = (native.quantiles if batches else _quantile)(x, auto.measure)
    return _followed(auto, group, old, _over_processes(_logs(q), grads), skipped)


def _followed(
    auto: Any, group: Group, old: Tensor, found: Tensor, skipped: Tensor | None
) -> tuple[Tensor, Tensor]:
    """What :func:`adapt` returns where f follows sizes; ``found`` has their logarithms, or twice 0."""
    weight, total, size, pace = old.unbind(1)
    log, share = found.unbind(1)
    seen = share > 0  # a tensor whose sample holds no number but 0 tells nothing
    log = torch.where(seen, log / share, 0.0)
    weight = torch.where(seen, auto.decay * weight + (1 - auto.decay), weight)
    total = torch.where(seen, auto.decay * total + (1 - auto.decay) * log, total)
    m = torch.exp(total / weight.clamp(min=torch.finfo(old.dtype).tiny))
    factors = torch.stack(auto.factors(m, size, _rate(group)), dim=1).clamp(LEAST, MOST)
    new = torch.stack((weight, total, size, pace), dim=1)
    if skipped is not None:
        new = torch.where(skipped.to(old) > 0, old, new)
    return new, factors


def _logs(sizes: Tensor) -> Tensor:
    """Per tensor the logarithm of its size and 1, or twice 0 where it has none."""
    seen = sizes > 0
    return torch.stack((torch.where(seen, sizes, 1.0).log(), seen.to(sizes)), dim=1)


def _agreement(
    grads: Sequence[Tensor],
    g: Tensor,
    hyper: dict[str, Any],
    counts: Sequence[Any],
    sampled: Sampler,
) -> Tensor:
    """Per tensor the cosine between its gradient and Adam's momentum before it, both over the root of v.

    Of the sampled elements, ``g``; the gradient is bent as f does it, so that an outlier is one vote.
    """
    d = -g if hyper["maximize"] else g
    m, v = sampled(2), sampled(3)
    beta2 = hyper["betas"][1]
    v = beta2 * v + (1 - beta2) * d * d
    tensors = isinstance(counts[0], Tensor)  # while torch compiles
    number = torch.stack([*counts]) if tensors else torch.tensor(counts)
    root = (v / (1 - beta2 ** number.to(v).reshape(-1, 1))).sqrt()
    now = torch.where(root > 0, torch.arctan(d / root), 0.0)
    before = torch.where(root > 0, m / root, 0.0)
    sums = torch.stack(
        [
            # one after the other: a sum of rows has other roundings where rows are filled up further
            (a * b).nan_to_num(0.0, 0.0, 0.0).cumsum(1)[:, -1:].sum(1)
            for a, b in ((now, before), (now, now), (before, before))
        ],
        dim=1,
    )
    product, square, other = _over_processes(sums, grads).unbind(1)
    return product / (square * other).sqrt().clamp(min=torch.finfo(v.dtype).tiny)


def _paced(
    auto: Any, group: Group, old: Tensor, cosines: Tensor, skipped: Tensor | None
) -> tuple[Tensor, Tensor]:
    """What :func:`adapt` returns where f acts on Adam's ratio, whose unit is 1.

    The pace grows while a tensor's gradients agree with its momentum, and falls while they undo it.
    """
    weight, total, size, pace = old.unbind(1)
    pace = (pace + PACE * cosines).clamp(SLOWEST, FASTEST)
    rate = _rate(group)
    factors = auto.factors(torch.ones_like(size) * rate, RATIO * pace.exp() * size, rate)
    new = torch.stack((weight, total, size, pace), dim=1)
    if skipped is not None:
        new = torch.where(skipped.to(old) > 0, old, new)
    return new, torch.stack(factors, dim=1).clamp(LEAST, MOST)


def _rate(group: Group) -> Any:
    """The learning rate where f gives the step itself, and 1 where it multiplies f later."""
    lr = group["lr"] if group["gaf_placement"] == "update" else 1.0
    return lr.detach().reshape(()) if isinstance(lr, Tensor) else lr


class Table:
    """The states of a group's tensors as rows of one tensor, for as long as they are the same tensors.

    In ``state[p]["gaf_auto"]`` are the rows. Whoever puts another tensor there, such as a checkpoint that is
    loaded, begins a new table.
    """

    def __init__(self) -> None:
        self.numbers: Tensor | None = None
        self.rows: list[Tensor] = []

    def read(self, params: Sequence[Tensor], states: Sequence[Tensor | None]) -> Tensor:
        """The states so far, as :func:`stacked` gives them."""
        same = len(states) == len(self.rows) and all(map(operator.is_, states, self.rows))
        if not same or self.numbers is None:
            self.numbers = None
            return stacked(params, states)
        return self.numbers

    @torch.no_grad()
    def write(self, entries: Sequence[dict[str, Any]], new: Tensor) -> None:
        """Keep new states, of the tensors whose old ones were read last."""
        if self.numbers is not None:
            self.numbers.copy_(new)
            return
        self.numbers, self.rows = new, list(new.unbind())
        for entry, row in zip(entries, self.rows, strict=True):
            entry[KEY] = row


def write(entries: Sequence[dict[str, Any]], new: Tensor) -> None:
    """Put new states into the parameters' entries, in place where there is one of their dtype."""
    rows = new.unbind()
    for entry, row in zip(entries, rows, strict=True):
        if KEY not in entry or entry[KEY].dtype != row.dtype or len(entry[KEY]) != len(row):
            entry[KEY] = row.clone()
    torch._foreach_copy_([entry[KEY] for entry in entries], rows)


def saved(optimizer: torch.optim.Optimizer, state_dict: dict[str, Any]) -> dict[Tensor, Tensor]:
    """The states in a checkpoint, by parameter. On loading, torch rounds them to the parameter's dtype."""
    found = {}
    for group, there in zip(optimizer.param_groups, state_dict["param_groups"], strict=False):
        for p, index in zip(group["params"], there["params"], strict=False):
            state = state_dict["state"].get(index, {}).get(KEY)
            if state is not None:
                device = local_shard(p).device
                found[p] = state.to(device, _wide(device), copy=True)
    return found


def spacing(*elements: int, sample: int = SAMPLE) -> int:
    """The distance between sampled elements of tensors with so many: at most ``sample`` or so in all.

    It has no divisor in common with any number of elements, so that it falls on all columns of a matrix and
    on all places of a filter.
    """
    step = -(-sum(elements) // sample)
    while any(math.gcd(step, each) > 1 for each in elements if each):
        step += 1
    return max(1, step)


_known_spacing = functools.cache(spacing)


def _wide(device: torch.device) -> torch.dtype:
    """The dtype of states and samples: float64 wherever there is one."""
    return torch.float32 if device.type == "mps" else torch.float64


def _numbers(t: Tensor, like: Tensor) -> Tensor:
    """The real numbers of a tensor in a row, in the order in which ``like`` lies in memory."""
    t, like = local_shard(t), local_shard(like)
    if t.layout == torch.sparse_coo:
        return real_values(t).reshape(-1)
    if not (t.is_contiguous() and like.is_contiguous()):
        # such as channels last: a view where both are, where reshape alone would copy
        strides = like.stride()
        t = t.permute(sorted(range(t.ndim), key=lambda i: -strides[i]))
    return real_view(t).reshape(-1)


def _sampled_in_memory(
    lists: Lists, batches: Sequence[Batch], which: int, members: Sequence[int] | None = None
) -> Tensor:
    """What :func:`_sampled` gives, for tensors that the native kernels serve."""
    if members is None and len(batches) == 1:
        return native.sampled(batches[0], which, _known_spacing)
    tensors = lists[which] if members is None else [lists[which][i] for i in members]
    return native.sample(tensors, _known_spacing)  # type: ignore[arg-type]


def _sampled(
    lists: Lists, batches: None, which: int, members: Sequence[int] | None = None
) -> Tensor:
    """A row of sampled elements for each tensor of one of parallel lists, filled up with NaN.

    They are taken in the order in which the first list's lie in memory.
    """
    params: Sequence[Any] = lists[0]
    home = local_shard(params[0]).device
    rows = []
    for i in range(len(params)) if members is None else members:
        t, other = lists[which][i], params[i]
        assert t is not None
        numbers = _numbers(t.detach(), other)
        rows.append(numbers[:: spacing(numbers.numel())])
    wide = _wide(home)
    if len({(row.dtype, row.device) for row in rows}) > 1:
        rows = [row.to(home, wide) for row in rows]
    return torch.nn.utils.rnn.pad_sequence(rows, True, math.nan).to(wide)


def _seen_by_f(
    reference: Callable[..., Any],
    g: Tensor,
    columns: Sequence[Sequence[Tensor | None]],
    hyper: dict[str, Any],
    counts: Sequence[Any] | None,
    sampled: Sampler,
) -> Tensor:
    """What f sees, by the reference rule on the sampled elements."""
    w = sampled(0)
    seen: list[Tensor] = []

    def tap(x: Tensor) -> Tensor:
        seen.append(x.clone())
        return x

    def run(count: Any, *tensors: Tensor | None) -> Tensor:
        numbers = hyper if count is None else {**hyper, "step": count}
        reference(*tensors, tap, **numbers)
        return seen.pop()

    numbers = [None] * len(g) if counts is None else counts
    kinds = list(zip(numbers, *(map(type, column) for column in columns), strict=True))
    if len(set(kinds)) == 1:
        rows = [
            None if column[0] is None else sampled(k) for k, column in enumerate(columns, start=2)
        ]
        return run(numbers[0], w, g, *rows)
    parts: dict[Any, list[int]] = {}
    for i, kind in enumerate(kinds):
        parts.setdefault(kind, []).append(i)
    x = torch.empty_like(g)
    for (count, *_), members in parts.items():
        rows = [
            None if column[members[0]] is None else _widened(sampled(k, members), g.shape[1])
            for k, column in enumerate(columns, start=2)
        ]
        x[members] = run(count, w[members], g[members], *rows)
    return x


def _widened(rows: Tensor, width: int) -> Tensor:
    """Rows filled up with NaN."""
    return torch.nn.functional.pad(rows, (0, width - rows.shape[1]), value=math.nan)


def _quantile(x: Tensor, quantile: float) -> Tensor:
    """Per row a quantile of the magnitudes that are neither 0 nor infinite; 0 where there is none."""
    if not x.shape[1]:
        return x.new_zeros(len(x))
    a = torch.where(torch.isfinite(x), x.abs(), math.inf).sort(dim=1).values
    zeros = (a == 0).sum(1)
    count = (a < math.inf).sum(1) - zeros
    index = zeros + (quantile * (count - 1).clamp(min=0).to(a)).long()
    found = a.gather(1, index.clamp(max=a.shape[1] - 1)[:, None])[:, 0]
    return torch.where(count > 0, found, 0.0)


@torch.no_grad()
def stacked(params: Sequence[Tensor], states: Sequence[Tensor | None]) -> Tensor:
    """The states so far, (n, 4); a tensor seen for the first time has its size measured.

    A state that torch loaded before :func:`gaf.activate` is rounded to the parameter's dtype: widened here,
    since in bfloat16 a running mean stands still.
    """
    home = local_shard(params[0]).device
    # checkpoints of earlier versions have no pace
    states = [
        state
        if state is None or len(state) == NUMBERS
        else torch.nn.functional.pad(state, (0, NUMBERS - len(state)))
        for state in states
    ]
    there = [state.to(home, _wide(home)) for state in states if state is not None]
    if len(there) == len(states):
        return torch.stack(there)
    new = [i for i, state in enumerate(states) if state is None]
    sums = torch.stack([_squares(params[i]).to(home) for i in new])
    squares, elements = _over_processes(sums, [params[i] for i in new]).unbind(1)
    sizes = (squares / elements.clamp(min=1)).sqrt()
    sizes = torch.where((sizes > 0) & torch.isfinite(sizes), sizes, VECTOR)
    fresh = dict(zip(new, torch.nn.functional.pad(sizes[:, None], (2, 1)).unbind(), strict=True))
    rows = [fresh[i] if state is None else state.to(sizes) for i, state in enumerate(states)]
    return torch.stack(rows)


def _squares(p: Tensor) -> Tensor:
    """The sum of squares of a tensor's numbers, and how many there are.

    A vector's numbers are taken for 0.1: the ones of a gain and the zeros of a bias do not tell how far it
    should move, and gains that moved by shares of 1 spoiled the training of batch-normalised networks.
    """
    numbers = real_values(p.detach())
    total = torch.linalg.vector_norm(numbers, dtype=_wide(numbers.device)) ** 2
    if p.ndim < 2:
        total = torch.full_like(total, numbers.numel() * VECTOR**2)
    return torch.stack((total, torch.full_like(total, numbers.numel())))


def _over_processes(sums: Tensor, tensors: Sequence[Tensor]) -> Tensor:
    """Rows of sums over all shards of each tensor; plain tensors have one.

    One all-reduce of a few numbers for each dimension of a mesh. All processes then hold the same state.
    """
    if all_plain(tensors):
        return sums
    meshes: dict[Any, list[int]] = {}
    for i, t in enumerate(tensors):
        if is_dtensor(t):
            meshes.setdefault(t.device_mesh, []).append(i)  # type: ignore[attr-defined]
    for mesh, rows in meshes.items():
        part = sums[rows]
        for dimension in range(mesh.ndim):
            torch.distributed.all_reduce(part, group=mesh.get_group(dimension))
        sums[rows] = part
    return sums
