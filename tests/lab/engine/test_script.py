"""A script of the user's own is a run like any other: asked through a file, and ended with its parent."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gaf.common.errors import GafError
from gaf.lab.engine import folder as folders
from gaf.lab.engine.config import OptimizerConfig, RunConfig, read
from gaf.lab.engine.reaper import processes
from gaf.lab.engine.run import train
from gaf.lab.engine.script import (
    STDERR,
    STDOUT,
    TRIAL,
    ScriptFailed,
    check_seeds,
    read_report,
    script_config,
    trial_of,
)
from gaf.lab.engine.signals import Interrupted
from gaf.lab.study import settings
from gaf.lab.study.grid import digest, places
from gaf.trials.request import Request
from tests.forked import Forked

# What gaf.trial writes, without the seconds that importing torch takes.
REPORTING = """
import json, os, pathlib, sys
folder = pathlib.Path(os.environ["GAF_TRIAL"])
asked = json.loads((folder / "trial.json").read_text())
report = {"score": "accuracy", "higher_is_better": True, "worst": 0.0, "chance": None, "validation": None,
          "test": None, "step": 4, "seconds": 2.0, "seed_read": True, "optimizers": {}}
def write(**values):
    (folder / "report.json").write_text(json.dumps({**report, **values}))
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Writes a script into the current folder; returns its config."""
    monkeypatch.chdir(tmp_path)

    def make(text, *arguments, **options):
        Path("train.py").write_text(REPORTING + text)
        return script_config("train.py", arguments, **options)

    return make


def changed(config, score_on="test", **update):
    task = config.task.model_copy(update={"score_on": score_on})
    return config.model_copy(update={"task": task, **update})


def test_a_run_has_the_files_of_any_run(script, tmp_path):
    config = changed(script("write(validation=0.75, test=0.5); print('hello', sys.argv[1:])", "-x"))
    result = train(config, tmp_path / "run")
    assert (result.score, result.score_name, result.higher_is_better) == (0.5, "accuracy", True)
    assert (result.steps, result.seconds_per_step, result.diverged) == (4, 0.5, False)
    assert result.final == {"validation": 0.75, "accuracy": 0.5}
    names = {path.name for path in (tmp_path / "run").iterdir() if path.name[0] != "."}
    assert names == {
        *("config.json", "identity.json", "environment.json", "finished.json"),
        *(TRIAL, STDOUT, STDERR),
    }
    assert (tmp_path / "run" / STDOUT).read_text() == "hello ['-x']\n"
    assert folders.read_config(tmp_path / "run") == config
    assert folders.read_result(tmp_path / "run") == result
    assert folders.read_environment(tmp_path / "run").machine()["cores"] == os.cpu_count()
    asked = json.loads((tmp_path / "run" / TRIAL / "trial.json").read_text())
    assert Request(**asked) == Request()
    Path("train.py").touch()
    assert train(config, tmp_path / "run") == result  # not run twice


def test_it_runs_in_the_folder_and_with_the_modules_of_the_user(script, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/processes/that/train")
    monkeypatch.setenv("GAF_USERS_PYTHONPATH", "/of/the/user")
    code = "write(test=1.0); print(os.getcwd(), os.environ['PYTHONPATH'], os.environ['OMP_NUM_THREADS'])"
    train(script(code, threads=3), tmp_path / "run")
    assert (tmp_path / "run" / STDOUT).read_text().split() == [str(tmp_path), "/of/the/user", "3"]
    monkeypatch.setenv("GAF_USERS_PYTHONPATH", "")
    train(script("write(test=1.0); assert 'PYTHONPATH' not in os.environ"), tmp_path / "other")


def test_with_validation_alone_that_is_the_score_and_the_report_says_so(script, tmp_path):
    result = train(script("write(validation=0.75)"), tmp_path / "run")
    assert result.score == 0.75
    assert read_report(tmp_path / "run").scored("test") == ("validation", 0.75)
    train(script("write(validation=0.75, test=0.5)"), tmp_path / "both")
    assert read_report(tmp_path / "both").scored("test") == ("test", 0.5)


def test_a_tuning_run_is_scored_on_validation_data(script, tmp_path):
    tuning = changed(script("write(validation=0.75, test=None)"), "validation", seed=1000)
    assert train(tuning, tmp_path / "run").score == 0.75
    asked = json.loads((tmp_path / "run" / TRIAL / "trial.json").read_text())
    assert (asked["score_on"], asked["seed"]) == ("validation", 1000)
    leak = changed(script("write(validation=0.75, test=0.5)"), "validation")
    assert train(leak, tmp_path / "leak").score == 0.75
    without = changed(script("write(test=0.5)"), "validation")
    with pytest.raises(ScriptFailed, match="reports no validation score"):
        train(without, tmp_path / "other")


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_what_is_not_finite_has_diverged_and_the_worst_score(script, tmp_path, value):
    result = train(script(f"write(test={value!r})"), tmp_path / "run")
    assert (result.diverged, result.score) == (True, 0.0)
    result = train(script(f"write(test={value!r}, worst='inf')"), tmp_path / "other")
    assert (result.diverged, result.score) == (True, math.inf)


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("raise ValueError('no such\\nfile')", "ended with status 1: file (see"),
        ("print(1 / 0)", "ended with status 1: ZeroDivisionError: division by zero (see"),
        ("write(test=1.0); sys.exit(3)", "ended with status 3 (see"),
        ("os.kill(os.getpid(), 9)", "ended with status -9 (see"),
        ("pass", "ended without a report: a script makes trial = gaf.trial(...)"),
        ("write(test='high')", "report.json is damaged"),
        ("write(validation=None)", "no score"),
    ],
)
def test_a_failure_is_a_sentence(script, tmp_path, code, sentence):
    with pytest.raises(GafError) as failed:
        train(script(code), tmp_path / "run")
    assert sentence in str(failed.value)
    assert "\n" not in str(failed.value)
    assert str(tmp_path / "run") in str(failed.value)
    assert not (tmp_path / "run" / "finished.json").exists()


def test_an_unfinished_trial_begins_again(script, tmp_path):
    """What the first attempt has left is gone, its report too."""
    code = (
        "old = [path.name for path in folder.iterdir()]\n"
        "assert old == ['trial.json'], old\n"
        "write(test=1.0); (folder / 'outputs').mkdir(); (folder / 'outputs' / 'x').touch()\n"
        "if not os.path.exists('second'): open('second', 'w').close(); os.kill(os.getpid(), 9)\n"
    )
    config = script(code)
    with pytest.raises(ScriptFailed):
        train(config, tmp_path / "run")
    assert train(config, tmp_path / "run").score == 1.0
    assert len(folders.read_environment(tmp_path / "run").resumed) == 1


def test_the_identity_is_the_script_and_what_it_imports_from_its_folder(script, tmp_path):
    Path("model.py").write_text("width = 3\n")
    config = script("import model; write(test=1.0)", "--epochs", "10")
    train(config, tmp_path / "run")
    source = folders.read_identity(tmp_path / "run").source
    assert source["the script train.py"].keys() == {"train.py", "model.py"}
    (place,) = places([config], tmp_path).values()
    Path("model.py").write_text("width = 4\n")
    (other,) = places([config], tmp_path).values()
    assert place.folder != other.folder
    with pytest.raises(GafError, match=r"source of the script train\.py has changed \(model\.py\)"):
        train(config, tmp_path / "run")
    arguments = script("import model; write(test=1.0)", "--epochs", "11")
    assert digest(arguments) != digest(config)


def test_a_script_that_changes_while_it_runs_is_no_result(script, tmp_path):
    config = script("write(test=1.0); open('train.py', 'a').write('# changed')")
    with pytest.raises(ScriptFailed, match="while it ran"):
        train(config, tmp_path / "run")


def test_what_cannot_be_started_is_refused_before(script, tmp_path):
    config = script("write(test=1.0)")
    with pytest.raises(GafError, match=r"no script nothing\.py"):
        train(script_config("nothing.py"), tmp_path / "run")
    for launch, sentence in [
        ("no-such-program", "no program 'no-such-program'"),
        ("torchrun '", "cannot read the launch"),
        ("torchrun --master-port 29500", "leave --master-port out"),
        ("torchrun --rdzv_endpoint=a:1", "leave --rdzv_endpoint=a:1 out"),
    ]:
        with pytest.raises(GafError, match=sentence):
            train(script_config("train.py", launch=launch), tmp_path / "run")
    options = {"path": "train.py", "argumnets": []}
    with pytest.raises(GafError, match="argumnets"):
        train(
            read(
                {**config.model_dump(mode="json"), "task": {"kind": "script", "options": options}}
            ),
            "x",
        )
    with pytest.raises(GafError, match="how long it trains"):
        read({**config.model_dump(mode="json"), "epochs": 3})
    with pytest.raises(GafError, match=r"optimizer\.script belongs"):
        read({"name": "a", "task": {"data": "digits", "model": "mlp"}, "epochs": 1,
              "optimizer": {"script": ["lr"]}})  # fmt: skip
    assert not (tmp_path / "run").exists()


def test_another_program_launches_it(script, tmp_path):
    config = script(
        "write(test=1.0); print(os.environ['HELLO'])", launch="env HELLO=you " + sys.executable
    )
    train(config, tmp_path / "run")
    assert (tmp_path / "run" / STDOUT).read_text() == "you\n"


OWN = {"factor": 1.0}


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("baseline", {}),
        ("lr x3", {"factor": 3.0}),
        ("arctan(0.1, 20)", {"activation": "arctan(0.1, 20)"}),
        ("arctan(0.1, 20)@gradient", {"activation": "arctan(0.1, 20)", "placement": "gradient"}),
        ("arctan(0.1, 20) + lr x0.5", {"activation": "arctan(0.1, 20)", "factor": 0.5}),
        ("control(arctan(0.1, 20))", {"activation": "arctan(0.1, 20)", "control": True}),
        ("auto", {"activation": "auto"}),
        ("centralize", {"centralize": True}),
        ("clip-norm-0.1", {"clip_norm": 0.1}),
        ("clip-value-0.1", {"clip_value": 0.1}),
        ("normalize", {"normalize": 1.0}),
        ("adam", {"rule": "adam", "lr": 0.001}),
        ("adam(0.01)", {"rule": "adam", "lr": 0.01}),
        ("adam + lr x3", {"rule": "adam", "lr": 0.003}),
        (
            "adam + tanh(0.2, 10)",
            {"rule": "adam", "lr": 0.001, "activation": "tanh(0.2, 10)", "placement": "gradient"},
        ),
        (
            "adam-atan2",
            {
                "rule": "adamw", "lr": 0.0001, "activation": "arctan(1.27, 1)", "placement": "momentum",
                "arguments": {"betas": (0.9, 0.99), "eps": 0.0, "amsgrad": False, "eps_hat": False},
            },
        ),
        (
            "rmsprop(0.01, alpha=0.9)",  # with its own momentum, and the script's decay
            {"rule": "torch.optim:RMSprop", "lr": 0.01,
             "arguments": {"eps": 1e-8, "momentum": 0, "alpha": 0.9}},
        ),
        (
            "sgd-atan-mom",  # which has no published rate: the script's
            {
                "rule": "sgd", "activation": "arctan(0.3, 4.5)", "placement": "momentum",
                "arguments": {"momentum": 0.9, "dampening": 0.0, "nesterov": False,
                              "decoupled_weight_decay": False},
            },
        ),
    ],
)  # fmt: skip
def test_settings_change_what_they_name_and_leave_the_rest_to_the_script(text, asked):
    made = settings.make(script_config("train.py"), text)
    trial = trial_of(made.config)
    asked = {"factor": 1.0, **asked}
    usual = {**vars(Request()), "arguments": {}}
    assert {
        key: value for key, value in trial.items() if value != usual[key] or key in asked
    } == asked
    Request(**trial)  # which is what the script will accept
    assert read(made.config.model_dump(mode="json")) == made.config
    assert "@None" not in made.name


def test_controls_of_a_script():
    """Its rule is not known before it runs, so a control is a rule of its own, and Auto has rates."""
    base = script_config("train.py")
    tuned = [settings.make(base, "baseline")]
    (control,) = settings.controls(settings.make(base, "arctan(0.1, 20)"), tuned)
    assert trial_of(control.config)["control"]
    auto = settings.make(base, "auto")
    assert auto.has_rate
    names = [control.name for control in settings.controls(auto, tuned)]
    assert names == ["auto(function=line)", "auto(function=clip)", "auto(function=sign)"]


def test_a_rate_is_multiplied_whatever_the_rule():
    for text, key, rate in [("baseline", "factor", 3.0), ("adam", "lr", 0.003)]:
        setting = settings.make(script_config("train.py"), text)
        assert trial_of(settings.at_rate(setting.config, rate))[key] == pytest.approx(rate)


def test_configs_from_before_are_written_as_they_were():
    config = RunConfig(name="a", task={"data": "digits", "model": "mlp"}, epochs=1)  # type: ignore[arg-type]
    written = config.model_dump(mode="json")
    assert not {"script", "control"} & written["optimizer"].keys()
    assert "score_on" not in written["task"]
    with pytest.raises(GafError, match="does not decide 'seed'"):
        read({**written, "optimizer": {"script": ["seed"]}})
    with pytest.raises(GafError, match="control belongs"):
        read({**written, "optimizer": {"control": True}})
    assert OptimizerConfig(activation="arctan(0.1, 20)").where == "gradient"


def test_a_function_or_placement_that_there_is_not_is_refused():
    written = script_config("train.py").model_dump(mode="json")
    for changes, hint in [
        ({"activation": "arctn"}, "arctan"),
        ({"activation": "arctan", "placement": "gradinet"}, "gradient"),
    ]:
        with pytest.raises(GafError, match=f"did you mean '{hint}'"):
            read({**written, "optimizer": {**written["optimizer"], **changes}})


def test_seeds_that_make_no_difference_are_an_error():
    check_seeds([])
    check_seeds([[0.9]])
    check_seeds([[0.9, 0.9], [0.8, 0.81]])
    with pytest.raises(GafError, match=r"trial\.seed"):
        check_seeds([[0.9, 0.9], [0.8, 0.8], [0.7]])


# A parent that ignores SIGTERM, with a child in a group of its own, as torchrun's are.
STUBBORN = """
import signal, subprocess, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
(folder / "pids").write_text(f"{os.getpid()} {child.pid}")
time.sleep(600)
"""
LINUX = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")


def gone(pids, seconds=60.0):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not any(Path(f"/proc/{pid}").exists() for pid in pids):
            return True
        time.sleep(0.05)
    return False


def begun(folder, process=None):
    """The processes of the script in a folder, once it has begun."""
    place, until = folder / TRIAL / "pids", time.monotonic() + 120
    while not (place.exists() and place.read_text().count(" ")):
        assert process is None or process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)
    return [int(pid) for pid in place.read_text().split()]


@LINUX
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_of_a_script_outlives_its_parent(script, tmp_path, number):
    """Told to stop it ends them; killed, the guard does, and the next run begins again."""
    script(STUBBORN)
    code = (
        "from gaf.lab.engine.run import train\n"
        "from gaf.lab.engine.script import script_config\n"
        f"train(script_config('train.py'), {str(tmp_path / 'run')!r})\n"
    )
    parent = Forked(["-c", code], cwd=tmp_path)
    pids = begun(tmp_path / "run", parent)
    assert sorted(processes(str(tmp_path / "run" / TRIAL))) == sorted(pids)
    os.kill(parent.pid, number)
    parent.wait(60)
    assert gone(pids)
    assert not (tmp_path / "run" / "finished.json").exists()


@LINUX
def test_a_signal_ends_the_script_and_the_run_can_be_begun_again(script, tmp_path):
    config = script("if os.path.exists('second'): write(test=1.0); sys.exit()\n" + STUBBORN)
    timer = subprocess.Popen(
        [sys.executable, "-c", "import os, sys, time, pathlib\n"
         "while not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.02)\n"
         "os.kill(int(sys.argv[2]), 15)", str(tmp_path / "run" / TRIAL / "pids"), str(os.getpid())]
    )  # fmt: skip
    with pytest.raises(Interrupted):
        train(config, tmp_path / "run")
    timer.wait()
    assert gone(begun(tmp_path / "run"))
    Path("second").touch()
    assert train(config, tmp_path / "run").score == 1.0


@LINUX
def test_what_a_script_leaves_behind_ends_with_it(script, tmp_path):
    code = (
        "import subprocess\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "(folder / 'pids').write_text(f'{child.pid} ')\n"
        "write(test=1.0)\n"
    )
    assert train(script(code), tmp_path / "run").score == 1.0
    assert gone(begun(tmp_path / "run"))
