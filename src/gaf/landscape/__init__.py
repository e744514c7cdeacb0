"""WHAT IT LOOKS LIKE: the equivalent loss, whose plain gradient is the transformed one, and its surface."""

from gaf.landscape.closed_form import ClosedForm, closed_form
from gaf.landscape.compare import Measured, compare
from gaf.landscape.equivalent import Quadrature, Surface, equivalent
from gaf.landscape.potential import Potential, fit_potential

__all__ = [
    "ClosedForm",
    "Measured",
    "Potential",
    "Quadrature",
    "Surface",
    "closed_form",
    "compare",
    "equivalent",
    "fit_potential",
]
