"""See what torch's own clipping does, without a change in the code that calls it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch
from torch import Tensor
from torch.nn import utils
from torch.nn.utils import clip_grad

CLIP = utils.clip_grad_norm_  # torch's, also while it is watched

Note = Callable[[list[Tensor], Tensor, float], None]


@contextmanager
def watched_clipping(note: Note) -> Iterator[None]:
    """Call ``note(parameters, norm, max_norm)`` after each ``torch.nn.utils.clip_grad_norm_`` inside.

    Frameworks call it by its name in ``torch.nn.utils``, which stands for another function meanwhile; the
    norm stays on its device. Code that has imported the name before is not seen.
    """
    modules = (utils, clip_grad)
    before = [module.clip_grad_norm_ for module in modules]

    @wraps(CLIP)
    def clip_grad_norm_(
        parameters: Tensor | Iterable[Tensor], max_norm: float, *args: Any, **kwargs: Any
    ) -> Tensor:
        params = [parameters] if isinstance(parameters, Tensor) else list(parameters)
        norm = before[0](params, max_norm, *args, **kwargs)
        with torch.no_grad():
            note(params, norm, float(max_norm))
        return norm

    for module in modules:
        setattr(module, CLIP.__name__, clip_grad_norm_)
    try:
        yield
    finally:
        for module, function in zip(modules, before, strict=True):
            setattr(module, CLIP.__name__, function)
