"""Tensor and pipeline parallelism by real processes: f needs no norm, the monitor sees whole tensors."""

from __future__ import annotations

import pytest

from tests.distributed.launch import launch

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return launch("watched", 2, tmp_path_factory.mktemp("watched"))["processes"]


@pytest.mark.parametrize("kind", ["tensor", "pipeline"])
def test_weights_are_those_of_one_process(found, kind):
    assert all(each[kind]["weights"] <= 1e-6 for each in found), found  # observed: 6e-8


@pytest.mark.parametrize("kind", ["tensor", "pipeline"])
def test_f_sends_nothing_beyond_torch(found, kind):
    for each in found:
        assert each[kind]["sent"]["f"] == each[kind]["sent"]["torch"] == 0


@pytest.mark.parametrize("kind", ["tensor", "pipeline"])
def test_figures_are_those_of_whole_tensors(found, kind):
    assert all(each[kind]["figures"] <= 1e-5 for each in found), found
    names = {name for each in found for name in each[kind]["tensors"]}
    assert len(names) == 6


def test_what_the_monitor_sends_is_a_few_numbers_a_tensor(found):
    for each in found:
        assert (
            0 < each["tensor"]["sent"]["monitor"] <= 3 * 6 * 20 * 8
        )  # steps, tensors, figures, bytes
        assert each["pipeline"]["sent"]["monitor"] == 0
