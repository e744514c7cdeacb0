"""Tables filled by real trainings of seconds, and what a cell says when a run went wrong or did not run."""

from __future__ import annotations

import csv
import html
import io
import json
import statistics

import pytest
from PIL import Image
from rich.console import Console

from gaf.lab.engine.config import read
from gaf.lab.engine.folder import read_result
from gaf.lab.reports.paper_table import paper_table, scores
from gaf.lab.reports.table_cost import sentences
from gaf.lab.reports.table_page import headline, render, write_all
from gaf.lab.reports.tables import TerminalTable, as_csv, latex, markdown
from gaf.lab.study import results
from gaf.lab.study.grid import Outcome, Stopped, digest, places
from gaf.lab.study.results import Filled
from gaf.lab.study.statistics import holm, paired
from gaf.lab.study.table.cost import Left, bill, estimate, left_to_do
from gaf.lab.study.table.fill import RUNS, check_folder, conclude, fill
from gaf.lab.study.table.plan import make
from gaf.lab.tasks.detection import CHANCE
from tests.axe import axe, needs_npm
from tests.browser import Browser, needs_chromium
from tests.lab.reports.example import write_run
from tests.lab.study.grid_tasks import Here, run_folder

CHANGES = (
    *("task.data=digits", "task.data_options.limit=128", "batch_size=64", "epochs=1"),
    *("accelerator=cpu", "monitor_every=0"),
)


def small(seeds=2, *changes):
    return make(
        "cifar-adam",
        models=["cifar10-resnet34"],
        settings=["arctan(0.1, 20)"],
        seeds=seeds,
        changes=(*CHANGES, *changes),
    )


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("filled") / "t"
    return fill(small(), folder, Here(), command=["gaf", "table"]), folder


def outcomes_of(folder, plan):
    return {key: at.finished() for key, at in places(plan.runs(), folder / RUNS).items()}


def test_ours_beside_the_papers(filled):
    table, folder = filled
    plan = small()
    without, arctan = table.lines
    assert (without.paper, without.paper_gain, without.gain, without.control) == (
        94.14,
        None,
        None,
        None,
    )
    assert (arctan.paper, arctan.paper_gain) == (94.36, 0.22)
    entry = plan.entries[1]
    values = {}
    for name, config in {
        "f": entry.config,
        "control": entry.control,
        "without": plan.entries[0].config,
    }.items():
        runs = [config.model_copy(update={"seed": seed}) for seed in (0, 1)]
        values[name] = [100 * read_result(run_folder(run, folder / RUNS)).score for run in runs]
    assert list(arctan.ours.values) == values["f"]
    assert arctan.ours.mean == pytest.approx(statistics.fmean(values["f"]))
    assert arctan.ours.std == pytest.approx(statistics.stdev(values["f"]))
    assert list(arctan.control.values) == values["control"]
    gain, beyond = paired(values["f"], values["without"]), paired(values["f"], values["control"])
    assert (arctan.gain.mean, arctan.gain.low) == (gain.mean, gain.low)
    assert (arctan.beyond.mean, arctan.beyond.high) == (beyond.mean, beyond.high)
    corrected = holm({"gain": gain.p, "beyond": beyond.p})
    assert arctan.gain.p_corrected == corrected["gain"]
    assert table.comparisons == 2
    assert table.finished
    assert "Not the paper's scale" in table.about
    assert "data digits, f on the gradient" in table.about


def test_finished_runs_are_never_run_again(filled):
    table, folder = filled
    executor = Here()
    again = fill(small(), folder, executor)
    assert executor.asked == []
    assert again.lines == table.lines
    fill(small(3), folder, executor)
    assert {config.seed for config in executor.asked} == {2}
    assert results.read(folder, Filled).seeds == (0, 1, 2)


def test_cells_say_what_became_of_their_runs(filled):
    _, folder = filled
    plan = small()
    there = outcomes_of(folder, plan)
    without, arctan, control = (digest(config) for config in plan.runs()[:3])
    result = there[arctan].result
    assert result is not None
    lost = result.__class__(**{**vars(result), "score": 0.0, "diverged": True})
    seconds = [digest(config) for config in plan.runs()[3:]]
    some = {
        **there,
        without: Outcome(folder / RUNS / without, None, "RuntimeError: <script>alert(1)</script>"),
        arctan: Outcome(folder / RUNS / arctan, lost),
    }
    del some[control], some[seconds[2]]
    table = conclude(plan, folder, some)
    first, second = table.lines
    assert scores(first.ours).endswith("(1 of 2 failed)")
    assert "(1 of 2 diverged)" in scores(second.ours)
    assert second.ours.values[0] == 0.0  # a divergence is a result
    assert scores(second.control) == "not run"
    assert second.beyond is None
    assert second.gain.n == 1  # the seed on which both ended
    assert not table.finished
    page = render(table)
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in page
    assert "RuntimeError" in page
    nothing = conclude(plan, folder, {})
    assert [scores(line.ours) for line in nothing.lines] == ["not run"] * 2
    assert headline(nothing) == "There is nothing to compare yet."
    assert "not run" in markdown(paper_table(nothing))
    render(nothing)


def test_texts_hold_the_same_numbers(filled):
    table, folder = filled
    arctan = table.lines[1]
    shown = f"{arctan.ours.mean:.2f} ± {arctan.ours.std:.2f}"
    assert shown in markdown(paper_table(table))
    assert shown.replace("±", r"$\pm$") in latex(paper_table(table))
    assert shown in render(table)
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(TerminalTable(paper_table(table)))
    wide = console.export_text()
    assert shown in wide
    assert "94.36" in wide
    assert f"{arctan.control.mean:.2f}" in wide
    console = Console(width=60, record=True, file=io.StringIO())
    console.print(TerminalTable(paper_table(table)))
    narrow = console.export_text()
    assert "Not shown: intervals, verdict" in narrow
    assert "94.36" in narrow
    assert all(len(line) <= 60 for line in narrow.splitlines())
    rows = list(csv.DictReader(io.StringIO(as_csv(paper_table(table)))))
    assert float(rows[1]["ours_seed_1"]) == arctan.ours.values[1]
    assert float(rows[1]["control_mean"]) == arctan.control.mean
    assert rows[0]["control_mean"] == ""
    body = latex(paper_table(table)).splitlines()[5:-2]
    assert all(line.count("&") == 8 for line in body if line != r"\hline")
    write_all(table, folder)
    assert {"report.html", "table.md", "table.csv", "table.tex"} <= {
        path.name for path in folder.iterdir()
    }


def test_the_page_asks_nobody(filled):
    page = render(filled[0])
    assert "default-src &#39;none&#39;" in page
    assert "http://" not in page
    assert "https://" not in page
    assert "<link" not in page
    assert page.count("<script") == 2


@pytest.mark.slow
@needs_chromium
def test_the_page_in_a_browser(filled, tmp_path):
    """No complaint, no request, a click sorts, and a phone need not scroll sideways."""
    (tmp_path / "page.html").write_text(render(filled[0]), "utf-8")
    with Browser() as browser:
        page = browser.open(tmp_path / "page.html")
        cells = "[...document.querySelectorAll('table.sortable tbody tr')].map(r => r.cells[2].textContent)"
        assert page.run(cells) == ["94.14", "94.36"]
        for _ in range(2):  # ascending, then descending
            page.run("document.querySelector('table.sortable th:nth-child(3) button').click()")
        assert page.run(cells) == ["94.36", "94.14"]
        page.resize(390, 800)
        assert page.run("document.documentElement.scrollWidth") <= 390
        assert (page.complaints, page.requests) == ([], [])


@pytest.mark.slow
@needs_chromium
@needs_npm
def test_axe_finds_nothing_serious(filled, tmp_path):
    (tmp_path / "page.html").write_text(render(filled[0]), "utf-8")
    with Browser() as browser:
        assert axe(browser.open(tmp_path / "page.html")) == []


def written(folder, plan, *scores):
    """The plan's runs as finished folders, with these scores in turn."""
    outcomes = {}
    for number, config in enumerate(plan.runs()):
        place = folder / RUNS / digest(config)
        if not place.exists():  # two functions may share a control
            write_run(place, scores[number % len(scores)], config.seed, None, name=config.name)
        chance = CHANCE if config.task.kind == "detection" else None  # as the task would say
        result = read_result(place).model_copy(update={"chance": chance})
        outcomes[digest(config)] = Outcome(place, result)
    return conclude(plan, folder, outcomes)


def every_text(table):
    console = Console(width=400, file=io.StringIO())
    console.print(TerminalTable(paper_table(table)))
    shown = console.file.getvalue()
    return {
        "terminal": f"{shown} {table.about} {headline(table)}",
        "page": html.unescape(render(table)),
        "markdown": markdown(paper_table(table)).replace("\\", ""),
        "latex": latex(paper_table(table)),
    }


@pytest.fixture
def voc_subset(tmp_path, monkeypatch):
    """Two images to train on and one to test on, in the place of PASCAL VOC."""
    year = tmp_path / "data" / "voc-subset" / "VOCdevkit" / "VOC2012"
    for folder in ("ImageSets/Main", "Annotations", "JPEGImages"):
        (year / folder).mkdir(parents=True)
    for split, names in {"train": "ab", "val": "c"}.items():
        (year / "ImageSets" / "Main" / f"{split}.txt").write_text("\n".join(names))
        for name in names:
            Image.new("RGB", (20, 20)).save(year / "JPEGImages" / f"{name}.jpg")
            box = "<xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax>"
            thing = f"<object><name>dog</name><bndbox>{box}</bndbox></object>"
            size = "<size><width>20</width><height>20</height></size>"
            xml = f"<annotation>{size}{thing}</annotation>"
            (year / "Annotations" / f"{name}.xml").write_text(xml)
    monkeypatch.setenv("GAF_DATA", str(tmp_path / "data"))


@pytest.mark.usefixtures("voc_subset")
@pytest.mark.parametrize("scale", ["small", "full"])
def test_a_subset_in_the_place_of_the_data_is_told_everywhere(scale, tmp_path):
    plan = make("voc", scale, settings=["arctan(0.1, 20)"], seeds=2)
    table = written(tmp_path / "t", plan, 0.31, 0.35, 0.3)
    used = "a subset of voc (train and val of VOC 2012), 2 training and 1 test samples"
    assert table.title == f"Table IV: its settings on {used}"
    assert table.about.startswith("Not the paper's data: ")
    for name, text in every_text(table).items():
        assert used in text, name
        assert "on PASCAL VOC 2007" not in text, name
        assert "nothing learned" not in text.lower(), name


def test_other_data_than_the_papers_is_in_the_title(filled):
    table = filled[0]
    assert table.title == "Table III: its settings on digits"
    # LaTeX numbers its tables itself
    assert rf"\caption{{its settings on digits. {table.about[:10]}" in latex(paper_table(table))
    old = table.model_copy(update={"caption": ""})  # a record from before there were captions
    assert rf"\caption{{{table.title}. " in latex(paper_table(old))


def test_where_nothing_is_learned_there_is_no_verdict(tmp_path):
    plan = make("voc", settings=["arctan"], seeds=3)
    assert len(plan.runs()) == 3 * 5  # without f, two functions and their controls
    table = written(tmp_path / "t", plan, 0.004, 0.009, 0.006, 0.003, 0.008)
    assert not any(line.learned for line in table.lines)
    assert "as nothing was learned, the differences between settings mean nothing" in table.about
    for name, text in every_text(table).items():
        assert "othing learned here" in text, name
        assert "may be" not in text, name
        assert "no difference" not in text, name
    rows = list(csv.DictReader(io.StringIO(as_csv(paper_table(table)))))
    assert {row["gain_verdict"] for row in rows} == {""}
    assert {row["learned"] for row in rows} == {"False"}
    # a setting that learns is judged, also where the training without f does not
    some = written(tmp_path / "other", plan, 0.004, 0.5, 0.3, 0.003, 0.008)
    assert [line.learned for line in some.lines] == [False, True, False]
    assert headline(some).startswith("Of 1 settings with f or clipping, over 3 seeds: ")
    assert "Nothing learned here in 1 of 2 settings" in headline(some)


def test_nothing_is_learned_up_to_what_the_task_calls_chance(tmp_path):
    plan = make("voc", settings=["arctan(0.1, 20)"])
    scores = {"at": (CHANCE, CHANCE, CHANCE), "above": (CHANCE, 1.01 * CHANCE, CHANCE)}
    learned = {
        name: [line.learned for line in written(tmp_path / name, plan, *three).lines]
        for name, three in scores.items()
    }
    assert learned == {"at": [False, False], "above": [False, True]}


def test_json_survives(filled):
    _, folder = filled
    assert read((folder / Filled.file).read_text(), Filled).name == "cifar-adam"
    content = json.loads((folder / Filled.file).read_text())
    assert content["lines"][1]["paper"] == 94.36
    (folder / "elsewhere").mkdir()
    with pytest.raises(ValueError, match="holds no table"):
        results.read(folder / "elsewhere", Filled)


def test_other_folders_are_refused(filled, tmp_path):
    _, folder = filled
    with pytest.raises(ValueError, match="holds the table cifar-adam; choose another"):
        check_folder(folder, make("cifar100"))
    (tmp_path / "letter.txt").touch()
    with pytest.raises(ValueError, match="not empty and holds no table"):
        check_folder(tmp_path, small())
    with pytest.raises(ValueError, match="is not a folder"):
        check_folder(tmp_path / "letter.txt", small())


def test_a_stop_leaves_the_table_so_far(tmp_path):
    class OnlyOne(Here):
        def submit(self, config, folder, seen):
            if self.asked:
                raise Stopped(2, 1, 6)
            return super().submit(config, folder, seen)

    with pytest.raises(Stopped):
        fill(small(), tmp_path / "t", OnlyOne())
    table = results.read(tmp_path / "t", Filled)
    assert not table.finished
    assert table.lines[0].ours.not_run == (1,)
    assert table.lines[1].ours.not_run == (0, 1)


def test_what_is_left_and_what_it_costs(filled, tmp_path):
    _, folder = filled
    plan = small(3)
    fill(small(), folder, Here())
    timed = []
    left = left_to_do(plan.runs(), folder / RUNS, timed.append)
    assert [len(each.todo) + len(each.done) for each in left] == [3, 3, 3]
    assert all(each.cost.measured for each in left)
    assert timed == []
    fresh = left_to_do(plan.runs(), tmp_path, timed.append)
    assert [each.todo for each in fresh] == [(0, 1, 2)] * 3
    assert timed == ["timing a step of resnet34-cifar"]  # once: the rules take the same
    cost = fresh[0].cost
    assert cost.steps == 2
    total = bill(fresh, 2)
    assert total.operations == pytest.approx(9 * cost.operations)
    assert total.seconds == pytest.approx(9 * cost.seconds)
    told = " ".join(sentences(total))
    assert "9 runs to train; 0 finished before." in told
    assert "with 2 at once" in told


def test_operations_of_a_known_model():
    """ResNet-50 on ImageNet: 4.09 thousand million multiplications with additions an image."""
    config = make("imagenet", "full", models=["resnet50"]).entries[0].config
    cost = estimate(config)
    work = 150 * (1_281_167 // 64 + 1) * 64 + 150 * 50_000 / 3
    assert cost.operations == pytest.approx(3 * 2 * 4.09e9 * work, rel=0.01)
    assert cost.steps == 150 * 20_019
    if cost.seconds is None:  # half precision, and no GPU
        assert "not timed here" in " ".join(sentences(bill([Left(config, (0,), (), cost)], 1)))
