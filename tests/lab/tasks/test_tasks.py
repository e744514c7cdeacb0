"""The built-in task measures what it says, and misfits are sentences."""

import math
from typing import ClassVar

import pytest
import torch
from torch import nn

from gaf.lab.engine.config import TaskConfig, read
from gaf.lab.engine.run import train
from gaf.lab.study import recipes
from gaf.lab.tasks import Task, load_task
from gaf.lab.tasks.base import lucky_guess
from gaf.lab.tasks.classification import Classification
from gaf.lab.tasks.classification.deep_sigmoid import deep_sigmoid
from gaf.lab.tasks.language import Language


def digits(**changes):
    return load_task(TaskConfig(**{"data": "digits", "model": "digits-cnn", **changes}))


def batches(source, count=None, size=50):
    indices = torch.arange(count or len(source)).split(size)
    return source.batches(indices, seed=0, epoch=0, device=torch.device("cpu"))


class Fixed(nn.Module):
    """Logits that do not depend on the images."""

    def __init__(self, logits):
        super().__init__()
        self.logits = nn.Parameter(torch.tensor(logits))

    def forward(self, images):
        return self.logits.expand(len(images), -1)


def test_top1_and_top5_are_shares_of_the_test_set():
    task = digits()
    labels = task.test_source().targets  # type: ignore[attr-defined]
    guess_3_then_0_to_4 = Fixed([4.0, 3.0, 2.0, 5.0, 1.0, 0.0, 0.0, 0.0, 0.0, -1.0])
    found = task.evaluate(guess_3_then_0_to_4, batches(task.test_source()))
    assert found["top1"] == pytest.approx((labels == 3).double().mean().item())
    assert found["top5"] == pytest.approx((labels < 5).double().mean().item())
    log_softmax = torch.log_softmax(guess_3_then_0_to_4.logits, 0)
    assert found["loss"] == pytest.approx(-log_softmax[labels].mean().item())


def test_fewer_classes_than_five():
    task = digits()
    outcome = task.outcomes(Fixed([0.0, 1.0]), (torch.zeros(4, 1), torch.tensor([0, 1, 0, 1])))
    assert outcome["top1"].tolist() == [False, True, False, True]
    assert outcome["top5"].all()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_logits_that_are_not_finite_name_nothing_right(bad):
    """Not chance: topk takes NaN for the largest, and of equal ones the first."""
    task = digits()
    found = task.evaluate(Fixed([bad] * 10), batches(task.test_source()))
    assert (found["top1"], found["top5"]) == (0.0, 0.0)
    labels = torch.tensor([0, 1, 2])
    one = task.outcomes(Fixed([3.0, bad, 2.0]), (torch.zeros(3, 1), labels))
    assert not one["top1"].any()
    assert not one["top5"].any()
    hard = deep_sigmoid()
    assert not hard.outcomes(Fixed([bad] * 3), (torch.zeros(3, 1), labels))["top1"].any()


def test_a_language_model_without_finite_logits_scores_worst():
    task = Language(TaskConfig(kind="language", data="text", model="transformer"))
    batch = torch.zeros(2, 3, dtype=torch.int64), torch.zeros(2, 3, dtype=torch.int64)
    outcomes = task.outcomes(lambda x: torch.full((*x.shape, 5), math.nan), batch)
    assert math.isnan(task.metrics(outcomes)["bpc"])  # which ends a run with the score inf


class NanInTest(nn.Module):
    """As a batch norm whose running statistics have overflowed: the training does not notice."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))

    def forward(self, images):
        return self.layer(images) * (1.0 if self.training else math.nan)


class NanDigits(Classification):
    def __init__(self):
        super().__init__(TaskConfig(data="digits", model="digits-cnn", data_options={"limit": 50}))

    def build_model(self):
        return NanInTest()


def test_a_run_whose_test_outputs_are_nan_scores_worst(tmp_path):
    kind = f"{__name__}:NanDigits"
    config = read({"name": "nan", "task": {"kind": kind}, "epochs": 1, "accelerator": "cpu"})
    result = train(config, tmp_path / "run")
    assert (result.score_name, result.score) == ("top1", 0.0)


def test_label_smoothing_is_for_training_only():
    model, batch = Fixed([1.0, 0.0, 2.0]), (torch.zeros(2, 1), torch.tensor([2, 0]))
    plain, smooth = digits(), digits(label_smoothing=0.1)
    expected = nn.functional.cross_entropy(model(batch[0]), batch[1], label_smoothing=0.1)
    assert torch.equal(smooth.loss(model, batch), expected)
    assert not torch.equal(smooth.loss(model, batch), plain.loss(model, batch))
    assert torch.equal(smooth.outcomes(model, batch)["loss"], plain.outcomes(model, batch)["loss"])


def test_augment_is_for_training_only(data_dir):
    options = {"augment": True, "limit": 50, "root": str(data_dir)}
    task = digits(data="cifar100", data_options=options)
    assert task.train_source().augment is not None  # type: ignore[attr-defined]
    assert task.test_source().augment is None  # type: ignore[attr-defined]
    assert len(task.train_source()) == 50


def test_sources_are_loaded_once():
    task = digits()
    assert task.train_source() is task.train_source()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"kind": "clasification"}, "did you mean 'classification'"),
        ({"model": "digits-cn"}, "did you mean 'digits-cnn'"),
        ({"model_options": {"dept": 3}, "model": "mlp"}, "did you mean 'depth'"),
        (
            {"model_options": {"classes": 3}, "model": "mlp"},
            "the data decide the number of classes",
        ),
        ({"data_options": {"limits": 3}}, "did you mean 'limit'"),
        ({"data_options": {"split": "train"}}, "unknown option 'split'"),
    ],
)
def test_unknown_names_are_sentences(changes, says):
    with pytest.raises(ValueError, match=says):
        digits(**changes).build_model()


def test_a_model_that_does_not_take_the_images_is_a_sentence():
    task = digits(model="mlp", model_options={"size": 9})
    with pytest.raises(ValueError, match=r"mlp and digits do not fit: for images of \(1, 8, 8\)"):
        task.check(task.build_model())


def test_a_model_with_other_outputs_is_a_sentence():
    model = Fixed([0.0] * 7)
    model.train()
    with pytest.raises(ValueError, match=r"gives \(2, 7\), not \(2, 10\)"):
        digits().check(model)
    assert model.training


def test_the_check_leaves_no_trace():
    task = digits()
    model = task.build_model()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    task.check(model)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


class Line(Task):
    score = "loss"

    def train_source(self):
        return Pairs()

    def test_source(self):
        return Pairs()

    def loss(self, model, batch):
        x, y = batch
        return (model(x) - y).square().mean()


class Pairs:
    fingerprint: ClassVar = {}

    def __len__(self):
        return 3

    def batches(self, indices, **_):
        for index in indices:
            yield index.float()[:, None], 2 * index.float()[:, None]


def test_by_default_the_loss_is_measured_sample_by_sample():
    model = nn.Linear(1, 1)
    nn.init.ones_(model.weight)
    nn.init.zeros_(model.bias)
    found = Line().evaluate(model, batches(Pairs(), 3, size=2))
    assert found == {"loss": pytest.approx((0 + 1 + 4) / 3)}


def test_by_default_a_misfit_is_found_by_the_loss():
    with pytest.raises(
        ValueError, match=r"Line\.loss fails on two samples: .*\(test_tasks\.py:\d+"
    ):
        Line().check(nn.Linear(2, 1))
    Line().check(nn.Linear(1, 1))


@pytest.mark.parametrize(
    ("method", "gives", "says"),
    [
        ("loss", torch.ones(2), r"Wrong\.loss gives shape \(2,\); it is one number"),
        ("loss", 1.0, r"Wrong\.loss gives 1\.0"),
        (
            "outcomes",
            {"loss": torch.ones(())},
            r"a row for each sample; for 2 .*'loss' has shape \(\)",
        ),
        ("outcomes", {"loss": torch.ones(3)}, r"'loss' has shape \(3,\)"),
    ],
)
def test_what_a_task_gives_is_checked_before_the_training(method, gives, says):
    class Wrong(Line):
        pass

    setattr(Wrong, method, lambda *_: gives)
    with pytest.raises(ValueError, match=says):
        Wrong().check(nn.Linear(1, 1))


def test_a_source_that_is_none_and_a_method_left_out_are_sentences():
    class NoSource(Line):
        def test_source(self):
            return [1, 2]

    with pytest.raises(
        ValueError, match=r"test_source gives a list, which lacks batches and finger"
    ):
        NoSource().check(nn.Linear(1, 1))
    for method in ("build_model", "train_source", "test_source"):
        with pytest.raises(ValueError, match=f"Task does not say what its {method} is"):
            getattr(Task(), method)()


def test_better_is_higher_or_lower():
    task = Line()
    assert task.is_better(2.0, 1.0)
    task.higher_is_better = False  # type: ignore[misc]
    assert task.is_better(1.0, 2.0)
    with pytest.raises(ValueError, match="scored by 'loss', but measures top1"):
        task.score_of({"top1": 1.0})


def test_chance_is_the_best_guess_without_a_look_with_some_luck():
    assert lucky_guess(torch.tensor([0, 0, 0, 1])) == pytest.approx(
        0.75 + 3 * (0.75 * 0.25 / 4) ** 0.5
    )
    task = digits()
    labels = task.test_source().targets
    assert task.chance() == lucky_guess(labels)
    assert labels.bincount().max().item() / len(labels) < task.chance() < 0.21
    assert load_task(recipes.get("cartpole-mlp-sgdm").task).chance() == pytest.approx(26, abs=5)


def test_chance_of_a_text_is_the_entropy_of_its_characters(tmp_path):
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "tinyshakespeare.txt").write_text("abcd" * 400)
    options = {"root": str(tmp_path), "size": 8}
    task = load_task(
        TaskConfig(kind="language", data="text", data_options=options, model="transformer")
    )
    assert task.chance() == pytest.approx(2.0, abs=1e-3)  # four characters, equally often


def test_a_task_of_ones_own_need_not_say_what_chance_is():
    assert Task().chance() is None
