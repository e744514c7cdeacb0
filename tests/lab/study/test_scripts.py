"""Real scripts in a grid: a plain loop, transformers' Trainer, Lightning; under torchrun, on Ray, killed."""

import importlib.util
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from gaf.lab.engine.reaper import processes
from gaf.lab.engine.script import TRIAL, read_report, script_config
from gaf.lab.study.grid import digest, run_grid
from gaf.lab.study.pool import LOG, Pool
from gaf.lab.study.settings import at_rate, make
from tests.forked import ENVIRONMENT, ROOT

EXAMPLES = ROOT / "examples"
FACTORS = (1 / 3, 1.0)


def grid(base, texts, factors=FACTORS, score_on="test"):
    """Settings x rates x one seed."""
    task = base.task.model_copy(update={"score_on": score_on})
    base = base.model_copy(update={"task": task, "seed": 3})
    made = [make(base, text) for text in texts]
    return [
        at_rate(setting.config, setting.config.optimizer.lr * factor)
        for setting in made
        for factor in factors
    ]


def outcomes(configs, folder, slots=2):
    with Pool(slots, folder / LOG) as pool:
        ended = run_grid(configs, folder / "runs", pool)
    assert [outcome.error for outcome in ended.values()] == [""] * len(ended)
    return [ended[digest(config)] for config in configs]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "package", "other", "rates"),
    [
        ("trial_loop", "torch", "adam", [0.1 / 3, 0.1, 0.001 / 3, 0.001]),
        ("trial_hf_trainer", "transformers", "clip-norm-0.1", [0.01 / 3, 0.01] * 2),
        ("trial_lightning", "lightning", "arctan(0.1, 20)", [0.1 / 3, 0.1] * 2),
    ],
)
def test_a_real_script_in_a_grid(script, package, other, rates, tmp_path):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"needs {package}")
    arguments = ["--epochs", "2"] if script == "trial_loop" else []
    base = script_config(str(EXAMPLES / f"{script}.py"), arguments)
    runs = outcomes(grid(base, ["baseline", other]), tmp_path)
    reports = [read_report(run.folder) for run in runs]
    lrs = [report.optimizers[""].groups[0] for report in reports]
    if script == "trial_lightning":  # of the end of its cycle
        lrs = [{"lr": report.optimizers[""].script_lr[0]} for report in reports]
        rates = [0.1] * 4
    assert [group["lr"] for group in lrs] == pytest.approx(rates)
    assert all(report.seed_read and report.test is not None for report in reports)
    scores = {(report.validation, report.test) for report in reports}
    assert len(scores) == 4  # each setting and rate did something else
    assert all(run.result.steps > 0 and not run.result.diverged for run in runs)
    if script == "trial_loop":
        assert [report.optimizers[""].dropped for report in reports] == [
            (),
            (),
            *[("momentum",)] * 2,
        ]
        assert all((run.folder / TRIAL / "outputs" / "model.pt").is_file() for run in runs)


@pytest.mark.slow
def test_under_torchrun_each_launch_has_a_port_and_the_first_process_writes(tmp_path):
    base = script_config(
        str(EXAMPLES / "trial_loop.py"), ["--epochs", "1"], "torchrun --nproc-per-node 2"
    )
    runs = outcomes(grid(base, ["baseline"], score_on="validation"), tmp_path)
    for run in runs:
        report = read_report(run.folder)
        assert report.test is None  # tuning
        assert report.step == 16  # of 2 x 64 of 2000 samples
        assert run.score == report.validation
    assert runs[0].score != runs[1].score


TRAINING = """
import time
import torch
import gaf

trial = gaf.trial()
torch.manual_seed(trial.seed)
w = torch.randn(8, requires_grad=True)
opt = trial.optimizer("sgd", [w], lr=0.1, momentum=0.9)
for step in range(5):
    opt.zero_grad()
    w.square().sum().backward()
    opt.step()
    time.sleep({pause})
    trial.report(validation=1 / (1 + w.norm().item()), test=1 / (1 + w.abs().sum().item()))
"""


def write(folder, pause=0.0):
    path = folder / "train.py"
    path.write_text(TRAINING.format(pause=pause))
    return str(path)


GRID = """
import sys
from pathlib import Path
from gaf.lab.engine.script import script_config
from gaf.lab.study.grid import digest, run_grid
from gaf.lab.study.pool import LOG, Pool
configs = [script_config(sys.argv[1]).model_copy(update={"seed": seed}) for seed in range(8)]
folder = Path(sys.argv[2])
with Pool(2, folder / LOG) as pool:
    ended = run_grid(configs, folder / "runs", pool)
for config in configs:
    outcome = ended[digest(config)]
    print(config.seed, outcome.error or outcome.score)
"""


def family(pid):
    """A process and all that descend from it."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True).stdout
    pairs = [tuple(map(int, line.split())) for line in listed.splitlines()]
    pids = [pid]
    for parent in pids:
        pids += [child for child, of in pairs if of == parent]
    return pids


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_kill_9_of_any_process_at_any_moment_changes_nothing(tmp_path):
    """The grid, a process that trains, a script or its guard: the same command ends with the same scores."""
    command = [sys.executable, "-c", GRID, write(tmp_path, pause=0.3)]
    whole = subprocess.run(
        [*command, str(tmp_path / "whole")], env=ENVIRONMENT, capture_output=True, text=True
    )
    scores = [line.split()[1] for line in whole.stdout.splitlines()]
    assert len({float(score) for score in scores}) == 8, whole.stderr
    draw = random.Random(0)
    killed = []
    while len(killed) < 10 and finished(tmp_path / "killed") < 8:
        process = subprocess.Popen(
            [*command, str(tmp_path / "killed")], env=ENVIRONMENT, stdout=subprocess.DEVNULL
        )
        time.sleep(draw.uniform(0.5, 5))
        if process.poll() is None:
            victim = draw.choice(family(process.pid))
            with suppress(ProcessLookupError):  # it has just ended by itself
                os.kill(victim, signal.SIGKILL)
                killed.append(victim == process.pid)
        if draw.random() < 0.8:  # most of the time the next kill comes soon, by the user's hand
            process.terminate()
        process.wait()
    again = subprocess.run(
        [*command, str(tmp_path / "killed")], env=ENVIRONMENT, capture_output=True, text=True
    )
    assert len(killed) >= 3
    assert again.stdout == whole.stdout, again.stderr
    for folder in runs_in(tmp_path / "killed"):
        assert processes(str(folder / TRIAL)) == []


def finished(folder):
    return sum((run / "finished.json").exists() for run in runs_in(folder))


def runs_in(folder):
    return [path for path in folder.glob("runs/*") if path.is_dir()]


@pytest.mark.slow
def test_on_ray_the_working_folder_stays_the_users(tmp_path, monkeypatch):
    pytest.importorskip("ray")
    from gaf.lab.study.ray_grid import RayGrid

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", ENVIRONMENT["PYTHONPATH"])
    write(tmp_path)
    with open("train.py", "a") as script:
        script.write("import os; print(os.getcwd())\n")
    config = script_config("train.py", accelerator="cpu")
    with RayGrid(tmp_path / "runs") as cluster:
        ended = run_grid([config], tmp_path / "runs", cluster)
    (outcome,) = ended.values()
    assert outcome.error == ""
    assert (outcome.folder / "stdout.txt").read_text().split() == [str(tmp_path)]
