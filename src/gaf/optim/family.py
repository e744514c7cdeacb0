"""The family: published rules that are a function and a placement of ours.

Each member is data: what to write in our grammar, with which arguments, and what the original does otherwise.
``gaf.create_optimizer("adam-atan2", params, lr=1e-4)`` makes one; docs/family.md puts them side by side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class Member:
    """A published rule in our terms.

    Args:
        name: of the rule.
        setting: optimizer, function and placement, as :func:`gaf.create_optimizer` reads them.
        arguments: of the optimizer, the published defaults; others may be given over them.
        formula: of a step, with the gradient g, the velocity u, and Adam's means m and v.
        source: where it was published.
        bound: what no element of a step exceeds, in units of the learning rate.
        evidence: what the source reports of it.
        differs: what the original does otherwise; empty where nothing is known.
    """

    name: str
    setting: str
    formula: str
    source: str
    bound: str
    evidence: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    differs: str = ""


_HEAVYBALL = "HeavyBall, github.com/HomebrewML/HeavyBall"
_AUTHORS = "Liu et al., Activated Gradients for Deep Neural Networks; the authors' code"
_VELOCITY = {"momentum": 0.9, "decoupled_weight_decay": True}
_CLAMP = "HeavyBall's own optimizers begin the velocity at 0 and have options of their own"

_MEMBERS = (
    Member(
        name="adam-atan2",
        setting="adamw+arctan(1.27, 1)@momentum",
        arguments={"lr": 1e-4, "betas": (0.9, 0.99), "eps": 0, "weight_decay": 0.0},
        formula="w - lr a atan2(m, b sqrt(v)), a = 1.27, b = 1",
        source="Everett et al., Scaling Exponents Across Parameterizations and Optimizers, arXiv 2407.05872",
        bound="a pi/2 = 1.99",
        evidence="transformers up to 26.8 billion parameters: as good as Adam with a tuned eps, without eps",
    ),
    Member(
        name="signsgd",
        setting="sgd+sign(1)@gradient",
        arguments={"lr": 1e-3, "decoupled_weight_decay": True},
        formula="w - lr sign(g)",
        source="Bernstein et al., signSGD, arXiv 1802.04434",
        bound="1",
        evidence="distributed training with gradients of one bit",
    ),
    Member(
        name="signum",
        setting="sgd+sign(1)@momentum",
        arguments={"lr": 1e-3, **_VELOCITY},
        formula="w - lr sign(u)",
        source="Bernstein et al., signSGD, arXiv 1802.04434",
        bound="1",
        evidence="ImageNet: the accuracy and speed of Adam",
        differs="u is a running mean there, ours times 1 - momentum: the same signs",
    ),
    Member(
        name="lion",
        setting="lion",
        arguments={"lr": 1e-4, "betas": (0.9, 0.99)},
        formula="w - lr sign(b1 m + (1 - b1) g)",
        source="Chen et al., Symbolic Discovery of Optimization Algorithms, arXiv 2302.06675",
        bound="1",
        evidence="ImageNet, language and diffusion models: as good as AdamW or better with half of its state",
    ),
    Member(
        name="softsignum",
        setting="sgd+tanh(1, 20)@momentum",
        arguments={"lr": 1e-3, **_VELOCITY},
        formula="w - lr tanh(t u)",
        source="SoftSignum, arXiv 2605.31371",
        bound="1",
        evidence="its paper was not read for this page",
        differs="there the sign for nine tenths of the steps, then t falls from 20 along a schedule that the "
        "median and spread of u set once; here t is a number, which gaf.ParamScheduler may change",
    ),
    Member(
        name="alphagrad",
        setting="sgd+scaled(1, 1, by=norm, eps=1e-8, function=tanh)@gradient",
        arguments={"lr": 1e-3},
        formula="w - lr tanh(a g / (norm(g) + eps)), the norm of each tensor, a = 1",
        source="AlphaGrad, arXiv 2504.16020",
        bound="1, times 1/(1 - momentum) with momentum",
        evidence="its paper was not read for this page; a is to be tuned, it says",
    ),
    Member(
        name="smoothed-sign",
        setting="sgd+algebraic(1, 1000)@momentum",
        arguments={"lr": 1e-3, **_VELOCITY},
        formula="w - lr u / sqrt(u^2 + e^2), e = 0.001",
        source="the algebraic sign of arXiv 2605.31371, on elements",
        bound="1",
        evidence="none that is published for elements",
    ),
    Member(
        name="arcgd",
        setting="sgd+algebraic(1, 1)@gradient",
        arguments={"lr": 0.01},
        formula="w - lr g / sqrt(1 + g^2)",
        source="ArcGD, arXiv 2512.06737",
        bound="1",
        evidence="its paper was not read for this page",
        differs="two further terms there, a transition and a floor, which are 0 here",
    ),
    Member(
        name="biclip",
        setting="sgd+biclip(1e-4, 1)@gradient",
        arguments={"lr": 1e-3},
        formula="w - lr sign(g) min(max(|g|, low), high)",
        source="BiClip, arXiv 2502.04164",
        bound="high",
        evidence="language models trained in many places, under heavy-tailed noise",
        differs="both thresholds are tuned there, and a decoupled decay comes after the step, not before it",
    ),
    Member(
        name="value-clipping",
        setting="sgd+clip(1)@gradient",
        arguments={"lr": 1e-3},
        formula="w - lr min(max(g, -c), c)",
        source="torch.nn.utils.clip_grad_value_",
        bound="c",
        evidence="in use since recurrent networks",
    ),
    Member(
        name="heavyball-mu-law",
        setting=f"sgd+log({1 / math.log1p(127)!r}, 127)@momentum",
        arguments={"lr": 0.0025, **_VELOCITY},
        formula="w - lr sign(u) ln(1 + 127 |u|) / ln 128",
        source=_HEAVYBALL,
        bound="none",
        evidence="none that is published",
        differs=_CLAMP,
    ),
    Member(
        name="heavyball-softsign",
        setting="sgd+softsign(2, 1)@momentum",
        arguments={"lr": 0.0025, **_VELOCITY},
        formula="w - lr 2 u / (1 + |u|)",
        source=_HEAVYBALL,
        bound="2",
        evidence="none that is published",
        differs=_CLAMP,
    ),
    Member(
        name="heavyball-trust-region",
        setting=f"sgd+tanh(1.35, {1 / 1.5!r}) + log(0.15, {1 / 1.5!r})@momentum",
        arguments={"lr": 0.0025, **_VELOCITY},
        formula="w - lr (1.35 tanh(u / 1.5) + 0.15 sign(u) ln(1 + |u| / 1.5))",
        source=_HEAVYBALL,
        bound="none; 2 up to |u| = 112",
        evidence="the default on the updates of HeavyBall's PSGD",
        differs="clipped to 2 there, which it reaches at |u| = 112",
    ),
    Member(
        name="sgd-atan",
        setting="sgd+arctan(0.3, 4.5)@gradient",
        formula="w - lr a atan(b g)",
        source=_AUTHORS,
        bound="a pi/2, times 1/(1 - momentum) with momentum",
        evidence="the default of their script for ImageNet",
    ),
    Member(
        name="sgd-atan-mom",
        setting="sgd+arctan(0.3, 4.5)@momentum",
        arguments={"momentum": 0.9},
        formula="w - lr a atan(b u)",
        source=_AUTHORS,
        bound="a pi/2",
        evidence="their Tables I and II",
    ),
    Member(
        name="sgd-atan-mom-ada",
        setting=f"sgd+scaled({1 / math.pi!r}, {2 * math.pi!r}, by=top, keep=1, function=arctan)@momentum",
        arguments={"momentum": 0.9},
        formula="w - lr a atan(2 u / a), a = max(u) / pi, of each tensor",
        source=_AUTHORS,
        bound="half of the largest element of u",
        evidence="in their scripts, not in their tables",
        differs="its two numbers have no default there: these are those of a script; a tensor whose largest "
        "element is 0 becomes NaN there",
    ),
    Member(
        name="adam-atan",
        setting="adam+arctan(0.1, 15)@gradient",
        arguments={"lr": 1e-3, "eps_hat": True},
        formula="Adam of a atan(b g), eps before the bias correction",
        source=_AUTHORS,
        bound="as Adam's",
        evidence="their Table II",
        differs="a negative b switches f off there",
    ),
)

FAMILY: Mapping[str, Member] = MappingProxyType({member.name: member for member in _MEMBERS})
