"""Figures of a comparison: an activation whose curve is each tensor's own has none to draw."""

from types import SimpleNamespace

from gaf.lab.reports.curves import _function, _range


def test_auto_has_no_curve_to_draw():
    assert _function([SimpleNamespace(activation="auto")]) is None
    assert _function([SimpleNamespace(activation="arctan(0.1, 20)")]) is not None
    assert _range({-3.0: 0.5, -2.75: 0.5}, None) == (-3.5, -2.0)
