"""WHAT squashes a gradient: frozen values with formula, derivative, integral and facts."""

from gaf.functions.algebraic import Algebraic
from gaf.functions.arctan import Arctan
from gaf.functions.asinh import Asinh
from gaf.functions.base import Activation, Adaptive, AlphaBeta, ScaledCurve
from gaf.functions.clips import BiClip, Clip
from gaf.functions.limits import Line, Sign
from gaf.functions.log import Log
from gaf.functions.registry import as_activation, function_type, names, parse, register
from gaf.functions.softsign import Softsign
from gaf.functions.tanh import Tanh
from gaf.functions.verify import verify

# The three that the paper proposes, whatever else is registered.
PAPER: tuple[type[AlphaBeta], ...] = (Arctan, Tanh, Log)

__all__ = [
    "PAPER",
    "Activation",
    "Adaptive",
    "Algebraic",
    "AlphaBeta",
    "Arctan",
    "Asinh",
    "BiClip",
    "Clip",
    "Line",
    "Log",
    "ScaledCurve",
    "Sign",
    "Softsign",
    "Tanh",
    "as_activation",
    "function_type",
    "names",
    "parse",
    "register",
    "verify",
]
