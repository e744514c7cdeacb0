"""The shape of what f sees, for an activation whose curve is each tensor's own."""

from types import SimpleNamespace

from gaf.lab.reports.shape import _function, _range


def test_auto_has_no_curve_to_draw():
    assert _function([SimpleNamespace(activation="auto")]) is None
    assert _function([SimpleNamespace(activation="arctan(0.1, 20)")]) is not None
    assert _range({-3.0: 0.5, -2.75: 0.5}, None)
