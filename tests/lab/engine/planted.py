"""A training script with a case planted in it: ``python planted.py CASE``. It knows nothing of a monitor."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

NAN_FROM = 21  # the first step whose gradients are NaN


def data(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def perceptron() -> nn.Sequential:
    torch.manual_seed(0)
    layers = [nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1)]
    return nn.Sequential(*layers)


class Sum(nn.Module):
    """A perceptron, and a head beside it whose output is multiplied."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.net = perceptron()
        self.head = nn.Linear(8, 1)
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x) + self.factor * self.head(x)


class Embedding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(256, 1, bias=False, dtype=torch.bfloat16)

    def forward(self, x: Tensor) -> Tensor:
        return (self.embed.weight * x.bfloat16()).float()


class Words(nn.Module):
    """Predicts the next of 50 words."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(200, 16)
        self.lstm = nn.LSTM(16, 32, batch_first=True)
        self.out = nn.Linear(32, 200)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.lstm(self.embed(x))[0])


def steps(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss: Callable[[int], Tensor],
    max_norm: float | None = None,
) -> Iterator[None]:
    for step in range(1, 10**6):
        optimizer.zero_grad()
        loss(step).backward()
        if max_norm is not None:
            clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        yield


def training(case: str) -> Iterator[None]:
    """The steps of a case."""
    torch.manual_seed(0)
    x, y = data(64, 8), data(64, 1)
    mse = nn.functional.mse_loss
    net = perceptron()
    sgd = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    match case:
        case "clipping always" | "clipping never":
            slow = torch.optim.SGD(net.parameters(), lr=1e-6)
            norm = 0.05 if case == "clipping always" else 1000.0
            return steps(net, slow, lambda _: mse(net(x), y), norm)
        case "dead":
            with torch.no_grad():
                net[2].bias.fill_(-1e3)
            net[3] = nn.ReLU()
            return steps(net, sgd, lambda _: mse(net(x), y))
        case "large":
            model = Sum(1e4)
            slow = torch.optim.SGD(model.parameters(), lr=1e-12)
            return steps(model, slow, lambda _: mse(model(x), y))
        case "linear":
            import gaf

            f = gaf.SGD(net.parameters(), lr=1e-4, activation=gaf.Arctan(0.1, 1e-3))
            return steps(net, f, lambda _: mse(net(x), y))
        case "underflow":
            model = Embedding()
            slow = torch.optim.SGD(model.parameters(), lr=0.1)
            return steps(model, slow, lambda step: 6e-41 * model(0.5 * data(step, 256)[-1:]).sum())
        case "nonfinite":
            bad = float("nan")
            return steps(net, sgd, lambda s: mse(net(x), y) * (bad if s >= NAN_FROM else 1.0))
        case "healthy perceptron":
            return steps(net, sgd, lambda _: mse(net(x), y), 5.0)
        case "healthy images":
            cnn = nn.Sequential(
                *(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)),
                *(nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 4)),
            )
            images = data(128, 1, 8, 8)
            labels = (images.mean((1, 2, 3)) > 0).long() + 2 * (images[:, 0, 0, 0] > 0).long()
            adam = torch.optim.Adam(cnn.parameters(), lr=1e-3)
            return steps(cnn, adam, lambda _: nn.functional.cross_entropy(cnn(images), labels))
        case "healthy words":
            model = Words()
            adamw = torch.optim.AdamW(model.parameters(), lr=3e-3)
            text = torch.randint(0, 50, (16, 13), generator=torch.Generator().manual_seed(0))

            def loss(_: int) -> Tensor:
                out = model(text[:, :-1])
                return nn.functional.cross_entropy(out.flatten(0, 1), text[:, 1:].flatten())

            return steps(model, adamw, loss, 1.0)
    raise SystemExit(f"no case {case!r}")


HEALTHY = ("healthy perceptron", "healthy images", "healthy words")
PROBLEMS = ("clipping always", "dead", "large", "underflow", "nonfinite")
NOTES = ("clipping never", "linear")

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("case")
    parser.add_argument("--steps", type=int, default=10**6)
    asked = parser.parse_args()
    for step, _ in enumerate(training(asked.case), start=1):
        if step >= asked.steps:
            break
    print("the training has come to its end")
