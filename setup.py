"""The native kernels: plain C, optional. Everything else is in pyproject.toml."""

import hashlib
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CompileError

CSRC = Path("src/gaf/kernels/csrc")
FILES = sorted(path for path in CSRC.iterdir() if path.suffix in (".c", ".h"))
SOURCES = hashlib.sha256(b"".join(path.read_bytes() for path in FILES)).hexdigest()[:12]

# What the sources need of a compiler and its system. MSVC has neither GNU C nor POSIX threads.
NEEDED = """\
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#define FMA(a, b, c) _Generic((a), float: __builtin_fmaf, default: __builtin_fma)(a, b, c)
static inline __attribute__((always_inline)) float fma32(float x) { return FMA(x, x, 1.0f); }
float gaf_needed(float x) { return fma32(x); }
"""
WITHOUT = (
    "gaf.kernels: no C compiler with GNU C 11 and POSIX threads was found: built without the native kernels. "
    "Torch operations serve in their place, more slowly. For the kernels, install again with gcc or clang."
)

# Scheduling before registers are given out interleaves the vectors of a strip (steps.h). gcc only.
SCHEDULING = ["-fschedule-insns", "-fsched-pressure"]


class BuildKernels(build_ext):
    """With the flags that the compiler at hand knows, and as many files at once as there are processors."""

    def run(self) -> None:
        super().run()
        if not all(Path(self.get_ext_fullpath(each.name)).exists() for each in self.extensions):
            print(WITHOUT, flush=True)  # the last line of the build; pip shows it with -v

    def build_extensions(self) -> None:
        if not self._compiles(NEEDED, "-std=gnu11"):
            return
        if self._compiles("int gaf_nothing;\n", "-Werror", *SCHEDULING):
            for extension in self.extensions:
                extension.extra_compile_args += SCHEDULING
        one_after_another = self.compiler.compile

        def at_once(sources, **options):
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                objects = pool.map(lambda source: one_after_another([source], **options), sources)
                return [name for names in objects for name in names]

        self.compiler.compile = at_once
        super().build_extensions()

    def _compiles(self, code: str, *flags: str) -> bool:
        """Whether the compiler is there and takes this."""
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "try.c")
            source.write_text(code, "ascii")
            try:
                self.compiler.compile([str(source)], folder, extra_postargs=list(flags))
            except (BaseError, CompileError):
                return False
        return True


setup(
    cmdclass={"build_ext": BuildKernels},
    ext_modules=[
        Extension(
            "gaf.kernels._native",
            sources=[str(path) for path in FILES if path.suffix == ".c"],
            depends=[str(path) for path in FILES],
            define_macros=[("GAF_SOURCES", f'"{SOURCES}"')],  # in the records of benchmarks
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
