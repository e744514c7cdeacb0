"""Softsign under a second name, for trial."""

from __future__ import annotations

from gaf.functions.registry import register
from gaf.functions.softsign import Softsign


@register
class Softened(Softsign):
    """Softsign under a second name."""
