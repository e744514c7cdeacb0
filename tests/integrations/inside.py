"""Tests of a framework in a process of their own.

JAX starts threads, so that a fork in any later test of the same process would warn; Keras has one backend
for each process; and neither is imported by a process that only collects the tests.
"""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ONE_THREAD = {
    "JAX_PLATFORMS": "cpu",
    "OMP_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


def passes(cases: str, marked: str, **environment: str) -> None:
    """Run the tests in a file of this folder that have a mark; they must pass, and there must be some."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", str(HERE / cases), "-m", marked),
            *("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header"),
        ],
        cwd=ROOT,
        env={**os.environ, **ONE_THREAD, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
