"""A comparison is written and read back unchanged; a file that is not one is refused in a sentence."""

import json
import math

import pytest

from gaf.lab.study.compare import read
from gaf.lab.study.results import (
    Comparison,
    Difference,
    RateTrial,
    Row,
    RuleCurve,
    RunRef,
    StudyCost,
    Tuning,
    UsableRates,
    write,
)
from tests.forked import ROOT

DIFFERENCE = Difference(
    against="baseline",
    mean=math.nan,
    low=-math.inf,
    high=math.inf,
    p=1.0,
    p_corrected=1.0,
    n=1,
    verdict="no difference",
)
ROW = Row(
    setting="<script>",
    also=("lr x2",),
    kind="function",
    changes={"optimizer.lr": "0.2"},
    scores=(0.5, None, math.inf),
    mean=math.inf,
    std=None,
    diverged=1,
    failed={1: "RuntimeError: no"},
    vs_baseline=DIFFERENCE,
    control="tuned",
    vs_control=None,
    train_test_gap=None,
    seconds_per_step=0.01,
    steps_to_baseline=None,
    reached=0,
    verdict="no difference",
    sentence="What the others are compared with; 1 of 3 runs diverged; 1 of 3 runs failed.",
)
COMPARED = Comparison(
    title="a",
    task="b",
    score_name="loss",
    higher_is_better=False,
    seeds=(0, 1, 2),
    baseline="baseline",
    rows=(ROW,),
    runs=(RunRef(setting="<script>", seed=1, folder="runs/x", status="failed", score=None),),
    tuning=Tuning(
        seeds=(1000,),
        rates=7,
        ratio=3.0,
        validation=0.2,
        within=0.01,
        threshold=None,
        curves={
            "<script>": RuleCurve(
                usual=0.1,
                trials=(RateTrial(rate=0.1, part="grid", scores=(math.inf, None), mean=math.inf),),
                chosen=0.1,
                second=None,
                window=UsableRates(low=0.1, high=0.3, open_low=True, open_high=False, factor=3.0),
                best_of=(math.inf,),
            )
        },
    ),
    cost=StudyCost(trials=1, finals=3, steps=10, seconds=0.5),
    earlier=(7,),
    command=("gaf", "compare"),
    environment={"versions": {"torch": "2"}, "cores": 2},
    created="2026-01-01T00:00:00+00:00",
)


def test_it_is_read_back_unchanged(tmp_path):
    path = write(COMPARED, tmp_path / "new")
    assert repr(read(tmp_path / "new")) == repr(COMPARED)  # as text: NaN is not itself
    json.loads(path.read_text(), parse_constant=pytest.fail)  # inf and NaN as JSON can hold them


def test_rows_and_runs_by_any_name():
    assert COMPARED.row("lr x2") is COMPARED.rows[0]
    assert COMPARED.runs_of("lr x2") == COMPARED.runs
    with pytest.raises(ValueError, match="a has no setting 'x'"):
        COMPARED.row("x")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "not JSON"),
        ("{}", "lacks the key 'title'"),
        (json.dumps({**COMPARED.model_dump(mode="json"), "extra": 1}), "no key 'extra'"),
        (
            json.dumps({**COMPARED.model_dump(mode="json"), "title": 3}),
            "title should be a valid string",
        ),
    ],
)
def test_a_damaged_file_is_refused_in_a_sentence(tmp_path, content, complaint):
    (tmp_path / Comparison.file).write_text(content)
    with pytest.raises(ValueError, match=complaint) as refused:
        read(tmp_path)
    assert str(tmp_path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_folder_without_one_is_refused(tmp_path):
    with pytest.raises(ValueError, match="holds no comparison"):
        read(tmp_path)


RESULTS = [
    path
    for path in sorted((ROOT / "results").rglob("comparison.json"))
    if "seeds_needed" in path.read_text()
]


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.parent.relative_to(ROOT).as_posix())
def test_older_records_are_read_and_say_what_is_said_now(path):
    """They hold the number of seeds that "would tell", and sentences that named it."""
    text = path.read_text()
    found = read(path.parent)
    assert len(found.rows) == len(json.loads(text)["rows"])
    said = " ".join(row.sentence for row in found.rows) + found.model_dump_json()
    assert "seeds would" not in said
    assert "seeds_needed" not in said


def test_what_a_difference_does_not_have_is_refused():
    with pytest.raises(ValueError, match="seeds_wanted"):
        Difference.model_validate({**DIFFERENCE.model_dump(), "seeds_wanted": 3})
