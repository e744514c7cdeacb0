"""The pairwise selection: every pair of values is in it, and nothing is lost to the slow suite."""

import itertools

import pytest

from tests.pairs import pairs_first

FACTORS = {"isa": "xyz", "name": "abc", "placement": "gmu", "dtype": "1234"}


@pytest.fixture(scope="module")
def cases():
    return pairs_first(**FACTORS).args[1]


def test_the_whole_product_is_there_once(cases):
    assert [case.values for case in cases] == list(itertools.product(*FACTORS.values()))


def test_every_pair_is_in_the_fast_suite(cases):
    fast = [case.values for case in cases if not case.marks]
    assert len(fast) < len(cases) / 4
    for (i, first), (j, second) in itertools.combinations(enumerate(FACTORS.values()), 2):
        for a, b in itertools.product(first, second):
            assert any(values[i] == a and values[j] == b for values in fast), (a, b)


def test_the_rest_is_slow(cases):
    assert all([mark.name for mark in case.marks] in ([], ["slow"]) for case in cases)
