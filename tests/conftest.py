"""What every test shares: one thread, reproducible random examples, the folder with data."""

import gc
import os
import signal
from pathlib import Path

import hypothesis
import pytest
import torch

torch.set_num_threads(1)  # the suite runs in two processes; threads would only get in their way

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


# The folders that tests read: generated files, and the real subsets where GAF_DATA names them.
DATA = ["generated", "real"] if os.environ.get("GAF_DATA") else ["generated"]


@pytest.fixture(scope="session")
def generated_data(tmp_path_factory) -> Path:
    """Small datasets, written once in each process."""
    from tests.lab.data import folders  # needs more than the tests of the core have

    return folders.generate(tmp_path_factory.mktemp("generated"))


@pytest.fixture(scope="module", params=DATA)
def data_dir(request: pytest.FixtureRequest) -> Path:
    """A folder with data, each in turn; a slow test has one."""
    if request.param == "generated":
        return request.getfixturevalue("generated_data")
    folder = Path(os.environ["GAF_DATA"]).resolve()
    if not folder.is_dir():
        pytest.fail(f"GAF_DATA names {os.environ['GAF_DATA']}, which is not a folder")
    return folder


# Modules whose import takes seconds and whose tests are all slow.
FRAMEWORKS = ("test_lightning.py", "test_torch_suite.py", "test_transformers.py")


def only_fast(config: pytest.Config) -> bool:
    return "not slow" in config.getoption("markexpr")


def pytest_configure(config: pytest.Config) -> None:
    """Inductor takes ten seconds to precompile headers, which save four in each compilation; here is one."""
    if only_fast(config):
        os.environ.setdefault("TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS", "0")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A run without slow tests does not import them only to leave their tests out."""
    return None if not only_fast(config) or collection_path.name not in FRAMEWORKS else True


def pytest_collection_finish() -> None:
    """Thousands of tests live as long as the process: the collector need not look at them again."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A slow test reads the real data where there are any, and not the generated ones besides."""
    for item in list(items):
        callspec = getattr(item, "callspec", None)
        data = callspec.params.get("data_dir") if callspec else None
        if data not in (None, DATA[-1]) and item.get_closest_marker("slow"):
            items.remove(item)
            config.hook.pytest_deselected(items=[item])


@pytest.fixture
def contents(data_dir, generated_data):
    """What ``data_dir`` holds."""
    from tests.lab.data import folders

    return folders.GENERATED if data_dir == generated_data else folders.REAL
