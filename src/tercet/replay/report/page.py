"""A report as plain data: what stands where, in words that are ready to be printed, and no HTML."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from tercet.replay.report.loop_page import Chip, LoopPart, Produced, Row, Tone

BarKind: TypeAlias = Literal["phase", "call", "gate", "model", "lost"]


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A number that sums a run up."""

    number: str
    label: str
    tone: Tone = "quiet"


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a step, from INTENT to its end."""

    number: int
    at: str
    how: str
    tone: Tone
    note: str = ""
    key: str = ""


class StepCard(msgspec.Struct, frozen=True, kw_only=True):
    """A step with what was said of it and what it did."""

    anchor: str
    id: str
    tool: str
    chips: tuple[Chip, ...]
    tone: Tone
    mark: str
    how: str
    """How far it is, in a few words."""
    why: str = ""
    rows: tuple[Row, ...] = ()
    params: str = ""
    result: str = ""
    attempts: tuple[Attempt, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether there is more to it than that it went well."""
        is_blamed = any(chip.tone == "bad" for chip in self.chips)
        return is_blamed or self.tone in ("bad", "wait") or len(self.attempts) > 1


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A step in the drawing of a plan."""

    x: float
    y: float
    width: float
    height: float
    anchor: str
    id: str
    tool: str
    how: str
    gate: str
    mark: str
    tone: Tone
    title: str


class Edge(msgspec.Struct, frozen=True, kw_only=True):
    """A line between two steps: a path, and the place of its arrow head."""

    path: str
    head: str
    is_back: bool = False
    """Whether it closes a circle, which no plan may have."""


class Drawing(msgspec.Struct, frozen=True, kw_only=True):
    """A plan as a graph."""

    width: float
    height: float
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    summary: str
    """What it shows, for those who do not see it."""
    is_wide: bool = False
    """Whether it is wider than can be read when it is made to fit a page."""
    left_out: str = ""


class PlanPart(msgspec.Struct, frozen=True, kw_only=True):
    """One plan of a run, or one turn of an agent that decides step by step."""

    number: int
    word: Literal["plan", "turn"]
    title: str
    hash: str
    is_last: bool
    review: Chip | None
    reasons: tuple[str, ...]
    remedies: tuple[Row, ...]
    why: tuple[str, ...]
    """Why the plan before it was given up."""
    changes: tuple[Row, ...]
    drawing: Drawing | None
    steps: tuple[StepCard, ...]
    left_out: str = ""


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of time on a row of the timeline."""

    x: float
    width: float
    kind: BarKind
    tone: Tone
    title: str
    text: str = ""
    """What is written into it where there is room."""


class TimeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the timeline."""

    label: str
    y: float
    bars: tuple[Bar, ...]


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    """A moment on the axis, or a mark through all rows."""

    x: float
    text: str
    anchor: Literal["start", "middle", "end"] = "middle"
    title: str = ""


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """What happened when. The axis is bent: see `timeline`."""

    width: float
    height: float
    left: float
    rows: tuple[TimeRow, ...]
    ticks: tuple[Tick, ...]
    crashes: tuple[Tick, ...]
    summary: str
    left_out: str = ""


class Happening(msgspec.Struct, frozen=True, kw_only=True):
    """One event in a sentence."""

    number: int
    at: str
    after: str
    what: str
    tone: Tone = "quiet"


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """What one evaluator found."""

    name: str
    number: str
    share: float
    tone: Tone
    status: str
    is_floor: bool
    findings: tuple[str, ...]
    version: str


class Meter(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a limit was used."""

    name: str
    used: str
    limit: str
    share: float
    tone: Tone
    note: str = ""


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """A value that an approver saw, and where it came from."""

    name: str
    value: str
    source: str
    is_authority: bool
    is_trusted: bool


class SeenCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call as people were asked about it."""

    step: str
    tool: str
    nature: str
    description: str
    parameters: tuple[Parameter, ...]
    back: str
    """How it can be taken back."""
    digest: str


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody answered."""

    who: str
    answer: str
    tone: Tone
    at: str
    rows: tuple[Row, ...]


class GateCard(msgspec.Struct, frozen=True, kw_only=True):
    """A question to people, what they saw, and what they said."""

    title: str
    question: str
    state: Chip
    asked: tuple[Row, ...]
    calls: tuple[SeenCall, ...]
    produced: Produced | None
    more: str
    """Whatever else was shown, as JSON."""
    replies: tuple[Reply, ...]


class FactCard(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of evidence that the run stands on."""

    id: str
    classification: str
    source: str
    trust: Chip
    rows: tuple[Row, ...]
    content: str


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """A question to a language model, and its answer."""

    title: str
    tone: Tone
    how: str
    system: str
    messages: tuple[Row, ...]
    answer: str


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A report."""

    title: str
    session: str
    standing: str
    tone: Tone
    mark: str
    meaning: str
    reason: str
    facts: tuple[Row, ...]
    figures: tuple[Figure, ...]
    request: str
    outputs: tuple[Row, ...]
    missing: tuple[Row, ...]
    plans: tuple[PlanPart, ...]
    """The last one first."""
    earlier: str
    """How many plans before these are not shown, in words."""
    timeline: Timeline | None
    happenings: tuple[Happening, ...]
    skipped_happenings: str
    gates: tuple[GateCard, ...]
    verdict: Chip | None
    rationale: tuple[str, ...]
    scores: tuple[Score, ...]
    quality: LoopPart | None
    """How the outputs were judged and mended; None where nobody did."""
    meters: tuple[Meter, ...]
    evidence: tuple[FactCard, ...]
    evidence_note: str
    taken_back: tuple[Row, ...]
    exchanges: tuple[Exchange, ...]
    exchanges_note: str
    hashes: tuple[Row, ...]
