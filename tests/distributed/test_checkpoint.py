"""A distributed checkpoint goes on with another number of processes, and nothing in it is run."""

import contextlib
import io
import os
import pickle

import pytest
import torch
from torch import nn

import gaf
from gaf.integrations import checkpoint
from gaf.integrations.metadata import Refused, loads
from tests.distributed.launch import launch

TOLERANCE = 1e-6  # observed: 6e-8


@pytest.mark.slow
def test_saved_by_two_and_loaded_by_three_or_by_one(tmp_path):
    from tests.distributed import resume

    assert launch("resume", 2, tmp_path, "save") == 2  # files, one for each process
    assert launch("resume", 3, tmp_path, "load") <= TOLERANCE
    towers = resume.Towers(len(resume.CHOSEN))
    optimizers = resume.optimizers_of(towers)
    for i, (tower, optimizer) in enumerate(zip(towers.towers, optimizers, strict=True)):
        for p in tower.parameters():
            p.data.mul_(0)
        checkpoint.load(tmp_path / f"checkpoint-{i}", tower, optimizer)
        assert gaf.activation_of(optimizer.param_groups[0]) == resume.F
        assert gaf.activation_of(optimizer.param_groups[1]) is None
    resume.train(towers, optimizers, range(resume.SAVED, resume.STEPS), mine=False)
    assert resume.largest_difference(towers, resume.alone()) <= TOLERANCE


def make():
    model = nn.Linear(3, 2)
    return model, gaf.SGD(model.parameters(), lr=0.1, momentum=0.9, activation="arctan(0.1, 20)")


@pytest.fixture
def saved(tmp_path):
    model, optimizer = make()
    model(torch.ones(4, 3)).sum().backward()
    optimizer.step()
    checkpoint.save(tmp_path / "saved", model, optimizer)
    return tmp_path / "saved", model, optimizer


def test_a_round_trip(saved):
    folder, model, optimizer = saved
    again, other = make()
    checkpoint.load(folder, again, other)
    for each in ((model, optimizer), (again, other)):
        each[1].zero_grad()
        each[0](torch.ones(4, 3)).sum().backward()
        each[1].step()
    assert torch.equal(again.weight, model.weight)
    with pytest.raises(ValueError, match="holds a checkpoint already"):
        checkpoint.save(folder, model, optimizer)


class Call:
    """Pickles to a call of something."""

    def __init__(self, function, *arguments):
        self.reduced = function, arguments

    def __reduce__(self):
        return self.reduced


def hostile(folder):
    """Pickles that would run something, change a class, point elsewhere, or exhaust the process."""
    from torch.distributed.checkpoint import metadata as records

    whole = pickle.loads((folder / ".metadata").read_bytes())
    elsewhere = pickle.loads((folder / ".metadata").read_bytes())
    for info in elsewhere.storage_data.values():
        info.relative_path = "../other"
    odd = pickle.loads((folder / ".metadata").read_bytes())
    odd.state_dict_metadata["x"] = "neither"
    nested = ()
    for _ in range(200):
        nested = (nested,)
    name = records.Metadata.__module__.encode()
    return {
        "posix.mkdir": pickle.dumps(Call(os.mkdir, str(folder / "ran"))),
        "builtins.eval": pickle.dumps(
            Call(eval, f"__import__('os').mkdir({str(folder / 'ran')!r})")
        ),
        "builtins.getattr": pickle.dumps(Call(getattr, whole, "version")),
        "no record": b"c" + name + b"\nMetadata\n(N}U\x07versionU\x03badstb.",
        "no metadata": pickle.dumps({"version": "1"}),
        "neither text nor an index": pickle.dumps({nested: 1}),
        "a set": pickle.dumps({1, 2}),
        "outside the checkpoint": pickle.dumps(elsewhere),
        "neither a tensor nor bytes": pickle.dumps(odd),
        "cannot be read": pickle.dumps(whole)[:-20],
        "fields that it does not have": b"c" + name + b"\nMetadata\n)\x81}U\x03badNsb.",
    }


def test_hostile_metadata_is_refused_and_nothing_is_run(saved):
    folder, model, optimizer = saved
    before = model.weight.detach().clone()
    for reason, content in hostile(folder).items():
        (folder / ".metadata").write_bytes(content)
        with pytest.raises(Refused, match="is refused") as caught:
            checkpoint.load(folder, model, optimizer)
        assert reason in str(caught.value)
        assert "\n" not in str(caught.value)
    assert not (folder / "ran").exists()
    assert torch.equal(model.weight, before)
    (folder / ".metadata").unlink()
    with pytest.raises(ValueError, match="holds no finished checkpoint"):
        checkpoint.load(folder, model, optimizer)


def test_no_flipped_bit_of_the_metadata_runs_anything(saved):
    """Each is read, or refused; no other error, and no other process, comes of it."""
    content = (saved[0] / ".metadata").read_bytes()
    assert loads(content)
    for position in range(0, len(content), 3):
        flipped = bytearray(content)
        flipped[position] ^= 1 << (position % 8)
        with contextlib.suppress(Refused):
            loads(bytes(flipped))


def test_a_hostile_value_is_refused_and_not_run(saved):
    folder, model, optimizer = saved
    found = loads((folder / ".metadata").read_bytes())
    places = {index.fqn: info for index, info in found.storage_data.items()}
    info = next(info for name, info in places.items() if name.endswith("gaf_params"))
    content = io.BytesIO()
    torch.save(Call(os.mkdir, str(folder / "ran")), content)
    with open(folder / info.relative_path, "r+b") as file:
        file.seek(0, os.SEEK_END)
        info.offset, info.length = file.tell(), len(content.getvalue())
        file.write(content.getvalue())
    (folder / ".metadata").write_bytes(pickle.dumps(found))
    with pytest.raises(Refused, match=r"gaf_params in the checkpoint is no plain value"):
        checkpoint.load(folder, model, optimizer)
    assert not (folder / "ran").exists()
