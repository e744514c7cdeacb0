"""`gaf landscape` as people run it."""

import hashlib
import json

import pytest

from gaf.lab.cli.app import run
from gaf.lab.engine.run import train
from tests.lab.engine.tiny import KIND, tiny_config


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two runs of one model, and one of a wider one."""
    folder = tmp_path_factory.mktemp("runs")
    for name, changes, options in (
        ("one", (), {}),
        ("other", ("seed=1",), {}),
        ("wider", (), {"width": 8}),
    ):
        train(tiny_config(*changes, **options), folder / name)
    return folder


@pytest.fixture
def landscape(capsys):
    def call(*args):
        status = run(["landscape", *map(str, args)])
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    return call


def digests(folder):
    return {
        path: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "landscape" not in path.parts
    }


def test_files_and_numbers(landscape, trained, tmp_path):
    before = digests(trained)
    args = (trained / "one", "--task", KIND, "--to", trained / "other", "--out", tmp_path)
    status, out, err = landscape(*args, "--side", 5, "--samples", 40, "--json")
    assert status == 0, err
    found = json.loads(out)
    assert [path.rpartition(".")[2] for path in found["files"]] == ["png", "svg", "html"]
    assert (tmp_path / "landscape.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "landscape.svg").read_text("utf-8")
    page = (tmp_path / "landscape.html").read_text("utf-8")
    assert "The loss around tiny" in page
    middle = found["curve"]["losses"][25]
    assert found["surface"]["losses"][2][2] == pytest.approx(middle, rel=1e-6)
    assert found["line"]["losses"][0] == pytest.approx(middle, rel=1e-6)
    assert found["step"] == 15
    assert digests(trained) == before  # only read


def test_a_run_that_has_not_learned_is_at_no_optimum(landscape, trained, tmp_path):
    train(tiny_config("optimizer.lr=1e-12"), tmp_path / "still")
    kinds = {}
    for folder in (tmp_path / "still", trained / "one"):
        args = ("--task", KIND, "--out", tmp_path / "out", "--side", 5, "--samples", 40, "--json")
        status, out, err = landscape(folder, *args)
        assert status == 0, err
        kinds[folder.name] = json.loads(out)
    assert kinds["still"]["said"].startswith(
        "No optimum to judge: training has brought the loss from"
    )
    assert kinds["still"]["curve"]["shape"] is None
    assert kinds["one"]["curve"]["shape"] is not None


def test_a_checkpoint_named_from_inside_its_folder(landscape, trained, monkeypatch):
    monkeypatch.chdir(trained / "other" / "checkpoints")
    args = ("--task", KIND, "--side", 5, "--samples", 40, "--json")
    status, out, err = landscape("step-00000015", *args)
    assert status == 0, err
    assert json.loads(out)["step"] == 15
    assert (trained / "other" / "landscape" / "landscape.html").is_file()


def test_help_shows_an_example(landscape):
    status, out, _ = landscape("--help")
    assert status == 0
    assert "Example: gaf landscape" in out


def test_bad_input_is_one_sentence_and_exit_status_2(landscape, trained, tmp_path):
    one, own = trained / "one", ("--task", KIND)
    (tmp_path / "empty").mkdir()
    calls = {
        (): "name a run's folder",
        (tmp_path / "gone",): "there is no folder",
        (tmp_path / "empty",): "holds no run",
        (one,): f"the run in {one} trained a task of your own: name it",
        (
            one,
            "--task",
            "gaf.lab.tasks.classification.deep_sigmoid:deep_sigmoid",
        ): "trained another task than gaf.lab.tasks.classification.deep_sigmoid",
        (one, *own, "--to", trained / "wider"): "is one of another model: its '0.weight' has shape",
        (one, *own, "--radius", 0): "the radius of a slice",
        (one, *own, "--side", 4): "an odd number of points",
    }
    for args, says in calls.items():
        status, out, err = landscape(*args)
        assert (status, out) == (2, ""), args
        last = err.splitlines()[-1]
        assert last.startswith("gaf: "), args
        assert says in last, args


def test_a_checkpoint_under_the_config_of_another_model_is_refused(landscape, trained, tmp_path):
    import shutil

    mixed = tmp_path / "mixed"
    shutil.copytree(trained / "one", mixed)
    shutil.copy(trained / "wider" / "config.json", mixed)
    status, _, err = landscape(mixed, "--task", KIND)
    assert status == 2
    assert "is one of another model" in err.splitlines()[-1]
