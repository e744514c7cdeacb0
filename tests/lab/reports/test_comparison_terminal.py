"""A comparison on a terminal: what matters fits 80 columns, and names command nothing."""

import io
import math

import pytest
from rich.console import Console

from gaf.lab.reports.comparison_terminal import (
    BLOCKS,
    CHOSEN,
    LOST,
    USUAL,
    TerminalComparison,
    rate_lines,
)
from gaf.lab.reports.rate_curves import rate_axis, rule_lines
from tests.lab.reports.example import ORDINARY, comparison_of
from tests.lab.reports.tuned import ARCTAN, RULES, SGD, tuned_comparison


def shown(comparison, width):
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(TerminalComparison(comparison))
    return console.file.getvalue()


@pytest.fixture(scope="module")
def comparison():
    return tuned_comparison()


@pytest.mark.parametrize("width", [80, 120])
def test_everything_is_there_in_order_and_fits(comparison, width):
    text = shown(comparison, width)
    assert max(map(len, text.splitlines())) <= width
    parts = [
        "Yes: tanh(0.1, 20)@momentum is better than tuned sgd by 1.0 points [0.6, 1.5].",
        "Validation top1 over the learning rate",
        f"{BLOCKS[-1]} top1 of at least 0.9690, the best of tuned sgd minus 1 point",
        "Windows of learning rates, against that of sgd",
        "Score against budget",
        "setting",
        "auto: No difference to tuned sgd",
        "broken: No run to compare with the baseline; 5 of 5 runs failed.",
        "Cost: 104 trials to tune the learning rates, 65 runs for the table",
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert "arctan(0.1, 20)@momentum: " not in text  # the table says it
    for column in ("lr", "top1", "verdict"):
        assert column in text
    assert "[+0.0069, +0.0126]" in text


def test_a_line_of_blocks_is_the_curve(comparison):
    lines = {line.split("  ")[1]: line for line in rate_lines(comparison, 120) if line[:2] == "  "}
    column = len("  ") + max(map(len, RULES)) + len("  ")  # where pictures begin
    pictures = {name: line[column : column + 60] for name, line in lines.items()}
    axis = rate_axis(comparison.tuning)
    assert {name: pictures[name].count(BLOCKS[-1]) + 1 for name in (SGD, ARCTAN)} == {
        SGD: 5,
        ARCTAN: 11,
    }
    place = round(axis.place(0.1) * 59)
    assert pictures[SGD][place] == CHOSEN
    assert pictures["clip-norm-1"][place] == USUAL
    assert pictures["broken"].count(LOST) == 7
    assert pictures["auto"].startswith("no learning rate")
    first = round(axis.place(1 / 270) * 59)
    assert not pictures[SGD][:first].strip()  # rates that were not tried


def test_between_two_rates_the_curve_is_linear_in_the_logarithm(comparison):
    line = next(line for line in rule_lines(comparison.tuning) if line.setting == "adam")
    assert line.between(0.003) == 0.981
    assert line.between(math.sqrt(0.003 * 0.009)) == pytest.approx((0.981 + 0.972) / 2)
    assert line.between(1.0) is None


def test_a_comparison_at_given_rates_has_its_answer_and_its_table():
    text = shown(comparison_of(ORDINARY), 80)
    assert "over the learning rate" not in text
    assert "Windows" not in text
    assert "verdict" in text
    assert text.index("Yes: arctan(0.1, 20)@momentum is better than") < text.index("setting")


def test_earlier_seeds_are_shown():
    text = shown(tuned_comparison(earlier=(7, 8, 9)), 120)
    assert "An earlier look has seen seeds 7 to 9. The verdicts take seeds 0 to 4 only" in text
    assert "earlier" in text


def test_names_command_nothing():
    rules = {f"\x1b[31m[red]{name}\n": rule for name, rule in RULES.items()}
    text = shown(tuned_comparison(rules, title="\x1b]0;x\x07"), 80)
    assert "\x1b" not in text
    assert "[31m[red]sgd" in text


def test_when_every_trial_failed():
    rules = {"sgd": RULES["broken"], "other": RULES["broken"]}
    text = shown(tuned_comparison(rules), 80)
    assert text.count(LOST) >= 14
