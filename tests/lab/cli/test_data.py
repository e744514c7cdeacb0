"""`gaf data` as people run it."""

import json

import pytest

from gaf.lab.cli.app import run
from gaf.lab.data import catalog
from tests import forked
from tests.forked import ENVIRONMENT
from tests.lab.data.samples import ARCHIVE, cifar_files, cifar_from, packed
from tests.lab.data.server import Site, serve
from tests.lab.data.test_imagefolder import damage, make


@pytest.fixture
def gaf(capsys):
    """Run the command in this process: exit status, output, errors."""

    def call(*args):
        status = run(["data", *map(str, args)])
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    return call


@pytest.fixture
def site(data_dir, monkeypatch):
    """A server with a small CIFAR-100, which the catalog holds for the real one."""
    content = packed(cifar_files(data_dir))
    with serve(Site({f"/{ARCHIVE}": content})) as running:
        known = {**catalog.DATASETS, "cifar100": cifar_from(content, running.url)}
        monkeypatch.setattr(catalog, "DATASETS", known)
        yield running


@pytest.mark.parametrize("command", ["list", "get", "check"])
def test_help_shows_an_example(command, gaf):
    status, out, _ = gaf(command, "--help")
    assert status == 0
    assert f"Example: gaf data {command}" in out
    assert "--json" in out


def test_list(gaf, tmp_path, data_dir):
    status, out, _ = gaf("list", "--root", data_dir)
    assert status == 0
    assert all(name in out for name in catalog.DATASETS)
    status, out, _ = gaf("list", "--root", tmp_path, "--json")
    rows = {row["name"]: row for row in json.loads(out)["datasets"]}
    assert rows["digits"]["folder"] == "embedded"
    assert rows["cifar10"]["missing"] == "get it with: gaf data get cifar10"


def test_get_and_check(site, gaf, tmp_path):
    status, out, err = gaf("get", "cifar100", "--root", tmp_path)
    assert (status, out) == (0, f"cifar100 (binary) is in {tmp_path}/cifar-100-binary\n")
    assert f"{ARCHIVE}: 0.0 of" in err  # plain lines where there is no terminal
    assert "\x1b" not in err
    status, out, err = gaf("get", "cifar100", "--root", tmp_path)
    assert (status, err) == (0, "")
    assert "was already in" in out
    status, out, _ = gaf("check", "cifar100", "--root", tmp_path)
    assert status == 0
    assert "subset" in out.splitlines()[0]
    assert "train: 200 of 50000 samples, 100 classes" in out


def test_json(site, gaf, tmp_path):
    got = json.loads(gaf("get", "cifar100", "--root", tmp_path, "--json")[1])
    assert got["downloaded"] == [f"{site.url}/{ARCHIVE}"]
    found = json.loads(gaf("check", "cifar100", "--root", tmp_path, "--json")[1])
    assert found["state"] == "subset"
    assert found["splits"][0]["samples"] == 200


def test_a_damaged_dataset_is_exit_status_1(gaf, tmp_path):
    names = [f"{split}/{c}/{i}.png" for split in ("train", "val") for c in "ab" for i in range(4)]
    damage(make(tmp_path, *names))
    status, out, _ = gaf("check", f"imagefolder:{tmp_path}", "--workers", 0)
    assert status == 1
    assert out.count("problem:") == 3


def test_many_problems_are_counted(gaf, data_dir, tmp_path):
    year = tmp_path / "VOCdevkit/VOC2007"
    (year / "JPEGImages").mkdir(parents=True)
    (year / "ImageSets/Main").mkdir(parents=True)
    for name, count in (("trainval", 30), ("test", 5)):
        lines = "".join(f"{name}-{i}\n" for i in range(count))
        (year / f"ImageSets/Main/{name}.txt").write_text(lines)
    status, out, _ = gaf("check", "voc2007", "--root", tmp_path)
    assert status == 1
    assert out.count("is missing") == 20
    assert out.splitlines()[-1] == "  and 15 more problems: --json names them all"
    _, out, _ = gaf("check", "voc2007", "--root", tmp_path, "--json")
    assert len(json.loads(out)["problems"]) == 35


def test_bad_input_is_one_sentence_and_exit_status_2(site, gaf, tmp_path):
    root = tmp_path / "root"
    evil = packed({"../evil": b"evil"})
    site.files["/evil/cifar-100-binary.tar.gz"] = evil
    calls = {
        ("get", "cifar101"): "did you mean",
        ("check", "cifar101"): "did you mean",
        ("get", "imagenet"): "https://image-net.org",
        ("get", "digits"): "nothing to get",
        ("get", "cifar10", "--layout", "zip"): "it has binary, python",
        ("get", "cifar100", "--url", "file:///etc"): "http",
        ("get", "cifar100", "--url", f"{site.url}/nowhere"): "404",
        ("get", "cifar100", "--url", f"{site.url}/evil"): "not the published file",
        ("check", "cifar10"): "gaf data get cifar10",
        ("check", "imagefolder:/nowhere"): "/nowhere",
        ("get",): "Missing argument",
        (): "Missing command",
    }
    for args, says in calls.items():
        status, out, err = gaf(*args, *(("--root", root) if len(args) > 1 else ()))
        assert (status, out) == (2, ""), args
        last = err.splitlines()[-1]
        assert says in last, args
        assert last.startswith("gaf: ")
    assert not root.exists() or {path.name for path in root.iterdir()} <= {".lock"}


def test_an_archive_that_leads_out(gaf, tmp_path, monkeypatch):
    evil = packed({"../evil": b"evil"})
    root = tmp_path / "root"
    with serve(Site({f"/{ARCHIVE}": evil})) as site:
        known = {"cifar100": cifar_from(evil, site.url)}
        monkeypatch.setattr(catalog, "DATASETS", known)
        status, out, err = gaf("get", "cifar100", "--root", root)
    assert (status, out) == (2, "")
    assert "leads out of its folder" in err.splitlines()[-1]
    assert {path.name for path in root.iterdir()} == {ARCHIVE, ".lock"}
    assert not (tmp_path / "evil").exists()


def test_a_root_that_is_a_file(gaf, tmp_path):
    (tmp_path / "file").write_text("")
    status, _, err = gaf("get", "cifar10", "--root", tmp_path / "file")
    assert status == 2
    assert err.count("\n") == 1
    assert "File exists" in err


def test_ctrl_c_says_how_to_go_on(gaf, tmp_path, monkeypatch):
    def stop(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("gaf.lab.cli.data.get", stop)
    status, _, err = gaf("get", "cifar10", "--root", tmp_path)
    assert status == 130
    assert "the same command resumes" in err


def test_in_a_process_of_its_own(data_dir):
    status, out, err = forked.run(
        ["-m", "gaf.lab.cli", "data", "check", "cifar100", "--json"],
        environment={**ENVIRONMENT, "GAF_DATA": str(data_dir)},
    )
    assert (status, err) == (0, "")
    assert json.loads(out)["folder"].startswith(str(data_dir))
