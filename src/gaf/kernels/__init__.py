"""HOW FAST: the same rules over lists of tensors, judged against :mod:`gaf.optim.rules`."""

from gaf.kernels.available import available

__all__ = ["available"]
