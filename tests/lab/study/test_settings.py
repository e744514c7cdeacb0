"""Settings by name."""

import pytest

import gaf
from gaf.lab.engine.config import OptimizerConfig, matched_control
from gaf.lab.study import recipes
from gaf.lab.study.settings import (
    EXAMPLES,
    MEMBERS,
    PRESETS,
    RATE_FREE,
    at_rate,
    control,
    controls,
    make,
    rate_matters,
    split,
    without_function,
)
from tests.lab.engine import own_rules

RULES = own_rules.__name__
BASE = recipes.get("digits-cnn-sgdm")  # lr 0.1, momentum 0.9, weight decay 5e-4


@pytest.mark.parametrize(
    ("text", "name", "changes"),
    [
        ("baseline", "baseline", {}),
        ("lr x3", "lr x3", {"lr": 0.1 * 3}),
        ("lr*0.5", "lr x0.5", {"lr": 0.05}),
        ("adam", "adam", {"name": "adam", "lr": 0.001, "momentum": 0.0}),
        ("adamw(1e-2)", "adamw(0.01)", {"name": "adamw", "lr": 0.01, "momentum": 0.0}),
        ("clip-value-0.1", "clip-value-0.1", {"clip_value": 0.1}),
        ("clip-norm-5", "clip-norm-5", {"clip_norm": 5.0}),
        ("normalize", "normalize", {"normalize": 1.0}),
        ("normalize-.5", "normalize-0.5", {"normalize": 0.5}),
        ("centralize", "centralize", {"centralize": True}),
        (
            "arctan",
            "arctan(0.1, 20)@momentum",
            {"activation": "arctan(0.1, 20)", "placement": "momentum"},
        ),
        (
            "Log( .2,beta=10 ) @ update",
            "log(0.2, 10)@update",
            {"activation": "log(0.2, 10)", "placement": "update"},
        ),
        ("control(tanh(0.1, 20))", "control(tanh(0.1, 20)@momentum)", {"lr": 0.2}),
        (
            "adam + tanh(0.2, 10)",
            "adam + tanh(0.2, 10)@gradient",
            {
                **{"name": "adam", "lr": 0.001, "momentum": 0.0},
                **{"activation": "tanh(0.2, 10)", "placement": "gradient"},
            },
        ),
        ("lr x0.5 + centralize", "lr x0.5 + centralize", {"lr": 0.05, "centralize": True}),
        (
            "auto( step=.1, decay=0 ) @ momentum",
            "auto(0.1, decay=0)@momentum",
            {"activation": "auto(0.1, decay=0)", "placement": "momentum"},
        ),
        (
            "auto(function='line')",
            "auto(function=line)@gradient",
            {"activation": "auto(function=line)", "placement": "gradient"},
        ),
        ("rmsprop", "rmsprop", {"name": "torch.optim:RMSprop", "lr": 0.01, "momentum": 0.0}),
        ("RMSprop(1e-2)", "rmsprop", {"name": "torch.optim:RMSprop", "lr": 0.01, "momentum": 0.0}),
        (
            "torch.optim:NAdam(lr=.003, betas=[.8, 0.99], weight_decay=0)",
            "nadam(0.003, betas=(0.8, 0.99), weight_decay=0.0)",
            {
                **{"name": "torch.optim:NAdam", "lr": 0.003, "momentum": 0.0, "weight_decay": 0.0},
                "arguments": {"betas": [0.8, 0.99]},
            },
        ),
        (
            f"clip-norm-1 + {RULES}:Halving(share=.25)",
            f"{RULES}:Halving(share=0.25) + clip-norm-1",
            {
                **{"name": f"{RULES}:Halving", "lr": 0.5, "momentum": 0.0, "weight_decay": 0.0},
                **{"arguments": {"share": 0.25}, "clip_norm": 1.0},
            },
        ),
        (
            "rmsprop + arctan(0.1, 20)",
            "rmsprop + arctan(0.1, 20)@gradient",
            {
                **{"name": "torch.optim:RMSprop", "lr": 0.01, "momentum": 0.0},
                **{"activation": "arctan(0.1, 20)", "placement": "gradient"},
            },
        ),
        (
            "untuned + adam(0.01)",
            "adam(0.01) + untuned",
            {"name": "adam", "lr": 0.01, "momentum": 0.0},
        ),
        ("untuned", "baseline + untuned", {}),
    ],
)
def test_a_setting_changes_what_its_name_says_and_nothing_else(text, name, changes):
    setting = make(BASE, text)
    assert setting.name == name
    assert setting.config.optimizer == OptimizerConfig(**{**dict(BASE.optimizer), **changes})
    assert setting.config.model_copy(update={"optimizer": BASE.optimizer}) == BASE
    assert make(BASE, name) == setting  # a name in a table can be typed


@pytest.mark.parametrize("text", [each for each in EXAMPLES if each not in (PRESETS, MEMBERS)])
def test_what_is_suggested_exists(text):
    kind = make(BASE, text).kind
    assert kind in (("rule", "function") if text in gaf.FAMILY else ("baseline", "rule"))


def test_members_of_the_family():
    assert split(["baseline, family"]) == ["baseline", *gaf.FAMILY]
    rule = make(BASE, "adam-atan2(0.01) + lr x3").config.optimizer
    assert (rule.name, rule.lr, rule.eps, rule.betas) == ("adamw", 0.03, 0, (0.9, 0.99))
    assert (rule.activation, rule.placement) == ("arctan(1.27, 1)", "momentum")
    assert (rule.momentum, rule.weight_decay) == (0, BASE.optimizer.weight_decay)
    matched = control(make(BASE, "adam-atan2(0.01)")).config.optimizer
    assert matched.lr == pytest.approx(0.0127)
    assert matched.weight_decay == pytest.approx(BASE.optimizer.weight_decay / 1.27)
    assert matched.eps == 1e-8  # with 0 an element without a gradient would be 0 / 0
    assert make(BASE, "lion").config.optimizer.betas == (0.9, 0.99)
    assert make(BASE, "softsign(0.1, 20)").config.optimizer.activation == "softsign(0.1, 20)"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("adma", "unknown setting 'adma'; did you mean 'adam'"),
        ("clip-vale-0.1", "did you mean 'clip-value-0.1'"),
        ("arctn(0.1, 20)@momentum", "did you mean 'arctan'"),
        ("bseline", "did you mean 'baseline'"),
        ("zzz", "unknown setting 'zzz'; there are adam, adam-atan, adam-atan2, adamw, algebraic"),
        ("", "unknown setting ''"),
        ("clip-norm", "lacks its threshold, as in 'clip-norm-0.1'"),
        ("lr x0", "the setting 'lr x0': lr should be greater than 0"),
        ("arctan(-1, 2)", "alpha must be positive"),
        ("arctan(0.1", "cannot read 'arctan(0.1'"),
        ("arctan@mom", "unknown placement 'mom'; it is one of gradient, momentum, update"),
        ("adam + arctan@updates", "unknown placement 'updates'; did you mean 'update'"),
        ("clip-value-1 + clip-norm-1", "set one of clip_value, clip_norm and normalize"),
        ("control(adam)", "adam has no function"),
        ("tuned + centralize", "leave 'tuned' out"),
        ("adam + adamw", "'adamw' undoes 'adam'; leave one of them out"),
        ("arctan + lr x3 + tanh", "'tanh' undoes 'arctan'"),
        ("arctan@momentum + tanh", "'tanh' undoes 'arctan@momentum'"),
        ("tanh + auto", "cannot be a term of a sum"),
        ("rmspro", "unknown setting 'rmspro'; did you mean 'rmsprop'"),
        ("rmsprop + nadam", "'nadam' undoes 'rmsprop'"),
        ("rmsprop(0.1, 0.9)", "only the rate goes without its name"),
        ("rmsprop(0.1, lr=0.1)", "only the rate goes without its name"),
        ("rmsprop(speed=1)", "RMSprop and its arguments do not fit: got an unexpected keyword"),
        ("rmsprop(lr=fast)", "lacks its rate, as in 'rmsprop(0.001)'"),
        ("rmsprop(-1)", "the setting 'rmsprop(-1)': lr should be greater than 0"),
        ("rmsprop(weight_decay=x)", "weight_decay should be a valid number"),
        ("rmsprop(1 +)", "cannot read 'rmsprop(1 +)'"),
        ("rmsprop + tanh@momentum", "for another optimizer take 'gradient' or 'update'"),
        (f"{RULES}:RateGiven", "lacks its rate, as in"),
        (f"{RULES}:Halving(weight_decay=0.1)", "takes no weight_decay"),
        ("lbfgs", "its step needs 'closure'"),
        ("no_such_package:Rule", "which is not installed: pip install no_such_package"),
        ("control(rmsprop + tanh)", "what a slope does to torch.optim:RMSprop is not known"),
        ("control(sign)", "sign(0.1) jumps at 0, so there is no matched control of it"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(text, complaint):
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the sentence is compared below
        make(BASE, text)
    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)


def test_functions_side_by_side_are_one():
    setting = make(BASE, "lr x3 + tanh(.2, 10) + log@update")
    assert setting.name == "lr x3 + tanh(0.2, 10) + log(0.1, 20)@update"
    assert setting.config.optimizer.activation == "tanh(0.2, 10) + log(0.1, 20)"
    assert make(BASE, setting.name) == setting
    slope = gaf.parse(setting.config.optimizer.activation).slope
    assert slope == 4.0
    assert control(setting).config.optimizer.lr == setting.config.optimizer.lr * slope


def test_a_function_that_jumps_has_no_control_beside_it():
    assert make(BASE, "sign").kind == make(BASE, "biclip(0.1, 1)").kind == "rule"
    assert make(BASE, "clip(0.1)").kind == make(BASE, "line(3)").kind == "function"


@pytest.mark.parametrize("text", ["tanh(0.2, 10)", "clip-norm-0.1", "lr x3", "auto"])
def test_another_rule_may_stand_on_either_side(text):
    setting = make(BASE, f"adamw + {text}")
    assert make(BASE, f"{text} + adamw") == setting
    alone, plain = make(BASE, "adamw"), make(BASE, "baseline")
    assert differing(setting, alone) == differing(make(BASE, text), plain)


def differing(one, other):
    """The keys of the rule in which two settings differ."""
    rules = [dict(each.config.optimizer) for each in (one, other)]
    return {key for key, value in rules[0].items() if value != rules[1][key]}


def test_another_rule_keeps_what_is_done_to_gradients_and_its_own_keys():
    base = make(BASE, "clip-norm-0.1 + centralize").config
    rule = make(base, "adam").config.optimizer
    assert (rule.clip_norm, rule.centralize, rule.weight_decay) == (0.1, True, 5e-4)
    slow = rule.model_copy(update={"betas": (0.8, 0.9)})
    changed = make(base.model_copy(update={"optimizer": slow}), "adamw(0.01)").config.optimizer
    assert (changed.name, changed.lr, changed.betas) == ("adamw", 0.01, (0.8, 0.9))


def test_lists_part_at_commas_outside_brackets_and_presets_are_those_of_the_table():
    found = split(["adam,arctan(0.1,20)@update , clip-norm-0.1", "", "presets"])
    assert found[:3] == ["adam", "arctan(0.1,20)@update", "clip-norm-0.1"]
    table = {each.config.optimizer.activation for each in recipes.groups()[_table_2()]}
    assert {make(BASE, each).config.optimizer.activation for each in found[3:]} == table - {None}
    assert len(found[3:]) == 6


def _table_2():
    return next(name for name in recipes.groups() if name.startswith("Table II:"))


def test_the_control_is_the_engines():
    setting = make(BASE, "log(0.2, 10)@gradient")
    assert control(setting).config.optimizer == matched_control(setting.config).optimizer
    assert control(setting).kind == "control"
    adam = make(BASE, "control(tanh(0.2, 20) + adam)").config.optimizer  # slope 4
    wanted = {"lr": 0.001, "eps": 1e-8 / 4, "weight_decay": 5e-4 / 4}
    assert adam == OptimizerConfig(name="adam", **wanted)


def test_a_recipe_with_a_function_is_parted_into_baseline_and_setting():
    recipe = recipes.get("digits-cnn-sgdm-arctan-0.1-20@update")
    base, names = without_function(recipe)
    assert base.optimizer == BASE.optimizer
    assert make(base, names[0]).config.optimizer == recipe.optimizer
    assert without_function(BASE) == (BASE, [])


@pytest.mark.parametrize(
    ("text", "has_rate"),
    [
        ("baseline", True),
        ("adam", True),
        ("rmsprop", True),
        ("arctan", True),
        ("adam + untuned", False),
        ("auto", False),
        ("auto(function=line)", False),
        ("auto@momentum", False),
        ("auto@update", False),
        ("auto(lr=0.1)", True),  # by which it divides, whatever the group's rate is
        ("adam + auto@gradient", True),  # Adam divides the gradients' level out again
        ("adam + auto", False),
        ("lion + auto", False),
        ("rmsprop + auto", True),
        ("rmsprop + auto@update", False),
    ],
)
def test_which_settings_have_rates(text, has_rate):
    if text == "lion + auto":  # f stands in the place of Lion's sign
        base = BASE.model_copy(update={"optimizer": OptimizerConfig(name="lion", lr=1e-3)})
        setting = make(base, "auto@momentum")
    else:
        setting = make(BASE, text)
    assert setting.has_rate is has_rate


def test_a_rule_that_finds_its_rate_has_no_axis():
    for name in RATE_FREE:  # of packages that need not be installed
        assert not rate_matters(OptimizerConfig(name=name, lr=1.0))


def test_a_setting_without_rates_is_at_one():
    setting = make(BASE, "adam(0.01) + untuned")
    assert (setting.config.optimizer.lr, setting.kind) == (0.01, "rule")
    assert make(BASE, "untuned").kind == "rule"
    assert make(BASE, "baseline").kind == "baseline"


def test_another_rate():
    adam = make(BASE, "adam + tanh(0.2, 10)").config
    faster = at_rate(adam, 0.01)
    assert faster.optimizer == adam.optimizer.model_copy(update={"lr": 0.01})
    assert at_rate(faster, adam.optimizer.lr) == adam
    with pytest.raises(ValueError, match="lr"):
        at_rate(adam, 0.0)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("arctan@momentum", []),
        ("arctan@update", []),
        ("arctan@gradient", ["control(arctan(0.1, 20)@gradient)"]),  # the decay is outside f
        ("clip-norm-1 + arctan", ["control(clip-norm-1 + arctan(0.1, 20)@momentum)"]),
        ("adam + tanh", ["control(adam + tanh(0.1, 20)@gradient)"]),  # eps
        ("adam + tanh@momentum", ["control(adam + tanh(0.1, 20)@momentum)"]),
        ("sign", []),
        ("adam", []),
        ("rmsprop + tanh", []),
        (
            "auto",
            [f"auto(function={name})@gradient" for name in ("line", "clip", "sign")],
        ),
        (
            "adam + auto(0.1)@momentum + clip-norm-1",
            [
                f"adam + auto(0.1, function={name})@momentum + clip-norm-1"
                for name in ("line", "clip", "sign")
            ],
        ),
        ("auto(function=clip)", []),
    ],
)
def test_the_controls_of_a_tuned_study(text, names):
    setting = make(BASE, text)
    found = controls(setting, [make(BASE, "baseline")])
    assert [other.name for other in found] == names
    for other in found:
        assert other.kind == "control"
        assert make(BASE, other.name).config == other.config  # a name in a table can be typed
        assert other.has_rate == make(BASE, other.name).has_rate == setting.has_rate


def test_a_control_that_is_tuned_anyway_is_not_run_twice():
    """Without decay SGD on the gradient is another rate, as is Adam behind the ratio of moments."""
    plain = OptimizerConfig.model_validate({**dict(BASE.optimizer), "weight_decay": 0.0})
    base = BASE.model_copy(update={"optimizer": plain})
    tuned = [make(base, "baseline"), make(base, "adam")]
    assert controls(make(base, "arctan@gradient"), tuned) == []
    behind = make(base, "adam + tanh@momentum")
    assert controls(behind, tuned) == tuned[1:]
    assert controls(behind, tuned[:1]) == [control(behind)]
    assert controls(behind, [make(base, "adam + untuned")]) == [control(behind)]
