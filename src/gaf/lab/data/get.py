"""Getting a dataset: download, unpack beside its place, rename. Stopped at any moment, it can run again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from gaf.common.files import locked, sync_folder
from gaf.lab.data.download import Report, Say, fetch, md5_of
from gaf.lab.data.files import DataError, extract
from gaf.lab.data.layouts import Dataset, Download, Layout

Announce = Callable[[str], Report]  # a file's name in, what to call with its bytes out


@dataclass(frozen=True)
class Got:
    """What ``gaf data get`` has done."""

    dataset: str
    layout: str
    folder: str
    downloaded: tuple[str, ...]  # addresses; none where the dataset was there


def get(
    dataset: Dataset,
    root: Path,
    announce: Announce,
    *,
    layout: str | None = None,
    mirror: str | None = None,
    say: Say = lambda text: None,
) -> Got:
    """Bring a dataset to its place under ``root``.

    Args:
        dataset: which.
        root: the folder with the datasets; made if it is missing.
        announce: told of each file before it comes.
        layout: which of the dataset's layouts; unset: any that is there, else the first.
        mirror: the address of a folder with the same files, instead of the official one.
        say: told in a line what is being done, and why it takes longer.
    """
    wanted = _layout(dataset, layout)
    for choice in dataset.layouts if layout is None else (wanted,):
        for name in choice.folders:
            if (root / name).is_dir() and not choice.missing(root / name):
                return Got(dataset.name, choice.name, str(root / name), ())
    if not wanted.downloads:
        raise DataError(f"{dataset.name} cannot be downloaded; {dataset.how_to_get(root)}")
    downloads = list(wanted.downloads)
    if mirror is not None:
        if not mirror.startswith(("http://", "https://")):
            raise DataError(
                f"a mirror is an address that begins with http:// or https://, not {mirror!r}"
            )
        address = mirror.rstrip("/")
        downloads = [replace(file, url=f"{address}/{file.name}") for file in downloads]
    with locked(root, DataError(f"another command is writing into {root}: wait for it to end")):
        folder = root / wanted.folders[0]
        if wanted.unpacked:
            _get_archives(wanted, downloads, folder, root, announce, say)
        else:
            _get_files(downloads, folder, root, announce, say)
    return Got(dataset.name, wanted.name, str(folder), tuple(file.url for file in downloads))


def _layout(dataset: Dataset, name: str | None) -> Layout:
    if not dataset.layouts:
        raise DataError(
            f"{dataset.name} comes with a package that is installed: there is nothing to get"
        )
    by_name = {choice.name: choice for choice in dataset.layouts}
    if name is None:
        return dataset.layouts[0]
    if name not in by_name:
        raise DataError(f"{dataset.name} has no layout {name!r}; it has {', '.join(by_name)}")
    return by_name[name]


def _get_files(
    downloads: list[Download], folder: Path, root: Path, announce: Announce, say: Say
) -> None:
    """All files come to a hidden folder beside their place, and move when the last one is there."""
    there = {path.name: path for path in folder.glob("*") if path.is_file()}
    wanted = [
        download
        for download in downloads
        if download.name not in there or md5_of(there[download.name]) != download.md5
    ]
    arrived = root / f".{folder.name}.arriving"
    arrived.mkdir(exist_ok=True)
    try:
        for download in wanted:
            _fetch(download, arrived / download.name, announce, say)
        if not folder.exists():
            folder.parent.mkdir(parents=True, exist_ok=True)
            os.rename(arrived, folder)
        else:  # with other files of the dataset
            for download in wanted:
                os.replace(arrived / download.name, folder / download.name)
        sync_folder(folder.parent)
    finally:
        with suppress(OSError):  # what has come stays for the next time
            arrived.rmdir()


def _fetch(download: Download, target: Path, announce: Announce, say: Say) -> None:
    report = announce(download.name)
    fetch(download.url, download.md5, target, report, say, largest=download.largest)


def _get_archives(
    layout: Layout,
    downloads: list[Download],
    folder: Path,
    root: Path,
    announce: Announce,
    say: Say,
) -> None:
    if folder.exists():
        names = ", ".join(path.name for path in layout.missing(folder)) or "no file"
        raise DataError(f"{folder} is there and lacks {names}: move it away, then get the dataset")
    archives = [root / download.name for download in downloads]
    ours = [archive for archive in archives if not archive.exists()]  # not the user's to delete
    for download, archive in zip(downloads, archives, strict=True):
        _fetch(download, archive, announce, say)
    unpacked = root / f".{layout.folders[0].replace('/', '-')}.unpacking"
    shutil.rmtree(unpacked, ignore_errors=True)  # of a command that was killed
    try:
        unpacked.mkdir()
        for archive in archives:
            say(f"unpacking {archive.name}")
            extract(archive, unpacked, limit=layout.unpacked)
        ready = unpacked / layout.folders[0]
        if not ready.is_dir() or layout.missing(ready):
            raise DataError(f"{archives[0]} does not hold the files of {layout.folders[0]}")
        folder.parent.mkdir(parents=True, exist_ok=True)
        if hasattr(os, "sync"):
            os.sync()  # all files at once: the folder's name must not outlive a power cut without them
        os.rename(ready, folder)
        sync_folder(folder.parent)
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)
    for archive in ours:
        archive.unlink()
