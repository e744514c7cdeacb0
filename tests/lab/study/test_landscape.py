"""The loss curve near an optimum, and where there is none."""

import torch
from torch import nn

from gaf.lab.study.landscape import curve, training_loss
from gaf.lab.tasks.classification.deep_sigmoid import deep_sigmoid


def test_a_model_that_has_not_learned_is_at_no_optimum():
    torch.manual_seed(0)
    task = deep_sigmoid()
    model, loss = task.build_model(), training_loss(task)
    here = loss(model).item()
    near = curve(model, loss, start=1.04 * here)
    assert near.shape is None
    assert near.why.startswith("no optimum to judge: training has brought the loss from")
    learned = curve(model, loss, start=1.1 * here)
    assert learned.shape is not None
    assert learned.losses == near.losses


def test_a_curve_that_no_power_describes_says_so():
    model = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(1.0)
    near = curve(model, lambda m: torch.sin(15 * m.weight).sum())
    assert near.shape is None
    assert near.why.startswith("no type to name: the curve is no c + a |w - w₀|^p")
    assert near.sentence().endswith("of its height, and 5% is the most.")
