"""The smallest parts of a page, and the quality loop as plain data: what was said of outputs turn by turn, how it ended, and what was changed."""

from __future__ import annotations

from typing import Literal

import msgspec

from tercet.view.words import Tone


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A label and what stands beside it."""

    label: str
    text: str
    is_code: bool = False
    is_block: bool = False
    """Whether it is a text of several lines."""
    note: str = ""
    """A quieter word behind it."""
    tone: Tone = "quiet"


class Chip(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict in a few words."""

    text: str
    tone: Tone


class Grade(msgspec.Struct, frozen=True, kw_only=True):
    """A score between 0 and 1, and what it is held to."""

    name: str
    number: str
    limit: str
    """What it should be, in words."""
    share: float
    mark: float | None
    """Where on its bar the limit is."""
    tone: Tone


class TestsCard(msgspec.Struct, frozen=True, kw_only=True):
    """What a test command said, or what came of edge cases."""

    __test__ = False  # keeps pytest from collecting it

    heading: str = "Tests"

    tool: str
    result: Chip
    failures: tuple[Row, ...]


class TokenCard(msgspec.Struct, frozen=True, kw_only=True):
    """A value that the outputs state, and where it is known from."""

    text: str
    where: str
    status: Chip
    sources: str


class VerifiedPart(msgspec.Struct, frozen=True, kw_only=True):
    """What VERIFY found."""

    summary: str
    grades: tuple[Grade, ...]
    faults: tuple[Row, ...]
    """How the outputs break their schema."""
    tokens: tuple[TokenCard, ...]
    tokens_note: str
    unjudged: tuple[Row, ...]
    """The texts that nothing vouches for."""
    judgements: tuple[Row, ...]
    """What a model said about them."""


class DefectCard(msgspec.Struct, frozen=True, kw_only=True):
    """Something wrong with the outputs."""

    dimension: str
    severity: Chip
    what: str
    where: str
    hint: str


class CritiquedPart(msgspec.Struct, frozen=True, kw_only=True):
    """What CRITIQUE found."""

    summary: str
    grades: tuple[Grade, ...]
    defects: tuple[DefectCard, ...]
    left_out: str
    steering: str
    """What the controller said to it."""


class RepairCard(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt to mend an output."""

    title: str
    result: Chip
    rows: tuple[Row, ...]

    @property
    def tone(self) -> Tone:
        """How it went."""
        return self.result.tone


class RepairedPart(msgspec.Struct, frozen=True, kw_only=True):
    """What REPAIR did, and where the rest went."""

    summary: str
    attempts: tuple[RepairCard, ...]
    left_out: str
    went: str
    """Where that goes which was not mended."""
    left: tuple[Row, ...]


class Turn(msgspec.Struct, frozen=True, kw_only=True):
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


class ExitCard(msgspec.Struct, frozen=True, kw_only=True):
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


class Stroke(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the drawing of a controller: a path, and what it shows."""

    path: str
    kind: Literal["measured", "foreseen"]


class Dot(msgspec.Struct, frozen=True, kw_only=True):
    """A measurement, or one that was foreseen."""

    x: float
    y: float
    kind: Literal["measured", "foreseen"]
    text: str
    """The number beside it, where there is room."""


class Curve(msgspec.Struct, frozen=True, kw_only=True):
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


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a line, and whether it is what was changed in it."""

    text: str
    is_changed: bool


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A line of an output, before or after."""

    kind: Literal["same", "gone", "new", "gap"]
    pieces: tuple[Piece, ...]

    @property
    def sign(self) -> str:
        """What stands before it."""
        return {"same": " ", "gone": "−", "new": "+", "gap": "⋯"}[self.kind]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """An output as it was before the first repair and as it is at the end, line by line."""

    name: str
    lines: tuple[Line, ...]
    note: str


class LoopPart(msgspec.Struct, frozen=True, kw_only=True):
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


class Produced(msgspec.Struct, frozen=True, kw_only=True):
    """Outputs as people were asked about them."""

    outputs: tuple[Row, ...]
    exit: ExitCard
    left: tuple[str, ...]
    """What repairs left, in words."""
    repairs: str
