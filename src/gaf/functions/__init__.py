"""WHAT squashes a gradient: frozen values with formula, derivative, integral and facts."""

from gaf.functions.arctan import Arctan
from gaf.functions.base import Activation, Adaptive, AlphaBeta
from gaf.functions.log import Log
from gaf.functions.registry import as_activation, function_type, names, parse, register
from gaf.functions.tanh import Tanh
from gaf.functions.verify import verify

__all__ = [
    "Activation",
    "Adaptive",
    "AlphaBeta",
    "Arctan",
    "Log",
    "Tanh",
    "as_activation",
    "function_type",
    "names",
    "parse",
    "register",
    "verify",
]
