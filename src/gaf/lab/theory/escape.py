"""How many steps it takes to leave a ball around a saddle, by method, and when a GAF is slower.

Theorem 6 speaks of unstable coordinates. The distance from a saddle has stable coordinates in it as
well, which f brings to 0 faster, so that a start far out on them can leave the ball later with f.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from gaf.common.errors import GafError
from gaf.functions import Activation
from gaf.lab.theory.families import FAMILIES
from gaf.lab.theory.fields import Activated, Identity, NormClip, Transform, ValueClip
from gaf.lab.theory.problems import Loss, Monkey, Powers, plateau, quadratic

STARTS = 1_000
RADIUS = 0.1  # |g| ≤ 0.1 in it, below the crossover of the paper's arctan and log presets
ETA = 0.1
MOST = 500  # steps
CLIP = 0.05
NOISE = 0.01
ADAM = (1e-3, 0.9, 0.999, 1e-8)  # torch's defaults: lr, β₁, β₂, eps

#: Strict: 0.1(w₁² + w₂² + w₃²) − w₄²/2, with three weak stable coordinates to come down from.
SADDLES: dict[str, Loss] = {
    "strict": quadratic([0.2, 0.2, 0.2, -1.0]),
    "monkey": Monkey(),
    "plateau": plateau(),
}

Step = Callable[[Tensor], Tensor]  # from gradients to what is subtracted from w


@dataclass(frozen=True)
class Escape:
    """Steps to leave the ball, over all starts, and the comparison with plain gradient descent.

    Attributes:
        method: what was stepped along.
        median: of the steps; MOST where half of the starts or more had not left by then.
        stuck: the share that had not left after MOST steps.
        slower: the share that left later than with plain gradient descent.
        slower_stable: of all starts, the slower ones whose unstable coordinate was ahead: stable
            coordinates had contracted. Not known for a saddle that is not separable.
        slower_restrained: the slower ones whose unstable coordinate was behind.
    """

    method: str
    median: float
    stuck: float
    slower: float
    slower_stable: float | None
    slower_restrained: float | None


def methods(functions: list[Activation], generator: Generator) -> dict[str, Callable[[], Step]]:
    """How to make the step of each method; Adam and noise keep a state of their own."""
    transforms: list[Transform] = [Identity(), *map(Activated, functions)]
    transforms += [ValueClip(CLIP), NormClip(CLIP)]

    def plain(transform: Transform) -> Callable[[], Step]:
        return lambda: lambda g: ETA * transform(g)

    def noisy() -> Step:
        draw = torch.Generator().manual_seed(int(torch.randint(2**31, (), generator=generator)))
        return lambda g: ETA * (g + NOISE * torch.randn(g.shape, generator=draw, dtype=g.dtype))

    known: dict[str, Callable[[], Step]] = {t.name: plain(t) for t in transforms}
    return known | {f"Gaussian noise {NOISE:g}": noisy, "Adam 0.001": adam}


def adam() -> Step:
    """Adam with torch's defaults."""
    lr, b1, b2, eps = ADAM
    first, second, k = torch.zeros(()), torch.zeros(()), 0

    def step(g: Tensor) -> Tensor:
        nonlocal first, second, k
        k += 1
        first, second = b1 * first + (1 - b1) * g, b2 * second + (1 - b2) * g**2
        return lr * (first / (1 - b1**k)) / ((second / (1 - b2**k)).sqrt() + eps)

    return step


def exit_times(loss: Loss, start: Tensor, step: Step) -> tuple[Tensor, Tensor]:
    """The step at which each start leaves the ball (MOST + 1: not yet), and all points on the way."""
    w, path = start, [start]
    times = torch.full(start.shape[:-1], MOST + 1)
    for k in range(1, MOST + 1):
        w = torch.where((times > MOST)[:, None], w - step(loss.gradient(w)), w)
        path.append(w)
        times = torch.where((times > MOST) & (w.norm(dim=-1) >= RADIUS), k, times)
        if (times <= MOST).all():
            break
    return times, torch.stack(path)


def escapes(name: str, functions: list[Activation], seed: int = 0) -> list[Escape]:
    """The methods on one of SADDLES, from the same 1,000 starts spread evenly in the ball."""
    if name not in SADDLES:
        raise GafError(f"there is no saddle named {name!r}; known are {', '.join(SADDLES)}")
    loss = SADDLES[name]
    generator = torch.Generator().manual_seed(seed)
    start = in_ball(STARTS, loss.dimension, generator)
    unstable = None
    if isinstance(loss, Powers):
        unstable = torch.tensor([scale < 0 for scale, _ in loss.parameters])
    rows: list[Escape] = []
    reference = None
    for method, make in methods(functions, generator).items():
        times, path = exit_times(loss, start, make())
        reference = reference or (times, path)
        rows.append(_compared(method, times, path, *reference, unstable))
    return rows


def in_ball(starts: int, dimension: int, generator: Generator) -> Tensor:
    """Points spread evenly in the ball, (starts, dimension)."""
    way = torch.randn(starts, dimension, generator=generator, dtype=torch.float64)
    share = torch.rand(starts, 1, generator=generator, dtype=torch.float64)
    return RADIUS * share ** (1 / dimension) * way / way.norm(dim=-1, keepdim=True)


def _compared(
    method: str,
    times: Tensor,
    path: Tensor,
    plain: Tensor,
    plain_path: Tensor,
    unstable: Tensor | None,
) -> Escape:
    """Compare with plain descent; where f is slower, by its unstable coordinates when plain descent left."""
    slower = times > plain
    stable_share = restrained_share = None
    if unstable is not None:
        # a path ends when its last start has left; a slower one has not left by plain descent's exit
        at = plain.clamp(max=min(len(path), len(plain_path)) - 1)
        starts = torch.arange(len(times))
        far, plain_far = (p[at, starts][:, unstable].norm(dim=-1) for p in (path, plain_path))
        stable_share = _share(slower & (far >= plain_far))
        restrained_share = _share(slower & (far < plain_far))
    median = times.clamp(max=MOST).double().median().item()
    return Escape(
        method, median, _share(times > MOST), _share(slower), stable_share, restrained_share
    )


def _share(where: Tensor) -> float:
    return where.double().mean().item()


def default_functions() -> list[Activation]:
    """The paper's families at its first preset, αβ = 2, and at αβ = 50."""
    return [family(0.1, beta) for family in FAMILIES for beta in (20.0, 500.0)]
