"""`gaf landscape --bench`, with fewer points. No test looks at how long anything took."""

import pytest
from rich.console import Console

from gaf.lab.bench import slices


@pytest.mark.slow
def test_what_the_benchmark_times_is_equal(monkeypatch):
    """Which is faster is for `gaf landscape --bench` to say: a test on a busy machine cannot."""
    monkeypatch.setattr(slices, "SIDE", 15)
    cases = slices.measure(Console(stderr=True), rounds=1)
    assert len(cases) >= 3
    assert max(case.difference for case in cases) <= 1e-6
