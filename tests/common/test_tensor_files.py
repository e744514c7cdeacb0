"""Files of torch.save: what torch reads is read, and nothing allocates more than its file holds."""

import io
import os
import pickle
import struct
import zipfile
from collections import Counter

import pytest
import torch

from gaf.common import tensor_files
from gaf.common.unpickling import Refused
from tests.memory import MEGABYTE, at_most

VALUES = {
    "a state": torch.nn.Linear(2, 3).state_dict(),
    "a parameter": torch.nn.Parameter(torch.ones(2)),
    "a view": torch.arange(10)[2:5],
    "a transposed view": torch.ones(3, 4).T,
    "a repeated view": torch.ones(1).expand(100, 100),
    "no numbers": torch.empty(0, 5),
    "one number": torch.tensor(1.0),
    "sparse": torch.eye(3).to_sparse(),
    **{
        str(d): torch.ones(3).to(d)
        for d in (torch.bfloat16, torch.complex64, torch.bool, torch.int8)
    },
    "bytes": [b"abc", bytearray(b"xyz"), bytearray()],
    "other values": [
        1j,
        {1, 2},
        1 << 80,
        None,
        torch.float32,
        torch.device("cpu"),
        torch.Size((2, 3)),
    ],
    "keys": {(1, "a"): 1, torch.float32: 2, None: 3, 1.5: 4, "b": Counter("aab")},
}
LATER = {
    str(d): torch.ones(3).to(d) for d in (torch.uint16, torch.float8_e4m3fn)
}  # than the old format


def saved(value, old=False):
    out = io.BytesIO()
    torch.save(value, out, _use_new_zipfile_serialization=not old)
    return out.getvalue()


@pytest.mark.parametrize("old", [False, True])
def test_what_torch_writes_is_read(old, tmp_path):
    for name, value in {**VALUES, **({} if old else LATER)}.items():
        content = saved({name: value}, old)
        path = tmp_path / "x.pt"
        path.write_bytes(content)
        for file in (path, io.BytesIO(content)):
            found = tensor_files.load(file)[name]
            wanted = torch.load(io.BytesIO(content), weights_only=True)[name]
            assert saved(found) == saved(wanted)


def zipped(program, storage=b"", names=("archive/data.pkl", "archive/data/0"), packed=0):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", packed) as archive:
        for name, content in zip(
            (*names, "archive/version"), (program, storage, b"3\n"), strict=False
        ):
            archive.writestr(name, content)
    return out.getvalue()


def legacy(program, keys=b"\x80\x02]."):
    first = [pickle.dumps(x, 2) for x in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})]
    return b"".join((*first, program, keys))


def storage(count, kind=b"FloatStorage"):
    number = b"\x8a\x08" + struct.pack("<q", count)
    return (
        b"(X\x07\0\0\0storagectorch\n" + kind + b"\nX\x01\0\0\x000X\x03\0\0\0cpu" + number + b"tQ"
    )


def tensor(count, size):
    """A tensor of ``size`` numbers over a storage that is said to have ``count``."""
    shape = b"\x8a\x08" + struct.pack("<q", size) + b"\x85K\x01\x85"
    view = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage(count) + b"K\0" + shape
    return b"\x80\x02" + view + b"\x89ccollections\nOrderedDict\n)RtR."


MANY = 850_000_000  # numbers of 4 bytes: 3.4 GB
NUMBER = b"J" + struct.pack("<i", MANY)
TYPED = b"ctorch._tensor\n_rebuild_from_type_v2\n("
NESTED = b")" + b"\x85" * 20_000
BIG = b"X" + struct.pack("<I", 200_000) + b"a" * 200_000 + b"q\x00"
ENCODED = b"c_codecs\nencode\nq\x01" + BIG + b"h\x01h\x00X\x06\0\0\0latin1\x86R0" * 20_000

SIZED = {
    "torch.Tensor of any size": b"\x80\x02ctorch\nTensor\n" + NUMBER + b"\x85R.",
    "torch.FloatTensor of any size": b"\x80\x02ctorch\nFloatTensor\n" + NUMBER + b"\x85R.",
    "makes an object": b"\x80\x02ctorch\nTensor\n" + NUMBER + b"\x85\x81.",
    "torch.storage.UntypedStorage": b"\x80\x02ctorch.storage\nUntypedStorage\n"
    + NUMBER
    + b"\x85R.",
    "a bytearray of any size": b"\x80\x02cbuiltins\nbytearray\n" + NUMBER + b"\x85R.",
    " a bytearray of any size": b"\x80\x02c__builtin__\nbytearray\n" + NUMBER + b"\x85R.",
    "_rebuild_qtensor": b"\x80\x02ctorch._utils\n_rebuild_qtensor\n)R.",
    " torch.Tensor of any size": b"\x80\x02" + TYPED + b"ctorch\nTensor\nN" + NUMBER + b"\x85NtR.",
    "larger than its storage": tensor(0, MANY),
    "neither text nor numbers": b"\x80\x02}" + NESTED + b"Ns.",
    "neither text nor numbers ": b"\x80\x02cbuiltins\nset\n](" + NESTED + b"e\x85R.",
    " neither text nor numbers": b"\x80\x02ccollections\nCounter\n](" + NESTED + b"e\x85R.",
    "call after call": b"\x80\x02" + ENCODED + b".",
}
WRITTEN = {
    "more bytes than it holds": zipped(tensor(MANY, MANY)),
    "more bytes than it holds ": legacy(tensor(MANY, MANY)),
    " more bytes than it holds": zipped(tensor(4, 4), b"\0" * 15),
    "neither text nor numbers": legacy(tensor(0, 0), b"\x80\x02](" + NESTED + b"e."),
    "unpacks to more": zipped(b"\x80\x02]." + b"\0" * 100_000_000, packed=zipfile.ZIP_DEFLATED),
    "one name": zipped(tensor(0, 0), names=("archive/data.pkl", "archive/DATA.PKL")),
    "no file of torch.save": b"\x80\x02K\x01.",
    "ends too early": b"",
    " is damaged": legacy(b"\x80\x02X\xff\xff\xff\xff."),
    "is damaged": saved(VALUES["a state"])[:-30],
    **{f" {reason}": zipped(program) for reason, program in SIZED.items()},
    **{f"{reason} ": legacy(program) for reason, program in SIZED.items()},
}


@pytest.mark.parametrize("reason", WRITTEN)
def test_what_allocates_more_than_the_file_holds_is_refused(reason, tmp_path):
    path = tmp_path / "x.pt"
    path.write_bytes(WRITTEN[reason])
    with at_most(200 * MEGABYTE), pytest.raises(Refused) as caught:
        tensor_files.load(path)
    assert reason.strip() in str(caught.value)
    assert "\n" not in str(caught.value)


class Call:
    def __init__(self, function, *arguments):
        self.reduced = function, arguments

    def __reduce__(self):
        return self.reduced


@pytest.mark.parametrize("old", [False, True])
def test_what_would_run_is_refused_and_torch_gives_no_advice(old, tmp_path):
    trap = tmp_path / "ran"
    content = saved(Call(os.mkdir, str(trap)), old)
    with pytest.raises(Refused, match=r"^it asks for posix\.mkdir$") as caught:
        tensor_files.load(io.BytesIO(content))
    assert caught.value.__suppress_context__  # nor in a traceback
    assert not trap.exists()


@pytest.mark.parametrize("old", [False, True])
def test_no_damage_is_more_than_a_sentence(old):
    content = saved({"a": torch.ones(3), "b": {"c": [1, 2.5, "text"]}}, old)
    damaged = [content[:n] for n in range(0, len(content), 29)]
    for position in range(0, len(content), 7):
        flipped = bytearray(content)
        flipped[position] ^= 1 << position % 8
        damaged.append(bytes(flipped))
    refused = []
    with at_most(500 * MEGABYTE):
        for each in damaged:
            try:
                tensor_files.load(io.BytesIO(each))
            except Refused as error:
                refused.append(str(error))
    assert len(refused) > len(content) // 29 - 2
    assert not any("weights_only" in each or "\n" in each for each in refused)
