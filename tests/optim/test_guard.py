"""gaf.Guard: a step that is kept out leaves no trace, and no step of a clean training is kept out."""

from __future__ import annotations

import contextlib
import functools
import gc
import math
import random
import weakref

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import gaf
import gaf.optim.guard
from gaf.optim.spikes import Spikes, SpikesOnDevice
from tests.optim.helpers import (
    EVERY,
    FOREIGN,
    FUSED,
    OURS,
    F,
    assert_same,
    backward,
    make,
    make_model,
    snapshot,
)

# Every optimizer of the other tests, plain ones of torch, and fused ones with f and without.
MAKERS = {
    **{name: functools.partial(make, name) for name in EVERY},
    **{f"torch:{name}": maker for name, maker in FOREIGN.items()},
    "sgd-plain-fused": functools.partial(torch.optim.SGD, lr=0.1, weight_decay=0.1, fused=True),
    **{
        f"ours-fused:{name}": functools.partial(OURS[name], activation=F, foreach=None, fused=True)
        for name in ("sgd", "sgd-gradient", "sgd-momentum", "sgd-update", "adam", "adamw-update")
    },
    **{
        f"ours-fused-auto:{name}": functools.partial(
            OURS[name], activation=gaf.Auto(), foreach=None, fused=True
        )
        for name in ("sgd-gradient", "sgd-momentum", "adam")
    },
    "ours-fused-none": functools.partial(
        gaf.SGD, lr=0.1, momentum=0.9, weight_decay=0.1, fused=True
    ),
}
KINDS = ("good", "nan", "inf", "spike", "scaler", "accumulated")


SCALE = 2.0**10  # a power of two: scaling and unscaling are exact


def make_scaler():
    return torch.amp.GradScaler(device="cpu", init_scale=SCALE, growth_interval=10**6)


def spoil(params, kind, generator):
    """Put a bad number into one element of one gradient, or blow all of them up."""
    if kind == "spike":
        factor = generator.choice((100.0, 1e3, 1e10))
        for p in params:
            p.grad.mul_(factor)
        return
    flat = generator.choice(params).grad.view(-1)
    value = {"nan": math.nan, "inf": math.inf, "scaler": -math.inf}[kind]
    flat[generator.randrange(len(flat))] = value


def run_sequence(name, kinds, seed, *, scaled, clean):
    """Steps on given gradients; ``clean`` leaves the bad ones out, and guards nothing."""
    generator, numbers = random.Random(seed), torch.Generator().manual_seed(seed)
    start = torch.Generator().manual_seed(0)
    params = [torch.randn(shape, generator=start).requires_grad_() for shape in ((3, 5), (3,))]
    opt = MAKERS[name](params)
    guard = None if clean else gaf.Guard(opt)
    scaler = make_scaler() if scaled else None
    for step, kind in enumerate(kinds):
        bad = kind not in ("good", "accumulated")
        grads = [0.1 * torch.randn(p.shape, generator=numbers) for p in params]
        if bad and clean:
            continue
        for p, g in zip(params, grads, strict=True):
            p.grad = g if scaler is None else scaler.scale(g)
            if kind == "accumulated":
                p.grad += p.grad / 2
        if kind == "scaler":
            spoil(params, kind, generator)
        if scaler is not None and (kind in ("nan", "inf", "spike") or step % 2):
            scaler.unscale_(opt)
        if bad and kind != "scaler":
            spoil(params, kind, generator)
        if scaler is None:
            opt.step()
        else:
            scaler.step(opt)
            scaler.update(SCALE)
    return opt, guard


@contextlib.contextmanager
def told_by_found_inf():
    """As on a device that works asynchronously: fused steps are told the decision, and nobody reads it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gaf.optim.guard, "_is_asynchronous", lambda device: True)
        yield


def check_sequence(number):
    generator = random.Random(number)
    name = list(MAKERS)[number % len(MAKERS)]
    scaled = generator.random() < 0.5
    some = [kind for kind in KINDS if scaled or kind != "scaler"]
    kinds = ["good", *generator.choices(some, k=7)]  # a spike is one beside a step before it
    if generator.random() < 0.3:
        kinds.insert(0, generator.choice(("nan", "inf")))
    with told_by_found_inf() if generator.random() < 0.7 else contextlib.nullcontext():
        opt, guard = run_sequence(name, kinds, number, scaled=scaled, clean=False)
    expected, _ = run_sequence(name, kinds, number, scaled=scaled, clean=True)
    what = f"{number}: {name}, {kinds}"
    found, wanted = snapshot(opt), snapshot(expected)
    del found["grads"], wanted["grads"]  # those of the last step, which may be a bad one
    assert_same(found, wanted, what)
    counts = guard.counts
    assert counts["nonfinite"] == kinds.count("nan") + kinds.count("inf"), what
    assert counts["spikes"] == kinds.count("spike"), what


def test_weights_and_state_are_those_of_the_good_steps_alone():
    """One random sequence of bad and good steps for each optimizer, to the bit."""
    for number in range(len(MAKERS)):
        check_sequence(number)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_a_thousand_sequences(part):
    for number in range(100 * part, 100 * part + 100):
        check_sequence(number)


@pytest.mark.parametrize(
    "name", ["torch:sgd-fused", "torch:adamw-fused", "ours-fused:sgd-momentum"]
)
def test_a_first_step_that_is_kept_out_leaves_no_state(name):
    """torch's SGD would leave a velocity as it lay in memory, and take it for one at the next step."""
    model = make_model()
    opt = MAKERS[name](model.parameters())
    with told_by_found_inf():
        gaf.Guard(opt)
    backward(model, 0)
    model[0].weight.grad[0, 0] = math.nan
    opt.step()
    assert all(state == {} for state in snapshot(opt)["state"])


def test_gradients_of_zero_are_another_thing():
    """What a guard does not do: momentum and decay move the weights."""
    w = torch.ones(2, requires_grad=True)
    opt = torch.optim.AdamW([w], lr=0.1)
    for value in (1.0, 0.0):
        before = w.detach().clone()
        w.grad = torch.full((2,), value)
        opt.step()
        assert not torch.equal(w, before)


def sizes_pass(sizes, **options):
    """Which of these norms are let through."""
    w = torch.zeros(1, requires_grad=True)
    opt = torch.optim.SGD([w], lr=1.0)
    gaf.Guard(opt, **options)
    passed = []
    for size in sizes:
        before = w.item()
        w.grad = torch.tensor([float(size)])
        opt.step()
        passed.append(w.item() != before)
    return passed


def noisy(sizes, seed, sigma=0.3):
    generator = random.Random(seed)
    return [size * math.exp(generator.gauss(0, sigma)) for size in sizes]


CLEAN = {
    "steady": [1.0] * 300,
    "shrinks by 100": [100 ** (-t / 300) for t in range(300)],
    "grows by 100": [100 ** (t / 300) for t in range(300)],
    "grows by 100 in 20 steps": [100 ** (min(max(t - 100, 0), 20) / 20) for t in range(300)],
    "falls by 100 at once": [1.0] * 100 + [0.01] * 100,
    "begins small": [0.1, 0.5, *[1.0] * 100],
    "begins large": [30.0 / (1 + t) + 1.0 for t in range(200)],
    "decays and starts again": [math.exp(-(t % 100) / 40) for t in range(300)],
}


@pytest.mark.parametrize("name", CLEAN)
def test_no_clean_step_is_kept_out(name):
    assert all(sizes_pass(noisy(CLEAN[name], seed=0)))


@pytest.mark.parametrize("name", CLEAN)
def test_spikes_of_a_thousand_are_kept_out(name):
    sizes = noisy(CLEAN[name], seed=1)
    generator = random.Random(2)
    bad = {t for t in range(1, len(sizes)) if generator.random() < 0.03}
    if "at once" in name:  # right after the fall ten times the old level is not far
        bad -= set(range(100, 100 + 64))
    sizes = [1000 * size if t in bad else size for t, size in enumerate(sizes)]
    assert [t for t, ok in enumerate(sizes_pass(sizes)) if not ok] == sorted(bad)


def test_the_quantile_is_an_order_statistic_of_the_last_steps():
    sizes = [1.0, 2.0, 3.0, 4.0, 5.0]
    w = torch.zeros(1, requires_grad=True)
    opt = torch.optim.SGD([w], lr=0.0)
    guard = gaf.Guard(opt, factor=2, quantile=0.5, window=3)
    limits = []
    for size in sizes:
        w.grad = torch.tensor([size])
        opt.step()
        limits.append(guard.limit)
    # of one, of two (the upper), then of the last three, before the step
    assert limits == [math.inf, 2.0, 4.0, 4.0, 6.0]
    assert guard.state_dict()["sizes"] == [3.0, 4.0, 5.0]
    assert guard.size == 5.0


@pytest.mark.parametrize("seed", range(8))
def test_on_a_device_as_on_the_host(seed):
    generator = random.Random(seed)
    settings = (generator.choice((2.0, 20.0)), generator.choice((0.0, 0.5, 0.9, 1.0)))
    settings += (generator.choice((1, 3, 16)), generator.choice((1, 2, 5)))
    host, device = Spikes(*settings), SpikesOnDevice(Spikes(*settings), torch.device("cpu"))
    for _ in range(60):
        size = generator.choice(
            (0.0, math.inf, *[math.exp(generator.gauss(0, 2)) for _ in range(9)])
        )
        if generator.random() < 0.1:
            device.keeps_out(torch.tensor(size), torch.tensor(True))
        kept_out = host.keeps_out(size)
        assert device.keeps_out(torch.tensor(size, dtype=torch.float64)).item() == kept_out
        assert device.state_dict() == host.state_dict()
        assert (device.read().size, device.read().limit) == (host.size, host.limit)
        assert device.read().counts == host.counts


def test_zero_and_missing_gradients_tell_nothing():
    w, other = (torch.zeros(1, requires_grad=True) for _ in range(2))
    opt = torch.optim.SGD([w, other], lr=1.0)
    guard = gaf.Guard(opt)
    opt.step()
    w.grad = torch.zeros(1)
    opt.step()
    w.grad = torch.ones(1)
    opt.step()
    assert guard.counts == {"steps": 3, "nonfinite": 0, "spikes": 0, "in_a_row": 0}
    assert guard.state_dict()["sizes"] == [1.0]
    assert w.item() == -1.0


def test_a_level_that_stays_is_taken():
    with pytest.warns(UserWarning, match="kept out 4 steps in a row, 4 of them because") as caught:
        passed = sizes_pass([1.0] * 5 + [1000.0] * 8 + [1.0] * 2, patience=4)
    assert passed == [True] * 5 + [False] * 4 + [True] * 6
    assert len(caught) == 1


def test_what_is_not_finite_is_never_taken():
    with pytest.warns(UserWarning, match="0 of them because"):
        assert not any(sizes_pass([math.nan] * 30, patience=5))
    with pytest.warns(UserWarning, match="in a row"):  # nor a spike behind it
        passed = sizes_pass([1.0] + [math.inf] * 30 + [1000.0, 1.0], patience=5)
    assert passed == [True, *[False] * 31, True]


def test_state_goes_on_where_it_was():
    def make_guarded(**options):
        w = torch.zeros(1, requires_grad=True)
        opt = torch.optim.SGD([w], lr=1.0)
        return w, opt, gaf.Guard(opt, window=5, **options)

    def run(w, opt, sizes):
        for size in sizes:
            w.grad = torch.tensor([size])
            opt.step()

    sizes = [float(s) for s in (1, 2, 3, 1000, 4, 5, 6, 7, math.inf, 1, 1, 500)]
    w, opt, whole = make_guarded()
    run(w, opt, sizes)
    for cut in range(1, len(sizes)):
        w, opt, first = make_guarded()
        run(w, opt, sizes[:cut])
        state = first.state_dict()
        w, opt, second = make_guarded()
        second.load_state_dict(state)
        assert second.counts == first.counts
        run(w, opt, sizes[cut:])
        assert second.state_dict() == whole.state_dict(), cut
    shorter = gaf.Guard(torch.optim.SGD([w], lr=1.0), window=2)
    shorter.load_state_dict(whole.state_dict())
    assert shorter.state_dict()["sizes"] == whole.state_dict()["sizes"][-2:]


def test_the_state_is_saved_as_plain_values(tmp_path):
    guard = gaf.Guard(torch.optim.SGD([torch.ones(1)], lr=1.0))
    torch.save(guard.state_dict(), tmp_path / "guard.pt")
    assert torch.load(tmp_path / "guard.pt", weights_only=True) == guard.state_dict()


@pytest.mark.parametrize("way", [told_by_found_inf, contextlib.nullcontext])
@pytest.mark.parametrize(
    "name", ["torch:adam-single", "torch:adam-fused", "ours-fused:sgd-momentum"]
)
def test_closures(name, way):
    def trained(bad):
        model = make_model()
        opt = MAKERS[name](model.parameters())
        with way():
            guard = gaf.Guard(opt) if bad else None
        losses = []
        for step in range(6):
            if step in (2, 4) and not bad:
                continue

            def closure(step=step):
                loss = backward(model, step)
                if step in (2, 4):
                    model[0].weight.grad[1, 1] = math.nan if step == 2 else 1e6
                return loss

            losses.append(opt.step(closure).item())
        return opt, guard, losses

    opt, guard, losses = trained(True)
    expected, _, others = trained(False)
    found, wanted = snapshot(opt), snapshot(expected)
    assert_same(found, wanted)
    assert guard.counts == {"steps": 6, "nonfinite": 1, "spikes": 1, "in_a_row": 0}
    assert [losses[i] for i in (0, 1, 3, 5)] == others
    assert not hasattr(opt, "found_inf")


def test_a_closure_after_the_weights_have_moved_is_refused():
    model = make_model()
    opt = torch.optim.LBFGS(model.parameters(), max_iter=3)
    gaf.Guard(opt)
    with pytest.raises(gaf.GafError, match="several times a step"):
        opt.step(lambda: backward(model, 0))


@pytest.mark.parametrize("first", ["guard", "scheduler"])
def test_schedulers(first):
    model = make_model()
    opt = torch.optim.SGD(model.parameters(), lr=1.0)
    guard = gaf.Guard(opt) if first == "guard" else None
    scheduler = torch.optim.lr_scheduler.ExponentialLR(opt, 0.5)
    guard = guard or gaf.Guard(opt)
    second = torch.optim.lr_scheduler.ExponentialLR(opt, 0.5)
    for step in range(3):
        backward(model, step)
        if step == 0:
            model[0].bias.grad[0] = math.nan
        opt.step()
        scheduler.step()  # without the warning that no step has been taken
        second.step()
    assert guard.counts == {"steps": 3, "nonfinite": 1, "spikes": 0, "in_a_row": 0}
    assert opt.param_groups[0]["lr"] == 2.0**-6


def test_clipped_gradients_are_judged_by_the_norm_before():
    w = torch.zeros(3, requires_grad=True)
    opt = torch.optim.SGD([w], lr=1.0)
    guard = gaf.Guard(opt)
    for size in (1.0, 1000.0, math.nan, 2.0):
        w.grad = torch.full((3,), size)
        guard.observe(nn.utils.clip_grad_norm_([w], 0.5))
        opt.step()
    assert guard.counts == {"steps": 4, "nonfinite": 1, "spikes": 1, "in_a_row": 0}
    assert guard.size == pytest.approx(2 * math.sqrt(3))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_the_norm_is_not_that_of_a_narrow_type(dtype):
    w = torch.zeros(1000, dtype=dtype, requires_grad=True)
    opt = torch.optim.SGD([w, torch.zeros(1)], lr=1e-8)
    guard = gaf.Guard(opt)
    w.grad = torch.full_like(w, 30000.0)
    opt.step()
    expected = w.grad.double().norm().item()
    assert guard.size == pytest.approx(expected, rel=1e-6)


def test_complex_and_sparse_gradients():
    c = torch.zeros(2, dtype=torch.complex64, requires_grad=True)
    e = nn.Embedding(5, 3, sparse=True)
    opt = torch.optim.SGD([c, e.weight], lr=0.1)
    guard = gaf.Guard(opt)
    c.grad = torch.tensor([3 + 4j, 0])
    e(torch.tensor([1, 1])).sum().backward()  # a row counted twice is 2 in each of its elements
    opt.step()
    assert guard.size == pytest.approx(math.sqrt(25 + 12))
    c.grad = torch.tensor([complex(0, math.nan), 0])
    opt.step()
    assert guard.counts["nonfinite"] == 1


class Reads(TorchDispatchMode):
    """Counts the times that a number is read off a tensor, for which a device must be waited for."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func.name() in ("aten::_local_scalar_dense", "aten::equal", "aten::nonzero")
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", [*FUSED, "sgd-plain-fused"])
def test_a_fused_step_reads_no_number_of_its_device(name):
    model = make_model()
    opt = MAKERS.get(name, FUSED.get(name))(model.parameters())
    if not getattr(opt, "_step_supports_amp_scaling", False):
        pytest.skip(f"the fused step of this torch's {type(opt).__name__} takes no found_inf")
    with told_by_found_inf():
        guard = gaf.Guard(opt)
    backward(model, 0)
    opt.step()  # makes its state: on such a step the decision is read
    with Reads() as reads:
        for value in (1.0, math.nan, 1e6):
            model[0].weight.grad[0, 0] = value
            opt.step()
            assert guard.counts["steps"] > 1
            guard.observe(torch.ones(()))
            opt.step()
    assert reads.count == 0
    assert guard.counts == {"steps": 7, "nonfinite": 1, "spikes": 1, "in_a_row": 0}
    with Reads() as reads:
        torch.ones(()).item()
    assert reads.count == 1


def test_the_decision_is_taken_where_there_is_no_number_to_read():
    size = torch.ones((), device="meta")
    with pytest.raises(RuntimeError, match="meta"):
        size.item()
    spikes = SpikesOnDevice(Spikes(20.0, 0.9, 64, 20), torch.device("meta"))
    spikes._copy = spikes._copy.to("meta")  # the host's copy, which is written and not waited for
    assert spikes.keeps_out(size, size > 0).device.type == "meta"


@pytest.mark.parametrize("name", ["torch:adam-fused", "torch:adamw-single", "ours:sgd-momentum"])
def test_freed_with_the_last_reference(name):
    torch.optim.SGD([torch.ones(1)], lr=0.1).step()
    model = make_model()
    opt = MAKERS[name](model.parameters())
    guard = gaf.Guard(opt)
    backward(model, 0)
    opt.step()
    gc.disable()
    try:
        opt, guard = weakref.ref(opt), weakref.ref(guard)
        assert opt() is None
        assert guard() is None
    finally:
        gc.enable()


def test_detach():
    w = torch.zeros(1, requires_grad=True)
    opt = torch.optim.SGD([w], lr=1.0)
    guard = gaf.Guard(opt)
    with pytest.raises(gaf.GafError, match="detach"):
        gaf.Guard(opt)
    guard.detach()
    w.grad = torch.tensor([math.inf])
    opt.step()
    assert w.item() == -math.inf
    assert gaf.Guard(opt).counts["steps"] == guard.counts["steps"] == 0


def test_in_words():
    w = torch.zeros(1, requires_grad=True)
    opt = torch.optim.SGD([w], lr=1.0)
    guard = gaf.Guard(opt)
    for size in (1.0, math.nan, 1000.0):
        w.grad = torch.tensor([size])
        opt.step()
    assert str(guard) == (
        "2 of 3 steps kept out: 1 not finite, 1 too large. Last size 1e+03, limit 20."
    )


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"factor": 1}, "factor must be above 1"),
        ({"quantile": 1.5}, "quantile must lie"),
        ({"window": 0}, "window must be a whole number"),
        ({"patience": 2.5}, "patience must be a whole number"),
    ],
)
def test_settings_are_checked(options, match):
    with pytest.raises(gaf.GafError, match=match):
        gaf.Guard(torch.optim.SGD([torch.ones(1)], lr=1.0), **options)


def test_other_things_are_refused():
    with pytest.raises(TypeError, match="takes a torch optimizer"):
        gaf.Guard([torch.ones(1)])
