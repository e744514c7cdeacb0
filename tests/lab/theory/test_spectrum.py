"""Lanczos against dense matrices, small and large, and what it refuses."""

import time

import pytest
import torch
from torch import nn

import gaf
from gaf.lab.theory.learning import digits_loss, small_network, train
from gaf.lab.theory.spectrum import HessianProduct, spectrum

FUNCTIONS = ["arctan(0.1, 20)", "tanh(0.01, 500)", "log(0.1, 20)"]


def dense(loss, parameters):
    """The gradient and the Hessian, row by row."""
    parameters = list(parameters)
    gradient = torch.cat(
        [g.flatten() for g in torch.autograd.grad(loss(), parameters, create_graph=True)]
    )
    rows = [
        torch.cat([x.flatten() for x in torch.autograd.grad(g, parameters, retain_graph=True)])
        for g in gradient
    ]
    return gradient.detach(), torch.stack(rows)


@pytest.fixture(scope="module")
def network():
    """A small network that has trained a little, its loss, gradient and Hessian."""
    model = small_network(4)
    loss = digits_loss(model)
    train(model, loss, 20, lr=0.5)
    return model, loss, *dense(loss, model.parameters())


def test_products_are_those_of_the_matrix(network):
    model, loss, gradient, hessian = network
    product = HessianProduct(loss, model.parameters())
    v = torch.linspace(-1, 1, len(gradient), dtype=torch.float64)
    torch.testing.assert_close(product.gradient, gradient)
    torch.testing.assert_close(product(v), hessian @ v, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_extremes_are_those_of_a_dense_eigendecomposition(network, name):
    model, loss, gradient, hessian = network
    found = spectrum(loss, model.parameters(), name)
    d = gaf.parse(name).derivative(gradient)
    plain = torch.linalg.eigvalsh((hessian + hessian.T) / 2)
    root = d.sqrt()
    inner = torch.linalg.eigvalsh(root[:, None] * ((hessian + hessian.T) / 2) * root)
    expected = {
        "smallest": plain[0].item(),
        "largest": plain[-1].item(),
        "activated_smallest": inner[0].item(),
        "activated_largest": inner[-1].item(),
        "activated_lipschitz": torch.linalg.matrix_norm(d[:, None] * hessian, ord=2).item(),
        "lipschitz": plain.abs().max().item(),
    }
    for key, value in expected.items():
        assert getattr(found, key) == pytest.approx(value, rel=1e-4), key  # seen: below 1e-7
    assert found.parameters == len(gradient)
    assert expected["smallest"] < 0 < expected["largest"]


def test_the_three_differ(network):
    """So that one formula cannot stand in for another in the test above."""
    model, loss, *_ = network
    found = spectrum(loss, model.parameters(), "arctan(0.01, 500)")
    values = (found.largest, found.activated_largest, found.activated_lipschitz)
    assert len({round(value, 3) for value in values}) == 3


def test_without_a_function_nothing_changes(network):
    model, loss, *_ = network
    found = spectrum(loss, model.parameters())
    assert found.activated_largest == pytest.approx(found.largest, rel=1e-6)
    assert found.activated_lipschitz == pytest.approx(found.lipschitz, rel=1e-6)


def test_single_precision(network):
    model, _, _, hessian = network
    single = small_network(4).float()
    single.load_state_dict(model.state_dict())
    found = spectrum(digits_loss(single), single.parameters(), "arctan(0.1, 20)")
    assert found.largest == pytest.approx(torch.linalg.eigvalsh(hessian)[-1].item(), rel=1e-3)


def test_parameters_that_the_loss_does_not_bend_in():
    """One without a gradient, and one in which the loss is linear, have rows of zeros."""
    w = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64, requires_grad=True)
    idle = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    line = torch.ones(2, dtype=torch.float64, requires_grad=True)
    scale = torch.tensor([1.0, 2.0, 3.0, -4.0], dtype=torch.float64)
    found = spectrum(lambda: (scale * w**2).sum() / 2 + line.sum(), [w, idle, line])
    assert (found.parameters, found.smallest, found.largest) == (
        8,
        pytest.approx(-4),
        pytest.approx(3),
    )


@pytest.mark.parametrize(
    ("loss", "says"),
    [
        (lambda w: w**2, r"one number .* got shape \(3,\)"),
        (lambda w: 1.0, "one number .* got float"),
        (lambda w: w.sum(), "linear in its parameters"),
    ],
)
def test_bad_input_is_one_sentence(loss, says):
    w = torch.ones(3, requires_grad=True)
    with pytest.raises(ValueError, match=says) as error:
        spectrum(lambda: loss(w), [w])
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="no parameters that require a gradient"):
        spectrum(lambda: w.sum(), [w.detach()])


@pytest.mark.slow
def test_a_million_parameters(capsys):
    """Against power iteration, which needs no dense matrix either; the time is printed."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(64, 1000), nn.Tanh(), nn.Linear(1000, 950), nn.Tanh(), nn.Linear(950, 10)
    )
    loss = digits_loss(model, samples=64)
    begin = time.perf_counter()
    found = spectrum(loss, model.parameters(), "arctan(0.1, 20)")
    took = time.perf_counter() - begin
    with capsys.disabled():
        print(
            f"\nspectrum of {found.parameters:,} parameters: {took:.1f} s, {found.products} products"
        )
    assert found.parameters > 1_000_000
    assert took < 300  # generous: a busy machine
    product = HessianProduct(loss, model.parameters())
    v = torch.randn(found.parameters, generator=torch.Generator().manual_seed(1))
    for _ in range(30):  # power iteration comes to ℓ from below, slowly
        v = product(v / v.norm())
    assert 1 - 1e-3 < found.lipschitz / v.norm().item() < 1.05  # seen: 1.03
    slope = gaf.Arctan(0.1, 20.0).derivative(product.gradient)
    assert found.activated_lipschitz <= slope.max().item() * found.lipschitz * (1 + 1e-3)
    assert found.smallest <= found.largest
