"""The tasks on which rules for gaf.Auto are developed: small, quick, varied, and never evidence.

A task makes from a seed its data, its model and the order of its batches. Each takes about a second on one
core with one thread. None is a task that the documentation measures Auto on.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

TRAIN, VALIDATION, TEST = "train", "validation", "test"
Splits = dict[str, tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Task:
    """What is trained.

    Args:
        data: of a generator, inputs and targets of each split.
        model: a fresh model; torch's global generator is seeded before.
        loss: of outputs and targets, what is minimised.
        score: of outputs and targets, what is judged; lower is better.
        measure: ``"error"``, a share of wrong answers, or ``"loss"``.
        steps: the number of steps.
        batch: the examples of a step.
        schedule: ``"cosine"`` to 0, or ``"constant"``.
    """

    data: Callable[[torch.Generator], Splits]
    model: Callable[[], nn.Module]
    loss: Callable[[Tensor, Tensor], Tensor]
    score: Callable[[Tensor, Tensor], float]
    measure: str
    steps: int
    batch: int
    schedule: str = "cosine"


def train(task: Task, seed: int, make_optimizer: Callable, clip: float | None = None) -> dict:
    """The scores of one training on the validation and on the test split; inf where it diverged."""
    generator = torch.Generator().manual_seed(seed)
    splits = task.data(generator)
    torch.manual_seed(seed)
    model = task.model()
    optimizer = make_optimizer(model)
    rates = [group["lr"] for group in optimizer.param_groups]
    inputs, targets = splits[TRAIN]
    order = torch.empty(0, dtype=torch.long)
    for step in range(task.steps):
        if len(order) < task.batch:
            order = torch.randperm(len(inputs), generator=generator)
        chosen, order = order[: task.batch], order[task.batch :]
        if task.schedule == "cosine":
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * (1 + math.cos(math.pi * step / task.steps)) / 2
        optimizer.zero_grad()
        loss = task.loss(model(inputs[chosen]), targets[chosen])
        if not math.isfinite(loss.item()):
            return {VALIDATION: math.inf, TEST: math.inf}
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
    model.eval()
    scores = {}
    with torch.no_grad():
        for split in (VALIDATION, TEST):
            score = task.score(model(splits[split][0]), splits[split][1])
            scores[split] = score if math.isfinite(score) else math.inf
    return scores


# Scores and losses


def error(outputs: Tensor, targets: Tensor) -> float:
    return (outputs.argmax(-1) != targets).double().mean().item()


def balanced_error(outputs: Tensor, targets: Tensor) -> float:
    wrong = (outputs.argmax(-1) != targets).double()
    return torch.stack([wrong[targets == kind].mean() for kind in targets.unique()]).mean().item()


def mean_square(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.mse_loss(outputs.squeeze(-1), targets)


def mean_square_score(outputs: Tensor, targets: Tensor) -> float:
    return mean_square(outputs, targets).item()


def token_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs.flatten(0, -2), targets.flatten())


def token_score(outputs: Tensor, targets: Tensor) -> float:
    return token_loss(outputs, targets).item()


# Data


def _split(inputs: Tensor, targets: Tensor, counts: tuple[int, int, int]) -> Splits:
    parts = zip(inputs.split(counts), targets.split(counts), strict=True)
    return dict(zip((TRAIN, VALIDATION, TEST), parts, strict=True))


def _table(name: str) -> Callable[[torch.Generator], Splits]:
    """One of scikit-learn's embedded tables: 60, 20 and 20 % of its rows, standardised."""

    def data(generator: torch.Generator) -> Splits:
        from sklearn import datasets

        rows, targets = getattr(datasets, f"load_{name}")(return_X_y=True)
        order = torch.randperm(len(rows), generator=generator)
        x = torch.tensor(rows, dtype=torch.float32)[order]
        y = torch.tensor(targets)[order]
        count = int(0.6 * len(x))
        x = (x - x[:count].mean(0)) / x[:count].std(0)
        if y.is_floating_point():
            y = ((y - y[:count].mean()) / y[:count].std()).float()
        held = (len(x) - count) // 2
        return _split(x, y, (count, held, len(x) - count - held))

    return data


def _teacher(generator: torch.Generator) -> Splits:
    """5 classes by a random two-layer network, 20 columns of unlike scales, 10 % of the labels drawn anew."""
    x = torch.randn(4000, 20, generator=generator)
    hidden = torch.tanh(x @ torch.randn(20, 16, generator=generator) / 2)
    y = (hidden @ torch.randn(16, 5, generator=generator)).argmax(1)
    noisy = torch.rand(4000, generator=generator) < 0.1
    y = torch.where(noisy, torch.randint(0, 5, (4000,), generator=generator), y)
    x = x * 10 ** torch.linspace(-1, 1, 20)
    return _split(x, y, (2000, 800, 1200))


def _patterns(generator: torch.Generator) -> Splits:
    """Images of 8 x 8: six gratings of different directions and widths, shifted, in noise."""
    count = 3600
    y = torch.randint(0, 6, (count,), generator=generator)
    angle = (y % 3) * math.pi / 3 + 0.15 * torch.randn(count, generator=generator)
    width = torch.where(y < 3, 0.9, 1.4)
    phase = 2 * math.pi * torch.rand(count, generator=generator)
    rows, columns = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
    along = angle.cos()[:, None, None] * rows + angle.sin()[:, None, None] * columns
    x = torch.sin(width[:, None, None] * along + phase[:, None, None])
    x = x + 0.9 * torch.randn(count, 8, 8, generator=generator)
    return _split(x[:, None], y, (1600, 800, 1200))


def _recall(generator: torch.Generator) -> Splits:
    """Sequences of 8 symbols: the first, one of 8, is asked for at the end; the rest distract."""
    x = torch.randint(0, 8, (3500, 8), generator=generator)
    return _split(x, x[:, 0], (2000, 500, 1000))


def _frequencies(generator: torch.Generator) -> Splits:
    """Noisy waves of 12 points; the frequency, one of 4, is the class."""
    count = 3000
    y = torch.randint(0, 4, (count,), generator=generator)
    phase = 2 * math.pi * torch.rand(count, 1, generator=generator)
    speed = (0.3 + 0.3 * y)[:, None]
    x = torch.sin(speed * torch.arange(12.0) + phase)
    x = x + 0.5 * torch.randn(count, 12, generator=generator)
    return _split(x[..., None], y, (1500, 500, 1000))


def _spirals(generator: torch.Generator) -> Splits:
    """Three arms of a spiral in the plane, with noise."""
    count = 3000
    y = torch.randint(0, 3, (count,), generator=generator)
    radius = torch.rand(count, generator=generator).sqrt()
    turn = 6 * radius + 2 * math.pi * y / 3 + 0.5 * torch.randn(count, generator=generator)
    x = torch.stack((radius * turn.cos(), radius * turn.sin()), 1)
    return _split(2 * x, y, (1200, 600, 1200))


def _blobs(generator: torch.Generator) -> Splits:
    """Images of 10 x 10 of two blobs each, with noise; they are to be reproduced without it."""
    count = 2400
    places = 9 * torch.rand(count, 2, 2, generator=generator)
    widths = 1 + torch.rand(count, 2, generator=generator)
    grid = torch.stack(torch.meshgrid(torch.arange(10.0), torch.arange(10.0), indexing="ij"), -1)
    far = (grid[None, None] - places[:, :, None, None]).square().sum(-1)
    y = torch.exp(-far / (2 * widths.square()[:, :, None, None])).sum(1).flatten(1)
    x = y + 0.1 * torch.randn(y.shape, generator=generator)
    return _split(x, y, (1200, 400, 800))


def _documents(generator: torch.Generator) -> Splits:
    """Documents of 40 of 1,000 words, common and rare; half of the words are of the topic, one of 6."""
    count, words = 3000, 1000
    y = torch.randint(0, 6, (count,), generator=generator)
    common = 1 / torch.arange(1.0, words + 1)
    orders = torch.stack([torch.randperm(words, generator=generator) for _ in range(6)])
    topical = torch.multinomial(common[orders][y], 12, True, generator=generator)
    plain = torch.multinomial(common.expand(count, -1), 28, True, generator=generator)
    return _split(torch.cat((topical, plain), 1), y, (1500, 500, 1000))


def _ratings(generator: torch.Generator) -> Splits:
    """Ratings of 150 users for 100 things by the product of 4 hidden numbers each, with noise."""
    count = 9000
    users, things = (torch.randn(n, 4, generator=generator) for n in (150, 100))
    x = torch.stack([torch.randint(0, n, (count,), generator=generator) for n in (150, 100)], 1)
    y = (users[x[:, 0]] * things[x[:, 1]]).sum(1) / 2
    y = y + 0.5 * torch.randn(count, generator=generator)
    return _split(x, y, (5000, 1500, 2500))


def _ill_conditioned(generator: torch.Generator) -> Splits:
    """A linear target of 30 mixed columns whose scales fall from 1 to 1/100, with noise."""
    scales = 10 ** torch.linspace(0, -2, 30)
    mix = torch.linalg.qr(torch.randn(30, 30, generator=generator))[0]
    hidden = torch.randn(3000, 30, generator=generator)
    y = hidden @ torch.randn(30, generator=generator) / 30**0.5
    y = y + 0.3 * torch.randn(3000, generator=generator)
    return _split((hidden * scales) @ mix, y, (1500, 500, 1000))


def _language(generator: torch.Generator) -> Splits:
    """Sequences of 12 of 10 symbols; the next depends on the last two."""
    table = torch.softmax(2 * torch.randn(10, 10, 10, generator=generator), -1)
    x = torch.zeros(1600, 13, dtype=torch.long)
    x[:, :2] = torch.randint(0, 10, (1600, 2), generator=generator)
    for i in range(2, 13):
        chances = table[x[:, i - 2], x[:, i - 1]]
        x[:, i] = torch.multinomial(chances, 1, generator=generator)[:, 0]
    return _split(x[:, :-1], x[:, 1:], (1000, 200, 400))


def _bands(generator: torch.Generator) -> Splits:
    """Points in 10 dimensions, 4 classes by two directions, one bent; 5 % of the labels drawn anew."""
    x = torch.randn(4000, 10, generator=generator)
    first, second, third = (x @ torch.randn(10, 3, generator=generator) / 10**0.5).unbind(1)
    y = 2 * (first > 0).long() + (second + third.square() > 1).long()
    noisy = torch.rand(4000, generator=generator) < 0.05
    y = torch.where(noisy, torch.randint(0, 4, (4000,), generator=generator), y)
    return _split(x, y, (2000, 800, 1200))


def _rare(generator: torch.Generator) -> Splits:
    """Two classes in 16 dimensions, one of 4 % of the rows, which lies in two clusters."""
    count = 8000
    y = (torch.rand(count, generator=generator) < 0.04).long()
    centre = torch.randn(2, 16, generator=generator)
    side = torch.randint(0, 2, (count,), generator=generator)
    x = torch.randn(count, 16, generator=generator)
    x = x + y[:, None] * 0.75 * centre[side]
    return _split(x, y, (3000, 2000, 3000))


# Models


def _layers(*sizes: int, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    parts: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        parts += [nn.Linear(inputs, outputs), activation()]
    return nn.Sequential(*parts[:-1])


def _convolutions() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU()),
        *(nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 6)),
    )


class _Gated(nn.Module):
    """A long short-term memory, read at its last step."""

    def __init__(self, symbols: int, width: int) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(symbols, width), nn.Linear(width, symbols)
        self.gates = nn.Linear(2 * width, 4 * width)

    def forward(self, x: Tensor) -> Tensor:
        inputs = self.embedding(x)
        hidden = kept = torch.zeros_like(inputs[:, 0])
        for i in range(x.shape[1]):
            gates = self.gates(torch.cat((inputs[:, i], hidden), 1)).chunk(4, 1)
            kept = gates[0].sigmoid() * kept + gates[1].sigmoid() * gates[2].tanh()
            hidden = gates[3].sigmoid() * kept.tanh()
        return self.head(hidden)


class _Recurrent(nn.Module):
    """A plain recurrent network of numbers, read at its last step."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.first, self.again = nn.Linear(1, width), nn.Linear(width, width)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        inputs = self.first(x)
        hidden = torch.tanh(inputs[:, 0])
        for i in range(1, x.shape[1]):
            hidden = torch.tanh(inputs[:, i] + self.again(hidden))
        return self.head(hidden)


class _Words(nn.Module):
    """The mean of the words' embeddings, and a network on it."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.rest = nn.Embedding(1000, 32), _layers(32, 32, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.rest(self.embedding(x).mean(1))


class _Residual(nn.Module):
    def __init__(self, width: int, blocks: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(2, width), nn.Linear(width, 3)
        self.blocks = nn.ModuleList(_layers(width, width, width) for _ in range(blocks))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = x + block(torch.relu(x))
        return self.last(x)


class _Factors(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.users, self.things = nn.Embedding(150, 8), nn.Embedding(100, 8)
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        return (self.users(x[:, 0]) * self.things(x[:, 1])).sum(1) / 8**0.5 + self.bias


class _Transformer(nn.Module):
    """One block of causal attention with two heads, and layer norms before each part."""

    def __init__(self, symbols: int = 10, width: int = 24, length: int = 12) -> None:
        super().__init__()
        self.symbols, self.places = nn.Embedding(symbols, width), nn.Embedding(length, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.mixed, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed, self.head = _layers(width, 2 * width, width), nn.Linear(width, symbols)

    def forward(self, x: Tensor) -> Tensor:
        h = self.symbols(x) + self.places.weight
        mixed = self.mixed(self.norms[0](h)).unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4)
        queries, keys, values = mixed
        weights = queries @ keys.transpose(-1, -2) / keys.shape[-1] ** 0.5
        weights = weights + torch.full_like(weights, -1e9).triu(1)
        heads = weights.softmax(-1) @ values
        h = h + self.joined(heads.transpose(1, 2).flatten(-2))
        return self.head(self.norms[2](h + self.feed(self.norms[1](h))))


def _classes(data: Callable, model: Callable, steps: int, batch: int, **more: str) -> Task:
    return Task(data, model, F.cross_entropy, error, "error", steps, batch, **more)


def _numbers(data: Callable, model: Callable, steps: int, batch: int, **more: str) -> Task:
    return Task(data, model, mean_square, mean_square_score, "loss", steps, batch, **more)


TASKS: dict[str, Task] = {
    "table": _classes(_table("breast_cancer"), lambda: _layers(30, 32, 32, 2), 250, 32),
    "wine": _classes(_table("wine"), lambda: _layers(13, 32, 3), 250, 16, schedule="constant"),
    "diabetes": _numbers(_table("diabetes"), lambda: _layers(10, 64, 64, 1), 250, 32),
    "teacher": _classes(_teacher, lambda: _layers(20, 48, 48, 5), 500, 64),
    "patterns": _classes(_patterns, _convolutions, 150, 32),
    "recall": _classes(_recall, lambda: _Gated(8, 24), 250, 32),
    "waves": _classes(_frequencies, lambda: _Recurrent(24, 4), 250, 64, schedule="constant"),
    "spirals": _classes(_spirals, lambda: _Residual(24, 6), 250, 64),
    "blobs": _numbers(_blobs, lambda: _layers(100, 64, 12, 64, 100), 400, 64),
    "documents": _classes(_documents, _Words, 200, 64),
    "ratings": _numbers(_ratings, _Factors, 500, 128),
    "ill-conditioned": _numbers(
        _ill_conditioned,
        lambda: _layers(30, 32, 1, activation=nn.Tanh),
        500,
        64,
        schedule="constant",
    ),
    "language": Task(_language, _Transformer, token_loss, token_score, "loss", 250, 32),
    "sigmoids": _classes(
        _bands, lambda: _layers(10, 32, 32, 32, 4, activation=nn.Sigmoid), 600, 64
    ),
    "rare": Task(
        *(_rare, lambda: _layers(16, 48, 48, 2), F.cross_entropy, balanced_error, "error", 300, 64)
    ),
}
