"""Monitor: the figures by numpy, in words, in files; and it changes nothing."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from torch import nn

import gaf
from tests.optim.helpers import (
    BUILT_IN,
    EVERY,
    OURS,
    F,
    assert_same,
    backward,
    make,
    make_model,
    snapshot,
    train,
)

QUANTILES = (0.01, 0.5, 0.99, 0.999)

NUMPY = {
    "arctan": (lambda x, a, b: a * np.arctan(b * x), lambda a: a * math.pi / 2),
    "tanh": (lambda x, a, b: a * np.tanh(b * x), lambda a: a),
    "log": (lambda x, a, b: a * np.sign(x) * np.log1p(b * np.abs(x)), lambda a: math.inf),
}


def by_numpy(x, function="arctan", alpha=0.1, beta=20.0):
    """The figures of a record for the inputs x of f."""
    f, bound = NUMPY[function]
    x = np.asarray(x, dtype=np.float64).ravel()
    finite = x[np.isfinite(x)]
    alive = finite[finite != 0]
    y, size = np.abs(f(alive, alpha, beta)), np.abs(alive)
    figures = {
        "elements": x.size,
        "nonfinite": x.size - finite.size,
        "zeros": finite.size - alive.size,
        "max": np.abs(finite).max(initial=0.0),
        "linear": np.mean(y >= 0.95 * alpha * beta * size),
        "enlarged": np.mean(y > size),
        "restrained": np.mean(y < size),
        "saturated": np.mean(y >= 0.95 * bound(alpha)),
    }
    return figures, {str(q): np.quantile(np.abs(finite), q) for q in QUANTILES}


def check(record, x, *function):
    """The figures of f's inputs."""
    figures, quantiles = by_numpy(x, *function)
    record = {**record, **record["input"]}
    for name, value in figures.items():
        assert record[name] == pytest.approx(value, rel=1e-12), name
    assert record["quantiles"] == pytest.approx(quantiles, rel=1e-9)


def draw(step, size=1000, spread=0.3):
    """Gradients over several orders of magnitude."""
    rng = np.random.default_rng(step)
    return rng.standard_normal(size) * spread * 10 ** rng.uniform(-3, 1, size)


@pytest.mark.parametrize("function", BUILT_IN)
@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("decay", [0.0, 0.3])
@pytest.mark.parametrize(
    "hyper",
    [
        *({"placement": p} for p in gaf.PLACEMENTS),
        *({"placement": p, "momentum": 0.9, "dampening": 0.2} for p in gaf.PLACEMENTS),
        *({"placement": p, "momentum": 0.9, "nesterov": True} for p in gaf.PLACEMENTS),
    ],
    ids=lambda h: "-".join(map(str, h.values())),
)
def test_what_f_sees_in_each_placement(hyper, decay, maximize, function):
    """The rules again, in numpy: the monitor must see what goes into f, no more and no less."""
    mu, tau = hyper.get("momentum", 0.0), hyper.get("dampening", 0.0)
    f, _ = NUMPY[function]
    w = torch.from_numpy(draw(99)).requires_grad_()
    opt = gaf.SGD([w], lr=0.1, weight_decay=decay, maximize=maximize, activation=function, **hyper)
    monitor = gaf.Monitor(opt)
    x, v = w.detach().numpy().copy(), None
    seen = []
    for step in range(3):
        g = draw(step)
        w.grad = torch.from_numpy(g.copy())
        opt.step()
        d = -g if maximize else g
        if hyper["placement"] == "gradient":
            seen.append(d)
            d = f(d, 0.1, 20.0)
        d = d + decay * x
        if hyper["placement"] == "update":
            d = -0.1 * d
        u = d
        if mu:
            v = d if v is None else mu * v + (1 - tau) * d
            u = d + mu * v if hyper.get("nesterov") else v
        if hyper["placement"] == "gradient":
            x = x - 0.1 * u
        else:
            seen.append(u)
            x = x + f(u, 0.1, 20.0) * (1 if hyper["placement"] == "update" else -0.1)
    np.testing.assert_allclose(w.detach().numpy(), x, rtol=1e-10, atol=1e-12)
    assert [record["step"] for record in monitor.records] == [1, 2, 3]
    for record, inputs in zip(monitor.records, seen, strict=True):
        check(record, inputs, function)
        assert record["function"] == repr(gaf.parse(function))
        assert record["slope"] == 2.0
        assert record["group"] == 0


@pytest.mark.parametrize("name", ["ours:adam", "ours:adamw", "activated:rmsprop"])
def test_gradients_are_what_the_others_see(name):
    w = torch.from_numpy(draw(99)).requires_grad_()
    opt = make(name, [w])
    monitor = gaf.Monitor(opt)
    for step in range(3):
        w.grad = torch.from_numpy(draw(step))
        opt.step()
        check(monitor.latest[0], draw(step))


def test_nonfinite_and_zero_elements_are_counted_apart():
    g = np.array([0.0, -0.0, 1e-4, -0.1, 5.0, math.inf, -math.inf, math.nan])
    monitor = gaf.Monitor()
    w = torch.zeros(8, dtype=torch.float64, requires_grad=True)
    w.grad = torch.from_numpy(g.copy())
    gaf.activate_grad_([w], F, monitor=monitor)
    (record,) = monitor.records
    check(record, g)
    assert (record["elements"], record["zeros"], record["nonfinite"]) == (8, 2, 3)
    assert record["max"] == 5.0
    assert "3 of 8 elements are inf or NaN" in str(monitor)


def test_the_shares_by_hand():
    # slope 2, crossover 0.1166, bound 0.1571: linear below 0.0196, saturated above 0.635
    g = torch.tensor([1e-6, 0.01, 0.1, 0.12, 0.5, 0.7, 100.0, 1e30])
    w = torch.zeros(8, requires_grad=True)
    w.grad = g
    monitor = gaf.Monitor()
    gaf.activate_grad_([w], F, monitor=monitor)
    (record,) = monitor.records
    assert record["linear"] == 2 / 8
    assert record["enlarged"] == 3 / 8
    assert record["restrained"] == 5 / 8
    assert record["saturated"] == 3 / 8


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_other_dtypes(dtype):
    g = torch.from_numpy(draw(0)).to(dtype)
    w = torch.zeros(1000, dtype=dtype, requires_grad=True)
    opt = gaf.SGD([w], lr=0.1, activation=F)
    monitor = gaf.Monitor(opt)
    w.grad = g
    opt.step()
    check(monitor.records[0], g.double().numpy())


def test_complex_and_sparse_inputs():
    parts = draw(1, 200).reshape(100, 2)
    w = torch.zeros(100, dtype=torch.complex128, requires_grad=True)
    table = nn.Embedding(20, 5, sparse=True, dtype=torch.float64)
    opt = gaf.SGD([{"params": [w]}, {"params": table.parameters()}], lr=0.1, activation=F)
    monitor = gaf.Monitor(opt)
    w.grad = torch.view_as_complex(torch.from_numpy(parts.copy()))
    (3 * table(torch.tensor([1, 1, 4]))).sum().backward()
    opt.step()
    check(monitor.latest[0], parts)
    check(monitor.latest[1], [6.0] * 5 + [3.0] * 5)  # rows 1 (twice) and 4; the rest is not there


def test_empty_groups_and_missing_gradients():
    w, empty = torch.zeros(3, requires_grad=True), torch.zeros(0, requires_grad=True)
    opt = gaf.SGD([w, empty], lr=0.1, activation=F)
    monitor = gaf.Monitor(opt)
    assert str(monitor) == "nothing recorded yet"
    opt.step()
    assert monitor.latest[0]["elements"] == 0
    assert math.isnan(monitor.latest[0]["quantiles"]["0.5"])
    empty.grad = torch.zeros(0)
    opt.step()
    assert monitor.latest[0]["elements"] == 0
    w.grad = torch.zeros(3)
    opt.step()
    assert monitor.latest[0]["zeros"] == monitor.latest[0]["elements"] == 3
    assert monitor.latest[0]["linear"] == 0.0
    str(monitor)


def test_quantiles_of_a_sample_are_near():
    rng = np.random.default_rng(0)
    sizes = [200_000, 50, 100_000, 3]
    grads = [rng.standard_normal(size) for size in sizes]
    params = [torch.zeros(size, dtype=torch.float64, requires_grad=True) for size in sizes]
    for p, g in zip(params, grads, strict=True):
        p.grad = torch.from_numpy(g.copy())
    monitor = gaf.Monitor(sample=20_000)
    gaf.activate_grad_(params, F, monitor=monitor)
    everything = np.abs(np.concatenate(grads))
    for q, value in monitor.records[0]["quantiles"].items():
        # the rank of the estimate lies within four standard errors of a sample of 20 000
        rank = np.mean(everything <= value)
        q = float(q)
        assert abs(rank - q) < 4 * math.sqrt(q * (1 - q) / 20_000)
    exact = gaf.Monitor(sample=2**23, quantiles=(0.0, 0.25, 1.0))
    for p, g in zip(params, grads, strict=True):
        p.grad = torch.from_numpy(g.copy())
    gaf.activate_grad_(params, F, monitor=exact)
    expected = {str(q): np.quantile(everything, q) for q in (0.0, 0.25, 1.0)}
    assert exact.records[0]["quantiles"] == pytest.approx(expected)


def test_the_sample_falls_on_all_columns_of_a_matrix():
    grads = [torch.ones(256, 256), torch.ones(3, 256), torch.ones(0)]
    grads[0][:, ::16] = grads[1][:, ::16] = 1e-6
    params = [torch.zeros_like(g, requires_grad=True) for g in grads]
    for p, g in zip(params, grads, strict=True):
        p.grad = g.clone()
    every_16th = sum(g.numel() for g in grads) // 16
    monitor = gaf.Monitor(sample=every_16th, quantiles=(0.0, 0.5), histogram=True)
    gaf.activate_grad_(params, F, monitor=monitor)
    (record,) = monitor.records
    assert record["quantiles"] == pytest.approx({"0.0": 1e-6, "0.5": 1.0})
    assert record["histogram"]["0"] == pytest.approx(15 / 16, abs=0.01)


def test_every_so_many_steps():
    model = make_model()
    opt = make("ours:sgd-momentum", model.parameters())
    monitor = gaf.Monitor(opt, every=3)
    train(model, opt, 8)
    assert [record["step"] for record in monitor.records] == [1, 4, 7]


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("name", EVERY)
def test_monitoring_changes_nothing(name, every):
    model, judge = make_model(), make_model()
    opt, other = make(name, model.parameters()), make(name, judge.parameters())
    monitor = gaf.Monitor(opt, every=every)
    for step in range(4):
        train(model, opt, range(step, step + 1))
        train(judge, other, range(step, step + 1))
        assert_same(snapshot(opt), snapshot(other), f"step {step}")
    assert len(monitor.records) == 4 // every
    assert_same(opt.state_dict(), other.state_dict())


@pytest.mark.parametrize("name", EVERY)
def test_detach(name):
    model = make_model()
    opt = make(name, model.parameters())
    monitor = gaf.Monitor(opt)
    train(model, opt, 2)
    monitor.detach()
    train(model, opt, 2)
    assert len(monitor.records) == 2
    monitor.detach()  # once more is no error
    other = gaf.Monitor(opt)
    train(model, opt, 1)
    assert len(other.records) == 1
    assert len(monitor.records) == 2


def test_a_second_monitor_takes_over_and_the_first_cannot_detach_it():
    model = make_model()
    opt = make("ours:sgd", model.parameters())
    first, second = gaf.Monitor(opt), gaf.Monitor(opt)
    first.detach()
    train(model, opt, 1)
    assert len(second.records) == 1
    assert len(first.records) == 0


def test_groups_are_recorded_apart():
    model = make_model()
    opt = gaf.SGD(
        [
            {"params": [model[0].weight]},
            {"params": [model[0].bias], "activation": None},
            {"params": model[2].parameters(), "activation": "tanh(0.2, 10)"},
        ],
        lr=0.1,
        activation=F,
    )
    monitor = gaf.Monitor(opt)
    backward(model, 0)
    opt.step()
    assert [record["group"] for record in monitor.records] == [0, 1, 2]
    assert "function" not in monitor.latest[1]
    assert monitor.latest[2]["function"] == "Tanh(alpha=0.2, beta=10.0)"
    seen = torch.cat([p.grad.flatten() for p in model[2].parameters()])
    check(monitor.latest[2], seen.double().numpy(), "tanh", 0.2, 10.0)
    assert len(str(monitor).splitlines()) == 2


SMALL = torch.full((1000,), 1e-3)


def in_words(opt, w, grad):
    monitor = gaf.Monitor(opt)
    w.grad = grad.clone()
    opt.step()
    return str(monitor)


@pytest.mark.parametrize(
    ("make_opt", "meaning"),
    [
        (lambda w: gaf.SGD([w], lr=0.1, activation=F), "a learning rate times 2."),
        (
            lambda w: gaf.SGD([w], lr=0.1, weight_decay=1e-3, activation=F),
            "a learning rate times 2 and a weight decay divided by 2.",
        ),
        (
            lambda w: gaf.SGD([w], lr=0.1, momentum=0.9, weight_decay=1e-3, activation=F),
            "a learning rate times 2.",
        ),
        (
            lambda w: gaf.SGD([w], lr=0.1, weight_decay=1e-3, activation=F, placement="update"),
            "a learning rate times 2.",
        ),
        (lambda w: gaf.Adam([w], activation=F), "an eps divided by 2."),
        (
            lambda w: gaf.Adam([w], weight_decay=0.1, activation=F),
            "an eps and a weight decay divided by 2.",
        ),
        (lambda w: gaf.AdamW([w], activation=F), "an eps divided by 2."),
        (lambda w: gaf.activate(torch.optim.RMSprop([w]), F), "gradients times 2."),
        (lambda w: gaf.SGD([w], activation=gaf.Tanh(0.3, 5)), "a learning rate times 1.5."),
    ],
)
def test_the_sentence(make_opt, meaning):
    w = torch.zeros(1000, requires_grad=True)
    text = in_words(make_opt(w), w, SMALL)
    assert text.endswith(f"100 % of elements are in the linear range: here this is {meaning}")
    assert text.startswith("group 0, ")


def test_the_sentence_of_the_issue():
    w = torch.zeros(1000, requires_grad=True)
    grad = SMALL.clone()
    grad[0] = 1.0
    text = in_words(gaf.SGD([w], lr=0.1, activation=F), w, grad)
    assert text == (
        "group 0, Arctan(alpha=0.1, beta=20.0): 99.9 % of elements are in the linear range: "
        "here this is a learning rate times 2."
    )


def test_the_sentence_where_f_does_more():
    w = torch.zeros(1000, requires_grad=True)
    grad = SMALL.clone()
    grad[:600] = 10.0
    text = in_words(gaf.SGD([w], lr=0.1, activation=F), w, grad)
    assert text.endswith(
        "40 % of elements are enlarged, 60 % restrained, 60 % saturated; 40 % are in the linear range."
    )


def strict_json(line):
    def refuse(token):
        raise AssertionError(f"{token} is not JSON")

    return json.loads(line, parse_constant=refuse)


def test_write_jsonl(tmp_path):
    w = torch.zeros(4, requires_grad=True)
    opt = gaf.activate(torch.optim.SGD([w], lr=0.0), "log")  # its bound is inf
    monitor = gaf.Monitor(opt)
    for values in ([0.1, 0.2, 0.3, 0.4], [math.nan, math.inf, 0.0, 1.0], [math.nan] * 4):
        w.grad = torch.tensor(values)
        opt.step()
    path = tmp_path / "monitor.jsonl"
    monitor.write_jsonl(path)
    monitor.write_jsonl(str(path))  # again, over itself
    lines = [strict_json(line) for line in path.read_text("utf-8").splitlines()]
    assert len(lines) == 3
    assert lines[0] == json.loads(json.dumps(monitor.records[0]))
    assert lines[0]["quantiles"]["0.5"] == pytest.approx(0.25)
    assert lines[1]["nonfinite"] == 2
    assert lines[2]["quantiles"]["0.5"] == "nan"
    assert [file.name for file in tmp_path.iterdir()] == ["monitor.jsonl"]
    plain = tmp_path / "plain"
    plain.write_text("")
    assert path.stat().st_mode == plain.stat().st_mode  # readable by whom other files are


def test_write_jsonl_that_fails_leaves_no_rubbish(tmp_path):
    model = make_model()
    opt = make("ours:sgd", model.parameters())
    monitor = gaf.Monitor(opt)
    train(model, opt, 1)
    with pytest.raises(FileNotFoundError):
        monitor.write_jsonl(tmp_path / "missing" / "monitor.jsonl")
    path = tmp_path / "monitor.jsonl"
    path.write_text("old\n")
    monitor.records[0]["note"] = object()  # not JSON
    with pytest.raises(TypeError, match="not JSON serializable"):
        monitor.write_jsonl(path)
    assert path.read_text() == "old\n"
    assert [file.name for file in tmp_path.iterdir()] == ["monitor.jsonl"]


def test_write_tensorboard(tmp_path):
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    model = make_model()
    opt = gaf.SGD(
        [{"params": model[0].parameters()}, {"params": model[2].parameters()}],
        lr=0.1,
        activation=F,
    )
    monitor = gaf.Monitor(opt)
    train(model, opt, 3)
    with tensorboard.SummaryWriter(tmp_path) as writer:
        monitor.write_tensorboard(writer, prefix="run")
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    names = ["norm", "max", "zeros", "nonfinite", "update_ratio"]
    names += ["linear", "enlarged", "restrained", "saturated"]
    names += [f"quantile_{q}" for q in QUANTILES]
    assert set(events.Tags()["scalars"]) == {
        f"run/group{g}/{name}" for g in (0, 1) for name in names
    }
    for group in (0, 1):
        records = [record for record in monitor.records if record["group"] == group]
        for name in names:
            written = events.Scalars(f"run/group{group}/{name}")
            assert [event.step for event in written] == [1, 2, 3]
            if name.startswith("quantile_"):
                expected = [r["quantiles"][name.removeprefix("quantile_")] for r in records]
            else:
                expected = [record[name] for record in records]
            assert [event.value for event in written] == pytest.approx(expected, rel=1e-6)


def test_activate_grad_with_a_monitor():
    model, judge = make_model(), make_model()
    monitor = gaf.Monitor(every=2)
    for step in range(3):
        for m in (model, judge):
            backward(m, step)
        seen = torch.cat([p.grad.flatten() for p in model.parameters()]).double().numpy()
        gaf.activate_grad_(model.parameters(), F, monitor=monitor)
        gaf.activate_grad_(judge.parameters(), F)
        assert_same([p.grad for p in model.parameters()], [p.grad for p in judge.parameters()])
        if step != 1:
            check(monitor.latest[0], seen)
    assert [record["step"] for record in monitor.records] == [1, 3]
    assert len(monitor.records) == 2


def test_lbfgs_is_recorded_at_each_evaluation():
    model = make_model()
    opt = gaf.activate(torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3), F)
    monitor = gaf.Monitor(opt)
    opt.step(lambda: backward(model, 0))
    assert [record["step"] for record in monitor.records] == [1, 2, 3]


@pytest.mark.parametrize("name", ["ours:sgd-momentum", "activated:rmsprop"])
def test_scheduled_parameters_are_in_the_record(name):
    model = make_model()
    opt = make(name, model.parameters())
    monitor = gaf.Monitor(opt)
    schedule = gaf.ParamScheduler(opt, alpha=gaf.Ramp(2.0, 1.0, 1))
    for step in range(2):
        train(model, opt, range(step, step + 1))
        schedule.step()
    assert [record["slope"] for record in monitor.records] == pytest.approx([4.0, 2.0])


def test_bad_input():
    opt = OURS["sgd"](make_model().parameters(), activation=F)
    with pytest.raises(ValueError, match="every must be a whole number of at least 1, got 0"):
        gaf.Monitor(opt, every=0)
    with pytest.raises(ValueError, match="quantiles must lie between 0 and 1"):
        gaf.Monitor(opt, quantiles=(0.5, 99))
    with pytest.raises(ValueError, match="sample must lie between 1 and"):
        gaf.Monitor(opt, sample=2**24)
    with pytest.raises(ValueError, match="per must be one of group, tensor"):
        gaf.Monitor(opt, per="layer")
    with pytest.raises(TypeError, match="Monitor takes a torch optimizer, got list"):
        gaf.Monitor([])
