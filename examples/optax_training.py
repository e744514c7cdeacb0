"""JAX: f by its place in an optax chain; SGD with momentum in the three placements, and Adam."""

import jax
import jax.numpy as jnp
import optax

import gaf
from gaf.integrations.optax import activate, sgd

STEPS = 60
keys = jax.random.split(jax.random.key(0), 4)
points = jax.random.normal(keys[0], (256, 8))
labels = (points[:, 0] * points[:, 1] > 0).astype(jnp.int32)
first = {
    "hidden": jax.random.normal(keys[1], (8, 32)) * 0.3,
    "out": jax.random.normal(keys[2], (32, 2)) * 0.2,
}


def loss_of(params):
    scores = jnp.tanh(points @ params["hidden"]) @ params["out"]
    return optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean()


def train(optimizer):
    def step(carry, _):
        params, state = carry
        loss, gradients = jax.value_and_grad(loss_of)(params)
        updates, state = optimizer.update(gradients, state, params)
        return (optax.apply_updates(params, updates), state), loss

    start = (first, optimizer.init(first))
    _, losses = jax.jit(lambda start: jax.lax.scan(step, start, length=STEPS))(start)
    return losses


f = gaf.Arctan(0.1, 20)
rate = optax.cosine_decay_schedule(0.2, STEPS)
optimizers = {
    placement: sgd(rate, f, momentum=0.9, weight_decay=5e-4, placement=placement)
    for placement in gaf.PLACEMENTS
}
# The same by hand: f in front of Adam, its alpha warmed up, and clipping before both.
optimizers["adam"] = optax.chain(
    optax.clip_by_global_norm(1.0),
    activate(f, alpha=optax.linear_schedule(0.1, 1.0, 20)),
    optax.adam(1e-2),
)
for name, optimizer in optimizers.items():
    losses = train(optimizer)
    print(f"{name:10s} loss {losses[0]:.4f} -> {losses[-1]:.4f}")
