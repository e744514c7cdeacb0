"""Fixtures of the optimizer tests."""

import pytest

from gaf.kernels import native


@pytest.fixture
def no_kernels(monkeypatch):
    """Leave the step to the rules over torch operations, for comparisons to the bit."""
    monkeypatch.setattr(native, "_native", None)
