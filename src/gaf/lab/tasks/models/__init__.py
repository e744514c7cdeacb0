"""The models of the paper and small ones for a laptop, built by name."""

from gaf.lab.tasks.models.registry import build, names, options

__all__ = ["build", "names", "options"]
