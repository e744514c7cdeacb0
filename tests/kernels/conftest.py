"""Fixtures of the kernel tests."""

import pytest

from gaf.kernels import native


@pytest.fixture(params=native.INSTRUCTION_SETS)
def isa(request, monkeypatch) -> str:
    """Each instruction set this machine has, in force."""
    monkeypatch.setenv("GAF_ISA", request.param)
    return request.param
