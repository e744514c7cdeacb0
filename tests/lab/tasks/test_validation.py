"""The validation data of each kind of task: what is kept out, and that the test data stays closed."""

import functools

import pytest
import torch
from torch import nn

from gaf.lab import data
from gaf.lab.data.sources import Subset, hold_out
from gaf.lab.engine.config import TaskConfig, read
from gaf.lab.tasks import load_task
from gaf.lab.tasks.base import lucky_guess
from gaf.lab.tasks.classification import Classification
from gaf.lab.tasks.classification.deep_sigmoid import KIND as DEEP_SIGMOID
from gaf.lab.tasks.detection.source import objects_of
from tests.lab.engine.tiny import KIND as TINY

CPU = torch.device("cpu")
CLOSED = "stays closed while rates are tuned"
TUNING = {"validation": 0.2, "score_on": "validation"}
DIGITS = {"data": "digits", "model": "digits-cnn"}


def task_of(**values):
    return load_task(TaskConfig(**values))


def whole_batch(source, **where):
    """All samples of a source in one batch."""
    where = {"seed": 0, "epoch": 0, **where}
    return next(iter(source.batches([torch.arange(len(source))], device=CPU, **where)))


@pytest.fixture
def text(tmp_path):
    (tmp_path / "text").mkdir()
    # no character twice: where a window is from can be seen
    content = "".join(map(chr, range(0x4E00, 0x4E00 + 2000)))
    (tmp_path / "text" / "tinyshakespeare.txt").write_text(content, "utf-8")
    return str(tmp_path)


# --- how it is cut ---


@pytest.mark.parametrize("share", [0.01, 0.2, 0.5, 0.99])
def test_classes_are_cut_alike_and_keep_a_sample(share):
    targets = torch.tensor([0] * 1 + [1] * 2 + [3] * 10 + [4] * 101)
    targets = targets[torch.randperm(len(targets))]
    kept, held = hold_out(targets, share)
    assert torch.equal(torch.cat((kept, held)).sort().values, torch.arange(len(targets)))
    counts = targets.bincount(minlength=5)
    for label, count in enumerate(counts.tolist()):
        expected = min(round(share * count), max(0, count - 1))
        assert (targets[held] == label).sum() == expected, label


def test_the_cut_is_random_and_always_the_same():
    zeros = torch.zeros(100, dtype=torch.int64)
    _, held = hold_out(zeros, 0.2)
    torch.manual_seed(5)
    assert torch.equal(hold_out(zeros, 0.2)[1], held)
    assert held.tolist()[:5] == [
        18,
        30,
        31,
        34,
        36,
    ]  # a change would make other runs of the same config
    gaps = held.diff()
    assert len(gaps.unique()) > 3


def test_a_subset_shows_what_the_whole_shows():
    whole = data.load("digits", "train")
    part = Subset(whole, torch.tensor([7, 3, 900]))
    images, labels = whole_batch(whole)
    for index in ([0, 1, 2], [2, 0]):
        some = next(iter(part.batches([torch.tensor(index)], seed=0, epoch=0, device=CPU)))
        assert torch.equal(some[0], images[part.indices[index]])
        assert torch.equal(some[1], labels[part.indices[index]])
    assert (part.name, part.classes, part.shape) == (whole.name, whole.classes, whole.shape)
    assert torch.equal(part.targets, labels[part.indices])
    assert part.fingerprint.items() > whole.fingerprint.items()
    assert part.fingerprint != Subset(whole, torch.tensor([3, 7, 900])).fingerprint


def test_a_subset_of_a_source_without_labels_has_none():
    assert getattr(Subset([1, 2], torch.tensor([0])), "targets", None) is None


KINDS = {
    "classification": DIGITS,
    "hard case": {"kind": DEEP_SIGMOID},
    "of one's own": {"kind": TINY, "options": {"samples": 90}},
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_parts_are_disjoint_and_together_the_whole(kind):
    values = KINDS[kind]
    tuning, final, old = (task_of(**values, **more) for more in (TUNING, {"validation": 0.2}, {}))
    training, held = tuning.training_part(), tuning.scored_part()
    whole = old.train_source()
    assert old.training_part() is whole
    assert torch.equal(
        torch.cat((training.indices, held.indices)).sort().values, torch.arange(len(whole))
    )
    assert len(held) == pytest.approx(0.2 * len(whole), abs=5)
    # a final run trains on the same and is scored on the test data
    assert torch.equal(final.training_part().indices, training.indices)
    assert final.scored_part() is final.test_source()
    if kind != "of one's own":
        of_each = whole.targets.bincount()
        assert (held.targets.bincount() - 0.2 * of_each).abs().max() <= 0.5
        assert tuning.chance() == lucky_guess(held.targets)


def test_the_last_part_of_a_text_is_kept_and_no_window_reaches_into_it(text):
    options = {"root": text, "size": 16}
    values = {"kind": "language", "data": "text", "model": "transformer", "data_options": options}
    task = task_of(**values, **TUNING)
    training, held = task.training_part(), task.scored_part()
    windows = len(task.train_source())
    assert (len(training), len(held)) == (windows - round(0.2 * windows) - 1, round(0.2 * windows))
    read_in_training = [torch.cat(whole_batch(training, epoch=epoch)) for epoch in range(50)]
    last = max(int(some.max()) for some in read_in_training)
    judged = torch.cat(whole_batch(held))
    assert last < int(judged.min())
    assert int(judged.min()) - last < 3  # and little is lost
    assert torch.equal(whole_batch(held, seed=1)[0], whole_batch(held)[0])  # no random places
    assert task.chance() == pytest.approx(torch.tensor(len(held) * 16.0).log2().item())


def test_episodes_for_validation_are_their_own():
    values = {"kind": "policy-gradient", "data": "cartpole", "model": "mlp"}
    tuning, final = task_of(**values, **TUNING), task_of(**values, validation=0.2)
    parts = [tuning.training_part(), tuning.scored_part(), final.scored_part()]
    assert [len(part) for part in parts] == [128, 64, 64]
    starts = [whole_batch(part).starts for part in parts]
    assert len(torch.cat(starts).unique(dim=0)) == 256
    assert torch.equal(whole_batch(final.training_part()).starts, starts[0])
    assert tuning.chance() != final.chance()


def test_images_with_boxes_are_cut_at_random_and_their_objects_with_them(data_dir):
    options = {"root": str(data_dir), "workers": 0}
    values = {"kind": "detection", "data": "voc", "model": "ssd300", "data_options": options}
    task = task_of(**values, validation=0.4, score_on="validation")
    training, held = task.training_part(), task.scored_part()
    whole = task.train_source()
    assert sorted([*training.indices.tolist(), *held.indices.tolist()]) == [*range(len(whole))]
    assert whole.images.augment
    assert not held.whole.images.augment
    for part in (training, held):
        objects, everything = objects_of(part), whole.objects()
        for number, image in enumerate(part.indices.tolist()):
            mine, same = objects.image == number, everything.image == image
            for column, original in zip(objects[1:], everything[1:], strict=True):
                assert torch.equal(column[mine], original[same])
    nothing = {
        "found": torch.full((len(held), 200, 6), -1.0),
        "loss": torch.ones(len(held)),
        "matched": torch.ones(len(held)),
    }
    assert task.metrics(nothing)["mAP"] == 0


def test_validation_images_are_not_augmented(data_dir):
    options = {"augment": True, "limit": 500, "root": str(data_dir)}
    task = task_of(data="cifar100", model="digits-cnn", data_options=options, **TUNING)
    assert task.training_part().whole.augment is not None
    held = task.scored_part()
    assert held.whole.augment is None
    assert torch.equal(whole_batch(held, epoch=1, seed=1)[0], whole_batch(held)[0])


class Odd(Classification):
    """The odd digits: a training source of its own in a task that derives from a built-in one."""

    def __init__(self):
        super().__init__(TaskConfig(**DIGITS))

    def train_source(self):
        whole = super().train_source()
        return Subset(whole, (whole.targets % 2 == 1).nonzero()[:, 0])


def test_a_derived_task_is_cut_in_its_own_source():
    task = task_of(kind=f"{__name__}:Odd", **TUNING)
    labels = [whole_batch(part)[1] for part in (task.training_part(), task.scored_part())]
    assert (torch.cat(labels) % 2 == 1).all()
    assert sum(map(len, labels)) == len(task.train_source())


# --- what is refused ---


@pytest.mark.parametrize("kind", KINDS)
def test_the_test_data_is_closed(kind):
    task = task_of(**KINDS[kind], **TUNING)
    with pytest.raises(ValueError, match=CLOSED):
        task.test_source()


class AsksItsBase(Classification):
    def __init__(self):
        super().__init__(TaskConfig(**DIGITS))

    def loss(self, model, batch):
        super().test_source()
        return super().loss(model, batch)


def test_a_built_in_task_does_not_read_it(monkeypatch):
    opened, load = [], data.load

    @functools.wraps(load)
    def noted(name, split, **options):
        opened.append(split)
        return load(name, split, **options)

    monkeypatch.setattr(data, "load", noted)
    task = task_of(**DIGITS, **TUNING)
    task.check(task.build_model())
    assert len(task.scored_part()) == 287
    task.chance()
    with pytest.raises(ValueError, match=CLOSED):
        task.test_source()
    derived = task_of(kind=f"{__name__}:AsksItsBase", **TUNING)
    with pytest.raises(ValueError, match=CLOSED):
        derived.loss(nn.Linear(1, 1), whole_batch(derived.training_part()))
    assert set(opened) == {"train"}


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({**DIGITS, "score_on": "validation"}, "score_on=validation needs validation data: set"),
        ({**DIGITS, "validation": 1.0}, "task.validation should be less than 1"),
        ({**DIGITS, "score_on": "train"}, "task.score_on should be 'test' or 'validation'"),
    ],
)
def test_a_config_that_cannot_be_is_a_sentence(values, says):
    with pytest.raises(ValueError, match=says):
        read({"name": "a", "epochs": 1, "task": values})


def test_the_two_keys_are_written_only_where_they_are_set():
    assert TaskConfig(**DIGITS).model_dump().keys().isdisjoint(TUNING)
    assert TaskConfig(**DIGITS, **TUNING).model_dump().items() > TUNING.items()
    assert "score_on" not in TaskConfig(**DIGITS, validation=0.2).model_dump()


@pytest.mark.parametrize(
    ("split", "says"),
    [
        (None, "validation=0.01 of 10 training samples leaves none to validate on"),
        (([], range(10)), "leaves none to train on"),
        ((range(6), range(5, 10)), "Tiny.split_training gives a sample twice"),
    ],
)
def test_a_cut_that_is_none_is_a_sentence(split, says, monkeypatch):
    task = task_of(kind=TINY, options={"samples": 10}, validation=0.01)
    if split:
        parts = tuple(torch.tensor([*part], dtype=torch.int64) for part in split)
        monkeypatch.setattr(task, "split_training", lambda share: parts)
    with pytest.raises(ValueError, match=says):
        task.training_part()
