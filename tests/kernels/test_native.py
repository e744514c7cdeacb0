"""The native kernels against the reference rules: parameters, state and ``p.grad`` after 100 steps."""

from __future__ import annotations

import functools
import itertools
import math
import os
import subprocess
import sys
import threading

import pytest
import torch

import gaf
from gaf.kernels import native
from gaf.lab.bench.memory import allocations
from gaf.optim import rules
from gaf.optim.base import implementation
from gaf.optim.settings import resolve
from tests.pairs import pairs_first

if not native.INSTRUCTION_SETS:
    pytest.skip("the native kernels were not built", allow_module_level=True)

STEPS = 100
# Relative to the largest entry of all tensors.
TOLERANCE = {
    torch.float32: 3e-6,
    torch.float64: 1e-14,
    torch.bfloat16: 4 * 2.0**-8,
    torch.float16: 4 * 2.0**-11,
}


def parameters(dtype: torch.dtype) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(37, 29), (1,), (), (0, 3), (5, 4, 3, 3), (33_001,)]
    params = [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]
    params.append(torch.randn(8, 4, 3, 3).to(dtype, memory_format=torch.channels_last))
    params.append(torch.randn(6, 9, generator=generator).to(dtype).t())
    return params


@functools.cache
def gradients(shapes: tuple[torch.Size, ...]) -> list[list[torch.Tensor]]:
    """For each step, each in the linear range, the bend and saturation."""
    generator = torch.Generator().manual_seed(1)

    def some(shape):
        size = 10.0 ** (2 - 6 * torch.rand(shape, generator=generator))
        return size * torch.randn(shape, generator=generator).sign()

    return [list(map(some, shapes)) for _ in range(STEPS)]


def train(kind, dtype, steps=STEPS, **kwargs):
    torch.manual_seed(0)
    params = parameters(dtype)
    opt = kind(params, lr=0.01, **kwargs)
    of_steps = gradients(tuple(p.shape for p in params))
    for step in range(steps):
        for p, grad in zip(params, of_steps[step], strict=True):
            p.grad = torch.empty_like(p).copy_(grad)
        kept = [p.grad.clone() for p in params]
        opt.param_groups[0]["lr"] = 0.01 / (1 + step % 5)
        opt.step()
        assert all(torch.equal(p.grad, grad) for p, grad in zip(params, kept, strict=True))
    return params, [opt.state[p] for p in params]


def check_close(fused, reference, dtype) -> None:
    pairs = list(zip(fused[0], reference[0], strict=True))
    for ours, theirs in zip(fused[1], reference[1], strict=True):
        assert ours.keys() == theirs.keys()
        pairs += [(ours[key], theirs[key]) for key in ours if key != "step"]
        assert ours.get("step") == theirs.get("step")
    worst = 0.0
    largest = max(b.abs().max().item() for _, b in pairs if b.numel())
    for a, b in pairs:
        assert a.dtype == b.dtype
        assert a.stride() == b.stride()
        if a.numel():
            worst = max(worst, (a.double() - b.double()).abs().max().item() / largest)
    assert worst <= TOLERANCE[dtype]


SGD_CASES = [
    {"momentum": 0.9, "weight_decay": 1e-3},
    {"momentum": 0.9, "nesterov": True, "weight_decay": 1e-3, "maximize": True},
    {"momentum": 0.9, "nesterov": True},
    {"momentum": 0.5, "dampening": 0.3, "maximize": True},
    {"weight_decay": 1e-3},
    {"weight_decay": 1e-3, "maximize": True},
    {"momentum": 0.9, "weight_decay": 1e-2, "decoupled_weight_decay": True},
]


@pairs_first(
    "isa",
    isa=native.INSTRUCTION_SETS,
    name=list(native.FUNCTIONS),
    placement=gaf.PLACEMENTS,
    dtype=list(native.TYPES),
)
def test_sgd(isa, name, placement, dtype):
    for case in SGD_CASES:
        kwargs = {"activation": name, "placement": placement, **case}
        steps = STEPS if dtype == torch.float32 and case is SGD_CASES[0] else 5
        check_close(
            train(gaf.SGD, dtype, steps, fused=True, **kwargs),
            train(gaf.SGD, dtype, steps, foreach=False, **kwargs),
            dtype,
        )


@pairs_first(
    "isa",
    isa=native.INSTRUCTION_SETS,
    name=list(native.FUNCTIONS),
    kind=[gaf.Adam, gaf.AdamW],
    placement=gaf.PLACEMENTS,
    dtype=list(native.TYPES),
)
def test_adam(isa, name, kind, placement, dtype):
    for amsgrad, decay, maximize in itertools.product([False, True], [0.0, 0.1], [False, True]):
        kwargs = {
            "activation": name,
            "placement": placement,
            "eps_hat": maximize,
            "amsgrad": amsgrad,
            "weight_decay": decay,
            "maximize": maximize,
        }
        steps = 20 if dtype == torch.float32 else 5
        check_close(
            train(kind, dtype, steps, fused=True, **kwargs),
            train(kind, dtype, steps, foreach=False, **kwargs),
            dtype,
        )


def test_a_wrong_placement_is_caught():
    right = train(gaf.SGD, torch.float32, 5, foreach=False, momentum=0.9, activation="log")
    wrong = train(
        gaf.SGD, torch.float32, 5, fused=True, momentum=0.9, activation="log", placement="gradient"
    )
    with pytest.raises(AssertionError):
        check_close(wrong, right, torch.float32)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_the_number_of_threads_changes_nothing(threads):
    before = torch.get_num_threads()
    expected = train(gaf.SGD, torch.float32, 3, fused=True, momentum=0.9, activation="tanh")
    try:
        torch.set_num_threads(threads)
        found = train(gaf.SGD, torch.float32, 3, fused=True, momentum=0.9, activation="tanh")
    finally:
        torch.set_num_threads(before)
    assert all(map(torch.equal, found[0], expected[0]))


@pytest.mark.parametrize("placement", gaf.PLACEMENTS)
def test_the_place_in_the_list_changes_nothing(isa, placement):
    """Vector body and tail of a loop round alike: one tensor, or as many as it has elements."""
    generator = torch.Generator().manual_seed(0)
    whole = [torch.randn(501, generator=generator) for _ in range(3)]
    parts = [list(t.clone().split(1)) for t in whole]
    hyper = PLAIN | {
        "placement": placement,
        "weight_decay": 1e-2,
        "dampening": 0.3,
        "nesterov": True,
    }
    for _ in range(3):
        native.sgd(whole[:1], whole[1:2], whole[2:], "arctan", (0.1, 20.0), **hyper)
        native.sgd(*parts, "arctan", (0.1, 20.0), **hyper)
    for t, split in zip(whole, parts, strict=True):
        assert torch.equal(t, torch.cat(split))


def big_step(results: list, number: int) -> None:
    w, v = torch.ones(300_000), torch.ones(300_000)
    g = torch.full((300_000,), 0.01 * (number + 1))
    for _ in range(20):
        native.sgd([w], [g], [v], "arctan", (0.1, 20.0), **PLAIN)
    results[number] = w


PLAIN = {
    "placement": "momentum",
    "lr": 0.1,
    "momentum": 0.9,
    "dampening": 0.0,
    "weight_decay": 0.0,
    "nesterov": False,
    "maximize": False,
}


def test_several_python_threads_at_once():
    torch.set_num_threads(2)
    try:
        results: list = [None] * 4
        workers = [threading.Thread(target=big_step, args=(results, i)) for i in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        torch.set_num_threads(1)
    for number, w in enumerate(results):
        alone: list = [None] * 4
        big_step(alone, number)
        assert torch.equal(w, alone[number])


PREPARED = """
import os, sys, threading, torch
from gaf.kernels import native
torch.set_num_threads(2)
w, g, v = torch.ones(300_000), torch.full((300_000,), 0.01), torch.zeros(300_000)
plain = dict(placement="momentum", lr=0.1, momentum=0.9, dampening=0.0, weight_decay=0.0,
             nesterov=False, maximize=False)
step = lambda: native.sgd([w], [g], [v], "arctan", (0.1, 20.0), **plain)
"""
FORK = """
w.exp_().log_(), step()                  # torch's threads exist, and served
child = os.fork()
step(), step()                           # on both sides
if child == 0:
    os._exit(0 if abs(w[0].item() - w[-1].item()) == 0 and w[0] < 1 else 3)
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""
THREADS = """
tasks = lambda: len(os.listdir("/proc/self/task"))
w.exp_().log_()                          # torch's threads exist
before = tasks()
step()
sys.exit(tasks() - before)
"""


def _run(script):
    subprocess.run([sys.executable, "-c", PREPARED + script], check=True, timeout=120)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_after_a_fork():
    """The child's steps end, where torch's own on several threads would wait for ever."""
    _run(FORK)


@pytest.mark.skipif(
    not os.path.isdir("/proc/self/task")
    or "backend: OpenMP" not in torch.__config__.parallel_info(),
    reason="counts threads as Linux does, and torch runs on OpenMP",
)
def test_torchs_own_threads_serve():
    _run(THREADS)


def test_loss_scaling_inside_the_kernel():
    """grad_scale divides, found_inf skips; p.grad stays scaled, as the scaler left it."""
    cases = [(gaf.SGD, {"momentum": 0.9, "placement": placement}) for placement in gaf.PLACEMENTS]
    for kind, kwargs in [*cases, (gaf.SGD, {}), (gaf.Adam, {}), (gaf.Adam, {"amsgrad": True})]:
        opts = []
        for scaled in (False, True):
            w = torch.full((1000,), 2.0)
            opt = kind([w], lr=0.1, activation="arctan", fused=True, **kwargs)
            assert opt._step_supports_amp_scaling
            for value in (0.3, float("inf"), -0.01):
                if value == float("inf") and not scaled:
                    continue
                w.grad = torch.full((1000,), value * (1024.0 if scaled else 1.0))
                if scaled:
                    opt.grad_scale = torch.tensor(1024.0)
                    opt.found_inf = torch.tensor(float(value == float("inf")))
                kept = w.grad.clone()
                opt.step()
                assert torch.equal(w.grad, kept)
            opts.append((w, opt.state[w]))
        (w, state), (scaled_w, scaled_state) = opts
        assert torch.equal(w, scaled_w)
        assert state.keys() == scaled_state.keys()
        assert all(torch.equal(state[key], scaled_state[key]) for key in state)


@pytest.mark.parametrize("unscale_first", [False, True])
@pytest.mark.parametrize("kind", [gaf.SGD, gaf.Adam, gaf.AdamW])
def test_a_real_scaler(kind, unscale_first):
    """Training under GradScaler with fused=True is training without it, and a skipped step is none."""
    hyper = {"lr": 0.05, "activation": "arctan", "fused": True}
    hyper |= {"momentum": 0.9} if kind is gaf.SGD else {}
    w, scaled_w = torch.ones(50, requires_grad=True), torch.ones(50, requires_grad=True)
    opt, scaled_opt = kind([w], **hyper), kind([scaled_w], **hyper)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
    monitor = gaf.Monitor(scaled_opt)
    x = torch.linspace(-1, 1, 50)
    for step in range(6):
        overflow = step in (0, 3)
        if not overflow:
            opt.zero_grad()
            (w * x).square().mean().backward()
            opt.step()
        scaled_opt.zero_grad()
        loss = (scaled_w * x).square().mean() * (float("inf") if overflow else 1.0)
        scaler.scale(loss).backward()
        if unscale_first:
            scaler.unscale_(scaled_opt)
        kept = scaled_w.grad.clone()
        scaler.step(scaled_opt)
        scaler.update()
        assert torch.equal(scaled_w.grad, kept) or overflow
        assert torch.equal(w, scaled_w)
    for key, value in opt.state[w].items():
        assert torch.equal(value, scaled_opt.state[scaled_w][key])
    assert len(monitor.records) == 4


def test_a_first_step_that_is_skipped_leaves_no_state():
    w = torch.ones(3)
    opt = gaf.SGD([w], lr=0.1, momentum=0.9, activation="arctan", fused=True)
    w.grad, opt.found_inf, opt.grad_scale = torch.ones(3), torch.tensor(1.0), torch.tensor(2.0)
    opt.step()
    assert torch.equal(w, torch.ones(3))
    assert "momentum_buffer" not in opt.state[w]


def who_serves(group, *lists):
    rule = gaf.SGD.rule
    return implementation(rule, group, resolve(group, rule), *lists)[0]


class TestSelection:
    """Who serves a group."""

    def how(self, p, g=None, activation="arctan", **kwargs):
        opt = gaf.SGD([p], lr=0.1, activation=activation, **kwargs)
        return who_serves(opt.param_groups[0], [p], [torch.zeros_like(p) if g is None else g])

    def test_by_default_native(self):
        assert self.how(torch.zeros(3)) == "native"
        assert self.how(torch.zeros(3), fused=True) == "native"

    def test_what_is_asked_for(self):
        assert self.how(torch.zeros(3), foreach=True) == "foreach"
        assert self.how(torch.zeros(3), foreach=False) == "single"
        assert self.how(torch.zeros(3), fused=False) == "single"

    @pytest.mark.parametrize(
        ("p", "g"),
        [
            (torch.zeros(3, dtype=torch.complex64), None),
            (torch.zeros(4, 6), torch.zeros(6, 4).t()),
            (torch.zeros(3), torch.zeros(3).to_sparse()),
            (torch.zeros(4, 6)[:, ::2], torch.zeros(4, 6)[:, ::2]),
            (torch.zeros(3).expand(2, 3), torch.zeros(3).expand(2, 3)),
        ],
        ids=["complex", "other order", "sparse", "gaps", "overlap"],
    )
    def test_what_it_cannot_serve(self, p, g):
        assert self.how(p, g) == "single"
        with pytest.raises(RuntimeError, match="`fused=True` cannot be honoured"):
            self.how(p, g, fused=True)

    def test_a_function_of_ones_own_falls_back_by_group(self):
        @gaf.register
        class Cubert(gaf.Activation):
            @staticmethod
            def formula(xp, g):
                return xp.sign(g) * xp.abs(g) ** (1 / 3)

        try:
            a, b = torch.zeros(2), torch.zeros(2)
            groups = [{"params": a, "activation": "cubert"}, {"params": b, "activation": "tanh"}]
            opt = gaf.SGD(groups, lr=0.1)
            servers = [who_serves(g, g["params"], [torch.zeros(2)]) for g in opt.param_groups]
            assert servers == ["single", "native"]
            opt = gaf.SGD([a], lr=0.1, activation="cubert", fused=True)
            assert who_serves(opt.param_groups[0], [a], [torch.zeros(2)]) == "compiled"
        finally:
            gaf.functions.registry._REGISTRY.pop("cubert")

    def test_differentiable(self):
        assert self.how(torch.zeros(3), differentiable=True) == "single"

    def test_an_unknown_instruction_set(self, monkeypatch):
        monkeypatch.setenv("GAF_ISA", "mmx")
        with pytest.raises(RuntimeError, match="GAF_ISA=mmx is not available; this machine has"):
            native.activate([torch.zeros(3)], "tanh", (1.0, 1.0))


def test_no_tensor_sized_allocation():
    """A step allocates nothing of the size of a parameter."""
    w, g = torch.zeros(1_000_000), torch.ones(1_000_000)
    opt = gaf.SGD([w], lr=0.1, momentum=0.9, activation="arctan")
    w.grad = g
    opt.step()
    with torch.profiler.profile(profile_memory=True, acc_events=True) as profile:
        opt.step()
    allocated = [event.cpu_memory_usage for event in profile.events() if event.cpu_memory_usage > 0]
    assert sum(allocated) < 10_000, allocated


@pytest.mark.skipif(
    torch.__version__ < (2, 7),
    reason="torch.compile of this torch fails once a float of a fused step changes (SpeculationLog)",
)
@pytest.mark.parametrize("backend", ["aot_eager"])
def test_compiled(backend):
    """fused=True under torch.compile is the same op, and lr, alpha and beta are not compiled in."""
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    params = [torch.ones(8, requires_grad=True), torch.ones(5, 3, requires_grad=True)]
    copies = [p.detach().clone().requires_grad_() for p in params]
    kwargs = {"lr": 0.1, "momentum": 0.9, "activation": "arctan", "fused": True}
    compiled, eager = gaf.SGD(params, **kwargs), gaf.SGD(copies, **kwargs)
    step = torch.compile(compiled.step, backend=backend)
    graphs = []
    for number in range(5):
        for p, copy in zip(params, copies, strict=True):
            p.grad, copy.grad = torch.full_like(p, 0.1), torch.full_like(p, 0.1)
        for opt in (compiled, eager):
            opt.param_groups[0]["lr"] = 0.1 / (1 + number)
            opt.param_groups[0]["gaf_params"] = (0.1 + 0.1 * number, 20.0)
        step()
        eager.step()
        graphs.append(counters["stats"]["unique_graphs"])
    assert all(map(torch.equal, params, copies))
    assert graphs[-1] == graphs[1]


def test_the_reference_is_what_is_meant():
    """One number by hand: arctan on the velocity, as :mod:`gaf.optim.rules` says."""
    w, g = torch.tensor([1.0]), torch.tensor([0.05])
    (velocity,) = rules.sgd(w.clone(), g, None, gaf.Arctan(0.1, 20), **PLAIN)
    native.sgd([w], [g], [None], "arctan", (0.1, 20.0), **PLAIN)
    assert velocity == g
    assert w.item() == pytest.approx(1 - 0.1 * 0.1 * 0.7853981633974483, rel=1e-7)


@pytest.mark.parametrize("isa", native.INSTRUCTION_SETS)
def test_the_streaming_pass_changes_nothing_but_reads_all(isa, monkeypatch):
    """What it measures is the traffic of a step: every value is read (NaN shows it) and stays."""
    monkeypatch.setenv("GAF_ISA", isa)
    ws, gs, vs, ms = ([torch.randn(n) for n in (0, 1, 31, 64, 40_003)] for _ in range(4))
    before = [t.clone() for t in (*ws, *gs, *vs, *ms)]
    native.stream(ws, gs, vs)
    native.stream(ws, gs, vs, ms)
    after = [*ws, *gs, *vs, *ms]
    assert all(torch.equal(a, b) for a, b in zip(after, before, strict=True))
    for g in gs:
        g.fill_(math.nan)
    native.stream(ws, gs, vs, ms)
    assert all(t.isnan().all() for t in (*ws, *vs, *ms))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_steps_of_adam_count_as_in_torch(dtype):
    """In one native call where they are float32, by torch where they are not; autograd sees the change."""
    counts = [torch.tensor(float(n), dtype=dtype) for n in (0, 7, 2**24 - 2)]
    ws, gs, ms, vs = ([torch.ones(3) for _ in counts] for _ in range(4))
    versions = [t._version for t in counts]
    hyper = {"lr": 0.1, "betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.0}
    hyper |= {"decoupled_weight_decay": False, "maximize": False, "placement": "gradient"}
    native.adam(ws, gs, ms, vs, [], counts, "arctan", (0.1, 20.0), **hyper)
    assert [t.item() for t in counts] == [1, 8, 2**24 - 1]
    assert all(t._version > v for t, v in zip(counts, versions, strict=True))


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        (gaf.Adam, {}),
        *(
            (gaf.SGD, {"momentum": 0.9, "nesterov": nesterov, "placement": placement})
            for nesterov in (False, True)
            for placement in gaf.PLACEMENTS
        ),
    ],
)
def test_foreach_holds_one_intermediate_list(kind, more):
    params = [torch.randn(1000, requires_grad=True) for _ in range(40)]
    for p in params:
        p.grad = torch.randn_like(p)
    opt = kind(params, weight_decay=0.1, activation="arctan", foreach=True, **more)
    opt.step()  # makes the state
    one_list, working = 40 * 4000, 5 * 4000  # f works on one tensor at a time
    assert allocations(opt.step).peak <= one_list + working
