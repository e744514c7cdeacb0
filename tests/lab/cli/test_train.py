"""`gaf train` as people run it: results, lists, and one line with status 2 for every mistake."""

import json
import subprocess
import sys

import pytest

from gaf.lab.cli.app import run
from gaf.lab.engine.folder import read_config
from gaf.lab.study import recipes
from tests.forked import ENVIRONMENT
from tests.lab.engine.tiny import KIND

QUICK = ("--set", "threads=1", "--set", "accelerator=cpu", "--set", "epochs=1")
TINY = ("train", "--task", KIND, *QUICK)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # the command adds the current folder


def test_help_shows_an_example(capsys):
    assert run(["train", "--help"]) == 0
    assert "Example: gaf train" in capsys.readouterr().out


def test_list_names_every_recipe_once(capsys):
    """The plain ones at once, and their variants under each."""
    assert run(["train", "--list", "--json"]) == 0
    every = json.loads(capsys.readouterr().out)
    assert run(["train", "--list"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line[:4] == "    "]
    assert len(lines) + sum(int(line[2]) for line in lines if len(line) > 1) == len(every)
    assert run(["train", "--list", "digits-cnn"]) == 0
    found = capsys.readouterr().out.split()[1:]
    assert found == [name for name in every if name.startswith("digits-cnn")]


def test_a_recipe_trains_into_a_folder_named_after_it(capsys, tmp_path):
    assert run(["train", "digits-cnn-sgdm", *QUICK, "--seed", "3"]) == 0
    out, err = capsys.readouterr()
    folder = tmp_path / "runs" / "digits-cnn-sgdm-seed3"
    assert read_config(folder).seed == 3
    assert "digits-cnn-sgdm: loss" in out
    assert "top1" in err
    assert "\x1b" not in out + err  # no bar, no colours in a pipe


def test_json_is_all_there_is_on_stdout(capsys, tmp_path):
    assert run([*TINY, "--out", "here", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found.keys() >= {"final", "best", "diverged", "seconds_per_step", "folder", "score"}
    assert (tmp_path / "here" / "finished.json").exists()
    assert run([*TINY, "--out", "here", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == found  # not run twice
    assert err == "gaf: this run was finished before; nothing was trained\n"
    assert run(["train", "--resume", "here", "--task", KIND, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == found


def test_a_divergence_is_told_and_is_no_error(capsys):
    assert run([*TINY, "--out", "here", "--set", "task.options.explode=1"]) == 0
    assert "diverged at step" in capsys.readouterr().out
    assert run([*TINY, "--out", "here", "--set", "task.options.explode=1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["diverged"] is True


def test_a_recipe_lends_its_settings_to_a_task_of_ones_own(tmp_path):
    """In a folder of its own: the recipe's is for the recipe's task."""
    assert run(["train", "digits-cnn-sgdm", "--task", KIND, *QUICK]) == 0
    config = read_config(tmp_path / "runs" / "tests.lab.engine.tiny-Tiny-digits-cnn-sgdm-seed0")
    assert config.task.kind == KIND
    assert config.optimizer == recipes.get("digits-cnn-sgdm").optimizer


OWN = """
import gaf
from gaf.lab.tasks import Task
from tests.lab.engine.tiny import Tiny

def make_task(width=16):
    return Tiny(width=width)

def broken():
    raise ValueError("a bug of the user's")

def number():
    return 3

class Misfit(Tiny):
    def __init__(self):
        super().__init__(width=8)

    def build_model(self):
        import torch
        return torch.nn.Linear(7, 10)

class Unscored(Tiny):
    score = "accuracy"
"""


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    (tmp_path / "my_module.py").write_text(OWN)
    (tmp_path / "bad_module.py").write_text("1 / 0\n")
    yield
    for name in ("my_module", "bad_module"):
        sys.modules.pop(name, None)


DIGITS = ("train", "digits-cnn-sgdm", *QUICK)
MISTAKES = {
    "nothing": (["train"], "name a recipe"),
    "unknown recipe": (["train", "digits-cnn-sgd"], "did you mean"),
    "nothing begins so": (["train", "--list", "xyzzy"], "no recipe begins with 'xyzzy'"),
    "unknown recipe, far": (["train", "xyzzy"], "gaf train --list"),
    "unknown key": ([*DIGITS, "--set", "optimizer.lrr=1"], "did you mean 'optimizer.lr'"),
    "unknown option": ([*DIGITS, "--set", "task.model_options.dept=3"], "dept"),
    "unknown data option": ([*DIGITS, "--set", "task.data_options.limits=3"], "limits"),
    "a key of other libraries": (
        [*DIGITS, "--set", "optimizer.learning_rate=1"], "did you mean 'optimizer.lr'"
    ),
    "a rate that is no float32": ([*DIGITS, "--set", "optimizer.lr=1e300"], "should be at most 3.4e+38, got"),
    "a decay that is no float32": (
        [*DIGITS, "--set", "optimizer.weight_decay=1e39"], "optimizer.weight_decay should be"
    ),
    "a threshold that is no float32": (
        [*DIGITS, "--set", "optimizer.clip_value=1e39"], "optimizer.clip_value should be"
    ),
    "a batch beyond all integers": (
        [*DIGITS, "--set", "batch_size=9223372036854775808"], "batch_size should be"
    ),
    "more nodes than there are": ([*DIGITS, "--set", "nodes=1000000000000"], "nodes should be"),
    "a first step that is no float32": (
        [*DIGITS, "--set", "optimizer.name=adam", "--set", "optimizer.momentum=0",
         "--set", "optimizer.lr=1e38"], "lr / (1 - betas[0])"
    ),
    "a rate that grows too large": (
        [*DIGITS, "--set", "schedule.name=step", "--set", "schedule.gamma=1e30",
         "--set", "schedule.milestones=[1,2]"], "at each milestone goes beyond 3.4e+38"
    ),
    "wrong type": ([*DIGITS, "--set", "optimizer.lr=fast"], "optimizer.lr should be"),
    "devices nobody has": ([*DIGITS, "--set", "devices=100000000"], "more than this machine has"),
    "a folder that cannot be made": ([*DIGITS, "--out", "/proc/gaf/run"], "cannot be written"),
    "not key=value": ([*DIGITS, "--set", "seed"], "'seed' is not key=value"),
    "wrong type of an option": ([*DIGITS, "--seed", "first"], "--seed"),
    "unknown model": ([*DIGITS, "--set", "task.model=resnet9-cifar"], "did you mean"),
    "unknown data": ([*DIGITS, "--set", "task.data=cifar11"], "cifar"),
    "unknown kind": ([*DIGITS, "--set", "task.kind=classify"], "'classification'"),
    "no function": (["train", "--task", "my_module:make_tas"], "did you mean 'make_task'"),
    "no module": (["train", "--task", "no_module:make_task"], "cannot be imported"),
    "module with a bug": (["train", "--task", "bad_module:make_task"], "ZeroDivisionError"),
    "no function, by name": (["train", "my_module:make_tas"], "did you mean 'make_task'"),
    "a task twice": (["train", KIND, "--task", KIND], "or a recipe's name with --task"),
    "no colon": (["train", "--task", "my_module"], "is not MODULE:FUNCTION"),
    "not a task": (["train", "--task", "my_module:number"], "gave int, not a"),
    "unknown task option": (
        ["train", "--task", "my_module:make_task", "--set", "task.options.depht=1"],
        "depht",
    ),
    "model and data of ones own": (["train", "--task", "my_module:Misfit"], "fails on two samples"),
    "a score that is not measured": (
        ["train", "--task", "my_module:Unscored", *QUICK],
        "'accuracy'",
    ),
    "no run": (["train", "--resume", "nowhere"], "holds no run"),
    "resume and a name": (["train", "digits-cnn-sgdm", "--resume", "x"], "give no name"),
    "resume and a folder": (["train", "--resume", "x", "--out", "y"], "or --out"),
    "wrong shapes": ([*DIGITS, "--set", "task.model=mlp", "--set", "task.model_options={}",
                      "--set", "task.model_options.size=9"], "do not fit"),
    "a folder in a file": ([*DIGITS, "--out", "my_module.py/run"], "my_module.py"),
    "cuda where there is none": ([*DIGITS, "--set", "accelerator=cuda"], "cannot be had here"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.usefixtures("own_module")
def test_a_mistake_is_one_line_and_status_2(mistake, capsys, tmp_path):
    args, says = MISTAKES[mistake]
    if mistake == "cuda where there is none":
        import torch

        if torch.cuda.is_available():
            pytest.skip("there is one here")
    before = sorted(path.name for path in tmp_path.iterdir())
    status = run(args)
    out, err = capsys.readouterr()
    assert (status, out) == (2, ""), err
    assert err.startswith("gaf: ")
    assert err.count("\n") == 1
    assert says in err
    if mistake != "a score that is not measured":  # it takes an evaluation to see that
        after = {path.name for path in tmp_path.iterdir()} - {"__pycache__"}
        assert sorted(after) == before, "something was left behind"


def test_missing_data_is_told_with_the_command_that_gets_it(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("GAF_DATA", str(tmp_path / "empty"))
    assert run(["train", "cifar100-resnet50-sgdm"]) == 2
    err = capsys.readouterr().err
    assert "gaf data get cifar100" in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("own_module")
def test_a_bug_of_the_users_keeps_its_traceback():
    with pytest.raises(ValueError, match="a bug of the user's"):
        run(["train", "--task", "my_module:broken"])


def test_a_task_of_ones_own_stands_where_a_recipe_does(capsys, tmp_path):
    assert run(["train", KIND, *QUICK, "--seed", "2"]) == 0
    assert read_config(tmp_path / "runs" / f"{KIND.replace(':', '-')}-seed2").task.kind == KIND
    assert run([*TINY, "--seed", "2"]) == 0  # --task alone means the same run
    assert "finished before" in capsys.readouterr().err


@pytest.fixture
def hostile(tmp_path, capsys):
    """A run from elsewhere whose config names what is no task, with arguments for it."""
    assert run([*TINY, "--out", "hostile"]) == 0
    path = tmp_path / "hostile" / "config.json"
    config = json.loads(path.read_text())
    config["task"] = {"kind": "os:system", "options": {"command": "touch sprung"}}
    path.write_text(json.dumps(config))
    (tmp_path / "hostile" / "finished.json").unlink()
    capsys.readouterr()
    yield "hostile"
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    "command",
    [("train", "--resume"), ("landscape",), ("detect", "--out", "x"), ("report",)],
    ids=lambda command: command[0],
)
def test_a_folder_neither_chooses_what_is_called_nor_suggests_it(command, hostile, capsys):
    image = ("photo.png",) if command[0] == "detect" else ()
    assert run([*command, hostile, *image]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "--task os" not in err
    if command[0] in ("train", "landscape"):
        assert "os:system" not in err
        assert "name it as you did then, with --task MODULE:FUNCTION" in err


@pytest.mark.parametrize("command", [("train", "--resume"), ("landscape",)])
def test_a_folder_that_names_another_task_is_quoted_at_most(command, hostile, capsys):
    assert run([*command, hostile, "--task", KIND]) == 2
    assert (
        f"trained another task than {KIND}; its config says 'os:system'" in capsys.readouterr().err
    )


@pytest.mark.parametrize("command", ["train", "compare", "tune"])
@pytest.mark.parametrize("kind", ["os:system", "subprocess:run", "builtins:exec", "torch.hub:load"])
def test_what_is_no_task_is_refused_though_the_user_names_it(command, kind, hostile, capsys):
    assert run([command, kind, "--set", "task.options.command=touch sprung"]) == 2
    assert f"{kind} is not a task" in capsys.readouterr().err
    if command == "train":
        assert run(["train", "--resume", hostile, "--task", kind]) == 2
        assert f"{kind} is not a task" in capsys.readouterr().err


RULE = "tests.lab.engine.own_rules:Averaging"
NAMED = ("--set", f"optimizer.name={RULE}")
WITHOUT = ("--set", "optimizer.momentum=0")


def test_an_optimizer_of_a_package_is_named_again_to_go_on(capsys, tmp_path):
    assert run([*TINY, "--out", "here", *NAMED, *WITHOUT, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    (tmp_path / "here" / "finished.json").unlink()
    assert run(["train", "--resume", "here", "--task", KIND]) == 2
    err = capsys.readouterr().err
    assert "name it as you did then, with --set optimizer.name=MODULE:CLASS" in err
    assert RULE not in err
    assert run(["train", "--resume", "here", "--task", KIND, *NAMED, "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["final"], again["steps"]) == (result["final"], result["steps"])
    other = ["--set", "optimizer.name=rmsprop"]
    assert run(["train", "--resume", "here", "--task", KIND, *other]) == 2
    assert "holds another run: its optimizer.name is" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", [("train", "--resume"), ("landscape",), ("report",)], ids=lambda command: command[0]
)
def test_a_folder_does_not_choose_which_optimizer_is_imported(command, tmp_path, capsys):
    assert run([*TINY, "--out", "here", "--json"]) == 0
    (tmp_path / "planted.py").write_text("import pathlib; pathlib.Path('sprung').touch()")
    config = json.loads((tmp_path / "here" / "config.json").read_text())
    config["optimizer"] |= {
        "name": "planted:Rule",
        "momentum": 0,
        "activation": "tanh",
        "placement": None,
    }
    (tmp_path / "here" / "config.json").write_text(json.dumps(config))
    task = () if command[0] == "report" else ("--task", KIND)
    run([*command, "here", *task])
    assert not (tmp_path / "sprung").exists()
    assert "planted" not in sys.modules


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "is not JSON"),
        ('{"name": "a"}', "lacks the key 'task'"),
        ('{"name": "a", "task": {}, "epochs": 1, "wine": 3}', "config"),
    ],
)
def test_a_damaged_config_is_a_sentence(content, says, capsys, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text(content)
    assert run(["train", "--resume", "run"]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert err.count("\n") == 1


@pytest.mark.slow
def test_without_its_packages_the_command_names_the_extra():
    code = (
        "import sys; sys.modules['lightning_fabric'] = None; import gaf.lab.cli.app; "
        f"sys.argv[1:] = {list(TINY)!r}; gaf.lab.cli.app.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=ENVIRONMENT, timeout=60
    )
    assert done.returncode == 2, done.stderr
    assert "pip install 'activated-gradients[lab]'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_subset_is_said(data_dir, tmp_path, capsys):
    """Where a subset takes the place of the dataset, and nowhere else."""
    small = ("--set", "task.data_options.limit=4", "--set", "batch_size=2")
    recipe = ("train", "small-cifar100-resnet50-sgdm", "--out", "run", *QUICK, *small)
    assert run([*recipe, "--set", f"task.data_options.root={data_dir}"]) == 0
    first = capsys.readouterr().err.splitlines()[0]
    assert first == (
        f"gaf: cifar100 (50,000 training samples) is not in {data_dir}: "
        f"the subset in {data_dir}/cifar-100-subset/cifar-100-binary takes its place"
    )
    assert run([*recipe, "--set", f"task.data_options.root={data_dir}"]) == 0
    assert "takes its place" not in capsys.readouterr().err  # it was finished
    assert run(["train", "digits-cnn-sgdm", *QUICK, *small]) == 0
    assert "takes its place" not in capsys.readouterr().err
    assert run([*recipe[:2], "--set", f"task.data_options.root={tmp_path}"]) == 2
    assert "gaf data get cifar100" in capsys.readouterr().err
