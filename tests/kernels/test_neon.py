"""The native loops on NEON: cross-compiled for AArch64, run under qemu, judged like every instruction set.

The compiler and qemu are Debian's (under a minute to install)::

    apt-get install -y --no-install-recommends \
        gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
"""

from __future__ import annotations

import ctypes
import itertools
import math
import re
import shutil
import struct
import subprocess
from array import array
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

import gaf
from gaf.kernels import native
from gaf.optim import rules
from tests.kernels.test_native_accuracy import FACTORS, ULP, error_in_ulp, sweep

COMPILER = shutil.which("aarch64-linux-gnu-gcc")
OBJDUMP = shutil.which("aarch64-linux-gnu-objdump")
QEMU = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        COMPILER is None or OBJDUMP is None,
        reason="no compiler for AArch64: apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
    ),
    pytest.mark.skipif(QEMU is None, reason="no emulator for AArch64: apt-get install qemu-user"),
]

ROOT = Path(__file__).parents[2]
FLAGS = ["-O3", "-std=gnu11", "-fno-math-errno", "-fno-trapping-math"]  # those of setup.py

ACTIVATE, SGD, ADAM, LOAD, STORE = range(5)  # as harness.c numbers them
WIDTHS = [4, 8, 2, 2]  # bytes, in the order of native.TYPES
HALVES = [torch.bfloat16, torch.float16]

# In units of the last place. Observed on x86-64, also with other factors: 3.6, 3.8, 2.7.
LIMIT = {"arctan": ULP, "tanh": ULP, "log": 3.0, "softsign": ULP, "algebraic": ULP}
# One step, relative to the entry or to 1. Observed: float32 1.4e-7, float64 2.2e-16, bfloat16 6.1e-5,
# float16 1.2e-4: half precision may be off by a unit, where float32's error crosses a midpoint.
TOLERANCE = {
    torch.float32: 5e-7,
    torch.float64: 1e-15,
    torch.bfloat16: 2.0**-8,
    torch.float16: 2.0**-11,
}


# Length, addresses of the arrays, numbers, flags: what a request of harness.c holds.
Job = tuple[int, Sequence[int], Sequence[float], Sequence[int]]


def _numbers(column: bytes, kind: str = "q") -> list:
    """What bytes hold for each tensor: whole numbers, addresses among them, or with "d" doubles."""
    return array(kind, column).tolist()


def _of_each(factors, own, count):
    """Alpha and beta of each tensor: its own, or those of all."""
    values = _numbers(own, "d") if own else []
    return zip(values[::2], values[1::2], strict=True) if own else [factors] * count


class Neon:
    """The interface of ``gaf.kernels._native``; each call is a run of the harness under qemu."""

    def __init__(self, binary: Path):
        self.binary = binary
        # no loop of vectors: nothing to emulate
        self.look, self.count = native._native.look, native._native.count
        self.corrections = native._native.corrections

    def activate(self, isa, function, dtype, factors, sizes, gs, threads) -> float:
        jobs = [(n, [g], factors, ()) for n, g in zip(_numbers(sizes), _numbers(gs), strict=True)]
        largest = max(self.run(ACTIVATE, function, dtype, jobs), default=0)
        code, size = ("d", 8) if dtype == native.TYPES[torch.float64] else ("f", 4)
        return struct.unpack(code, largest.to_bytes(size, "little"))[0]

    def sgd(
        self, isa, function, dtype, before, factors, own, sizes, ws, gs, vs, fresh, numbers, threads
    ) -> None:
        *numbers, nesterov = numbers
        lists = [_numbers(x) for x in (ws, gs, vs) if x is not None]
        counts = _numbers(sizes)
        jobs = [
            (n, arrays, (*each, *numbers), (before, new, nesterov))
            for n, each, new, *arrays in zip(
                counts,
                _of_each(factors, own, len(counts)),
                fresh or [0] * len(counts),
                *lists,
                strict=True,
            )
        ]
        self.run(SGD, function, dtype, jobs)

    def adam(
        self,
        isa,
        function,
        dtype,
        before,
        factors,
        own,
        sizes,
        ws,
        gs,
        ms,
        vs,
        tops,
        steps,
        roots,
        numbers,
        threads,
    ) -> None:
        *numbers, eps_hat = numbers
        lists = [_numbers(x) for x in (ws, gs, ms, vs, tops) if x is not None]
        counts = _numbers(sizes)
        jobs = [
            (n, arrays, (*each, *numbers, step, root), (before, eps_hat))
            for n, each, step, root, *arrays in zip(
                counts,
                _of_each(factors, own, len(counts)),
                _numbers(steps, "d"),
                _numbers(roots, "d"),
                *lists,
                strict=True,
            )
        ]
        self.run(ADAM, function, dtype, jobs)

    def convert(self, x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """``x.to(dtype)``, one of the two float32 and the other a half precision."""
        result = torch.empty_like(x, dtype=dtype)
        operation, half = (LOAD, x.dtype) if dtype == torch.float32 else (STORE, dtype)
        job = (x.numel(), [result.data_ptr(), x.data_ptr()], (), ())
        self.run(operation, 0, native.TYPES[half], [job])
        return result

    def run(self, operation: int, function: int, dtype: int, jobs: list[Job]) -> list[int]:
        """The integers of the answers; the arrays are overwritten where they are."""
        requests, blocks = [], []
        for n, addresses, numbers, flags in jobs:
            header = [operation, function, dtype, *flags, *[0] * (3 - len(flags))]
            header += [n, len(addresses), *numbers, *[0.0] * (13 - len(numbers))]
            requests.append(struct.pack("<6i2q13d", *header))
            for i, address in enumerate(addresses):
                wide = (operation, i) in [(LOAD, 0), (STORE, 1)]
                blocks.append((address, n * (4 if wide else WIDTHS[dtype])))
                requests.append(ctypes.string_at(*blocks[-1]))
            blocks.append((None, 8))
        assert QEMU is not None
        answer = subprocess.run(
            [QEMU, str(self.binary)],
            input=b"".join(requests),
            stdout=subprocess.PIPE,
            check=True,
            timeout=120,
        ).stdout
        assert len(answer) == sum(size for _, size in blocks)
        at, results = 0, []
        for address, size in blocks:
            if address is None:
                results.append(int.from_bytes(answer[at : at + size], "little"))
            else:
                ctypes.memmove(address, answer[at : at + size], size)
            at += size
        return results


@pytest.fixture(scope="module")
def binary(tmp_path_factory) -> Path:
    harness = ROOT / "tests/kernels/neon/harness.c"
    target = tmp_path_factory.mktemp("neon") / "harness"
    assert COMPILER is not None
    include = f"-I{ROOT / 'src/gaf/kernels/csrc'}"
    strict = ["-Wall", "-Wextra", "-Werror"]
    command = [
        COMPILER,
        *FLAGS,
        *strict,
        "-static",
        include,
        str(harness),
        "-o",
        str(target),
        "-lm",
    ]
    subprocess.run(command, check=True)
    return target


@pytest.fixture
def neon(binary, monkeypatch) -> Neon:
    """The kernels of gaf.kernels.native, until the test ends."""
    emulated = Neon(binary)
    monkeypatch.setattr(native, "_native", emulated)
    monkeypatch.setenv("GAF_ISA", "portable")  # its file is the one that NEON is made of
    return emulated


def test_the_loops_are_vectors(binary):
    setup = (ROOT / "setup.py").read_text()
    assert all(f'"{flag}"' in setup for flag in FLAGS)
    assert OBJDUMP is not None
    text = subprocess.run(
        [OBJDUMP, "-d", "--no-show-raw-insn", str(binary)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    bodies = dict(re.findall(r"^[0-9a-f]+ <(\w+)[\w.]*>:\n(.*?)\n\n", text + "\n\n", re.S | re.M))
    sides = ["before", "after"]
    steps = itertools.product(["sgd", "sgdm", "nesterov"], sides)
    adams = ["_".join(both) for both in itertools.product(["usual_adam", "adam", "amsgrad"], sides)]
    kinds = [*adams, "activate", *map("_".join, steps)]
    scalar = set()
    for kind, name, dtype in itertools.product(kinds, native.FUNCTIONS, ["f32", "bf16", "f16"]):
        loop = f"{kind}_{name}_{dtype}"
        if dtype != "f32":  # through the loops of float32
            if not re.search(rf"\tbl?\s+[0-9a-f]+ <{kind}_{name}_f32", bodies[loop]):
                scalar.add(loop)
            continue
        needed = [r"\tfml[as]\s+v\d+\.4s"]
        needed += [r"\tfdiv\s+v\d+\.4s"] * (name != "log" or kind in adams)
        needed += [r"\tfsqrt\s+v\d+\.4s"] * (kind in adams)
        if not all(re.search(instruction, bodies[f"{loop}_strips"]) for instruction in needed):
            scalar.add(loop)
    assert not scalar


@pytest.mark.parametrize("name", native.FUNCTIONS)
def test_float32(neon, name):
    """The whole range."""
    g = sweep(2_003)
    for alpha, beta in FACTORS:
        assert error_in_ulp(name, alpha, beta, g) <= LIMIT[name], (alpha, beta)


@pytest.mark.parametrize("dtype", native.TYPES, ids=str)
def test_ends_of_the_range(neon, dtype):
    """±0 keep their sign, ±inf go to the bound, NaN stays, subnormals are not flushed."""
    tiny = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    huge = torch.finfo(dtype).max
    ends = [0.0, math.inf, tiny, 3 * tiny, huge]
    g = torch.tensor(ends + [-x for x in ends] + [math.nan], dtype=dtype)
    g = g.repeat(3)  # in the vectors, and in what is left after them
    for name, (alpha, beta) in itertools.product(native.FUNCTIONS, FACTORS):
        result = g.clone()
        largest = native.activate([result, result[:0]], name, (alpha, beta))
        expected = gaf.parse(f"{name}({alpha!r}, {beta!r})")(g)
        torch.testing.assert_close(
            result, expected, rtol=2 * torch.finfo(dtype).eps, atol=tiny, equal_nan=True
        )
        number = ~torch.isnan(g)
        assert torch.equal(torch.signbit(result[number]), torch.signbit(g[number]))
        assert math.isnan(largest)


def test_float64(neon):
    g = torch.logspace(-320, 308, 5_000, dtype=torch.float64)
    g = torch.cat([g, -g])
    for name, (alpha, beta) in itertools.product(native.FUNCTIONS, FACTORS):
        result = g.clone()
        largest = native.activate([result], name, (alpha, beta))
        expected = gaf.parse(f"{name}({alpha!r}, {beta!r})")(g)
        torch.testing.assert_close(result, expected, rtol=1e-15, atol=5e-324)
        assert largest == g.abs().max()


def same_bits_or_nan(a: torch.Tensor, b: torch.Tensor) -> bool:
    bits = {2: torch.int16, 4: torch.int32}[a.element_size()]
    same = a.view(bits) == b.view(bits)
    return bool((same | (torch.isnan(a) & torch.isnan(b))).all())


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_conversions(neon, dtype):
    """Every half-precision number to float32 and back; float32 to half, to nearest, ties to even."""
    halves = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype)
    wide = neon.convert(halves, torch.float32)
    assert same_bits_or_nan(wide, halves.float())
    assert same_bits_or_nan(neon.convert(wide, dtype), halves)

    finite = torch.sort(wide[torch.isfinite(wide)]).values
    middles = (finite[1:].double() + finite[:-1].double()).float() / 2
    around = [middles, torch.nextafter(middles, middles - 1), torch.nextafter(middles, middles + 1)]
    anything = torch.arange(-(2**31), 2**31, 10_007).to(torch.int32).view(torch.float32)
    x = torch.cat([*around, anything])
    assert same_bits_or_nan(neon.convert(x, dtype), x.to(dtype))


def batch(dtype: torch.dtype, count: int) -> tuple[list[torch.Tensor], list[list[torch.Tensor]]]:
    """Gradients in the linear range, the bend and saturation; and ``count`` lists of the same shapes."""
    generator = torch.Generator().manual_seed(0)
    lists = [
        [torch.randn(n, generator=generator).to(dtype) for n in (1, 0, 7, 1003)]
        for _ in range(1 + count)
    ]
    gs = [g * 10 ** (1 - 4 * torch.rand(g.shape, generator=generator)).to(dtype) for g in lists[0]]
    return gs, lists[1:]


def check_close(found: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        error = (a.double() - b.double()).abs() / b.double().abs().clamp(min=1)
        assert (error <= TOLERANCE[b.dtype]).all(), error.max()


SGD_CASES = [
    {"momentum": 0.9, "weight_decay": 1e-2},
    {"momentum": 0.9, "weight_decay": 1e-2, "nesterov": True, "maximize": True},
    {"momentum": 0.5, "dampening": 0.3},
    {"momentum": 0.0, "weight_decay": 1e-2},
]
SGD_DEFAULTS = {"dampening": 0.0, "weight_decay": 0.0, "nesterov": False, "maximize": False}


@pytest.mark.parametrize("dtype", native.TYPES, ids=str)
@pytest.mark.parametrize("placement", gaf.PLACEMENTS)
def test_sgd(neon, placement, dtype):
    """One step, the first (no velocity yet) and a later one."""
    for name, case, first in itertools.product(native.FUNCTIONS, SGD_CASES, [False, True]):
        hyper = {"lr": 0.1, "placement": placement, **SGD_DEFAULTS, **case}
        gs, (ws, vs) = batch(dtype, 2)
        velocities = [None] * len(ws) if first or not case["momentum"] else vs
        f = gaf.parse(f"{name}(0.3, 2.0)")
        expected = [w.clone() for w in ws]
        kept = [
            rules.sgd(w, g, None if v is None else v.clone(), f, **hyper)[0]
            for w, g, v in zip(expected, gs, velocities, strict=True)
        ]
        before = [g.clone() for g in gs]
        (carried,) = native.sgd(ws, gs, velocities, name, (0.3, 2.0), **hyper)
        assert all(map(torch.equal, gs, before))
        check_close(ws, expected)
        if case["momentum"]:
            check_close(carried, kept)


@pytest.mark.parametrize("dtype", native.TYPES, ids=str)
@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
def test_adam(neon, kind, amsgrad, dtype):
    """The fourth step, against torch's own given f(gradient)."""
    hyper = {"lr": 0.1, "eps": 1e-6, "weight_decay": 0.1, "maximize": True}
    own = {"placement": "gradient", "decoupled_weight_decay": kind is torch.optim.AdamW}
    wide = torch.promote_types(dtype, torch.float32)
    for name, beta1 in itertools.product(native.FUNCTIONS, [0.8, 0.3]):
        hyper["betas"] = (beta1, 0.95)
        gs, (ws, ms, vs, tops) = batch(dtype, 4)
        vs, tops = [v.abs() for v in vs], [top.abs() for top in tops] if amsgrad else []
        params = [w.to(wide, copy=True) for w in ws]
        opt = kind(params, amsgrad=amsgrad, foreach=False, **hyper)
        f = gaf.parse(f"{name}(0.3, 2.0)")
        for i, p in enumerate(params):
            p.grad = -f(-gs[i].to(wide))  # f is odd; written as the kernel does it
            opt.state[p] = {"step": torch.tensor(3.0)}
            opt.state[p] |= {
                "exp_avg": ms[i].to(wide, copy=True),
                "exp_avg_sq": vs[i].to(wide, copy=True),
            }
            if amsgrad:
                opt.state[p]["max_exp_avg_sq"] = tops[i].to(wide, copy=True)
        opt.step()
        steps = [torch.tensor(3.0) for _ in ws]
        native.adam(ws, gs, ms, vs, tops, steps, name, (0.3, 2.0), **own, **hyper)
        assert steps == [4.0] * len(ws)
        check_close(ws, [p.to(dtype) for p in params])
        states = {"exp_avg": ms, "exp_avg_sq": vs, "max_exp_avg_sq": tops}
        for key, found in states.items():
            if found:
                check_close(found, [opt.state[p][key].to(dtype) for p in params])


@pytest.mark.parametrize("dtype", native.TYPES, ids=str)
@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("placement", ["momentum", "update"])
def test_adam_behind_the_moments(neon, placement, amsgrad, dtype):
    """The fourth step, against the wide reference; with eps = 0 elements without moments stay."""
    wide = torch.promote_types(dtype, torch.float32)
    limit = TOLERANCE[dtype] + (0 if wide == dtype else TOLERANCE[wide])
    for name, eps in itertools.product(native.FUNCTIONS, [1e-6, 0.0]):
        hyper = {"lr": 0.1, "betas": (0.8, 0.95), "eps": eps, "weight_decay": 0.1}
        hyper |= {"maximize": True, "decoupled_weight_decay": True, "placement": placement}
        hyper["eps_hat"] = amsgrad
        gs, (ws, ms, vs, tops) = batch(dtype, 4)
        vs, tops = [v.abs() for v in vs], [top.abs() for top in tops] if amsgrad else []
        for column in (gs, ms, vs, tops):
            for t in column:
                t[::5] = 0
        expected = [w.to(wide, copy=True) for w in ws]
        f = gaf.parse(f"{name}(0.3, 2.0)")
        for i, w in enumerate(expected):
            states = [t[i].to(wide, copy=True) for t in (ms, vs, tops) if t]
            rules.adam(w, gs[i].to(wide), *states, *[None][amsgrad:], f, step=4, **hyper)
        steps = [torch.tensor(3.0) for _ in ws]
        native.adam(ws, gs, ms, vs, tops, steps, name, (0.3, 2.0), **hyper)
        for w, b in zip(ws, expected, strict=True):
            error = (w.double() - b.double()).abs() / b.double().abs().clamp(min=1)
            assert (error <= limit).all(), error.max()


def test_a_wrong_value_is_caught(neon):
    """The measure sees alpha off by two in a million."""
    g = sweep(1_000_003)
    exact = native.activate

    def wrong(gs, name, params):
        return exact(gs, name, (params[0] * (1 + 2e-6), params[1]))

    assert error_in_ulp("tanh", 0.1, 20.0, g) <= ULP
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "activate", wrong)
        assert error_in_ulp("tanh", 0.1, 20.0, g) > 4 * ULP
