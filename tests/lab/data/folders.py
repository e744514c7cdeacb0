"""The folders that tests read data from: generated files, and the real subsets that GAF_DATA names.

Both lie as the official loaders expect it, and what each holds is said here, for tests to compare with::

    cifar-100-subset/cifar-100-binary/{train,test}.bin
    imagenette-subset/{train,val}/CLASS/*.JPEG
    voc-subset/VOCdevkit/VOC2012/{JPEGImages,Annotations,ImageSets/Main}
    text/tinyshakespeare.txt
"""

from __future__ import annotations

import colorsys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw

from gaf.lab.data.catalog import CIFAR100_CLASSES
from gaf.lab.data.voc import VOC


class Contents(NamedTuple):
    """What a folder holds; pairs are of train and test.

    Args:
        cifar100: images.
        photographs: images in folders by their class.
        gray: how many of the photographs to test on are grayscale.
        voc: images with objects.
        voc_classes: classes that the objects of a split have.
        objects: of both splits.
        difficult: how many of these are.
        windows: of 64 characters of the text.
        characters: different ones in the text.
        text: what a check says of it.
    """

    cifar100: tuple[int, int]
    photographs: tuple[int, int]
    gray: int
    voc: tuple[int, int]
    voc_classes: tuple[int, int]
    objects: int
    difficult: int
    windows: tuple[int, int]
    characters: int
    text: str


REAL = Contents(
    cifar100=(10_000, 2_000),
    photographs=(400, 100),
    gray=1,
    voc=(70, 30),
    voc_classes=(20, 18),
    objects=273,
    difficult=38,
    windows=(15_685, 1_742),
    characters=65,
    text="complete",
)
GENERATED = Contents(
    cifar100=(1_200, 400),
    photographs=(80, 40),
    gray=3,
    voc=(12, 6),
    voc_classes=(20, 12),
    objects=36,
    difficult=4,
    windows=(281, 31),
    characters=27,
    text="subset",
)

# As published, of each channel.
CIFAR100_MEAN, CIFAR100_STD = (0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)
IMAGENET_MEAN = (0.485, 0.456, 0.406)

WNIDS = (
    *("n01440764", "n02102040", "n02979186", "n03000684", "n03028079"),
    *("n03394916", "n03417042", "n03425413", "n03445777", "n03888257"),
)
# Tests name the first two images and know their sizes, as in the real subset.
VOC_SIZES = ((486, 500), (500, 281), (500, 366), (240, 180), (180, 240), (210, 210))
VOC_NAMES = tuple(f"2007_{number:06}" for number in (27, 32, 33, *range(101, 116)))
SENTENCE = "the quick brown fox jumps over a lazy dog while big vexed wizards make nymphs quit"


def generate(root: Path) -> Path:
    """Write all of it: the same bytes in every process, in half a second."""
    rng = np.random.default_rng(20)
    cifar100(root / "cifar-100-subset/cifar-100-binary", rng)
    photographs(root / "imagenette-subset", rng)
    voc(root / "voc-subset/VOCdevkit/VOC2012", rng)
    text(root / "text/tinyshakespeare.txt", rng)
    return root


def cifar100(folder: Path, rng: np.random.Generator) -> None:
    """Official records (coarse label, fine label, 3072 bytes); each hundred holds each class once."""
    folder.mkdir(parents=True)
    mean, std = (np.array(each)[:, None] for each in (CIFAR100_MEAN, CIFAR100_STD))
    for name, count in zip(("train", "test"), GENERATED.cifar100, strict=True):
        fine = np.concatenate([rng.permutation(100) for _ in range(count // 100)])
        # uniform on mean ± √3 std, so that mean and standard deviation are the published ones
        spread = rng.uniform(-(3**0.5), 3**0.5, (count, 3, 1024))
        pixels = (255 * (mean + std * spread)).round().clip(0, 255).reshape(count, 3072)
        records = np.column_stack((fine // 5, fine, pixels)).astype(np.uint8)
        (folder / f"{name}.bin").write_bytes(records.tobytes())
    (folder / "fine_label_names.txt").write_text("\n".join(CIFAR100_CLASSES) + "\n")


def picture(rng: np.random.Generator, size: tuple[int, int]) -> Image.Image:
    """Soft spots of colour, on average as bright as a photograph of ImageNet."""
    spots = rng.random((6, 6, 3)) * 2 * np.array(IMAGENET_MEAN)
    image = Image.fromarray((255 * spots.clip(0, 1)).astype(np.uint8))
    return image.resize(size, Image.Resampling.BICUBIC)


def photographs(folder: Path, rng: np.random.Generator) -> None:
    """JPEG files of a few sizes in a folder for each class; every 16th is grayscale."""
    for split, count in zip(("train", "val"), GENERATED.photographs, strict=True):
        for i in range(count):
            wnid = WNIDS[i % len(WNIDS)]
            path = folder / split / wnid / f"{wnid}_{i}.JPEG"
            path.parent.mkdir(parents=True, exist_ok=True)
            image = picture(rng, ((160, 120), (120, 160), (224, 224))[i % 3])
            (image.convert("L") if i % 16 == 5 else image).save(path, quality=90)


OBJECT = """\t<object>
\t\t<name>{name}</name>
\t\t<pose>Unspecified</pose>
\t\t<truncated>0</truncated>
\t\t<difficult>{difficult:d}</difficult>
\t\t<bndbox>
\t\t\t<xmin>{left}</xmin>
\t\t\t<ymin>{top}</ymin>
\t\t\t<xmax>{right}</xmax>
\t\t\t<ymax>{bottom}</ymax>
\t\t</bndbox>
\t</object>
"""
ANNOTATION = """<annotation>
\t<folder>VOC2012</folder>
\t<filename>{name}.jpg</filename>
\t<source>
\t\t<database>generated</database>
\t</source>
\t<size>
\t\t<width>{width}</width>
\t\t<height>{height}</height>
\t\t<depth>3</depth>
\t</size>
\t<segmented>0</segmented>
{objects}</annotation>
"""


def voc(folder: Path, rng: np.random.Generator) -> None:
    """Discs in the colour of their class, one to three an image; the classes take turns."""
    for kind in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (folder / kind).mkdir(parents=True)
    images = iter(VOC_NAMES)
    for split, count in zip(("train", "val"), GENERATED.voc, strict=True):
        listed = [next(images) for _ in range(count)]
        (folder / f"ImageSets/Main/{split}.txt").write_text("\n".join(listed) + "\n")
        place = 0  # of an object among those of its split
        for i, name in enumerate(listed):
            width, height = size = VOC_SIZES[i % len(VOC_SIZES)]
            image = picture(rng, size)
            objects = ""
            for _ in range(1 + i % 3):
                label, difficult = VOC[place % 20], place % 7 == 6
                w, h = (int(rng.integers(side // 4, side // 2)) for side in size)
                left, top = int(rng.integers(0, width - w)), int(rng.integers(0, height - h))
                colour = colorsys.hsv_to_rgb(place % 20 / 20, 1, 1)
                disc = (left, top, left + w - 1, top + h - 1)
                ImageDraw.Draw(image).ellipse(disc, tuple(int(255 * each) for each in colour))
                objects += OBJECT.format(
                    name=label,
                    difficult=difficult,
                    left=left + 1,  # pixels are counted from 1
                    top=top + 1,
                    right=left + w,
                    bottom=top + h,
                )
                place += 1
            image.save(folder / f"JPEGImages/{name}.jpg", quality=90)
            content = ANNOTATION.format(name=name, width=width, height=height, objects=objects)
            (folder / f"Annotations/{name}.xml").write_text(content)


def text(path: Path, rng: np.random.Generator) -> None:
    """20,000 characters of lower-case words and spaces, so that a letter tells of the next."""
    path.parent.mkdir(parents=True)
    path.write_text(" ".join(rng.choice(SENTENCE.split(), 6_000))[:20_000])
