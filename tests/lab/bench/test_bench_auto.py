"""`gaf bench --auto`, on a few tensors. No test looks at how long anything took."""

import json

import pytest

from gaf.kernels import native
from gaf.lab.bench import auto
from gaf.lab.bench.shapes import Shapes
from gaf.lab.cli.app import run


@pytest.mark.skipif(not native.INSTRUCTION_SETS, reason="needs the native kernels")
def test_auto_is_measured_beside_the_fixed_function(tmp_path, capsys, monkeypatch):
    few = {name: Shapes(name, name, ((4, 3), (5,))) for name in auto.ON}
    monkeypatch.setattr(auto, "SHAPES", few)
    (tmp_path / "benchmarks").mkdir()
    monkeypatch.chdir(tmp_path)
    assert run(["bench", "--auto", "--repeats", "2", "--json", "auto.json", "--save"]) == 0
    found = json.loads((tmp_path / "auto.json").read_text("utf-8"))
    saved = sorted((tmp_path / "benchmarks" / "results").iterdir())
    assert [path.name.rpartition("-")[2] for path in saved] == ["auto.json", "auto.txt"]
    assert json.loads(saved[0].read_text("utf-8")) == found
    out = capsys.readouterr().out
    for name in auto.ON:
        assert few[name].label in out
        for place in auto.PLACEMENTS:
            each = found["shapes"][name][place]
            assert each["ratio"]["n"] == 2
            assert min(each["auto"]["median"], each["fixed"]["median"]) > 0
