"""Configs are strict, survive JSON, and have a matched control that is one."""

import pytest
import torch

from gaf.lab.engine.config import (
    OptimizerConfig,
    RunConfig,
    TaskConfig,
    keys,
    matched_control,
    override,
    read,
    unknown_key,
)
from gaf.lab.engine.optimizers import make_optimizer
from gaf.lab.study.results import Comparison

BASE = {
    "name": "a",
    "task": {"data": "digits", "model": "mlp"},
    "epochs": 3,
    "optimizer": {"momentum": 0.9, "activation": "arctan(0.1, 20)", "weight_decay": 5e-4},
}


def test_a_config_survives_json():
    changes = ["task.model_options.depth=8", "schedule.name=step"]
    config = override(read(BASE), [*changes, "schedule.milestones=[1, 2.5]"])
    assert read(config.model_dump_json()) == config
    assert config.schedule.milestones == (1, 2.5)


def test_a_config_is_frozen():
    with pytest.raises(ValueError, match="frozen"):
        read(BASE).seed = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("optimizer.lrr=1", "no key 'optimizer.lrr'; did you mean 'optimizer.lr'"),
        ("lr=1", "did you mean 'optimizer.lr'"),
        ("optimizer=3", "no key 'optimizer'"),
        ("task.optionz.x=3", "no key 'task.optionz.x'"),
        ("epochs=ten", "epochs should be a valid integer, got 'ten'"),
        ("epochs=true", "epochs should be a valid integer, got True"),
        ("epochs=0", "epochs should be greater than or equal to 1, got 0"),
        ("epochs=null", "set epochs or iterations"),
        ("optimizer.lr=fast", "optimizer.lr should be a valid number, got 'fast'"),
        ("optimizer.lr=-1", "optimizer.lr should be greater than 0, got -1"),
        ("optimizer.lr=Infinity", "optimizer.lr should be a finite number"),
        ("optimizer.betas=[0.8, 0.9]", "sgd has no betas"),
        ("optimizer.activation=arctn(1, 2)", "did you mean 'arctan'"),
        ("optimizer.activation=null", None),
        ("optimizer.placement=velocity", "it is one of gradient, momentum, update"),
        ("optimizer.nesterov=1", "valid boolean"),
        ("optimizer.clip_norm=0", "greater than 0"),
        ("precision=16", "'32-true', 'bf16-mixed' or '16-mixed', got 16"),
        ("accumulate=3", "does not divide"),
        ("seed=-1", "seed should be"),
        ("task.kind=a:b", "belongs to built-in tasks"),
        ("task.model_options=3", "task.model_options should be"),
        ("no equals sign", "is not key=value"),
        ("name=123", None),
        ("iterations=10", None),
        ("schedule.milestones=[3]", "milestones belongs to the schedule 'step', not to 'cosine'"),
        ("schedule.gamma=0.5", "gamma belongs to the schedule 'step', not to 'cosine'"),
        ("threads=null", None),
        ("task.model_options.a.b=3", None),
    ],
)
def test_each_change_is_made_or_refused_in_a_sentence(change, says):
    if says is None:
        override(read(BASE), [change])
        return
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the text is compared below
        override(read(BASE), [change])
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_changes_are_judged_together():
    adam = ["optimizer.name=adam", "optimizer.momentum=0", "optimizer.betas=[0.8, 0.9]"]
    assert override(read(BASE), adam).optimizer.betas == (0.8, 0.9)
    assert override(read(BASE), ["iterations=7"]).epochs is None
    assert override(read(BASE), ["iterations=7", "epochs=null"]).iterations == 7
    for both in (["epochs=2", "iterations=7"], ["iterations=7", "epochs=2"]):
        with pytest.raises(ValueError, match="epochs or iterations, one of the two"):
            override(read(BASE), both)
    with pytest.raises(ValueError, match="floor belongs to the schedule 'cosine'"):
        override(read(BASE), ["schedule.name=constant", "schedule.floor=0.1"])


def test_every_key_can_be_set_to_what_it_is():
    import json

    for key in keys():
        value = read(BASE)
        for part in key.split("."):
            value = getattr(value, part)
        value = json.loads(json.dumps(value, default=lambda part: part.model_dump(mode="json")))
        assert override(read(BASE), [f"{key}={json.dumps(value)}"]) == read(BASE)


@pytest.mark.parametrize(
    "wrong",
    [
        {"nesterov": True},
        {"placement": "moment", "activation": "tanh"},
        {"placement": "gradient"},
        {"name": "adam", "eps": -1e-8},
        {"clip_value": 1.0, "clip_norm": 1.0},
        {"clip_norm": 1.0, "normalize": 1.0},
        {"activation": "nothing"},
    ],
)
def test_rules_that_cannot_be_are_refused(wrong):
    with pytest.raises(ValueError):  # noqa: PT011 - pydantic's own, in many words
        OptimizerConfig(**wrong)


RULES = [
    {"name": "sgd", "momentum": 0.9, "placement": "momentum"},
    {"name": "sgd", "momentum": 0.9, "placement": "update"},
    {"name": "sgd", "momentum": 0.9, "placement": "gradient", "dampening": 0.1},
    {"name": "sgd", "momentum": 0.9, "nesterov": True},
    {"name": "sgd"},
    {"name": "sgd", "clip_value": 1e-6},
    {"name": "adam"},
    {"name": "adamw", "amsgrad": True},
]


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_the_matched_control_does_what_f_does_where_f_is_a_line(rule):
    config = RunConfig(
        name="a",
        task=TaskConfig(data="digits", model="mlp"),
        epochs=1,
        optimizer=OptimizerConfig(lr=0.1, weight_decay=0.01, activation="arctan(0.1, 20)", **rule),
    )
    control = matched_control(config)
    assert control.optimizer.activation is None
    assert control.name != config.name
    torch.manual_seed(0)
    start = 1e-6 * torch.randn(50, dtype=torch.float64)  # f(g) is 2 g to 1e-9 at this size
    grads = 1e-6 * torch.randn(5, 50, dtype=torch.float64)
    found = []
    for each in (config, control):
        w = torch.nn.Parameter(start.clone())
        opt = make_optimizer(each.optimizer, [w])
        for grad in grads:
            w.grad = grad.clone()
            opt.step()
        found.append(w.detach() - start)
    apart = (found[0] - found[1]).abs().max() / found[1].abs().max()
    assert apart < 1e-8  # observed: 3.5e-9


def test_without_an_activation_there_is_no_control():
    config = override(read(BASE), ["optimizer.activation=null"])
    with pytest.raises(ValueError, match="no activation"):
        matched_control(config)


def test_an_unknown_key_names_the_kind_of_file():
    assert unknown_key("zzz", Comparison).startswith("a comparison has no key 'zzz'; there are")
    assert unknown_key("zzz").startswith("a config has no key 'zzz'; there are")
