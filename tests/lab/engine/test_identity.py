"""What a run is beside its config: the user's files, the versions of built-in parts, the data."""

import importlib
import json
import shutil
import sys
import textwrap
from pathlib import Path

import pytest

import gaf
from gaf.lab.cli.app import run
from gaf.lab.engine.config import override
from gaf.lab.engine.identity import RunIdentity, identify_all
from gaf.lab.engine.run import train
from gaf.lab.study import recipes
from gaf.lab.study.compare import read
from gaf.lab.study.grid import digest, run_grid
from gaf.lab.tasks import import_maker, source
from gaf.optim.sgd import SGD
from tests.forked import ROOT
from tests.lab.engine.tiny import tiny_config
from tests.lab.study.grid_tasks import Here, HerePool, base

QUICK = ("--set", "epochs=1", "--set", "accelerator=cpu")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield
    forget(set(sys.modules) - before)


def forget(modules):
    """As if a new process had begun: what was imported from the test's folder is read again."""
    for name in modules:
        if "/site-packages/" not in str(getattr(sys.modules[name], "__file__", "")):
            sys.modules.pop(name)
    sys.path_importer_cache.clear()


def anew(*modules):
    forget([name for name in modules if name in sys.modules])


def write(folder, **files):
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))


def sources(module):
    anew(module)
    import_maker(f"{module}:make_task")
    return source.checksums(module)


MAKE = "from gaf.lab.tasks import Task\ndef make_task():\n    return None\n"


def test_the_files_of_a_task_are_those_it_imports_from_its_folder(tmp_path):
    write(
        tmp_path,
        task="""
            import math, torch, gaf
            import direct
            from package import member, attribute
            from gaf.lab.tasks import Task
            def make_task():
                from inner import late
                if False:
                    import package.deep.module as other
            """,
        direct="import second\n",
        second="import direct\n",  # a circle
        inner="late = 1\n",
        unrelated="",
        package__member="from . import sibling\nfrom .deep import other\n",
        package__sibling="",
        package__unrelated="",
        package__deep__module="from ..up import x\n",
        package__deep__other="",
        package__up="x = 1\n",
    )
    (tmp_path / "package" / "__init__.py").write_text("attribute = 1\n")
    assert list(sources("task")) == [
        *("direct.py", "inner.py", "package/__init__.py", "package/deep/module.py"),
        *("package/deep/other.py", "package/member.py", "package/sibling.py", "package/up.py"),
        *("second.py", "task.py"),
    ]


def test_a_task_in_a_package_has_the_packages_around_it(tmp_path):
    write(tmp_path, lab__tasks__mine=f"from ..helper import h\n{MAKE}", lab__helper="h = 1\n")
    (tmp_path / "lab" / "__init__.py").write_text("from lab import extra\n")
    (tmp_path / "lab" / "extra.py").write_text("")
    assert list(sources("lab.tasks.mine")) == [
        *("lab/__init__.py", "lab/extra.py", "lab/helper.py", "lab/tasks/mine.py"),
    ]
    assert list(sources("lab.tasks.mine").values()) == list(sources("lab.tasks.mine").values())


def test_a_process_that_has_imported_a_task_keeps_what_it_imported(tmp_path):
    write(tmp_path, task=MAKE)
    before = sources("task")
    (tmp_path / "task.py").write_text(MAKE + "# changed\n")
    assert source.checksums("task") == before
    assert sources("task") != before


def test_built_in_parts_have_versions():
    (found,) = identify_all(
        [override(recipes.get("digits-cnn-sgdm"), ["optimizer.activation=auto"])]
    )
    assert found.versions == {
        **dict.fromkeys(("engine", "task classification", "model digits-cnn", "rule sgd"), 1),
        "function auto": 2,
        "function arctan": 1,
    }
    assert found.source == {}
    assert found.data["train"] == found.data["test"] != {}


def test_a_function_of_ones_own_counts_by_its_file(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    text = """
        import gaf

        @gaf.register
        class Mine(gaf.Activation):
            scale: float = 1.0

            @staticmethod
            def formula(xp, g, scale):
                return g / (1 + xp.abs(g) / scale)
        """
    write(tmp_path, functions=text)
    importlib.import_module("functions")
    (found,) = identify_all([base("optimizer.activation=mine(2)")])
    assert "function mine" not in found.versions
    assert list(found.source["the function mine"]) == ["functions.py"]
    (found,) = identify_all([base("optimizer.activation=mine(2) + tanh(0.2, 10)")])
    assert "function mine" not in found.versions
    assert found.versions["function tanh"] == 1
    assert list(found.source["the function mine"]) == ["functions.py"]
    assert "the function tanh" not in found.source
    gaf.functions.registry._REGISTRY.pop("mine")


DIFFERENCES = [
    ({"versions": {"rule sgd": 2}}, "the rule sgd has changed (version 1, now 2)"),
    ({"source": {"a:b": {"a.py": "1", "h.py": "3"}}}, "the source of a:b has changed (h.py)"),
    ({"source": {"a:b": {"a.py": "1"}}}, "the source of a:b has changed (h.py)"),
    ({"data": {"train": {"x": "other"}}}, "the data has changed"),
    ({}, ""),
]


@pytest.mark.parametrize(("change", "says"), DIFFERENCES)
def test_a_difference_is_told_in_words(change, says):
    one = RunIdentity(
        versions={"rule sgd": 1},
        source={"a:b": {"a.py": "1", "h.py": "2"}},
        data={"train": {"x": "y"}},
    )
    other = one.model_copy(update=change)
    assert one.difference(other) == says
    assert (one.digest(base(), ()) == other.digest(base(), ())) == (not says)


def test_only_shared_parts_count_between_settings():
    one, other = identify_all([base("optimizer.activation=tanh(0.1, 20)"), base()])
    assert one.difference(other)
    assert one.difference(other, shared=True) == ""


# -- gaf compare, as a user whose task changes ------------------------------------------------


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The example's task, in a folder of the user's with a helper and a file that nobody imports.

    Without bytecode: Python knows a source by its second and its size, and these change within one.
    """
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr("gaf.lab.study.pool.Pool", HerePool)
    text = (ROOT / "examples" / "own_task.py").read_text()
    assert "torch.sin(self.x)" in text
    text = text.replace("torch.sin(self.x)", "curve(self.x)")
    (tmp_path / "bc.py").write_text(f"from helper import curve\n{text}")
    (tmp_path / "helper.py").write_text("import torch\n\ncurve = torch.sin\n")
    (tmp_path / "notes.py").write_text("\n")
    return tmp_path


def compared(seeds, capsys):
    """The scores of the baseline."""
    anew("bc", "helper")
    command = ["compare", "bc:make_task", "--settings", "adam", "--seeds", str(seeds), *QUICK]
    command.append("--at-given-rate")
    assert run(command) == 0, capsys.readouterr().err
    found = read(Path("runs/compare-bc-make_task"))
    return found.row("sgd").scores


def trained(folder):
    """How many runs a comparison has trained so far."""
    return len(list((folder / "runs/compare-bc-make_task/runs").glob("*/finished.json")))


def test_runs_of_a_task_that_changed_are_not_in_one_table(own, capsys):
    two = compared(2, capsys)
    (own / "notes.py").write_text("# another file of the folder\n")
    again = compared(2, capsys)
    assert again == two
    assert trained(own) == 4
    text = (own / "bc.py").read_text()
    (own / "bc.py").write_text(text.replace("6 * torch.rand", "2 * torch.rand"))
    four = compared(4, capsys)
    assert trained(own) == 4 + 8
    assert not set(four) & set(two)
    (own / "bc.py").write_text(text)
    assert compared(2, capsys) == two  # the old runs are found again
    assert trained(own) == 12


def test_a_helper_beside_the_task_counts(own, capsys):
    two = compared(2, capsys)
    (own / "helper.py").write_text("import torch\n\ncurve = torch.cos\n")
    other = compared(2, capsys)
    assert not set(other) & set(two)


def test_two_tasks_of_one_function_name_have_folders_of_their_own(own, capsys):
    shutil.copy(own / "bc.py", own / "other.py")
    for module in ("bc", "other"):
        command = ["compare", f"{module}:make_task", "--settings", "adam", "--seeds", "1", *QUICK]
        assert run(command) == 0, capsys.readouterr().err
        assert run(["train", "--task", f"{module}:make_task", *QUICK]) == 0
    assert {path.name for path in (own / "runs").iterdir()} == {
        *("compare-bc-make_task", "compare-other-make_task"),
        *("bc-make_task-seed0", "other-make_task-seed0"),
    }


def test_a_folder_whose_task_has_changed_says_so(own, capsys):
    command = ["train", "--task", "bc:make_task", *QUICK]
    assert run(command) == 0
    (own / "helper.py").write_text("import torch\n\ncurve = torch.cos\n")
    anew("bc", "helper")
    capsys.readouterr()
    assert run(command) == 2
    assert capsys.readouterr().err == (
        "gaf: the source of bc:make_task has changed (helper.py) since the run in "
        "runs/bc-make_task-seed0 began; choose another folder (--out), or undo the change\n"
    )
    assert run([*command, "--out", "elsewhere"]) == 0
    assert run(["report", "runs/bc-make_task-seed0", "elsewhere"]) == 2
    assert "the source of bc:make_task has changed (helper.py) between" in capsys.readouterr().err


# -- versions and data ---------------------------------------------------------------------------


def test_a_raised_version_makes_other_runs_of_those_it_concerns(tmp_path, monkeypatch):
    configs = [
        base("optimizer.activation=auto"),
        base("optimizer.activation=tanh(0.1, 20)"),
        base(),
    ]
    first = run_grid(configs, tmp_path, Here())
    monkeypatch.setattr(gaf.Auto, "version", gaf.Auto.version + 1)
    executor = Here()
    again = run_grid(configs, tmp_path, executor)
    assert executor.asked == configs[:1]
    assert again[digest(configs[0])].folder != first[digest(configs[0])].folder
    assert again[digest(configs[2])] == first[digest(configs[2])]
    monkeypatch.setattr(SGD, "version", 2)
    executor = Here()
    run_grid(configs, tmp_path, executor)
    assert executor.asked == configs


def test_other_data_under_the_same_config_is_another_run(tmp_path, monkeypatch):
    monkeypatch.setenv("GAF_DATA", str(tmp_path / "data"))
    path = tmp_path / "data" / "text" / "tinyshakespeare.txt"
    path.parent.mkdir(parents=True)
    path.write_text("to be or not to be, that is the question. " * 100)
    quick = ["iterations=1", "batch_size=4", "accelerator=cpu", "threads=1"]
    config = override(recipes.get("text-transformer-adamw"), [*quick, "task.data_options.size=8"])
    first = run_grid([config], tmp_path / "runs", Here())[digest(config)]
    assert first.error == ""
    path.write_text(path.read_text().replace("question", "solution"))
    other = run_grid([config], tmp_path / "runs", Here())[digest(config)]
    assert other.folder != first.folder
    assert other.result.score != first.result.score
    with pytest.raises(gaf.common.errors.GafError, match=r"^the data has changed since the run in"):
        train(config, first.folder)


def test_a_task_that_changes_while_a_grid_goes_on_is_no_result(tmp_path, monkeypatch):
    """A process that starts later reads other files: what it trained does not stand in the table."""

    class Later(Here):
        def submit(self, config, folder, seen):
            monkeypatch.setattr(SGD, "version", 3)
            return super().submit(config, folder, seen)

    (outcome,) = run_grid([base()], tmp_path, Later()).values()
    assert outcome.result is None
    assert outcome.error.startswith("the rule sgd has changed (version 1, now 3) while")


def test_a_run_from_before_identities_is_another_run(tmp_path):
    config = tiny_config("epochs=1")
    train(config, tmp_path)
    (tmp_path / "identity.json").unlink()
    with pytest.raises(
        gaf.common.errors.GafError, match="does not say with which code and data it began"
    ):
        train(config, tmp_path)


def test_a_damaged_identity_is_a_sentence(tmp_path):
    config = tiny_config("epochs=1")
    train(config, tmp_path)
    (tmp_path / "identity.json").write_text(json.dumps({"versions": {"x": "one"}}))
    with pytest.raises(gaf.common.errors.GafError, match=r"identity\.json is damaged: "):
        train(config, tmp_path)
