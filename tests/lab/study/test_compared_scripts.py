"""A script of one's own under the protocol: its own names and rates, and a seed that it ignores is told."""

import textwrap

import pytest

from gaf.common.errors import GafError
from gaf.lab.engine.config import override
from gaf.lab.engine.script import script_config
from gaf.lab.study.compare import compare
from gaf.lab.study.plan import Plan, TuningPlan
from gaf.lab.study.pool import LOG, Pool

THREE_RATES = TuningPlan(rates=3, seeds=2)
SCRIPT = """
    import torch
    import gaf

    trial = gaf.trial(score="loss", higher_is_better=False)
    torch.manual_seed({seed})
    w = torch.nn.Parameter(torch.randn(5))
    opt = trial.optimizer("sgd", [w], lr=0.3, momentum=0.5)
    for _ in range(20):
        opt.zero_grad()
        (w**2).sum().backward()
        opt.step()
    loss = (w**2).sum().item()
    trial.report(validation=loss, {test} step=20)
"""


def compared(
    tmp_path,
    monkeypatch,
    settings=(),
    seed="trial.seed",
    test="test=loss,",
    tuning=THREE_RATES,
    seeds=(0, 1),
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(textwrap.dedent(SCRIPT.format(seed=seed, test=test)))
    plan = Plan(script_config("train.py"), settings, seeds, tuning)
    with Pool(2, tmp_path / "out" / LOG) as pool:
        return compare(plan, tmp_path / "out", pool)


@pytest.mark.slow
def test_names_and_rates_are_the_scripts_own(tmp_path, monkeypatch):
    found = compared(tmp_path, monkeypatch, ("adam",))
    assert found.task == "train.py"
    assert [row.setting for row in found.rows] == ["SGD", "adam"]
    assert set(found.tuning.curves) == {"SGD", "adam"}
    own = found.tuning.curves["SGD"]
    assert own.usual == 0.3
    # it, a third and three times it; where the best is at an edge the grid has grown
    assert {0.1, 0.3, 0.9} <= {round(trial.rate, 6) for trial in own.trials}
    assert found.rows[0].rate in [trial.rate for trial in own.trials]
    assert found.tuning.curves["adam"].usual == 0.001
    assert (found.score_on, found.higher_is_better) == ("test", False)


@pytest.mark.slow
def test_with_validation_alone_the_verdict_is_on_it(tmp_path, monkeypatch):
    assert compared(tmp_path, monkeypatch, test="", tuning=None).score_on == "validation"


@pytest.mark.slow
@pytest.mark.parametrize("tuning", [None, TuningPlan(rates=2, seeds=1)], ids=["given", "tuned"])
def test_more_seeds_of_a_script_are_a_new_look(tuning, tmp_path, monkeypatch):
    compared(tmp_path, monkeypatch, tuning=tuning)
    found = compared(tmp_path, monkeypatch, tuning=tuning, seeds=(0, 1, 2, 3))
    assert (found.seeds, found.earlier) == ((2, 3), (0, 1))


@pytest.mark.slow
def test_seeds_that_end_alike_at_the_best_rate_are_no_ignored_seeds(tmp_path, monkeypatch):
    """An easy task: where it is learned the test score is the best there is; elsewhere seeds differ."""
    same = "test=max(loss, 1e-3),"
    found = compared(tmp_path, monkeypatch, test=same)
    assert {row.scores for row in found.rows} == {(1e-3, 1e-3)}


@pytest.mark.parametrize(
    "change",
    [
        *("batch_size=64", "precision=bf16-mixed", "schedule.name=constant", "accumulate=2"),
        *("optimizer.momentum=0.9", "optimizer.name=adam", "task.validation=0.1"),
    ],
)
def test_what_a_script_decides_cannot_be_set_beside_it(change):
    with pytest.raises(GafError, match=r"a script (decides|keeps)"):
        override(script_config("train.py"), [change])


def test_controls_of_a_script_are_compared_with_where_they_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    functions = {
        "arctan(0.1, 20)": "control(arctan(0.1, 20))",
        "auto": "auto(function=line)",
    }
    plan = Plan(script_config("train.py"), (*functions, *functions.values()))
    entries = {entry.name: entry.control for entry in plan.entries()}
    assert entries == {"sgd": None, **functions, **dict.fromkeys(functions.values())}
    plan = Plan(script_config("train.py"), tuple(functions))
    assert [entry.control for entry in plan.entries()] == [None, None, None]


@pytest.mark.slow
def test_a_script_that_ignores_its_seed_is_refused(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"pass trial\.seed to torch\.manual_seed"):
        compared(tmp_path, monkeypatch, seed="3")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("raise NameError('lr')", "the first run of the script failed: .*NameError"),
        ("print('trained')", "the first run of the script failed: .*calls trial.report"),
        (
            "import gaf; gaf.trial(score='loss', higher_is_better=False).report(validation=1.0, step=1)",
            "made no optimizer with trial.optimizer",
        ),
    ],
    ids=["crashes", "reports nothing", "has its own optimizer"],
)
def test_what_no_setting_could_change_is_run_once(script, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(script)
    plan = Plan(script_config("train.py"), ("adam",), (0, 1), THREE_RATES)
    with Pool(2, tmp_path / "out" / LOG) as pool, pytest.raises(GafError, match=said):
        compare(plan, tmp_path / "out", pool)
    assert len(list((tmp_path / "out" / "runs").iterdir())) == 1


def test_what_belongs_to_scripts_is_refused_elsewhere():
    from gaf.lab.study.recipes import trained

    assert trained("train.py", arguments=["--epochs", "3"]).task.kind == "script"
    with pytest.raises(ValueError, match="are for a script, and digits-cnn-sgdm is not one"):
        trained("digits-cnn-sgdm", arguments=["--epochs", "3"])
