"""What a scorer says: a score, and what takes off from it."""

from __future__ import annotations

from typing import Literal, NamedTuple

from tercet.contracts.quality import DefectSeverity


class Fault(NamedTuple):
    """Something that takes off a score."""

    description: str
    location: str | None = None
    scope: Literal["LOCAL", "SECTION", "GLOBAL"] = "LOCAL"
    hint: str = ""
    least: DefectSeverity = DefectSeverity.NONE
    """How bad it is at least, however much of the output is right; NONE where it matters only if the score is low."""


class Scored(NamedTuple):
    """A score with its explanation."""

    score: float
    faults: tuple[Fault, ...] = ()
    lack: Fault | None = None
    """What a low score is put down to where there is no fault."""
