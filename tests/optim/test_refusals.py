"""The list of refusals in docs/placements.md against the code: each is provoked, and no other is found."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch

import gaf
from gaf.optim.activate import ANY
from gaf.optim.factory import OURS
from tests.optim.helpers import ADAPTIVE, BUILT_IN, OTHERS

PAGE = Path(__file__).parents[2] / "docs" / "placements.md"


def listed() -> dict[str, str]:
    """What is refused, and the sentence, by the page."""
    text = PAGE.read_text("utf-8").partition("## What is refused")[2].partition("\n## ")[0]
    cells = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return dict(cells[1:])


def weight():
    w = torch.ones(3, requires_grad=True)
    w.grad = torch.ones(3)
    return w


def sparse():
    w = torch.ones(3, requires_grad=True)
    w.grad = torch.ones(3).to_sparse()
    return w


def saved_elsewhere():
    made = [gaf.SGD([weight()], activation="tanh", placement=p) for p in ("momentum", "gradient")]
    made[1].load_state_dict(made[0].state_dict())


# In the order of the page.
PROVOKED = (
    lambda: gaf.activate(torch.optim.SGD([weight()]), "tanh", placement="momentum"),
    lambda: gaf.Lion([weight()], activation="tanh", placement="gradient"),
    lambda: gaf.Adam([weight()], eps=0, activation="log", placement="momentum"),
    lambda: gaf.activate(torch.optim.LBFGS([weight()], line_search_fn="strong_wolfe"), "tanh"),
    lambda: gaf.activate(torch.optim.SGD([weight()], differentiable=True), "tanh"),
    lambda: gaf.SGD([weight()], activation="auto", differentiable=True),
    lambda: gaf.SGD([sparse()], activation="auto", placement="update").step(),
    lambda: gaf.activate_grad_([weight()], "auto"),
    lambda: gaf.parse("auto + tanh"),
    lambda: gaf.activate(gaf.activate(torch.optim.SGD([weight()]), "tanh"), "tanh"),
    lambda: gaf.activate(gaf.SGD([weight()]), "tanh"),
    saved_elsewhere,
    lambda: gaf.SGD([weight()], activation="tanh", differentiable=True, fused=True),
    lambda: gaf.Lion([sparse()]).step(),
)


@pytest.mark.parametrize(
    ("what", "says", "provoke"),
    [(*row, provoke) for row, provoke in zip(listed().items(), PROVOKED, strict=True)],
    ids=list(listed()),
)
def test_the_page_has_what_is_said(what, says, provoke):
    with pytest.raises((ValueError, TypeError, RuntimeError)) as caught:
        provoke()
    assert str(caught.value) == says, what


def test_no_rule_refuses_more():
    """Every rule, placement and function, with and without an eps: what is refused is on the page."""
    names = (*BUILT_IN, *OTHERS, *ADAPTIVE)
    known = [says.partition(" got ")[0].partition("; ")[0] for says in listed().values()]
    refused = set()
    rules = [*(kind.rule for kind in OURS.values()), ANY]
    for rule, placement, name, eps in itertools.product(
        rules, gaf.PLACEMENTS, names, ({}, {"eps": 0})
    ):
        reason = rule.refusal(eps, placement, gaf.parse(name))
        if reason is not None:
            refused.add(next(says for says in known if reason.startswith(says)))
    assert len(refused) == 3
