"""The page in a real browser: no complaint, no request, it sorts, draws, fits a phone and paper."""

import base64
import re

import pytest

from gaf.lab.engine.doctor import Diagnosis
from gaf.lab.reports import doctor_page, html
from gaf.lab.reports.atlas_page import write_atlas
from gaf.lab.reports.page import write_page
from tests.browser import Browser, Page, needs_chromium
from tests.lab.reports.example import HOSTILE, ORDINARY, example
from tests.lab.reports.test_atlas_page import atlas_of
from tests.lab.reports.test_doctor_page import watched
from tests.lab.reports.test_page import hostile
from tests.lab.reports.tuned import tuned_example

pytestmark = [pytest.mark.slow, needs_chromium]

DRAWN = "[...document.querySelectorAll('.plot')].every(p => p.querySelector('.scatterlayer path'))"
COLUMN = (
    "[...document.querySelectorAll('table.results tbody tr')].map(r => r.cells[{}].textContent)"
)


@pytest.fixture(scope="module")
def browser():
    with Browser() as found:
        yield found


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    return write_page(example(folder), folder)


@pytest.fixture(scope="module")
def page(browser, path):
    found = browser.open(path)
    found.wait(DRAWN)
    yield found
    assert found.complaints == []
    assert found.requests == []


def sort_by(page: Page, number: int) -> list[str]:
    page.run(f"document.querySelectorAll('table.results th button')[{number}].click()")
    return page.run(COLUMN.format(number))


def numbers(cells: list[str]) -> list[float]:
    found = [re.match(r"([−+]?[\d.,]+)", cell) for cell in cells]
    return [float(m[1].replace("−", "-").replace(",", "")) for m in found if m]


def test_every_figure_is_drawn(page):
    assert page.run("document.querySelectorAll('.plot').length") == 7
    lines = (
        "[...document.querySelectorAll('.plot')].map(p => p.querySelectorAll('.lines path').length)"
    )
    assert min(page.run(lines)) >= 2


@pytest.mark.parametrize("column", [1, 2, 5, 7])  # score, difference, gap or vs control, time
def test_a_click_sorts_by_number_and_another_turns_it_round(page, column):
    up = numbers(sort_by(page, column))
    assert up == sorted(up)
    order = page.run(COLUMN.format(0))
    head = (
        f"document.querySelectorAll('table.results thead th')[{column}].getAttribute('aria-sort')"
    )
    assert page.run(head) == "ascending"
    down = numbers(sort_by(page, column))
    assert down == sorted(down, reverse=True)
    assert page.run(COLUMN.format(0)) != order
    assert page.run(head) == "descending"


def test_numbers_do_not_sort_as_text_and_empty_cells_come_last(page):
    steps = sort_by(page, 8)
    assert numbers(steps)[:3] == [200, 320, 840]
    assert steps[-1] == "never"
    assert sort_by(page, 8)[-1] == "never"  # downwards too
    differences = sort_by(page, 2)
    assert differences[-1] == "–"
    assert differences[0].startswith("−0.95")


def test_names_sort_by_the_alphabet(page):
    names = sort_by(page, 0)
    assert sorted(names) == sorted(ORDINARY)
    assert [name[:3] for name in names] == sorted(name[:3] for name in names)
    assert names.index("lr x2") < names.index("lr x100")


def test_the_legend_hides_a_setting_in_all_figures(page):
    shown = (
        "[...document.querySelectorAll('.plot')].map(p => p.data.filter("
        "t => t.meta === 'arctan(0.1, 20)@momentum' && t.visible).length)"
    )
    assert [n > 0 for n in page.run(shown)] == [True] * 5 + [False] * 2
    page.run("document.querySelector('.legend input[value^=arctan]').click()")
    assert not any(page.run(shown))
    page.run("document.querySelector('[data-show=all]').click()")
    assert [n > 0 for n in page.run(shown)] == [True] * 5 + [False] * 2


def test_it_fits_a_phone(browser, path):
    page = browser.open(path, width=390, height=844)
    page.wait(DRAWN)
    assert page.run("document.documentElement.scrollWidth") <= 390
    wide = "[...document.querySelectorAll('.plot')].map(p => p.getBoundingClientRect().right)"
    assert max(page.run(wide)) <= 390
    # the table scrolls by itself, under a first column that stays
    page.run("document.querySelector('.scroll').scrollLeft = 200")
    assert page.run("document.querySelector('.results tbody th').getBoundingClientRect().left") < 30
    small = "parseFloat(getComputedStyle(document.querySelector('.verdicts li')).fontSize)"
    assert page.run(small) >= 15
    assert page.complaints == page.requests == []


def test_names_of_users_stay_text(browser, tmp_path):
    page = browser.open(write_page(hostile(tmp_path), tmp_path))
    page.wait(DRAWN)
    assert page.run("document.querySelector('h1').textContent") == HOSTILE
    assert HOSTILE in page.run(COLUMN.format(0))
    assert page.run("document.querySelectorAll('img').length") == 0
    assert page.run("document.scripts.length") == 3
    # over the learning rate, and over the steps
    plots = page.run("document.querySelectorAll('.plot').length")
    for number, point in ((0, 0), (plots - 6, 2)):
        plot = f"document.querySelectorAll('.plot')[{number}]"
        curve = page.run(f"{plot}.data.findIndex(t => (t.name || '').includes('script'))")
        page.run(f"Plotly.Fx.hover({plot}, [{{curveNumber: {curve}, pointNumber: {point}}}])")
        page.wait(f"{plot}.querySelector('.hoverlayer text')")
        assert HOSTILE in page.run(f"{plot}.querySelector('.hoverlayer').textContent")
    assert page.complaints == page.requests == []


@pytest.mark.parametrize("width", [1280, 400])
def test_a_tuned_comparison_fits_and_its_legend_rules_all_figures(browser, tmp_path, width):
    folder = tmp_path / "tuned"
    page = browser.open(write_page(tuned_example(folder), folder), width=width)
    page.wait(DRAWN)
    assert page.run("document.documentElement.scrollWidth") <= width
    wide = "[...document.querySelectorAll('.plot')].map(p => p.getBoundingClientRect().right)"
    assert max(page.run(wide)) <= width
    assert page.run("document.querySelectorAll('.legend').length") == 1
    shown = (
        "[...document.querySelectorAll('.plot')].slice(0, 3).map(p => p.data.filter("
        "t => t.meta === 'adam' && t.visible).length)"
    )
    assert min(page.run(shown)) > 0
    page.run("document.querySelector('.legend input[value=adam]').click()")
    assert page.run(shown) == [0, 0, 0]
    bars = "[...document.querySelectorAll('.bar')].map(b => b.querySelectorAll('circle').length)"
    assert page.run(bars) == [2, 2, 2, 2, 2, 1]  # usual and chosen; of the rule that failed none
    assert page.complaints == page.requests == []


def test_what_slipped_in_could_not_run_or_load(browser, path, tmp_path):
    """The policy, should an escape ever fail: a page with a hole in it."""
    bad = '<script>window.sprung = 1</script><img src=https://example.org/x.png onerror="window.sprung = 2">'
    holed = tmp_path / "holed.html"
    holed.write_text(path.read_text("utf-8").replace("<main>", "<main>" + bad), "utf-8")
    page = browser.open(holed)
    page.wait(DRAWN)
    assert page.run("window.sprung === undefined")
    assert any("Content Security Policy" in each for each in page.complaints)


def test_paper_shows_all_and_the_screen_comes_back(page):
    before = page.run("document.querySelector('.plot').offsetWidth")
    printed = page.send("Page.printToPDF", preferCSSPageSize=True)
    assert base64.b64decode(printed["data"]).startswith(b"%PDF")
    page.run(
        "window.widths = []; addEventListener('beforeprint', () => {"
        " widths = [...document.querySelectorAll('.plot .main-svg')].map(s => s.width.baseVal.value);"
        " opened = document.querySelectorAll('details:not([open])').length })"
    )
    page.send("Page.printToPDF", preferCSSPageSize=True)
    assert page.run("opened") == 0
    assert 0 < page.run("Math.max(...widths)") <= 340  # two beside each other on A4
    assert page.run("document.querySelectorAll('details[open]').length") == 0
    page.wait(f"document.querySelector('.plot .main-svg').width.baseVal.value > 0.9 * {before}")


@pytest.mark.parametrize("width", [1280, 400])
def test_the_map_of_an_atlas_fits_and_its_cells_lead_on(browser, tmp_path, width):
    atlas = atlas_of()
    page = browser.open(write_atlas(atlas, tmp_path), width=width)
    page.wait("document.querySelector('.map')")
    assert page.run("document.documentElement.scrollWidth") <= width
    # the map scrolls by itself, under a first column that stays
    page.run("document.querySelector('.scroll').scrollLeft = 300")
    assert page.run("document.querySelector('.map tbody th').getBoundingClientRect().left") < 30
    cells = page.run("[...document.querySelectorAll('.map tbody td a')].map(a => a.hash)")
    assert set(cells) == {f"#{study.name}" for study in atlas.studies}
    assert all(page.run(f"!!document.querySelector('{cell}')") for cell in set(cells))
    assert page.complaints == page.requests == []


def brightness(colour: str) -> float:
    """Of a colour as a browser tells it, from 0 for black to 255 for white."""
    return sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 3


def test_it_is_dark_in_the_dark_and_paper_is_white(browser, path):
    page = browser.open(path)
    page.wait(DRAWN)
    shown = (
        "[document.body, document.querySelector('h1'), document.querySelector('.plot .xtick text'),"
        " document.querySelector('.plot .lines path[style*=\"stroke-width: 3px\"]')].map((e, i) =>"
        " getComputedStyle(e)[['backgroundColor', 'color', 'fill', 'stroke'][i]])"
    )
    light = [brightness(colour) for colour in page.run(shown)]
    assert light[0] == 255
    assert max(light[1:]) < 100  # words, numbers and the baseline
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    page.send("Emulation.setEmulatedMedia", features=features)
    page.wait(
        "getComputedStyle(document.querySelector('.plot .xtick text')).fill != 'rgb(29, 37, 48)'"
    )
    dark = [brightness(colour) for colour in page.run(shown)]
    assert dark[0] < 50
    assert min(dark[1:]) > 150
    page.run(
        f"addEventListener('beforeprint', () => {{ window.printed = {shown}; }}); window.printed = []"
    )
    page.send("Page.printToPDF", preferCSSPageSize=True)
    printed = [brightness(colour) for colour in page.run("printed")]
    assert printed == light
    page.wait("!document.documentElement.classList.contains('paper')")
    assert page.complaints == page.requests == []


def test_a_browser_that_is_too_old_says_so(browser, path):
    page = browser.open(path)
    page.send(
        "Page.addScriptToEvaluateOnNewDocument", source="delete globalThis.DecompressionStream"
    )
    page.send("Page.reload")
    page.wait("document.querySelector('#too-old') && !document.querySelector('#too-old').hidden")
    assert page.run("document.querySelector('main').firstElementChild.id") == "too-old"
    assert "DecompressionStream" in page.complaints[0]
    assert sort_by(page, 0)[0]  # everything else works


@pytest.mark.parametrize("width", [400, 1280])
def test_the_page_of_a_diagnosis_fits(browser, tmp_path, width):
    diagnosis = Diagnosis("train.py --epochs 10", 30, [watched()])
    page = browser.open(
        html.write(doctor_page.render(diagnosis), tmp_path / "report.html"), width=width
    )
    page.wait(DRAWN)
    assert page.run("document.documentElement.scrollWidth") <= width
    assert page.complaints == []
    assert page.requests == []
