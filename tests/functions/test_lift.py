"""One formula on every kind of tensor a gradient can be."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
import torch.distributed as dist

import gaf
from gaf.functions import PAPER, function_type
from tests.pairs import pairs_first

FUNCTIONS = (*(function_type(name)() for name in gaf.names()), gaf.Tanh() + gaf.Log())
# Here the kinds of tensors are what is tested: of the functions all but three are left to the slow suite.
THREE = tuple(family() for family in PAPER)
F = gaf.Arctan(0.1, 20.0)
METHODS = {
    "value": lambda f: f,
    "derivative": lambda f: f.derivative,
    "integral": lambda f: f.integral,
}


@pytest.fixture(
    params=[pytest.param(f, marks=() if f in THREE else pytest.mark.slow) for f in FUNCTIONS],
    ids=lambda f: f.name,
)
def f(request):
    return request.param


@pytest.fixture(params=METHODS)
def method(request, f):
    """f, f' or the integral, as a function of a tensor."""
    return METHODS[request.param](f)


def some(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(0))


# --- shape and memory ------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (5, 4)])
def test_any_shape(method, shape):
    g = some(*shape)
    y = method(g)
    assert y.shape == g.shape
    assert y.dtype == g.dtype
    one_by_one = torch.tensor([method(x) for x in g.flatten().tolist()]).reshape(shape)
    torch.testing.assert_close(y, one_by_one)


def test_non_contiguous(method):
    g = some(6, 8)
    for view in (g.t(), g[::2, 1::3], g[:, :1].expand(6, 5), g.flip(0)):
        torch.testing.assert_close(method(view), method(view.clone().contiguous()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64], ids=str)
def test_memory_format_is_kept(method, dtype):
    g = some(2, 3, 4, 5, dtype=dtype).to(memory_format=torch.channels_last)
    assert method(g).stride() == g.stride()
    assert method(g.permute(3, 0, 2, 1)).stride() == g.permute(3, 0, 2, 1).stride()


def test_the_argument_is_not_touched(method):
    g = some(7)
    before = g.clone()
    method(g)
    assert torch.equal(g, before)


def test_a_parameter_of_a_module(f):
    p = torch.nn.Parameter(some(3))
    assert torch.equal(f(p).detach(), f(p.detach()))


# --- dtypes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_is_computed_in_float32_and_rounded_once(method, dtype):
    g = some(1000).to(dtype)
    assert torch.equal(method(g), method(g.float()).to(dtype))
    assert method(g).dtype == dtype


@pytest.mark.parametrize("dtype", [torch.int8, torch.int64, torch.uint8, torch.bool], ids=str)
def test_integers_are_refused(method, dtype):
    with pytest.raises(TypeError, match=f"needs a float or complex tensor; got {dtype}"):
        method(torch.ones(3, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_complex_numbers_part_by_part(method, dtype):
    g = some(4, 6, dtype=dtype)
    views = (g, g.conj(), g.t(), g.conj().t(), g[::2, 1:4], g[:1].expand(3, 6), g[0, 0], g[:0])
    for z in views:
        y = method(z)
        assert y.dtype == dtype
        torch.testing.assert_close(y.real, method(z.real.clone()))
        torch.testing.assert_close(y.imag, method(z.imag.clone()))


def test_complex_half(method):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "ComplexHalf support is experimental")
        g = some(10, dtype=torch.complex64).to(torch.complex32)
        y = method(g)
        assert y.dtype == torch.complex32
        assert torch.equal(torch.view_as_real(y), method(torch.view_as_real(g)))


# --- sparse ----------------------------------------------------------------------------------


def uncoalesced(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A gradient of an embedding whose row 2 was looked up twice."""
    rows = torch.tensor([[2, 0, 2]])
    values = some(3, 4, dtype=dtype)
    return torch.sparse_coo_tensor(rows, values, (5, 4), check_invariants=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64], ids=str)
def test_sparse_is_summed_first_and_stays_sparse(f, dtype):
    g = uncoalesced(dtype)
    assert not g.is_coalesced()
    for function in (f, f.integral):
        y = function(g)
        assert y.layout == torch.sparse_coo
        assert y.is_coalesced()
        assert y._nnz() == 2
        assert torch.equal(y.to_dense(), function(g.to_dense()))
    adds_up = torch.allclose(  # f of the sum is not the sum of f
        f(g).to_dense()[2], f(g._values())[0] + f(g._values())[2], rtol=0.01
    )
    assert adds_up == isinstance(f, gaf.Line)


def test_sparse_scalars_and_nothing():
    empty = torch.sparse_coo_tensor(torch.zeros(1, 0), torch.zeros(0), (3,), check_invariants=True)
    assert F(empty)._nnz() == 0
    indices = torch.tensor([[0, 1], [1, 0]])
    g = torch.sparse_coo_tensor(indices, torch.tensor([0.5, -3.0]), (2, 2), check_invariants=True)
    assert torch.equal(F(g).to_dense(), F(g.to_dense()))


def test_sparse_gives_no_warning_of_its_own():
    g = uncoalesced()
    with warnings.catch_warnings(), torch.sparse.check_sparse_tensor_invariants(False):
        warnings.simplefilter("error")
        F(g)


def test_the_derivative_of_a_sparse_tensor_is_refused(f):
    with pytest.raises(
        TypeError, match=r"f'\(0\) is not 0, so f' of a sparse tensor is not sparse"
    ):
        f.derivative(uncoalesced())


def test_other_layouts_are_refused(method):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        g = torch.eye(3).to_sparse_csr()
    with pytest.raises(TypeError, match="dense or sparse COO tensors; got layout"):
        method(g)


# --- autograd --------------------------------------------------------------------------------

ORDINARY = (0.0, -0.0, 5e-324, 1e-310, -1e-200, 1e-30, 1e-9, -1e-3, 0.03, -0.05, 0.5, -3.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_autograd_agrees_with_the_derivative(f, dtype):
    g = torch.tensor(ORDINARY, dtype=dtype, requires_grad=True)
    (slope,) = torch.autograd.grad(f(g).sum(), g)
    tolerance = 200 * torch.finfo(dtype).eps  # tanh: 1 - tanh^2 at beta g = 1, against 1 / cosh^2
    expected = f.derivative(g.detach())
    expected[expected.isinf()] = 0  # where f jumps, autograd gives 0
    torch.testing.assert_close(slope[:-2], expected[:-2], rtol=tolerance, atol=0)
    torch.testing.assert_close(slope, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_autograd_of_the_integral_is_f(f, dtype):
    g = torch.tensor(ORDINARY, dtype=dtype, requires_grad=True)
    (value,) = torch.autograd.grad(f.integral(g).sum(), g)
    least = 5e-324 * len(f.terms)  # each is rounded to a subnormal number
    torch.testing.assert_close(value, f(g.detach()), rtol=1e4 * torch.finfo(dtype).eps, atol=least)


def test_autograd_at_zero_gives_the_slope(f):
    for zero in (0.0, -0.0):
        g = torch.tensor(zero, requires_grad=True)
        (slope,) = torch.autograd.grad(f(g), g)
        expected = 0 if math.isinf(f.slope) else f.slope  # where f jumps, autograd gives 0
        assert slope.item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.complex64], ids=str)
def test_autograd_on_other_dtypes(f, dtype):
    g = some(20, dtype=dtype).requires_grad_()
    (slope,) = torch.autograd.grad(f(g).abs().sum(), g)
    assert slope.dtype == dtype
    assert (
        torch.view_as_real(slope).isfinite().all() if dtype.is_complex else slope.isfinite().all()
    )


# --- torch.compile ---------------------------------------------------------------------------


@pytest.mark.slow
def test_every_formula_compiles():
    torch.compiler.reset()
    g = torch.cat((some(50), torch.tensor([0.0, -0.0, math.inf, math.nan, 1e-40])))

    def all_at_once(g):
        return [method(f)(g) for f in FUNCTIONS for method in METHODS.values()]

    compiled = torch.compile(all_at_once, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(g), all_at_once(g), rtol=0, atol=0, equal_nan=True)


@pairs_first("f", "method", f=THREE, method=list(METHODS), dtype=[torch.float32, torch.bfloat16])
def test_compile_agrees(method, dtype):
    torch.compiler.reset()
    g = torch.cat((some(50), torch.tensor([0.0, -0.0, math.inf, math.nan, 1e-40]))).to(dtype)
    compiled = torch.compile(method, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(g), method(g), rtol=0, atol=0, equal_nan=True)


def test_compile_with_gradients(f):
    torch.compiler.reset()
    g = some(50).requires_grad_()
    compiled = torch.compile(f, backend="aot_eager", fullgraph=True)
    (slope,) = torch.autograd.grad(compiled(g).sum(), g)
    (expected,) = torch.autograd.grad(f(g).sum(), g)
    assert torch.equal(slope, expected)


# --- DTensor ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mesh():
    """A mesh of this process alone."""
    if dist.is_initialized():
        pytest.skip("a process group is in use")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist.init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


@pytest.mark.parametrize("placement", ["shard", "replicate"])
def test_dtensor_acts_on_the_local_shard(mesh, method, placement):
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

    where = [Shard(0) if placement == "shard" else Replicate()]
    g = distribute_tensor(some(4, 6).t(), mesh, where)
    y = method(g)
    assert isinstance(y, DTensor)
    assert (y.placements, y.device_mesh, y.shape) == (g.placements, g.device_mesh, g.shape)
    assert y.stride() == g.stride()
    assert torch.equal(y.to_local(), method(g.to_local()))
    # Another order in memory may be served by another loop of torch's, which differs in the last bits.
    torch.testing.assert_close(y.full_tensor(), method(some(4, 6).t()), rtol=1e-6, atol=1e-40)


def test_dtensor_shard_may_be_empty(mesh, method):
    from torch.distributed.tensor import Shard, distribute_tensor

    g = distribute_tensor(some(0, 3), mesh, [Shard(0)])
    assert method(g).shape == (0, 3)


def test_dtensor_with_a_pending_sum_is_refused(mesh, method):
    from torch.distributed.tensor import DTensor, Partial

    g = DTensor.from_local(some(3), mesh, [Partial()])
    with pytest.raises(ValueError, match=r"Partial placement is a sum still to be made"):
        method(g)


def test_dtensor_autograd(mesh, f):
    from torch.distributed.tensor import Shard, distribute_tensor

    g = distribute_tensor(some(4, 2), mesh, [Shard(0)]).requires_grad_()
    f(g).sum().backward()
    assert g.grad is not None
    x = some(4, 2).requires_grad_()
    f(x).sum().backward()
    assert torch.equal(g.grad.full_tensor(), x.grad)
