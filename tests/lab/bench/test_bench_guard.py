"""`gaf bench --guard`, on a few tensors. No test looks at how long anything took."""

import json

from gaf.lab.bench import guard
from gaf.lab.bench.shapes import Shapes
from gaf.lab.cli.app import run


def test_a_guarded_step_is_measured_beside_the_same_without(tmp_path, capsys, monkeypatch):
    few = {name: Shapes(name, name, ((4, 3), (5,))) for name in guard.ON}
    monkeypatch.setattr(guard, "SHAPES", few)
    assert run(["bench", "--guard", "--repeats", "2", "--json", str(tmp_path / "guard.json")]) == 0
    found = json.loads((tmp_path / "guard.json").read_text("utf-8"))
    out = capsys.readouterr().out
    for name in guard.ON:
        assert few[name].label in out
        for optimizer in guard.OPTIMIZERS:
            figures = found["shapes"][name][optimizer]
            assert figures.keys() == {"alone", *guard.WHO}
            assert all(one["n"] == 2 and one["median"] > 0 for one in figures.values())
