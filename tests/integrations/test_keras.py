"""gaf.integrations.keras on its backends, by the tests in keras_cases.py."""

import importlib.util

import pytest

from tests.integrations.inside import passes


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_keras(backend):
    for needed in ("keras", backend):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"needs {needed}")
    passes("keras_cases.py", "not slow", KERAS_BACKEND=backend)
