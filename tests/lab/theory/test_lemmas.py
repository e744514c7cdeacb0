"""Lemmas 1 and 2: no violation, a wrong function is caught, examples by hand."""

import math

import torch

from gaf.functions import Arctan
from gaf.lab.theory import lemmas
from gaf.lab.theory.families import one
from gaf.lab.theory.trials import tally, without


def test_lemma_1():
    total = tally(lemmas.random_lemma_1(torch.Generator().manual_seed(1)))
    assert (total.sound.cases >= 10_000, total.sound.failures) == (True, 0)
    found = without(total, lemmas.examples_1())
    assert all(each.failures > 0 and each.example for each in found)


def test_lemma_2_needs_a_positive_epsilon():
    total = tally(lemmas.random_lemma_2(torch.Generator().manual_seed(1)), lemmas.PRINTED_2)
    assert (total.sound.cases >= 10_000, total.sound.failures) == (True, 0)
    assert total.printed.failures == total.dropped[lemmas.POSITIVE].failures > 0
    found = {each.assumption: each for each in without(total, lemmas.examples_2())}
    assert found.pop(lemmas.FLAT).failures == 0
    assert all(each.failures > 0 and each.example for each in found.values())


def test_distances_by_hand():
    f = one(Arctan(0.1, 20.0))
    a = torch.tensor([[0.03, -0.01]], dtype=torch.float64)
    b = torch.tensor([[0.0, 0.02]], dtype=torch.float64)
    found = lemmas.lemma_1(f, a, b, torch.tensor([0.04], dtype=torch.float64))
    before = math.hypot(0.03, 0.03)
    after = math.hypot(0.1 * math.atan(0.6), 0.1 * (math.atan(0.2) + math.atan(0.4)))
    assert f"{before:.4g} becomes {after:.4g}" in found.describe(0)
    assert found.meeting().item()
    assert found.claim.item() == (after > before)
