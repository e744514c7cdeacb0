"""How a step finds its tensors in memory: by one call in C or by torch's methods, with the same result."""

from __future__ import annotations

import copy
import math
import struct

import pytest
import torch

import gaf
from gaf.kernels import layout, native
from gaf.optim.adapt import spacing

if not native.INSTRUCTION_SETS:
    pytest.skip("the native kernels were not built", allow_module_level=True)

WAYS = ["table", "methods"] if native._TABLE else ["methods"]


@pytest.fixture(params=WAYS)
def way(request, monkeypatch) -> str:
    """By DLPack's table, and as on a torch that has none."""
    if request.param == "methods":
        monkeypatch.setattr(native, "_TABLE", None)
    return request.param


class Own(torch.Tensor):
    """A subclass, which may have no memory of its own."""


def negation(n):
    return torch.conj(torch.complex(torch.zeros(n), torch.ones(n))).imag


def lists_of(shape=(4, 6), order=None, **kwargs):
    """A parameter, its gradient and a state, all of one kind."""
    made = [torch.randn(shape).to(**kwargs) for _ in range(3)]
    return [[order(t)] if order else [t] for t in made]


def beside(*tensors):
    """Lists of two: plain tensors, and a row of ``tensors``."""
    return [[torch.ones(2), t] for t in tensors]


def channels_last(t):
    return t.contiguous(memory_format=torch.channels_last)


def block(begin, end):
    return MEMORY[begin:end]


MEMORY = torch.arange(40.0)

USUAL = {
    "one": lambda: lists_of((1,)),
    "scalar": lambda: lists_of(()),
    "matrix": lists_of,
    "float64": lambda: lists_of(dtype=torch.float64),
    "bfloat16": lambda: lists_of(dtype=torch.bfloat16),
    "float16": lambda: lists_of(dtype=torch.float16),
    "parameter": lambda: [[torch.nn.Parameter(torch.ones(3))], [torch.ones(3)], [torch.ones(3)]],
    "result": lambda: [[(torch.ones(3).requires_grad_() * 2)], [torch.ones(3)], [torch.ones(3)]],
    "empty": lambda: beside(*(torch.zeros(0, 3) for _ in range(3))),
    "views": lambda: beside(block(0, 7), block(7, 14), block(14, 21)),
    "channels last": lambda: lists_of((2, 3, 4, 5), channels_last),
    "transposed": lambda: lists_of((4, 6), torch.t),
    "any stride of a size 1": lambda: [
        [torch.ones(3, 1)],
        [torch.ones(6)[::2].contiguous()[:, None]],
        [torch.ones(1, 3).t()],
    ],
    "no state": lambda: [[torch.ones(2)], [torch.ones(2)], [None]],
    "shared gradient": lambda: [[block(0, 5), block(10, 15)], [block(20, 25)] * 2],
    "overlapping parameters": lambda: [[block(0, 5), block(2, 7)], [block(20, 25), block(30, 35)]],
    "gradient alone": lambda: [[block(0, 5), block(3, 9)]],
    "tangled": lambda: beside(block(0, 5), block(4, 9)),
    "state in its parameter": lambda: beside(block(0, 5), block(10, 15), block(1, 6)),
    "the same": lambda: beside(block(0, 5), block(0, 5)),
}

UNUSUAL = {
    "two types": lambda: [[torch.ones(2), torch.ones(2).double()] for _ in range(2)],
    "types in a row": lambda: [[torch.ones(2)], [torch.ones(2).double()]],
    "whole numbers": lambda: lists_of(dtype=torch.int32),
    "complex": lambda: lists_of(dtype=torch.complex64),
    "float8": lambda: lists_of(dtype=torch.float8_e4m3fn),
    "one state missing": lambda: [
        [torch.ones(2)] * 2,
        [torch.ones(3)[1:]] * 2,
        [None, torch.zeros(2)],
    ],
    "shapes": lambda: beside(torch.ones(3, 4), torch.ones(3, 4), torch.ones(4, 3)),
    "dimensions": lambda: beside(torch.ones(1), torch.ones(())),
    "sizes": lambda: beside(torch.ones(3), torch.ones(3), torch.ones(2)),
    "orders": lambda: beside(torch.ones(4, 4), torch.ones(4, 4).t()),
    "orders of four": lambda: beside(torch.ones(2, 3, 4, 5), channels_last(torch.ones(2, 3, 4, 5))),
    "gaps": lambda: lists_of((4, 6), lambda t: t[:, ::2]),
    "repeated elements": lambda: lists_of((1, 6), lambda t: t.expand(4, 6)),
    "subclass": lambda: beside(torch.ones(2), torch.ones(2).as_subclass(Own)),
    "negated gradient": lambda: beside(torch.ones(1), negation(1)),
    "negated parameter": lambda: beside(negation(1), torch.ones(1)),
    "negated state": lambda: beside(torch.ones(1), torch.ones(1), negation(1)),
    "negated view": lambda: beside(torch.ones(3), torch._neg_view(torch.ones(3))),
    "zeros of autograd": lambda: beside(torch.ones(2), torch._efficientzerotensor((2,))),
    "sparse": lambda: beside(torch.ones(2), torch.ones(2).to_sparse()),
    "compressed": lambda: beside(torch.ones(2, 2), torch.eye(2).to_sparse_csr()),
    "no memory": lambda: beside(torch.ones(2), torch.ones(2, device="meta")),
}


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.skipif(not native._TABLE, reason="this torch has no table of DLPack's")
@pytest.mark.parametrize("case", [*USUAL, *UNUSUAL])
def test_both_ways_find_the_same(case):
    lists = tuple({**USUAL, **UNUSUAL}[case]())
    by_table = native._native.look(native._TABLE, native.PLAIN, torch.Tensor.is_neg, lists)
    assert (by_table is None) == (case in UNUSUAL)
    found, expected = native._look(lists), layout.look(lists)
    if isinstance(expected, str):
        assert found == expected
        return
    assert [(b.kind, b.sizes, b.members) for b in found] == [
        (b.kind, b.sizes, b.members) for b in expected
    ]
    for batch, other in zip(found, expected, strict=True):
        count = len(batch.sizes) // 8
        sizes = struct.unpack(f"{count}q", batch.sizes)
        for places, others in zip(batch.addresses, other.addresses, strict=True):
            assert (places is None) == (others is None)
            if places is not None:
                pairs = zip(*(struct.unpack(f"{count}q", x) for x in (places, others)), strict=True)
                # an empty tensor may lie anywhere
                assert all(a == b or not n for (a, b), n in zip(pairs, sizes, strict=True))


TANGLED = ("tangled", "state in its parameter", "the same")


@pytest.mark.parametrize("case", [*USUAL, *UNUSUAL])
def test_what_is_served(way, case):
    served = [*(name for name in USUAL if name not in TANGLED), "two types", "one state missing"]
    found = native.refusal("arctan", *({**USUAL, **UNUSUAL}[case]()))
    assert (found is None) == (case in served), found
    assert (found == layout.TANGLED) == (case in TANGLED)


def test_a_table_of_another_version_is_not_used():
    assert not native._native.can_look(None)
    assert not native._native.can_look(3)
    with pytest.raises(ValueError, match="nothing to look by"):
        native._native.look(None, native.PLAIN, torch.Tensor.is_neg, ([torch.ones(1)],))


KINDS = {
    "sgd": lambda params, **how: gaf.SGD(params, lr=0.1, activation="tanh", **how),
    "momentum": lambda params, **how: gaf.SGD(
        params, lr=0.1, momentum=0.9, weight_decay=0.1, activation="arctan(0.5, 3)", **how
    ),
    "adam": lambda params, **how: gaf.Adam(params, lr=0.1, activation="log", **how),
    "amsgrad": lambda params, **how: gaf.AdamW(
        params, lr=0.1, amsgrad=True, activation="arctan", placement="momentum", **how
    ),
    "auto": lambda params, **how: gaf.SGD(params, lr=0.1, activation=gaf.Auto(), **how),
}


@pytest.mark.parametrize("scale", [None, 2.0**10])
@pytest.mark.parametrize("dtypes", [*((dtype,) for dtype in layout.TYPES), tuple(layout.TYPES)])
@pytest.mark.parametrize("kind", KINDS)
def test_steps(way, kind, dtypes, scale):
    """Over tensors of any shape, of one type or of all at once: fused and one by one."""
    ends = []
    for how in ({"fused": True}, {"foreach": False}):
        generator = torch.Generator().manual_seed(0)
        shapes = [(), (1,), (0,), (7, 3), (2, 3, 4, 5), (1003,)] * len(dtypes)
        params = [
            torch.randn(shape, generator=generator).to(dtypes[i % len(dtypes)])
            for i, shape in enumerate(shapes)
        ]
        params[4] = channels_last(params[4])
        opt = KINDS[kind](params, **how)
        for _ in range(4):
            for p in params:
                g = torch.randn(p.shape, generator=generator).to(p)
                p.grad = torch.empty_like(p).copy_(
                    g if scale is None or "foreach" in how else g * scale
                )
            if scale is not None and "fused" in how:
                opt.grad_scale, opt.found_inf = torch.tensor(scale), torch.tensor(0.0)
            opt.step()
        ends.append(params)
    for ours, reference in zip(*ends, strict=True):
        eps = 4 * torch.finfo(ours.dtype).eps
        torch.testing.assert_close(ours, reference, rtol=max(1e-5, eps), atol=max(1e-6, eps))


def parameters():
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(4, 4, generator=generator).requires_grad_() for _ in range(3)]


def set_gradients(params, step):
    generator = torch.Generator().manual_seed(step)
    for p in params:
        p.grad = torch.randn(4, 4, generator=generator).to(p.dtype)


def new_state(opt, params):
    for p in params:
        for key, value in opt.state[p].items():
            if value.ndim:
                opt.state[p][key] = value * 0.5


def new_memory(opt, params):
    params[1].data = params[1].data.clone()


def transposed_in_place(opt, params):
    params[1].data = params[1].data.t()


def state_transposed_in_place(opt, params):
    for value in opt.state[params[1]].values():
        if value.ndim:
            value.t_()


def gradient_in_another_order(opt, params):
    params[1].grad = params[1].grad.t().contiguous().t()


def gradient_missing(opt, params):
    params[0].grad = None


def gradient_is_a_negation(opt, params):
    x = torch.complex(torch.zeros(4, 4), params[1].grad.clone())
    params[1].grad = torch.conj(x).imag


def state_cleared(opt, params):
    opt.state[params[1]].clear()


def everything_loaded(opt, params):
    opt.load_state_dict(copy.deepcopy(opt.state_dict()))


def one_parameter_less(opt, params):
    del opt.param_groups[0]["params"][1]


def two_swapped(opt, params):
    group = opt.param_groups[0]
    group["params"] = [group["params"][i] for i in (1, 0, 2)]


def another_group(opt, params):
    opt.add_param_group({"params": [torch.ones(2, requires_grad=True)], "activation": "tanh"})
    opt.param_groups[-1]["params"][0].grad = torch.full((2,), 0.3)


def another_type(opt, params):
    for p in params:
        p.grad = None
        p.data = p.data.double()
        p.grad = torch.full_like(p, 0.3)
    state_cleared_everywhere(opt, params)


def state_cleared_everywhere(opt, params):
    for p in params:
        opt.state[p].clear()


def an_empty_one(opt, params):
    p = torch.nn.Parameter(torch.ones(0, 2))
    p.grad = torch.ones(0, 2)
    opt.param_groups[0]["params"].append(p)


def a_subclass(opt, params):
    params[1].data = params[1].data.as_subclass(Own)
    params[1].grad = params[1].grad.as_subclass(Own)


def gradient_kept(opt, params):
    params[1].grad.mul_(2)


CHANGES = [
    *(new_state, new_memory, transposed_in_place, gradient_in_another_order, gradient_missing),
    *(gradient_is_a_negation, state_cleared, everything_loaded, one_parameter_less, two_swapped),
    *(another_group, gradient_kept, state_transposed_in_place),
    *(another_type, state_cleared_everywhere, an_empty_one, a_subclass),
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    ("kind", "kwargs"),
    [
        (gaf.SGD, {"momentum": 0.9, "weight_decay": 0.1}),
        (gaf.SGD, {}),
        (gaf.Adam, {"amsgrad": True}),
    ],
    ids=["momentum", "plain", "adam"],
)
def test_a_change_between_steps_is_seen(way, kind, kwargs, change):
    trained = []
    for how in ({"fused": None, "foreach": None}, {"foreach": False}):
        params = parameters()
        opt = kind(params, lr=0.1, activation="arctan(0.5, 3)", **kwargs, **how)
        for step in range(3):
            set_gradients(params, step)
            opt.step()
        set_gradients(params, 3)
        change(opt, params)
        opt.step()
        set_gradients(params, 4)
        opt.step()
        trained.append((params, opt))
    (ours, _), (reference, _) = trained
    for a, b in zip(ours, reference, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_a_sparse_gradient_after_dense_ones(way):
    """Sparse gradients have no address: they fall back, as they do in the first step."""
    trained = []
    for how in ({}, {"foreach": False}):
        w = torch.ones(4, 2, requires_grad=True)
        opt = gaf.SGD([w], lr=0.1, activation="arctan", **how)
        for grad in (torch.ones(4, 2), torch.ones(4, 2).to_sparse(), torch.ones(4, 2)):
            w.grad = grad
            opt.step()
        trained.append(w.detach())
    torch.testing.assert_close(*trained)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", native.TYPES, ids=str)
def test_sampled_quantiles_are_those_of_the_sample(way, dtype, threads):
    """To the bit, by one thread or two, whatever is 0 or not finite."""
    torch.manual_seed(0)
    sizes = [1, 3, 64, 1000, 4099, *(10 + i for i in range(90))]
    ws = [torch.zeros(size, dtype=dtype) for size in sizes]
    gs = [torch.randn(size).to(dtype) for size in sizes]
    gs[2][::3], gs[3][:5] = 0, math.nan
    gs[4][7] = math.inf
    before = torch.get_num_threads()
    (batch,) = native.look("arctan", ws, gs, [None] * len(ws))
    torch.set_num_threads(threads)
    try:
        found = native.sampled_quantiles(batch, spacing, 0.5, 3.0)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found, native.quantiles(native.sample(gs, spacing) / 3.0, 0.5))


def test_a_shorter_view_at_the_same_address_is_not_written_beyond_its_end(way):
    p = torch.nn.Parameter(torch.arange(10.0))
    opt = gaf.SGD([p], lr=1.0, activation="arctan(1, 1)")
    for _ in range(2):
        p.grad = torch.ones(10)
        opt.step()
    whole = p.data
    p.data = whole[:5]
    before = whole.clone()
    with pytest.raises(RuntimeError, match="size"):
        opt.step()
    assert torch.equal(whole[5:], before[5:])


def test_a_sample_is_taken_by_the_sizes_of_this_step(way, monkeypatch):
    """A pruned parameter whose velocity was not: an error, and nothing is read beyond the gradient."""
    read = []
    sampled = native.sampled_quantiles
    monkeypatch.setattr(
        native,
        "sampled_quantiles",
        lambda batch, *rest: (read.append(batch.sizes), sampled(batch, *rest))[1],
    )
    p = torch.nn.Parameter(torch.randn(4000))
    opt = gaf.SGD([p], lr=0.1, momentum=0.9, activation=gaf.Auto(), placement="gradient")
    for _ in range(2):
        p.grad = torch.randn_like(p)
        opt.step()
    assert read
    assert set(read) == {layout.integers([4000])}
    read.clear()
    p.data = torch.randn(10)
    p.grad = torch.randn(10)
    with pytest.raises(RuntimeError, match="size"):
        opt.step()
    assert set(read) == {layout.integers([10])}
