"""gaf.activate: f in front of any torch optimizer, on p.grad in place, and undone without a trace."""

from __future__ import annotations

import functools

import pytest
import torch
from torch import nn

import gaf
from tests.optim.helpers import (
    BUILT_IN,
    EVERY,
    FOREIGN,
    OTHERS,
    OURS,
    F,
    assert_same,
    backward,
    loss_of,
    make,
    make_model,
    parameters_of,
    snapshot,
    train,
)
from tests.pairs import one_each


def activate_by_hand(opt, f):
    for p in parameters_of(opt):
        if p.grad is not None:
            p.grad.copy_(f(p.grad))


def train_by_hand(model, opt, f, steps):
    """The judge: torch's optimizer on gradients that were activated before its step."""
    for step in steps:
        backward(model, step)
        activate_by_hand(opt, f)
        opt.step()


@one_each(function=OTHERS, name=list(FOREIGN))
def test_each_step_acts_on_another_f_of_the_gradient(name, function):
    check_each_step(name, gaf.parse(function))


@pytest.mark.parametrize("function", BUILT_IN)
@pytest.mark.parametrize("name", FOREIGN)
def test_each_step_acts_on_f_of_the_gradient(name, function):
    check_each_step(name, gaf.parse(f"{function}(0.1, 20)"))


def check_each_step(name, f):
    ours, judge = make_model(), make_model()
    opt = gaf.activate(FOREIGN[name](ours.parameters()), f)
    other = FOREIGN[name](judge.parameters())
    for step in range(4):
        train(ours, opt, range(step, step + 1))
        train_by_hand(judge, other, f, range(step, step + 1))
        assert_same(snapshot(opt), snapshot(other), f"step {step}")


# Every other optimizer that torch has; LBFGS is in test_closure.py.
OTHERS = {
    "Adadelta": torch.optim.Adadelta,
    "Adamax": torch.optim.Adamax,
    "RAdam": torch.optim.RAdam,
    "Adafactor": torch.optim.Adafactor,
}


@pytest.mark.parametrize("name", OTHERS)
def test_the_rest_of_torch(name):
    ours, judge = make_model(), make_model()
    opt = gaf.activate(OTHERS[name](ours.parameters()), F)
    other = OTHERS[name](judge.parameters())
    train(ours, opt, 3)
    train_by_hand(judge, other, F, range(3))
    assert_same(snapshot(opt), snapshot(other))


def test_the_list_of_torch_optimizers_is_complete():
    named = {torch.optim.LBFGS, torch.optim.SparseAdam, *OTHERS.values()}
    named |= {torch.optim.Muon} if hasattr(torch.optim, "Muon") else set()
    named |= {factory.func for factory in FOREIGN.values()}
    there = {c for c in vars(torch.optim).values() if isinstance(c, type)}
    assert {c for c in there if issubclass(c, torch.optim.Optimizer)} - {
        torch.optim.Optimizer
    } == named


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this torch has no Muon")
def test_muon_takes_matrices():
    ours, judge = make_model(), make_model()
    opts = [
        torch.optim.Muon([m[0].weight, m[2].weight], lr=0.02, weight_decay=0.1)
        for m in (ours, judge)
    ]
    gaf.activate(opts[0], F)
    train(ours, opts[0], 2)
    train_by_hand(judge, opts[1], F, range(2))
    assert_same(snapshot(opts[0]), snapshot(opts[1]))


@pytest.mark.parametrize(
    "factory",
    [
        functools.partial(torch.optim.SparseAdam, lr=0.01),
        functools.partial(torch.optim.Adagrad, lr=0.1),
        functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9),
    ],
    ids=["sparseadam", "adagrad", "sgd"],
)
def test_sparse_gradients(factory):
    def run(activated):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            table = nn.Embedding(6, 3, sparse=True)
        opt = factory(list(table.parameters()))
        if activated:
            gaf.activate(opt, F)
        for rows in ([1, 2, 2], [0, 2, 5], [5, 5, 5]):
            opt.zero_grad()
            (table(torch.tensor(rows)) ** 2).sum().backward()
            if not activated:
                table.weight.grad = F(table.weight.grad)
            opt.step()
            assert table.weight.grad.is_sparse
        return snapshot(opt)

    assert_same(run(True), run(False))


@pytest.mark.parametrize("name", FOREIGN)
def test_p_grad_is_activated_in_place(name):
    model = make_model()
    opt = gaf.activate(FOREIGN[name](model.parameters()), F)
    backward(model, 0)
    given = [(p.grad, p.grad.clone()) for p in model.parameters()]
    opt.step()
    for p, (tensor, before) in zip(model.parameters(), given, strict=True):
        assert p.grad is tensor
        assert_same(p.grad, F(before))


@pytest.mark.parametrize("name", FOREIGN)
def test_the_same_object_comes_back(name):
    opt = FOREIGN[name](make_model().parameters())
    kind = type(opt)
    assert gaf.activate(opt, F) is opt
    assert type(opt) is kind
    assert gaf.is_activated(opt)
    assert gaf.activation_of(opt.param_groups[0]) == F


@pytest.mark.parametrize("name", FOREIGN)
def test_deactivate_restores_torch(name):
    ours, judge = make_model(), make_model()
    opt, other = FOREIGN[name](ours.parameters()), FOREIGN[name](judge.parameters())
    attributes, keys, defaults = set(vars(opt)), list(opt.param_groups[0]), dict(opt.defaults)
    gaf.activate(opt, F)
    gaf.Monitor(opt)
    train(ours, opt, 2)
    assert gaf.deactivate(opt) is opt
    assert not gaf.is_activated(opt)
    assert set(vars(opt)) == attributes
    assert list(opt.param_groups[0]) == keys
    assert opt.defaults == defaults
    assert not opt._optimizer_step_pre_hooks
    assert not opt._optimizer_step_post_hooks
    assert not opt._optimizer_load_state_dict_pre_hooks

    train_by_hand(judge, other, F, range(2))
    train(ours, opt, range(2, 5))
    train(judge, other, range(2, 5))
    assert_same(snapshot(opt), snapshot(other))
    assert_same(opt.state_dict(), other.state_dict())

    gaf.activate(opt, F)  # and once more
    train(ours, opt, range(5, 6))
    train_by_hand(judge, other, F, range(5, 6))
    assert_same(snapshot(opt), snapshot(other))


@pytest.mark.parametrize("name", ["rmsprop", "asgd"])
def test_the_optimizer_keeps_its_own_alpha(name):
    plain = FOREIGN[name](make_model().parameters())
    opt = gaf.activate(FOREIGN[name](make_model().parameters()), gaf.Tanh(0.3, 7))
    assert opt.param_groups[0]["alpha"] == plain.param_groups[0]["alpha"]
    schedule = gaf.ParamScheduler(opt, alpha=gaf.Ramp(0.5, 1.0, steps=2))
    schedule.step()
    assert opt.param_groups[0]["alpha"] == plain.param_groups[0]["alpha"]
    assert opt.defaults["alpha"] == plain.defaults["alpha"]
    assert gaf.activation_of(opt.param_groups[0]) == gaf.Tanh(0.75 * 0.3, 7)
    gaf.deactivate(opt)
    assert opt.param_groups[0]["alpha"] == plain.param_groups[0]["alpha"]


def test_groups_of_their_own():
    def groups(model):
        return [{"params": list(layer.parameters())} for layer in (model[0], model[2])]

    ours, judge = make_model(), make_model()
    mine = groups(ours)
    mine[0]["activation"] = None
    opt = gaf.activate(torch.optim.RMSprop(mine), "tanh(0.2, 10)")
    other = torch.optim.RMSprop(groups(judge))
    f = gaf.Tanh(0.2, 10)
    for step in range(3):
        train(ours, opt, range(step, step + 1))
        backward(judge, step)
        for p in judge[2].parameters():
            p.grad.copy_(f(p.grad))
        other.step()
    assert_same(snapshot(opt), snapshot(other))
    assert [gaf.activation_of(group) for group in opt.param_groups] == [None, f]
    assert all("activation" not in group for group in opt.param_groups)


@pytest.mark.parametrize("own", [{}, {"activation": None}, {"activation": "log(0.2, 10)"}])
def test_a_group_added_later(own):
    ours, judge = make_model(), make_model()
    opt = gaf.activate(torch.optim.RMSprop(ours[0].parameters()), F)
    opt.add_param_group({"params": ours[2].parameters(), "lr": 0.02, **own})
    f = gaf.parse(own["activation"]) if own.get("activation") else (None if own else F)
    assert gaf.activation_of(opt.param_groups[1]) == f
    assert "activation" not in opt.param_groups[1]
    other = torch.optim.RMSprop(judge[0].parameters())
    other.add_param_group({"params": judge[2].parameters(), "lr": 0.02})
    for step in range(2):
        train(ours, opt, range(step, step + 1))
        backward(judge, step)
        for p in judge[0].parameters():
            p.grad.copy_(F(p.grad))
        for p in judge[2].parameters():
            p.grad.copy_(f(p.grad) if f else p.grad)
        other.step()
    assert_same(snapshot(opt), snapshot(other))


def test_a_bad_group_added_later_changes_nothing():
    model = make_model()
    opt = gaf.activate(torch.optim.RMSprop(model[0].parameters()), F)
    group = {"params": model[2].parameters(), "activation": "arctang"}
    with pytest.raises(ValueError, match="did you mean 'arctan'"):
        opt.add_param_group(group)
    assert len(opt.param_groups) == 1
    assert group["activation"] == "arctang"
    with pytest.raises(TypeError, match="must be a dict"):
        opt.add_param_group(list(model[2].parameters()))


def test_a_bad_group_leaves_the_optimizer_as_it_was():
    model = make_model()
    opt = torch.optim.RMSprop(
        [
            {"params": model[0].parameters()},
            {"params": model[2].parameters(), "activation": "tanhh"},
        ]
    )
    attributes, keys = set(vars(opt)), [list(group) for group in opt.param_groups]
    with pytest.raises(ValueError, match="did you mean 'tanh'"):
        gaf.activate(opt, F)
    assert set(vars(opt)) == attributes
    assert [list(group) for group in opt.param_groups] == keys
    assert "gaf_function" not in opt.defaults
    assert not gaf.is_activated(opt)


@pytest.mark.parametrize("name", ["sgd-single", "adam-foreach", "sgd-fused", "rmsprop"])
def test_maximize(name):
    ours, judge = make_model(), make_model()
    opt = gaf.activate(FOREIGN[name](ours.parameters(), maximize=True), F)
    other = FOREIGN[name](judge.parameters(), maximize=True)
    train(ours, opt, 3)
    train_by_hand(judge, other, F, range(3))
    assert_same(snapshot(opt), snapshot(other))


def test_parameters_without_gradients_and_frozen_ones():
    model = make_model()
    model[0].weight.requires_grad_(False)
    opt = gaf.activate(torch.optim.Adam(model.parameters()), F)
    before = snapshot(opt)
    train(model, opt, 1)
    model.zero_grad()
    opt.step()  # no gradients at all
    after = snapshot(opt)
    assert_same(after["params"][0], before["params"][0])
    assert not after["state"][0]
    assert model[0].weight.grad is None
    assert all(p.grad is None for p in model.parameters())


def gradients_at(model, step):
    backward(model, step)
    return [p.grad.clone() for p in model.parameters()]


def give(model, grads):
    for p, g in zip(model.parameters(), grads, strict=True):
        p.grad = g.clone()


@pytest.mark.parametrize("name", EVERY)
def test_accumulated_gradients_are_activated_once_after_the_sum(name):
    model, summed = make_model(), make_model()
    opt, sum_opt = (make(name, m.parameters()) for m in (model, summed))
    opt.zero_grad()
    for step in range(2):
        loss_of(model, step).backward()
    opt.step()

    one, two = gradients_at(summed, 0), gradients_at(summed, 1)
    give(summed, [a + b for a, b in zip(one, two, strict=True)])
    sum_opt.step()
    assert_same(snapshot(opt), snapshot(sum_opt))


@pytest.mark.parametrize("name", ["ours:sgd", "activated:sgd-single", "activated:sgd-fused"])
def test_the_sum_of_f_is_something_else(name):
    model, judge = make_model(), make_model()
    opt = make(name, model.parameters())
    opt.zero_grad()
    for step in range(2):
        loss_of(model, step).backward()
    opt.step()
    one, two = gradients_at(judge, 0), gradients_at(judge, 1)
    worst = 0.0
    for p, w, a, b in zip(model.parameters(), judge.parameters(), one, two, strict=True):
        torch.testing.assert_close(p, w - 0.1 * F(a + b), rtol=1e-6, atol=1e-7)
        worst = max(worst, (p - (w - 0.1 * (F(a) + F(b)))).abs().max().item())
    assert worst > 1e-3


def test_hooks_of_the_user_run_in_the_order_of_registration():
    model = make_model()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []

    def note(optimizer, args, kwargs):
        seen.append(model[0].bias.grad.clone())

    opt.register_step_pre_hook(note)
    gaf.activate(opt, F)
    handle = opt.register_step_pre_hook(note)
    backward(model, 0)
    raw = model[0].bias.grad.clone()
    opt.step()
    assert_same(seen, [raw, F(raw)])
    handle.remove()
    assert gaf.is_activated(opt)


@pytest.mark.parametrize("name", FOREIGN)
def test_activating_twice_is_refused(name):
    opt = gaf.activate(FOREIGN[name](make_model().parameters()), F)
    with pytest.raises(ValueError, match=r"activated already; call gaf\.deactivate first"):
        gaf.activate(opt, F)


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("activation", [F, None])
def test_ours_are_refused(name, activation):
    opt = OURS[name](make_model().parameters(), activation=activation)
    with pytest.raises(ValueError, match=r"has an activation of its own: pass it as activation="):
        gaf.activate(opt, F)


def test_lbfgs_with_a_line_search_is_refused():
    model = make_model()
    opt = torch.optim.LBFGS(model.parameters(), line_search_fn="strong_wolfe")
    with pytest.raises(ValueError, match=r"line search .* use line_search_fn=None"):
        gaf.activate(opt, F)
    assert not gaf.is_activated(opt)
    activated = gaf.activate(torch.optim.LBFGS(model.parameters()), F)
    with pytest.raises(ValueError, match="line search"):  # nor does one come in by the back door
        activated.load_state_dict(opt.state_dict())


def test_differentiable_is_refused():
    w = torch.zeros(2, requires_grad=True)
    opt = torch.optim.SGD([w], lr=0.1, differentiable=True)
    with pytest.raises(ValueError, match=r"autograd cannot follow .* gaf\.SGD or gaf\.Adam"):
        gaf.activate(opt, F)


def test_what_is_no_optimizer_is_refused():
    with pytest.raises(TypeError, match="takes a torch optimizer, got Linear"):
        gaf.activate(nn.Linear(2, 2), F)
    with pytest.raises(ValueError, match=r"was not activated by gaf\.activate"):
        gaf.deactivate(torch.optim.SGD(make_model().parameters(), lr=0.1))


def test_a_step_that_calls_its_parents_step_acts_once():
    """torch runs the hooks of both classes once both have been made."""

    class Child(torch.optim.NAdam):
        def step(self, closure=None):
            return super().step(closure)

    torch.optim.NAdam([torch.zeros(1)])
    for closure in (None, lambda: 0.0):
        w = torch.zeros(3)
        opt = gaf.activate(Child([w], lr=0.1), F)
        for _ in range(2):
            w.grad = torch.full((3,), 0.001)
            opt.step(closure)
            torch.testing.assert_close(w.grad, F(torch.full((3,), 0.001)))


def test_a_step_with_other_arguments():
    class Odd(torch.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": 0.1})

        def step(self, loss_value=None, evaluate=None):
            if evaluate is not None:
                evaluate()
            for p in self.param_groups[0]["params"]:
                p.add_(p.grad, alpha=-1)

    w = torch.zeros(1)
    opt = gaf.activate(Odd([w]), F)
    w.grad = torch.ones(1)
    opt.step(3.0)
    torch.testing.assert_close(w, -F(torch.ones(1)))
    with pytest.raises(TypeError, match="a function that is not its closure"):
        opt.step(evaluate=lambda: None)
