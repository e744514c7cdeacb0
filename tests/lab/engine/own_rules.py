"""Optimizers of a package that gaf does not know."""

import torch


class Halving(torch.optim.Optimizer):
    """SGD that takes half a step; it has no weight decay."""

    def __init__(self, params, lr=0.5, share=0.5, betas=(0.9,)):
        if not isinstance(betas, tuple):
            raise TypeError("betas is no tuple")
        if share <= 0:
            raise ValueError("share must be positive")
        super().__init__(params, {"lr": lr, "share": share})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p -= group["lr"] * group["share"] * p.grad


class Averaging(torch.optim.Optimizer):
    """SGD that evaluates at the mean of its iterates, behind the switches that schedule-free rules have."""

    def __init__(self, params, lr=0.1, weight_decay=0.0):
        super().__init__(
            params, {"lr": lr, "weight_decay": weight_decay, "train_mode": False, "k": 0}
        )

    def train(self):
        self._switch(True)

    def eval(self):
        self._switch(False)

    @torch.no_grad()
    def _switch(self, train):
        for group in self.param_groups:
            for p in group["params"]:
                mean = self.state[p].get("mean")
                if mean is not None and group["train_mode"] != train:
                    p += mean if not train else -mean  # which rounds: not to the bit
            group["train_mode"] = train

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            if not group["train_mode"]:
                raise RuntimeError("not in train mode")
            group["k"] += 1
            for p in group["params"]:
                if p.grad is not None:
                    mean = self.state[p].setdefault("mean", torch.zeros_like(p))
                    p -= group["lr"] * (p.grad + group["weight_decay"] * p)
                    mean.lerp_(0.01 * p, 1 / group["k"])


class NeedsClosure(torch.optim.SGD):
    def step(self, closure):
        return super().step(closure)


class WithoutRate(torch.optim.SGD):
    def __init__(self, params):
        super().__init__(params, lr=0.1)


class RateGiven(torch.optim.SGD):
    """One whose rate has no default."""

    def __init__(self, params, lr):
        super().__init__(params, lr=lr)
