"""PASCAL VOC: lists of images, and for each image an XML file with its objects. A task decides what it sees.

A file may come from anywhere: a document type, with which entities and external files are declared, is
refused unread. VOC counts pixels from 1 and includes both ends of a box; here a box is edges as shares of
the image.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

import torch
from torch import Tensor
from torch.utils.data import Dataset as TorchDataset

from gaf.common.errors import GafError
from gaf.lab.data.files import DamagedFile, DataError, read_file
from gaf.lab.data.layouts import Dataset, Options
from gaf.lab.data.sources import read_ahead

if TYPE_CHECKING:
    from PIL.Image import Image


VOC = (  # the classes, in the order of their labels
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
    *("diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa"),
    *("train", "tvmonitor"),
)

LARGEST = 1 << 20  # bytes: hundreds of objects fit into a tenth of it
NUMBER = {name: label for label, name in enumerate(VOC)}
ROOT = "annotation"
EDGES = ("xmin", "ymin", "xmax", "ymax")
IDENTIFIER = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9_.-]*"
)  # of an image, a file's name without its ending


class Annotation(NamedTuple):
    """What an XML file says of an image."""

    size: tuple[int, int]  # width and height
    labels: list[int]
    boxes: list[tuple[float, ...]]  # left, top, right, bottom in shares of the size
    difficult: list[bool]


@dataclass(frozen=True)
class VocListing:
    """Images with their objects; those of image i are ``first[i]`` to ``first[i + 1]``."""

    images: tuple[Path, ...]
    sizes: Tensor  # int64 [images, 2]: width, height
    first: Tensor  # int64 [images + 1]
    labels: Tensor  # int64 [objects]
    boxes: Tensor  # float32 [objects, 4]
    difficult: Tensor  # bool [objects]
    checksum: str  # of the lists and the annotations

    def of(self, image: int) -> slice:
        """Where the objects of an image are."""
        return slice(int(self.first[image]), int(self.first[image + 1]))


def scan(
    lists: Sequence[Path], limit: int | None = None, problems: list[str] | None = None
) -> VocListing:
    """The images of lists such as ``VOC2007/ImageSets/Main/trainval.txt``, at most ``limit`` of them.

    Args:
        lists: where the names of the images stand.
        limit: how many images, the first of the lists.
        problems: gets a sentence about each bad image, which is left out; unset: the first is raised.
    """
    digest = hashlib.sha256()
    listed = [(path.parents[2], name, path) for path in lists for name in _names(path, digest)]
    images, annotations = [], []
    present = {year: _file_names(year / "JPEGImages") for year in {entry[0] for entry in listed}}
    for year, name, where in listed[:limit]:
        image = year / "JPEGImages" / f"{name}.jpg"
        try:
            if image.name not in present[year]:
                raise DamagedFile(f"{image} is missing, though {where} lists it")
            annotation = year / "Annotations" / f"{name}.xml"
            content, checksum = read_file(annotation, LARGEST)
            annotations.append(parse(content, annotation, image))
        except DamagedFile as error:
            if problems is None:
                raise
            problems.append(str(error))
            continue
        images.append(image)
        digest.update(checksum.encode())
    counts = torch.tensor([len(image.labels) for image in annotations], dtype=torch.int64)
    return VocListing(
        images=tuple(images),
        sizes=torch.tensor([image.size for image in annotations]).view(-1, 2),
        first=torch.cat((torch.zeros(1, dtype=torch.int64), counts.cumsum(0))),
        labels=torch.tensor([x for image in annotations for x in image.labels], dtype=torch.int64),
        boxes=torch.tensor(
            [x for image in annotations for x in image.boxes], dtype=torch.float32
        ).view(-1, 4),
        difficult=torch.tensor(
            [x for image in annotations for x in image.difficult], dtype=torch.bool
        ),
        checksum=digest.hexdigest(),
    )


def parse(content: bytes, path: Path, image: Path) -> Annotation:
    """The objects that an annotation describes.

    As VOC's rules have it, an object without ``difficult`` is not difficult; a file without ``size`` leaves
    it to the image.

    Raises:
        DamagedFile: one sentence, with the path.
    """
    root = _tree(content, path)
    if root.tag != ROOT:  # it would pass for an image without objects
        raise DamagedFile(f"{path} is no annotation of VOC: it begins with <{_short(root.tag)}>")
    size = _size(root, path, image)
    objects = Annotation(size, [], [], [])
    for element in root.findall("object"):
        name = (element.findtext("name") or "").strip()
        if name not in NUMBER:
            raise DamagedFile(
                f"{path} has an object of the unknown class {_short(name)!r}; VOC has {', '.join(VOC)}"
            )
        objects.labels.append(NUMBER[name])
        objects.boxes.append(_box(element, name, size, path))
        objects.difficult.append((element.findtext("difficult") or "0").strip() not in ("", "0"))
    return objects


def _tree(content: bytes, path: Path) -> Element:
    def refuse(*_: object) -> NoReturn:
        raise DamagedFile(
            f"{path} is refused: it declares a document type or entities, VOC's files do not"
        )

    builder, parser = TreeBuilder(), expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    try:
        parser.Parse(content, True)
    except DamagedFile:
        raise
    except (expat.ExpatError, LookupError, ValueError) as error:  # the last two: odd encodings
        raise DamagedFile(f"{path} is not well-formed XML: {_short(error)}") from None
    return builder.close()


def _short(text: object) -> str:
    """On one line, and no longer than a line: whatever stands in a file."""
    words = " ".join(str(text).split())
    return words if len(words) <= 60 else f"{words[:60]}..."


def _size(root: Element, path: Path, image: Path) -> tuple[int, int]:
    if root.find("size") is None:
        return size_of(image)
    sides = [(root.findtext(f"size/{side}") or "").strip() for side in ("width", "height")]
    if not all(text.isdecimal() and len(text) <= 5 and int(text) > 0 for text in sides):
        texts = " x ".join(map(_short, sides))
        raise DamagedFile(f"{path} gives the image no size in pixels: {texts}")
    return int(sides[0]), int(sides[1])


def size_of(image: Path) -> tuple[int, int]:
    """Width and height of an image, from its beginning."""
    from gaf.lab.data import photos

    try:
        return photos.size(image)
    except Exception as error:  # a decoder can fail in any way on a damaged file
        raise DamagedFile(f"{image} is no image that can be read: {why(error)}") from None


def why(error: Exception) -> str:
    """Why an image cannot be read: in our words, or the name of a decoder's error."""
    return str(error) if isinstance(error, GafError) else type(error).__name__


def _box(element: Element, name: str, size: tuple[int, int], path: Path) -> tuple[float, ...]:
    texts = [(element.findtext(f"bndbox/{edge}") or "").strip() for edge in EDGES]
    try:
        left, top, right, bottom = map(float, texts)
    except ValueError:
        raise DamagedFile(
            f"{path} has a {name} without the four numbers of a box: {', '.join(map(_short, texts))}"
        ) from None
    width, height = size
    # Of the few boxes that VOC2012 gives in fractions of a pixel, one may lie by less than that outside.
    if not (0 < left <= right < width + 1 and 0 < top <= bottom < height + 1):
        box = ", ".join(map(_short, texts))
        raise DamagedFile(
            f"{path} has a {name} outside its image: box {box} in {width} x {height} pixels"
        )
    edges = ((left - 1) / width, (top - 1) / height, right / width, bottom / height)
    return tuple(min(max(edge, 0.0), 1.0) for edge in edges)


def _names(path: Path, digest: hashlib._Hash) -> list[str]:
    """The first word of each line."""
    content, checksum = read_file(path)
    digest.update(checksum.encode())
    words = [
        line.split()[0] for line in content.decode("utf-8", "replace").splitlines() if line.strip()
    ]
    for word in words:
        if not IDENTIFIER.fullmatch(word):
            raise DamagedFile(f"{path} lists {_short(word)!r}, which is no name of an image")
    twice = [word for word, count in Counter(words).items() if count > 1]
    if twice:
        raise DamagedFile(f"{path} lists {_short(twice[0])} more than once: each image counts once")
    if not words:
        raise DamagedFile(f"{path} lists no image")
    return words


def _file_names(folder: Path) -> frozenset[str]:
    try:
        return frozenset(os.listdir(folder))
    except OSError as error:
        raise DamagedFile(f"{folder} cannot be read: {error.strerror}") from None


class VocImages:
    """The images of lists of VOC.

    Args:
        name: the name it was loaded by.
        listing: the images and their objects.
        augment: whether a training may change them.
        workers: processes that read them; 0: this one.
    """

    classes = VOC

    def __init__(self, name: str, listing: VocListing, *, augment: bool, workers: int) -> None:
        self.name, self.listing, self.augment, self.workers = name, listing, augment, workers
        self.fingerprint = {"lists and annotations": listing.checksum}

    def __len__(self) -> int:
        return len(self.listing.images)

    def problems(self, indices: Sequence[Tensor]) -> Iterator[list[str]]:
        """For each tensor of indices a sentence about every image in it that cannot be used."""
        return read_ahead(_Problems(self.listing), indices, self.workers)


@dataclass(frozen=True)
class _Problems(TorchDataset[list[str]]):
    """By the indices of a batch; what a worker gets."""

    listing: VocListing

    def __getitem__(self, index: list[int]) -> list[str]:
        sentences = []
        for image in index:
            try:
                decoded(self.listing, image)
            except DamagedFile as error:
                sentences.append(str(error))
        return sentences


def decoded(listing: VocListing, index: int) -> Image:
    """An image, if it has the size that its annotation says: that is looked at before any pixel."""
    from gaf.lab.data import photos

    path, annotated = listing.images[index], tuple(listing.sizes[index].tolist())
    width, height = size_of(path)
    if (width, height) != annotated:
        raise DamagedFile(
            f"{path} is {width} x {height} pixels, its annotation says {annotated[0]} x {annotated[1]}"
        )
    try:
        return photos.decode(path)
    except Exception as error:  # a decoder can fail in any way on a damaged file
        raise DamagedFile(f"{path} is broken ({why(error)}): replace it") from None


@dataclass(frozen=True)
class VocDataset(Dataset):
    """One or several years of VOC; the files of its layouts are the lists of images of each split."""

    def open(self, split: str, root: Path, options: Options) -> VocImages:
        if options.size is not None:
            raise DataError(
                f"a detector sees the images of {self.name} at its own size: leave size unset"
            )
        return VocImages(
            self.name,
            scan(self.lists(split, root), options.limit),
            augment=split == "train" if options.augment is None else options.augment,
            workers=options.workers,
        )

    def lists(self, split: str, root: Path) -> list[Path]:
        """The files that list the images of a split."""
        layout, folder = self.place(root)
        return layout.paths(folder, split)
