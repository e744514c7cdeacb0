"""Which elements gaf.Auto looks at, of any kind of tensor, and the quantile of them."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import gaf
from gaf.kernels import native
from gaf.optim import adapt
from tests.optim.helpers import AUTOS, assert_same, backward, make, make_model, snapshot, train

HYPER = {"momentum": 0.9, "weight_decay": 0.1, "dampening": 0.3}


@pytest.mark.parametrize("elements", [1, 2, 255, 256, 257, 512 * 512, 64 * 9 * 64])
def test_the_sample_is_spread(elements):
    step = adapt.spacing(elements)
    assert math.gcd(step, elements) == 1
    assert min(elements, 128) <= len(range(0, elements, step)) <= adapt.SAMPLE


def test_zeros_inf_and_nan_are_no_magnitudes():
    w = torch.ones(8)
    opt = gaf.SGD([w], lr=0.1, activation=gaf.Auto(decay=0.0), fused=True)
    w.grad = torch.tensor([0.0, 0.0, 0.0, 0.0, 0.0, 2.0, torch.inf, torch.nan])
    opt.step()
    assert opt.state[w]["gaf_auto"][1].exp() == pytest.approx(2.0)
    before = opt.state[w]["gaf_auto"].clone()
    w.grad = torch.zeros(8)
    opt.step()
    assert torch.equal(opt.state[w]["gaf_auto"], before)
    assert torch.isfinite(w[:7]).all()


def awkward(shape, dtype, seed):
    """Numbers over many decades, with zeros, inf and NaN among them."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    x = (x.pow(5) * 1e-3).to(dtype)
    flat = x.view(-1)
    for at, value in enumerate((0.0, -0.0, math.inf, -math.inf, math.nan)):
        flat[at + 1 :: 11 + at] = value
    return x


@pytest.mark.parametrize("quantile", [0.01, 0.29, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("dtype", native.TYPES)
def test_the_native_sample_and_quantile_are_torchs_to_the_bit(dtype, quantile):
    shapes = [
        (0,),
        (),
        (1,),
        (2,),
        (13,),
        (255,),
        (256,),
        (257,),
        (31, 17),
        (8, 3, 5, 5),
        (40, 1000),
    ]
    tensors = [awkward(shape, dtype, seed) for seed, shape in enumerate(shapes)]
    tensors += [torch.zeros(9, dtype=dtype), torch.full((300,), math.nan, dtype=dtype)]
    tensors += [tensors[9].contiguous(memory_format=torch.channels_last), tensors[8].t()]
    rows = adapt._sampled((tensors,), None, 0)
    quick = native.sample(tensors, adapt.spacing)
    assert torch.equal(rows.nan_to_num(nan=-1.0), quick.nan_to_num(nan=-1.0))
    found = adapt._quantile(rows, quantile)
    assert torch.equal(found, native.quantiles(quick, quantile))
    assert (found > 0).sum() > 8
    assert found[0] == found[11] == found[12] == 0  # nothing there but 0 and NaN


@pytest.mark.parametrize("placement", gaf.PLACEMENTS)
def test_without_native_kernels_it_ends_at_the_same_bits(placement, monkeypatch):
    ends = []
    for there in (native._native, None):
        monkeypatch.setattr(native, "_native", there)
        model = make_model()
        told = {"activation": "auto", "placement": placement, "foreach": True, **HYPER}
        opt = gaf.SGD(model.parameters(), 0.1, **told)
        train(model, opt, 5)
        ends.append(snapshot(opt))
    assert_same(*ends)


@pytest.mark.parametrize("placement", gaf.PLACEMENTS)
@pytest.mark.parametrize("late", [0, 1])
def test_a_tensor_that_begins_later_does_not_disturb_the_others(late, placement):
    def trained(sizes, late=None):
        params = [nn.Parameter(torch.linspace(-1, 1, n)) for n in sizes]
        told = {"activation": "auto", "placement": placement, **HYPER}
        opt = gaf.SGD(params, 0.1, **told)
        for step in range(4):
            for i, p in enumerate(params):
                p.grad = None if i == late and step < 2 else torch.cos(p.detach() * (step + 1))
            opt.step()
        return params

    sizes = [300, 5]
    both, alone = trained(sizes, late), trained([sizes[1 - late]])
    assert_same(both[1 - late].data, alone[0].data)
    assert not torch.equal(both[late], torch.linspace(-1, 1, sizes[late]))


def test_no_random_number_is_drawn():
    model = make_model()
    opt = make("ours:sgd-momentum", model.parameters(), "auto")
    backward(model, 0)
    before = torch.get_rng_state()
    opt.step()
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.complex64])
@pytest.mark.parametrize("placement", gaf.PLACEMENTS)
@pytest.mark.parametrize("auto", AUTOS)
def test_other_types(auto, dtype, placement):
    w = torch.ones(2, 3, dtype=dtype)
    opt = gaf.SGD([w], lr=0.1, momentum=0.9, activation=auto, placement=placement)
    for _ in range(2):
        w.grad = torch.full_like(w, 1e-3)
        opt.step()
    assert w.dtype == dtype
    assert (w.real if dtype.is_complex else w)[0, 0] < 1


def test_a_vector_moves_by_shares_of_a_tenth():
    """The ones of a gain and the zeros of a bias do not tell how far it should move."""
    gain, bias, matrix = torch.ones(6), torch.zeros(6), torch.ones(2, 3)
    opt = gaf.SGD([gain, bias, matrix], lr=0.3, activation=gaf.Auto(step=0.01))
    for p in (gain, bias, matrix):
        p.grad = torch.full_like(p, 7.0)
    opt.step()
    moved = 0.01 * math.pi / 4  # arctan of the median itself
    torch.testing.assert_close(1 - gain, torch.full((6,), 0.1 * moved), rtol=1e-4, atol=0)
    torch.testing.assert_close(-bias, torch.full((6,), 0.1 * moved), rtol=1e-4, atol=0)
    torch.testing.assert_close(1 - matrix, torch.full((2, 3), moved), rtol=1e-4, atol=0)


def test_sparse_gradients():
    def run(placement):
        table = nn.Embedding(5, 3, sparse=True)
        opt = gaf.SGD(table.parameters(), lr=0.1, activation=gaf.Auto(), placement=placement)
        table(torch.tensor([1, 3])).sum().backward()
        opt.step()

    run("gradient")
    with pytest.raises(ValueError, match="sparse"):
        run("update")


def test_channels_last_is_sampled_without_a_copy():
    w = torch.randn(8, 4, 3, 3).to(memory_format=torch.channels_last)
    assert adapt._numbers(w, w).data_ptr() == w.data_ptr()


@pytest.mark.parametrize("last", ["weight", "gradient"])
def test_weight_and_gradient_are_sampled_at_the_same_places(last):
    """Where one of them alone lies channels last."""
    plain = torch.randn(8, 4, 3, 3)
    other = plain.to(memory_format=torch.channels_last)
    w, g = (other, plain) if last == "weight" else (plain, other)
    assert torch.equal(adapt._numbers(g, w), adapt._numbers(w, w))
