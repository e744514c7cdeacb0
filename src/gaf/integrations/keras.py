"""f in a training by Keras 3, on any of its backends: the gradient placement for any Keras optimizer.

It acts inside the optimizer's update step, the one moment that is right under every setting: after a loss
scale (``LossScaleOptimizer`` or ``loss_scale_factor``) is divided out, after ``gradient_accumulation_steps``
have been averaged, after clipping, and not at all in a step that is skipped for an overflow. Keras takes its
weight decay from the weights themselves, so it does not pass through f.

Import this module before ``keras.saving.load_model`` reads a model saved with an activated optimizer.
"""

from __future__ import annotations

import functools
from typing import Any, TypeVar

from gaf.common.errors import GafError
from gaf.functions import Activation
from gaf.integrations.frameworks import check_formula, needs
from gaf.optim.settings import as_function

try:
    with needs("keras"):
        import keras
except ModuleNotFoundError as error:
    if error.name not in ("tensorflow", "jax"):
        raise
    raise ModuleNotFoundError(
        f"Keras looks for the backend {error.name}, which is not installed: set the environment variable "
        "KERAS_BACKEND to torch or jax, or install it",
        name=error.name,
    ) from None

O = TypeVar("O", bound=keras.optimizers.Optimizer)  # noqa: E741

_HALF = ("float16", "bfloat16")
_named = keras.saving.register_keras_serializable(package="gaf", name="Activated")


def activate(optimizer: O, activation: Activation | str) -> O:
    """Put f in front of a Keras optimizer: each step acts on f(gradient).

    Args:
        optimizer: any optimizer that has not been built yet, to be given to ``model.compile``.
        activation: the function, or its name.

    Returns:
        The same object, still an instance of its class. It is saved and loaded with its activation.

    Example:
        >>> optimizer = activate(keras.optimizers.Adam(1e-3), "arctan(0.1, 20)")
        >>> isinstance(optimizer, keras.optimizers.Adam)
        True
    """
    f = as_function(activation, "Keras")
    _check(optimizer)
    check_formula(f, keras.ops, keras.ops.convert_to_tensor([0.0, 1.0]))
    optimizer.gaf_activation = f
    optimizer.__class__ = _activated(type(optimizer))  # type: ignore[arg-type]
    return optimizer


@_named
class ActivatedKeras(keras.optimizers.Optimizer):
    """What an optimizer becomes: its own class with f before the update step."""

    gaf_activation: Activation
    _plain: type[keras.optimizers.Optimizer]

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        super().update_step(_act(self.gaf_activation, gradient), variable, learning_rate)

    def _parallel_update_step(self, grads: Any, variables: Any, learning_rate: Any) -> None:
        """What several optimizers have in place of ``update_step`` on the torch backend."""
        activated = [_act(self.gaf_activation, g) for g in grads]
        super()._parallel_update_step(activated, variables, learning_rate)  # type: ignore[misc]

    def get_config(self) -> dict[str, Any]:
        plain = self._plain.from_config(super().get_config())
        return {
            "optimizer": keras.saving.serialize_keras_object(plain),
            "activation": repr(self.gaf_activation),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        plain = keras.saving.deserialize_keras_object(
            config["optimizer"], custom_objects=custom_objects
        )
        return activate(plain, config["activation"])

    def __reduce__(self) -> Any:
        _, saved = super().__reduce__()
        return ActivatedKeras._unpickle_model, saved  # a class that pickle can find


@functools.cache
def _activated(plain: type[keras.optimizers.Optimizer]) -> type[ActivatedKeras]:
    made = type(f"Activated{plain.__name__}", (ActivatedKeras, plain), {"_plain": plain})
    _named(made)  # each is saved under one name, ...
    _named(ActivatedKeras)  # ... by which this class, that is always there, loads it
    return made


def _act(f: Activation, g: Any) -> Any:
    """f(g) in the dtype of g, computed in float32 if that is a shorter one."""
    if hasattr(
        g, "dense_shape"
    ):  # TensorFlow's IndexedSlices: rows may repeat, and f acts on their sum
        g = keras.ops.add(g, 0.0)
    g = keras.ops.convert_to_tensor(g, sparse=False)
    dtype = keras.backend.standardize_dtype(g.dtype)
    wide = keras.ops.cast(g, "float32") if dtype in _HALF else g
    return keras.ops.cast(type(f).formula(keras.ops, wide, *f.params), dtype)


def _check(optimizer: keras.optimizers.Optimizer) -> None:
    """Refuse what f could not act in, or not for certain."""
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise TypeError(f"activate takes a Keras optimizer, got {type(optimizer).__name__}")
    if isinstance(optimizer, ActivatedKeras):
        raise GafError(
            f"the optimizer has an activation already, {optimizer.gaf_activation!r}: make a new one"
        )
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        raise GafError(
            "f must act on unscaled gradients: put it inside the loss scale, "
            "LossScaleOptimizer(activate(optimizer, f))"
        )
    if type(optimizer).update_step is keras.optimizers.Optimizer.update_step:
        raise GafError(
            f"{type(optimizer).__name__} has no update step of its own for f to act in: activate the "
            "optimizers it is made of"
        )
    if optimizer.built:
        raise GafError(
            "the optimizer is built, and a training compiled with it would go on without f: activate a new "
            "one, `type(opt).from_config(opt.get_config())`, and give it to model.compile"
        )
