"""The page in a real browser: its formulas are Python's, it asks nobody, and its controls change it."""

import json
import math

import pytest
import torch

import gaf
from gaf.lab.landscape import equivalent
from gaf.lab.landscape.equivalent import DISTANCES
from gaf.lab.reports.figures import Settings
from gaf.lab.reports.figures.explore import page
from gaf.lab.reports.figures.losses import CURVES
from gaf.lab.reports.html import script_safe
from gaf.lab.theory.conditioning import Box, anisotropy, constants
from gaf.lab.theory.fields import Activated, Identity, NormClip, ValueClip
from gaf.lab.theory.problems import quadratic
from tests.browser import Browser, needs_chromium

pytestmark = [pytest.mark.slow, needs_chromium]

DESKTOP, PHONE = (1280, 900), (390, 800)
DRAWN = "byId('curves').data"


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "explore.html"
    path.write_text(page(Settings()), "utf-8")
    with Browser() as browser:
        opened = browser.open(path)
        opened.wait(DRAWN)
        yield opened


@pytest.fixture
def explore(opened):
    """The page as it opens, at the size of a desktop, free of complaints before and after."""
    opened.resize(*DESKTOP)
    opened.run(
        "location.hash = ''; document.querySelectorAll('select').forEach(s => s.selectedIndex = 0)"
    )
    opened.run(
        "for (const [id, value] of Object.entries(FIRST)) setValue(id, value); chooseScene(); draw()"
    )
    yield opened
    assert opened.complaints == []
    assert opened.requests == []


def change(explore, control, value):
    """Move a control as a user does."""
    explore.run(
        f"(() => {{ const c = byId({json.dumps(control)}); c.value = {json.dumps(value)};"
        "c.dispatchEvent(new Event('input', {bubbles: true}));"
        "c.dispatchEvent(new Event('change', {bubbles: true}));"
        "return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))); })()"
    )


def heights(explore):
    return torch.tensor(explore.run("Array.from(byId('flat').data[0].z, row => Array.from(row))"))


def close(got, expected, rel=1e-9, floor=1e-12):
    got, expected = (torch.as_tensor(each, dtype=torch.float64) for each in (got, expected))
    assert ((got - expected).abs() <= rel * expected.abs() + floor).all()


@pytest.mark.parametrize("name", ["arctan", "tanh", "log"])
@pytest.mark.parametrize("params", [(0.1, 20.0), (0.2, 10.0), (1.7, 0.6), (0.03, 100.0)])
def test_formulas_are_those_of_python(explore, name, params):
    f = gaf.functions.function_type(name)(*params)
    t = torch.cat((torch.zeros(1), torch.logspace(-6, 0.5, 60))).double()
    values = ", ".join(map(repr, t.tolist()))
    for part, expected in (("field", f), ("slope", f.derivative), ("potential", f.integral)):
        call = f"[{values}].map(t => FUNCTIONS[{name!r}].{part}(t, {params[0]}, {params[1]}))"
        close(explore.run(call), expected(t), rel=1e-9, floor=1e-15)


def test_curves_are_those_of_python(explore):
    w = torch.linspace(-1.6, 1.6, 65, dtype=torch.float64)
    for name, loss in CURVES.items():
        slopes = explore.run(f"{w.tolist()}.map(w => CURVES[{name!r}](w))")
        close(slopes, loss.gradient(w[:, None])[:, 0])
        call = f"curve(CURVES[{name!r}], x => x, REACH, 321).values"
        close(explore.run(call)[::5], loss(w[:, None]), rel=1e-4, floor=1e-4)


CASES = {
    "original": Identity(),
    "arctan": Activated(gaf.Arctan(0.1, 20)),
    "tanh": Activated(gaf.Tanh(0.1, 20)),
    "log": Activated(gaf.Log(0.1, 20)),
    "norm clipping": NormClip(0.1),
    "value clipping": ValueClip(0.1),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("h", [(2.0, 0.4), (2.0, -0.05)], ids=str)
def test_surfaces_and_measures_are_those_of_python(explore, name, h):
    loss, box, transform = quadratic(h), Box.around(2, 1.0), CASES[name]
    made = f"transforms({{alpha: 0.1, beta: 20, norm: 0.1}})[{name!r}]"
    found = explore.run(f"surface({list(h)}, {made}, 1, 61)")
    expected = equivalent(loss, transform, box, points=61)
    exact = expected.exact
    tolerance = {"rel": 1e-8, "floor": 1e-12} if exact else {"rel": 1e-2, "floor": 1e-3}
    close(torch.tensor(found["values"], dtype=torch.float64).T, expected.values, **tolerance)
    assert found["residual"] == pytest.approx(expected.residual, rel=1e-2)
    ratios = explore.run(f"{list(DISTANCES)}.map(d => anisotropy({list(h)}, {made}, d))")
    close(ratios, anisotropy(loss, transform, DISTANCES))
    if min(h) > 0:
        zeta = constants(loss, box, transform).condition
        shown = explore.run(f"String(condition({list(h)}, {made}, 1))")
        assert float(shown.replace("Infinity", "inf")) == pytest.approx(zeta, rel=1e-6)


def test_trajectories_are_those_of_torch(explore):
    """Each optimizer of the page beside the library's own, 30 steps."""
    h = torch.tensor([2.0, 0.4], dtype=torch.float64)
    f, clip, lr = gaf.Arctan(0.1, 20), torch.nn.utils, 0.3
    kinds = {
        "GD": (0.0, None, None),
        "GD, rate × 2": (0.0, None, None),
        "GD with arctan": (0.0, f, None),
        "GD, norm clipping": (0.0, None, lambda w: clip.clip_grad_norm_([w], 0.1)),
        "GD, value clipping": (0.0, None, lambda w: clip.clip_grad_value_([w], 0.1)),
        "momentum": (0.7, None, None),
        "momentum with arctan": (0.7, f, None),
    }
    assert explore.run("Object.keys(optimizers(read(), transforms(read())))") == list(kinds)
    for name, (momentum, activation, clipping) in kinds.items():
        w = torch.nn.Parameter(torch.tensor([-0.9, 0.8], dtype=torch.float64))
        rate = 2 * lr if "rate" in name else lr
        opt = gaf.SGD([w], lr=rate, momentum=momentum, activation=activation)
        for _ in range(30):
            opt.zero_grad()
            (h * w * w / 2).sum().backward()
            if clipping is not None:
                clipping(w)
            opt.step()
        path = explore.run(
            f"trajectory([2, 0.4], optimizers(read(), transforms(read()))[{name!r}],"
            "{rate: 0.3, steps: 30, start: [-0.9, 0.8], radius: 1})"
        )
        assert len(path) == 31
        # clip_grad_norm_ divides by the norm plus 1e-6
        close(path[-1], w.detach(), rel=1e-4 if "norm" in name else 1e-9)


@pytest.mark.parametrize("control", ["alpha", "beta", "condition", "radius"])
def test_sliders_change_the_picture(explore, control):
    before, picture = heights(explore), explore.screenshot()
    change(explore, control, 900)
    assert not torch.equal(heights(explore), before)
    assert explore.screenshot() != picture


@pytest.mark.parametrize("control", ["rate", "momentum", "steps", "start1", "start2"])
def test_sliders_change_the_trajectories(explore, control):
    lines = "JSON.stringify(byId('flat').data.slice(1).map(trace => [...trace.x, ...trace.y]))"
    before = explore.run(lines)
    change(explore, control, 200)
    assert explore.run(lines) != before
    assert explore.run("byId('solid').data.length") == 5  # the surface and four paths


def test_choices_change_the_picture(explore):
    before = heights(explore)
    for control, value in (("function", "log"), ("shown", "original"), ("scene", "saddle")):
        change(explore, control, value)
        now = heights(explore)
        assert not torch.equal(now, before)
        before = now
    explore.run("byId('method4').click()")
    explore.wait("byId('solid').data.length == 6")


def test_the_page_says_that_the_measures_disagree(explore):
    table = explore.run(
        "Array.from(byId('measures').tBodies[0].rows, row => Array.from(row.cells, c => c.textContent))"
    )
    assert ["arctan", "1.6×10³", "4.77", "1.96", "1.07"] in table
    assert ["norm clipping", "infinite", "5", "5", "5"] in table
    said = explore.run("byId('disagree').textContent")
    assert "by anisotropy at d = 1 it makes this loss better" in said
    assert "The two measures disagree" in said
    change(explore, "scene", "saddle")
    assert "no ζ" in explore.run("byId('disagree').textContent")


def test_where_f_only_scales_the_page_says_that_nothing_changed(explore):
    change(explore, "beta", 0)
    change(explore, "alpha", 1000)
    change(explore, "radius", 0)
    said = explore.run("byId('disagree').textContent")
    assert said.startswith("By ζ, arctan leaves this loss as it is")
    assert "disagree" not in said


def test_norm_clipping_is_never_shown_as_exact(explore):
    change(explore, "shown", "norm clipping")
    assert "no gradient" in explore.run("byId('what').textContent")
    assert "13 %" in explore.run("byId('what').textContent")


def test_it_fits_a_phone(explore):
    explore.resize(*PHONE)
    explore.wait("document.documentElement.scrollWidth <= 390")
    explore.wait("byId('flat').querySelector('.main-svg').getBoundingClientRect().width <= 390")


def test_figures_open_on_their_own_scene(tmp_path):
    path = tmp_path / "saddle.html"
    path.write_text(page(Settings(alpha=0.123, beta=17.0), "saddle"), "utf-8")
    with Browser() as browser:
        opened = browser.open(path)
        opened.wait(DRAWN)
        assert opened.run("byId('scene').value") == "saddle"
        settings = opened.run("read()")
        assert (settings["alpha"], settings["beta"]) == (0.123, 17.0)  # to the last digit
        crossover = gaf.Arctan(0.123, 17).crossover
        assert math.isclose(settings["radius"], crossover / 2)
        assert (opened.complaints, opened.requests) == ([], [])
        # the address may name another scene; what it must not name is ignored
        for fragment, scene in (("#bowl", "bowl"), ("#toString", "bowl")):
            opened = browser.open(path, fragment)
            opened.wait(DRAWN)
            assert opened.run("byId('scene').value") == scene
            assert opened.complaints == []


def test_a_request_and_an_error_would_be_seen(tmp_path):
    """The check itself can fail: a page that asks a host, throws and complains is heard."""
    path = tmp_path / "bad.html"
    script = "fetch('http://example.org/x'); console.error('oh'); setTimeout(() => nothing(), 0)"
    path.write_text(f"<script>{script}</script>", "utf-8")
    with Browser() as browser:
        opened = browser.open(path)
        opened.wait("true")
        assert opened.requests == ["http://example.org/x"]
        assert any("oh" in each for each in opened.complaints)
        assert any("nothing is not defined" in each for each in opened.complaints)


def test_names_cannot_become_code():
    assert script_safe('"</ScRipt><!--"') == r'"<\/ScRipt><\!--"'
