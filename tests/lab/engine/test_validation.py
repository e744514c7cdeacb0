"""Runs with validation data: what they train on, what they are scored on, and that no test sample leaks."""

import json

import pytest
import torch

from gaf.lab.cli.app import run
from gaf.lab.engine.config import override
from gaf.lab.engine.folder import read_result
from gaf.lab.engine.identity import identify_all
from gaf.lab.engine.run import train
from gaf.lab.reports import history as reports
from gaf.lab.study import judge
from gaf.lab.study.grid import Outcome
from gaf.lab.study.landscape import reached, training_loss
from gaf.lab.tasks import load_task
from tests.lab.engine.tiny import KIND, Blobs, Tiny, last_checkpoint, metrics, tiny_config

SHARE = "task.validation=0.25"  # 20 of 80 samples
TUNING = (SHARE, "task.score_on=validation")
CLOSED = "opens its test data, which stays closed while rates are tuned"


@pytest.fixture
def seen(monkeypatch):
    """The indices that were asked of the blobs, by how many blobs there are: 80 to train, 23 to test."""
    asked, batches = {80: [], 23: []}, Blobs.batches

    def noted(self, indices, **where):
        asked[len(self)] += [int(index) for batch in indices for index in batch]
        return batches(self, indices, **where)

    monkeypatch.setattr(Blobs, "batches", noted)
    return asked


def config_of(kind, *changes):
    return override(tiny_config(*changes), [f"task.kind={kind}"])


@pytest.mark.parametrize("seed", [0, 1])
def test_a_final_run_keeps_the_same_part_out(tmp_path, seen, seed):
    held = set(load_task(tiny_config(*TUNING).task).scored_part().indices.tolist())
    assert len(held) == 20
    train(tiny_config(SHARE, f"seed={seed}"), tmp_path)
    assert set(seen[80]) == set(range(80)) - held
    # each of the 60 once an epoch, and two in the check
    assert len(seen[80]) == 3 * 60 + 2
    assert set(seen[23]) == set(range(23))


def test_a_tuning_run_is_scored_on_the_part_that_is_kept_out(tmp_path, seen):
    config = tiny_config(*TUNING)
    held = load_task(config.task).scored_part()
    result = train(config, tmp_path)
    assert seen[23] == []
    assert len(seen[80]) == 3 * 60 + 2 + 3 * 20 + 2
    scores = [record for record in metrics(tmp_path) if record["kind"] == "validation"]
    assert [record["step"] for record in scores] == [4, 8, 12]
    assert not [record for record in metrics(tmp_path) if record["kind"] == "test"]
    assert result.score == scores[-1]["top1"]
    # the figures are those of the samples kept out, by hand
    task = Tiny()
    model = task.build_model()
    model.load_state_dict(last_checkpoint(tmp_path)["model"])
    batch = task.train.batches([held.indices], seed=0, epoch=0, device=torch.device("cpu"))
    rows = task.outcomes(model.eval(), next(batch))
    assert scores[-1]["loss"] == pytest.approx(rows["loss"].mean().item())
    assert scores[-1]["top1"] == rows["top1"].double().mean().item()


def test_tuning_and_final_runs_train_to_the_same_weights(tmp_path):
    for name, changes in {"tuning": TUNING, "final": (SHARE,)}.items():
        train(tiny_config(*changes, dropout=0.2), tmp_path / name)
    tuning, final = (last_checkpoint(tmp_path / name)["model"] for name in ("tuning", "final"))
    assert all(torch.equal(tuning[key], final[key]) for key in tuning)


def test_the_identity_of_a_tuning_run_is_that_of_training_data(tmp_path):
    configs = [tiny_config(), tiny_config(SHARE), tiny_config(*TUNING)]
    old, final, tuning = identify_all(configs)
    assert old.data == {"train": {"blobs": "80 of 1"}, "test": {"blobs": "23 of 2"}}
    assert final.data["test"] == old.data["test"]
    assert final.data["train"] == tuning.data["train"]
    assert final.data["train"].items() > old.data["train"].items()
    assert tuning.data.keys() == {"train", "validation"}
    assert "23 of 2" not in tuning.model_dump_json()
    digests = {
        identity.digest(config, ())
        for identity, config in zip((old, final, tuning), configs, strict=True)
    }
    assert len(digests) == 3


def test_what_reads_runs_reads_these(tmp_path):
    result = train(tiny_config(*TUNING), tmp_path)
    outcome = Outcome(tmp_path, result)
    assert judge.history(outcome).tests[-1] == (12, result.score)
    assert reports.read(tmp_path, 0, "top1").score[12] == result.score
    assert read_result(tmp_path) == result
    at = reached(tmp_path, tiny_config(*TUNING))
    loss = training_loss(at.task)(at.model)
    batch = at.task.training_part().batches(
        [torch.arange(60)], seed=0, epoch=0, device=torch.device("cpu")
    )
    assert loss.item() == pytest.approx(at.task.loss(at.model, next(iter(batch))).item())


# --- planted leaks ---


class PeeksInLoss(Tiny):
    """Learns from the test set, a little."""

    def loss(self, model, batch):
        x, y = batch
        test = self.test_source()
        return super().loss(model, (torch.cat((x, test.x)), torch.cat((y, test.y))))


class PeeksLater(PeeksInLoss):
    """The same after three steps, when whatever is tried before the training is over."""

    def loss(self, model, batch):
        peek = super().loss if self.losses > 3 else super(PeeksInLoss, self).loss
        return peek(model, batch)


class CopiesLabels(Tiny):
    """Says that it has named the test set's labels."""

    def outcomes(self, model, batch):
        rows = super().outcomes(model, batch)
        labels = self.test_source().y[: len(rows["top1"])]
        return {**rows, "top1": labels >= 0}


class BuildsFromTest(Tiny):
    def build_model(self):
        model = super().build_model()
        with torch.no_grad():
            model[0].bias.fill_(self.test_source().x.mean())
        return model


class MeasuresTest(Tiny):
    def metrics(self, outcomes):
        return {**super().metrics(outcomes), "top1": len(self.test_source()) / 23}


class ChanceOfTest(Tiny):
    def chance(self):
        return len(self.test_source()) / 230


LEAKS = {
    "PeeksInLoss": 0,
    "PeeksLater": 3,
    "CopiesLabels": 0,
    "BuildsFromTest": 0,
    "MeasuresTest": 4,
    "ChanceOfTest": 0,
}


@pytest.mark.parametrize("leak", LEAKS)
def test_a_leak_is_caught_in_a_tuning_run_and_before_the_training_where_it_can_be(leak, tmp_path):
    kind = f"{__name__}:{leak}"
    steps = LEAKS[leak]
    with pytest.raises(ValueError, match=f"{leak} {CLOSED}"):
        train(config_of(kind, *TUNING, "log_every=1"), tmp_path / "tuning")
    assert not (tmp_path / "tuning" / "finished.json").exists()
    assert (tmp_path / "tuning").exists() == (steps > 0)
    if steps:
        trained = [record["step"] for record in metrics(tmp_path / "tuning")]
        assert max(trained) == steps
    # where the test data is open, nothing has changed
    assert train(config_of(kind, SHARE), tmp_path / "final").steps == 12


# --- the command ---


def test_the_command_says_what_the_score_is(tmp_path, capsys):
    given = ("train", "--task", KIND, *("--set", "threads=1"), *("--set", "epochs=1"))
    tuning = [part for change in TUNING for part in ("--set", change)]
    assert run([*given, *tuning, "--out", str(tmp_path / "tuning")]) == 0
    out, err = capsys.readouterr()
    assert " on validation data after 1 steps" in out
    assert " on validation data" in err
    assert run([*given, "--out", str(tmp_path / "test")]) == 0
    out, err = capsys.readouterr()
    assert "validation" not in out + err
    assert run([*given, "--set", TUNING[1], "--out", str(tmp_path / "no")]) == 2
    assert "score_on=validation needs validation data" in capsys.readouterr().err
    assert run([*given, *tuning, "--out", str(tmp_path / "test")]) == 2
    assert "holds another run: its task.validation is None, not 0.25" in capsys.readouterr().err
    assert run([*given, *tuning, "--out", str(tmp_path / "tuning"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 1
    assert run(["train", "--help"]) == 0
    assert "task.score_on=validation" in capsys.readouterr().out
