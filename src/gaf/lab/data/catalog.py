"""The datasets by name: where they come from, how they are checked and read. A new one is an entry here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gaf.common.texts import did_you_mean
from gaf.lab.data import records
from gaf.lab.data.augment import CropFlip
from gaf.lab.data.files import DataError
from gaf.lab.data.layouts import Dataset, Download, FolderDataset, Layout, TensorDataset, at_home
from gaf.lab.data.sources import ImageRecords
from gaf.lab.data.text import TextDataset
from gaf.lab.data.voc import VocDataset

GIGABYTE = 1 << 30
FOLDER_PREFIX = "imagefolder:"


# What the labels of datasets without names in their files stand for.
_CIFAR10_CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)

_CIFAR100_NAMES = """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus
    butterfly camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab
    crocodile cup dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo
    keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain mouse
    mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy
    porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper
    snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television
    tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""
CIFAR100_CLASSES = tuple(_CIFAR100_NAMES.split())

_DIGIT_CLASSES = tuple("0123456789")

_FASHION_CLASSES = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)


@dataclass(frozen=True)
class Digits(TensorDataset):
    """It comes with scikit-learn, so there is nothing to place or to get."""

    def read(self, split: str, root: Path) -> ImageRecords:
        return records.read_digits(split)


DIGITS = Digits(
    "digits",
    "handwritten digits, 8 x 8, embedded in scikit-learn",
    counts={"train": 1438, "test": 359},
    classes=_DIGIT_CLASSES,
    mean=(0.3053,),
    std=(0.3760,),
    peak=records.DIGITS_PEAK,
)

_KRIZ = "https://www.cs.toronto.edu/~kriz"
_CIFAR_COUNTS = {"train": 50_000, "test": 10_000}
# The authors' training: black border of 4 pixels, a random 32 x 32 of it, flip; their means and deviations.
_CIFAR_AUGMENT = CropFlip(pad=4, flip=True)


def _cifar(
    name: str,
    folder: str,
    files: Mapping[str, tuple[str, ...]],
    read: Callable[[Sequence[Path]], ImageRecords],
    *published: str | int,
    md5: Sequence[str] = (),
    subsets: tuple[str, ...] = (),
) -> Layout:
    """One of the two layouts, in an archive with its folder in it.

    Args:
        name: binary or python.
        folder: of the files.
        files: of each split.
        read: what reads them.
        *published: the archive's name, checksum and bytes.
        md5: published checksums of the files, in their order.
        subsets: further folders to read from.
    """
    archive, *about = published
    checksums = zip((file for split in files.values() for file in split), md5, strict=False)
    downloads = (Download(f"{_KRIZ}/{archive}", *about),)  # type: ignore[arg-type]
    return Layout(
        name,
        (folder,),
        files,
        read,
        downloads,
        unpacked=GIGABYTE,
        md5=dict(checksums),
        subsets=subsets,
    )


CIFAR10 = TensorDataset(
    "cifar10",
    "CIFAR-10: 32 x 32 photographs of 10 kinds of things",
    layouts=(
        _cifar(
            "binary",
            "cifar-10-batches-bin",
            {
                "train": tuple(f"data_batch_{i}.bin" for i in range(1, 6)),
                "test": ("test_batch.bin",),
            },
            partial(records.read_binary, labels=1, classes=10),
            *("cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530", 170_052_171),
        ),
        _cifar(
            "python",
            "cifar-10-batches-py",
            {"train": tuple(f"data_batch_{i}" for i in range(1, 6)), "test": ("test_batch",)},
            partial(records.read_python, key="labels", classes=10),
            *("cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a", 170_498_071),
            md5=(
                *("c99cafc152244af753f735de768cd75f", "d4bba439e000b95fd0a9bffe97cbabec"),
                *("54ebc095f3ab1f0389bbae665268c751", "634d18415352ddfa80567beed471001a"),
                *("482c414d41f54cd18b22e5b47cb7c3cb", "40351d587109b95175f43aff81a1287e"),
            ),
        ),
    ),
    counts=_CIFAR_COUNTS,
    classes=_CIFAR10_CLASSES,
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2023, 0.1994, 0.2010),  # the mean of each image's own; of all pixels it is 0.2470, ...
    augment=_CIFAR_AUGMENT,
)

CIFAR100 = TensorDataset(
    "cifar100",
    "CIFAR-100: 32 x 32 photographs of 100 kinds of things",
    layouts=(
        _cifar(
            "binary",
            "cifar-100-binary",
            {"train": ("train.bin",), "test": ("test.bin",)},
            partial(records.read_binary, labels=2, classes=100),
            *("cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8", 168_513_733),
            subsets=("cifar-100-subset/cifar-100-binary",),
        ),
        _cifar(
            "python",
            "cifar-100-python",
            {"train": ("train",), "test": ("test",)},
            partial(records.read_python, key="fine_labels", classes=100),
            *("cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85", 169_001_437),
            md5=("16019d7e3df5f24257cddd939b257f8d", "f0ef6b0ae62326f3e7ffdfab6717acfc"),
        ),
    ),
    counts=_CIFAR_COUNTS,
    classes=CIFAR100_CLASSES,
    mean=(0.5071, 0.4867, 0.4408),
    std=(0.2675, 0.2565, 0.2761),
    augment=_CIFAR_AUGMENT,
)

_IDX_FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}


def _idx(folders: tuple[str, ...], address: str, *published: tuple[str, int]) -> Layout:
    """Four gzipped files, in the order train images, train labels, test images, test labels.

    Args:
        folders: where they may be.
        address: where they come from.
        *published: the checksum and the bytes of each.
    """
    files = [f"{name}.gz" for split in ("train", "test") for name in _IDX_FILES[split]]
    named = list(zip(files, published, strict=True))
    downloads = tuple(Download(f"{address}/{name}", *about) for name, about in named)
    checksums = {name: md5 for name, (md5, _) in named}
    read = partial(records.read_idx, classes=10)
    return Layout("idx", folders, _IDX_FILES, read, downloads, md5=checksums, gzipped=True)


MNIST = TensorDataset(
    "mnist",
    "MNIST: handwritten digits, 28 x 28",
    layouts=(
        _idx(
            ("mnist", "MNIST/raw"),
            "https://ossci-datasets.s3.amazonaws.com/mnist",  # the first address no longer serves it
            ("f68b3c2dcbeaaa9fbdd348bbdeb94873", 9_912_422),
            ("d53e105ee54ea40749a09fcbcd1e9432", 28_881),
            ("9fb629c4189551a2d022fa330f9573f3", 1_648_877),
            ("ec29112dd5afa0611ce80d1b7f02629c", 4_542),
        ),
    ),
    counts={"train": 60_000, "test": 10_000},
    classes=_DIGIT_CLASSES,
    mean=(0.1307,),
    std=(0.3081,),
)

FASHION_MNIST = TensorDataset(
    "fashion-mnist",
    "Fashion-MNIST: pieces of clothing, 28 x 28",
    layouts=(
        _idx(
            ("fashion-mnist", "FashionMNIST/raw"),
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
            ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26_421_880),
            ("25c81989df183df01b3e8a0aad5dffbe", 29_515),
            ("bef4ecab320f06d8554ea6380940ec79", 4_422_102),
            ("bb300cfdad3c16e7a12a480ee83cd310", 5_148),
        ),
    ),
    counts={"train": 60_000, "test": 10_000},
    classes=_FASHION_CLASSES,
    mean=(0.2860,),
    std=(0.3530,),
)

IMAGENET = FolderDataset(
    "imagenet",
    "ImageNet (ILSVRC2012): photographs of 1,000 kinds of things",
    layouts=(Layout("folders", ("imagenet", "ILSVRC2012")),),
    counts={"train": 1_281_167, "test": 50_000},
    by_hand="it needs an account at https://image-net.org: unpack ILSVRC2012 so that its images are "
    "{root}/imagenet/train/CLASS/*.JPEG and {root}/imagenet/val/CLASS/*.JPEG",
)

IMAGENETTE = FolderDataset(
    "imagenette",
    "Imagenette: ten easy classes of ImageNet, the shorter side 320 pixels",
    layouts=(
        Layout(
            "folders",
            ("imagenette2-320", "imagenette2", "imagenette2-160"),
            downloads=(
                Download(
                    "https://s3.amazonaws.com/fast-ai-imageclas/imagenette2-320.tgz",
                    "3df6f0d01a2c9592104656642f5e78a3",
                    341_663_724,
                ),
            ),
            unpacked=2 * GIGABYTE,
            subsets=("imagenette-subset",),
        ),
    ),
    counts={"train": 9_469, "test": 3_925},
)

_VOC = "https://thor.robots.ox.ac.uk/pascal/VOC"


def _lists(**splits: str) -> dict[str, tuple[str, ...]]:
    """The lists of images of each split, as ``year/list`` or ``list``, under the folder of a layout."""
    return {
        split: tuple(
            f"{year}{slash}ImageSets/Main/{name}.txt"
            for year, slash, name in (entry.rpartition("/") for entry in lists.split())
        )
        for split, lists in splits.items()
    }


VOC2007 = VocDataset(
    "voc2007",
    "PASCAL VOC 2007: objects of 20 kinds in photographs; trainval and test",
    layouts=(
        Layout(
            "devkit",
            ("VOCdevkit/VOC2007",),
            _lists(train="trainval", test="test"),
            downloads=(
                Download(
                    f"{_VOC}/voc2007/VOCtrainval_06-Nov-2007.tar",
                    "c52e279531787c972589f7e41ab4ae64",
                    460_032_000,
                ),
                Download(
                    f"{_VOC}/voc2007/VOCtest_06-Nov-2007.tar",
                    "b6e924de25625d8de591ea690078ad9f",
                    451_020_800,
                ),
            ),
            unpacked=2 * GIGABYTE,
        ),
    ),
    counts={"train": 5_011, "test": 4_952},
)

VOC2012 = VocDataset(
    "voc2012",
    "PASCAL VOC 2012: the same 20 kinds; train and val, since the test is not public",
    layouts=(
        Layout(
            "devkit",
            ("VOCdevkit/VOC2012",),
            _lists(train="train", test="val"),
            downloads=(
                Download(
                    f"{_VOC}/voc2012/VOCtrainval_11-May-2012.tar",
                    "6cd6e144f989b92b3379bac3b3de84fd",
                    1_999_639_040,
                ),
            ),
            unpacked=4 * GIGABYTE,
            subsets=("voc-subset/VOCdevkit/VOC2012",),
        ),
    ),
    counts={"train": 5_717, "test": 5_823},
)

VOC = VocDataset(
    "voc",
    "PASCAL VOC 07+12: trainval of both years to train on, test of 2007",
    layouts=(
        Layout(
            "devkit",
            ("VOCdevkit",),
            _lists(train="VOC2007/trainval VOC2012/trainval", test="VOC2007/test"),
        ),
        Layout(
            "train and val of VOC 2012",
            (),
            _lists(train="VOC2012/train", test="VOC2012/val"),
            subsets=("voc-subset/VOCdevkit",),
        ),
    ),
    counts={"train": 16_551, "test": 4_952},
    by_hand="get both years with: gaf data get voc2007, then gaf data get voc2012",
)

_CHAR_RNN = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare"

TEXT = TextDataset(
    "text",
    "Tiny Shakespeare: a megabyte of his plays, in windows of 64 characters",
    layouts=(Layout("text", ("text",), {"text": ("tinyshakespeare.txt",)}),),
    counts={"train": 15_685, "test": 1_742},
    by_hand=f"save {_CHAR_RNN}/input.txt as {{root}}/text/tinyshakespeare.txt",
)

DATASETS: Mapping[str, Dataset] = {
    dataset.name: dataset
    for dataset in (
        *(DIGITS, CIFAR10, CIFAR100, MNIST, FASHION_MNIST, IMAGENETTE, IMAGENET),
        *(VOC, VOC2007, VOC2012, TEXT),
    )
}


def find(name: str) -> Dataset:
    """The dataset of a name, or any image folder by its path."""
    if name in DATASETS:
        return DATASETS[name]
    if name.startswith(FOLDER_PREFIX):
        path = at_home(name.removeprefix(FOLDER_PREFIX)).absolute()
        by_hand = "name a folder with train/CLASS and val/CLASS in it"
        return FolderDataset(name, str(path), (Layout("folders", (str(path),)),), by_hand=by_hand)
    known = (*DATASETS, f"{FOLDER_PREFIX}PATH")
    raise DataError(f"unknown dataset {name!r}{did_you_mean(name, known)}")
