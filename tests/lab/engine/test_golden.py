"""A built-in part that gives other numbers has another version: runs are known by it."""

import pytest

import gaf
from gaf.functions import registry
from tests.lab.engine import golden


class Softclip(gaf.Activation):
    """A function that somebody adds to the package."""

    scale: float = 1.0

    @staticmethod
    def formula(xp, g, scale):
        return g / (1 + xp.abs(g) / scale)


RECORDED = golden.read()
PARTS = golden.parts()


def complaint(name, folder):
    version, compute = golden.parts()[name]
    return golden.complaint(name, version, compute(folder), RECORDED.get(name))


@pytest.mark.parametrize("name", PARTS)
def test_a_part_gives_the_numbers_of_its_version(name, tmp_path):
    assert complaint(name, tmp_path) == ""


def test_nothing_is_recorded_of_what_is_not_there():
    assert set(RECORDED) == set(PARTS)


def test_a_changed_default_asks_for_a_new_version(tmp_path, monkeypatch):
    monkeypatch.setattr(
        gaf.Auto.__init__, "__defaults__", (0.031, *gaf.Auto.__init__.__defaults__[1:])
    )
    assert "raise its version" in complaint("function auto", tmp_path)
    monkeypatch.setattr(gaf.Auto, "version", 3)
    assert "are of version 2, not 3" in complaint("function auto", tmp_path)
    assert complaint("function arctan", tmp_path) == ""


def test_a_changed_formula_asks_for_a_new_version(tmp_path, monkeypatch):
    formula = Softclip.formula
    gaf.register(Softclip)
    try:
        assert "function softclip" not in golden.parts()  # not the package's own
        monkeypatch.setattr(Softclip, "__module__", "gaf.functions.softclip")
        name, (version, compute) = "function softclip", golden.parts()["function softclip"]
        known = {"version": 1, "numbers": compute(tmp_path)}
        assert golden.complaint(name, version, compute(tmp_path), None).startswith(f"{name} has no")
        assert golden.complaint(name, version, compute(tmp_path), known) == ""
        slope = staticmethod(lambda xp, g, scale: 1.001 * formula(xp, g, scale))
        monkeypatch.setattr(Softclip, "formula", slope)
        assert "raise its version" in golden.complaint(name, version, compute(tmp_path), known)
    finally:
        registry._REGISTRY.pop("softclip")


def test_the_command_does_not_hide_a_change(tmp_path, monkeypatch):
    """Numbers that changed under the same version are not written."""
    monkeypatch.setattr(golden, "FILE", tmp_path / "golden.json")
    golden.main(["function tanh"])
    before = golden.read()
    monkeypatch.setattr(golden, "gradients", lambda step: golden.torch.ones(8))
    with pytest.raises(SystemExit, match="raise its version"):
        golden.main(["function tanh"])
    assert golden.read() == before
    monkeypatch.setattr(gaf.Tanh, "version", 2)
    golden.main(["function tanh"])
    assert golden.read()["function tanh"]["version"] == 2
