"""WHAT IT LOOKS LIKE: the equivalent loss, whose plain gradient is the transformed one, and its surface."""

from gaf.lab.landscape.closed_form import ClosedForm, closed_form
from gaf.lab.landscape.equivalent import Measured, Quadrature, Surface, compare, equivalent
from gaf.lab.landscape.potential import Potential, fit_potential

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
