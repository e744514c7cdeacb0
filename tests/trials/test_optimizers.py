"""The optimizer a run is asked for is the one that a script with these values would have made."""

import pytest
import torch

import gaf
from gaf.common.errors import GafError
from tests.trials.helpers import asked, same, train, weights

SGD = {"lr": 0.1, "momentum": 0.9, "weight_decay": 5e-4}


@pytest.fixture
def trial_of(monkeypatch, tmp_path):
    return lambda **request: asked(monkeypatch, tmp_path, **request)


def trained(make, *shapes):
    params = weights(*shapes)
    return train(make(params), params)


def test_by_itself_it_is_what_the_script_would_have_without_a_trial(tmp_path, monkeypatch):
    monkeypatch.delenv("GAF_TRIAL", raising=False)
    for rule, arguments in [
        ("sgd", SGD),
        ("sgd+arctan(0.1, 20)@momentum", SGD),
        ("rmsprop", {"lr": 0.01}),
        ("adam-atan2", {}),
    ]:
        own = trained(lambda params: gaf.trial().optimizer(rule, params, **arguments))  # noqa: B023
        assert same(own, trained(lambda p: gaf.create_optimizer(rule, p, **arguments)))  # noqa: B023
    made = gaf.trial().optimizer(torch.optim.SGD, weights(), lr=0.1)
    assert type(made) is torch.optim.SGD
    assert gaf.trial().seed == 0


def test_a_request_without_changes_is_the_script_itself(trial_of):
    made = trained(lambda params: trial_of().optimizer("sgd", params, **SGD))
    assert same(made, trained(lambda params: torch.optim.SGD(params, **SGD)))


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"factor": 3.0}, lambda p: torch.optim.SGD(p, **{**SGD, "lr": 0.1 * 3.0})),
        (
            {"activation": "arctan(0.1, 20)"},
            lambda p: gaf.SGD(p, **SGD, activation="arctan(0.1, 20)", placement="momentum"),
        ),
        (
            {"activation": "tanh(0.2, 10)", "placement": "gradient", "factor": 0.5},
            lambda p: gaf.SGD(
                p, **{**SGD, "lr": 0.05}, activation="tanh(0.2, 10)", placement="gradient"
            ),
        ),
        (
            {"activation": "auto", "factor": 2.0},
            lambda p: gaf.SGD(p, **{**SGD, "lr": 0.2}, activation=gaf.Auto()),
        ),
        (
            {"rule": "adam", "lr": 0.001, "factor": 3.0},
            lambda p: torch.optim.Adam(p, lr=0.1 / 0.1 * 0.001 * 3.0, weight_decay=5e-4),
        ),
        (
            {"rule": "adamw", "lr": 0.001, "activation": "arctan(1.27, 1)", "placement": "momentum",
             "arguments": {"betas": [0.9, 0.99], "eps": 0}},
            lambda p: gaf.create_optimizer("adam-atan2", p, lr=0.001, weight_decay=5e-4),
        ),
        ({"rule": "rmsprop", "lr": 0.01},
         lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.9, weight_decay=5e-4)),
        ({"rule": "signsgd", "lr": 0.01, "arguments": {"momentum": 0.0}},
         lambda p: gaf.create_optimizer("signsgd", p, lr=0.01, weight_decay=5e-4)),
    ],
)  # fmt: skip
def test_what_is_asked_is_what_is_made(trial_of, request_, expected):
    made = trained(lambda params: trial_of(**request_).optimizer("sgd", params, **SGD))
    assert same(made, trained(expected))


def test_a_rule_of_an_installed_package(trial_of):
    lion = pytest.importorskip("lion_pytorch").Lion
    trial = trial_of(rule="lion_pytorch:Lion", lr=1e-3, factor=2.0)
    params = weights()
    made = trial.optimizer("sgd", params, **SGD)
    assert type(made) is lion
    assert trial._records[""]["dropped"] == ["momentum"]
    ended = train(made, params)
    assert same(ended, trained(lambda p: lion(p, lr=0.1 / 0.1 * 1e-3 * 2.0, weight_decay=5e-4)))
    own = trial_of(factor=1.0).optimizer("lion_pytorch:Lion", weights(), lr=1e-3)
    assert type(own) is lion


@pytest.mark.parametrize("rule", ["os:system", "nowhere_at_all:Lion", "torch:Tensor", "adamm"])
def test_what_is_no_optimizer_is_refused(trial_of, rule):
    with pytest.raises(GafError, match=rule):
        trial_of(rule=rule, lr=0.1).optimizer("sgd", weights(), lr=0.1)


def test_arguments_that_another_rule_does_not_know_are_dropped_and_recorded(trial_of):
    params = weights((2, 2), (2,))
    groups = [{"params": params[:1], "momentum": 0.5, "lr": 0.4}, {"params": iter(params[1:])}]
    trial = trial_of(rule="adam", lr=0.001)
    made = trial.optimizer("sgd", groups, lr=0.1, nesterov=True, momentum=0.9, weight_decay=0.1)
    record = trial._records[""]
    assert record["dropped"] == ["momentum", "nesterov"]
    assert (record["rule"], record["script_rule"]) == ("Adam", "SGD")
    assert record["script_lr"] == [0.4, 0.1]
    assert [group["lr"] for group in record["groups"]] == pytest.approx([0.004, 0.001])
    assert all("momentum" not in group for group in made.param_groups)
    assert [group["weight_decay"] for group in made.param_groups] == [0.1, 0.1]
    assert groups[0].keys() == {"params", "momentum", "lr"}  # the script's own stay as they were


def test_the_rate_is_a_factor_on_the_rate_of_every_group(trial_of):
    params = weights((2,), (2,), (2,))
    groups = [{"params": params[0], "lr": 1.0}, {"params": [params[1]], "lr": 0.01}]
    trial = trial_of(factor=3.0)
    made = trial.optimizer("sgd", groups, lr=0.1, momentum=0.9)
    made.add_param_group({"params": [params[2]]})
    assert [g["lr"] for g in made.param_groups] == pytest.approx([3.0, 0.03, 0.3])
    assert trial.rate(0.5) == pytest.approx(1.5)


def test_the_rate_of_schedulers_is_that_of_the_optimizer(trial_of):
    assert trial_of(factor=3.0).rate(0.1) == pytest.approx(0.3)  # before the optimizer is made, too
    trial = trial_of(rule="adam", lr=0.001, factor=3.0)
    with pytest.raises(GafError, match=r"call trial\.optimizer before"):
        trial.rate(0.1)
    opt = trial.optimizer("sgd", weights(), lr=0.1, momentum=0.9)
    assert trial.rate(0.1) == pytest.approx(0.003)
    schedule = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=trial.rate(0.1), total_steps=10)
    rates = []
    for _ in range(9):
        opt.step()
        schedule.step()
        rates.append(opt.param_groups[0]["lr"])
    assert max(rates) == pytest.approx(0.003, rel=0.1)


def test_a_second_optimizer_has_a_name(trial_of):
    trial = trial_of(rule="adam", lr=0.001)
    first = trial.optimizer("sgd", weights(), lr=0.1)
    with pytest.raises(GafError, match="name="):
        trial.optimizer("sgd", weights(), lr=0.4)
    second = trial.optimizer("sgd", weights(), name="critic", lr=0.4)
    other = trial.optimizer("rmsprop", weights(), name="embedding", lr=0.02)
    # those of one rule keep their ratio, another has the usual rate itself
    assert [opt.defaults["lr"] for opt in (first, second, other)] == pytest.approx(
        [0.001, 0.004, 0.001]
    )
    assert [trial.rate(0.2), trial.rate(0.2, "critic")] == pytest.approx([0.002, 0.002])
    assert trial._records.keys() == {"", "critic", "embedding"}


def test_groups_that_are_left_out_of_f_stay_so(trial_of):
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.LayerNorm(3))
    made = trial_of(activation="arctan(0.1, 20)").optimizer(
        "sgd", gaf.exclude_bias_and_norm(model, activation=None), lr=0.1, momentum=0.9
    )
    assert [gaf.activation_of(group) is None for group in made.param_groups] == [False, True]


@pytest.mark.parametrize(
    ("rule", "arguments", "placement", "expected"),
    [
        ("sgd", SGD, "momentum", {"lr": 0.2, "weight_decay": 5e-4}),
        ("sgd", SGD, "gradient", {"lr": 0.2, "weight_decay": 2.5e-4}),
        ("adam", {"lr": 1e-3}, "gradient", {"lr": 1e-3, "eps": 0.5e-8}),
        ("rmsprop", {"lr": 1e-3}, "update", {"lr": 2e-3}),
    ],
)
def test_the_matched_control_has_the_slope_in_the_place_of_f(
    trial_of, rule, arguments, placement, expected
):
    trial = trial_of(activation="arctan(0.1, 20)", placement=placement, control=True)  # slope 2
    made = trial.optimizer(rule, weights(), **arguments)
    group = made.param_groups[0]
    assert {key: group[key] for key in expected} == pytest.approx(expected)
    assert gaf.activation_of(group) is None


@pytest.mark.parametrize(
    ("kind", "momentum", "placement"),
    [(torch.optim.SGD, 0.9, "momentum"), (torch.optim.SGD, 0.0, "gradient")],
)
def test_a_class_of_torch_has_f_at_the_same_place_as_its_name(trial_of, kind, momentum, placement):
    given = {"lr": 0.1, "momentum": momentum, "weight_decay": 5e-4}
    asked_for = {"activation": "arctan(0.1, 20)"}
    for control in (False, True):
        ended = []
        for rule in (kind, kind.__name__.lower()):
            params = weights()
            made = trial_of(**asked_for, control=control).optimizer(rule, params, **given)
            if not control:
                assert made.param_groups[0]["gaf_placement"] == placement
            ended.append(train(made, params))
        assert same(*ended)
    assert type(trial_of(factor=2.0).optimizer(kind, weights(), lr=0.1)) is kind


def test_another_rule_has_the_weight_decay_that_the_script_has_unsaid(trial_of):
    made = trial_of(rule="adamw", lr=0.001).optimizer("sgd", weights(), lr=0.1)
    assert made.param_groups[0]["weight_decay"] == 0.0
    made = trial_of(rule="adam", lr=0.001).optimizer("adamw", weights(), lr=0.1)
    assert made.param_groups[0]["weight_decay"] == 0.01


def test_there_is_no_control_of_what_is_not_known(trial_of):
    with pytest.raises(GafError, match="what a slope does to RMSprop is not known"):
        trial_of(activation="arctan(0.1, 20)", control=True).optimizer("rmsprop", weights())


def test_there_is_no_control_of_what_has_no_slope(trial_of):
    with pytest.raises(GafError, match="no matched control"):
        trial_of(activation="auto", control=True).optimizer("sgd", weights(), lr=0.1)


def test_a_rule_without_a_rate_is_refused_a_factor(trial_of):
    class Fixed(torch.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {})

        def step(self, closure=None):
            pass

    assert type(trial_of().optimizer(Fixed, weights())) is Fixed
    with pytest.raises(GafError, match="no lr"):
        trial_of(factor=3.0).optimizer(Fixed, weights())


@pytest.mark.parametrize("asked_for", [{"factor": 3.0}, {"rule": "adam", "lr": 0.001}, {}])
def test_a_rate_of_0_that_nothing_changes_is_refused(trial_of, asked_for):
    with pytest.raises(GafError, match="a learning rate of 0, which no factor changes"):
        trial_of(**asked_for).optimizer("sgd", weights(), lr=0.0, momentum=0.9)
    groups = [{"params": weights((2,)), "lr": 0.0}, {"params": weights((3,)), "lr": 0.1}]
    made = trial_of(**asked_for).optimizer("sgd", groups, lr=0.0)  # a group that is frozen
    assert [group["lr"] > 0 for group in made.param_groups] == [False, True]


def test_named_parameters(trial_of):
    model = torch.nn.Linear(2, 2)
    made = trial_of(rule="adam", lr=0.01).optimizer("sgd", model.named_parameters(), lr=0.1)
    assert made.param_groups[0]["param_names"] == ["weight", "bias"]


def test_where_every_group_has_a_rate_another_rule_keeps_their_ratios(trial_of):
    params = weights((2, 2), (2,))
    groups = [{"params": params[:1], "lr": 0.1}, {"params": params[1:], "lr": 0.01}]
    trial = trial_of(rule="adam", lr=0.001)
    made = trial.optimizer("sgd", groups)
    assert [group["lr"] for group in made.param_groups] == pytest.approx([0.001, 0.0001])
    assert trial._records[""]["script_rate"] == 0.1


def test_a_function_that_the_script_has_itself_is_in_its_rules_name(trial_of):
    trial = trial_of(factor=1.0)
    trial.optimizer("sgd+arctan(0.1, 20)", weights(), lr=0.1)
    name = trial._records[""]["script_rule"]
    assert name == "SGD + Arctan(alpha=0.1, beta=20.0)"
