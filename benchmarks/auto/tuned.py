"""The tuned rules of the development suite: many runs of a task side by side, as one batched model.

Each run has the data, the weights and the batches that :func:`tasks.train` gives its seed. The rates of a
rule and the seeds are one leading dimension of every parameter (``torch.func.vmap``): 56 runs at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from tasks import TEST, TRAIN, VALIDATION, Task
from torch import Tensor
from torch.func import functional_call, grad_and_value, stack_module_state, vmap


class Sgd:
    """SGD with momentum 0.9 on the rows of a matrix, a rate for each; clipped by the norm of a row."""

    def __init__(self, weights: Tensor, rates: Tensor, clip: float | None = None) -> None:
        self.weights, self.rates, self.clip = weights, rates, clip
        self.velocity = torch.zeros_like(weights)

    def step(self, grads: Tensor, share: float) -> None:
        if self.clip is not None:
            grads = grads * (self.clip / (grads.norm(dim=1, keepdim=True) + 1e-6)).clamp(max=1)
        self.velocity.mul_(0.9).add_(grads)
        self.weights.sub_(self.velocity * (self.rates * share))


class Adam:
    """Adam on the rows of a matrix, a rate for each; with a decay it is AdamW."""

    def __init__(self, weights: Tensor, rates: Tensor, decay: float = 0.0) -> None:
        self.weights, self.rates, self.decay, self.count = weights, rates, decay, 0
        self.mean, self.square = torch.zeros_like(weights), torch.zeros_like(weights)

    def step(self, grads: Tensor, share: float) -> None:
        self.count += 1
        self.mean.mul_(0.9).add_(grads, alpha=0.1)
        self.square.mul_(0.999).addcmul_(grads, grads, value=0.001)
        self.weights.mul_(1 - self.rates * share * self.decay)
        root = (self.square / (1 - 0.999**self.count)).sqrt() + 1e-8
        self.weights.sub_(self.mean / (1 - 0.9**self.count) / root * (self.rates * share))


# By name: the rule, the rates it is tuned over, what else it takes.
SGD_RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
ADAM_RATES = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)
RULES: dict[str, tuple[type, tuple[float, ...], dict[str, float]]] = {
    "sgd": (Sgd, SGD_RATES, {}),
    "sgd + clip": (Sgd, SGD_RATES, {"clip": 1.0}),
    "adam": (Adam, ADAM_RATES, {}),
    "adamw": (Adam, ADAM_RATES, {"decay": 0.01}),
}


def train_all(
    task: Task, rates: dict[str, Sequence[float]], seeds: Sequence[int]
) -> dict[str, dict[str, list[list[float]]]]:
    """Train each rule at its rates with each seed.

    Returns the scores by rule and split: of each rate a list over the seeds, inf where a run diverged.
    """
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    splits = [task.data(generator) for generator in generators]
    models = []
    for seed in seeds:
        torch.manual_seed(seed)
        models.append(task.model())
    base, copies = models[0], sum(map(len, rates.values()))
    stacked, buffers = stack_module_state(models)

    def repeated(t: Tensor) -> Tensor:
        """Once for each rate; the seeds are the faster index."""
        return t.detach().repeat(copies, *[1] * (t.ndim - 1))

    buffers = {name: repeated(buffer) for name, buffer in buffers.items()}
    shapes = {name: t.shape[1:] for name, t in stacked.items()}
    flat = torch.cat([repeated(t).reshape(copies * len(seeds), -1) for t in stacked.values()], 1)
    parts = flat.split([shape.numel() for shape in shapes.values()], 1)
    weights = {
        name: part.view(len(flat), *shape)
        for (name, shape), part in zip(shapes.items(), parts, strict=True)
    }
    rules, row = {}, 0
    for name, values in rates.items():
        make, _, more = RULES[name]
        column = torch.tensor(values).repeat_interleave(len(seeds))[:, None]
        rows = slice(row, row + len(column))
        rules[name] = (make(flat[rows], column, **more), rows)
        row += len(column)

    def loss(weights: dict, buffers: dict, x: Tensor, y: Tensor) -> Tensor:
        return task.loss(functional_call(base, (weights, buffers), (x,)), y)

    def outputs(weights: dict, buffers: dict, x: Tensor) -> Tensor:
        return functional_call(base, (weights, buffers), (x,))

    inputs, targets = (torch.stack(part) for part in zip(*(s[TRAIN] for s in splits), strict=True))
    which = torch.arange(len(seeds))[:, None]
    orders = torch.empty(len(seeds), 0, dtype=torch.long)
    for step in range(task.steps):
        if orders.shape[1] < task.batch:
            orders = torch.stack([torch.randperm(inputs.shape[1], generator=g) for g in generators])
        chosen, orders = orders[:, : task.batch], orders[:, task.batch :]
        batch = (repeated(inputs[which, chosen]), repeated(targets[which, chosen]))
        grads, _ = vmap(grad_and_value(loss))(weights, buffers, *batch)
        together = torch.cat([grads[name].reshape(len(flat), -1) for name in weights], 1)
        constant = task.schedule == "constant"
        share = 1.0 if constant else (1 + math.cos(math.pi * step / task.steps)) / 2
        for rule, rows in rules.values():
            rule.step(together[rows], share)
    base.eval()
    scores: dict[str, list[float]] = {}
    for split in (VALIDATION, TEST):
        held = repeated(torch.stack([s[split][0] for s in splits]))
        with torch.no_grad():
            answers = vmap(outputs)(weights, buffers, held)
        scores[split] = [
            task.score(answer, splits[i % len(seeds)][split][1])
            if torch.isfinite(answer).all()
            else math.inf
            for i, answer in enumerate(answers)
        ]
    return {
        name: {
            split: [
                scores[split][i : i + len(seeds)] for i in range(rows.start, rows.stop, len(seeds))
            ]
            for split in scores
        }
        for name, (_, rows) in rules.items()
    }
