"""The native kernels: plain C, optional. Everything else is in pyproject.toml."""

from pathlib import Path

from setuptools import Extension, setup

CSRC = Path("src/gaf/kernels/csrc")

setup(
    ext_modules=[
        Extension(
            "gaf.kernels._native",
            sources=sorted(map(str, CSRC.glob("*.c"))),
            depends=sorted(map(str, CSRC.glob("*.h"))),
            # Scheduling before registers are given out interleaves the vectors of a strip (steps.h).
            # Selects instead of branches need -fno-trapping-math, vector square roots -fno-math-errno;
            # neither touches the meaning of NaN, inf or subnormals, as -ffast-math would.
            extra_compile_args=[
                *("-O3", "-std=gnu11", "-fno-math-errno", "-fno-trapping-math"),
                *("-fschedule-insns", "-fsched-pressure", "-g0"),
            ],
            libraries=["m", "pthread", "dl"],
            py_limited_api=True,
            optional=True,  # without a compiler gaf.kernels.foreach serves
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp310"}},  # one wheel for every Python from 3.10 on
)
