"""A whole comparison: which runs it makes, that they are paired, what is refused and found again."""

import dataclasses

import pytest
import torch

from gaf.lab.engine.folder import locked, read_config
from gaf.lab.study import compare as module
from gaf.lab.study import recipes
from gaf.lab.study.compare import (
    FACTORS,
    SEEDS,
    SETTINGS,
    TUNING_SEEDS,
    Plan,
    compare,
    describe,
    digits,
    read,
)
from tests.lab.engine.tiny import Tiny
from tests.lab.study.grid_tasks import Here, base

F, G = "arctan(0.1, 20)@momentum", "arctan(0.2, 10)@momentum"


def names(plan, **options):
    return [entry.name for entry in plan.entries(**options)]


def test_each_function_is_followed_by_its_control_and_equal_configs_are_one_row():
    plan = Plan(base(), (F, "lr x2", G, "arctan(0.1, 20)@gradient", "baseline", F))
    assert names(plan) == [
        *("baseline", F, f"control({F})", G, "arctan(0.1, 20)@gradient"),
    ]
    entries = {entry.name: entry for entry in plan.entries()}
    # without weight decay the control of f at the gradient is lr x2 as well
    also = ("lr x2", f"control({G})", "control(arctan(0.1, 20)@gradient)")
    assert entries[f"control({F})"].also == also
    assert entries[G].control == f"control({F})"


def test_with_weight_decay_the_placements_have_controls_of_their_own():
    plan = Plan(base("optimizer.weight_decay=0.01"), (F, "arctan(0.1, 20)@gradient"))
    assert len(names(plan)) == 5


def test_a_recipe_with_a_function_is_compared_with_its_baseline():
    plan = Plan(recipes.get("digits-cnn-sgdm-log-0.1-20@update"), ())
    assert names(plan) == ["baseline", "log(0.1, 20)@update", "control(log(0.1, 20)@update)"]
    assert plan.base.optimizer == recipes.get("digits-cnn-sgdm").optimizer


def test_a_function_is_one_setting_however_it_is_spelled():
    """Twice the same training would cost its time and Holm's correction."""
    same = ("auto", "auto()", "Auto(0.03)", "auto(step=3e-2, lr=None)", "auto@gradient")
    assert names(Plan(base(), same)) == ["baseline", "auto@gradient"]
    rule = Plan(base(), same).entries()[1].setting.config.optimizer
    assert rule.activation == "auto"  # finished runs are found by it


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"settings": ("adma",)}, "did you mean 'adam'"),
        ({"seeds": ()}, "needs seeds"),
        ({"seeds": (1, 1)}, "each once"),
        ({"seeds": (TUNING_SEEDS[0],)}, "are for tuning"),
        ({"base": base("devices=2")}, "one device"),
    ],
)
def test_plans_that_cannot_be_are_refused(change, complaint):
    with pytest.raises(ValueError, match=complaint):
        dataclasses.replace(Plan(base()), **change)


def test_a_run_takes_one_thread_unless_the_config_says_otherwise():
    assert Plan(base("threads=null")).base.threads == 1
    assert Plan(base("threads=2")).base.threads == 2


def test_the_default_is_two_models_on_data_that_needs_no_download():
    (mlp, steep), (cnn, usual) = digits()
    assert (mlp.task.data, cnn.task.data) == ("digits", "digits")
    assert usual == SETTINGS
    for config, settings in ((mlp, steep), (cnn, usual)):
        found = names(Plan(config, settings))
        assert {"adam", "clip-value-0.1", "clip-norm-0.1"} <= set(found)
        assert sum(name.startswith("control(") for name in found) >= 1
    assert "tuned" in usual
    assert SEEDS >= 5


def test_a_comparison_is_written_and_found_again(tmp_path):
    plan = Plan(base(), (F,), (0, 1))
    first = compare(plan, tmp_path / "c", Here(), command=["gaf", "compare"])
    assert first == read(tmp_path / "c")
    assert [row.setting for row in first.rows][:1] == ["baseline"]
    assert {row.setting for row in first.rows[1:]} == {F, f"control({F})"}
    for run in first.runs:
        folder = tmp_path / "c" / run.folder
        assert (folder / "finished.json").exists()
        assert read_config(folder).seed == run.seed
    assert first.environment["versions"]["torch"] == torch.__version__
    assert "command" not in first.environment

    again = Here()
    second = compare(plan, tmp_path / "c", again, command=["gaf", "compare"])
    assert again.asked == []
    assert second.model_copy(update={"created": first.created}) == first
    more = Here()
    compare(dataclasses.replace(plan, seeds=(0, 1, 2)), tmp_path / "c", more)
    assert {each.seed for each in more.asked} == {2}
    assert len(more.asked) == len(first.rows)


def test_the_learning_rate_is_tuned_on_seeds_that_the_table_does_not_use(tmp_path):
    plan = Plan(base("optimizer.lr=0.001"), ("tuned",), (0, 1))
    executor = Here()
    found = compare(plan, tmp_path, executor)
    tuning = [each for each in executor.asked if each.seed in TUNING_SEEDS]
    assert len(tuning) == len(FACTORS) * len(TUNING_SEEDS)
    assert not set(found.seeds) & set(found.tuning.seeds)
    assert found.tuning.chosen == "x10"  # by far too small a rate to begin with
    assert found.row("tuned").changes == {"optimizer.lr": "0.01"}
    assert found.tuning.tried["x10"] > found.tuning.tried["x0.1"]
    assert "edge" in found.row("tuned").sentence


def test_where_no_other_rate_is_better_the_tuned_baseline_is_the_baseline(tmp_path, monkeypatch):
    monkeypatch.setattr("gaf.lab.study.compare.FACTORS", (0.001, 1.0))
    found = compare(Plan(base(), ("tuned",), (0,)), tmp_path, Here())
    assert [row.setting for row in found.rows] == ["baseline"]
    assert found.row("tuned") is found.rows[0]
    assert "its own was the best" in found.rows[0].sentence


@pytest.mark.parametrize(
    ("tried", "higher", "best"),
    [
        ({0.1: 0.1, 1: 0.2, 3: 0.3}, True, 3),
        ({0.1: 0.1, 1: 0.2, 3: 0.3}, False, 0.1),
        ({0.1: 0.3, 1: 0.3, 3: 0.3}, True, 1),
        ({0.1: 0.3, 1: None, 3: 0.3}, True, 3),
        ({0.1: None, 1: None, 3: None}, True, 1),
        ({0.1: float("inf"), 1: float("inf"), 3: 2.0}, False, 3),
    ],
)
def test_the_best_rate(tried, higher, best):
    assert module._best(tried, higher) == best


def test_settings_are_paired_same_weights_and_same_batches_for_the_same_seed(tmp_path, monkeypatch):
    """Also the dropout is the same, as far as the same numbers are drawn."""
    seen: dict[tuple[str, int], list[torch.Tensor]] = {}
    loss = Tiny.loss

    def spy(self, model, batch):
        if model.training:
            first = seen.setdefault((current[0], torch.initial_seed()), [])
            if not first:
                first.append(torch.cat([p.detach().flatten() for p in model.parameters()]).clone())
            first.append(batch[0].clone())
        return loss(self, model, batch)

    class Named(Here):
        def submit(self, config, folder, seen):
            current[0] = config.name
            return super().submit(config, folder, seen)

    current = [""]
    monkeypatch.setattr(Tiny, "loss", spy)
    compare(Plan(base(dropout=0.1), (F, "adam"), (0, 1)), tmp_path, Named())
    runs = {setting for setting, _ in seen}
    assert len(runs) == 4
    for seed in (0, 1):
        first, *others = [seen[setting, seed] for setting in sorted(runs)]
        assert len(first) == 16  # weights, and 15 batches
        for other in others:
            assert all(map(torch.equal, first, other))
    one, two = (seen[min(runs), seed] for seed in (0, 1))
    assert not any(map(torch.equal, one, two))


def test_a_crash_on_one_seed_is_reported_and_the_others_count(tmp_path):
    found = compare(Plan(base(crash=1), ("adam",), (0, 1, 2)), tmp_path, Here())
    for row in found.rows:
        assert list(row.failed) == [1]
        assert "a crash" in row.failed[1]
        assert (row.scores[0] is not None, row.scores[1]) == (True, None)
    assert found.rows[1].vs_baseline.n == 2
    assert [run.status for run in found.runs_of("adam")] == ["finished", "failed", "finished"]


def test_no_baseline_no_comparison(tmp_path):
    with pytest.raises(
        ValueError, match="no run of the baseline came to an end: RuntimeError: a crash"
    ):
        compare(Plan(base(crash=0), (F,), (0,)), tmp_path, Here())


def test_a_folder_with_something_else_is_refused(tmp_path):
    plan, executor = Plan(base(), (), (0,)), Here()
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="not empty and holds no comparison"):
        compare(plan, tmp_path, executor)
    with pytest.raises(ValueError, match="is not a folder"):
        compare(plan, tmp_path / "file", executor)
    compare(plan, tmp_path / "one", executor)
    other = Plan(base("name=other"), (), (0,))
    with pytest.raises(ValueError, match="holds the comparison of trouble; choose another"):
        compare(other, tmp_path / "one", executor)
    with locked(tmp_path / "one"), pytest.raises(ValueError, match="another process"):
        compare(plan, tmp_path / "one", executor)


def test_describe():
    assert describe(base()).startswith(
        "tests.lab.study.grid_tasks:Trouble, 3 epochs in batches of 16"
    )
    assert "5 steps" in describe(base("iterations=5"))
