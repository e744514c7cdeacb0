"""Gradient activation functions for PyTorch.

One line in any training: pass ``activation=`` to :class:`gaf.SGD`, :class:`gaf.Adam` or
:class:`gaf.AdamW`, wrap any optimizer with :func:`gaf.activate`, or call :func:`gaf.activate_grad_` where
you would call ``clip_grad_norm_``.
"""

from importlib.metadata import version

from gaf.common.errors import GafError
from gaf.functions import (
    Activation,
    Algebraic,
    Arctan,
    Asinh,
    BiClip,
    Clip,
    Line,
    Log,
    Sign,
    Softsign,
    Tanh,
    names,
    parse,
    register,
    verify,
)
from gaf.optim import (
    FAMILY,
    PLACEMENTS,
    SGD,
    Adam,
    AdamW,
    Auto,
    Guard,
    Lion,
    Member,
    Monitor,
    ParamScheduler,
    QuantileClip,
    Ramp,
    Scaled,
    activate,
    activate_grad_,
    activation_of,
    create_optimizer,
    deactivate,
    exclude_bias_and_norm,
    in_backward,
    is_activated,
)
from gaf.trials.run import trial

__version__ = version("activated-gradients")  # from the tag: pyproject.toml

__all__ = [
    "FAMILY",
    "PLACEMENTS",
    "SGD",
    "Activation",
    "Adam",
    "AdamW",
    "Algebraic",
    "Arctan",
    "Asinh",
    "Auto",
    "BiClip",
    "Clip",
    "GafError",
    "Guard",
    "Line",
    "Lion",
    "Log",
    "Member",
    "Monitor",
    "ParamScheduler",
    "QuantileClip",
    "Ramp",
    "Scaled",
    "Sign",
    "Softsign",
    "Tanh",
    "activate",
    "activate_grad_",
    "activation_of",
    "create_optimizer",
    "deactivate",
    "exclude_bias_and_norm",
    "in_backward",
    "is_activated",
    "names",
    "parse",
    "register",
    "trial",
    "verify",
]
