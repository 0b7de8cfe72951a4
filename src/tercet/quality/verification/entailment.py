"""Whoever says whether evidence bears out a claim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tercet.contracts.evidence import Evidence
from tercet.contracts.quality import Judgement


class Entails(Protocol):
    """Judges claims against the evidence that it was made with.

    The same claim gets the same judgement, always; nothing outside is asked. It never raises on any text.
    What is not promised: that a neutral claim is true, or that it is false.
    """

    name: str
    """Its name with its version: a changed rule is a new name, since verdicts must stay re-derivable."""

    def judge(self, claim: str) -> Judgement:
        """What the evidence says about a claim."""
        ...


class MakesJudge(Protocol):
    """Makes a judge for some evidence; `GroundingCheck` is the usual one."""

    def __call__(self, evidence: Sequence[Evidence]) -> Entails:
        """The judge for this evidence."""
        ...
