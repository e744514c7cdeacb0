"""What is read from run folders, and that a real training records what the page needs."""

import math

import pytest

from gaf.lab.engine.run import train
from gaf.lab.reports.curves import learning_curves, shapes, share_curves
from gaf.lab.reports.history import band, histories, read, thin
from gaf.lab.reports.style import Style, styles
from tests.lab.engine.tiny import tiny_config
from tests.lab.reports.example import BASELINE, ORDINARY, Setting, comparison_of, example, write_run

PLAIN = Style("#000000", "solid", "", 1.0, True)


def test_a_real_run_has_all_the_page_shows(tmp_path):
    train(tiny_config(), tmp_path / "run")
    found = read(tmp_path / "run", 0, "top1")
    assert list(found.loss) == [2, 4, 5, 6, 8, 10, 12, 14, 15]
    assert list(found.score) == [5, 10, 15]
    assert [each["step"] for each in found.gradients] == [1, 5, 9, 13]
    for each in found.gradients:
        assert sum(each["histogram"].values()) == pytest.approx(1, abs=0.01)
        largest = max(map(float, each["histogram"]))
        assert largest <= math.log10(each["max"]) < largest + 0.25
    assert found.activation == "arctan(0.1, 20)"
    assert found.diverged is None


def test_a_run_that_diverged(tmp_path):
    train(tiny_config(explode=4), tmp_path / "run")
    found = read(tmp_path / "run", 0, "top1")
    assert found.diverged == 4
    assert math.isnan(found.loss[4])
    assert band([found.loss]).steps == [2]


def test_means_and_bands():
    found = band([{1: 1.0, 2: 5.0, 3: math.inf}, {1: 3.0, 2: math.nan}])
    assert (found.steps, found.mean, found.low, found.high) == (
        [1, 2],
        [2.0, 5.0],
        [1.0, 5.0],
        [3.0, 5.0],
    )
    assert band([]).steps == []


def test_long_trainings_are_thinned():
    assert thin(range(100_000), 400)[:1] == [0]
    assert thin(range(100_000), 400)[-1] == 99_999
    assert len(set(thin(range(100_000), 400))) == 400
    assert thin([1, 2, 3], 3) == [1, 2, 3]


@pytest.mark.parametrize(
    "line",
    [
        "not json\n",
        '{"kind": "train"}\n',
        '{"step": 1}\n',
        "[1]\n",
        '{"kind": "train", "step": 1, "loss": []}\n',
    ],
)
def test_damaged_records_are_a_sentence(line, tmp_path):
    write_run(tmp_path / "run", 0.9, 0, None)
    with open(tmp_path / "run" / "metrics.jsonl", "a") as file:
        file.write(line)
    with pytest.raises(ValueError, match=r"metrics\.jsonl is damaged") as error:
        read(tmp_path / "run", 0, "top1")
    assert "\n" not in str(error.value)


def test_a_line_cut_short_by_a_kill_is_no_damage(tmp_path):
    write_run(tmp_path / "run", 0.9, 0, None)
    with open(tmp_path / "run" / "metrics.jsonl", "a") as file:
        file.write('{"kind": "tr')
    assert len(read(tmp_path / "run", 0, "top1").loss) == 8


def test_figures_of_a_comparison(tmp_path):
    comparison = example(tmp_path)
    runs, look = histories(comparison, tmp_path), styles(comparison)
    score, loss = learning_curves(comparison, runs, look)
    names = [trace["name"] for trace in score.data if "name" in trace]
    assert names == [name for name in ORDINARY if name != "lr x100"]  # it never was tested
    assert loss.layout["yaxis"]["type"] == "log"
    shares = share_curves(runs, look)
    assert [figure.title for figure in shares] == ["Enlarged", "Restrained", "Saturated"]
    means = [trace for trace in shares[1].data if "name" in trace]
    assert [trace["meta"] for trace in means] == [
        name for name in ORDINARY if ORDINARY[name].activation
    ]
    assert means[0]["y"][-1] == pytest.approx(0.3)
    assert [each.title for each in shapes(runs, look)] == [trace["meta"] for trace in means]


def test_losses_on_the_way_to_inf_do_not_squeeze_the_others(tmp_path):
    comparison = example(tmp_path)
    path = tmp_path / "runs" / "5-0" / "metrics.jsonl"  # diverged
    huge = '{"kind": "train", "step": 1, "epoch": 0.1, "loss": 1e34, "time": {}}\n'
    path.write_text(huge + path.read_text())
    _, loss = learning_curves(comparison, histories(comparison, tmp_path), styles(comparison))
    low, high = loss.layout["yaxis"]["range"]
    assert -3 < low < high < 2


def test_a_control_looks_like_its_function_and_other_rules_do_not():
    look = styles(comparison_of(ORDINARY))
    colours = {name: style.colour for name, style in look.items()}
    assert colours["lr x2"] == colours["arctan(0.1, 20)@momentum"]  # the first of its two functions
    del colours["lr x2"]
    assert len({*colours.values()}) == len(colours)


def test_every_style_differs():
    kinds = ("function", "control", "rule")
    settings = {BASELINE: ORDINARY[BASELINE]} | {
        f"{kind} {i}": Setting(kind, (0.5, 0.6, 0.7)) for i in range(8) for kind in kinds
    }
    look = styles(comparison_of(settings))
    assert len({(each.colour, each.dash) for each in look.values()}) == 25
    assert sum(each.shown for each in look.values()) == 8
    assert look[BASELINE].shown


def test_a_function_that_is_not_registered_here_keeps_its_histogram(tmp_path):
    write_run(tmp_path / "run", 0.9, 0, "arctan(0.1, 20)")
    config = tmp_path / "run" / "config.json"
    config.write_text(config.read_text().replace("arctan(0.1, 20)", "mine(3)"))
    (found,) = shapes({"mine": [read(tmp_path / "run", 0, "top1")]}, {"mine": PLAIN})
    assert [trace["name"] for trace in found.data] == [
        "whole run",
        "first record",
        "last record",
    ]
    assert "yaxis2" not in found.layout


def test_f_stands_over_the_histogram(tmp_path):
    write_run(tmp_path / "run", 0.9, 0, "arctan(0.1, 20)")
    (found,) = shapes({"f": [read(tmp_path / "run", 0, "top1")]}, {"f": PLAIN})
    traces = {trace["name"]: trace for trace in found.data}
    f = traces["f(g)"]
    assert f["y"][0] == pytest.approx(2 * f["x"][0], rel=0.01)
    assert f["y"][-1] == pytest.approx(0.1 * math.atan(20 * f["x"][-1]), rel=1e-3)
    whole = traces["whole run"]
    assert sum(whole["y"][1:-2]) == pytest.approx(1, abs=0.01)
    assert whole["x"] == sorted(whole["x"])
    (line,) = found.layout["shapes"]
    assert line["x0"] == pytest.approx(0.1166, abs=1e-4)
