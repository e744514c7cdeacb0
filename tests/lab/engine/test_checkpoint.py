"""Checkpoints: whole or not there, two kept, damage noticed, nothing in them executed."""

import json
import shutil
import warnings
from types import SimpleNamespace

import pytest
import torch

from gaf.common import files
from gaf.lab.engine import checkpoint
from gaf.lab.engine.run import train
from tests.lab.engine.tiny import tiny_config
from tests.memory import MEGABYTE, at_most

ALONE = SimpleNamespace(is_global_zero=True, global_rank=0, world_size=1, barrier=lambda: None)


def save(folder, step, value=1.0):
    checkpoint.save(ALONE, folder, step, {"w": torch.full((3,), value)}, {"rank": 0})


@pytest.fixture
def folder(tmp_path):
    for step in (10, 20, 30):
        save(tmp_path, step, float(step))
    return tmp_path


def test_the_last_two_are_kept_and_nothing_else(folder):
    assert [path.name for path in checkpoint.steps(folder)] == ["step-00000030", "step-00000020"]
    assert len(list(folder.iterdir())) == 2
    state, own = checkpoint.load(checkpoint.latest(folder))
    assert state["w"].tolist() == [30.0] * 3
    assert own == {"rank": 0}
    assert checkpoint.load(checkpoint.latest(folder), rank=1)[1] is None


def test_steps_are_ordered_by_number(tmp_path):
    for step in (99_999_999, 100_000_000):
        save(tmp_path, step)
    assert checkpoint.latest(tmp_path).name == "step-100000000"


def cut(path):
    part = path / "part-0.pt"
    part.write_bytes(part.read_bytes()[:-7])


def flip(path):
    part = path / "part-0.pt"
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 1
    part.write_bytes(content)


DAMAGE = {
    "cut": cut,
    "a flipped bit": flip,
    "empty": lambda path: (path / "part-0.pt").write_bytes(b""),
    "no part": lambda path: (path / "part-0.pt").unlink(),
    "no manifest": lambda path: (path / "manifest.json").unlink(),
    "half a manifest": lambda path: (path / "manifest.json").write_text('{"parts": ['),
    "another manifest": lambda path: (path / "manifest.json").write_text("[1, 2]"),
    "a path in the manifest": lambda path: (path / "manifest.json").write_text(
        json.dumps({"format": 1, "parts": [{"name": "../x", "bytes": 0, "sha256": ""}]})
    ),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_checkpoint_falls_back_to_the_one_before_with_a_warning(folder, how):
    DAMAGE[how](folder / "step-00000030")
    with pytest.warns(UserWarning, match="step-00000030 is damaged"):
        found = checkpoint.latest(folder)
    assert found.name == "step-00000020"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert checkpoint.latest(folder) == found  # said once
    assert (folder / "damaged-step-00000030").is_dir()  # until there is a newer one
    save(folder, 40)
    assert not list(folder.glob("damaged-*"))
    save(folder, 50)
    assert [path.name for path in checkpoint.steps(folder)] == ["step-00000050", "step-00000040"]


def test_no_whole_checkpoint_is_a_sentence_again_and_again(folder):
    """Nothing is touched: the same command must not find an empty folder and begin anew."""
    for path in checkpoint.steps(folder):
        cut(path)
    for _ in range(2):
        with pytest.raises(ValueError, match="delete the run to begin"):
            checkpoint.latest(folder)
    assert len(checkpoint.steps(folder)) == 2


def test_no_flipped_bit_of_a_manifest_is_believed(folder):
    path = folder / "step-00000030"
    manifest = path / "manifest.json"
    whole = manifest.read_bytes()
    for position in range(8 * len(whole)):
        content = bytearray(whole)
        content[position // 8] ^= 1 << position % 8
        manifest.write_bytes(content)
        try:
            checkpoint.verify(path)
        except checkpoint.Damaged:
            continue
        assert json.loads(content) == json.loads(whole)  # a space that became another


def test_a_write_that_was_killed_leaves_nothing_that_counts(folder):
    shutil.copytree(folder / "step-00000030", folder / ".step-00000040.tmp")
    shutil.copytree(folder / "step-00000030", folder / ".step-00000037.tmp")  # a signal came then
    assert checkpoint.latest(folder).name == "step-00000030"
    save(folder, 40)
    assert checkpoint.latest(folder).name == "step-00000040"
    assert not list(folder.glob(".*"))


def test_a_step_can_be_saved_twice(folder):
    save(folder, 30, 31.0)
    assert checkpoint.load(folder / "step-00000030")[0]["w"].tolist() == [31.0] * 3


def test_an_unknown_format_is_a_sentence(folder):
    path = folder / "step-00000030" / "manifest.json"
    manifest = {**json.loads(path.read_text()), "format": 99}
    manifest.pop("sha256")
    files.write_json(path, {**manifest, "sha256": checkpoint._seal(manifest)})
    with pytest.raises(ValueError, match="format 99"):
        checkpoint.verify(folder / "step-00000030")


class Trap:
    sprung = False

    def __reduce__(self):
        return setattr, (Trap, "sprung", True)


def test_code_in_a_checkpoint_is_not_executed(folder):
    path = folder / "step-00000030"
    with open(path / "part-0.pt", "wb") as file:
        torch.save({"state": Trap(), "pieces": {}, "own": {}}, file)
    part = path / "part-0.pt"
    about = {"name": part.name, "sha256": files.sha256(part), "bytes": part.stat().st_size}
    manifest = {"format": 1, "step": 30, "parts": [about]}
    files.write_json(path / "manifest.json", {**manifest, "sha256": checkpoint._seal(manifest)})
    checkpoint.verify(path)  # its checksums are right
    with pytest.raises(ValueError, match="cannot be read: it asks for setattr"):
        checkpoint.load(path)
    assert not Trap.sprung


def replaced(path, part):
    """The checkpoint with another part, whose checksums are right."""
    torch.save(part, path / "part-0.pt")
    file = path / "part-0.pt"
    about = {"name": file.name, "sha256": files.sha256(file), "bytes": file.stat().st_size}
    manifest = {"format": 1, "step": int(path.name.removeprefix("step-")), "parts": [about]}
    files.write_json(path / "manifest.json", {**manifest, "sha256": checkpoint._seal(manifest)})
    checkpoint.verify(path)
    return path


def sharded(shape, offset, values):
    state = {"w": {"gaf_sharded": "/w", "shape": shape}}
    return {"state": state, "own": {}, "pieces": {"/w": {"offset": offset, "values": values}}}


MANY = 850_000_000  # numbers of 4 bytes: 3.4 GB
OTHERS = {
    "a list": ([1, 2], "no part of a checkpoint"),
    "a tensor": (torch.ones(3), "no part of a checkpoint"),
    "no state": ({"own": {}, "pieces": {}}, "no part of a checkpoint"),
    "a state that is a list": ({"own": {}, "pieces": {}, "state": []}, "no part of a checkpoint"),
    "a piece that repeats one number": (
        sharded([MANY], [0], torch.ones(1).expand(MANY)),
        "has not as many in the file",
    ),
    "a tensor that repeats one number": (
        {"state": {"w": torch.ones(1).expand(MANY)}, "own": {}, "pieces": {}},
        "has not as many in the file",
    ),
    "a random state that repeats one number": (
        {"state": {}, "own": {"rng": torch.ones(1).expand(MANY)}, "pieces": {}},
        "has not as many in the file",
    ),
    "a shape without pieces": (sharded([MANY], [0], torch.ones(1)), "pieces of /w are missing"),
    "an endless shape": (sharded([1 << 62] * 10_000, [0], torch.ones(1)), "no shape"),
    "a piece elsewhere": (sharded([2], [1], torch.ones(2)), "outside"),
    "a piece of other axes": (sharded([2], [0], torch.ones(2, 1)), "outside"),
    "a piece without values": (sharded([2], [0], 3), "not what was written"),
    "a shape of text": (sharded(["2"], [0], torch.ones(2)), "no shape"),
}


@pytest.mark.parametrize(("part", "reason"), OTHERS.values(), ids=OTHERS.keys())
def test_a_part_that_is_something_else_is_a_sentence(folder, part, reason):
    path = replaced(folder / "step-00000030", part)
    with at_most(200 * MEGABYTE), pytest.raises(checkpoint.Damaged, match=reason) as caught:
        checkpoint.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_checkpoint_without_a_model_is_a_sentence(folder):
    for state in ({}, {"model": {}}, {"model": [], "state": {"step": 3}}):
        path = replaced(folder / "step-00000030", {"state": state, "own": {}, "pieces": {}})
        with pytest.raises(checkpoint.Damaged, match="holds no model"):
            checkpoint.load_model(path)


def without(key):
    return lambda state: state.pop(key)


def as_is(state, *path, value):
    for key in path[:-1]:
        state = state[key]
    state[path[-1]] = value


CHANGED = {
    **{
        f"no {key!r}": without(key)
        for key in ("model", "optimizer", "state", "loss_sum", "lengths")
    },
    "'0.weight' has shape (3,), not (16, 16)": lambda state: as_is(
        state, "model", "0.weight", value=torch.ones(3)
    ),
    "it lacks '0.weight'": lambda state: state["model"].pop("0.weight"),
    "'momentum_buffer' of parameter 0 does not fit": lambda state: as_is(
        state, "optimizer", "state", 0, "momentum_buffer", value=torch.ones(3)
    ),
    "does not hold what a run saves": lambda state: as_is(state, "optimizer", value=[]),
    "its 'step' is not of the kind int": lambda state: as_is(state, "state", "step", value="3"),
    "'weight_decay' is no number": lambda state: as_is(
        state, "optimizer", "param_groups", 0, "weight_decay", value=[]
    ),
    "its results are no numbers": lambda state: as_is(state, "state", "best", value={"top1": []}),
    "no lengths": lambda state: as_is(state, "lengths", value={}),
}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stopped")
    train(tiny_config("epochs=1"), folder)
    (folder / "finished.json").unlink()
    return folder


@pytest.mark.parametrize("reason", CHANGED)
def test_a_run_does_not_go_on_from_a_checkpoint_of_something_else(stopped, tmp_path, reason):
    folder = tmp_path / "run"
    shutil.copytree(stopped, folder)
    path = checkpoint.steps(folder / "checkpoints")[0]
    part = torch.load(path / "part-0.pt", weights_only=True)
    CHANGED[reason](part["state"])
    replaced(path, part)
    with pytest.raises(checkpoint.Damaged) as caught:
        train(tiny_config("epochs=1"), folder)
    assert reason in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


MANIFESTS = [
    {"format": 1, "step": "30", "parts": []},
    {"format": 1, "step": 30.5, "parts": []},
    {"format": 1, "step": 30},
    {"format": 1, "step": 30, "parts": 3},
    {"step": 30, "parts": []},
    {"format": 1, "step": 30, "parts": [1]},
    {"format": 1, "step": 30, "parts": [{}]},
]


@pytest.mark.parametrize("manifest", MANIFESTS)
def test_a_manifest_of_something_else_is_a_sentence(folder, manifest):
    """Its seal is right: whoever writes a checkpoint by hand can compute it."""
    path = folder / "step-00000030"
    files.write_json(path / "manifest.json", {**manifest, "sha256": checkpoint._seal(manifest)})
    with pytest.raises(checkpoint.Damaged, match="not what was written"):
        checkpoint.verify(path)


def test_two_processes_may_write_one_file_at_once(tmp_path, monkeypatch):
    """The second writes all of it while the first is about to rename."""
    path, fsync, pid, seen = tmp_path / "page.html", files.os.fsync, files.os.getpid(), []

    def while_the_other_writes(handle):
        fsync(handle)
        if not seen:
            seen.append("the first is written")
            monkeypatch.setattr(files.os, "getpid", lambda: pid + 1)
            files.write_whole(path, b"second")
            seen.append(path.read_text())

    monkeypatch.setattr(files.os, "fsync", while_the_other_writes)
    files.write_whole(path, b"first")
    assert [*seen, path.read_text()] == ["the first is written", "second", "first"]
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]


def test_a_failed_write_leaves_the_others_alone(folder, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        save(folder, 40)
    monkeypatch.undo()
    assert sorted(path.name for path in folder.iterdir()) == ["step-00000020", "step-00000030"]
    assert checkpoint.latest(folder).name == "step-00000030"
