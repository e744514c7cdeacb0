"""The character transformer: windows of a text, its loss by hand, causality, and runs that can be stopped."""

import math
import random
import re

import pytest
import torch
from torch import nn

from gaf.lab import data
from gaf.lab.data.check import check
from gaf.lab.data.files import DataError, DatasetMissing
from gaf.lab.engine.config import TaskConfig, override
from gaf.lab.engine.run import train
from gaf.lab.engine.signals import Interrupted
from gaf.lab.study import recipes
from gaf.lab.tasks import load_task, models
from tests.lab.engine.test_kill import assert_survives_a_kill
from tests.lab.engine.test_train import Kick
from tests.lab.engine.tiny import assert_same_run, last_checkpoint

CPU = torch.device("cpu")
TEXT = "".join(random.Random(0).choices("abcdefgh√", k=1000)) + "zzz"  # 1003 characters


@pytest.fixture
def root(tmp_path):
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "tinyshakespeare.txt").write_text(TEXT, "utf-8")
    return tmp_path


def task_of(root, **changes):
    options = {"root": str(root), "size": 8}
    base = {"kind": "language", "data": "text", "model": "transformer", "data_options": options}
    return load_task(TaskConfig(**{**base, **changes}))


def batch_of(source, *indices, seed=0, epoch=0):
    return next(source.batches([torch.tensor(indices)], seed=seed, epoch=epoch, device=CPU))


def spelled(source, row):
    return "".join(source.classes[code] for code in row.tolist())


def test_windows_are_the_text_and_the_targets_its_next_characters(root):
    source = data.load("text", "test", root=root, size=8)
    assert source.classes == tuple(sorted(set(TEXT)))
    assert len(source) == (101 - 1) // 8  # a tenth of 1003, of which the last is a target only
    for index in range(len(source)):
        read, following = batch_of(source, index)
        start = 902 + 8 * index
        assert spelled(source, read[0]) == TEXT[start : start + 8]
        assert spelled(source, following[0]) == TEXT[start + 1 : start + 9]
    assert len(data.load("text", "test", root=root, size=8, limit=3)) == 3


def test_training_windows_begin_within_their_stretch_by_seed_epoch_and_index_alone(root):
    source = data.load("text", "train", root=root, size=8)
    first = batch_of(source, *range(len(source)))[0]
    starts = [TEXT.find(spelled(source, row)) for row in first]
    assert all(0 <= start - 8 * i < 8 for i, start in enumerate(starts[:-1]))
    assert len({start % 8 for start in starts}) == 8
    assert torch.equal(batch_of(source, 42, 7)[0], first[[42, 7]])
    assert not torch.equal(batch_of(source, *range(len(source)), epoch=1)[0], first)
    assert not torch.equal(batch_of(source, *range(len(source)), seed=1)[0], first)
    assert not (first == source.classes.index("z")).any()  # those are in the test


class Fixed(nn.Module):
    """The same logits at every place."""

    def __init__(self, logits):
        super().__init__()
        self.logits = nn.Parameter(torch.tensor(logits))

    def forward(self, characters):
        return self.logits.expand(*characters.shape, -1)


def test_loss_and_bits_by_hand(root):
    task = task_of(root)
    batch = torch.tensor([[0, 1], [2, 0]]), torch.tensor([[1, 2], [0, 0]])
    weights = (1.0, 2.0, 5.0)  # so the probabilities are 1/8, 2/8 and 5/8
    model = Fixed([math.log(each) for each in weights])
    rows = [(math.log(8 / 2) + math.log(8 / 5)) / 2, (math.log(8) + math.log(8)) / 2]
    assert task.loss(model, batch).item() == pytest.approx(sum(rows) / 2, rel=1e-6)
    found = task.outcomes(model, batch)
    assert found["loss"].tolist() == pytest.approx(rows, rel=1e-6)
    bits = (2 + math.log2(8 / 5) + 3 + 3) / 4
    assert task.metrics(found)["bpc"] == pytest.approx(bits, rel=1e-6)
    assert (task.score, task.higher_is_better, task.worst) == ("bpc", False, math.inf)


def test_no_place_sees_what_comes_later():
    torch.manual_seed(0)
    model = models.build("transformer", classes=11, size=12, depth=2, width=16, heads=2)
    for p in model.parameters():  # as after some training: at the beginning the branches add little
        nn.init.normal_(p, std=0.5)
    text = torch.randint(11, (3, 12))
    before = model(text)
    for place in range(12):
        changed = text.clone()
        changed[:, place] = (text[:, place] + 1) % 11
        after = model(changed)
        assert torch.equal(after[:, :place], before[:, :place])
        assert all((after[:, i] != before[:, i]).any() for i in range(place, 12))


def test_attention_is_the_formula():
    torch.manual_seed(0)
    layer = models.build("transformer", classes=3, size=5, width=8, heads=2).blocks[0].attention
    nn.init.normal_(layer.inputs.weight)
    x = torch.randn(2, 5, 8)
    q, k, v = layer.inputs(x).split(8, dim=2)
    future = torch.ones(5, 5).triu(1).bool()
    heads = []
    for part in (slice(0, 4), slice(4, 8)):
        scores = q[..., part] @ k[..., part].transpose(1, 2) / math.sqrt(4)
        heads.append(scores.masked_fill(future, -math.inf).softmax(dim=2) @ v[..., part])
    expected = layer.output(torch.cat(heads, dim=2))
    assert torch.allclose(layer(x), expected, atol=1e-6)  # 6e-8 was seen


def test_a_new_model_knows_nothing_and_has_a_few_hundred_thousand_parameters():
    torch.manual_seed(0)
    model = models.build("transformer", classes=65, size=64)
    assert sum(p.numel() for p in model.parameters()) == 242_561
    codes = torch.randint(65, (4, 65))
    loss = nn.functional.cross_entropy(model(codes[:, :-1]).flatten(0, 1), codes[:, 1:].flatten())
    assert loss.item() == pytest.approx(math.log(65), rel=0.02)


def config_of(root, *changes):
    small = (f"task.data_options.root={root}", "task.data_options.size=8", "batch_size=16")
    slim = ("task.model_options.width=16", "task.model_options.depth=1", "log_every=2")
    length = ("epochs=null", "iterations=12", "monitor_every=4")
    return override(recipes.get("text-transformer-sgdm"), [*small, *slim, *length, *changes])


def test_stopped_and_resumed_ends_with_the_same_weights(root, tmp_path):
    config = config_of(root, "optimizer.activation=arctan(0.1, 20)")
    whole = train(config, tmp_path / "whole")
    assert whole.steps == 12
    assert whole.score_name == "bpc"
    assert not whole.higher_is_better
    for step in (3, 8):  # the second within the second epoch of 7 steps
        with pytest.raises(Interrupted):
            train(config, tmp_path / "stopped", progress=Kick(step))
    train(config, tmp_path / "stopped")
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")
    train(config_of(root, "seed=1"), tmp_path / "other")
    mine, other = (last_checkpoint(tmp_path / name)["model"] for name in ("whole", "other"))
    assert not torch.equal(mine["head.weight"], other["head.weight"])


@pytest.mark.slow
def test_killed_and_resumed_ends_with_the_same_weights(root, tmp_path):
    small = ("epochs=null", "iterations=60", "batch_size=16", "checkpoint_every=3")
    sets = (*small, f"task.data_options.root={root}", "task.data_options.size=8")
    assert_survives_a_kill("text-transformer-adamw", sets, tmp_path)


def test_it_learns_and_a_rate_too_large_is_the_worst_score(root, tmp_path):
    found = train(config_of(root, "iterations=60", "evaluate_every=0"), tmp_path / "good")
    assert found.score < math.log2(10) - 0.05  # nine characters as likely as each other, and z
    changes = ("optimizer.lr=1e6", "log_every=1")
    assert train(config_of(root, *changes), tmp_path / "bad").score == math.inf


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"data_options": {"size": 101}}, "has 1003 characters, too few: .* window of 101"),
        ({"data_options": {"window": 8}}, "unknown option 'window'"),
        ({"data": "digits", "data_options": {}}, "digits is no text to read; use text"),
        ({"model": "mlp"}, "mlp is no decoder; a language task takes transformer"),
        ({"model_options": {"size": 9}}, "the data decide size .*task.data_options.size"),
        ({"model_options": {"width": 30}}, "width 30 .* does not divide by heads=4"),
        ({"model_options": {"depth": 0}}, "depth of a transformer must be a whole number"),
        ({"kind": "classification", "model": "mlp"}, "text wants task.kind=language"),
    ],
)
def test_bad_input_is_a_sentence(root, changes, says):
    if "data_options" in changes and "data" not in changes:
        changes = {**changes, "data_options": {"root": str(root), **changes["data_options"]}}

    def refused():
        task = task_of(root, **changes)
        task.check(task.build_model())

    with pytest.raises(ValueError, match=says) as caught:
        refused()
    assert "\n" not in str(caught.value)


def test_a_text_that_is_not_there_or_no_text_is_a_sentence(tmp_path):
    with pytest.raises(DatasetMissing, match=re.escape(f"input.txt as {tmp_path}/text/")):
        data.load("text", "train", root=tmp_path)
    (tmp_path / "text").mkdir()
    for content, says in ((b"abc\xff", "is no UTF-8 text: byte 3"), (b"", "has 0 characters")):
        (tmp_path / "text" / "tinyshakespeare.txt").write_bytes(content)
        with pytest.raises(DataError, match=says):
            data.load("text", "train", root=tmp_path)


def test_the_text(data_dir, contents):
    if not (data_dir / "text").is_dir():
        pytest.skip("needs the text: there is none in GAF_DATA")
    found = check(data.catalog.TEXT, data_dir, lambda *_: None)
    assert found.state == contents.text
    assert [(each.samples, each.classes) for each in found.splits] == [
        (windows, contents.characters) for windows in contents.windows
    ]
