"""Counting: what is inside the assumptions, what is outside of one of them, what is a violation."""

import pytest
import torch

from gaf.lab.theory.trials import Example, Trials, tally, without

A = torch.tensor([True, True, True, False, False, True])
B = torch.tensor([True, True, False, True, False, True])
CLAIM = torch.tensor([True, False, False, True, False, True])


def trials():
    return Trials({"a": A, "b": B}, CLAIM, lambda case: f"case {case}")


def test_cases_are_counted_by_the_assumptions_they_meet():
    total = tally([trials(), trials()], printed=("a",), cases=6)
    assert (total.sound.cases, total.sound.failures, total.sound.example) == (6, 2, "case 1")
    assert (total.printed.cases, total.printed.failures) == (8, 4)
    assert (total.dropped["a"].cases, total.dropped["a"].failures) == (2, 0)
    assert (total.dropped["b"].cases, total.dropped["b"].failures) == (2, 2)
    assert total.dropped["b"].example == "case 2"


def test_it_stops_when_there_are_enough():
    def endless():
        while True:
            yield trials()

    assert tally(endless(), cases=10).sound.cases == 12


def test_too_few_cases_are_refused():
    with pytest.raises(ValueError, match="only 3 of 10000 cases met the assumptions"):
        tally([trials()])


def test_an_example_must_be_a_counterexample():
    total = tally([trials()], cases=3)

    def single(a, b, claim):
        met = {"a": torch.tensor([a]), "b": torch.tensor([b])}
        return Example(Trials(met, torch.tensor([claim]), lambda _: "shown"), "why")

    good = {"a": single(False, True, False), "b": Example(None, "there is none")}
    first, second = without(total, good)
    assert (first.example, first.reason) == ("shown", "why")
    assert (second.example, second.reason) == ("", "there is none")
    for wrong in (
        single(False, True, True),
        single(True, True, False),
        single(False, False, False),
    ):
        with pytest.raises(AssertionError, match="no counterexample"):
            without(total, good | {"a": wrong})
