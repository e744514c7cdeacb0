"""f in a training with JAX: a gradient transformation for optax.

Its place in ``optax.chain`` is the placement, see :mod:`gaf.optim.rules`; :func:`sgd` builds the three. For
Adam, whose only placement is the gradient, put it in front: ``optax.chain(activate(f), optax.adamw(1e-3))``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, NamedTuple

from gaf.common.errors import GafError
from gaf.functions import Activation
from gaf.integrations.frameworks import check_formula, needs
from gaf.optim.settings import as_function
from gaf.optim.sgd import SGD

with needs("jax"):
    import jax
    import jax.numpy as jnp
with needs("optax"):
    import optax


class ActivationState(NamedTuple):
    """The number of steps done, for schedules of f's parameters."""

    count: Any


def activate(
    activation: Activation | str, **factors: Callable[[Any], Any]
) -> optax.GradientTransformation:
    """A transformation of updates u into f(u), element by element; pure, for jit, vmap and scan.

    f must see whole gradients: after the mean over devices, inside ``optax.MultiSteps``, and unscaled where
    the loss is scaled. Complex numbers are activated by their parts, half precision in float32.

    Args:
        activation: the function, or its name.
        **factors: for a parameter's name, a schedule such as ``optax.linear_schedule(0.1, 1.0, 500)`` whose
            value multiplies it, as in :class:`gaf.ParamScheduler`.

    Example:
        >>> optimizer = optax.chain(activate("arctan(0.1, 20)"), optax.adam(1e-3))
    """
    f = as_function(activation, "optax")
    pair = jax.ShapeDtypeStruct((2,), jnp.float32)
    jax.eval_shape(lambda g: check_formula(f, jnp, g), pair)
    if not factors:
        return optax.stateless(lambda updates, _: _map(f, updates, f.params))
    _check_factors(f, factors)

    def init(params: Any) -> Any:
        return ActivationState(jnp.zeros([], jnp.int32))

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        now = tuple(
            value * factors[field.name](state.count) if field.name in factors else value
            for field, value in zip(fields(f), f.params, strict=True)
        )
        return _map(f, updates, now), ActivationState(optax.safe_increment(state.count))

    return optax.GradientTransformation(init, update)


def sgd(
    learning_rate: optax.ScalarOrSchedule,
    activation: Activation | str,
    *,
    momentum: float = 0.0,
    nesterov: bool = False,
    weight_decay: float = 0.0,
    placement: str | None = None,
    **factors: Callable[[Any], Any],
) -> optax.GradientTransformation:
    """SGD with f in one of three places: the chain whose steps are those of :class:`gaf.SGD`.

    Args:
        learning_rate: a number or a schedule.
        activation: the function, or its name.
        momentum: as in :class:`gaf.SGD`.
        nesterov: as in :class:`gaf.SGD`.
        weight_decay: as in :class:`gaf.SGD`.
        placement: ``"gradient"``, ``"momentum"`` or ``"update"``. Unset: ``"momentum"`` with momentum,
            ``"gradient"`` without it.
        **factors: schedules of f's parameters, as in :func:`activate`.

    Example:
        >>> optimizer = sgd(optax.cosine_decay_schedule(0.1, 100), "arctan(0.1, 20)", momentum=0.9)
    """
    if momentum < 0:
        raise GafError(f"momentum must be at least 0, got {momentum}")
    if nesterov and not momentum > 0:
        raise GafError(f"nesterov=True needs a momentum above 0, got momentum={momentum}")
    placement = SGD.rule.place({"momentum": momentum}, placement)
    f = activate(activation, **factors)
    decay = optax.add_decayed_weights(weight_decay) if weight_decay else optax.identity()
    velocity = optax.trace(momentum, nesterov) if momentum else optax.identity()
    rate = optax.scale_by_learning_rate(learning_rate)
    chains = {
        "gradient": (f, decay, velocity, rate),
        "momentum": (decay, velocity, f, rate),
        "update": (decay, rate, velocity, f),
    }
    return in_float32(optax.chain(*chains[placement]))


def in_float32(inner: optax.GradientTransformation) -> optax.GradientTransformation:
    """Compute steps of half-precision parameters in float32, and round once at the end, as :class:`gaf.SGD`.

    The state keeps the dtype it has. The updates are float32: ``optax.apply_updates`` adds, then rounds.
    """
    wrapped = optax.with_extra_args_support(inner)

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        wide = jax.tree.map(_widened, (updates, state, params))
        new_updates, new_state = wrapped.update(*wide, **extra)
        return new_updates, jax.tree.map(_as, new_state, state)

    return optax.GradientTransformationExtraArgs(inner.init, update)


def _map(f: Activation, updates: Any, params: tuple[Any, ...]) -> Any:
    def real(g: jax.Array) -> jax.Array:
        return type(f).formula(jnp, _widened(g), *params).astype(g.dtype)

    def act(g: Any) -> jax.Array:
        if jnp.iscomplexobj(g):
            return jax.lax.complex(real(jnp.real(g)), real(jnp.imag(g)))
        if not jnp.issubdtype(jnp.result_type(g), jnp.floating):
            raise TypeError(
                f"a gradient activation needs float or complex arrays; got {jnp.result_type(g)}"
            )
        return real(jnp.asarray(g))

    return jax.tree.map(act, updates)


def _widened(x: Any) -> Any:
    """Half precision as float32; anything else as it is."""
    if isinstance(x, float | int | complex):  # a leaf that is a number, as optax takes it
        return x
    half = jnp.issubdtype(x.dtype, jnp.floating) and x.dtype.itemsize < 4
    return x.astype(jnp.float32) if half else x


def _as(new: Any, old: Any) -> Any:
    """In the dtype of ``old``. What has it already is left alone: keys of random numbers have no casts."""
    return new if new.dtype == old.dtype else new.astype(old.dtype)


def _check_factors(f: Activation, factors: dict[str, Callable[[Any], Any]]) -> None:
    known = [field.name for field in fields(f)]
    for name, factor in factors.items():
        if name not in known:
            raise GafError(f"{f.name} has no parameter {name!r}; it has {', '.join(known)}")
        try:
            jax.eval_shape(factor, jax.ShapeDtypeStruct((), jnp.int32))
        except TypeError as error:  # of calling a number, or of a Python branch on the step
            raise TypeError(
                f"{name} takes a schedule that JAX can compute, such as optax.linear_schedule(0.1, 1.0, 500)"
            ) from error
