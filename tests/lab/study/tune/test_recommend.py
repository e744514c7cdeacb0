"""The recommendation: numbers tied to what was measured, a sentence for each, the presets among them."""

import math

import pytest

import gaf
from gaf.lab.engine.config import OptimizerConfig
from gaf.lab.study import recipes
from gaf.lab.study.recipes.laptop import hard_case
from gaf.lab.study.settings import make
from gaf.lab.study.tune.probe import QUANTILES, Layer, Probe, Sizes
from gaf.lab.study.tune.recommend import recommend
from gaf.lab.study.tune.shape import judge
from gaf.lab.study.tune.tune import CANDIDATES

W = [i / 25 - 1 for i in range(51)]


def probed(medians, config=None, velocity=2.0):
    """Layers of these typical sizes; 10 % quantile a tenth, largest a hundred times of it."""
    layers = []
    for i, median in enumerate(medians):
        one = Sizes(100 * median, (median / 10, median, 3 * median, 10 * median))
        two = Sizes(100 * median * velocity, tuple(velocity * q for q in one.quantiles))
        layers.append(Layer(f"{i}.weight", (4, 4), 0.07, [one, one], [two, two]))
    return Probe(config or hard_case(), 2, 40, (2.3, 2.3), tuple(layers), 0.001)


def test_the_quantiles_are_those_the_helper_makes():
    assert QUANTILES == (0.1, 0.5, 0.9, 0.99)


def test_vanishing_gradients_bring_beta_to_the_smallest_layer():
    found = recommend(probed([3e-7, 1e-5, 1e-2]))
    assert found.vanishing
    f = found.first.function
    assert isinstance(f, gaf.Arctan)
    assert found.first.placement == "gradient"
    low, median = 3e-8, 3e-7
    assert 1 / median < f.params[1] < 1 / low
    step = 0.1 * f.bound / (1 - 0.9)  # lr, momentum
    assert step == pytest.approx(0.4 * 0.07, rel=0.05)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_it_follows_the_scale_of_the_loss(scale):
    one, other = recommend(probed([3e-7, 1e-2])), recommend(probed([3e-7 * scale, 1e-2 * scale]))
    ratio = one.first.function.params[1] / other.first.function.params[1]
    assert ratio == pytest.approx(scale, rel=0.1)
    assert one.first.function.params[0] == other.first.function.params[0]


@pytest.mark.parametrize(("power", "slope"), [(3.0, 2.0), (1.5, 0.5), (2.0, 1.0), (None, 2.0)])
def test_the_papers_rule(power, slope):
    shape = None if power is None else judge(W, [abs(w) ** power for w in W])
    found = recommend(probed([1e-3, 2e-3]), shape)
    f = found.first.function
    assert not found.vanishing
    assert found.first.placement == "momentum"
    assert f.slope == pytest.approx(slope, rel=0.1)
    largest = 100 * 2e-3 * 2  # of the velocity, which f acts on
    assert f(largest) < largest
    assert f.params[0] == pytest.approx(largest / 2, rel=0.1)
    told = dict(found.reasons)["curve"]
    assert {2.0: "αβ > 1", 0.5: "αβ < 1", 1.0: "αβ = 1"}[slope] in told


def test_each_number_has_its_sentence():
    for medians in ([3e-7, 1e-2], [1e-3, 2e-3]):
        found = recommend(probed(medians))
        reasons = dict(found.reasons)
        alpha, beta = found.first.function.params
        assert reasons["alpha"].startswith(f"{alpha:g}")
        assert reasons["beta"].startswith(f"{beta:g}")
        assert found.first.placement in reasons["placement"]
        assert all(text.endswith((".", ").")) for text in reasons.values())


@pytest.mark.parametrize("medians", [[3e-7, 1e-2], [1e-3, 2e-3]])
@pytest.mark.parametrize("rule", ["sgdm", "sgd", "adam"])
def test_the_presets_are_always_among_the_candidates_and_all_can_be_trained(medians, rule):
    rules = {
        "sgdm": OptimizerConfig(lr=0.1, momentum=0.9),
        "sgd": OptimizerConfig(lr=0.1),
        "adam": OptimizerConfig(name="adam", lr=1e-3),
    }
    config = recipes.get("digits-cnn-sgdm").model_copy(update={"optimizer": rules[rule]})
    found = recommend(probed(medians, config)).candidates
    functions = {each.function for each in found}
    assert {gaf.Arctan(0.1, 20.0), gaf.Arctan(0.2, 10.0)} <= functions
    assert found[0].source == "recommended"
    names = [each.name for each in found]
    assert len(set(names)) == len(names) >= CANDIDATES
    for each in found:
        made = make(config, each.name)
        assert made.name == each.name
        assert gaf.parse(made.config.optimizer.activation) == each.function
        assert all(math.isfinite(value) and value > 0 for value in each.function.params)
