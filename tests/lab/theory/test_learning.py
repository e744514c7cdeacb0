"""Losses people meet: what their names promise."""

import pytest
import torch

from gaf.lab.theory.learning import (
    ExplodingRNN,
    deep_sigmoid,
    digits,
    digits_loss,
    small_network,
    train,
)


def test_digits():
    pixels, labels = digits()
    assert pixels.shape == (1797, 64)
    assert (pixels.min().item(), pixels.max().item()) == (0, 1)
    assert set(labels.tolist()) == set(range(10))


def test_networks_are_the_same_every_time_and_leave_chance_alone():
    torch.manual_seed(0)
    before = torch.rand(1)
    torch.manual_seed(0)
    nets = [make() for make in (small_network, deep_sigmoid, small_network, deep_sigmoid)]
    assert torch.equal(torch.rand(1), before)
    for first, second in zip(nets[:2], nets[2:], strict=True):
        for a, b in zip(first.parameters(), second.parameters(), strict=True):
            assert torch.equal(a, b)
    assert sum(isinstance(layer, torch.nn.Linear) for layer in nets[1]) == 12


def test_training_is_that_of_torch_sgd():
    ours, theirs = small_network(), small_network()
    train(ours, digits_loss(ours), 3, lr=0.5)
    optimizer, loss = torch.optim.SGD(theirs.parameters(), lr=0.5), digits_loss(theirs)
    for _ in range(3):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("gain", [1.0, 1.3])
def test_the_rnn_s_gradients_grow_with_its_gain(gain):
    sizes = []
    for repeats in (2, 4):
        model = ExplodingRNN(gain=gain, repeats=repeats)
        digits_loss(model)().backward()
        sizes.append(model.input.grad.norm().item())
    growth = sizes[1] / sizes[0]
    # 16 more steps: gain¹⁶ from the longest path, and the sum over paths
    assert growth > 0.3 * 1.3**16 if gain > 1 else growth < 5
