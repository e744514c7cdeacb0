"""What `gaf tune` makes of its runs: the curve, the verdict and the line to copy."""

import pytest

import gaf
from gaf.lab.engine.config import OptimizerConfig
from gaf.lab.engine.run import train
from gaf.lab.reports.tune_page import curve_figure
from gaf.lab.study.grid import Outcome
from gaf.lab.study.tune.probe import probe
from gaf.lab.study.tune.recommend import Candidate
from gaf.lab.study.tune.tune import curve_near, line
from tests.lab.engine.tiny import tiny_config

F = gaf.Arctan(0.1, 20)


def test_the_curve_is_of_a_baseline_that_did_not_diverge(tmp_path):
    lost, ended = (
        train(tiny_config("checkpoint_every=1000", **options), tmp_path / name)
        for name, options in (("lost", {"explode": 3}), ("ended", {}))
    )
    assert (lost.diverged, ended.diverged) == (True, False)
    seen = probe(tiny_config(), steps=2)
    lost, ended = (Outcome(result.folder, result) for result in (lost, ended))
    # what a folder says its task is, is not looked at: it may come from elsewhere
    (ended.folder / "config.json").write_text('{"task": {"kind": "os:system"}}')
    assert curve_near([lost, ended], seen) == curve_near([ended], seen)
    none = curve_near([lost, lost], seen)
    assert none.shape is None
    assert none.why == "the baseline diverged: there is no optimum to look at"
    near = {"w": none.w, "losses": none.losses, "each": none.each, "shape": None, "why": none.why}
    assert curve_figure(near).about == "The baseline diverged: there is no optimum to look at."


@pytest.mark.parametrize(
    ("changes", "beside"),
    [
        ({}, ""),
        (
            {"clip_norm": 0.5},
            "before each step: torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)",
        ),
        (
            {"clip_value": 0.01, "centralize": True},
            "before each step: take from each output's weights the mean of their gradient, then "
            "torch.nn.utils.clip_grad_value_(model.parameters(), 0.01)",
        ),
        (
            {"normalize": 1.0},
            "before each step: bring the norm of all gradients together to 1",
        ),
    ],
)
def test_the_line_says_what_was_done_beside_it(changes, beside):
    code, _, comment = line(
        OptimizerConfig(lr=0.1, **changes), Candidate(F, "gradient", "")
    ).partition("  # ")
    assert code == (
        'gaf.SGD(model.parameters(), lr=0.1, activation=gaf.Arctan(0.1, 20), placement="gradient")'
    )
    assert comment == beside


def test_the_line_keeps_all_digits():
    made = line(OptimizerConfig(lr=0.12345678), Candidate(F, "gradient", ""))
    assert "lr=0.12345678," in made
