"""A training by Keras equals one by hand, step by step; run by test_keras.py, a process for each backend."""

import os
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch

import gaf
from tests.integrations.hand import F, make_model, samples

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its imports
    import keras

    from gaf.integrations.keras import ActivatedKeras, activate

# Its own: numpy 2 about __array__, and hints about the machine.
pytestmark = pytest.mark.filterwarnings("ignore")

BACKEND = keras.backend.backend()
STEPS = 6
SGD = {"learning_rate": 0.05, "momentum": 0.9}
# The largest differences seen: 6e-8 in each on torch, and in float32 on JAX. In half precision XLA keeps more
# digits between operations: 2.7e-4 and 5.6e-5.
NEAR = dict.fromkeys(("float32", "bfloat16", "float16"), 3e-7)
if BACKEND == "jax":
    NEAR |= {"bfloat16": 1e-3, "float16": 2e-4}


@pytest.fixture(autouse=True)
def _float32():
    yield
    keras.config.set_dtype_policy("float32")


def keras_model(optimizer, **arguments):
    """The model of hand.py, compiled."""
    model = keras.Sequential(
        [keras.Input((5,)), keras.layers.Dense(7, activation="tanh"), keras.layers.Dense(1)]
    )
    model.set_weights([p.detach().numpy().T for p in make_model().parameters()])
    model.compile(optimizer=optimizer, loss="mse", **arguments)
    return model


def data(accumulate=1):
    return [
        torch.stack(part).numpy() for part in zip(*samples(4 * STEPS * accumulate), strict=True)
    ]


class Recorder(keras.callbacks.Callback):
    """The weights after each batch."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def on_train_batch_end(self, batch, logs=None):
        if BACKEND == "jax":
            self.model.jax_state_sync()
        self.seen.append(flat(self.model.get_weights()))


def flat(weights):
    return np.concatenate([np.asarray(w).ravel() for w in weights])


def fitted(model, accumulate=1):
    recorder = Recorder()
    model.fit(*data(accumulate), batch_size=4, shuffle=False, verbose=0, callbacks=[recorder])
    return recorder.seen[accumulate - 1 :: accumulate]


def by_hand(compute=torch.float32, accumulate=1, clip=0.0, scale=1.0):
    """Plain PyTorch; Keras's weights of shape (inputs, outputs), and its casts."""
    params = [p.detach().T.clone().requires_grad_() for p in make_model().parameters()]
    optimizer = torch.optim.SGD(params, lr=SGD["learning_rate"], momentum=SGD["momentum"])
    xs, ys = (torch.from_numpy(part).reshape(-1, 4, part.shape[1]) for part in data(accumulate))
    seen = []
    for number, (x, y) in enumerate(zip(xs, ys, strict=True), start=1):
        w1, b1, w2, b2 = (p.to(compute) for p in params)
        out = torch.tanh(x.to(compute) @ w1 + b1) @ w2 + b2
        (((out.float() - y) ** 2).mean() * (scale / accumulate)).backward()
        if number % accumulate:
            continue
        for p in params:
            p.grad /= scale
        if clip:
            torch.nn.utils.clip_grad_norm_(params, clip)
        for p in params:
            p.grad.copy_(F(p.grad))
        optimizer.step()
        optimizer.zero_grad()
        seen.append(flat([p.detach() for p in params]))
    return seen


def assert_near(found, expected, dtype="float32"):
    assert len(found) == len(expected) == STEPS
    assert abs(expected[0] - expected[-1]).max() > 0.01  # something happened
    off = [abs(a - b).max() for a, b in zip(found, expected, strict=True)]
    assert max(off) <= NEAR[dtype], f"off by {off}"


@pytest.mark.parametrize(
    ("settings", "by"),
    [
        ({}, {}),
        ({"global_clipnorm": 0.1}, {"clip": 0.1}),  # clipped first, then f
        ({"gradient_accumulation_steps": 2}, {"accumulate": 2}),
        ({"loss_scale_factor": 1024.0}, {}),
        (
            {
                "gradient_accumulation_steps": 2,
                "global_clipnorm": 0.1,
                "loss_scale_factor": 1024.0,
            },
            {"accumulate": 2, "clip": 0.1},
        ),
    ],
    ids=["plain", "clipped", "accumulated", "scaled", "all"],
)
def test_fit_equals_a_loop_by_hand(settings, by):
    model = keras_model(activate(keras.optimizers.SGD(**SGD, **settings), F))
    assert_near(fitted(model, by.get("accumulate", 1)), by_hand(**by))


def test_mixed_bfloat16():
    keras.config.set_dtype_policy("mixed_bfloat16")
    model = keras_model(activate(keras.optimizers.SGD(**SGD), F))
    assert_near(fitted(model), by_hand(torch.bfloat16), "bfloat16")


def test_mixed_float16_by_the_loss_scale_that_compile_adds():
    keras.config.set_dtype_policy("mixed_float16")
    model = keras_model(activate(keras.optimizers.SGD(**SGD), F))
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    assert_near(fitted(model), by_hand(torch.float16, scale=2.0**15), "float16")


def test_a_step_that_overflows_is_skipped():
    keras.config.set_dtype_policy("mixed_float16")
    inner = activate(keras.optimizers.SGD(**SGD), F)
    model = keras_model(keras.optimizers.LossScaleOptimizer(inner, initial_scale=2.0**19))
    before = flat(model.get_weights())
    seen = fitted(model)
    assert (seen[0] == before).all()
    assert not (seen[-1] == before).all()
    assert float(model.optimizer.dynamic_scale) < 2.0**19


EVERY = sorted(
    name
    for name, kind in vars(keras.optimizers).items()
    if isinstance(kind, type)
    and issubclass(kind, keras.optimizers.Optimizer)
    and kind.update_step is not keras.optimizers.Optimizer.update_step
)


@pytest.mark.parametrize("name", EVERY)
def test_any_optimizer_steps_on_f_of_the_gradient(name):
    kind = getattr(keras.optimizers, name)
    settings = {"learning_rate": 0.1, "weight_decay": 0.01, "name": name.lower()}
    optimizers = (activate(kind(**settings), F), kind(**settings))
    assert isinstance(optimizers[0], kind)
    assert len(EVERY) >= 13
    moved = []
    for optimizer, f in zip(optimizers, (lambda g: g, F), strict=True):
        variables = [keras.Variable(np.ones((3, 2), "float32")), keras.Variable([0.5, -0.5])]
        generator = torch.Generator().manual_seed(0)
        for _ in range(3):
            grads = [f(torch.randn(v.shape, generator=generator)) for v in variables]
            optimizer.apply([keras.ops.convert_to_tensor(g.numpy()) for g in grads], variables)
        moved.append(flat([keras.ops.convert_to_numpy(v) for v in variables]))
    np.testing.assert_allclose(moved[0], moved[1], rtol=1e-5, atol=1e-6)
    assert abs(moved[0]).min() < 1 - 1e-7


def test_half_precision_is_rounded_once():
    w = keras.Variable([0.0, 0.0, 0.0], dtype="bfloat16")
    g = torch.tensor([0.01, -0.3, 7.0], dtype=torch.bfloat16)
    activate(keras.optimizers.SGD(1.0), F).apply(
        [keras.ops.cast(keras.ops.convert_to_tensor(g.float().numpy()), "bfloat16")], [w]
    )
    assert keras.ops.convert_to_numpy(keras.ops.cast(w, "float32")).tolist() == (-F(g)).tolist()


@keras.saving.register_keras_serializable("tests")
class Halving(keras.optimizers.SGD):
    """An optimizer of one's own."""

    def update_step(self, gradient, variable, learning_rate):
        super().update_step(gradient / 2, variable, learning_rate)


@pytest.mark.parametrize("kind", ["schedule", "own", "scaled"])
def test_a_saved_model_trains_on_as_if_it_had_not_been_saved(tmp_path, kind):
    if kind == "scaled":
        keras.config.set_dtype_policy("mixed_float16")
    rate = keras.optimizers.schedules.ExponentialDecay(0.05, 4, 0.5)
    made = Halving(0.05) if kind == "own" else keras.optimizers.SGD(rate, momentum=0.9)
    model = keras_model(activate(made, F))
    fitted(model)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    optimizer = getattr(loaded.optimizer, "inner_optimizer", loaded.optimizer)
    assert isinstance(optimizer, ActivatedKeras)
    assert isinstance(optimizer, type(made).__mro__[2])
    assert optimizer.gaf_activation == F
    assert all((a == b).all() for a, b in zip(fitted(loaded), fitted(model), strict=True))


def test_a_saved_model_loads_in_another_process(tmp_path):
    keras_model(activate(keras.optimizers.SGD(**SGD), F)).save(tmp_path / "model.keras")
    code = (
        "import keras, gaf.integrations.keras\n"
        "optimizer = keras.saving.load_model('model.keras').optimizer\n"
        "print(type(optimizer).__name__, optimizer.gaf_activation)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == f"ActivatedSGD {F!r}", done.stderr


def test_copies_keep_the_activation():
    optimizer = activate(keras.optimizers.Adam(0.01), "tanh(0.2, 10)")
    copies = (
        type(optimizer).from_config(optimizer.get_config()),
        keras.optimizers.get(keras.optimizers.serialize(optimizer)),
        pickle.loads(pickle.dumps(optimizer)),
    )
    for copy in copies:
        assert copy.gaf_activation == gaf.Tanh(0.2, 10)
        assert isinstance(copy, keras.optimizers.Adam)
        assert float(copy.learning_rate) == pytest.approx(0.01)


SOME_KERAS = pytest.mark.skipif(
    not hasattr(keras.optimizers, "MultiOptimizer"), reason="this Keras has no MultiOptimizer"
)


@SOME_KERAS
def test_parts_of_a_multi_optimizer():
    parts = keras.optimizers.OptimizerMap(keras.optimizers.SGD(1.0))
    parts["activated"] = activate(keras.optimizers.SGD(1.0), F)
    variables = [keras.Variable([0.0], name="activated"), keras.Variable([0.0], name="plain")]
    multi = keras.optimizers.MultiOptimizer(parts)
    multi.apply([keras.ops.ones(1), keras.ops.ones(1)], variables)
    assert float(variables[0][0]) == pytest.approx(-F(1.0))
    assert float(variables[1][0]) == -1.0


@gaf.register
class OwnForKeras(gaf.Activation):
    scale: float = 1.0

    @staticmethod
    def formula(xp, g, scale):
        return g / (1 + xp.abs(g) / scale)


@gaf.register
class OnlyTorch(gaf.Activation):
    @staticmethod
    def formula(xp, g):
        return xp.addcmul(g, g, g)


def test_own_functions():
    w = keras.Variable([0.0])
    activate(keras.optimizers.SGD(1.0), "ownforkeras(0.5)").apply([0.5 * keras.ops.ones(1)], [w])
    assert float(w[0]) == -0.25
    with pytest.raises(TypeError, match=r"^the formula of onlytorch cannot be computed by keras"):
        activate(keras.optimizers.SGD(), "onlytorch")


def built():
    optimizer = keras.optimizers.SGD()
    optimizer.build([keras.Variable([0.0])])
    return optimizer


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD()), "inside the loss"),
        pytest.param(
            lambda: keras.optimizers.MultiOptimizer(
                keras.optimizers.OptimizerMap(keras.optimizers.SGD())
            ),
            "MultiOptimizer has no update step of its own",
            marks=SOME_KERAS,
        ),
        (lambda: activate(keras.optimizers.SGD(), F), r"an activation already, Arctan\("),
        (built, "is built"),
        (lambda: "sgd", "takes a Keras optimizer, got str"),
    ],
)
def test_refusals(make, said):
    with pytest.raises((TypeError, ValueError), match=said):
        activate(make(), F)
    with pytest.raises(TypeError, match="needs an activation such as"):
        activate(keras.optimizers.SGD(), None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"gaf\.Auto is not offered for Keras"):
        activate(keras.optimizers.SGD(), "auto")
