"""What a grid costs beside its trainings: `python benchmarks/overhead.py` (two minutes on a quiet machine).

100 trainings of about a second each, one core each, in a grid of two slots; then the trials of a script that
does nothing, against the script by itself. The trainings' own seconds are measured in the same run, so a busy
machine slows both sides. The last line says whether the limits hold.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gaf.lab.engine.run import train
from gaf.lab.engine.script import script_config
from gaf.lab.study.grid import digest, run_grid
from gaf.lab.study.pool import LOG, Pool
from gaf.lab.study.recipes import recipe

SLOTS, TRAININGS, TRIALS = 2, 100, 8
GRID_LIMIT = 65 / 50  # of the trainings' own time, shared by the slots
TRIAL_LIMIT = 1.0  # seconds beyond the script's own

SCRIPT = """
import json, os
if "GAF_TRIAL" in os.environ:
    report = {"score": "accuracy", "higher_is_better": True, "worst": 0.0, "chance": None, "validation": 0.5,
              "test": 0.5, "step": 1, "seconds": 1.0, "seed_read": True, "optimizers": {}}
    with open(os.path.join(os.environ["GAF_TRIAL"], "report.json"), "w") as file:
        json.dump(report, file)
"""


def of_grid(folder: Path) -> float:
    """The grid's time from its start to its end, over the time of its trainings' steps on as many cores."""
    base = recipe("digits-cnn-sgdm").config.model_copy(
        update={"threads": 1, "epochs": 1, "evaluate_every": 0}
    )
    base = base.model_copy(update={"task": base.task.model_copy(update={"validation": 0.2})})
    train(base, folder / "warm-up")
    first = train(base.model_copy(update={"seed": 1}), folder / "measured")
    epochs = max(1, round(1 / (first.steps * first.seconds_per_step)))
    configs = [
        base.model_copy(update={"seed": seed, "epochs": epochs}) for seed in range(TRAININGS)
    ]
    began = time.monotonic()
    with Pool(SLOTS, folder / LOG) as pool:
        outcomes = run_grid(configs, folder / "runs", pool)
    seconds = time.monotonic() - began
    results = [outcomes[digest(config)].result for config in configs]
    own = [result.steps * result.seconds_per_step for result in results if result]
    assert len(own) == TRAININGS
    print(
        f"{TRAININGS} trainings of {statistics.median(own):.2f} s on {SLOTS} slots: {seconds:.1f} s, "
        f"their steps alone {sum(own) / SLOTS:.1f} s"
    )
    return seconds / (sum(own) / SLOTS)


def of_script(folder: Path) -> float:
    """The median seconds of a script's trial, less those of the script by itself."""
    path = folder / "train.py"
    path.write_text(SCRIPT)
    alone, inside = [], []
    with Pool(1, folder / LOG) as pool:
        for seed in range(TRIALS + 1):
            began = time.monotonic()
            subprocess.run([sys.executable, str(path)], check=True)
            alone.append(time.monotonic() - began)
            config = script_config(str(path)).model_copy(update={"seed": seed})
            began = time.monotonic()
            run_grid([config], folder / "trials", pool)
            inside.append(time.monotonic() - began)
    differences = [
        a - b for a, b in zip(inside[1:], alone[1:], strict=True)
    ]  # the first starts the pool
    print(
        f"a trial of an empty script: {statistics.median(differences):.2f} s beyond the script, "
        f"{min(differences):.2f} to {max(differences):.2f} s in {TRIALS} trials"
    )
    return statistics.median(differences)


def main() -> int:
    """Measure both; 1 where a limit does not hold."""
    with tempfile.TemporaryDirectory() as folder:
        share = of_grid(Path(folder))
        beyond = of_script(Path(folder))
    holds = share <= GRID_LIMIT and beyond <= TRIAL_LIMIT
    print(
        f"grid {share:.2f} of its trainings (limit {GRID_LIMIT:.2f}), script +{beyond:.2f} s (limit "
        f"{TRIAL_LIMIT:.0f} s): {'within the limits' if holds else 'over a limit'}"
    )
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
