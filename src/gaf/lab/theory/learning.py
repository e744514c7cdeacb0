"""Losses people meet: logistic regression and small networks on real data, a deep network, an RNN.

The data are the handwritten digits that come with scikit-learn, 8 by 8 pixels in ten classes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise

import torch
from torch import Tensor, nn

from gaf.lab.theory.problems import Loss, as_points


@cache
def digits() -> tuple[Tensor, Tensor]:
    """The 1,797 digits: pixels in [0, 1], (samples, 64), in float64, and labels."""
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    return torch.tensor(pixels, dtype=torch.float64) / 16, torch.tensor(labels)


class LogisticRegression(Loss):
    """Is a digit above 4? L(w) = mean ln(1 + exp(−y xᵀw)) + decay ‖w‖²/2, y = ±1, over all digits.

    The pixels are standardised and a constant 1 comes last. Convex, and with decay > 0 strongly so.
    """

    def __init__(self, decay: float = 1e-3) -> None:
        pixels, labels = digits()
        spread = pixels.std(0)
        used = spread > 0.02  # pixels that are 0 in nearly every digit
        x = (pixels - pixels.mean(0))[:, used] / spread[used]
        ones = torch.ones_like(x[:, :1])
        y = torch.where(labels > 4, 1.0, -1.0).to(torch.float64)
        self.rows = y[:, None] * torch.cat((x, ones), -1)
        self.decay = decay
        self.dimension = self.rows.shape[1]

    def __call__(self, w: Tensor) -> Tensor:
        margins = self._margins(w)
        return nn.functional.softplus(-margins).mean(-1) + self.decay * w.square().sum(-1) / 2

    def gradient(self, w: Tensor) -> Tensor:
        wrong = torch.sigmoid(-self._margins(w))
        return -wrong @ self.rows / len(self.rows) + self.decay * w

    def gradients(self, w: Tensor) -> Tensor:
        """The gradient of each digit at one point w, (samples, n); their mean is the gradient."""
        return -torch.sigmoid(-self._margins(w))[:, None] * self.rows + self.decay * w

    def hessian(self, w: Tensor) -> Tensor:
        p = torch.sigmoid(self._margins(w))
        weighted = (p * (1 - p))[..., None] * self.rows
        eye = torch.eye(self.dimension, dtype=torch.float64)
        return self.rows.T @ weighted / len(self.rows) + self.decay * eye

    def _margins(self, w: Tensor) -> Tensor:
        return as_points(w, self.dimension) @ self.rows.T


def deep_sigmoid(depth: int = 12, width: int = 32, seed: int = 0) -> nn.Sequential:
    """A network of sigmoid layers from digits to classes, whose gradients vanish towards the input."""
    sizes = [64, *[width] * (depth - 1)]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers: list[nn.Module] = []
        for before, after in pairwise(sizes):
            layers += [nn.Linear(before, after), nn.Sigmoid()]
        return nn.Sequential(*layers, nn.Linear(width, 10)).double()


def small_network(width: int = 16, seed: int = 0) -> nn.Sequential:
    """A network of one hidden tanh layer from digits to classes."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(64, width), nn.Tanh(), nn.Linear(width, 10)).double()


def digits_loss(model: nn.Module, samples: int = 256) -> Callable[[], Tensor]:
    """The cross-entropy of a model on the first digits, as a function without arguments."""
    pixels, labels = digits()
    dtype = next(model.parameters()).dtype
    pixels = pixels[:samples].to(dtype)

    def loss() -> Tensor:
        return nn.functional.cross_entropy(model(pixels), labels[:samples])

    return loss


def train(model: nn.Module, loss: Callable[[], Tensor], steps: int, lr: float) -> None:
    """Plain gradient descent, to come to a point that trainings visit."""
    parameters = list(model.parameters())
    for _ in range(steps):
        gradients = torch.autograd.grad(loss(), parameters)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter -= lr * gradient


class ExplodingRNN(nn.Module):
    """h ← tanh(gain · Q h + U x) over a long sequence, Q orthogonal: gradients grow like gain^length.

    It reads the rows of a digit, several times over; the loss asks for its class at the end. Small
    inputs keep the units away from saturation, which would hide the growth.
    """

    def __init__(self, gain: float = 1.3, width: int = 32, repeats: int = 8, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        draws = torch.randn(width, width, generator=generator, dtype=torch.float64)
        self.recurrent = nn.Parameter(gain * torch.linalg.qr(draws).Q)
        small = 1e-6 * torch.randn(width, 8, generator=generator, dtype=torch.float64)
        self.input = nn.Parameter(small)
        out = torch.randn(10, width, generator=generator, dtype=torch.float64)
        self.output = nn.Parameter(out / width**0.5)
        self.repeats = repeats

    def forward(self, pixels: Tensor) -> Tensor:
        state = pixels.new_zeros(len(pixels), len(self.recurrent))
        for row in pixels.unflatten(-1, (8, 8)).unbind(1) * self.repeats:
            state = torch.tanh(state @ self.recurrent.T + row @ self.input.T)
        return state @ self.output.T
