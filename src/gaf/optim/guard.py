"""A step that would spoil the training is not taken.

The size of a step is the norm of all its gradients; :mod:`gaf.optim.spikes` says which sizes are kept out.
Then it is as if the step had never been asked for: weights, the optimizer's state and its counters are those
of the other steps alone. (With gradients set to 0, momentum and decay would still move them.)

On a CPU the decision is a number, and ``step`` is simply not called. On other devices it stays there: fused
steps are told it as :class:`torch.amp.GradScaler` tells them, by ``found_inf``, and nobody waits for the
device. For an optimizer that is not fused one number is read, as GradScaler does for the same ones: a copy to
go back to would take the memory of weights and state again, and miss what an optimizer keeps elsewhere.
"""

from __future__ import annotations

import functools
import math
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from gaf.common.errors import GafError
from gaf.functions import Arctan
from gaf.functions.lift import local_shard, real_values
from gaf.kernels import native
from gaf.optim import _torch
from gaf.optim.spikes import Spikes, SpikesOnDevice

COUNTS = ("steps", "nonfinite", "spikes", "in_a_row")  # those that a user is shown


class Guard:
    """Keeps a step out whose gradients are not finite, or far larger than those of the steps before it.

    A step is kept out if the norm of all its gradients is inf or NaN, or above ``factor`` times the running
    quantile of that norm. Weights and the optimizer's state are then those of the other steps alone. It works
    on any optimizer, and changes nothing about the steps that are taken. Several processes take one decision,
    by the largest norm of them all: one number is all-reduced.

    Args:
        optimizer: any torch optimizer, ours included; its ``step`` is guarded from now on.
        factor: how many times the quantile is too large; above 1.
        quantile: which quantile, between 0 and 1.
        window: of how many steps, the last ones that were taken.
        patience: after so many steps in a row that were kept out a warning is given. If they were too large,
            the next one is taken, and the quantile restarts with it: a persistent level is not a spike.
        process_group: of the processes that decide together; unset all of them, where torch.distributed is
            initialised.

    Example:
        >>> import gaf, torch
        >>> w = torch.ones(3, requires_grad=True)
        >>> opt = torch.optim.AdamW([w], lr=0.1)
        >>> guard = gaf.Guard(opt)
        >>> for size in (1.0, 2.0, 1000.0, float("nan"), 1.0):
        ...     w.grad = torch.full((3,), size)
        ...     opt.step()
        >>> guard.counts
        {'steps': 5, 'nonfinite': 1, 'spikes': 1, 'in_a_row': 0}
        >>> opt.state[w]["step"]
        tensor(3.)
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        *,
        factor: float = 20.0,
        quantile: float = 0.9,
        window: int = 64,
        patience: int = 20,
        process_group: Any = None,
    ) -> None:
        if not 1 < factor < math.inf:
            raise GafError(f"factor must be above 1 and finite, got {factor}")
        if not 0 <= quantile <= 1:
            raise GafError(f"quantile must lie between 0 and 1, got {quantile}")
        for name, value in (("window", window), ("patience", patience)):
            if not isinstance(value, int) or value < 1:
                raise GafError(f"{name} must be a whole number of at least 1, got {value}")
        _check(optimizer)
        self.process_group = process_group
        self._spikes: Spikes | SpikesOnDevice
        self._spikes = Spikes(float(factor), float(quantile), window, patience)
        self._home = local_shard(next(_parameters(optimizer))).device
        if _is_asynchronous(self._home) and _honours_found_inf(optimizer):
            self._spikes = SpikesOnDevice(self._spikes, self._home)
        self._norm: Tensor | None = None  # as given for the next step
        self._warned = False
        # weak: the optimizer holds the guard, and is freed with its last reference
        self._optimizer: weakref.ref[torch.optim.Optimizer] | None = weakref.ref(optimizer)
        _wrap(optimizer, self)

    @property
    def counts(self) -> dict[str, int]:
        """Steps asked for, kept out as ``nonfinite`` and as ``spikes``, and kept out ``in_a_row`` just now.

        Read without waiting for the device: on one that works asynchronously the last steps may be missing.
        """
        counts = self._spikes.read().counts
        return {name: counts[name] for name in COUNTS}

    @property
    def size(self) -> float:
        """The norm of the last step's gradients over all parameters; read as :attr:`counts` is."""
        return self._spikes.read().size

    @property
    def limit(self) -> float:
        """What the last step's size was compared with; inf where nothing was known yet."""
        return self._spikes.read().limit

    def __str__(self) -> str:
        counts = self.counts
        return (
            f"{counts['nonfinite'] + counts['spikes']} of {counts['steps']} steps kept out: "
            f"{counts['nonfinite']} not finite, {counts['spikes']} too large. "
            f"Last size {self.size:.3g}, limit {self.limit:.3g}."
        )

    def observe(self, norm: Tensor) -> None:
        """Judge the next step by a norm that is known already, which spares a pass over the gradients.

        Give it what :func:`torch.nn.utils.clip_grad_norm_` returns, the norm before clipping: among clipped
        gradients none is large. inf and NaN in any gradient show in it.

        Args:
            norm: of all gradients of this process, without a loss scale.

        Example:
            >>> import gaf, torch
            >>> w = torch.ones(3, requires_grad=True)
            >>> opt = torch.optim.SGD([w], lr=0.1)
            >>> guard = gaf.Guard(opt)
            >>> w.grad = torch.tensor([3.0, 4.0, 0.0])
            >>> guard.observe(torch.nn.utils.clip_grad_norm_([w], 1.0))
            >>> opt.step()
            >>> guard.size
            5.0
        """
        self._norm = local_shard(norm.detach())

    def detach(self) -> None:
        """Let every step pass from now on; the counts stay."""
        optimizer = self._optimizer() if self._optimizer is not None else None
        if optimizer is not None:
            del vars(optimizer)["gaf_guard"]
        self._optimizer = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_optimizer": None}  # a copy has the counts, and guards nothing

    def state_dict(self) -> dict[str, Any]:
        """Plain values: the sizes that the quantile is of, oldest first, and the counts."""
        return self._spikes.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where ``state_dict`` was taken; the settings are those of the constructor."""
        self._spikes.load_state_dict(state_dict)

    def _step(
        self,
        optimizer: torch.optim.Optimizer,
        step: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """``step(*args, **kwargs)``, guarded."""
        if self._optimizer is None:
            return step(*args, **kwargs)
        on_device = isinstance(self._spikes, SpikesOnDevice)
        closure = kwargs.get("closure", args[0] if args else None)
        if closure is None:
            if on_device:
                return self._told(optimizer, step, args, kwargs)
            return None if self._kept_out(optimizer) else step(*args, **kwargs)
        judged = self._judged_closure(optimizer, closure)
        if "closure" in kwargs:
            kwargs = {**kwargs, "closure": judged}
        else:
            args = (judged, *args[1:])
        if on_device:
            return self._told(optimizer, step, args, kwargs, decided=False)
        try:
            return step(*args, **kwargs)
        except _KeptOut as kept_out:
            return kept_out.loss

    def _judged_closure(
        self, optimizer: torch.optim.Optimizer, closure: Callable[[], Any]
    ) -> Callable[[], Any]:
        """The user's closure, then the decision on the gradients that it has computed."""
        versions = [p._version for p in _parameters(optimizer)]

        def judged() -> Any:
            loss = closure()
            if versions != [p._version for p in _parameters(optimizer)]:
                raise GafError(
                    f"{type(optimizer).__name__} moves the weights before it calls its closure, or calls it "
                    "several times a step, so that nothing can be decided before the step: train it "
                    "without a guard"
                )
            if isinstance(self._spikes, SpikesOnDevice):
                optimizer.found_inf = self._found_inf(optimizer)  # type: ignore[attr-defined]
            elif self._kept_out(optimizer):
                raise _KeptOut(loss)
            return loss

        return judged

    def _kept_out(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether ``step`` must not be called."""
        assert isinstance(self._spikes, Spikes)
        scalers = getattr(optimizer, "found_inf", None)
        if scalers is not None and scalers.item() > 0:  # the step itself will do nothing
            return False
        kept_out = self._spikes.keeps_out(self._size(optimizer).item())
        if kept_out:
            _torch.mark_as_called(optimizer)
        self._warn()
        return kept_out

    def _told(
        self,
        optimizer: torch.optim.Optimizer,
        step: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        decided: bool = True,
    ) -> Any:
        """A fused step, which is told the decision; with a closure that is taken once the closure has run."""
        own, params = vars(optimizer), list(_parameters(optimizer))
        scalers = own.get("found_inf")
        state = optimizer.state
        before = [tuple(state[p]) if p in state else () for p in params]
        try:
            if decided:
                own["found_inf"] = self._found_inf(optimizer)
            loss = step(*args, **kwargs)
            _forget_unwritten(optimizer, params, before)
        finally:
            own.pop("found_inf", None)
            if scalers is not None:
                own["found_inf"] = scalers
        self._warn()
        return loss

    def _found_inf(self, optimizer: torch.optim.Optimizer) -> Tensor:
        """1 where the step must not be taken and 0 otherwise, with what GradScaler has found."""
        assert isinstance(self._spikes, SpikesOnDevice)
        size = self._size(optimizer)
        scalers = getattr(optimizer, "found_inf", None)
        if scalers is None:
            return self._spikes.keeps_out(size).float()
        skipped = scalers.to(size.device).reshape(()) > 0
        return (self._spikes.keeps_out(size, skipped) | skipped).float()

    @_torch.disable_dynamo
    @torch.no_grad()
    def _size(self, optimizer: torch.optim.Optimizer) -> Tensor:
        """The largest norm of all processes, inf where one of them is not finite.

        A maximum is the same number on all of them, in whatever order it is taken.
        """
        size, self._norm = self._norm, None
        if size is None:
            grads = [p.grad for p in _parameters(optimizer) if p.grad is not None]
            size = _norm(grads, self._home)
            scale = getattr(optimizer, "grad_scale", None)
            if scale is not None:
                size = size / scale.to(size)
        wide = (
            torch.float32 if self._home.type == "mps" else torch.float64
        )  # alike on all processes
        size = torch.where(size.isfinite(), size, math.inf).to(self._home, wide).reshape(())
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            distributed.all_reduce(size, distributed.ReduceOp.MAX, group=self.process_group)
        return size

    def _warn(self) -> None:
        spikes = self._spikes.read()
        in_a_row, large = spikes.counts["in_a_row"], spikes.counts["large_in_a_row"]
        if in_a_row < spikes.patience:
            self._warned = False
        elif not self._warned:
            self._warned = True
            warnings.warn(
                f"gaf.Guard has kept out {in_a_row} steps in a row, {large} of them because their gradients "
                f"were too large, the others because they were not finite; the last size is "
                f"{spikes.size:.3g}, the limit {spikes.limit:.3g}. Look at the data, the loss and the "
                "learning rate.",
                stacklevel=5,
            )


class _KeptOut(Exception):
    """Leaves an optimizer's step from within its closure."""

    def __init__(self, loss: Any) -> None:
        self.loss = loss


def _check(optimizer: torch.optim.Optimizer) -> None:
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(f"Guard takes a torch optimizer, got {type(optimizer).__name__}")
    if "gaf_guard" in vars(optimizer):
        raise GafError("the optimizer has a guard already; call its detach() first")
    if "gaf_in_backward" in vars(optimizer):
        raise GafError(
            "a guard decides by all gradients together, and an optimizer inside backward has taken most of "
            "its steps by then: use one of the two"
        )


def _wrap(optimizer: torch.optim.Optimizer, guard: Guard) -> None:
    """Put the guard around ``step``, which a scheduler may have wrapped, and may wrap later."""
    inner = vars(optimizer).get("step")
    reference = weakref.ref(optimizer)
    of_class = type(optimizer).step

    @functools.wraps(of_class)
    def guarded(self: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> Any:
        step = functools.partial(of_class, self) if inner is None else inner
        return guard._step(self, step, args, kwargs)

    @functools.wraps(of_class if inner is None else inner)
    def step(*args: Any, **kwargs: Any) -> Any:
        optimizer = reference()
        if optimizer is None:
            raise ReferenceError("step was called after its optimizer was deleted")
        return guarded(optimizer, *args, **kwargs)

    step.__func__ = guarded  # type: ignore[attr-defined]  # what a scheduler asks a bound method for
    optimizer.step = step
    optimizer.gaf_guard = guard  # type: ignore[attr-defined]


def _is_asynchronous(device: torch.device) -> bool:
    """Whether reading a number waits for the device."""
    return device.type != "cpu"


def _honours_found_inf(optimizer: torch.optim.Optimizer) -> bool:
    """Whether every group's step is fused: such a kernel writes nothing where ``found_inf`` is set."""
    fused = all(group.get("fused") for group in optimizer.param_groups)
    return fused and getattr(optimizer, "_step_supports_amp_scaling", False)


def _forget_unwritten(
    optimizer: torch.optim.Optimizer, params: Sequence[Tensor], before: Sequence[tuple[str, ...]]
) -> None:
    """Drop state that a step has made and, not taken, left unwritten (torch's SGD: as it lay in memory).

    The decision is read from the device only on a step that makes state.
    """
    state = optimizer.state
    pairs = zip(params, before, strict=True)
    made = [(p, old) for p, old in pairs if p in state and len(state[p]) > len(old)]
    if made and optimizer.found_inf.item() > 0:  # type: ignore[attr-defined]
        for p, old in made:
            kept = {key: state[p][key] for key in old}
            del state[p]
            if kept:
                state[p] = kept


def _parameters(optimizer: torch.optim.Optimizer) -> Iterator[Tensor]:
    return (p for group in optimizer.param_groups for p in group["params"])


def _norm(grads: Sequence[Tensor], home: torch.device) -> Tensor:
    """The norm of all numbers of this process on one device; inf or NaN where one of them is."""
    if (
        native.refusal(Arctan.name, grads) is None
    ):  # no f acts: it asks whether a kernel can read them
        return torch.tensor(native.norm(grads), dtype=torch.float64)
    lists: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
    for values in map(real_values, grads):
        if values.numel():
            lists.setdefault((values.dtype, values.device), []).append(values)
    norms = [
        norm
        for (dtype, _), part in lists.items()
        for norm in torch._foreach_norm(part, 2, dtype=torch.promote_types(dtype, torch.float32))
    ]
    if not norms:
        return torch.zeros((), device=home)
    wide = max((norm.dtype for norm in norms), key=lambda dtype: dtype.itemsize)
    return torch.linalg.vector_norm(torch.stack([norm.to(home, wide) for norm in norms]))
