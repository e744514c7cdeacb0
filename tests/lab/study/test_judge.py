"""From runs to rows: divergences are scores, failures are gaps that are told, controls are compared with."""

import json
import math

import pytest

from gaf.lab.engine.folder import Result
from gaf.lab.study import recipes
from gaf.lab.study.grid import Outcome
from gaf.lab.study.judge import Entry, Finals, judge
from gaf.lab.study.results import Comparison, RateTrial, RuleCurve, Tuning
from gaf.lab.study.settings import control, make
from gaf.lab.study.words import answer, sentences

BASE = recipes.get("digits-cnn-sgdm")
GOOD, BAD = (0.90, 0.91, 0.92, 0.93), (0.60, 0.63, 0.61, 0.64)


@pytest.fixture
def outcome(tmp_path):
    """Makes the outcome of a run with these test scores, in a folder with records."""
    count = 0

    def make_one(*scores, diverged=False, loss=0.5, train_loss=0.2, higher=True, chance=None):
        nonlocal count
        count += 1
        folder = tmp_path / str(count)
        folder.mkdir()
        records = []
        for i, score in enumerate(scores, start=1):
            records.append(
                {"kind": "train", "step": 10 * i, "epoch": float(i), "loss": train_loss / i}
            )
            records.append({"kind": "test", "step": 10 * i, "epoch": float(i), "top1": score})
        lines = "".join(json.dumps({**each, "time": {}}) + "\n" for each in records)
        (folder / "metrics.jsonl").write_text(lines)
        final = {"top1": scores[-1]} if diverged else {"top1": scores[-1], "loss": loss}
        result = Result(
            name="a",
            score_name="top1",
            score=scores[-1],
            higher_is_better=higher,
            final=final,
            best=final,
            diverged=diverged,
            steps=10 * len(scores),
            seconds_per_step=0.01 * count,
            folder=folder,
            chance=chance,
        )
        return Outcome(folder, result)

    return make_one


def table(rows, **options):
    """Rows of settings with their outcomes; every function's control is among them."""
    return {row.setting: row for row in compared(rows, **options).rows}


def compared(rows, second=None, tuning=None):
    """The comparison of settings with their outcomes, and with those at the second best rate."""
    entries, finals = [], {}
    for name, some in rows.items():
        setting = make(BASE, name)
        owner = f"control({setting.name})" if setting.kind == "function" and not second else None
        entries.append(Entry(setting, control=owner))
        other = second.get(name, ()) if second else ()
        finals[setting.name] = Finals(some, 0.1, 0.3 if other else None, other)
    seeds = tuple(range(len(next(iter(rows.values())))))
    first = next(iter(rows.values()))[0].result
    whole = Comparison(
        title="a",
        task="b",
        score_name="top1",
        higher_is_better=first.higher_is_better if first else True,
        seeds=seeds,
        baseline=entries[0].name,
        rows=judge(entries, finals, seeds, len(tuning.seeds) if tuning else 0),
        runs=(),
        tuning=tuning,
        command=(),
        environment={},
        created="",
    )
    return whole.model_copy(update={"rows": sentences(whole)})


def test_better_than_both_and_better_than_the_baseline_only(outcome):
    f = "arctan(0.1, 20)@momentum"
    base, good = [outcome(each) for each in BAD], [outcome(each) for each in GOOD]
    rows = table({"baseline": base, f: good, f"control({f})": [outcome(each) for each in BAD]})
    assert rows[f].verdict == "better"
    assert rows[f].vs_control.verdict == "better"
    assert rows[f].vs_control.against == f"control({f})"
    assert "slope" not in rows[f].sentence
    assert "Better than the baseline (+0.295" in rows[f].sentence
    assert rows[f"control({f})"].sentence == "The same scores as the baseline on all 4 seeds."

    close = [outcome(each + 0.001 * (-1) ** i) for i, each in enumerate(GOOD)]
    rows = table({"baseline": base, f: good, f"control({f})": close})
    assert rows[f].vs_control.verdict == "no difference"
    assert "the slope of f alone may explain the gain" in rows[f].sentence


def test_p_values_are_corrected_for_all_differences_of_the_table(outcome):
    f = "arctan(0.1, 20)@momentum"
    rows = table(
        {
            name: [outcome(each + shift) for each, shift in zip(GOOD, shifts, strict=True)]
            for name, shifts in {
                "baseline": (0, 0, 0, 0),
                "adam": (0.010, 0.012, 0.009, 0.011),
                f: (0.001, -0.002, 0.002, 0.0),
                f"control({f})": (0.003, 0.001, -0.002, 0.001),
            }.items()
        }
    )
    best = rows["adam"].vs_baseline
    assert best.p_corrected == pytest.approx(4 * best.p)  # adam, f, its control, f against that
    other = rows[f].vs_baseline
    assert other.verdict == "no difference"
    assert "seeds would" not in rows[f].sentence  # to go on until the verdict changes is no test


def test_a_divergence_is_a_result_with_a_score(outcome):
    ran = [outcome(0.5, 0.0, diverged=True), *(outcome(each) for each in GOOD[1:])]
    rows = table({"baseline": [outcome(each) for each in GOOD], "adam": ran})
    row = rows["adam"]
    assert (row.diverged, row.failed) == (1, {})
    assert row.scores == (0.0, *GOOD[1:])
    assert row.vs_baseline.n == 4
    assert row.vs_baseline.mean == pytest.approx(-0.9 / 4)
    assert "1 of 4 runs diverged" in row.sentence


def test_a_failure_is_told_and_the_other_seeds_count(outcome, tmp_path):
    ran = [outcome(GOOD[0]), Outcome(tmp_path, None, "RuntimeError: no"), *map(outcome, GOOD[2:])]
    rows = table({"baseline": [outcome(each) for each in BAD], "adam": ran})
    row = rows["adam"]
    assert row.failed == {1: "RuntimeError: no"}
    assert row.scores == (GOOD[0], None, *GOOD[2:])
    assert (row.vs_baseline.n, row.verdict) == (3, "better")
    assert "1 of 4 runs failed" in row.sentence


def test_a_setting_whose_runs_all_failed(outcome, tmp_path):
    rows = table({"baseline": [outcome(0.9)], "adam": [Outcome(tmp_path, None, "x")]})
    row = rows["adam"]
    assert (row.mean, row.vs_baseline, row.verdict) == (None, None, "failed")
    assert (row.train_test_gap, row.seconds_per_step, row.steps_to_baseline) == (None, None, None)
    assert row.sentence == "No run to compare with the baseline; 1 of 1 runs failed."


def test_figures_of_a_row(outcome):
    """Steps count to the first test as good as the baseline's last on that seed; the gap is over an epoch."""
    base = [outcome(0.1, 0.5, 0.8), outcome(0.1, 0.5, 0.8)]
    rows = table(
        {
            "baseline": base,
            "adam": [outcome(0.7, 0.8, 0.9), outcome(0.9, 0.8, 0.7)],
            "centralize": [outcome(0.1, 0.1, 0.8), outcome(0.1, 0.1, 0.1)],
        }
    )
    assert rows["adam"].steps_to_baseline == 15  # 20 and 10
    assert rows["adam"].reached == 2
    assert rows["baseline"].steps_to_baseline == 30
    assert (rows["centralize"].steps_to_baseline, rows["centralize"].reached) == (None, 1)
    assert rows["adam"].train_test_gap == pytest.approx(0.5 - 0.2 / 3)
    assert rows["adam"].seconds_per_step == pytest.approx(0.035)
    assert rows["adam"].changes == {
        **{"optimizer.name": "adam", "optimizer.lr": "0.001", "optimizer.momentum": "0"},
    }
    assert rows["baseline"].changes == {}


def test_a_loss_that_diverged_to_infinity(outcome):
    base = [outcome(0.3, higher=False) for _ in range(10)]
    ran = [outcome(math.inf, diverged=True, higher=False) for _ in range(10)]
    row = table({"baseline": base, "adam": ran})["adam"]
    assert (row.mean, row.std, row.verdict) == (math.inf, None, "worse")
    assert row.sentence.startswith("Worse than the baseline (+inf, p 0.002, 10 seeds)")


def test_one_seed_tells_nothing(outcome):
    row = table({"baseline": [outcome(0.1)], "adam": [outcome(0.9)]})["adam"]
    assert row.verdict == "no difference"
    assert row.sentence == "No difference to the baseline at one seed, which is not enough (+0.8)."


def at(outcome, scores, **options):
    return [outcome(each, **options) for each in scores]


CHANCE = {"chance": 0.126}


def test_where_the_baseline_is_at_chance_nothing_was_learned(outcome):
    f = "arctan(0.1, 20)@momentum"
    rows = table(
        {
            "baseline": at(outcome, (0.10, 0.11, 0.10, 0.12), **CHANCE),
            "adam": at(outcome, (0.10, 0.09, 0.126, 0.11), **CHANCE),
            "centralize": at(outcome, (0.0, 0.0, 0.0, 0.0), diverged=True, **CHANCE),
            f: at(outcome, GOOD, **CHANCE),
            f"control({f})": at(outcome, (0.10, 0.11, 0.60, 0.12), **CHANCE),
        }
    )
    base = rows["baseline"]
    assert (base.at_chance, base.verdict) == (True, "baseline")
    assert base.sentence == (
        "What the others are compared with; nothing learned here: no run scored better than chance."
    )
    for row in (rows["adam"], rows["centralize"]):
        assert (row.at_chance, row.verdict) == (True, "nothing learned")
        assert row.sentence.startswith("Nothing learned here: like the baseline, no run scored")
        assert "no difference" not in row.sentence
    assert "4 of 4 runs diverged" in rows["centralize"].sentence
    assert (rows[f].at_chance, rows[f].verdict) == (False, "better")
    assert rows[f].sentence.startswith("Better than the baseline, which learned nothing (+0.8")
    some = rows[f"control({f})"]  # one seed learned
    assert (some.at_chance, some.verdict) == (False, "no difference")
    assert "No difference to the baseline, which learned nothing, at 4 seeds" in some.sentence
    assert {(row.steps_to_baseline, row.reached) for row in rows.values()} == {(None, 0)}


@pytest.mark.parametrize(
    ("scores", "options", "at_chance"),
    [
        ((0.10, 0.11, 0.13), CHANCE, False),  # one seed is better
        ((0.10, 0.11, 0.12), {}, False),  # the task does not say
        ((5.0, 4.9, math.inf), {"chance": 4.8, "higher": False}, True),
        ((5.0, 4.7, 5.0), {"chance": 4.8, "higher": False}, False),
    ],
)
def test_chance_is_what_the_task_says_and_holds_for_all_seeds(outcome, scores, options, at_chance):
    row = table({"baseline": at(outcome, scores, **options)})["baseline"]
    assert row.at_chance == at_chance


def curve(chosen, *rates):
    trials = tuple(RateTrial(rate=rate, part="grid", scores=(0.5,), mean=0.5) for rate in rates)
    return RuleCurve(
        usual=0.1, trials=trials, chosen=chosen, second=0.3, window=None, best_of=(0.5,)
    )


def tuned(*names, rates=(0.03, 0.1, 0.3)):
    return Tuning(
        seeds=(1000,),
        rates=3,
        ratio=3.0,
        validation=0.2,
        within=0.01,
        threshold=0.9,
        curves={name: curve(0.1, *rates) for name in names},
    )


G = "tanh(0.1, 20)@momentum"


def two_rates(outcome, best, second, base, base_second):
    """A function against the baseline, each with its scores at two rates."""
    rows = {"baseline": [*map(outcome, base)], G: [*map(outcome, best)]}
    others = {"baseline": [*map(outcome, base_second)], G: [*map(outcome, second)]}
    return compared(rows, others, tuned("baseline", G))


def test_a_rule_is_better_where_it_beats_both_rates_of_the_baseline(outcome):
    found = two_rates(outcome, GOOD, BAD, BAD, BAD)
    assert found.row(G).verdict == "better"
    assert "Better than tuned baseline (+0.295" in found.row(G).sentence
    assert answer(found).startswith(f"Yes: {G} is better than tuned baseline by 29.5 points [")
    found = two_rates(outcome, GOOD, BAD, BAD, GOOD)
    row = found.row(G)
    assert row.verdict == "no difference"
    assert (row.vs_baseline.p, row.vs_baseline.low > 0) == (1.0, True)
    assert "but not at both of the best rates of baseline" in row.sentence
    assert answer(found).startswith(f"No difference: {G} and tuned baseline differ by +29.5 points")


def test_a_rule_is_worse_where_both_of_its_rates_are(outcome):
    assert two_rates(outcome, BAD, BAD, GOOD, GOOD).row(G).verdict == "worse"
    found = two_rates(outcome, BAD, GOOD, GOOD, BAD)
    assert found.row(G).verdict == "no difference"
    assert f"not at both of the best rates of {G}" in found.row(G).sentence
    assert answer(two_rates(outcome, BAD, BAD, GOOD, GOOD)).startswith(
        f"No: {G} is worse than tuned baseline by 29.5 points ["
    )


def test_the_answer_says_where_a_control_does_as_well_and_never_counts_one(outcome):
    f, control = "arctan(0.1, 20)@momentum", "control(arctan(0.1, 20)@momentum)"
    base, good = [*map(outcome, BAD)], [*map(outcome, GOOD)]
    close = [outcome(each + 0.001 * (-1) ** i) for i, each in enumerate(GOOD)]
    said = answer(compared({"baseline": base, f: good, control: close}))
    assert said.startswith(f"Yes: {f} is better than the baseline by 29.5 points")
    assert f"No difference to its control, {control}, was found" in said
    assert "So is" not in said
    alone = answer(compared({"baseline": base, f: good, control: [*map(outcome, BAD)]}))
    assert control not in alone


def test_where_runs_diverged_to_infinity_the_answer_says_what_that_takes(outcome):
    base = [outcome(0.3, higher=False) for _ in range(4)]
    ran = [outcome(math.inf, diverged=True, higher=False) for _ in range(4)]
    said = answer(compared({"baseline": base, "auto": ran}))
    assert said.startswith(
        "No difference: over 4 seeds runs of auto@gradient or the baseline diverged"
    )


def test_a_rate_at_the_edge_of_what_was_tried_is_said(outcome):
    rows = {"baseline": [*map(outcome, BAD)], G: [*map(outcome, GOOD)]}
    others = {name: [*map(outcome, BAD)] for name in rows}
    for rates, edge in (((0.03, 0.1, 0.3), False), ((0.1, 0.3, 0.9), True)):
        found = compared(rows, others, tuned("baseline", G, rates=rates))
        assert "at lr 0.1, the next best 0.3" in found.row(G).sentence
        assert ("edge" in found.row(G).sentence) == edge


def test_a_function_of_slope_one_has_the_baseline_for_a_control(outcome):
    f = make(BASE, "tanh(1, 1)")
    assert control(f).config.optimizer == BASE.optimizer
    entries = [Entry(make(BASE, "baseline")), Entry(f, control="baseline")]
    finals = {"baseline": Finals([*map(outcome, BAD)]), f.name: Finals([*map(outcome, GOOD)])}
    row = judge(entries, finals, range(4))[1]
    assert row.vs_control == row.vs_baseline
    assert row.vs_baseline.p == row.vs_baseline.p_corrected  # one comparison, not two
    assert "matched control" not in row.sentence
