"""Every recipe: its name, its config, its model, optimizer and schedule, and what the paper fixes."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache

import pytest
import torch

from gaf.lab.engine.config import RunConfig, matched_control, read
from gaf.lab.engine.optimizers import make_optimizer, rate_factor
from gaf.lab.study import recipes
from gaf.lab.study.recipes import paper, tables
from gaf.lab.study.recipes.base import small
from gaf.lab.tasks import models

ALL = [recipes.recipe(name) for name in recipes.names()]
FULL = [each for each in ALL if each.cell and not each.small and not each.control_of]
GROUPS = list(recipes.groups())
# Classes and colours of the datasets that recipes name, written down here and not read from disk.
DATA = {"imagenet": (1000, 3), "cifar10": (10, 3), "cifar100": (100, 3), "digits": (10, 1)}
DATA["voc"] = (20, 3)
DATA |= {"text": (65, 1), "cartpole": (2, 4)}  # characters; actions and numbers that are seen


@cache
def built(data: str, model: str, options: str) -> torch.nn.Module:
    classes, channels = DATA[data]
    with torch.device("meta"):
        size = {"size": 64} if model in models.DECODERS else {}
        chosen = {**size, **json.loads(options)}
        return models.build(model, classes=classes, in_channels=channels, **chosen)


def model_of(config: RunConfig) -> torch.nn.Module:
    return built(config.task.data, config.task.model, json.dumps(config.task.model_options))


def count(config: RunConfig) -> int:
    return sum(p.numel() for p in model_of(config).parameters())


def test_a_short_name_is_a_recipe_and_not_listed():
    assert recipes.get("ssd300-voc-small") == recipes.get("small-voc-ssd300-sgdm")
    assert "ssd300-voc-small" not in recipes.names()


@pytest.mark.parametrize("group", GROUPS)
def test_builds_model_optimizer_and_schedule(group):
    for each in recipes.groups()[group]:
        config = each.config
        rule = config.optimizer
        steps = config.iterations or 10 * config.epochs
        optimizer = make_optimizer(rule, model_of(config).parameters())
        expected = {"lr": rule.lr, "weight_decay": rule.weight_decay}
        if rule.activation:
            expected |= {"gaf_function": rule.activation.partition("(")[0]}
            expected |= {"gaf_placement": rule.placement}
        for param_group in optimizer.param_groups:
            assert expected.items() <= param_group.items(), each.name
        looked_at = range(0, steps, max(1, steps // 2000))
        factors = [
            rate_factor(config.schedule, step, steps, 10) for step in (*looked_at, steps - 1)
        ]
        assert max(factors) == pytest.approx(1.0, abs=1e-4), each.name
        assert all(0 < x <= 1 for x in factors), each.name
        assert factors[-1] < 0.1, each.name


def test_names_are_one_for_each_and_can_be_typed():
    laptop = 3 * (1 + 4 * 3 * 2) + (1 + 5 * 2 * 2)
    beyond = 2 * (1 + 4 * 3 * 2) + 2 * (1 + 4 * 2)
    detection = 2 * (3 + 2 * 3 * 2)
    whole = 2 * (6 * (3 + 2 * 3 * 2) + 6 * (1 + 6 * 3 * 2) + 8 * (1 + 2 * 2))
    assert len(ALL) == laptop + beyond + whole + detection
    every = [each.name for each in tables.table_recipes()]
    assert Counter(every).most_common(1)[0][1] == 1
    for name in recipes.names():
        assert re.fullmatch(r"[a-z0-9.-]+(@(gradient|momentum|update)(\+control)?)?", name), name


@pytest.mark.parametrize(
    "name",
    [
        "cifar100-resnet50-sgdm",
        "cifar100-resnet50-sgdm-tanh-0.2-10@update",
        "cifar100-resnet50-sgdm-arctan-0.1-20@momentum+control",
        "imagenet-se-resnet18-sgdm-clip-value-0.1",
        "imagenet-resnet34-sgdm-clip-norm-0.1",
        "cifar10-preact-resnet34-adam-arctan-0.1-20@gradient",
        "small-cifar100-regnetx-200mf-sgdm-log-0.1-20@gradient",
        "digits-deep-mlp-sgd-arctan-0.01-100000@gradient",
    ],
)
def test_names_stay(name):
    assert recipes.get(name).name == name


@pytest.mark.parametrize("group", GROUPS)
def test_configs_are_valid_and_survive_json(group):
    for each in recipes.groups()[group]:
        assert read(each.config.model_dump_json()) == each.config


@pytest.mark.parametrize("each", FULL, ids=lambda each: each.name)
def test_settings_of_section_4c(each):
    config, rule = each.config, each.config.optimizer
    if each.cell.table == "I":
        assert (config.task.data, config.epochs, config.batch_size) == ("imagenet", 150, 64)
        assert (rule.name, rule.lr, rule.momentum, rule.weight_decay) == ("sgd", 0.1, 0.9, 0.00004)
        assert (config.schedule.name, config.schedule.warmup) == ("cosine", 5)
        assert config.schedule.unit == "epoch"
        assert config.precision == "16-mixed"
    elif each.cell.table == "IV":
        assert (config.task.kind, config.task.data) == ("detection", "voc")
        assert (config.iterations, config.epochs, config.batch_size) == (120_000, None, 32)
        assert (rule.name, rule.lr, rule.momentum, rule.weight_decay) == ("sgd", 0.001, 0.9, 0.0005)
        assert (config.schedule.name, config.schedule.warmup) == ("cosine", 500)
        assert config.schedule.unit == config.schedule.every == "iteration"
    else:
        assert config.task.data == {"CIFAR-10": "cifar10", "CIFAR-100": "cifar100"}[each.cell.data]
        assert (config.epochs, config.batch_size, config.precision) == (200, 256, "32-true")
        assert (config.schedule.name, config.schedule.warmup) == ("cosine", 0)
        assert rule.weight_decay == 0.0005
        sgdm, adam = ("sgd", 0.1, 0.9), ("adam", 0.001, 0.0)
        assert (rule.name, rule.lr, rule.momentum) == (sgdm if each.cell.table == "II" else adam)
    assert config.task.label_smoothing == 0
    assert not rule.nesterov
    assert config.task.model_options == {}


def test_every_cell_has_its_recipes():
    found: dict[paper.Cell, list] = {}
    for each in FULL:
        found.setdefault(each.cell, []).append(each.config.optimizer)
    assert set(found) == {cell for table in paper.TABLES.values() for cell in table.cells.values()}
    for cell, rules in found.items():
        if cell.column == paper.WITHOUT:
            assert [rules[0].activation, rules[0].clip_value, rules[0].clip_norm] == [None] * 3
        elif "clipping" in cell.column:
            clips = {paper.VALUE_CLIPPING: (0.1, None), paper.NORM_CLIPPING: (None, 0.1)}
            assert (rules[0].clip_value, rules[0].clip_norm) == clips[cell.column]
        else:
            shown = {rule.activation for rule in rules}
            assert shown == {cell.column.lower().replace(" ", "", 1)}
            where = {"gradient"} if cell.table == "III" else {"gradient", "momentum", "update"}
            assert {rule.placement for rule in rules} == where
        assert len(rules) == (1 if "(" not in cell.column or cell.table == "III" else 3)


@pytest.mark.parametrize(
    "cell", {each.cell.row: each.cell for each in FULL}.values(), ids=lambda cell: cell.row
)
def test_rows_train_the_model_they_name(cell):
    """By the published count of each row, which tells the models apart."""
    published = {
        "ResNet-18": 11_689_512,
        "ResNet-34": {"ImageNet": 21_797_672, "CIFAR-10": 21_282_122, "CIFAR-100": 21_328_292},
        "ResNet-50": {"ImageNet": 25_557_032, "CIFAR-10": 23_520_842, "CIFAR-100": 23_705_252},
        "SE-ResNet-18": 11_778_592,
        "SE-ResNet-34": 21_958_868,
        "SE-ResNet-50": 28_088_024,
        "DenseNet-CIFAR": 1_035_268,
        "DenseNet-169": 12_643_172,
        "DPN-26": 11_793_812,
        "GoogLeNet": 6_258_500,
        "RegNetX-200MF": 2_355_156,
        "Pre-Act-ResNet-34": {"CIFAR-10": 21_279_306, "CIFAR-100": 21_325_476},
        "Pre-Act-ResNet-50": {"CIFAR-10": 23_509_066, "CIFAR-100": 23_693_476},
        "SSD300": 26_285_486,
    }[cell.row]
    for each in FULL:
        if each.cell.row == cell.row:
            expected = published if isinstance(published, int) else published[each.cell.data]
            assert count(each.config) == expected


def test_controls():
    controls = [each for each in ALL if each.control_of]
    activated = [each.name for each in ALL if each.config.optimizer.activation]
    assert sorted(each.control_of for each in controls) == sorted(activated)
    for each in controls:
        other = recipes.recipe(each.control_of)
        assert each.name == f"{other.name}+control"
        assert (each.cell, each.small, each.group) == (other.cell, other.small, other.group)
        assert each.config.optimizer == matched_control(other.config).optimizer
    of = recipes.get("cifar100-dpn26-sgdm-log-0.2-10@gradient+control").optimizer
    assert (of.lr, of.weight_decay, of.activation) == (0.2, 0.00025, None)


def test_small_counterparts_change_what_costs_time_and_nothing_else():
    for each in FULL:
        less = recipes.recipe(f"small-{each.name}")
        assert less.small
        assert less.cell == each.cell
        assert less.config.optimizer == each.config.optimizer
        assert less.config.schedule.name == each.config.schedule.name
        if each.cell.table == "IV":
            assert less.config.task.data_options == {"limit": 70}
        else:
            assert less.config == small(each.config)
            assert less.config.task.data_options == {"limit": 10_000}
            assert less.config.epochs == 10
        assert 10 * count(less.config) < count(each.config)
        assert (less.config.precision, less.config.threads) == ("32-true", 1)


def test_small_models_of_a_table_differ():
    for data in ("imagenet", "cifar100"):
        baselines = [
            name for name in recipes.names() if re.fullmatch(rf"small-{data}-[a-z0-9-]+-sgdm", name)
        ]
        assert len({count(recipes.get(name)) for name in baselines}) == len(baselines) == 6


def test_small_keeps_the_share_of_the_warm_up():
    config = recipes.get("small-imagenet-resnet18-sgdm")
    assert config.schedule.warmup / config.epochs == pytest.approx(5 / 150)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("cifar100-resnet50-sgd", "did you mean 'cifar100-resnet50-sgdm'"),
        ("cifar100-resnet50-sgdm-arctan-0.1-20", "cifar100-resnet50-sgdm-arctan-0.1-20@update"),
        ("small-digits", "unknown recipe 'small-digits'; "),
        ("ssd300-sgdm-voc-small", "did you mean 'small-voc-ssd300-sgdm'"),
        ("???", "gaf train --list"),
    ],
)
def test_unknown_name(name, near):
    with pytest.raises(ValueError, match=re.escape(near)) as caught:
        recipes.get(name)
    assert len(str(caught.value)) < 300
    assert "\n" not in str(caught.value)
