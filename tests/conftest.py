"""What every test shares: one thread, reproducible random examples, the folder with data."""

import os
import signal
from pathlib import Path

import hypothesis
import pytest
import torch

torch.set_num_threads(1)  # the suite runs in two processes; threads would only get in their way

# Without a GPU Triton's kernels are interpreted, which is decided when it is first imported, by whomever.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

# A shell that starts the suite in the background has it ignore Ctrl-C, and with it all that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Torch warns until one decides; in tests the checks are worth their time.
torch.sparse.check_sparse_tensor_invariants.enable()

# The first call of an operator can take a second, so a deadline would report torch, not us. The suite draws
# the same examples in every run and keeps none; `make fuzz SEED=n` draws others.
hypothesis.settings.register_profile(
    "same", deadline=None, derandomize=True, database=None, print_blob=True
)
hypothesis.settings.register_profile("fuzz", deadline=None, database=None, print_blob=True)
hypothesis.settings.load_profile("same")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder that GAF_DATA names; a test that needs it is skipped where it is not set."""
    value = os.environ.get("GAF_DATA")
    if not value:
        pytest.skip("needs data: set GAF_DATA to the folder with the data subsets")
    folder = Path(value).resolve()
    if not folder.is_dir():
        pytest.fail(f"GAF_DATA names {value}, which is not a folder")
    return folder
