"""Makes an environment with the published packages of the family, and runs ``published.py`` in it.

``python packages.py FOLDER [OUTPUT]``: FOLDER is made if it is missing (later runs reuse it), OUTPUT is
the file for ``published.py``. Nothing heavy is installed: torch and all else come from the interpreter
that runs this script, through a .pth file that puts its packages after the environment's own. Prints
which packages could be installed and imported, and why the others could not.
"""

import argparse
import json
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

# What is installed, without dependencies: the packages and the light pure-Python ones that they import.
PINS = {
    "adam-atan2-pytorch": "0.4.1",
    "pytorch_optimizer": "4.1.0",
    "heavyball": "3.2.1",
    "lion-pytorch": "0.2.5",
    "einops": "0.8.1",
    "opt_einsum": "3.4.0",
}
MODULES = {
    "adam-atan2-pytorch": "adam_atan2_pytorch",
    "pytorch_optimizer": "pytorch_optimizer",
    "heavyball": "heavyball",
    "lion-pytorch": "lion_pytorch",
}


def run(*command):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True)


def last_line(text):
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1] if lines else "no message"


def interpreter(folder):
    windows = sys.platform == "win32"
    return Path(folder) / ("Scripts/python.exe" if windows else "bin/python")


def install(folder):
    """Makes the environment and returns what could not be installed, with the reason."""
    venv.create(folder, with_pip=True, clear=True)
    python = interpreter(folder)
    failed = {}
    for name, version in PINS.items():
        pip = (python, "-m", "pip", "--retries", "1", "--timeout", "30", "install")
        done = run(*pip, "--no-deps", "--quiet", f"{name}=={version}")
        if done.returncode:
            failed[name] = last_line(done.stderr)
    own = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip()
    parents = dict.fromkeys(sysconfig.get_path(key) for key in ("purelib", "platlib"))
    Path(own, "parent.pth").write_text("".join(f"{path}\n" for path in parents))
    return failed


def environment(folder):
    """The environment's interpreter and what failed to install; made anew when the pins have changed."""
    record = Path(folder) / "pins.json"
    stamp = {"pins": PINS, "parent": sys.prefix}
    if record.exists():
        known = json.loads(record.read_text())
        if known["stamp"] == stamp and not known["failed"]:
            return interpreter(folder), {}
    failed = install(folder)
    record.write_text(json.dumps({"stamp": stamp, "failed": failed}, indent=1))
    return interpreter(folder), failed


ATTEMPT = """
import importlib, json, sys
states = {}
for module in sys.argv[1:]:
    try:
        importlib.import_module(module)
        states[module] = "imports"
    except Exception as error:
        states[module] = f"does not import: {type(error).__name__}: {error}"
print(json.dumps(states))
"""


def report(python, failed):
    """For every package: its version and "imports", or the reason why it does not."""
    done = run(python, "-c", ATTEMPT, *MODULES.values())
    states = json.loads(last_line(done.stdout)) if done.returncode == 0 else {}
    lines = {}
    for name, module in MODULES.items():
        state = states.get(module, f"could not be tried: {last_line(done.stderr)}")
        if name in failed:
            state = f"not installed: {failed[name]}"
        lines[name] = {"version": PINS[name], "state": state}
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="the environment; made if it is missing")
    parser.add_argument("output", nargs="?", help="where published.py writes the weights")
    parser.add_argument("--sources", help="passed to published.py")
    args = parser.parse_args()
    python, failed = environment(args.folder)
    print(json.dumps(report(python, failed), indent=1))
    if args.output:
        script = Path(__file__).with_name("published.py")
        sources = ["--sources", args.sources] if args.sources else []
        subprocess.run([str(python), str(script), args.output, *sources], check=True)


if __name__ == "__main__":
    main()
