"""The phases of a run, and the verdict of VERIFY."""

from __future__ import annotations

from enum import StrEnum

from tercet.contracts.documents import MissingPart, TokenVerdict, UnjudgedText
from tercet.contracts.outputs.quality import SchemaFault, TextJudgement
from tercet.contracts.shape import Shape


class Phase(StrEnum):
    """The phase of a run."""

    PLAN = "PLAN"
    DECOMPOSE = "DECOMPOSE"
    RETRIEVE = "RETRIEVE"
    REVIEW = "REVIEW"
    ACT = "ACT"
    VERIFY = "VERIFY"
    CRITIQUE = "CRITIQUE"
    REPAIR = "REPAIR"
    COMMIT = "COMMIT"
    FAIL = "FAIL"
    HALT = "HALT"


class VerificationVerdict(Shape):
    """The result of VERIFY: the composite score and its parts."""

    passed: bool
    schema_valid: bool
    semantic: float | None = None
    """The share of tokens that equal a known value; None if the schema was violated or there are no tokens."""
    factual: float | None = None
    """The share of tokens that are bound, or found in their role in a trusted source."""
    score: float
    failures: tuple[str, ...] = ()
    threshold: float = 0.0
    schema_faults: tuple[SchemaFault, ...] = ()
    tokens: tuple[TokenVerdict, ...] = ()
    missing: tuple[MissingPart, ...] = ()
    unjudged: tuple[UnjudgedText, ...] = ()
    """The words that no source and no person vouches for."""
    judgements: tuple[TextJudgement, ...] = ()
