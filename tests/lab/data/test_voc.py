"""PASCAL VOC on disk: a subset as it is, and files that are refused in a sentence with their name."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

from gaf.lab import data
from gaf.lab.data import DataError, DatasetMissing, voc
from gaf.lab.data.catalog import DATASETS
from gaf.lab.data.check import check
from gaf.lab.data.get import get
from gaf.lab.data.voc import VOC
from gaf.lab.tasks.detection.source import VocSource
from tests.lab.data.samples import packed
from tests.lab.data.server import Site, serve

CPU = torch.device("cpu")
GOOD = """<annotation><size><width>200</width><height>100</height></size>
<object><name>dog</name>{more}<bndbox><xmin>1</xmin><ymin>11</ymin><xmax>200</xmax><ymax>60</ymax></bndbox>
<part><name>head</name><bndbox><xmin>900</xmin></bndbox></part></object></annotation>"""
# nine levels of nine: 3 GB of text where it is expanded
BOMB = (
    '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a0 "ha">'
    + "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 9}">' for i in range(1, 10))
    + "]><annotation><object><name>&a9;</name></object></annotation>"
)
EXTERNAL = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><annotation>&x;</annotation>'


def load(name: str, split: str, **options) -> VocSource:
    return VocSource(data.load(name, split, **options))  # type: ignore[arg-type]


def parsed(text: str) -> voc.Annotation:
    return voc.parse(text.encode(), Path("some/file.xml"), Path("some/file.jpg"))


def test_edges_are_shares_of_the_image():
    found = parsed(GOOD.format(more="<difficult>1</difficult>"))
    assert found.labels == [VOC.index("dog")]
    assert found.boxes == [(0.0, 0.1, 1.0, 0.6)]  # pixels 1 to 200, and 11 to 60
    assert found.difficult == [True]


def test_missing_fields():
    assert parsed(GOOD.format(more="")).difficult == [False]
    assert parsed(GOOD.format(more="<difficult/>")).difficult == [False]
    assert parsed("<annotation><size><width>9</width><height>9</height></size></annotation>")[
        1:
    ] == (*([], [], []),)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            GOOD.replace("<xmax>200", "<xmax>201"),
            "a dog outside its image: box 1, 11, 201, 60 in 200 x 100",
        ),
        (GOOD.replace("<xmin>1<", "<xmin>0<"), "outside its image"),
        (GOOD.replace("<ymax>60", "<ymax>10"), "outside its image"),
        (GOOD.replace("<ymax>60", "<ymax>nan"), "outside its image"),
        (GOOD.replace("<ymax>60", "<ymax>low"), "without the four numbers of a box"),
        (
            GOOD.replace("<bndbox>", "<box>").replace("</bndbox>", "</box>"),
            "without the four numbers",
        ),
        (GOOD.replace("dog", "dragon"), "unknown class 'dragon'; VOC has aeroplane, "),
        (GOOD.replace("<name>dog</name>", ""), "unknown class ''"),
        (GOOD.replace("<width>200", "<width>none"), "no size in pixels"),
        (GOOD.replace("</object>", ""), "not well-formed XML: mismatched tag"),
        ("", "not well-formed XML"),
        ("<html><body>404</body></html>", "is no annotation of VOC: it begins with <html>"),
        (
            '<?xml version="1.0" encoding="foo"?><annotation/>',
            "not well-formed XML: unknown encoding",
        ),
        (GOOD.replace("<width>200", "<width>" + 5000 * "9"), "no size in pixels: 999"),
        (GOOD.replace("<xmin>1<", "<xmin>1\n2<"), "without the four numbers of a box: 1 2, 11"),
        (GOOD.replace("dog", 1000 * "dragon"), "unknown class 'dragon"),
        (BOMB, "declares a document type or entities"),
        (EXTERNAL, "declares a document type or entities"),
        (GOOD.replace("<xmin>1<", "<xmin>0.0<"), "outside its image"),
        (GOOD.replace("<ymax>60", "<ymax>101"), "outside its image"),
    ],
)
def test_bad_annotations_are_named_in_a_sentence(text, reason):
    began = time.process_time()
    with pytest.raises(DataError) as caught:
        parsed(text.replace("{more}", ""))
    message = str(caught.value)
    assert message.startswith("some/file.xml ")
    assert reason in message
    assert "\n" not in message
    assert len(message) < 400
    assert time.process_time() - began < 1.0


def test_boxes_in_fractions_of_a_pixel():
    """Some of VOC2012's are; what lies outside by less than a pixel is cut off."""
    text = (
        GOOD.format(more="").replace("<xmin>1<", "<xmin>0.6<").replace("200</xmax", "200.7</xmax")
    )
    assert parsed(text.replace("<ymin>11<", "<ymin>11.5<")).boxes == [(0.0, 0.105, 1.0, 0.6)]
    line = GOOD.format(more="").replace("<ymax>60", "<ymax>11")
    assert parsed(line).boxes == [(0.0, 0.1, 1.0, 0.11)]  # both ends are included: one pixel


def test_text_that_is_not_utf_8():
    declared = '<?xml version="1.0" encoding="ISO-8859-1"?><annotation><a>\xe9</a>'
    text = declared + GOOD.format(more="").removeprefix("<annotation>")
    assert len(voc.parse(text.encode("latin1"), Path("a.xml"), Path("a.jpg")).labels) == 1
    undeclared = text.partition("?>")[2].encode("latin1")
    with pytest.raises(DataError, match=r"^a.xml is not well-formed XML"):
        voc.parse(undeclared, Path("a.xml"), Path("a.jpg"))


@pytest.fixture
def devkit(data_dir, tmp_path) -> Path:
    """A copy of three images of the subset, as VOC2007 with a test set and as VOC2012."""
    source = data_dir / "voc-subset/VOCdevkit/VOC2012"
    names = (source / "ImageSets/Main/train.txt").read_text().split()[:3]
    for year in ("VOC2007", "VOC2012"):
        folder = tmp_path / "VOCdevkit" / year
        for kind, ending in (("JPEGImages", "jpg"), ("Annotations", "xml")):
            (folder / kind).mkdir(parents=True)
            for name in names:
                shutil.copy(source / kind / f"{name}.{ending}", folder / kind)
        lists = folder / "ImageSets/Main"
        lists.mkdir(parents=True)
        (lists / "trainval.txt").write_text("\n".join(names[:2]) + "\n")
        (lists / "train.txt").write_text(names[0])
        (lists / "val.txt").write_text(f"{names[1]}  1\n")  # as the lists of one class are written
        if year == "VOC2007":
            (lists / "test.txt").write_text(names[2])
    return tmp_path


def test_the_subset(data_dir, contents):
    train, test = (load("voc2012", split, root=data_dir, workers=0) for split in ("train", "test"))
    assert (len(train), len(test)) == contents.voc
    both = [train.objects(), test.objects()]
    assert sum(len(each.label) for each in both) == contents.objects
    assert sum(int(each.difficult.sum()) for each in both) == contents.difficult
    assert train.classes == VOC
    # all boxes once more, by another parser
    expected: Counter = Counter()
    folder = data_dir / "voc-subset/VOCdevkit/VOC2012/Annotations"
    for path in folder.glob("*.xml"):
        expected.update(each.findtext("name") for each in ElementTree.parse(path).findall("object"))
    found = torch.cat([each.label for each in both]).tolist()
    assert Counter(VOC[label] for label in found) == expected


def test_years_are_joined(devkit):
    train, test = (load("voc", split, root=devkit, workers=0) for split in ("train", "test"))
    assert (len(train), len(test)) == (4, 1)
    years = [path.parents[1].name for path in train.listing.images]
    assert years == ["VOC2007"] * 2 + ["VOC2012"] * 2
    assert len(load("voc2007", "test", root=devkit, workers=0)) == 1
    assert len(load("voc2012", "test", root=devkit, workers=0)) == 1


def test_one_year_is_not_both(devkit):
    shutil.rmtree(devkit / "VOCdevkit/VOC2012")
    with pytest.raises(
        DatasetMissing, match=r"lacks trainval.txt; get both years with: gaf data get"
    ):
        load("voc", "train", root=devkit)


def test_batches(devkit):
    source = load("voc2007", "train", root=devkit, workers=0, augment=False)
    (batch,) = source.batches([torch.tensor([1, 0])], seed=0, epoch=0, device=CPU)
    assert batch.images.shape == (2, 3, 300, 300)
    assert batch.images.abs().max() < 3
    counts = source.listing.first.diff().tolist()
    assert (batch.labels >= 0).sum(1).tolist() == counts[::-1]
    assert batch.labels.shape == (2, max(counts))


def test_augmented_batches_depend_on_seed_epoch_and_image_alone(data_dir):
    source = load("voc2012", "train", root=data_dir, workers=0)

    def sample(index: list[int], at: int, **where: int):
        where = {"seed": 1, "epoch": 2, **where}
        (batch,) = source.batches([torch.tensor(index)], **where, device=CPU)  # type: ignore[arg-type]
        return batch.images[at]

    alone = sample([4], 0)
    assert torch.equal(sample([9, 4, 2], 1), alone)
    assert not torch.equal(sample([4], 0, epoch=3), alone)
    assert not torch.equal(sample([4], 0, seed=2), alone)
    workers = load("voc2012", "train", root=data_dir, workers=1)
    (batch,) = workers.batches([torch.tensor([4])], seed=1, epoch=2, device=CPU)
    assert torch.equal(batch.images[0], alone)


def first_image(devkit: Path) -> Path:
    return sorted((devkit / "VOCdevkit/VOC2007/JPEGImages").iterdir())[0]


def test_a_missing_image(devkit):
    first_image(devkit).unlink()
    with pytest.raises(
        DataError, match=r"2007_000027.jpg is missing, though .*trainval.txt lists it"
    ):
        load("voc2007", "train", root=devkit)


def test_a_missing_annotation(devkit):
    (devkit / "VOCdevkit/VOC2007/Annotations/2007_000027.xml").unlink()
    with pytest.raises(DataError, match=r"2007_000027.xml cannot be read: No such file"):
        load("voc2007", "train", root=devkit)


@pytest.mark.parametrize("kind", ["Annotations", "JPEGImages"])
def test_a_link_in_a_circle(devkit, kind):
    path = next((devkit / "VOCdevkit/VOC2007" / kind).glob("2007_000027.*"))
    path.unlink()
    path.symlink_to(path)
    found = check(DATASETS["voc2007"], devkit, lambda *_: None, workers=0)
    assert len(found.problems) == 1
    assert found.problems[0].startswith(str(path))


def test_an_annotation_of_a_terabyte_is_not_read(devkit):
    path = devkit / "VOCdevkit/VOC2007/Annotations/2007_000027.xml"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # of holes
    with pytest.raises(DataError, match=r"2007_000027.xml is refused: .* at most 1048576 bytes"):
        load("voc2007", "train", root=devkit)


def test_a_year_without_images(devkit):
    shutil.rmtree(devkit / "VOCdevkit/VOC2012/JPEGImages")
    with pytest.raises(DataError, match=r"VOC2012/JPEGImages cannot be read: No such file"):
        load("voc", "train", root=devkit)


def test_images_without_objects(devkit):
    for path in (devkit / "VOCdevkit/VOC2007/Annotations").iterdir():
        text = path.read_text()
        path.write_text(text[: text.index("<object>")] + "</annotation>")
    source = load("voc2007", "train", root=devkit, workers=0)
    (batch,) = source.batches([torch.arange(2)], seed=0, epoch=0, device=CPU)
    assert batch.images.isfinite().all()
    assert (batch.labels.shape, batch.boxes.shape) == ((2, 0), (2, 0, 4))


def test_a_check_names_every_bad_file(devkit):
    year = devkit / "VOCdevkit/VOC2007"
    names = sorted(path.stem for path in (year / "JPEGImages").iterdir())
    (year / "ImageSets/Main/trainval.txt").write_text("\n".join([*names, "gone", "lost"]))
    (year / f"Annotations/{names[0]}.xml").write_text("<annotation>")
    (year / f"JPEGImages/{names[1]}.jpg").write_bytes(b"")
    shutil.copy(year / f"Annotations/{names[1]}.xml", year / f"Annotations/{names[2]}.xml")
    found = check(DATASETS["voc2007"], devkit, lambda *_: None, workers=0)
    train = found.problems[:5]
    for name, reason in (
        (names[0], "not well-formed"),
        (names[1], "no image that can be read"),
        (names[2], "its annotation says"),
        ("gone", "is missing"),
        ("lost", "is missing"),
    ):
        assert sum(name in each and reason in each for each in train) == 1, name
    # one of them is the test image as well
    assert [each for each in train if each in found.problems[5:]] == found.problems[5:]
    assert found.splits[0].samples == 2  # whose annotations can be read


@pytest.mark.parametrize("workers", [0, 1])
def test_a_broken_image_ends_it(devkit, workers):
    path = first_image(devkit)
    path.write_bytes(path.read_bytes()[:2000])
    source = load("voc2007", "train", root=devkit, workers=workers)
    with pytest.raises(DataError, match=r"2007_000027.jpg is broken \(OSError\): replace it$"):
        list(source.batches([torch.arange(2)], seed=0, epoch=0, device=CPU))
    found = check(DATASETS["voc2007"], devkit, lambda *_: None, workers=workers)
    assert found.state == "damaged"
    assert "2007_000027.jpg is broken" in found.problems[0]


def test_an_image_of_another_size(devkit):
    other = sorted(first_image(devkit).parent.iterdir())[1].read_bytes()
    first_image(devkit).write_bytes(other[:2000])  # its pixels are not looked at
    source = load("voc2007", "train", root=devkit, workers=0)
    with pytest.raises(
        DataError, match=r"2007_000027.jpg is 500 x 281 pixels, its annotation says 486 x 500"
    ):
        list(source.batches([torch.arange(2)], seed=0, epoch=0, device=CPU))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        *((bad, "'.*', which is no name of an image") for bad in ("../../secret\n", "/etc/passwd")),
        *((bad, "'.*', which is no name of an image") for bad in ("a/b", "\xe9", "\0" * 9999)),
        ("", "no image"),
        ("2007_000027\n2007_000032\n2007_000027\n", "2007_000027 more than once"),
    ],
)
def test_a_bad_list(devkit, content, reason):
    path = devkit / "VOCdevkit/VOC2007/ImageSets/Main/trainval.txt"
    path.write_bytes(content.encode("latin1"))
    with pytest.raises(DataError, match=rf"trainval.txt lists {reason}"):
        load("voc2007", "train", root=devkit)


def test_size_from_the_image_where_the_annotation_has_none(devkit):
    path = devkit / "VOCdevkit/VOC2007/Annotations/2007_000027.xml"
    text = path.read_text()
    start, end = text.index("<size>"), text.index("</size>") + len("</size>")
    whole = load("voc2007", "train", root=devkit).objects()
    path.write_text(text[:start] + text[end:])
    assert torch.equal(load("voc2007", "train", root=devkit).objects().box, whole.box)


def test_check(data_dir, contents, tmp_path):
    told = []
    found = check(DATASETS["voc"], data_dir, lambda *each: told.append(each), workers=1)
    assert found.state == "subset"
    rows = zip(contents.voc, (16_551, 4_952), contents.voc_classes, strict=True)
    assert [(each.samples, each.published, each.classes) for each in found.splits] == list(rows)
    assert told[-1] == ("test", contents.voc[1], contents.voc[1])
    with pytest.raises(DatasetMissing, match="gaf data get voc2007"):
        check(DATASETS["voc2007"], tmp_path, lambda *_: None)


def test_what_is_there_is_not_downloaded(devkit):
    got = get(DATASETS["voc2007"], devkit, lambda name: pytest.fail(name))
    assert (got.downloaded, got.folder) == ((), str(devkit / "VOCdevkit/VOC2007"))


def test_two_years_from_three_archives(devkit, tmp_path):
    """2007 comes as trainval and test, which share a folder; 2012 joins it in VOCdevkit."""
    root = tmp_path / "root"
    contents = {
        path.relative_to(devkit).as_posix(): path.read_bytes()
        for path in sorted((devkit / "VOCdevkit").rglob("*.*"))
    }
    year = {name: content for name, content in contents.items() if "VOC2007" in name}
    test = {name: content for name, content in year.items() if not name.endswith("trainval.txt")}
    trainval = {name: content for name, content in year.items() if not name.endswith("test.txt")}
    later = {name: content for name, content in contents.items() if "VOC2012" in name}
    for name, archives in (("voc2007", (trainval, test)), ("voc2012", (later,))):
        dataset = DATASETS[name]
        (layout,) = dataset.layouts
        files = [packed(each) for each in archives]
        downloads = [
            replace(each, md5=hashlib.md5(file, usedforsecurity=False).hexdigest())
            for each, file in zip(layout.downloads, files, strict=True)
        ]
        dataset = replace(dataset, layouts=(replace(layout, downloads=tuple(downloads)),))
        served = {f"/{each.name}": file for each, file in zip(downloads, files, strict=True)}
        with serve(Site(served)) as site:
            got = get(dataset, root, lambda name: lambda done, total: None, mirror=site.url)
        assert len(got.downloaded) == len(archives)
    assert len(load("voc", "train", root=root, workers=0)) == 4
    assert sorted(path.name for path in root.iterdir()) == [".lock", "VOCdevkit"]


def test_both_years_at_once_cannot_be_had(tmp_path):
    with pytest.raises(DataError, match="gaf data get voc2007, then gaf data get voc2012"):
        get(DATASETS["voc"], tmp_path, lambda name: pytest.fail(name))


@pytest.mark.parametrize(
    ("options", "reason"), [({"size": 512}, "leave size unset"), ({"limit": 0}, "at least 1")]
)
def test_options_that_do_not_apply(data_dir, options, reason):
    with pytest.raises(DataError, match=reason):
        load("voc", "train", root=data_dir, **options)
