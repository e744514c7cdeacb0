"""WHERE it acts: three placements, optimizers, and the functional form."""

from gaf.optim.activate import activate, deactivate, is_activated
from gaf.optim.adam import Adam, AdamW
from gaf.optim.auto import Auto
from gaf.optim.exclude import exclude_bias_and_norm
from gaf.optim.factory import create_optimizer
from gaf.optim.family import FAMILY, Member
from gaf.optim.grad import activate_grad_
from gaf.optim.guard import Guard
from gaf.optim.in_backward import in_backward
from gaf.optim.lion import Lion
from gaf.optim.monitor import Monitor
from gaf.optim.quantile_clip import QuantileClip
from gaf.optim.rules import PLACEMENTS
from gaf.optim.scaled import Scaled
from gaf.optim.schedule import ParamScheduler, Ramp
from gaf.optim.settings import activation_of
from gaf.optim.sgd import SGD

__all__ = [
    "FAMILY",
    "PLACEMENTS",
    "SGD",
    "Adam",
    "AdamW",
    "Auto",
    "Guard",
    "Lion",
    "Member",
    "Monitor",
    "ParamScheduler",
    "QuantileClip",
    "Ramp",
    "Scaled",
    "activate",
    "activate_grad_",
    "activation_of",
    "create_optimizer",
    "deactivate",
    "exclude_bias_and_norm",
    "in_backward",
    "is_activated",
]
