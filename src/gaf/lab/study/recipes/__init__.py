"""The trainings of the paper's Tables I, II and III, and small ones, as functions returning a config.

A name is typed in a shell: ``cifar100-resnet50-sgdm`` is a baseline, ``...-arctan-0.1-20@momentum`` has f at
a placement, ``...+control`` is its matched control, ``small-...`` the counterpart for a laptop.
"""

from gaf.lab.study.recipes.registry import get, groups, names, recipe
from gaf.lab.study.recipes.tables import Recipe

__all__ = ["Recipe", "get", "groups", "names", "recipe"]
