"""The Triton kernels against the reference: compiled where there is a GPU, else interpreted on CPU tensors.

Errors "observed" are those of the interpreter, triton 3.9.0.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import itertools
import math
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import gaf
from gaf.kernels import triton as kernels
from gaf.optim import rules

if importlib.util.find_spec("triton") is None:
    pytest.skip("the Triton kernels need triton: pip install triton", allow_module_level=True)

HAS_GPU = torch.cuda.is_available()
DEVICE = "cuda" if HAS_GPU else "cpu"

# Triton decides at its import whether it interprets, and other tests may import it: so here, on collection.
with pytest.MonkeyPatch.context() as patch:
    if not HAS_GPU:
        patch.setenv("TRITON_INTERPRET", "1")
    import triton

    if (
        kernels.functions.load() == HAS_GPU
        or isinstance(kernels.jitted.tl.max, triton.JITFunction) != HAS_GPU
    ):
        pytest.fail("triton was imported before TRITON_INTERPRET could be set", pytrace=False)

# The interpreter is numpy, which warns where the GPU does not.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
needs_gpu = pytest.mark.skipif(not HAS_GPU, reason="needs a GPU")

NAMES = ("arctan", "tanh", "log")
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


@pytest.fixture(autouse=True)
def _interpreting(monkeypatch):
    if not HAS_GPU:
        monkeypatch.setenv("TRITON_INTERPRET", "1")


# --- accuracy -------------------------------------------------------------------------------------------

# From 1e-3 to 1e7, numbers that float32 holds and numbers that it does not.
PAIRS = [
    *[(0.1, 20.0), (0.2, 10.0), (1.0, 1.0), (1e-3, 1e7), (1e7, 1e-3), (1e-3, 1e-3), (1e7, 1e7)],
    *[(math.pi, 1e4), (1e3, 0.3), (0.7, 1e6)],
]
# Observed: float32, over 1e8 numbers and 49 pairs, arctan 2.7, tanh 2.9, log 2.5; float64, over 1e7 numbers
# and 20 pairs, arctan 3.5, tanh 2.7, log 2.8. Here: 2.4, 2.3, 2.2; 2.8, 2.4, 2.9.
ULPS = 4.0


def numbers_to_try(dtype: type[np.floating]) -> np.ndarray:
    """Of every exponent, subnormals included, and more where the functions bend; both signs; the ends."""
    rng = np.random.default_rng(0)
    info, integer = np.finfo(dtype), {4: np.uint32, 8: np.uint64}[np.dtype(dtype).itemsize]
    any_bits = rng.integers(0, np.iinfo(integer).max, 24_000, dtype=integer).view(dtype)
    bend = 10.0 ** rng.uniform(-9, 4, 24_000) * rng.choice([-1, 1], 24_000)
    ends = [0.0, info.max, info.tiny, info.smallest_subnormal, 1.0, info.max / 2, 2.0**63, 2.0**64]
    ends = np.array(ends, dtype)
    return np.concatenate([any_bits[np.isfinite(any_bits)], bend.astype(dtype), ends, -ends])


def exact(name: str, g: np.ndarray, alpha: float, beta: float) -> np.ndarray:
    wide = np.float64 if g.dtype == np.float32 else np.longdouble
    g, alpha, beta = g.astype(wide), wide(alpha), wide(beta)
    if name == "log":
        return np.copysign(alpha * np.log1p(beta * np.abs(g)), g)
    return alpha * {"arctan": np.arctan, "tanh": np.tanh}[name](beta * g)


def ulps(ours: np.ndarray, want: np.ndarray) -> float:
    """The largest error in units of the last place; of the smallest subnormal where the result is one."""
    info = np.finfo(ours.dtype)
    rounded = want.astype(ours.dtype)
    finite = np.isfinite(rounded)
    assert (ours[~finite] == rounded[~finite]).all()
    spacing = np.spacing(np.maximum(np.abs(rounded[finite]), info.tiny)).astype(want.dtype)
    return float((np.abs(ours[finite].astype(want.dtype) - want[finite]) / spacing).max())


def worst_error(activate, name: str, dtype: type[np.floating]) -> float:
    g, worst = numbers_to_try(dtype), 0.0
    for alpha, beta in PAIRS:
        ours = torch.from_numpy(g.copy()).to(DEVICE)
        activate([ours], name, [alpha, beta])
        worst = max(worst, ulps(ours.cpu().numpy(), exact(name, g, alpha, beta)))
    return worst


@pytest.fixture
def large_blocks(monkeypatch):
    """Fewer programs: each costs the interpreter the same, whatever its size."""
    if not HAS_GPU:
        monkeypatch.setattr(kernels, "BLOCK", 1 << 16)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("large_blocks")
def test_accuracy(name, dtype):
    assert worst_error(kernels._activate, name, dtype) <= ULPS


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("arctan", "0.1999826580286026", "0.1999926580286026"),
        ("tanh", "0.1666666567325592", "0.1667666567325592"),
        ("log", "0.3333345353603363", "0.3333335353603363"),
    ],
)
def test_a_wrong_coefficient_is_seen(name, right, wrong, tmp_path):
    """A copy of the package, under another name, with one digit changed."""
    package = tmp_path / "wrong_kernels"
    shutil.copytree(Path(kernels.__file__).parent, package)
    for file in package.glob("*.py"):
        source = file.read_text("utf-8").replace("gaf.kernels.triton", package.name)
        source = re.sub(
            r"@torch\.library\.impl.*\n", "", source
        )  # the operators have their kernels
        assert source.count(right) == (file.name == "functions.py")
        file.write_text(source.replace(right, wrong), "utf-8")
    sys.path.insert(0, str(tmp_path))
    try:
        module = importlib.import_module(package.name)
        module.BLOCK = kernels.BLOCK if HAS_GPU else 1 << 16
        assert worst_error(module._activate, name, np.float32) > ULPS
    finally:
        sys.path.remove(str(tmp_path))
        for found in [found for found in sys.modules if found.partition(".")[0] == package.name]:
            del sys.modules[found]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("large_blocks")
def test_half_precision_is_float32_rounded_once(name, dtype):
    """Every one of the 65536 numbers, NaN among them."""
    half = torch.arange(-(2**15), 2**15, dtype=torch.int16, device=DEVICE).view(dtype)
    wide = half.float()
    for tensor in (half, wide):
        kernels.activate([tensor], name, (0.1, 20.0))
    torch.testing.assert_close(half, wide.to(dtype), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_special_numbers(name, dtype):
    f = gaf.parse(f"{name}(0.1, 20)")
    g = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan], dtype=dtype, device=DEVICE)
    ours = g.clone()
    assert kernels.activate([ours], name, f.params).isnan()
    torch.testing.assert_close(ours, f(g), rtol=0, atol=0, equal_nan=True)
    assert torch.equal(ours.signbit()[:4], g.signbit()[:4])
    assert kernels.activate([g[:4].clone()], name, f.params).item() == math.inf


# --- SGD ------------------------------------------------------------------------------------------------

# Relative to the largest entry; beside it the observed error.
TOLERANCE = {
    torch.float32: 5e-7,  # 1.7e-7
    torch.float64: 1e-15,  # 2.0e-16
    torch.bfloat16: 2.0**-7,  # 0, where another last bit is 2^-8
    torch.float16: 2.0**-10,  # 0, where another last bit is 2^-11
}
PARAMS = (0.1, 20.0)


def randn(*shape: int, dtype: torch.dtype, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(DEVICE, dtype)


def gradient(*shape: int, dtype: torch.dtype, seed: int) -> Tensor:
    """Some in the linear range, some in the bend, some saturated."""
    generator = torch.Generator().manual_seed(seed)
    size = 10.0 ** (1 - 5 * torch.rand(shape, generator=generator))
    return (size * torch.randn(shape, generator=generator).sign()).to(DEVICE, dtype)


def check_close(ours: list[Tensor], theirs: list[Tensor], dtype: torch.dtype) -> None:
    largest = max(t.abs().max().item() for t in theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == b.dtype
        error = (a.double() - b.double()).abs().max().item() / largest
        assert error <= TOLERANCE[dtype]


def run_sgd(rule, dtype: torch.dtype, steps: int = 2, **hyper) -> list[Tensor]:
    """The parameters and, with momentum, the velocities after a first step and others."""
    w, v = randn(45, dtype=dtype, seed=0), None
    for step in range(steps):
        g = gradient(45, dtype=dtype, seed=1 + step)
        kept = g.clone()
        v = rule(w, g, v, **{"lr": 0.05 / (1 + step), **hyper})
        assert torch.equal(g, kept)
    return [w] if v is None else [w, v]


def by_reference(w, g, v, function, **hyper):
    return rules.sgd(w, g, v, gaf.parse(f"{function}{PARAMS}"), **hyper)


def by_kernel(w, g, v, function, **hyper):
    return kernels.sgd([w], [g], [v], function, PARAMS, **hyper)[0]


FLAGS = [
    (0.9, False, 0.0),
    (0.9, False, 0.2),
    (0.9, True, 0.0),
    (0.9, True, 0.2),
    (0.0, False, 0.0),
]


def sgd_cases():
    """Every placement, flag and dtype; the functions take turns."""
    turn = itertools.cycle(NAMES)
    for placement, dtype, maximize, weight_decay in itertools.product(
        gaf.PLACEMENTS, DTYPES, (False, True), (0.0, 0.1)
    ):
        for momentum, nesterov, dampening in FLAGS:
            if momentum or placement != "momentum":
                yield {
                    **{"function": next(turn), "placement": placement, "momentum": momentum},
                    **{"dampening": dampening, "nesterov": nesterov, "maximize": maximize},
                    **{"weight_decay": weight_decay, "dtype": dtype},
                }


def name_of(case: dict) -> str:
    return "-".join(str(value).removeprefix("torch.") for value in case.values())


@pytest.mark.parametrize("case", list(sgd_cases()), ids=name_of)
def test_sgd(case):
    check_close(run_sgd(by_kernel, **case), run_sgd(by_reference, **case), case["dtype"])


SGD = {"function": "arctan", "momentum": 0.9, "dampening": 0.0, "nesterov": False}
SGD |= {"maximize": False, "weight_decay": 0.0}


@pytest.mark.parametrize("placement", gaf.PLACEMENTS)
def test_a_wrong_placement_is_seen(placement):
    other = {"gradient": "momentum", "momentum": "update", "update": "gradient"}[placement]
    with pytest.raises(AssertionError):
        check_close(
            run_sgd(by_kernel, torch.float32, **SGD, placement=placement),
            run_sgd(by_reference, torch.float32, **SGD, placement=other),
            torch.float32,
        )


def test_numbers_may_be_tensors():
    """The learning rate and the function's parameters, read by the kernel: the same to the bit."""

    def from_tensors(w, g, v, function, lr, weight_decay, **hyper):
        lr, decay, alpha, beta = (
            torch.tensor(x, dtype=torch.float64, device=DEVICE) for x in (lr, weight_decay, *PARAMS)
        )
        hyper |= {"lr": lr.reshape(1), "weight_decay": decay}
        return kernels.sgd([w], [g], [v], function, (alpha, beta), **hyper)[0]

    hyper = {**SGD, "placement": "momentum", "weight_decay": 0.1}
    ours, theirs = (run_sgd(rule, torch.float32, **hyper) for rule in (from_tensors, by_kernel))
    assert all(map(torch.equal, ours, theirs))


def test_weights_without_decay_do_not_matter():
    """0 * inf is not added to the gradient."""
    w, g = torch.tensor([math.inf, 1.0], device=DEVICE), torch.ones(2, device=DEVICE)
    v = by_kernel(w, g, None, lr=0.1, placement="gradient", **SGD)
    assert v.isfinite().all()


# --- lists ----------------------------------------------------------------------------------------------


def of_many_kinds(seed: int) -> list[Tensor]:
    """Empty, tiny, of one block, one more, of several; unaligned, transposed; of every dtype."""
    sizes = [(0,), (1,), (3, 1), (16,), (17,), (0, 4), (64,), (77,), ()]
    tensors = [gradient(*size, dtype=torch.float32, seed=seed) for size in sizes]
    tensors.append(gradient(34, dtype=torch.float32, seed=seed)[1:-1])
    tensors.append(gradient(5, 7, dtype=torch.float32, seed=seed).t())
    tensors += [gradient(21, dtype=dtype, seed=seed) for dtype in DTYPES[1:]]
    return [*tensors, tensors[0].clone()]


def test_a_list_is_its_tensors_one_by_one(monkeypatch):
    monkeypatch.setattr(kernels, "BLOCK", 16)
    hyper = {**SGD, "function": "log", "params": PARAMS, "placement": "momentum", "lr": 0.1}
    together, apart = ([of_many_kinds(s) for s in (0, 1)] for _ in range(2))
    vs: list = [None] * len(together[0])
    assert kernels.refusal("log", *together, vs) is None
    for _ in range(2):
        vs = kernels.sgd(*together, vs, **hyper)
    for w, g, ours, v in zip(*apart, together[0], vs, strict=True):
        alone = None
        for _ in range(2):
            (alone,) = kernels.sgd([w], [g], [alone], **hyper)
        assert torch.equal(ours, w)
        assert torch.equal(v, alone)
        assert v.stride() == alone.stride()


def test_nothing_is_written_beyond_a_tensor(monkeypatch):
    monkeypatch.setattr(kernels, "BLOCK", 16)
    for size in (1, 15, 16, 17, 24):
        whole = torch.full((size + 16,), 2.0, device=DEVICE)
        kernels.activate([whole[8 : 8 + size], whole[:0]], "tanh", PARAMS)
        assert (whole[:8] == 2).all()
        assert (whole[8 + size :] == 2).all()
        assert (whole[8 : 8 + size] < 1).all()


def test_activate_returns_the_largest():
    gs = of_many_kinds(3)
    want = max(g.double().abs().max().item() for g in gs if g.numel())
    largest = kernels.activate(gs, "log", PARAMS)
    assert largest.dtype == torch.float64  # one of them is
    assert largest.item() == want
    assert kernels.activate([], "log", PARAMS).item() == 0
    assert kernels.activate([torch.empty(0, device=DEVICE)], "log", PARAMS).item() == 0


def test_a_table_is_kept_and_a_captured_one_is_not(monkeypatch):
    g = gradient(40, dtype=torch.float32, seed=0)
    ours, theirs = g.clone(), g.clone()
    kernels._TABLES.clear()
    for _ in range(2):
        kernels.activate([theirs], "log", PARAMS)
        assert len(kernels._TABLES) == 1
    kernels._TABLES.clear()
    monkeypatch.setattr(kernels, "_capturing", lambda device: True)
    for _ in range(2):
        kernels.activate([ours], "log", PARAMS)
    assert not kernels._TABLES
    assert torch.equal(ours, theirs)


# --- Adam -----------------------------------------------------------------------------------------------

ADAM_CASES = [
    {"function": "arctan"},
    {"function": "tanh", "weight_decay": 0.1, "maximize": True},
    {"function": "log", "weight_decay": 0.1, "amsgrad": True},
    {"function": "arctan", "decoupled_weight_decay": True, "weight_decay": 0.1, "amsgrad": True},
    {"function": "log", "decoupled_weight_decay": True, "weight_decay": 0.1, "betas": (0.5, 0.9)},
]


def adam_state(w: Tensor, amsgrad: bool) -> list[list[Tensor]]:
    tops = [torch.zeros_like(w)] if amsgrad else []
    return [[torch.zeros_like(w)], [torch.zeros_like(w)], tops, [torch.zeros((), device=DEVICE)]]


def adam_step(w: Tensor, g: Tensor, state: list[list[Tensor]], function: str, **hyper) -> None:
    hyper.pop("amsgrad", None)
    defaults = {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0, "lr": 0.01}
    defaults |= {"decoupled_weight_decay": False, "maximize": False}
    kernels.adam([w], [g], *state, function, PARAMS, **(defaults | hyper))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", ADAM_CASES, ids=name_of)
def test_adam(case, dtype):
    check_adam(case, dtype, steps=3)


def check_adam(case: dict, dtype: torch.dtype, steps: int) -> None:
    start = randn(45, dtype=dtype, seed=0)
    w, p = start.clone(), start.clone().requires_grad_()
    state = adam_state(w, case.get("amsgrad", False))
    hyper = {k: v for k, v in case.items() if k not in ("function", "decoupled_weight_decay")}
    kind = gaf.AdamW if case.get("decoupled_weight_decay") else gaf.Adam
    activation = gaf.parse(f"{case['function']}{PARAMS}")
    opt = kind([p], lr=0.01, foreach=False, activation=activation, **hyper)
    for step in range(steps):
        g = gradient(45, dtype=dtype, seed=1 + step)
        p.grad = g.clone()
        opt.step()
        adam_step(w, g, state, **case)
        assert torch.equal(g, p.grad)
    theirs = opt.state[p]
    assert state[3][0].item() == theirs["step"].item() == steps
    check_close([w], [p.detach()], dtype)
    keys = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
    for key, tensors in zip(keys, state[:3], strict=True):
        assert bool(tensors) == (key in theirs)
        for t in tensors:
            check_close([t], [theirs[key]], dtype)


@pytest.mark.slow  # for the interpreter
def test_a_hundred_steps():
    """Within the same tolerance; observed: SGD 4.6e-8, Adam 1.6e-7."""
    hyper = {**SGD, "placement": "momentum", "nesterov": True, "weight_decay": 0.1, "steps": 100}
    ours, theirs = (run_sgd(rule, torch.float32, **hyper) for rule in (by_kernel, by_reference))
    check_close(ours, theirs, torch.float32)
    check_adam(ADAM_CASES[3], torch.float32, steps=100)


def test_amsgrad_keeps_nan():
    """As torch.maximum does."""
    w, g = torch.ones(2, device=DEVICE), torch.tensor([math.nan, 1.0], device=DEVICE)
    state = adam_state(w, True)
    adam_step(w, g, state, "log", amsgrad=True)
    assert state[2][0].isnan().tolist() == [True, False]


def test_adam_numbers_may_be_tensors():
    def run(number):
        w = randn(45, dtype=torch.float32, seed=0)
        state = adam_state(w, False)
        for step in range(2):
            g = gradient(45, dtype=torch.float32, seed=1 + step)
            betas = (number(0.9), number(0.999))
            adam_step(w, g, state, "tanh", lr=number(0.01), betas=betas, weight_decay=0.1)
        return [w, *itertools.chain(*state)]

    as_tensor = functools.partial(torch.tensor, dtype=torch.float64, device=DEVICE)
    assert all(map(torch.equal, run(as_tensor), run(float)))


def test_adam_counts_each_tensor_apart():
    """One that joined later, an empty one, and more tensors than a program advances."""
    count = 130
    ws = [torch.ones(i % 2, device=DEVICE) for i in range(count)]
    gs = [torch.ones_like(w) for w in ws]
    steps = [torch.full((), float(i % 3), device=DEVICE) for i in range(count)]
    ms, vs = ([torch.zeros_like(w) for w in ws] for _ in range(2))
    ws, gs, ms, vs = (ts[:4] + [t[:0] for t in ts[4:]] for ts in (ws, gs, ms, vs))
    hyper = {"lr": 0.1, "betas": (0.9, 0.999), "eps": 0.0, "weight_decay": 0.0}
    hyper |= {"decoupled_weight_decay": False, "maximize": False}
    kernels.adam(ws, gs, ms, vs, [], steps, "tanh", PARAMS, **hyper)
    assert [step.item() for step in steps] == [i % 3 + 1 for i in range(count)]
    for i in (1, 3):
        t = i % 3 + 1
        moved = 0.1 * (1 - 0.9) / (1 - 0.9**t) / math.sqrt((1 - 0.999) / (1 - 0.999**t))
        assert ws[i].item() == pytest.approx(1 - moved, rel=1e-6)


@needs_gpu
def test_adam_refuses_counts_on_the_host():
    w = torch.ones(3, device=DEVICE)
    *state, steps = adam_state(w, False)
    with pytest.raises(ValueError, match="capturable"):
        adam_step(w, w.clone(), [*state, [steps[0].cpu()]], "tanh")


# --- Auto, whose alpha and beta are another for each tensor ---------------------------------------------


def with_auto(monkeypatch, make, *, by_kernel: bool) -> tuple[list[Tensor], list[Tensor]]:
    """Weights and Auto's state after some steps on tensors whose gradients are decades apart."""
    ps = [randn(n, dtype=torch.float32, seed=n).requires_grad_() for n in (45, 7, 1, 300)]
    opt = make(ps)
    with monkeypatch.context() as patch:
        if by_kernel:
            for module in ("sgd", "adam"):
                patch.setattr(f"gaf.optim.{module}.kernels", lambda how: kernels)
        for step in range(3):
            for i, p in enumerate(ps):
                p.grad = 10.0 ** (-3 * i) * gradient(p.numel(), dtype=torch.float32, seed=step)
            opt.step()
    return [p.detach() for p in ps], [opt.state[p]["gaf_auto"] for p in ps]


AUTO = {
    **{
        place: functools.partial(gaf.SGD, lr=0.1, momentum=0.9, placement=place)
        for place in gaf.PLACEMENTS
    },
    "adam": functools.partial(gaf.Adam, lr=0.1),
}


@pytest.mark.parametrize("name", AUTO)
def test_auto(name, monkeypatch):
    make = functools.partial(AUTO[name], activation=gaf.Auto(), foreach=False)
    (ours, states), (theirs, expected) = (
        with_auto(monkeypatch, make, by_kernel=by_kernel) for by_kernel in (True, False)
    )
    check_close(ours, theirs, torch.float32)
    for a, b in zip(states, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_factors_of_the_wrong_tensors_are_seen(monkeypatch):
    own = kernels._Batch.factors
    make = functools.partial(AUTO["gradient"], activation=gaf.Auto(), foreach=False)
    theirs, _ = with_auto(monkeypatch, make, by_kernel=False)
    monkeypatch.setattr(kernels._Batch, "factors", lambda self, rows: own(self, rows.flip(0)))
    ours, _ = with_auto(monkeypatch, make, by_kernel=True)
    with pytest.raises(AssertionError):
        check_close(ours, theirs, torch.float32)


# --- loss scaling ---------------------------------------------------------------------------------------


def scaling(scale: float, skip: bool) -> dict[str, Tensor]:
    scale_, skip_ = (torch.tensor([float(x)], device=DEVICE) for x in (scale, skip))
    return {"grad_scale": scale_, "found_inf": skip_}


@pytest.mark.parametrize("placement", gaf.PLACEMENTS)
def test_sgd_under_loss_scaling(placement):
    def scaled(w, g, v, **hyper):
        untouched = [w.clone(), v if v is None else v.clone()]
        bad = torch.full_like(g, math.nan)
        skipped = by_kernel(w, bad, v, **hyper, **scaling(1024.0, True))
        assert torch.equal(w, untouched[0])
        assert torch.equal(skipped, torch.zeros_like(w) if v is None else untouched[1])
        return by_kernel(w, 1024 * g, v, **hyper, **scaling(1024.0, False))

    hyper = {**SGD, "placement": placement, "weight_decay": 0.1}
    ours, theirs = (run_sgd(rule, torch.float32, **hyper) for rule in (scaled, by_kernel))
    assert all(map(torch.equal, ours, theirs))


def test_adam_under_loss_scaling():
    def run(scale):
        w = randn(45, dtype=torch.float16, seed=0)
        state = adam_state(w, True)
        for step in range(2):
            g = gradient(45, dtype=torch.float16, seed=1 + step)
            hyper = {"function": "log", "amsgrad": True, "weight_decay": 0.1}
            if scale:
                before = [t.clone() for t in (w, *itertools.chain(*state))]
                bad = torch.full_like(g, math.inf)
                adam_step(w, bad, state, **hyper, **scaling(64.0, True))
                assert all(map(torch.equal, before, (w, *itertools.chain(*state))))
                adam_step(w, 64 * g, state, **hyper, **scaling(64.0, False))
            else:
                adam_step(w, g, state, **hyper)
        return [w, *itertools.chain(*state)]

    assert all(map(torch.equal, run(True), run(False)))


# --- what is served -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "lists", "reason"),
    [
        ("softsign", [[torch.ones(2)]], "softsign has no Triton kernel"),
        ("log", [[torch.ones(2, dtype=torch.complex64)]], "complex64"),
        (
            "log",
            [[torch.ones(2)], [torch.ones(2).double()]],
            "a gradient or state is torch.float64",
        ),
        ("log", [[torch.ones(2)], [torch.ones(2).to_sparse()]], "sparse_coo"),
        ("log", [[torch.ones(4)[::2]], [torch.ones(2)]], "not laid out alike"),
        ("log", [[torch.ones(2, 3)], [torch.ones(3, 2).t()]], "not laid out alike"),
        ("log", [[torch.ones(2, 3).expand(4, 2, 3)]], "not laid out alike"),
    ],
)
def test_refusal(function, lists, reason):
    lists = [[t.to(DEVICE) for t in tensors] for tensors in lists]
    if "laid out" in reason and DEVICE != "cpu":
        pytest.skip("a copy to the device is laid out anew")
    assert reason in kernels.refusal(function, *lists)


def test_refusal_of_a_device_and_without_triton(monkeypatch):
    w = torch.ones(2)
    if not HAS_GPU:
        assert kernels.refusal("log", [w], [None]) is None
        monkeypatch.delenv("TRITON_INTERPRET")
    assert "dense cuda tensors" in kernels.refusal("log", [w], [None])
    monkeypatch.setattr(kernels, "_installed", lambda: False)
    assert kernels.refusal("log", [w]) == "triton is not installed"


def run_python(code: str, **env: str) -> subprocess.CompletedProcess:
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | env
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)


def test_gaf_does_not_import_triton():
    code = "import sys, gaf, gaf.kernels.triton as k, torch\nk.refusal('log', [torch.ones(1)])\n"
    done = run_python(code + "assert 'triton' not in sys.modules")
    assert done.returncode == 0, done.stderr


# --- compiling, and what only a GPU can show ------------------------------------------------------------

# A stand-in for the driver: every launch compiles for an A100 and prints its PTX, and does not run.
COMPILE = """
import functools, torch, triton
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction
from gaf.kernels import triton as kernels

class Driver:
    def get_current_target(self): return GPUTarget("cuda", 80, 32)
    def get_current_device(self): return 0
    def get_current_stream(self, device): return 0
    def get_device_interface(self): return torch.cpu

def compile_only(self, grid):
    def run(*args, **kwargs):
        print(self.warmup(*args, grid=grid, **kwargs).asm["ptx"])
    return run

driver.set_active(Driver())
JITFunction.__getitem__ = compile_only
one = torch.tensor([1.0])
hyper = dict(lr=0.1, weight_decay=0.1, maximize=True)
for name, dtype in [("arctan", torch.float32), ("tanh", torch.bfloat16), ("log", torch.float16)]:
    ws, gs, ms, vs, tops = ([torch.ones(24, dtype=dtype)] for _ in range(5))
    sgd = dict(momentum=0.9, dampening=0.0, nesterov=True, placement="momentum", **hyper)
    kernels.sgd(ws, gs, [None], name, (0.1, 20.0), grad_scale=one, found_inf=one, **sgd)
    kernels.activate(gs, name, (one, one))
adam = dict(betas=(0.9, one), eps=1e-8, decoupled_weight_decay=True, **hyper)
kernels.adam(ws, gs, ms, vs, tops, [torch.zeros(())], name, (0.1, 20.0), found_inf=one, **adam)
print("float64")
for name in ("arctan", "tanh", "log"):
    ws, gs = ([torch.ones(24, dtype=torch.float64)] for _ in range(2))
    kernels.sgd(ws, gs, [None], name, (0.1, 20.0), **sgd)
"""


def test_the_kernels_compile(tmp_path):
    """For a GPU, on any machine: to IEEE arithmetic, exact numbers, and moves of 16 bytes."""
    done = run_python(COMPILE, TRITON_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    float32, float64 = (
        re.split(r"(?=\.visible \.entry)", part)[1:] for part in done.stdout.split("float64\n")
    )
    assert (
        len(float32) == 3 * 2 + 2
    )  # SGD and activate; Adam's counting, which is float64, and Adam
    for ptx in float32:
        if "advance_kernel" not in ptx.splitlines()[0]:
            assert "fma.rn.f32" in ptx
            assert not re.search(r"\.approx|\.ftz|\.full", ptx)
            assert "ld.global.v4.b32" in ptx
            assert "st.global.v4.b32" in ptx
    assert len(float64) == 3
    for ptx in float64:
        assert "fma.rn.f64" in ptx
        assert "cvt.f64.f32" not in ptx
    for coefficient, ptx in zip((0.19999999999995516, 0.1666666666666667), float64, strict=False):
        assert f"0d{struct.pack('>d', coefficient).hex().upper()}" in ptx


@needs_gpu
def test_a_step_does_not_wait_for_the_device():
    w = randn(45, dtype=torch.float32, seed=0)
    g, state, scale = torch.ones_like(w), adam_state(w, True), scaling(2.0, False)
    for mode in ("default", "error"):
        torch.cuda.set_sync_debug_mode(mode)
        try:
            v = by_kernel(w, g, None, lr=0.1, placement="momentum", **SGD, **scale)
            by_kernel(w, g, v, lr=0.1, placement="momentum", **SGD, **scale)
            adam_step(w, g, state, "log", amsgrad=True, **scale)
        finally:
            torch.cuda.set_sync_debug_mode("default")


@needs_gpu
def test_cuda_graph():
    """A captured step, gradients allocated by the capture, replayed with another learning rate."""
    results = []
    for captured in (False, True):
        w, g = randn(45, dtype=torch.float32, seed=0), gradient(45, dtype=torch.float32, seed=1)
        v, state = torch.zeros_like(w), adam_state(w, False)
        x, rate = randn(45, dtype=torch.float32, seed=2), torch.tensor(0.1, device=DEVICE)

        def step(w=w, g=g, v=v, state=state, x=x, rate=rate):
            fresh = 1.0 * g  # at an address of its own
            by_kernel(w, fresh, v, lr=rate, placement="momentum", **SGD)
            adam_step(x, fresh, state, "log", lr=rate)

        step()
        torch.cuda.synchronize()
        if captured:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                step()
        for lr in (0.2, 0.3):
            rate.fill_(lr)
            g.mul_(0.9)
            graph.replay() if captured else step()
        results.append([w, v, x, *itertools.chain(*state)])
    assert all(map(torch.equal, *results))
