"""Datasets of the catalog in small: CIFAR-100 records, packed as the official archive is."""

from __future__ import annotations

import hashlib
import io
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from gaf.lab.data.catalog import CIFAR100, MNIST
from gaf.lab.data.layouts import Dataset, Download, balanced

ARCHIVE = "cifar-100-binary.tar.gz"
RECORD = 3074


def cifar_files(data_dir: Path, records: int = 200) -> dict[str, bytes]:
    """So many records of each split, each class as often as the others."""
    files = {}
    for name in ("train.bin", "test.bin"):
        path = data_dir / "cifar-100-subset/cifar-100-binary" / name
        content = np.fromfile(path, np.uint8).reshape(-1, RECORD)
        chosen = balanced(torch.from_numpy(content[:, 1]).long(), records)
        files[f"cifar-100-binary/{name}"] = content[chosen.numpy()].tobytes()
    return files


def packed(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=1) as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def cifar_from(archive: bytes, url: str) -> Dataset:
    """CIFAR-100 whose binary archive is this one."""
    binary, python = CIFAR100.layouts
    md5 = hashlib.md5(archive).hexdigest()
    binary = replace(binary, downloads=(Download(f"{url}/{ARCHIVE}", md5),))
    return replace(CIFAR100, layouts=(binary, python))


def mnist_from(files: dict[str, bytes], url: str) -> Dataset:
    """MNIST whose four files are these."""
    md5 = {name: hashlib.md5(content).hexdigest() for name, content in files.items()}
    downloads = tuple(Download(f"{url}/{name}", each) for name, each in md5.items())
    return replace(MNIST, layouts=(replace(MNIST.layouts[0], downloads=downloads, md5=md5),))
