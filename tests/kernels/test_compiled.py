"""Rules compiled by torch.compile against the reference: inductor on the CPU, as fused=True asks for it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

import gaf
from gaf.functions.registry import _REGISTRY

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")

# A rounding or two where products and sums are contracted, over a few steps.
TOLERANCE = {torch.float32: 2e-6, torch.float64: 4e-15, torch.bfloat16: 2e-2}


@pytest.fixture(scope="module", autouse=True)
def softsign():
    """A function of one's own, without a native kernel."""

    @gaf.register
    class Gentle(gaf.Activation):
        scale: float = 1.0

        @staticmethod
        def formula(xp, g, scale):
            return g / (1 + xp.abs(g) / scale)

    yield
    del _REGISTRY["gentle"]


def train(make, dtype=torch.float32, steps=4, scaler=None, **kwargs):
    """Some steps, in which the learning rate and the function's scale change; a gradient comes late."""
    generator = torch.Generator().manual_seed(0)
    params = [torch.randn(n, generator=generator).to(dtype) for n in (33, 1, 0, 64)]
    params.append(torch.randn(4, 6, generator=generator).to(dtype).t())
    opt = make(params, activation="gentle(0.5)", **kwargs)
    for step in range(steps):
        for number, p in enumerate(params):
            late = number == 0 and step == 0
            grad = torch.randn(p.shape, generator=generator).to(dtype)
            p.grad = None if late else torch.empty_like(p).copy_(grad)
        opt.param_groups[0]["lr"] = 0.1 / (1 + step)
        opt.param_groups[0]["gaf_params"] = (0.5 + step,)
        kept = [None if p.grad is None else p.grad.clone() for p in params]
        opt.step()
        for before, p in zip(kept, params, strict=True):
            assert before is None or torch.equal(before, p.grad)
    return params, [opt.state[p] for p in params]


def same(ours, reference, tolerance: float) -> None:
    for a, b in zip(ours[0], reference[0], strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)
    for a, b in zip(ours[1], reference[1], strict=True):
        assert a.keys() == b.keys()
        for key in a:
            torch.testing.assert_close(a[key], b[key], rtol=tolerance, atol=tolerance)


CASES = [
    (gaf.SGD, {"momentum": 0.9, "weight_decay": 0.01, "dampening": 0.2, "placement": "momentum"}),
    (gaf.SGD, {"momentum": 0.9, "nesterov": True, "maximize": True, "placement": "update"}),
    (gaf.SGD, {"placement": "gradient"}),
    (gaf.Adam, {"weight_decay": 0.01, "amsgrad": True}),
    (gaf.AdamW, {}),
    (gaf.Lion, {"weight_decay": 0.1}),
]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(("make", "kwargs"), CASES, ids=lambda case: getattr(case, "__name__", ""))
def test_as_the_reference(make, kwargs, dtype):
    reference = train(make, dtype, foreach=False, lr=0.1, **kwargs)
    same(train(make, dtype, fused=True, lr=0.1, **kwargs), reference, TOLERANCE[dtype])


@pytest.mark.slow
def test_compiled_once_while_the_numbers_change():
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    train(gaf.SGD, steps=2, fused=True, lr=0.1, momentum=0.9)
    after_two = counters["stats"]["unique_graphs"]
    train(gaf.SGD, steps=8, fused=True, lr=0.1, momentum=0.9)
    assert counters["stats"]["unique_graphs"] == after_two
    assert after_two <= 2  # tensors of one element are compiled apart


@pytest.mark.slow
def test_a_value_is_never_compiled_in():
    """torch.full_like reads its value off a tensor: torch.compile would keep the first one for ever."""

    @gaf.register
    class Ceiling(gaf.Activation):
        height: float = 1.0

        @staticmethod
        def formula(xp, g, height):
            return xp.minimum(g, xp.full_like(g, height))

    w = torch.zeros(3)
    w.grad = torch.full((3,), 10.0)
    opt = gaf.SGD([w], lr=1.0, activation="ceiling(0.5)", fused=True)
    try:
        with pytest.raises(RuntimeError, match=r"does not follow the formula .*; leave `fused`"):
            opt.step()
    finally:
        del _REGISTRY["ceiling"]
    assert w.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.slow
@pytest.mark.parametrize("make", [gaf.SGD, gaf.Adam])
def test_loss_scaling(make):
    """GradScaler hands scaled gradients; a step with an inf changes nothing, not even a counter."""

    def run(scaled: bool):
        w = torch.ones(5)
        opt = make([w], lr=0.1, activation="gentle(0.5)", fused=True)
        factor = 1024.0 if scaled else 1.0
        for step in range(3):
            w.grad = torch.linspace(-1, 1, 5) * factor
            if scaled:
                opt.grad_scale = torch.tensor(factor)
                opt.found_inf = torch.tensor(float(step == 1))
            if scaled or step != 1:
                opt.step()
        return w, opt.state[w]

    (w, state), (twin, other) = run(True), run(False)
    torch.testing.assert_close(w, twin, rtol=1e-6, atol=1e-6)
    for key in other:
        torch.testing.assert_close(state[key], other[key], rtol=1e-6, atol=1e-6)


WITHOUT_A_COMPILER = """
import torch, gaf

@gaf.register
class Gentle(gaf.Activation):
    @staticmethod
    def formula(xp, g):
        return g / (1 + xp.abs(g))

w = torch.ones(3)
w.grad = torch.ones(3)
gaf.SGD([w], lr=0.1, activation="gentle", fused=True).step()
"""


@pytest.mark.slow
def test_without_a_compiler_a_sentence_says_so(tmp_path):
    changed = {"CXX": "/nowhere/g++", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_A_COMPILER],
        env=os.environ | changed,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.strip().endswith(
        "RuntimeError: `fused=True` cannot be honoured: torch.compile found no C++ compiler; install one "
        "such as g++, or leave `fused` unset"
    )


def test_what_it_refuses_is_said():
    w = torch.zeros(3).to_sparse()
    with pytest.raises(RuntimeError, match="`fused=True` cannot be honoured: the compiled kernels"):
        gaf.SGD([w], lr=0.1, activation="gentle", fused=True)
    with pytest.raises(RuntimeError, match=r"a fused step is not differentiable|does not support"):
        gaf.SGD([torch.zeros(3)], lr=0.1, activation="gentle", fused=True, differentiable=True)
