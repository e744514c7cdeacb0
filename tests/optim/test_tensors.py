"""Every kind of tensor a parameter or a gradient can be."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import gaf
from tests.optim.helpers import (
    BUILT_IN,
    EVERY,
    OURS,
    F,
    assert_same,
    backward,
    grads_of,
    make,
    make_model,
    parameters_of,
    snapshot,
)

SGD = {
    **{f"plain-{p}": {"placement": p} for p in gaf.PLACEMENTS},
    **{f"{p}": {"placement": p, "momentum": 0.9} for p in gaf.PLACEMENTS},
    **{
        f"nesterov-{p}": {"placement": p, "momentum": 0.9, "nesterov": True} for p in gaf.PLACEMENTS
    },
}


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("foreach", [None, False, True])
def test_step_never_changes_p_grad(name, foreach):
    model = make_model()
    opt = OURS[name](model.parameters(), activation=F, foreach=foreach)
    for step in range(3):
        backward(model, step)
        tensors, before = [p.grad for p in model.parameters()], grads_of(opt)
        opt.step()
        assert all(p.grad is g for p, g in zip(model.parameters(), tensors, strict=True))
        assert_same(grads_of(opt), before)


@pytest.fixture
def identity():
    """A registered function that returns its very argument."""
    from gaf.functions import registry

    @gaf.register
    class Unchanged(gaf.Activation):
        @staticmethod
        def formula(xp, g):
            return g

    yield Unchanged()
    del registry._REGISTRY["unchanged"]


@pytest.mark.parametrize("lr", [0.1, torch.tensor(0.1)], ids=["", "tensor_lr"])
@pytest.mark.parametrize("foreach", [False, True], ids=["single", "foreach"])
@pytest.mark.parametrize("hyper", SGD.values(), ids=SGD.keys())
def test_a_function_that_returns_its_argument(identity, hyper, foreach, lr):
    """p.grad and the velocity stay what they are, and the rule is torch's."""
    model, judge = make_model(), make_model()
    opt = gaf.SGD(
        model.parameters(), lr=lr, weight_decay=0.1, activation=identity, foreach=foreach, **hyper
    )
    plain = {k: v for k, v in hyper.items() if k != "placement"}
    other = torch.optim.SGD(judge.parameters(), lr=lr, weight_decay=0.1, foreach=False, **plain)
    for step in range(3):
        backward(model, step)
        backward(judge, step)
        before = grads_of(opt)
        opt.step()
        other.step()
        assert_same(grads_of(opt), before)
        for p, q in zip(model.parameters(), judge.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6)


def lookups():
    return [torch.tensor(rows) for rows in ([1, 2, 2, 5], [0, 2, 2, 2], [5, 0, 0, 1], [3, 3, 3, 3])]


def train_embedding(sparse, hyper, foreach=None, function="arctan", lr=0.1, dtype=torch.float64):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        table = nn.Embedding(7, 3, sparse=sparse, dtype=dtype)
    opt = gaf.SGD(table.parameters(), lr=lr, activation=function, foreach=foreach, **hyper)
    for rows in lookups():
        opt.zero_grad()
        (table(rows) ** 3).sum().backward()
        assert table.weight.grad.is_sparse == sparse
        raw = table.weight.grad
        before = raw.clone()
        opt.step()
        assert table.weight.grad is raw
        assert_same(raw, before)
    return table.weight.detach(), opt


@pytest.mark.parametrize("foreach", [None, True])
@pytest.mark.parametrize("maximize", [False, True], ids=["", "maximize"])
@pytest.mark.parametrize("function", BUILT_IN)
@pytest.mark.parametrize("hyper", SGD.values(), ids=SGD.keys())
def test_sparse_gradients_act_as_dense_ones(hyper, function, maximize, foreach):
    hyper = {**hyper, "maximize": maximize}
    sparse, opt = train_embedding(True, hyper, foreach, function)
    dense, dense_opt = train_embedding(False, hyper, foreach, function)
    torch.testing.assert_close(sparse, dense, rtol=1e-13, atol=1e-13)  # sums in another order
    for key, velocity in opt.state[opt.param_groups[0]["params"][0]].items():
        assert velocity.is_sparse
        (other,) = (state[key] for state in dense_opt.state.values())
        torch.testing.assert_close(velocity.to_dense(), other, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("hyper", SGD.values(), ids=SGD.keys())
def test_sparse_gradients_with_a_tensor_learning_rate(hyper):
    tensor, _ = train_embedding(True, hyper, lr=torch.tensor(0.1, dtype=torch.float64))
    number, _ = train_embedding(True, hyper)
    torch.testing.assert_close(tensor, number, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("hyper", SGD.values(), ids=SGD.keys())
def test_sparse_gradients_in_half_precision(hyper):
    sparse, _ = train_embedding(True, hyper, dtype=torch.bfloat16)
    dense, _ = train_embedding(False, hyper, dtype=torch.bfloat16)
    torch.testing.assert_close(sparse, dense, rtol=0.05, atol=0.05)  # bf16: 3 digits


def test_sparse_gradients_with_weight_decay_are_torchs_error():
    with pytest.raises(RuntimeError, match="sparse"):
        train_embedding(True, {"weight_decay": 0.1, "placement": "gradient"})


@pytest.mark.parametrize("cls", [gaf.Adam, gaf.AdamW])
def test_adam_refuses_sparse_gradients_as_torch_does(cls):
    table = nn.Embedding(4, 2, sparse=True)
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match="does not support sparse gradients"):
        cls(table.parameters(), activation=F).step()


def test_dense_and_sparse_parameters_in_one_group():
    table, model = nn.Embedding(4, 5, sparse=True), make_model()
    twin, judge = nn.Embedding(4, 5, sparse=True), make_model()
    twin.load_state_dict(table.state_dict())
    opt = gaf.SGD(
        [*table.parameters(), *model.parameters()], lr=0.1, momentum=0.9, activation=F, foreach=True
    )
    apart = [
        gaf.SGD(m.parameters(), lr=0.1, momentum=0.9, activation=F, foreach=False)
        for m in (twin, judge)
    ]
    for step in range(3):
        for t, m in ((table, model), (twin, judge)):
            t.zero_grad()
            m.zero_grad()
            (m(t(torch.tensor([step, 1, 1]))) ** 2).sum().backward()
        opt.step()
        for o in apart:
            o.step()
    assert_same(snapshot(opt)["params"], [p for o in apart for p in snapshot(o)["params"]])


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("name", OURS)
def test_complex_parameters_act_by_parts(name, dtype):
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(4, 3, dtype=dtype, generator=generator)
    parts = torch.view_as_real(w).clone().requires_grad_()
    w.requires_grad_()
    opt, other = make(f"ours:{name}", [w]), make(f"ours:{name}", [parts])
    for _ in range(4):
        w.grad = 0.3 * torch.randn(4, 3, dtype=dtype, generator=generator)
        parts.grad = torch.view_as_real(w.grad).clone()
        before = w.grad.clone()
        opt.step()
        other.step()
        assert_same(w.grad, before)
        torch.testing.assert_close(torch.view_as_real(w), parts, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["rmsprop", "adagrad", "sgd-foreach", "adam-single", "asgd"])
def test_complex_parameters_of_activated_optimizers(name):
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(4, 3, dtype=torch.complex64, generator=generator)
    parts = torch.view_as_real(w).clone().requires_grad_()
    w.requires_grad_()
    opt, other = make(f"activated:{name}", [w]), make(f"activated:{name}", [parts])
    for _ in range(3):
        w.grad = 0.3 * torch.randn(4, 3, dtype=torch.complex64, generator=generator)
        parts.grad = torch.view_as_real(w.grad).clone()
        opt.step()
        other.step()
        torch.testing.assert_close(torch.view_as_real(w), parts, rtol=1e-5, atol=1e-6)


def half_by_hand(w, g, v, hyper, lr, f):
    """One SGD step of a half-precision tensor: all of it in float32, each result rounded once."""
    placement, mu, decay = hyper["placement"], hyper.get("momentum", 0), 0.01
    w32, d = w.float(), g.float()
    if placement == "gradient":
        d = f(d)
    d = d.add(w32, alpha=decay)
    if placement == "update":
        d = d * -lr
    u = d
    if mu:
        v32 = d.clone() if v is None else (v.float() * mu).add(d, alpha=1)
        u = d.add(v32, alpha=mu) if hyper.get("nesterov") else v32
        v = v32.to(w.dtype)
    if placement != "gradient":
        u = f(u)
    return w32.add(u, alpha=1 if placement == "update" else -lr).to(w.dtype), v


@pytest.mark.parametrize("foreach", [False, True], ids=["single", "foreach"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("hyper", SGD.values(), ids=SGD.keys())
def test_half_precision_is_computed_in_float32_and_rounded_once(hyper, dtype, foreach):
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(50, generator=generator).to(dtype).requires_grad_()
    opt = gaf.SGD([w], lr=0.1, weight_decay=0.01, activation=F, foreach=foreach, **hyper)
    expected, v = w.detach().clone(), None
    for _ in range(5):
        w.grad = (0.2 * torch.randn(50, generator=generator)).to(dtype)
        opt.step()
        expected, v = half_by_hand(expected, w.grad, v, hyper, 0.1, F)
        assert_same(w.detach(), expected)
        if v is not None:
            (velocity,) = opt.state[w].values()
            assert_same(velocity, v)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_half_precision_adam_is_computed_in_float32_and_rounded_once(name, dtype):
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(50, generator=generator).to(dtype).requires_grad_()
    x = w.detach().float().requires_grad_()
    opt = OURS[name]([w], activation=F)
    cls = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[name]
    other = cls([x], **OURS[name].keywords)
    for _ in range(4):
        w.grad = (0.2 * torch.randn(50, generator=generator)).to(dtype)
        x.grad = F(w.grad.float())
        opt.step()
        other.step()
        with torch.no_grad():  # what half precision keeps from one step to the next
            for t in (x, *(s for key, s in other.state[x].items() if key != "step")):
                t.copy_(t.to(dtype))
        assert_same(w.detach(), x.detach().to(dtype))
        for key, value in other.state[x].items():
            assert_same(opt.state[w][key], value if key == "step" else value.to(dtype))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("function", BUILT_IN)
def test_tiny_half_precision_gradients_are_enlarged_not_lost(function, dtype):
    w = torch.zeros(3, dtype=dtype, requires_grad=True)
    opt = gaf.SGD([w], lr=1.0, activation=f"{function}(0.1, 20)")
    w.grad = torch.tensor([1e-3, -2e-5, 6e-8]).to(dtype)
    opt.step()
    torch.testing.assert_close(w.detach(), -2 * w.grad, rtol=0.05, atol=0)


@pytest.mark.usefixtures("no_kernels")
# torch's fused SGD raises when only some of its parameters have a momentum buffer
@pytest.mark.parametrize("name", [name for name in EVERY if name != "activated:sgd-fused"])
def test_parameters_without_gradients_and_frozen_ones(name):
    model, judge = make_model(), make_model()
    opt = make(name, model.parameters())
    other = make(name, [judge[2].weight, judge[2].bias])
    for module in (model, judge):
        module[0].requires_grad_(False)
    before = snapshot(opt)
    opt.step()  # no gradient at all
    assert_same(snapshot(opt), before)
    for step in range(2):
        backward(model, step)
        backward(judge, step)
        opt.step()
        other.step()
    after = snapshot(opt)
    assert_same(after["params"][:2], before["params"][:2])
    assert_same(after["state"][:2], before["state"][:2])
    for key, value in snapshot(other).items():
        assert_same(after[key][2:], value)
    model[0].requires_grad_(True)  # thawed: its state begins now
    backward(model, 2)
    opt.step()
    assert all((p != q).any() for p, q in zip(parameters_of(opt), after["params"], strict=True))


@pytest.mark.parametrize("name", EVERY)
def test_zero_size_and_zero_dim_tensors(name):
    scalar = torch.tensor(0.5, requires_grad=True)
    vector = torch.tensor([0.5], requires_grad=True)
    empty = torch.zeros(0, 3, requires_grad=True)
    opt, other = make(name, [scalar, empty]), make(name, [vector])
    for step in range(3):
        scalar.grad = torch.tensor(0.1 * (step + 1))
        vector.grad = torch.tensor([0.1 * (step + 1)])
        empty.grad = torch.zeros(0, 3)
        opt.step()
        other.step()
    assert scalar.shape == ()
    assert empty.shape == (0, 3)
    assert_same(scalar.detach(), vector.detach()[0])


@pytest.mark.parametrize("name", EVERY)
def test_channels_last_parameters_keep_their_strides(name):
    def conv(memory_format):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            module = nn.Conv2d(4, 6, 3)
        return module.to(memory_format=memory_format)

    last, first = conv(torch.channels_last), conv(torch.contiguous_format)
    opt, other = make(name, last.parameters()), make(name, first.parameters())
    strides = last.weight.stride()
    assert strides != first.weight.stride()
    for step in range(3):
        g = 0.1 * torch.randn(6, 4, 3, 3, generator=torch.Generator().manual_seed(step))
        last.weight.grad = g.to(memory_format=torch.channels_last)
        first.weight.grad = g.clone()
        for module in (last, first):
            module.bias.grad = g[:, 0, 0, 0].clone()
        opt.step()
        other.step()
    assert last.weight.stride() == strides
    assert_same(snapshot(opt)["params"], snapshot(other)["params"])


@pytest.mark.usefixtures("no_kernels")
# torch's fused kernels on the CPU write memory in order, whatever the strides
@pytest.mark.parametrize("name", [name for name in EVERY if not name.endswith("fused")])
def test_parameters_that_are_views_with_strides(name):
    base = torch.randn(6, 8, generator=torch.Generator().manual_seed(0))
    around = base.clone()
    strided = base.t()[::2].requires_grad_()  # neither contiguous nor dense
    plain = strided.detach().clone(memory_format=torch.contiguous_format).requires_grad_()
    opt, other = make(name, [strided]), make(name, [plain])
    for step in range(3):
        g = 0.1 * torch.randn(4, 6, generator=torch.Generator().manual_seed(step))
        strided.grad = g.t().contiguous().t()  # strides of its own
        plain.grad = g.clone()
        opt.step()
        other.step()
    assert strided.stride() == base.t()[::2].stride()
    assert_same(strided.detach().contiguous(), plain.detach())
    assert_same(base.t()[1::2].contiguous(), around.t()[1::2].contiguous())  # its neighbours


@pytest.mark.parametrize("hyper", SGD.values(), ids=SGD.keys())
def test_a_tensor_learning_rate(hyper):
    model, judge = make_model().double(), make_model().double()
    lr = torch.tensor([0.1], dtype=torch.float64)  # torch allows one element in any shape
    opt = gaf.SGD(model.parameters(), lr=lr, activation=F, **hyper)
    other = gaf.SGD(judge.parameters(), lr=0.1, activation=F, **hyper)
    for step in range(3):
        for m, o in ((model, opt), (judge, other)):
            m.zero_grad()
            generator = torch.Generator().manual_seed(step)
            x = torch.randn(8, 5, dtype=torch.float64, generator=generator)
            (m(x) ** 2).mean().backward()
            o.step()
        lr.mul_(0.5)  # in place, as a scheduler does
        other.param_groups[0]["lr"] *= 0.5
    for p, q in zip(model.parameters(), judge.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-12, atol=1e-12)


def test_tensors_of_several_dtypes_in_one_group():
    generator = torch.Generator().manual_seed(0)
    dtypes = [torch.float32, torch.float64, torch.bfloat16, torch.complex64, torch.float16]
    start = [torch.randn(5, dtype=d, generator=generator) for d in dtypes]
    grads = [0.1 * torch.randn(5, dtype=d, generator=generator) for d in dtypes]
    together = [w.clone().requires_grad_() for w in start]
    apart = [w.clone().requires_grad_() for w in start]
    hyper = {"lr": 0.1, "momentum": 0.9, "nesterov": True, "activation": F}
    opts = [gaf.SGD(together, foreach=True, **hyper)]
    opts += [gaf.SGD([w], foreach=False, **hyper) for w in apart]
    for _ in range(3):
        for params in (together, apart):
            for p, g in zip(params, grads, strict=True):
                p.grad = g.clone()
        for opt in opts:
            opt.step()
    assert_same([w.detach() for w in together], [w.detach() for w in apart])


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_nonfinite_gradient_stays_where_it_is(name, bad):
    w = torch.zeros(3, requires_grad=True)
    opt = make(f"ours:{name}", [w])
    w.grad = torch.tensor([0.1, bad, -0.1])
    opt.step()
    assert w[[0, 2]].isfinite().all()
    assert w.grad[1] != w.grad[1] if bad != bad else w.grad[1] == bad
    if bad != bad:
        assert w[1].isnan()


@pytest.mark.parametrize("kwargs", [{}, {"foreach": True}, {"foreach": False}])
@pytest.mark.parametrize("make", [gaf.SGD, gaf.Adam])
def test_a_lazy_conjugate_is_refused_as_in_torch(make, kwargs):
    """Its real and imaginary parts can be read from a copy only, and what is written there is lost."""
    w = torch.nn.Parameter(torch.ones(3, dtype=torch.complex64).conj())
    w.grad = torch.ones_like(w)
    with pytest.raises(RuntimeError, match="unresolved conjugated"):
        make([w], lr=0.1, activation="arctan", **kwargs).step()


@pytest.mark.parametrize("make", [gaf.SGD, gaf.Adam])
def test_a_lazy_negation_moves(make):
    stored = torch.complex(torch.zeros(3), torch.tensor([1.0, 2.0, 3.0]))
    lazy = torch.conj(stored).imag.detach()
    plain = lazy.clone()
    assert lazy.is_neg()
    for w in (lazy, plain):
        w.grad = torch.tensor([0.1, -0.2, 0.3])
        make([w], lr=0.1, activation="arctan").step()
    torch.testing.assert_close(lazy, plain)
    with pytest.raises(RuntimeError, match="lazy negation"):
        make([lazy], lr=0.1, activation="arctan", fused=True).step()
