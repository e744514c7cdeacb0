"""The paper's statements as data: what is assumed, what is claimed, and a check that can be run."""

from gaf.lab.theory.statements.catalogue import STATEMENTS, find
from gaf.lab.theory.statements.findings import CountedClaim, Findings, Measurement, Statement

__all__ = ["STATEMENTS", "CountedClaim", "Findings", "Measurement", "Statement", "find"]
