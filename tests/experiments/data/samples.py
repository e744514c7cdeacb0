"""Datasets of the catalog in small: real CIFAR-100 records, packed as the official archive is."""

from __future__ import annotations

import hashlib
import io
import tarfile
from dataclasses import replace
from pathlib import Path

from gaf.experiments.data.catalog import CIFAR100, MNIST
from gaf.experiments.data.layouts import Dataset, Download

ARCHIVE = "cifar-100-binary.tar.gz"
RECORD = 3074


def cifar_files(data_dir: Path, records: int = 1000) -> dict[str, bytes]:
    source = data_dir / "cifar-100-subset/cifar-100-binary"
    files = {
        name: (source / name).read_bytes()[: records * RECORD] for name in ("train.bin", "test.bin")
    }
    return {f"cifar-100-binary/{name}": content for name, content in files.items()}


def packed(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
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
