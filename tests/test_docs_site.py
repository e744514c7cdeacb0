"""The site of docs/ builds without a warning, and each of its pages is sound in a browser."""

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forked
from tests.axe import axe, needs_npm
from tests.browser import Browser, needs_chromium

ROOT = Path(__file__).resolve().parent.parent
DESKTOP, PHONE = 1280, 390
SPHINX = ("genindex", "py-modindex", "search")  # pages of its own
pytestmark = pytest.mark.slow


def build(docs, out):
    """Sphinx's exit status, with warnings as errors, and what it complained about."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "sphinx",
            "-W",
            "--keep-going",
            "-q",
            "-d",
            f"{out}-trees",
            docs,
            out,
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site that GAF_SITE says `make docs` has just built without a warning, or one built here."""
    if "GAF_SITE" in os.environ:
        return Path(os.environ["GAF_SITE"])
    pytest.importorskip("furo")
    pytest.importorskip("myst_nb")
    out = tmp_path_factory.mktemp("site") / "html"
    status, said = build(ROOT / "docs", out)
    assert status == 0, said
    return out


def pages(site):
    return sorted(path for path in site.rglob("*.html") if "_static" not in path.parts)


def test_every_page_of_docs_is_in_the_site(site):
    sources = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.ipynb")]
    sources = [path for path in sources if "_build" not in path.parts]
    built = {path.relative_to(site).with_suffix("") for path in pages(site)}
    assert {path.relative_to(ROOT / "docs").with_suffix("") for path in sources} <= built


def test_commands_and_reference_are_made_from_the_code(site):
    commands = (site / "commands.html").read_text("utf-8")
    for command in ("gaf compare", "gaf theory", "gaf data get", "--dry-run"):
        assert command in commands
    reference = (site / "api" / "gaf.html").read_text("utf-8")
    import gaf

    for name in gaf.__all__:
        assert f'id="gaf.{name}"' in reference, f"{name} is not in the reference"
    # inline code of a page leads to it
    assert 'href="api/gaf.html#gaf.activate_grad_"' in (site / "clip-grad-norm.html").read_text()


@needs_chromium
def test_pages_in_a_browser(site):
    with Browser() as browser:
        for path in pages(site):
            page = browser.open(path, width=DESKTOP)
            name = path.relative_to(site)
            assert page.complaints == [], name
            assert page.requests == [], name
            titles = page.run("document.querySelectorAll('h1').length")
            assert titles == 1 or name.stem in SPHINX, name
            for width in (DESKTOP, PHONE):
                page.resize(width, 900)
                wide = page.run("document.documentElement.scrollWidth")
                assert wide <= width, f"{name} is {wide} pixels wide on a screen of {width}"
            images = "[...document.images].filter(i => i.complete && !i.naturalWidth).length"
            assert page.run(images) == 0, f"{name} has an image that does not load"
            page.send("Page.close")


READ_FIRST = ("index", "quickstart", "compare", "glossary", "commands", "api/gaf")


@needs_chromium
@needs_npm
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(site, scheme):
    notebooks = [f"notebooks/{path.stem}" for path in (ROOT / "docs").glob("notebooks/*.ipynb")]
    assert len(notebooks) == 3
    found = set()
    with Browser() as browser:
        for name in (*READ_FIRST, *notebooks):
            page = browser.open(site / f"{name}.html", width=DESKTOP)
            page.send(
                "Emulation.setEmulatedMedia",
                features=[{"name": "prefers-color-scheme", "value": scheme}],
            )
            found |= {f"{name}: {finding}" for finding in axe(page)}
            page.send("Page.close")
    assert not found


WRONG = {
    "[b](missing.md)": "missing.md",
    "[b](#nowhere)": "nowhere",
    "```{eval-rst}\n.. autofunction:: gaf.no_function\n```": "no_function",
    "```{eval-rst}\n:func:`gaf.no_name`\n```": "gaf.no_name",
}


def test_what_is_wrong_fails_the_build(tmp_path):
    pytest.importorskip("furo")
    pytest.importorskip("myst_nb")
    docs = tmp_path / "docs"
    docs.mkdir()
    shutil.copy(ROOT / "docs" / "conf.py", docs)
    for folder in ("_ext", "_static"):
        shutil.copytree(ROOT / "docs" / folder, docs / folder)
    (docs / "index.md").write_text("\n\n".join(["# A", *WRONG]))
    status, said = build(docs, tmp_path / "html")
    assert status != 0
    for word in WRONG.values():
        assert word in said, f"nothing is said of {word}"


PAGES = {
    "one": ("```python\nx = 1\n```\n\n```python\nprint(x)\n```\n\n```text\n1\n```\n", ""),
    "two": ("```python\nprint(2)\n```\n\n```text\n1\n```\n", "two.md:2: prints"),
    "three": ("# A\n\n```python\n1 / 0\n```\n", "three.md:4: ZeroDivisionError"),
    "four": ("<!-- not run: needs a GPU -->\n```python\n1 / 0\n```\n", ""),
}


def test_blocks_are_run(tmp_path):
    for name, (text, _) in PAGES.items():
        (tmp_path / f"{name}.md").write_text(text)
    code = (
        "import runpy, sys; sys.path.insert(0, sys.argv[1])\n"
        "runpy.run_path(sys.argv.pop(1) + '/blocks.py', run_name='__main__')"
    )
    status, out, err = forked.run(
        ["-c", code, str(ROOT / "docs"), *map(str, sorted(tmp_path.glob("*.md")))]
    )
    assert status == 1, err
    assert "2 pages fail, 1 blocks compiled only" in out
    for name, (_, said) in PAGES.items():
        assert (f"{name}.md:" in err) == bool(said), err
        assert said in err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("gaf table cifar100 --dry-run  # the price", ""),
        ("torchrun --nproc-per-node 4 -m gaf.lab.cli train cifar100-resnet50-sgdm", ""),
        ("gaf tabel cifar100", "gaf has no command tabel"),
        ("gaf table cifar100 --dry", "No such option"),
        ("gaf data fetch cifar10", "gaf data has no command fetch"),
        ("make everything", "make has no target everything"),
        ("python docs/nothing.py", "there is no docs/nothing.py"),
    ],
)
def test_commands_are_parsed(line, said):
    check = runpy.run_path(str(ROOT / "docs" / "check.py"))
    problem = check["command_problem"](line)
    assert said in problem if said else problem == ""
