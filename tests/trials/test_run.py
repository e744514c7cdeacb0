"""What a script reports: the last one counts, tuning never sees test data, and the first process writes."""

import json
import math

import numpy as np
import pytest
import torch

import gaf
from gaf.common.errors import GafError
from gaf.common.files import read_json
from gaf.trials.run import REPORT
from tests.trials.helpers import asked, train, weights


@pytest.fixture
def alone(monkeypatch, tmp_path):
    monkeypatch.delenv("GAF_TRIAL", raising=False)
    monkeypatch.chdir(tmp_path)
    return gaf.trial(score="loss", higher_is_better=False)


def test_by_itself_a_report_is_a_line_and_outputs_have_a_folder(alone, tmp_path, capsys):
    alone.report(validation=0.25, test=lambda: 0.5)
    assert capsys.readouterr().out == "loss: validation 0.25, test 0.5\n"
    assert alone.folder.resolve() == tmp_path / "runs" / "trial"
    assert alone.folder.is_dir()
    assert alone.rate(0.1) == 0.1
    with alone.evaluating():
        pass


def test_the_last_report_counts(monkeypatch, tmp_path):
    trial = asked(monkeypatch, tmp_path, seed=7)
    assert not (tmp_path / REPORT).exists()
    params = weights()
    opt = trial.optimizer("sgd", params, lr=0.1, momentum=0.9)
    train(opt, params, steps=3)
    trial.report(validation=0.5)
    train(opt, params, steps=2)
    trial.report(validation=torch.tensor(0.75), test=np.float32(0.625))
    report = read_json(tmp_path / REPORT)
    seconds = report.pop("seconds")
    assert 0 < seconds < 60
    assert report == {
        "score": "accuracy",
        "higher_is_better": True,
        "worst": 0.0,
        "chance": None,
        "validation": 0.75,
        "test": 0.625,
        "step": 5,  # counted
        "seed_read": False,
        "optimizers": report["optimizers"],
    }
    group = report["optimizers"][""]["groups"][0]
    assert (group["lr"], group["momentum"]) == (0.1, 0.9)
    assert trial.seed == 7
    trial.report(validation=0.5, step=100)
    report = read_json(tmp_path / REPORT)
    assert (report["step"], report["test"], report["seed_read"]) == (100, None, True)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_tuning_never_sees_test_data(monkeypatch, tmp_path):
    """A number that is given is not written, and a function that would compute one is not called."""
    trial = asked(monkeypatch, tmp_path, score_on="validation")
    trial.report(validation=0.5, test=0.625)
    assert json.loads((tmp_path / REPORT).read_text())["test"] is None
    assert "0.625" not in (tmp_path / REPORT).read_text()

    def leak():
        raise AssertionError("the test data was opened while a rate was tuned")

    trial.report(validation=0.5, test=leak)


def test_what_is_not_finite_is_written_as_it_is(monkeypatch, tmp_path):
    asked(monkeypatch, tmp_path).report(validation=math.nan)
    assert read_json(tmp_path / REPORT)["validation"] == "nan"


def test_a_report_without_a_score_is_refused(monkeypatch, tmp_path):
    with pytest.raises(GafError, match="needs a score"):
        asked(monkeypatch, tmp_path).report(step=3)


def test_only_the_first_process_writes(monkeypatch, tmp_path):
    called = []
    trial = asked(monkeypatch, tmp_path)
    monkeypatch.setenv("RANK", "1")
    trial.report(validation=0.5, test=lambda: called.append(1) or 0.5)
    assert called == [1]  # it may need all processes
    assert not (tmp_path / REPORT).exists()
    monkeypatch.setenv("RANK", "0")
    trial.report(validation=0.5)
    assert (tmp_path / REPORT).exists()


def test_outputs_go_into_the_folder_of_the_trial(monkeypatch, tmp_path):
    trial = asked(monkeypatch, tmp_path)
    assert trial.folder == tmp_path / "outputs"
    assert trial.folder.is_dir()


class Switched(torch.optim.SGD):
    """With the switches of schedule-free optimizers."""

    mode = "new"

    def train(self):
        self.mode = "train"

    def eval(self):
        self.mode = "eval"

    def step(self, closure=None):
        assert self.mode == "train"
        return super().step(closure)


def test_switched_optimizers_train_and_are_evaluated(monkeypatch, tmp_path):
    trial = asked(monkeypatch, tmp_path, rule=f"{__name__}:Switched", lr=0.1)
    params = weights()
    opt = trial.optimizer("sgd", params, lr=0.5)
    train(opt, params)
    with trial.evaluating():
        assert opt.mode == "eval"
    train(opt, params)


@pytest.mark.parametrize(
    ("arguments", "score"),
    [({}, -200.0), ({"worst": 1.0, "higher_is_better": False}, 2.0)],
)
def test_a_score_below_the_worst_one_is_refused(monkeypatch, arguments, score):
    """Else a run that diverges would be the best of all."""
    monkeypatch.delenv("GAF_TRIAL", raising=False)
    with pytest.raises(ValueError, match=r"which a run that diverges would have: pass gaf\.trial"):
        gaf.trial(**arguments).report(validation=score)
    gaf.trial(worst=-1000.0).report(validation=-200.0)
    gaf.trial().report(validation=float("nan"))
