"""A training by optax equals one by torch, step by step; run by test_optax.py in a process of its own."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from torch import nn

import gaf
from gaf.integrations.optax import activate, in_float32, sgd
from gaf.optim import rules
from tests.integrations.hand import F, make_model, samples

STEPS = 60
RATE = optax.cosine_decay_schedule(0.05, STEPS)
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float64": torch.float64}
# The largest difference seen, as a part of the largest weight: 7.6e-7, 1.4e-3, 2.9e-16. In bfloat16 two
# trainings of six differ at all, from the steps 16 and 41 on, where a gradient was rounded the other way.
NEAR = {"float32": 3e-6, "bfloat16": 4e-3, "float64": 2e-15}
EXACT = {"bfloat16": 10}  # so many first steps are equal to the bit


@pytest.fixture(autouse=True)
def _x64(request):
    """float64 needs a process in which JAX has it."""
    if "float64" in request.node.name and not jax.config.jax_enable_x64:
        pytest.skip("JAX_ENABLE_X64 is not set")


def batches(dtype):
    both = [torch.stack(part) for part in zip(*samples(8 * STEPS), strict=True)]
    wide = torch.promote_types(dtype, torch.float32)
    return [part.to(wide).reshape(STEPS, 8, -1) for part in both]


def by_torch(dtype, make_optimizer, after=lambda optimizer: lambda: None):
    """The weights after each step of a loop by hand, as one vector each."""
    model = make_model().to(dtype)
    optimizer = make_optimizer(model.parameters())
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: float(RATE(step)))
    also = after(optimizer)
    seen = []
    for x, y in zip(*batches(dtype), strict=True):
        optimizer.zero_grad()
        w1, b1, w2, b2 = (p.to(x.dtype) for p in model.parameters())
        out = nn.functional.linear(torch.tanh(nn.functional.linear(x, w1, b1)), w2, b2)
        ((out - y) ** 2).mean().backward()
        optimizer.step()
        schedule.step()
        also()
        seen.append(torch.cat([p.detach().double().flatten() for p in model.parameters()]))
    return torch.stack(seen).numpy()


def first_params(dtype):
    names = ("w1", "b1", "w2", "b2")
    values = (p.detach().double().numpy() for p in make_model().to(dtype).parameters())
    kind = jnp.dtype(str(dtype).removeprefix("torch."))
    return {name: jnp.asarray(v).astype(kind) for name, v in zip(names, values, strict=True)}


def loss_of(params, x, y):
    p = {name: value.astype(x.dtype) for name, value in params.items()}
    out = jnp.tanh(x @ p["w1"].T + p["b1"]) @ p["w2"].T + p["b2"]
    return ((out - y) ** 2).mean()


def by_optax(dtype, optimizer):
    """The same weights, from a loop of optax in one scan."""
    params = first_params(dtype)

    def step(carry, batch):
        params, state = carry
        updates, state = optimizer.update(jax.grad(loss_of)(params, *batch), state, params)
        params = optax.apply_updates(params, updates)
        return (params, state), jnp.concatenate(
            [params[k].ravel() for k in ("w1", "b1", "w2", "b2")]
        )

    xs = tuple(jnp.asarray(part.numpy()) for part in batches(dtype))
    _, seen = jax.jit(lambda carry: jax.lax.scan(step, carry, xs))((params, optimizer.init(params)))
    return np.asarray(seen.astype("float32" if dtype == torch.bfloat16 else None), np.float64)


def assert_near(found, expected, dtype="float32"):
    assert found.shape == expected.shape
    assert abs(expected[0] - expected[-1]).max() > 0.01  # something happened
    off = abs(found - expected).max(axis=1) / abs(expected).max()
    assert off.max() <= NEAR[dtype], f"off by {off.max()} at step {off.argmax()}"
    assert not off[: EXACT.get(dtype, 0)].any()


NAMES = ["arctan(0.1, 20)", "tanh(0.2, 10)", "log(0.1, 20)", "log(0.1, 1e6)"]


@pytest.mark.parametrize("name", NAMES)
def test_values(name):
    f = gaf.parse(name)
    rng = np.random.default_rng(0)
    g = rng.standard_normal(10_000) * 10.0 ** rng.integers(-34, 38, 10_000)
    g = np.concatenate([g, [0.0, -0.0, np.inf, -np.inf, np.nan]]).astype(np.float32)
    found = np.asarray(jax.jit(lambda g: activate(f).update(g, optax.EmptyState())[0])(g))
    expected = f(torch.from_numpy(g)).numpy()
    # 4e-7 was seen; XLA on a CPU flushes what is below 1.2e-38 to 0
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1.2e-38)


def test_three_placements_are_the_reference_rules():
    gradients = np.random.default_rng(0).standard_normal((STEPS, 5)).astype(np.float32)
    settings = {"momentum": 0.9, "nesterov": True, "weight_decay": 1e-2}
    optimizers = {p: sgd(RATE, F, placement=p, **settings) for p in gaf.PLACEMENTS}

    def step(carry, g):
        new = {}
        for placement, (w, state) in carry.items():
            updates, state = optimizers[placement].update(g, state, w)
            new[placement] = optax.apply_updates(w, updates), state
        return new, {placement: w for placement, (w, _) in new.items()}

    w = jnp.ones(5, jnp.float32)
    start = {placement: (w, optimizer.init(w)) for placement, optimizer in optimizers.items()}
    _, found = jax.jit(lambda start: jax.lax.scan(step, start, gradients))(start)
    rates = jax.jit(RATE)(np.arange(STEPS)).tolist()
    for placement in gaf.PLACEMENTS:
        w, v, seen = torch.ones(5), None, []
        with torch.no_grad():
            for g, rate in zip(torch.from_numpy(gradients), rates, strict=True):
                rule = {**settings, "dampening": 0, "maximize": False, "placement": placement}
                (v,) = rules.sgd(w, g, v, F, lr=rate, **rule)
                seen.append(w.clone())
        assert_near(np.asarray(found[placement]), torch.stack(seen).numpy())


PLACED = [({"momentum": 0.9}, placement, dtype) for placement in gaf.PLACEMENTS for dtype in DTYPES]
PLACED += [({"weight_decay": 0.01}, "momentum", "float64")]  # f of the decayed gradient
PLACED += [({}, None, "float32"), ({}, "update", "float32")]


@pytest.mark.slow
@pytest.mark.parametrize(("settings", "placement", "dtype"), PLACED)
def test_a_training_by_sgd(settings, placement, dtype):
    f = gaf.Tanh(0.2, 10)
    found = by_optax(DTYPES[dtype], sgd(RATE, f, placement=placement, **settings))
    expected = by_torch(
        DTYPES[dtype],
        lambda p: gaf.SGD(p, lr=1.0, activation=f, placement=placement, **settings),
    )
    assert_near(found, expected, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", ["adam", "adam with L2", "adamw"])
def test_a_training_by_adam_in_a_chain(kind, dtype):
    decay = {"adam": 0.0, "adam with L2": 1e-2, "adamw": 1e-2}[kind]
    ours, theirs = (optax.adamw, gaf.AdamW) if kind == "adamw" else (optax.adam, gaf.Adam)
    parts = [activate(F)]
    if kind == "adam with L2":
        parts.append(optax.add_decayed_weights(decay))
    last = ours(RATE, weight_decay=decay) if kind == "adamw" else ours(RATE)
    found = by_optax(DTYPES[dtype], in_float32(optax.chain(*parts, last)))
    expected = by_torch(
        DTYPES[dtype], lambda p: theirs(p, lr=1.0, weight_decay=decay, activation=F)
    )
    assert_near(found, expected, dtype)


@pytest.mark.slow
def test_schedules_of_alpha_and_beta():
    ramps = {"alpha": (0.1, 1.0, 40), "beta": (3.0, 1.0, 40)}
    ours = sgd(
        RATE,
        F,
        momentum=0.9,
        **{name: optax.linear_schedule(*ramp) for name, ramp in ramps.items()},
    )
    factors = {name: gaf.Ramp(*ramp) for name, ramp in ramps.items()}
    theirs = by_torch(
        torch.float32,
        lambda p: gaf.SGD(p, lr=1.0, momentum=0.9, activation=F),
        after=lambda optimizer: gaf.ParamScheduler(optimizer, **factors).step,
    )
    assert_near(by_optax(torch.float32, ours), theirs)


@pytest.mark.slow
def test_vmap_over_trainings():
    optimizer = sgd(RATE, F, momentum=0.9)
    starts = jnp.linspace(-2.0, 2.0, 12).reshape(4, 3)

    def train(w):
        state = optimizer.init(w)
        for _ in range(5):
            updates, state = optimizer.update(w**3, state, w)
            w = optax.apply_updates(w, updates)
        return w

    together = jax.jit(jax.vmap(train))(starts)
    np.testing.assert_allclose(together, [train(w) for w in starts], rtol=1e-6)
    assert not np.allclose(together, starts)


@pytest.mark.slow
def test_multi_steps_activates_the_mean():
    optimizer = optax.MultiSteps(sgd(1.0, F), every_k_schedule=2)
    w = jnp.ones(2, jnp.bfloat16)
    state = optimizer.init(w)
    for g in ([1.0, 0.5], [-3.0, 0.25]):
        updates, state = optimizer.update(jnp.asarray(g, jnp.bfloat16), state, w)
        w = optax.apply_updates(w, updates)
    expected = (1 - F(torch.tensor([-1.0, 0.375]))).bfloat16()
    assert w.dtype == jnp.bfloat16
    assert w.astype("float32").tolist() == expected.tolist()


@pytest.mark.slow
def test_trees_complex_and_half():
    updates = {
        "half": jnp.asarray([0.01, 3.0], jnp.float16),
        "complex": jnp.asarray([1 - 2j]),
        "frozen": None,
    }
    found, _ = activate(F).update(updates, optax.EmptyState())
    half = F(torch.tensor([0.01, 3.0], dtype=torch.float16))
    assert found["half"].tolist() == half.tolist()
    assert found["half"].dtype == jnp.float16
    assert complex(found["complex"][0]) == pytest.approx(F(torch.tensor(1 - 2j)).item(), rel=1e-6)
    assert found["frozen"] is None
    with pytest.raises(TypeError, match="float or complex arrays; got int32"):
        activate(F).update(jnp.ones(2, jnp.int32), optax.EmptyState())


@pytest.mark.slow
def test_numbers_are_leaves_as_in_optax():
    tree = {"w": 0.5, "none": None}
    for placement in gaf.PLACEMENTS:
        optimizer = sgd(0.1, F, momentum=0.9, weight_decay=0.01, placement=placement)
        arrays = jax.tree.map(jnp.asarray, tree)
        found, _ = optimizer.update(tree, optimizer.init(tree), tree)
        expected, _ = optimizer.update(arrays, optimizer.init(arrays), arrays)
        assert found["none"] is None
        np.testing.assert_allclose(found["w"], expected["w"], rtol=1e-6)


def test_a_state_with_a_key_of_random_numbers():
    noise = optax.add_noise(0.1, 0.55, jax.random.key(0))
    optimizer = in_float32(optax.chain(activate(F), noise, optax.trace(0.9)))
    w = jnp.ones(3, jnp.bfloat16)
    state = optimizer.init(w)
    updates, new = optimizer.update(w, state, w)
    assert bool((updates != 0).all())
    assert jax.tree.map(lambda x: x.dtype, new) == jax.tree.map(lambda x: x.dtype, state)


@gaf.register
class OwnForJax(gaf.Activation):
    scale: float = 1.0

    @staticmethod
    def formula(xp, g, scale):
        return g / (1 + xp.abs(g) / scale)


@gaf.register
class OnlyTorch(gaf.Activation):
    @staticmethod
    def formula(xp, g):
        return xp.clamp(g, -1, 1) if g.min() < 0 else xp.addcmul(g, g, g)


@pytest.mark.slow
def test_own_functions():
    found, _ = activate("ownforjax(0.5)").update(jnp.asarray(0.5), optax.EmptyState())
    assert float(found) == 0.25
    with pytest.raises(
        TypeError, match=r"^the formula of onlytorch cannot be computed by jax.numpy"
    ):
        activate("onlytorch")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: activate(None), "needs an activation such as"),  # type: ignore[arg-type]
        (lambda: activate(F, gamma=RATE), "arctan has no parameter 'gamma'; it has alpha, beta"),
        (lambda: activate(F, alpha=gaf.Ramp(0.1, 1.0, 5)), "alpha takes a schedule that JAX can"),
        (lambda: activate(F, alpha=0.5), "alpha takes a schedule that JAX can"),  # type: ignore[arg-type]
        (lambda: sgd(0.1, F, placement="momentun", momentum=0.9), "did you mean 'momentum'"),
        (lambda: sgd(0.1, F, nesterov=True), "nesterov=True needs a momentum above 0"),
        (lambda: sgd(0.1, F, momentum=-0.5), "momentum must be at least 0, got -0.5"),
        (lambda: activate("auto"), r"gaf\.Auto is not offered for optax"),
        (lambda: activate(gaf.Auto()), r"gaf\.Auto is not offered for optax"),  # type: ignore[arg-type]
    ],
)
def test_refusals(make, said):
    with pytest.raises((TypeError, ValueError), match=said):
        make()
