"""Every cell of every table has a recipe, a number of the paper and a control, at both scales."""

from __future__ import annotations

import pytest

from gaf.lab.engine.config import matched_control
from gaf.lab.study import recipes
from gaf.lab.study.grid import digest
from gaf.lab.study.recipes import paper
from gaf.lab.study.table.plan import SCALES, TABLES, make

CELLS = {name: len(table.cells) for name, table in TABLES.items()}


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", TABLES)
def test_every_cell_is_a_recipe_beside_a_number(name, scale):
    plan = make(name, scale)
    table = TABLES[name]
    assert [entry.cell for entry in plan.entries] == list(table.cells.values())
    for entry in plan.entries:
        assert 10 < entry.cell.score < 100
        assert recipes.recipe(entry.config.name).cell == entry.cell
        assert recipes.recipe(entry.config.name).small == (scale == "small")
        assert entry.config.threads
        rule = entry.config.optimizer
        if entry.control is None:
            assert rule.activation is None
        else:
            assert rule.placement == plan.placement
            assert entry.control.optimizer == matched_control(entry.config).optimizer
            assert entry.control.task == entry.config.task
            assert recipes.recipe(entry.control.name).control_of == entry.config.name


@pytest.mark.parametrize("name", TABLES)
def test_the_cell_without_f_comes_first_in_its_row(name):
    seen = set()
    for entry in make(name).entries:
        row = (entry.cell.data, entry.cell.row)
        assert (entry.cell.column == paper.WITHOUT) == (row not in seen)
        seen.add(row)


def test_placements():
    assert make("cifar100").placement == make("imagenet").placement == "momentum"
    assert make("cifar-adam").placement == "gradient"
    for placement in ("momentum", "update", "gradient"):
        plan = make("cifar100", placement=placement)
        where = {each.config.optimizer.placement for each in plan.entries}
        assert where == {None, placement}
        assert len(plan.entries) == CELLS["cifar100"]


@pytest.mark.parametrize(
    ("models", "settings", "rows", "columns"),
    [
        (["resnet50"], [], {"ResNet-50"}, 7),
        (["ResNet-50", "dpn26"], ["tanh"], {"ResNet-50", "DPN-26"}, 3),
        (["DenseNet-CIFAR"], ["Arctan (0.1, 20)"], {"DenseNet-CIFAR"}, 2),
        ([], ["arctan(0.1, 20)", "log(0.2,10)"], None, 3),
        (["cifar100-googlenet"], ["w/o GAF"], {"GoogLeNet"}, 1),
    ],
)
def test_rows_and_columns_by_name(models, settings, rows, columns):
    plan = make("cifar100", models=models, settings=settings)
    assert {entry.cell.row for entry in plan.entries} == (
        rows or {r for _, r, _ in paper.TABLE_2.cells}
    )
    assert len({entry.cell.column for entry in plan.entries}) == columns
    assert plan.entries[0].cell.column == paper.WITHOUT


def test_clippings_and_datasets_by_name():
    assert len(make("imagenet", models=["resnet18"], settings=["clipping"]).entries) == 3
    assert len(make("imagenet", models=["resnet18"], settings=["clip-norm-0.1"]).entries) == 2
    assert {e.cell.data for e in make("cifar-adam", models=["cifar-10"]).entries} == {"CIFAR-10"}
    assert len(make("cifar-adam", models=["cifar10-resnet34"]).entries) == 3
    assert len(make("cifar-adam", models=["resnet34"]).entries) == 6


def test_runs_go_seed_by_seed_and_equal_controls_are_one():
    plan = make("cifar100", models=["dpn26"], seeds=3)
    runs = plan.runs()
    assert [run.seed for run in runs] == sorted(run.seed for run in runs)
    # six functions with a slope of 2 have one control: lr x 2
    assert len({digest(run) for run in runs}) == 3 * (7 + 1)


def test_a_control_follows_a_changed_rate():
    entry = make("cifar100", settings=["arctan"], changes=["optimizer.lr=0.05"]).entries[1]
    assert entry.config.optimizer.lr == 0.05
    assert entry.control.optimizer.lr == 0.1


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"name": "cifar10"}, "there is no table 'cifar10'; did you mean 'cifar100'"),
        ({"scale": "tiny"}, "full or small"),
        ({"seeds": 0}, "at least one seed"),
        ({"models": ["resnet51"]}, "no model 'resnet51'; did you mean 'resnet-50'"),
        ({"settings": ["tan"]}, "no setting 'tan'; did you mean 'tanh'"),
        ({"name": "cifar-adam", "placement": "update"}, "f acts on gradient, not on 'update'"),
        ({"changes": ["optimizer.activation=log(1, 2)"]}, "the table decides"),
        ({"changes": ["devices=2"]}, "each run trains on one device"),
        ({"changes": ["epoch=2"]}, "did you mean 'epochs'"),
    ],
)
def test_one_sentence_for_a_mistake(given, complaint):
    with pytest.raises(ValueError, match=complaint) as caught:
        make(**{"name": "cifar100", **given})
    assert "\n" not in str(caught.value)


def test_a_table_without_recipes(monkeypatch):
    others = [name for name in recipes.names() if "voc" not in name]
    monkeypatch.setattr(recipes, "names", lambda: others)
    with pytest.raises(ValueError, match="no recipes for PASCAL VOC 2007 SSD300"):
        make("voc")
