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
from tests import forked
from tests.distributed.launch import launch
from tests.memory import MEGABYTE, at_most

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


def make_auto(seed):
    torch.manual_seed(seed)
    model = nn.Linear(3, 2)
    return model, gaf.SGD(model.parameters(), lr=0.1, momentum=0.9, activation="auto")


def step(model, optimizer, unused=()):
    optimizer.zero_grad()
    model(torch.ones(4, 3)).pow(2).sum().backward()
    for p in unused:
        p.grad = None
    optimizer.step()


def assert_same_training(one, other):
    for _ in range(2):
        step(*one)
        step(*other)
    for p, q in zip(one[0].parameters(), other[0].parameters(), strict=True):
        assert torch.equal(p, q)
        assert one[1].state[p].keys() == other[1].state[q].keys()
        for name, value in one[1].state[p].items():
            assert torch.equal(value, other[1].state[q][name])


def test_gradients_do_not_keep_the_state_from_loading(tmp_path):
    one, other = make_auto(0), make_auto(1)
    step(*one)
    checkpoint.save(tmp_path / "saved", *one)
    other[0](torch.ones(4, 3)).sum().backward()
    grads = [p.grad for p in other[0].parameters() if p.grad is not None]
    values = [grad.clone() for grad in grads]
    checkpoint.load(tmp_path / "saved", *other)
    for p, grad, value in zip(other[0].parameters(), grads, values, strict=True):
        assert p.grad is grad
        assert torch.equal(grad, value)
    assert_same_training(one, other)


@pytest.mark.parametrize("had", ["no state", "some state", "all state"])
def test_a_parameter_without_state(tmp_path, had):
    one, other = make_auto(0), make_auto(1)
    step(*one, unused=[one[0].bias])
    assert one[0].bias not in one[1].state
    checkpoint.save(tmp_path / "saved", *one)
    if had != "no state":
        step(*other, unused=[other[0].weight] if had == "some state" else [])
    checkpoint.load(tmp_path / "saved", *other)
    assert not other[1].state[other[0].bias]
    assert_same_training(one, other)


def test_a_frozen_parameter_is_trained_after_loading(tmp_path):
    one, other = make_auto(0), make_auto(1)
    one[0].bias.requires_grad_(False)
    step(*one)
    checkpoint.save(tmp_path / "saved", *one)
    checkpoint.load(tmp_path / "saved", *other)
    one[0].bias.requires_grad_(True)
    assert_same_training(one, other)


def test_another_kind_of_state_is_no_lack_of_state(saved):
    """The momentum is there and what Auto keeps beside it is not."""
    folder, _, _ = saved
    model, optimizer = make_auto(0)
    with pytest.raises(gaf.GafError, match=r"cannot be loaded: Missing key.*gaf_auto"):
        checkpoint.load(folder, model, optimizer)


@pytest.mark.parametrize("with_gradients", [False, True])
def test_saved_before_the_first_step(tmp_path, with_gradients):
    """Saving changes nothing: torch's own way counts as a step of Adam, and fills momentum with decay."""
    trainings = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        model = nn.Linear(3, 2)
        arguments = {"lr": 0.1, "weight_decay": 0.1, "activation": "arctan(0.1, 20)"}
        trainings.append((model, gaf.Adam(model.parameters(), **arguments)))
    alone, one, other = trainings
    if with_gradients:
        one[0](torch.ones(4, 3)).sum().backward()
    checkpoint.save(tmp_path / "saved", *one)
    assert not one[1].state
    checkpoint.load(tmp_path / "saved", *other)
    assert_same_training(one, other)
    step(*alone)
    step(*alone)
    assert torch.equal(alone[0].weight, one[0].weight)


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


RECORDS = b"ctorch.distributed.checkpoint.metadata\n"
INDEX, META = RECORDS + b"MetadataIndex\n", RECORDS + b"Metadata\n"
PROPERTIES, ENCODING = RECORDS + b"TensorProperties\n", RECORDS + b"_MEM_FORMAT_ENCODING\n"
TENSOR = RECORDS + b"TensorStorageMetadata\n"
PART = b"ctorch.distributed.checkpoint.filesystem\n_StorageInfo\n"
LAYOUT, PATH = b"ctorch.serialization\n_get_layout\n", b"cpathlib\nPosixPath\n"
DEEP = b")" + b"\x85" * 300_000  # ((((...)))): hashing it overflows the stack
SIZE = b"ctorch\nSize\n"
NUMBERS = b"]q\x00(" + b"K\x01" * 50_000 + b"e"
TEXT = b"X" + (200_000).to_bytes(4, "little") + b"a" * 200_000 + b"q\x00"
WIDE = b")" + b"2\x86" * 60  # a pair of a pair of ...: its text has 2**60 parts

EXHAUSTING = {
    "a tensor that is not strided": LAYOUT + DEEP + b"\x85R.",
    "a memory format that is no number": ENCODING + DEEP + b"\x85R.",
    "a memory format that is no number ": ENCODING + WIDE + b"\x85R.",
    "a path that is no text": PATH + WIDE + b"\x85R.",
    "a TensorProperties with fields": PROPERTIES + b")\x81(NNN" + WIDE + b"Ntb.",
    # an index that is changed once it is a key of what a record is filled with
    "neither text nor an index": (
        META + b")\x81}" + INDEX + b"U\x01a\x85Rq\x00Nsh\x00}U\x03fqn" + DEEP + b"sb0b."
    ),
    "which file it lies in": META + b"(}N}U\x01a" + PART + b"(" + WIDE + b"K\x00K\x01tRsNNtR.",
    "a size that is no size": (
        META + b"(}U\x01a" + TENSOR + b"(" + PROPERTIES + b")R" + WIDE + b"]tRsN}NNtR."
    ),
    "without a list of its chunks": META + b"(}U\x01a" + TENSOR + b"(NNNtRsN}NNtR.",
    "an entry without a name": META + b"(}" + INDEX + b"U\x01a\x85RNsN}NNtR.",
    "where it was written is no record": META + b"(}N}K\x01NtR.",
    "a bytearray": b"\x80\x05\x96" + (1 << 36).to_bytes(8, "little") + b".",
    "cannot be read (EOFError)": b"\x80\x04\x8e" + (1 << 40).to_bytes(8, "little") + b".",
    "call after call": SIZE + b"q\x01" + NUMBERS + b"h\x01h\x00\x85R" * 50_000 + b".",
    "call after call ": INDEX + b"q\x01" + NUMBERS + b"h\x01h\x00h\x00\x86R" * 50_000 + b".",
    " call after call": PATH + b"q\x01" + TEXT + b"h\x01h\x00\x85R" * 50_000 + b".",
    "makes an object": SIZE + b"q\x01" + NUMBERS + b"h\x01h\x00\x85\x81" * 50_000 + b".",
}
READ_EACH = """
import resource, sys
from pathlib import Path
from gaf.integrations.metadata import Refused, loads

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (500 << 20), resource.RLIM_INFINITY))
for path in sorted(Path(sys.argv[1]).iterdir()):
    print(path.name, flush=True)
    try:
        loads(path.read_bytes())
    except Refused as error:
        assert path.name.strip() in str(error), str(error)[:200]
    else:
        raise AssertionError("it was read")
"""


@pytest.mark.slow
def test_metadata_that_would_exhaust_the_process_is_refused(tmp_path):
    """In a process of its own, which an overflow of the stack would end."""
    for reason, content in EXHAUSTING.items():
        (tmp_path / reason).write_bytes(content)
    status, out, err = forked.run(["-c", READ_EACH, str(tmp_path)], timeout=300)
    assert status == 0, (out, err)
    assert len(out.splitlines()) == len(EXHAUSTING)


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


def place_of(folder, name):
    """The metadata of a checkpoint, and where the bytes of an entry lie."""
    found = loads((folder / ".metadata").read_bytes())
    return found, next(info for index, info in found.storage_data.items() if index.fqn == name)


def test_a_tensor_that_no_file_holds_is_refused(saved):
    """A tensor of 3.4 GB in a few hundred bytes, in the place of a weight."""
    folder, model, optimizer = saved
    found, info = place_of(folder, "model.weight")
    content = io.BytesIO()
    torch.save(Call(torch.Tensor, 850_000_000), content)
    with open(folder / info.relative_path, "r+b") as file:
        file.seek(0, os.SEEK_END)
        info.offset, info.length = file.tell(), len(content.getvalue())
        file.write(content.getvalue())
    (folder / ".metadata").write_bytes(pickle.dumps(found))
    with at_most(200 * MEGABYTE), pytest.raises(Refused, match=r"torch\.Tensor of any size"):
        checkpoint.load(folder, model, optimizer)


def damaged(folder):
    """Metadata that is sound in itself and says something else than the files, or than the model."""
    for change in ("offset", "length", "file", "entry", "size", "values"):
        found, info = place_of(folder, "model.weight")
        if change == "offset":
            info.offset += 1
        elif change == "length":
            info.length = 1 << 60
        elif change == "file":
            info.relative_path = "other.distcp"
        elif change == "entry":
            found.state_dict_metadata.pop("model.weight")
        elif change == "size":
            found.state_dict_metadata["model.weight"].size = torch.Size((1 << 40, 1 << 20))
        elif change == "values":
            found.storage_data = {}
        yield change, pickle.dumps(found)


def test_damage_is_a_sentence(saved):
    folder, model, optimizer = saved
    for change, content in list(damaged(folder)):
        (folder / ".metadata").write_bytes(content)
        with (
            at_most(300 * MEGABYTE),
            pytest.raises(gaf.GafError, match="cannot be loaded") as caught,
        ):
            checkpoint.load(folder, model, optimizer)
        assert "\n" not in str(caught.value), change
        assert "weights_only" not in str(caught.value), change


def test_no_flipped_bit_of_the_files_is_more_than_a_sentence(saved):
    folder, model, optimizer = saved
    (path,) = folder.glob("*.distcp")
    content = path.read_bytes()
    for position in range(0, len(content), 997):
        flipped = bytearray(content)
        flipped[position] ^= 1 << (position % 8)
        path.write_bytes(flipped)
        with contextlib.suppress(gaf.GafError):
            checkpoint.load(folder, model, optimizer)
    path.write_bytes(content)
    checkpoint.load(folder, model, optimizer)
