"""Small problems whose data a rule makes, and batches that are spoilt: each says what its text promises."""

import math

import pytest
import torch

from gaf.common.errors import GafError
from gaf.lab.engine.config import TaskConfig
from gaf.lab.tasks import load_task
from gaf.lab.tasks.classification.rare_classes import CLASSES, RareClasses
from gaf.lab.tasks.made import MadeSource, normals, uniforms
from gaf.lab.tasks.physics import HeatEquation, edges, residual, solution
from gaf.lab.tasks.quadratic import DIMENSION, NOISE, CauchyNoise, CauchyQuadratic
from gaf.lab.tasks.recurrent import Adding
from gaf.lab.tasks.spoilt import SpoiltBatches, spoilt

CPU = torch.device("cpu")
TASKS = "gaf.lab.tasks."
KINDS = {
    "quadratic:cauchy_quadratic": {},
    "classification.rare_classes:rare_classes": {},
    "recurrent:adding": {"length": 6, "hidden": 8},
    "physics:heat_equation": {},
    "spoilt:spoilt": {"data": "digits", "model": "digits-cnn"},
}


def made(kind, score_on="test", **options):
    config = TaskConfig(kind=TASKS + kind, options=options, validation=0.2, score_on=score_on)
    return load_task(config)


def batches(source, *indices, seed=0, epoch=0):
    return list(source.batches([*indices], seed=seed, epoch=epoch, device=CPU))


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_model_fits_its_data_and_is_at_chance_or_near(kind):
    task = made(kind, "validation", **KINDS[kind])
    torch.manual_seed(0)
    model = task.build_model()
    task.check(model)
    source, chance = task.scored_part(), task.chance()
    assert chance is not None
    score = task.score_of(task.evaluate(model, batches(source, torch.arange(len(source)))))
    assert not task.is_better(score, chance) or math.isclose(score, chance, rel_tol=0.2)


@pytest.mark.parametrize("kind", KINDS)
def test_the_test_data_stays_closed_while_rates_are_tuned(kind):
    with pytest.raises(GafError, match="stays closed while rates are tuned"):
        made(kind, "validation", **KINDS[kind]).test_source()


@pytest.mark.parametrize("kind", KINDS)
def test_what_identifies_the_data_is_the_same_in_two_tasks(kind):
    one, two = (made(kind, **KINDS[kind]) for _ in range(2))
    assert one.training_part().fingerprint == two.training_part().fingerprint
    assert one.scored_part().fingerprint == two.scored_part().fingerprint


def test_made_numbers_have_their_distributions():
    assert uniforms(0, 20_000, 1).mean() == pytest.approx(0.5, abs=0.01)
    z = normals(1, 20_000, 2)
    assert z.mean().item() == pytest.approx(0, abs=0.02)
    assert z.std().item() == pytest.approx(1, abs=0.02)
    assert torch.corrcoef(z.T)[0, 1].abs() < 0.02
    assert not torch.equal(normals(2, 10, 1), normals(1, 10, 1))


def test_a_made_source_gives_the_samples_that_are_asked_for():
    source = MadeSource("x", "five numbers", torch.arange(5.0), torch.arange(5) * 10)
    ((values, targets),) = batches(source, torch.tensor([3, 1]))
    assert values.tolist() == [3, 1]
    assert targets.tolist() == [30, 10]


# --- the quadratic ---


def test_the_gradient_is_that_of_the_quadratic_plus_the_noise():
    torch.manual_seed(0)
    task, model = CauchyQuadratic(), CauchyQuadratic().build_model()
    (noise,) = batches(task.train_source(), torch.tensor([7]))
    loss = task.loss(model, noise)
    loss.backward()
    assert torch.allclose(model.w.grad, model.h * model.w.detach() + noise[0], atol=1e-5)
    assert loss.item() == pytest.approx(model().item(), rel=1e-4)


def test_the_noise_is_cauchy_and_its_own_at_each_step():
    first, other = batches(CauchyNoise(), torch.tensor([0]), torch.tensor([1]))
    (later,) = batches(CauchyNoise(), torch.tensor([0]), epoch=1)
    assert first.shape == (1, DIMENSION)
    # half of a Cauchy distribution lies within its scale, and 6.3 % beyond ten times that
    assert (first.abs() < NOISE).float().mean().item() == pytest.approx(0.5, abs=0.03)
    assert (first.abs() > 10 * NOISE).float().mean().item() == pytest.approx(0.063, abs=0.015)
    assert not torch.equal(first, other)
    assert not torch.equal(first, later)


def test_decades_count_powers_of_ten():
    rows = {"loss": torch.tensor([0.001], dtype=torch.float64)}
    assert CauchyQuadratic().metrics(rows)["decades"] == pytest.approx(-3)


# --- rare classes ---


def test_the_kth_class_has_the_frequency_1_k():
    counts = RareClasses().train_source().targets.bincount(minlength=CLASSES).double()
    expected = len(RareClasses().train_source()) / torch.arange(1, CLASSES + 1).double()
    expected /= (1 / torch.arange(1, CLASSES + 1).double()).sum()
    assert torch.allclose(counts[:5], expected[:5], rtol=0.1)
    assert counts[500:].sum() == pytest.approx(expected[500:].sum().item(), rel=0.1)


# --- the adding problem ---


def test_the_target_is_the_sum_of_the_two_marked_numbers():
    task = Adding(length=9)
    ((sequences, sums),) = batches(task.train_source(), torch.arange(200))
    numbers, marks = sequences.unbind(2)
    assert (marks.sum(1) == 2).all()
    assert (marks[:, :4].sum(1) == 1).all()
    assert torch.allclose((numbers * marks).sum(1), sums)


@pytest.mark.parametrize("length", [1, 0, 2.5, "ten"])
def test_a_length_that_is_none_is_refused(length):
    with pytest.raises(GafError, match="length of the adding problem is a whole number above 1"):
        Adding(length=length)


# --- the heat equation ---


class Exact(torch.nn.Module):
    def forward(self, points):
        return solution(points)[:, None]


def test_the_solution_solves_the_equation_and_scores_best():
    points = uniforms(0, 50, 2).float()
    assert residual(Exact(), points).item() == pytest.approx(0, abs=1e-9)
    assert edges(Exact(), points).item() == pytest.approx(0, abs=1e-9)
    task = HeatEquation()
    outcomes = task.outcomes(Exact(), (points,))
    assert task.metrics(outcomes) == {"error": 0.0, "decades": -math.inf}


def test_another_function_does_not_solve_it():
    class Wrong(torch.nn.Module):
        def forward(self, points):
            return solution(points)[:, None] * (1 + points[:, 1:])

    assert residual(Wrong(), uniforms(0, 50, 2).float()).item() > 0.01


# --- spoilt batches ---


def test_two_percent_of_the_batches_are_spoilt_by_seed_epoch_and_sample():
    whole = MadeSource("x", "numbers", torch.arange(5000.0))
    source = SpoiltBatches(whole, 0.02, 1000.0)
    indices = [torch.tensor([i, 0]) for i in range(5000)]
    factors = [factor for factor, _ in batches(source, *indices)]
    assert set(factors) == {1.0, 1000.0}
    assert 60 < factors.count(1000.0) < 140
    assert factors == [factor for factor, _ in batches(source, *indices)]
    assert factors != [factor for factor, _ in batches(source, *indices, epoch=1)]
    # a batch does not depend on those before it
    assert factors[100:] == [factor for factor, _ in batches(source, *indices[100:])]


def test_a_spoilt_batch_has_the_same_loss_and_a_thousandfold_gradient():
    task = made("spoilt:spoilt", **KINDS["spoilt:spoilt"])
    torch.manual_seed(0)
    model = task.build_model()
    ((_, batch),) = batches(task.training_part(), torch.arange(8))
    gradients, losses = [], []
    for factor in (1.0, 1000.0):
        model.zero_grad()
        loss = task.loss(model, (factor, batch))
        loss.backward()
        losses.append(loss.item())
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]).clone())
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    assert torch.allclose(gradients[1], 1000 * gradients[0], rtol=1e-4, atol=1e-4)


def test_scores_are_on_whole_batches():
    task = made("spoilt:spoilt", **KINDS["spoilt:spoilt"])
    ((images, labels),) = batches(task.scored_part(), torch.arange(4))
    assert images.shape == (4, 1, 8, 8)
    assert len(labels) == 4
    assert task.score == "top1"


def test_only_tasks_whose_batches_can_be_spoilt_are():
    with pytest.raises(GafError, match="not for detection"):
        spoilt(kind="detection", data="voc", model="ssd300")
