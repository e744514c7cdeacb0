"""The native kernels: plain C, optional. Everything else is in pyproject.toml."""

import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

CSRC = Path("src/gaf/kernels/csrc")

# Scheduling before registers are given out interleaves the vectors of a strip (steps.h). gcc only.
SCHEDULING = ["-fschedule-insns", "-fsched-pressure"]


class BuildKernels(build_ext):
    """With the flags that the compiler at hand knows, and as many files at once as there are processors."""

    def build_extensions(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            empty = Path(folder, "empty.c")
            empty.write_text("int gaf_nothing;\n", "ascii")
            try:
                self.compiler.compile([str(empty)], folder, extra_postargs=["-Werror", *SCHEDULING])
                for extension in self.extensions:
                    extension.extra_compile_args += SCHEDULING
            except CompileError:
                pass
        one_after_another = self.compiler.compile

        def at_once(sources, **options):
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                objects = pool.map(lambda source: one_after_another([source], **options), sources)
                return [name for names in objects for name in names]

        self.compiler.compile = at_once
        super().build_extensions()


setup(
    cmdclass={"build_ext": BuildKernels},
    ext_modules=[
        Extension(
            "gaf.kernels._native",
            sources=sorted(map(str, CSRC.glob("*.c"))),
            depends=sorted(map(str, CSRC.glob("*.h"))),
            # Selects instead of branches need -fno-trapping-math, vector square roots -fno-math-errno;
            # neither touches the meaning of NaN, inf or subnormals, as -ffast-math would.
            extra_compile_args=[
                *("-O3", "-std=gnu11", "-fno-math-errno", "-fno-trapping-math", "-g0"),
            ],
            libraries=["m", "pthread", "dl"],
            py_limited_api=True,
            optional=True,  # without a compiler gaf.kernels.foreach serves
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp310"}},  # one wheel for every Python from 3.10 on
)
