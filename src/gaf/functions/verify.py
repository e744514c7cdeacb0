"""``verify``: is a function what Definition 1 of the paper calls a gradient activation function?"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Literal

from gaf.functions import numeric, smoothness, symbolic
from gaf.functions.base import Activation
from gaf.functions.definition import STATEMENTS, SYMBOLIC_FORM, Clause, Finding, Verdict

CHECKS: dict[str, Callable[[numeric.Samples], Finding]] = {
    "differentiable": smoothness.differentiable,
    "increasing": numeric.increasing,
    "odd": numeric.odd,
    "restraining": numeric.restraining,
    "concave": numeric.concave,
}


def verify(f: Activation) -> Verdict:
    """Check Definition 1 clause by clause, with a witness wherever one fails.

    A function with a symbolic form is proved by sympy, once the form has been compared with the
    formula; a clause that sympy cannot decide, and a function without such a form, is checked by
    values in float64. Each clause says which it was, and how far the values reach.

    Args:
        f: any activation, registered or not.

    Returns:
        A verdict: true if every clause holds, readable when printed, indexed by clause.

    Example:
        >>> import gaf
        >>> verdict = verify(gaf.Log(0.1, 20.0))
        >>> verdict.holds, verdict["concave"].holds
        (False, True)
        >>> verdict["differentiable"].witness
        0.0
        >>> print(verdict)  # doctest: +ELLIPSIS
        Log(alpha=0.1, beta=20.0) does not meet Definition 1
           clause          holds  method    witness  detail
           differentiable  NO     symbolic  g = 0    for all alpha, beta > 0: f'' jumps from ...
           ...

    Reference:
        Liu et al., "Activated Gradients for Deep Neural Networks", Definition 1.
    """
    if not isinstance(f, Activation):
        raise TypeError(f"verify a function such as gaf.Arctan(0.1, 20), got {type(f).__name__}")
    try:
        samples = numeric.sample(f)
    except Exception as error:  # whatever the user's formula raises is the finding
        broken = Finding(False, f"f raised {type(error).__name__}: {error}")
        return Verdict(repr(f), tuple(_clause(name, broken) for name in STATEMENTS))
    prove, extra, note = _prover(f, samples)
    clauses = []
    for name, check in CHECKS.items():
        finding = proof = prove(name)
        if not finding or (not finding.holds and finding.witness is None):
            finding = numeric.undefined(samples) or check(samples)
            if proof:  # a disproof, to which the values add a witness
                finding = finding._replace(holds=False, detail=f"{proof.detail}; {finding.detail}")
        clauses.append(_clause(name, finding, "symbolic" if proof else "numeric"))
    return Verdict(repr(f), (*clauses, *extra), note)


def _prover(
    f: Activation, samples: numeric.Samples
) -> tuple[Callable[[str], Finding | None], list[Clause], str]:
    """How to prove a clause, the clause on the symbolic form itself, and a note."""
    if type(f).symbolic is None:
        return lambda name: None, [], ""
    if find_spec("sympy") is None:
        return lambda name: None, [], "by values only: sympy, which proves it, is not installed"
    agreement = symbolic.agrees(f, samples)
    extra = [_clause("symbolic form", agreement)]
    if not agreement.holds:
        return lambda name: None, extra, "by values only: the symbolic form is not the formula"
    return lambda name: symbolic.prove(f, name), extra, ""


def _clause(
    name: str, finding: Finding, method: Literal["symbolic", "numeric"] = "numeric"
) -> Clause:
    statement = STATEMENTS.get(name, SYMBOLIC_FORM)
    return Clause(name, statement, finding.holds, method, finding.witness, finding.detail)
