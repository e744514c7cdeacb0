"""gaf.integrations.optax, by the tests in optax_cases.py."""

import importlib.util

import pytest

from tests.integrations.inside import passes

if importlib.util.find_spec("optax") is None:
    pytest.skip("needs optax", allow_module_level=True)


@pytest.mark.slow
def test_optax():
    passes("optax_cases.py", "not slow")


@pytest.mark.slow
def test_every_dtype():
    passes("optax_cases.py", "slow", JAX_ENABLE_X64="1")
