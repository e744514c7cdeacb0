"""`import gaf` loads no framework, and a missing one is one sentence that says what to install."""

import json
import subprocess
import sys

FRAMEWORKS = {
    "lightning": "lightning",
    "accelerate": "accelerate",
    "transformers": "transformers",
    "keras": "keras",
    "optax": "jax",  # optax needs it too, and it is asked for first
}

CODE = f"""
import importlib, json, sys
import gaf
loaded = sorted(name for name in {list(FRAMEWORKS.values())} if name in sys.modules)
said = {{}}
for module, package in {FRAMEWORKS}.items():
    if module == "transformers":  # it needs both, and accelerate is asked for first
        del sys.modules["accelerate"]
        sys.modules["accelerate"] = type(sys)("accelerate")
        sys.modules["accelerate"].__path__ = []
        sys.modules["accelerate"].Accelerator = sys.modules["accelerate"].DistributedType = type(
            "Any", (), dict.fromkeys(("DEEPSPEED", "MEGATRON_LM", "XLA"))
        )
        sys.modules["accelerate.optimizer"] = type(sys)("accelerate.optimizer")
        sys.modules["accelerate.optimizer"].AcceleratedOptimizer = object
    sys.modules[package] = None
    try:
        importlib.import_module("gaf.integrations." + module)
    except ModuleNotFoundError as error:
        said[package] = str(error)
print(json.dumps([loaded, said]))
"""


def test_frameworks_are_asked_for_only_by_their_users():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    loaded, said = json.loads(done.stdout)
    assert loaded == []
    assert said == {
        package: f"gaf.integrations needs {package}: pip install 'activated-gradients[integrations]'"
        for package in FRAMEWORKS.values()
    }
