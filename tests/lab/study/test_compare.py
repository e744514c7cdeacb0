"""A whole comparison: which runs it makes, that they are paired, what is refused and found again."""

import dataclasses
from concurrent.futures import Future

import pytest
import torch

from gaf.lab.engine.config import read as read_values
from gaf.lab.engine.folder import locked, read_config
from gaf.lab.study import recipes
from gaf.lab.study.compare import Seeds, compare, describe, look, read
from gaf.lab.study.grid import RunFailed
from gaf.lab.study.plan import FIRST_TUNING_SEED, SEEDS, SETTINGS, Plan, TuningPlan, digits
from gaf.lab.study.words import answer, seeds_to_plan
from tests.lab.engine.tiny import Tiny
from tests.lab.study.grid_tasks import Here, base

F, G = "arctan(0.1, 20)@momentum", "arctan(0.2, 10)@momentum"
AT_RATE = {"tuning": None}
QUICK = TuningPlan(rates=3, seeds=1)


def names(plan):
    return [entry.name for entry in plan.entries()]


def test_at_given_rates_each_function_has_its_control_and_equal_configs_are_one_row():
    settings = (F, "lr x2", G, "arctan(0.1, 20)@gradient", "baseline", F)
    plan = Plan(base(), settings, **AT_RATE)
    assert names(plan) == [
        *("sgd", F, f"control({F})", G, "arctan(0.1, 20)@gradient"),
    ]
    entries = {entry.name: entry for entry in plan.entries()}
    # without weight decay the control of f at the gradient is lr x2 as well
    also = ("lr x2", f"control({G})", "control(arctan(0.1, 20)@gradient)")
    assert entries[f"control({F})"].also == also
    assert entries[G].control == f"control({F})"
    assert entries["sgd"].also == ("baseline",)


def test_at_given_rates_weight_decay_gives_the_placements_controls_of_their_own():
    settings = (F, "arctan(0.1, 20)@gradient")
    assert len(names(Plan(base("optimizer.weight_decay=0.01"), settings, **AT_RATE))) == 5


def test_a_tuned_baseline_is_the_control_of_a_function_that_changes_the_rate_alone():
    settings = (F, "arctan(0.1, 20)@gradient", "arctan(0.1, 20)@update")
    assert names(Plan(base(), settings)) == ["sgd", *settings]
    decayed = Plan(base("optimizer.weight_decay=0.01"), settings)
    control = "control(arctan(0.1, 20)@gradient)"
    assert names(decayed) == ["sgd", settings[0], settings[1], control, settings[2]]
    assert {entry.control for entry in decayed.entries()} == {None, control}


@pytest.mark.parametrize(
    ("function", "rule"),
    [
        ("adam + tanh(0.1, 20)@momentum", "adam"),
        ("clip-norm-1 + arctan(0.1, 20)@momentum", "clip-norm-1"),
        ("arctan(0.1, 20)@gradient", "control(arctan(0.1, 20)@gradient)"),
    ],
)
def test_a_rule_that_is_named_anyway_is_the_control(function, rule):
    """In any order, and once."""
    decayed = base("optimizer.weight_decay=0.01")
    for settings in ((function, rule), (rule, function)):
        entries = {entry.name: entry for entry in Plan(decayed, settings).entries()}
        assert {*entries} == {"sgd", function, rule}
        assert entries[function].control == rule
        assert entries[rule].control is None
        assert entries[rule].also == ()


def test_a_rule_and_the_same_rule_untuned_are_two_rows_where_rates_are_tuned():
    settings = ("adam + untuned", "adam")
    assert names(Plan(base(), settings)) == ["sgd", *settings]
    assert names(Plan(base(), settings, **AT_RATE)) == ["sgd", "adam + untuned"]


def test_a_recipe_with_a_function_is_compared_with_its_baseline():
    plan = Plan(recipes.get("digits-cnn-sgdm-log-0.1-20@update"), ())
    assert names(plan) == ["sgd", "log(0.1, 20)@update"]
    assert plan.base.optimizer == recipes.get("digits-cnn-sgdm").optimizer


def test_a_function_is_one_setting_however_it_is_spelled():
    """Twice the same training would cost its time and Holm's correction."""
    same = ("auto", "auto()", "Auto(0.03)", "auto(step=3e-2, lr=None)", "auto@gradient")
    plan = Plan(base(), same, **AT_RATE)
    assert names(plan) == ["sgd", "auto@gradient"]
    rule = plan.entries()[1].setting.config.optimizer
    assert rule.activation == "auto"  # finished runs are found by it


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"settings": ("adma",)}, "did you mean 'adam'"),
        ({"seeds": ()}, "needs seeds"),
        ({"seeds": (1, 1)}, "each once"),
        ({"seeds": (FIRST_TUNING_SEED,)}, "are for tuning"),
        ({"base": base("devices=2")}, "one device"),
    ],
)
def test_plans_that_cannot_be_are_refused(change, complaint):
    with pytest.raises(ValueError, match=complaint):
        dataclasses.replace(Plan(base()), **change)


def test_a_run_takes_one_thread_unless_the_config_says_otherwise():
    assert Plan(base("threads=null")).base.threads == 1
    assert Plan(base("threads=2")).base.threads == 2


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"rates": 1}, "2 to 100 learning rates"),
        ({"seeds": 0}, "1 to 1000 seeds"),
        ({"validation": 0.0}, "a share between 0 and 1"),
        ({"within": 0.0}, "0 to 100 points"),
    ],
)
def test_a_tuning_that_cannot_be_is_refused(change, complaint):
    with pytest.raises(ValueError, match=complaint):
        TuningPlan(**change)


def test_the_default_is_two_models_on_data_that_needs_no_download():
    plans = [Plan(config, settings) for config, settings in digits()]
    assert {plan.base.task.data for plan in plans} == {"digits"}
    for plan in plans:
        where = "momentum" if plan.base.optimizer.momentum else "gradient"
        functions = {f"{f}(0.1, 20)@{where}" for f in ("arctan", "tanh")}
        wanted = {"sgd", "clip-norm-1", "adam", "auto@gradient", *functions}
        assert wanted <= set(names(plan))
    assert SEEDS >= 5
    assert set(SETTINGS) >= {"adam", "auto"}


def test_a_comparison_is_written_and_found_again(tmp_path):
    plan = Plan(base(), (F,), (0, 1), **AT_RATE)
    first = compare(plan, tmp_path / "c", Here(), command=["gaf", "compare"])
    assert first == read(tmp_path / "c")
    assert [row.setting for row in first.rows][:1] == ["sgd"]
    assert {row.setting for row in first.rows[1:]} == {F, f"control({F})"}
    for run in first.runs:
        folder = tmp_path / "c" / run.folder
        assert (folder / "finished.json").exists()
        assert read_config(folder).seed == run.seed
    assert first.environment["versions"]["torch"] == torch.__version__
    assert "command" not in first.environment
    assert first.cost.trials == 0
    assert first.cost.finals == len(first.runs) == 6

    again = Here()
    second = compare(plan, tmp_path / "c", again, command=["gaf", "compare"])
    assert again.asked == []
    assert second.model_copy(update={"created": first.created}) == first
    more = Here()
    compare(dataclasses.replace(plan, seeds=(0, 1, 2)), tmp_path / "c", more)
    assert {each.seed for each in more.asked} == {2}
    assert len(more.asked) == len(first.rows)


def test_every_rule_is_tuned_alike_on_validation_data_and_seeds_of_its_own(tmp_path):
    plan = Plan(base(), (F, "adam", "auto"), (0, 1), QUICK)
    executor = Here()
    found = compare(plan, tmp_path, executor)
    trials = [each for each in executor.asked if each.seed >= FIRST_TUNING_SEED]
    finals = [each for each in executor.asked if each.seed < FIRST_TUNING_SEED]
    assert {each.task.score_on for each in trials} == {"validation"}
    assert {each.task.score_on for each in finals} == {"test"}
    assert {each.task.validation for each in executor.asked} == {0.2}
    assert found.cost.trials == len(trials)
    assert found.cost.finals == len(finals)
    for name, curve in found.tuning.curves.items():
        grid = [trial for trial in curve.trials if trial.part == "grid"]
        tuned = name in ("sgd", F, "adam")
        assert len(grid) == (3 if tuned else 1), name
        assert len(curve.best_of) == len(grid)
        means = [trial.mean for trial in grid]
        assert curve.best_of[-1] == pytest.approx(max(means))
        best = max(trial.mean for trial in curve.trials if trial.part != "refined")
        chosen = next(trial for trial in curve.trials if trial.rate == curve.chosen)
        assert chosen.mean == best
        row = found.row(name)
        assert (row.rate, row.second_rate) == (curve.chosen, curve.second)
        assert len(row.second_scores) == (2 if tuned else 0)
    assert found.tuning.curves["adam"].usual == 0.001
    assert answer(found)


def test_a_best_rate_at_the_edge_makes_the_grid_grow_and_the_budget_counts_it(tmp_path):
    found = compare(
        Plan(base("optimizer.lr=0.001", samples=400), (), (0,), QUICK), tmp_path, Here()
    )
    curve = found.tuning.curves["sgd"]
    grown = [trial.rate for trial in curve.trials if trial.part == "grown"]
    assert grown == pytest.approx([0.009, 0.027])  # two a side at most
    assert found.cost.trials >= 5
    assert "edge of what was tried" in found.rows[0].sentence


def test_the_test_data_stays_closed_while_rates_are_tuned(tmp_path):
    leaky = {"kind": "tests.lab.study.grid_tasks:Leaky"}
    config = read_values({**base().model_dump(mode="json"), "task": leaky})
    with pytest.raises(ValueError, match="stays closed while rates are tuned"):
        compare(Plan(config, (), (0,), QUICK), tmp_path, Here())


def test_more_seeds_are_a_new_look_at_which_the_earlier_ones_decide_nothing(tmp_path):
    plan = Plan(base(), ("adam",), (0, 1), **AT_RATE)
    first = compare(plan, tmp_path, Here())
    assert (first.seeds, first.earlier) == ((0, 1), ())
    larger = dataclasses.replace(plan, seeds=(0, 1, 2, 3))
    second = compare(larger, tmp_path, Here())
    assert (second.seeds, second.earlier) == ((2, 3), (0, 1))
    assert second.row("adam").earlier == first.row("adam").scores
    assert second.row("adam").vs_baseline.n == 2
    again = compare(larger, tmp_path, Here())
    assert again.model_copy(update={"created": second.created}) == second
    assert look(plan, tmp_path) == Seeds((2, 3), (0, 1))  # fewer are the same look
    for other in ({"tuning": QUICK}, {"base": base("epochs=2")}):  # another question
        assert look(dataclasses.replace(plan, **other), tmp_path) == Seeds((0, 1))


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
    compare(Plan(base(dropout=0.1), (F, "adam"), (0, 1), **AT_RATE), tmp_path, Named())
    runs = {setting for setting, _ in seen}
    assert len(runs) == 4
    for seed in (0, 1):
        first, *others = [seen[setting, seed] for setting in sorted(runs)]
        assert len(first) == 16  # weights, and 15 batches
        for other in others:
            assert all(map(torch.equal, first, other))
    one, two = (seen[min(runs), seed] for seed in (0, 1))
    assert not any(map(torch.equal, one, two))


def test_the_configs_own_validation_share_is_the_one_that_is_kept_out(tmp_path):
    executor = Here()
    found = compare(Plan(base("task.validation=0.4"), (), (0,), QUICK), tmp_path, executor)
    assert {each.task.validation for each in executor.asked} == {0.4}
    assert found.tuning.validation == 0.4


def test_a_verdict_on_validation_data_says_so(tmp_path):
    scored = base("task.validation=0.4", "task.score_on=validation")
    for tuning in (None, QUICK):
        plan = Plan(scored, ("adam",), (0, 1), tuning)
        found = compare(plan, tmp_path / str(tuning is None), Here())
        assert found.score_on == "validation"
        assert "Judged on validation data" in answer(found)


def test_a_rule_none_of_whose_trials_ended_costs_its_trials_alone(tmp_path):
    class NoAdam(Here):
        def submit(self, config, folder, seen):
            if config.optimizer.name != "adam":
                return super().submit(config, folder, seen)
            self.asked.append(config)
            future = Future()
            future.set_exception(RunFailed("no"))
            return future

    executor = NoAdam()
    found = compare(Plan(base(), ("adam",), (0, 1), QUICK), tmp_path, executor)
    assert found.row("adam").verdict == "failed"
    assert found.cost.finals == sum(config.seed < FIRST_TUNING_SEED for config in executor.asked)
    assert found.cost.trials + found.cost.finals == len(executor.asked)


def test_seeds_to_plan_without_any_function(tmp_path):
    found = compare(Plan(base(), ("adam",), (0, 1, 2), **AT_RATE), tmp_path, Here())
    assert seeds_to_plan(found, 0.01) >= 2


def test_a_crash_on_one_seed_is_reported_and_the_others_count(tmp_path):
    found = compare(Plan(base(crash=1), ("adam",), (0, 1, 2), **AT_RATE), tmp_path, Here())
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
        compare(Plan(base(crash=0), (F,), (0,), **AT_RATE), tmp_path, Here())


def test_a_folder_with_something_else_is_refused(tmp_path):
    plan, executor = Plan(base(), (), (0,), **AT_RATE), Here()
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="not empty and holds no comparison"):
        compare(plan, tmp_path, executor)
    with pytest.raises(ValueError, match="is not a folder"):
        compare(plan, tmp_path / "file", executor)
    compare(plan, tmp_path / "one", executor)
    other = Plan(base("name=other"), (), (0,), **AT_RATE)
    with pytest.raises(ValueError, match="holds the comparison of trouble; choose another"):
        compare(other, tmp_path / "one", executor)
    with locked(tmp_path / "one"), pytest.raises(ValueError, match="another process"):
        compare(plan, tmp_path / "one", executor)


def test_describe():
    assert describe(base()).startswith(
        "tests.lab.study.grid_tasks:Trouble, 3 epochs in batches of 16"
    )
    assert "5 steps" in describe(base("iterations=5"))
