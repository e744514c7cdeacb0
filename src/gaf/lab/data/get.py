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
    for each in dataset.layouts if layout is None else (wanted,):
        for name in each.folders:
            if (root / name).is_dir() and not each.missing(root / name):
                return Got(dataset.name, each.name, str(root / name), ())
    if not wanted.downloads:
        raise DataError(f"{dataset.name} cannot be downloaded; {dataset.how_to_get(root)}")
    downloads = [_moved(each, mirror) for each in wanted.downloads]
    with locked(root, DataError(f"another command is writing into {root}: wait for it to end")):
        folder = root / wanted.folders[0]
        if wanted.unpacked:
            _get_archives(wanted, downloads, folder, root, announce, say)
        else:
            _get_files(downloads, folder, root, announce, say)
    return Got(dataset.name, wanted.name, str(folder), tuple(each.url for each in downloads))


def _layout(dataset: Dataset, name: str | None) -> Layout:
    if not dataset.layouts:
        raise DataError(
            f"{dataset.name} comes with a package that is installed: there is nothing to get"
        )
    by_name = {each.name: each for each in dataset.layouts}
    if name is None:
        return dataset.layouts[0]
    if name not in by_name:
        raise DataError(f"{dataset.name} has no layout {name!r}; it has {', '.join(by_name)}")
    return by_name[name]


def _moved(download: Download, mirror: str | None) -> Download:
    if mirror is None:
        return download
    if not mirror.startswith(("http://", "https://")):
        raise DataError(
            f"a mirror is an address that begins with http:// or https://, not {mirror!r}"
        )
    return replace(download, url=f"{mirror.rstrip('/')}/{download.name}")


def _get_files(
    downloads: list[Download], folder: Path, root: Path, announce: Announce, say: Say
) -> None:
    """All files come to a hidden folder beside their place, and move when the last one is there."""
    wanted = [each for each in downloads if not _is_there(each, folder)]
    arrived = root / f".{folder.name}.arriving"
    arrived.mkdir(exist_ok=True)
    try:
        for each in wanted:
            target, largest = arrived / each.name, each.largest
            fetch(each.url, each.md5, target, announce(each.name), say, largest=largest)
        if not folder.exists():
            folder.parent.mkdir(parents=True, exist_ok=True)
            os.rename(arrived, folder)
        else:  # with other files of the dataset
            for each in wanted:
                os.replace(arrived / each.name, folder / each.name)
        sync_folder(folder.parent)
    finally:
        with suppress(OSError):  # what has come stays for the next time
            arrived.rmdir()


def _is_there(download: Download, folder: Path) -> bool:
    path = folder / download.name
    return path.is_file() and md5_of(path) == download.md5


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
    archives = [root / each.name for each in downloads]
    ours = [archive for archive in archives if not archive.exists()]  # not the user's to delete
    for each, archive in zip(downloads, archives, strict=True):
        fetch(each.url, each.md5, archive, announce(each.name), say, largest=each.largest)
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
