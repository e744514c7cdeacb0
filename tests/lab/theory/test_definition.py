"""Definition 1: the functions meet it, wrong functions do not, and each clause stands for itself."""

import pytest
import torch

from gaf.functions import Arctan, Log, Tanh
from gaf.lab.theory import definition
from gaf.lab.theory.definition import Falling, Growing, Straight, definition_1, second_derivative
from gaf.lab.theory.families import Functions, one
from gaf.lab.theory.trials import tally, without


def test_no_violation_inside_and_some_for_every_assumption():
    batches = definition.random_functions(torch.Generator().manual_seed(1))
    total = tally(batches, definition.PRINTED)
    assert total.sound.cases >= 10_000
    assert total.sound.failures == 0
    assert total.printed.failures == total.dropped[definition.NONZERO].cases > 0
    for each in without(total, definition.examples()):
        assert each.failures == each.cases > 0
        assert each.example


@pytest.mark.parametrize("f", [Arctan(0.3, 7.0), Tanh(0.3, 7.0), Log(0.3, 7.0)], ids=str)
def test_the_second_derivative_is_right(f):
    g = torch.tensor([-0.4, 0.01, 0.3], dtype=torch.float64)
    expected = (f.derivative(g + 1e-6) - f.derivative(g - 1e-6)) / 2e-6
    torch.testing.assert_close(
        second_derivative(one(f), g.reshape(1, 3))[0], expected, rtol=1e-7, atol=1e-7
    )


WRONG = {
    Falling: lambda xp, g, alpha, beta: alpha * beta * (1 - 3 * (beta * g) ** 2),
    Growing: lambda xp, g, alpha, beta: 2 + alpha * beta / (1 + (beta * g) ** 2),
    Straight: lambda xp, g, alpha, beta: alpha * beta + 0 * g,
}


@pytest.mark.parametrize(("family", "slope"), WRONG.items(), ids=lambda x: x.__name__)
def test_what_is_no_gaf_is_seen(family, slope):
    wrong = type("Wrong", (family,), {"formula_derivative": staticmethod(slope)})
    g = torch.tensor([-2.0, 0.9, 3.0], dtype=torch.float64)
    found = definition_1(Functions(wrong, torch.ones_like(g), torch.ones_like(g)), g)
    assert found.meeting().all()
    assert not found.claim.all()


@pytest.mark.slow
def test_each_clause_has_a_function_that_misses_it_alone():
    assert list(definition.MISSING) == [
        "differentiable",
        "increasing",
        "odd",
        "restraining",
        "concave",
    ]
    arctan, tanh, *others = definition.verdicts()
    assert arctan.missed == tanh.missed == {}
    assert arctan.method == tanh.method == "symbolic"
    assert [list(each.missed) for each in others] == [[name] for name in definition.MISSING]
