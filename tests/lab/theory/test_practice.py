"""How often the assumptions hold: never on a quadratic; the noise of mini-batches against brute force."""

import pytest
import torch

from gaf.functions import Arctan, Tanh
from gaf.lab.theory import noise, practice
from gaf.lab.theory.bounds import BETTER
from gaf.lab.theory.conditioning import Box, constants
from gaf.lab.theory.curvature import ASSUMED, C_RISES, CONVEX, L_RISES, SEPARABLE
from gaf.lab.theory.problems import TypeOne, quadratic, rotated

FEW = (quadratic([2.0, 0.4]), TypeOne((1.0, 0.2)), rotated(quadratic([2.0, 0.4]), 30.0))


@pytest.fixture(scope="module")
def few():
    """Three problems in the place of all of them."""
    names = ("quadratic", "Type 1", "turned")
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(practice, "problems", lambda: map(practice._on_a_box, names, FEW))
    practice.measured.cache_clear()
    rows = {n: {row.problem: row for row in practice.practice(n)} for n in (1, 2, 3, 4)}
    rows["settings"] = practice.measured()
    practice.measured.cache_clear()
    monkeypatch.undo()
    return rows


def test_never_on_a_quadratic(few):
    for theorem in (1, 2, 3, 4):
        assert few[theorem]["quadratic"].every == few[theorem]["turned"].every == 0
    assert few[1]["quadratic"].holds[L_RISES] == 0
    assert few[2]["quadratic"].holds[C_RISES] == 0
    assert few[2]["quadratic"].holds[CONVEX] == few[2]["quadratic"].holds[SEPARABLE] == 1
    assert few[1]["turned"].holds[SEPARABLE] == 0
    assert few[3]["turned"].claim is None


def test_theorem_2_applies_now_and_then_to_type_1(few):
    row = few[2]["Type 1"]
    assert list(row.holds) == list(ASSUMED[2])
    assert 0.05 < row.every < row.claim < 0.6
    assert few[1]["Type 1"].every == few[3]["Type 1"].every == 0
    assert few[4]["Type 1"].holds[BETTER] == row.claim  # where c rises, ζ falls here


def test_settings_are_where_the_theorems_want_them(few):
    for seen, settings in few["settings"]:
        assert len(settings) == 162
        for setting in settings:
            known = setting.assumptions(3)
            assert known["f' > 1 on |g| ≤ ε₀"].item()
            assert known["ε₂ > 0 and f(ε₂) ≤ ε₂"].item()
        if seen.separable:
            loss = FEW[0] if seen.problem == "quadratic" else FEW[1]
            for setting in settings[::40]:
                family, f = setting.f.family, setting.f
                exact = constants(loss, Box.around(2, 1.0), family(f.alpha.item(), f.beta.item()))
                assert setting.active.lipschitz.item() == pytest.approx(exact.lipschitz, rel=1e-2)
                assert setting.active.convexity.item() == pytest.approx(exact.convexity, rel=1e-2)


@pytest.mark.slow
def test_all_problems():
    for theorem in (1, 2, 3, 4):
        for row in practice.practice(theorem):
            applies = theorem == 2 and row.problem == "Type 1"
            assert (row.every > 0) == applies, (theorem, row.problem)  # the page says so
    assert len(practice.practice(1)) == 9
    networks = [row for row in practice.practice(2) if "network" in row.problem]
    assert [row.holds[CONVEX] for row in networks] == [0, 0]


def test_the_slopes_of_a_network_are_the_diagonal_of_its_hessian(monkeypatch):
    model = torch.nn.Sequential(torch.nn.Linear(64, 10)).double()
    monkeypatch.setattr(practice, "COORDINATES", 650)
    monkeypatch.setattr(practice, "VISITS", (0,))
    seen = practice._network("linear", model)
    loss = practice.digits_loss(model)
    torch.manual_seed(0)
    chosen = torch.randperm(650, generator=torch.Generator().manual_seed(0))
    flat = torch.cat([p.detach().flatten() for p in model.parameters()])
    gradient = torch.cat(
        [g.flatten() for g in torch.autograd.grad(loss(), list(model.parameters()))]
    )
    torch.testing.assert_close(seen.gradient[0], gradient[chosen])
    for column in (0, 300, 649):
        at = int(chosen[column])
        ends = []
        for shift in (1e-5, -1e-5):
            moved = flat.clone()
            moved[at] += shift
            torch.nn.utils.vector_to_parameters(moved, model.parameters())
            g = torch.autograd.grad(loss(), list(model.parameters()))
            ends.append(torch.cat([x.flatten() for x in g])[at])
        expected = ((ends[0] - ends[1]) / 2e-5).item()
        assert seen.slope[0, column].item() == pytest.approx(expected, abs=1e-8)


def test_a_theorem_without_assumptions_on_a_loss():
    with pytest.raises(ValueError, match="Theorem 5 does not"):
        practice.practice(5)


def test_the_noise_of_minibatches(monkeypatch):
    """Against the variance of the mean of 32 draws, and bias by a plain average."""
    monkeypatch.setattr(noise, "BATCHES", 4_000)
    first, second, third = noise.minibatches(Arctan(0.1, 20.0))
    loss = noise.LogisticRegression()
    w = torch.zeros(loss.dimension, dtype=torch.float64)
    each = loss.gradients(w)
    assert first.gradient == pytest.approx(loss.gradient(w).norm().item())
    assert first.variance == pytest.approx(each.var(0, correction=0).sum().item() / 32, rel=0.05)
    f = Arctan(0.1, 20.0)
    chosen = torch.randint(len(each), (4_000, 32), generator=torch.Generator().manual_seed(9))
    g = f(each[chosen].mean(1))
    goal = f(each.mean(0))
    assert first.activated_variance == pytest.approx(g.var(0).sum().item(), rel=0.05)
    assert first.bias == pytest.approx(((g.mean(0) - goal).norm() / goal.norm()).item(), rel=0.05)
    assert [x.step for x in (first, second, third)] == [0, 10, 100]
    assert third.gradient < second.gradient < first.gradient


def test_a_straight_function_leaves_the_noise_alone(monkeypatch):
    monkeypatch.setattr(noise, "BATCHES", 500)
    monkeypatch.setattr(noise, "VISITS", (0,))
    (found,) = noise.minibatches(Tanh(1e6, 1e-6))  # f(g) = g to 1e-12
    assert found.activated_variance == pytest.approx(found.variance, rel=1e-9)
    assert found.bias < 1e-9
