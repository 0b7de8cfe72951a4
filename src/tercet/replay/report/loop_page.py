"""The quality loop as plain data: what was said of outputs turn by turn, how it ended, and what was changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tercet.replay.report.parts import Chip, Grade, Row, Tone


@dataclass(frozen=True, kw_only=True)
class TestsCard:
    """What a test command said, or what came of edge cases."""

    __test__ = False  # keeps pytest from collecting it

    heading: str = "Tests"

    tool: str
    result: Chip
    failures: tuple[Row, ...]


@dataclass(frozen=True, kw_only=True)
class ClaimCard:
    """A claim that the outputs make, and what became of it."""

    text: str
    where: str
    verdict: Chip
    why: str


@dataclass(frozen=True, kw_only=True)
class VerifiedPart:
    """What VERIFY found."""

    summary: str
    grades: tuple[Grade, ...]
    faults: tuple[Row, ...]
    """How the outputs break their schema."""
    claims: tuple[ClaimCard, ...]
    claims_note: str


@dataclass(frozen=True, kw_only=True)
class DefectCard:
    """Something wrong with the outputs."""

    dimension: str
    severity: Chip
    what: str
    where: str
    hint: str


@dataclass(frozen=True, kw_only=True)
class CritiquedPart:
    """What CRITIQUE found."""

    summary: str
    grades: tuple[Grade, ...]
    defects: tuple[DefectCard, ...]
    left_out: str
    steering: str
    """What the controller said to it."""


@dataclass(frozen=True, kw_only=True)
class RepairCard:
    """An attempt to mend an output."""

    title: str
    result: Chip
    rows: tuple[Row, ...]

    @property
    def tone(self) -> Tone:
        """How it went."""
        return self.result.tone


@dataclass(frozen=True, kw_only=True)
class RepairedPart:
    """What REPAIR did, and where the rest went."""

    summary: str
    attempts: tuple[RepairCard, ...]
    left_out: str
    went: str
    """Where that goes which was not mended."""
    left: tuple[Row, ...]


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One turn of the loop: tests, verification, critique, and the repair that follows from them."""

    number: int
    tone: Tone
    is_open: bool
    chips: tuple[Chip, ...]
    next: str
    """What followed from it."""
    tests: tuple[TestsCard, ...]
    verified: VerifiedPart | None
    critiqued: CritiquedPart | None
    people: tuple[Row, ...]
    """What people said of the outputs before they were repaired."""
    fetched: tuple[Row, ...]
    repaired: RepairedPart | None
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ExitCard:
    """Whether outputs may be committed, and all that it was decided by."""

    outcome: Chip
    reason: str
    thresholds: tuple[Grade, ...]
    confidence: Grade | None
    confidence_note: str
    confidence_parts: tuple[Row, ...]
    triggers: tuple[str, ...]
    """What asks for a person."""
    advice: str


@dataclass(frozen=True, kw_only=True)
class Stroke:
    """A line of the drawing of a controller: a path, and what it shows."""

    path: str
    kind: Literal["measured", "foreseen"]


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A measurement, or one that was foreseen."""

    x: float
    y: float
    kind: Literal["measured", "foreseen"]
    text: str
    """The number beside it, where there is room."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Quality over measurements, against what was aimed at."""

    width: float
    height: float
    left: float
    base: float
    target_y: float
    target: str
    lowest: str
    """The quality at the foot of the drawing."""
    strokes: tuple[Stroke, ...]
    dots: tuple[Dot, ...]
    ticks: tuple[Dot, ...]
    summary: str
    caption: str


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A part of a line, and whether it is what was changed in it."""

    text: str
    is_changed: bool


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line of an output, before or after."""

    kind: Literal["same", "gone", "new", "gap"]
    pieces: tuple[Piece, ...]

    @property
    def sign(self) -> str:
        """What stands before it."""
        return {"same": " ", "gone": "−", "new": "+", "gap": "⋯"}[self.kind]


@dataclass(frozen=True, kw_only=True)
class Change:
    """An output as it was before the first repair and as it is at the end, line by line."""

    name: str
    lines: tuple[Line, ...]
    note: str


@dataclass(frozen=True, kw_only=True)
class LoopPart:
    """How the outputs of a run were judged and mended."""

    experience: str
    exit: ExitCard | None
    answered: tuple[Row, ...]
    """What people said to that exit."""
    curve: Curve | None
    changes: tuple[Change, ...]
    changes_note: str
    turns: tuple[Turn, ...]
    turns_note: str


@dataclass(frozen=True, kw_only=True)
class Produced:
    """Outputs as people were asked about them."""

    outputs: tuple[Row, ...]
    exit: ExitCard
    left: tuple[str, ...]
    """What repairs left, in words."""
    repairs: str
