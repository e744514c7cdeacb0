"""Each extra alone, from the wheel of `make dist`, in an environment with torch: `make extras`."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SITE = Path(sysconfig.get_path("purelib"))

pytestmark = pytest.mark.install

STEP = """
import torch, gaf
w = torch.ones(3, requires_grad=True)
opt = gaf.SGD([w], lr=0.1, activation=gaf.Arctan(0.1, 20))
w.grad = torch.ones(3)
opt.step()
assert torch.allclose(w.detach(), 1 - 0.1 * gaf.Arctan(0.1, 20)(torch.ones(3)))
"""
FRAMEWORKS = """
import gaf.integrations.accelerate, gaf.integrations.checkpoint, gaf.integrations.keras
import gaf.integrations.lightning, gaf.integrations.optax, gaf.integrations.transformers
import jax.numpy as jnp, gaf
f = gaf.integrations.optax.activate(gaf.Arctan(0.1, 20))
updates, _ = f.update({"w": jnp.ones(3)}, f.init({"w": jnp.ones(3)}))
assert abs(float(updates["w"][0]) - gaf.Arctan(0.1, 20)(1.0)) < 1e-6
"""
TRAIN = ("train", "digits-cnn-sgdm", "--set", "epochs=1", "--set", "optimizer.activation=auto")
LAB = "gaf: this needs {}, which is not installed: pip install 'activated-gradients[lab]'\n"

# Of each extra: Python code or the words of the command, the exit status, what it says on stderr (None: any).
USES = {
    "": [
        (STEP, 0, ""),
        (
            ("--version",),
            1,
            "gaf: the command needs rich, which is not installed: pip install 'activated-gradients[cli]'\n",
        ),
    ],
    "cli": [
        (STEP, 0, ""),
        (("--version",), 0, ""),
        (("bench", "--kernels"), 0, ""),
        (("data", "list"), 0, ""),
        (("train", "--list"), 0, ""),
        (TRAIN, 2, LAB.format("lightning_fabric")),
    ],
    "lab": [
        (TRAIN, 0, None),
        (("report", "runs/digits-cnn-sgdm-seed0"), 0, None),
        (("figure", "2"), 0, None),
    ],
    "cluster": [("import ray", 0, ""), (TRAIN, 0, None)],
    "integrations": [(FRAMEWORKS, 0, None)],
}


@pytest.fixture(scope="module")
def wheel() -> Path:
    built = sorted(ROOT.glob("dist/*.whl"))
    assert built, "there is no wheel in dist/: make dist"
    return built[-1]


@pytest.fixture(scope="module")
def torch_layer(tmp_path_factory) -> Path:
    """A folder that holds torch and what torch requires, and nothing else of this environment."""
    folder = tmp_path_factory.mktemp("torch")
    waiting, known = ["torch"], set()
    while waiting:
        name = waiting.pop()
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # for another system
        known.add(name)
        for top in {file.parts[0] for file in distribution.files or ()} - {".."}:
            if top != "__pycache__" and not (folder / top).exists():
                (folder / top).symlink_to(SITE / top)
        for line in distribution.requires or ():
            required = re.match(r"[\w.-]+", line)
            if required and "extra ==" not in line and required[0] not in known:
                waiting.append(required[0])
    return folder


def test_every_extra_is_here():
    extras = importlib.metadata.metadata("activated-gradients").get_all("Provides-Extra")
    assert {*extras, ""} - {"dev"} == set(USES)  # `dev` is the environment of the tests themselves


@pytest.mark.parametrize("extra", USES)
def test_extra(extra, wheel, torch_layer, tmp_path):
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False)
    python = str(environment / "bin" / "python")
    site = next(environment.glob("lib/python*/site-packages"))
    (site / "torch-layer.pth").write_text(f"{torch_layer}\n")
    what = f"{wheel}[{extra}]" if extra else str(wheel)
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "-qq"]
    subprocess.run(
        [*pip, "--disable-pip-version-check", "-c", str(ROOT / "constraints.txt"), what], check=True
    )
    assert not (site / "torch").exists(), "torch was installed again"
    for use, status, says in USES[extra]:
        start = ["-c", use] if isinstance(use, str) else ["-m", "gaf.lab.cli", *use]
        done = subprocess.run([python, *start], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == status, (use, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        assert says is None or done.stderr == says, use
