"""The page as text: all of it is there, nothing in it can act, and it appears whole or not at all."""

import base64
import gzip
import hashlib
import json
import math
import re
from html.parser import HTMLParser

import pytest

from gaf.lab.engine.config import read
from gaf.lab.engine.folder import read_result
from gaf.lab.reports import landscape_page, table_page
from gaf.lab.reports.page import PAGE, write_page
from gaf.lab.study.compare import read as read_comparison
from gaf.lab.study.grid import Outcome, digest
from gaf.lab.study.results import Filled
from gaf.lab.study.table.fill import conclude
from gaf.lab.study.table.plan import make
from tests.browser import LARGEST_PAGE
from tests.lab.reports.example import (
    BASELINE,
    HOSTILE,
    ORDINARY,
    Setting,
    comparison_of,
    example,
    write_run,
)
from tests.lab.reports.tuned import (
    ARCTAN,
    RULES,
    SGD,
    small_tuning,
    tuned_comparison,
    tuned_example,
)

LOADING = ("src", "href", "srcset", "action", "data", "poster", "background", "formaction", "ping")


class Reader(HTMLParser):
    """Elements, their attributes and the text outside scripts and styles."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.inside, self.text, self.scripts = [], "", "", []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside == "script":
            self.scripts[-1] += data
        elif self.inside != "style":
            self.text += data


@pytest.fixture(scope="module")
def ordinary(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ordinary")
    return Reader(write_page(example(folder), folder).read_text("utf-8"))


def unpacked(found):
    """The page's scripts as they run."""
    data, packed, *code = found.scripts
    return [data, gzip.decompress(base64.b64decode(packed)).decode(), *code]


def test_everything_is_there_in_order(ordinary):
    parts = [
        "Digits, a small network",
        "Of 6 settings against baseline over 3 seeds: 1 better, 2 worse, 3 with no difference.",
        "Failed runs",
        "RuntimeError: the data is gone",
        "Results",
        "Learning curves",
        "What f did to the gradients",
        "f over the sizes of what it saw",
        "gaf compare digits-cnn-sgdm --seeds 3",
        "python 3.11.7, torch 2.13.0+cpu",
    ]
    places = [ordinary.text.index(part) for part in parts]
    assert places == sorted(places)
    for name in ORDINARY:
        assert name in ordinary.text


def test_nothing_is_loaded_and_plotly_stands_in_it_once(ordinary):
    for tag, attributes in ordinary.elements:
        assert not set(attributes) & set(LOADING), (tag, attributes)
        assert not [name for name in attributes if name.startswith("on")]
    assert [tag for tag, _ in ordinary.elements].count("script") == 3
    assert sum("plotly.js v" in script for script in unpacked(ordinary)) == 1


def test_only_the_pages_own_scripts_may_run(ordinary):
    policy = next(a["content"] for _, a in ordinary.elements if a.get("http-equiv"))
    allowed = set(re.findall(r"'sha256-([^']+)'", policy))
    found = {
        base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()
        for s in unpacked(ordinary)[1:]
    }
    assert allowed == found
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe-eval" not in policy
    assert "unsafe-inline" not in policy.split("style-src")[0]


def test_nothing_in_a_script_can_end_it(tmp_path, monkeypatch):
    monkeypatch.setattr("gaf.lab.reports.html.asset", lambda name: '"</script><!--"')
    found = Reader(write_page(example(tmp_path), tmp_path).read_text("utf-8"))
    assert (
        found.scripts[2].splitlines() == [r'"<\/script><\!--"'] * 2
    )  # the loader's and the page's
    assert len(found.scripts) == 3


def test_a_figure_for_every_place(ordinary):
    figures = json.loads(ordinary.scripts[0])
    places = [a["id"] for _, a in ordinary.elements if a.get("class") == "plot"]
    assert places == list(figures)
    assert len(places) == 2 + 3 + 2
    assert all(
        trace["x"] and len(trace["x"]) == len(trace["y"])
        for f in figures.values()
        for trace in f["data"]
    )


def test_the_table_sorts_by_numbers_and_can_be_read_aloud(ordinary):
    heads = [a for tag, a in ordinary.elements if tag == "th" and "aria-sort" in a]
    assert [head["data-numeric"] for head in heads] == ["no", *["yes"] * 8, "no"]
    assert all(head["scope"] == "col" for head in heads)
    assert sum(tag == "th" and a.get("scope") == "row" for tag, a in ordinary.elements) == len(
        ORDINARY
    )
    values = [float(a["data-value"]) for _, a in ordinary.elements if "data-value" in a]
    assert len(values) > 30


def hostile(folder):
    settings = {
        BASELINE: ORDINARY[BASELINE],
        HOSTILE: Setting("function", (0.97, None, 0.95), activation="arctan(0.1, 20)"),
        '"><img src=x onerror=alert(2)>': ORDINARY["adam"],
    }
    comparison = example(
        folder,
        settings,
        title=HOSTILE,
        error=f"ValueError: {HOSTILE}\n</pre>",
        environment={HOSTILE: {"cpu": HOSTILE}, "system": "</dl><script>alert(3)</script>"},
    )
    return comparison.model_copy(
        update={
            "task": HOSTILE,
            "score_name": "top1",
            "command": ("gaf", HOSTILE),
            "created": HOSTILE,
            "tuning": small_tuning([*settings, f"{HOSTILE}, not in the table"]),
        }
    )


def test_text_of_users_stays_text(tmp_path):
    page = write_page(hostile(tmp_path), tmp_path).read_text("utf-8")
    found = Reader(page)
    assert [tag for tag, _ in found.elements].count("script") == 3
    assert not [a for _, a in found.elements if "onerror" in a or "src" in a]
    assert "img" not in [tag for tag, _ in found.elements]
    assert found.text.count(HOSTILE) >= 12
    figures = json.loads(found.scripts[0])
    names = {trace.get("name") for figure in figures.values() for trace in figure["data"]}
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in names


def test_a_score_named_by_a_user_is_text_too(tmp_path):
    comparison = example(tmp_path).model_copy(update={"score_name": HOSTILE})
    found = Reader(write_page(comparison, tmp_path).read_text("utf-8"))
    assert [tag for tag, _ in found.elements].count("script") == 3


def test_half_a_character_is_no_error(tmp_path):
    comparison = comparison_of({BASELINE: ORDINARY[BASELINE]}, title="caf\udce9 �")
    assert "caf?" in write_page(comparison, tmp_path).read_text("utf-8")


def test_runs_that_are_gone_are_told(tmp_path):
    comparison = example(tmp_path)
    (tmp_path / "runs" / "0-0" / "metrics.jsonl").unlink()
    text = Reader(write_page(comparison, tmp_path).read_text("utf-8")).text
    assert "The records of 1 of 21 runs were not found." in text
    empty = tmp_path / "empty"
    empty.mkdir()
    found = Reader(write_page(comparison, empty).read_text("utf-8"))
    assert "The records of 19 of 21 runs were not found" in found.text
    assert "plot" not in [a.get("class") for _, a in found.elements]
    assert len(found.scripts) == 2  # there is nothing for plotly to draw
    rows = [row.model_copy(update={"reached": 0}) for row in comparison.rows]
    script = comparison.model_copy(update={"rows": tuple(rows)})  # which has no records
    assert "Learning curves" not in Reader(write_page(script, empty).read_text("utf-8")).text


def test_one_seed_one_setting_many_settings(tmp_path):
    one = comparison_of({BASELINE: Setting("baseline", (0.9,))}, seeds=(4,))
    text = Reader(write_page(one, tmp_path).read_text("utf-8")).text
    assert "top1 0.9000 at the end." in text
    pair = {BASELINE: Setting("baseline", (0.9,)), "x": Setting("rule", (0.8,))}
    text = Reader(write_page(comparison_of(pair, seeds=(4,)), tmp_path).read_text("utf-8")).text
    assert "Of 1 setting against baseline over 1 seed: none better, 1 with no difference." in text
    many = {BASELINE: ORDINARY[BASELINE]} | {f"rule {i}": ORDINARY["adam"] for i in range(40)}
    page = Reader(write_page(comparison_of(many), tmp_path).read_text("utf-8"))
    assert sum("checked" in a for tag, a in page.elements if tag == "input") in (0, 8)


def test_the_page_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    comparison = example(tmp_path)
    (tmp_path / PAGE).write_text("old")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "no room")))
    with pytest.raises(OSError, match="no room"):
        write_page(comparison, tmp_path)
    assert (tmp_path / PAGE).read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["comparison.json", PAGE, "runs"]


def test_the_same_comparison_gives_the_same_page(tmp_path):
    comparison = example(tmp_path)
    assert (
        write_page(comparison, tmp_path).read_bytes()
        == write_page(comparison, tmp_path).read_bytes()
    )


def test_what_a_tuned_comparison_shows_in_order(tmp_path):
    page = Reader(write_page(tuned_example(tmp_path, earlier=(7, 8)), tmp_path).read_text("utf-8"))
    parts = [
        "digits-cnn-8-epochs",
        "Yes: ",
        "An earlier look has seen seeds 7 to 8. The verdicts take seeds 0 to 4 only",
        "The curve over the learning rate",
        "Validation top1 over the learning rate",
        "Close-up",
        "Windows",
        "top1 of at least 0.9690, the best of tuned sgd minus 1 point",
        "Score against budget",
        "Results",
        "the interval excludes 0, but",  # in the row of auto
        "Cost: 104 trials to tune the learning rates, 65 runs for the table: 24,832 steps, 5.2 min",
        "How many seeds to plan for",
        "0.5 points",
        "Learning curves",
    ]
    places = [page.text.index(part) for part in parts]
    assert places == sorted(places)
    heads = [a for tag, a in page.elements if tag == "button" and "title" in a]
    assert "earlier look has used up" in " ".join(a["title"] for a in heads)
    assert page.text.count("Failed runs") == 1
    assert "broken, seeds 0 to 4" in page.text


def test_the_curves_of_a_tuned_comparison(tmp_path):
    page = Reader(write_page(tuned_example(tmp_path), tmp_path).read_text("utf-8"))
    whole, near, budget, *_ = json.loads(page.scripts[0]).values()
    for figure in (whole, near):
        assert figure["layout"]["xaxis"]["type"] == "log"
        assert [shape["y0"] for shape in figure["layout"]["shapes"]] == [pytest.approx(0.969)]
    assert near["layout"]["yaxis"]["range"][0] > 0.9 > whole["layout"]["yaxis"]["range"][0]
    traces = {name: [t for t in whole["data"] if t["meta"] == name] for name in RULES}
    line = next(t for t in traces[ARCTAN] if t["mode"] == "lines+markers")
    assert len(line["x"]) == 9  # seven of the grid and two beside the ends of the window
    marked = {t["marker"]["symbol"]: t["x"] for t in traces["adam"] if t["mode"] == "markers"}
    assert marked == {"circle-open": [0.001], "circle": [0.003]}
    lost = [t for t in whole["data"] if t.get("marker", {}).get("symbol") == "x"]
    assert [(t["meta"], len(t["x"])) for t in lost] == [("broken", 7)]
    assert lost[0]["y"][0] == whole["layout"]["yaxis"]["range"][0]
    (level,) = (t for t in traces["auto"] if t.get("line", {}).get("dash") == "dash")
    assert level["y"] == [0.986, 0.986]
    assert {t["meta"]: len(t["y"]) for t in budget["data"]} == {
        name: 7 for name in RULES if name != "broken"
    }


def test_a_loss_whose_runs_diverge(tmp_path):
    """Scores of inf stand at the worst edge; the best is the lowest."""
    comparison = tuned_comparison()
    assert comparison.tuning is not None
    curve = comparison.tuning.curves[SGD]
    trials = tuple(
        trial.model_copy(update={"scores": (math.inf, loss), "mean": math.inf if i > 4 else loss})
        for i, trial in enumerate(curve.trials)
        for loss in [0.5 + (i - 3) ** 2]
    )
    changed = curve.model_copy(update={"trials": trials, "best_of": (math.inf, 3.0, 1.0)})
    tuning = comparison.tuning.model_copy(
        update={"curves": dict.fromkeys(RULES, changed), "threshold": 0.6, "within": 0.1}
    )
    lower = comparison.model_copy(update={"tuning": tuning, "higher_is_better": False})
    page = Reader(write_page(lower, tmp_path).read_text("utf-8"))
    whole, near, budget, *_ = json.loads(page.scripts[0]).values()
    lost = [t for t in whole["data"] if t.get("marker", {}).get("symbol") == "x"]
    assert len(lost) == len(RULES)
    assert lost[0]["y"][0] == pytest.approx(max(whole["layout"]["yaxis"]["range"]))
    assert near["layout"]["yaxis"]["range"][0] < 0.5
    assert budget["data"][0]["y"] == [None, 3.0, 1.0]
    assert "top1 of at most 0.6" in page.text


def test_names_of_tuned_rules_stay_text(tmp_path):
    for text in INJECTIONS:
        rules = {f"{text}{name}": rule for name, rule in RULES.items()}
        page = write_page(tuned_comparison(rules, title=text), tmp_path).read_text("utf-8")
        assert_nothing_acts(page, text, 3)


INJECTIONS = (
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "\"'><img src=x onerror=alert(2)>",
    "javascript:alert(3)",
    "%{x}<a href='https://example.org'>",
)
FIXED = ("kind", "verdict", "status", "scale", "score_on")  # of a few words each


def filled_with(tree, text, key=""):
    """Every text of a tree, and the keys of its tables of texts, replaced."""
    if isinstance(tree, dict):
        free = key in ("changes", "tried", "environment", "versions", "cpu", "data", "train")
        return {
            f"{text}{name}" if free else name: filled_with(value, text, name)
            for name, value in tree.items()
        }
    if isinstance(tree, list):
        return [filled_with(value, f"{text}{i}", key) for i, value in enumerate(tree)]
    known = key in FIXED or tree in ("inf", "-inf", "nan")
    return text if isinstance(tree, str) and not known else tree


def assert_nothing_acts(page, text, scripts):
    assert len(page.encode()) <= LARGEST_PAGE
    found = Reader(page)
    kinds = [tag for tag, _ in found.elements]
    assert kinds.count("script") == scripts
    assert not {"img", "a", "iframe", "object", "link", "base"} & set(kinds)
    for tag, attributes in found.elements:
        assert not set(attributes) & set(LOADING), (tag, attributes)
        assert not [name for name in attributes if name.startswith("on")]
    for script in found.scripts:
        assert "<!--" not in script
    json.loads(found.scripts[0])
    assert text in found.text
    return found


@pytest.mark.parametrize("text", INJECTIONS)
def test_no_text_of_any_file_gets_out_of_its_place(text, tmp_path):
    """Each of the three pages with every text of its file replaced, and the activation of a run."""
    example(tmp_path / "c", {BASELINE: ORDINARY[BASELINE], "x": ORDINARY["adam"]})
    tree = json.loads((tmp_path / "c" / "comparison.json").read_text())
    rows = [{**row, "setting": f"{i}"} for i, row in enumerate(tree["rows"])]
    runs = [{**run, "folder": "runs/0-0"} for run in tree["runs"]]
    hostile_tree = filled_with({**tree, "rows": rows}, text)
    names = [row["setting"] for row in hostile_tree["rows"]]
    hostile_tree["runs"] = [{**run, "setting": names[0]} for run in runs]
    assert_nothing_acts(_page_of(hostile_tree, tmp_path / "c"), text, 3)

    plan = make("voc", settings=["arctan(0.1, 20)"], seeds=1)
    outcomes = {}
    for config in plan.runs():
        place = tmp_path / "t" / "runs" / digest(config)
        write_run(place, 0.5, config.seed, None)
        outcomes[digest(config)] = Outcome(place, read_result(place))
    table = conclude(plan, tmp_path / "t", outcomes)
    hostile_table = read(filled_with(table.model_dump(mode="json"), text), Filled)
    assert_nothing_acts(table_page.render(hostile_table), text, 2)

    flat = {"w": [-1.0, 0.0, 1.0], "losses": [1.0, 0.5, 1.0], "each": [], "shape": None}
    found = {
        **{"title": text, "checkpoint": text, "said": text, "step": 1, "samples": 2, "seed": 0},
        "curve": {**flat, "why": text},
        "surface": {"axis": [0.0, 1.0], "losses": [[1.0, 2.0], [3.0, 4.0]]},
        "line": {**flat, "to": text},
    }
    assert_nothing_acts(landscape_page.render(found), text, 3)


def _page_of(tree, folder):
    (folder / "comparison.json").write_text(json.dumps(tree))
    return write_page(read_comparison(folder), folder).read_text("utf-8")
