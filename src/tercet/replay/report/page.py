"""A report as plain data: what stands where, in words that are ready to be printed, and no HTML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Tone: TypeAlias = Literal["good", "bad", "wait", "busy", "quiet"]
"""What a colour means: it went well, badly, it waits or is not known, it goes on, nothing came of it."""
BarKind: TypeAlias = Literal["phase", "call", "gate", "model", "lost"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A label and what stands beside it."""

    label: str
    text: str
    is_code: bool = False
    note: str = ""
    """A quieter word behind it."""
    tone: Tone = "quiet"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A number that sums a run up."""

    number: str
    label: str
    tone: Tone = "quiet"


@dataclass(frozen=True, kw_only=True)
class Chip:
    """A verdict in a few words."""

    text: str
    tone: Tone


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One call of a step, from INTENT to its end."""

    number: int
    at: str
    how: str
    tone: Tone
    note: str = ""
    key: str = ""


@dataclass(frozen=True, kw_only=True)
class StepCard:
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


@dataclass(frozen=True, kw_only=True)
class Node:
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


@dataclass(frozen=True, kw_only=True)
class Edge:
    """A line between two steps: a path, and the place of its arrow head."""

    path: str
    head: str
    is_back: bool = False
    """Whether it closes a circle, which no plan may have."""


@dataclass(frozen=True, kw_only=True)
class Drawing:
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


@dataclass(frozen=True, kw_only=True)
class PlanPart:
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


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A stretch of time on a row of the timeline."""

    x: float
    width: float
    kind: BarKind
    tone: Tone
    title: str
    text: str = ""
    """What is written into it where there is room."""


@dataclass(frozen=True, kw_only=True)
class TimeRow:
    """One row of the timeline."""

    label: str
    y: float
    bars: tuple[Bar, ...]


@dataclass(frozen=True, kw_only=True)
class Tick:
    """A moment on the axis, or a mark through all rows."""

    x: float
    text: str
    anchor: Literal["start", "middle", "end"] = "middle"
    title: str = ""


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """What happened when. The axis is bent: see `timeline`."""

    width: float
    height: float
    left: float
    rows: tuple[TimeRow, ...]
    ticks: tuple[Tick, ...]
    crashes: tuple[Tick, ...]
    summary: str
    left_out: str = ""


@dataclass(frozen=True, kw_only=True)
class Happening:
    """One event in a sentence."""

    number: int
    at: str
    after: str
    what: str
    tone: Tone = "quiet"


@dataclass(frozen=True, kw_only=True)
class Score:
    """What one evaluator found."""

    name: str
    number: str
    share: float
    tone: Tone
    status: str
    is_floor: bool
    findings: tuple[str, ...]
    version: str


@dataclass(frozen=True, kw_only=True)
class Meter:
    """How much of a limit was used."""

    name: str
    used: str
    limit: str
    share: float
    tone: Tone
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A value that an approver saw, and where it came from."""

    name: str
    value: str
    source: str
    is_authority: bool
    is_trusted: bool


@dataclass(frozen=True, kw_only=True)
class SeenCall:
    """A call as people were asked about it."""

    step: str
    tool: str
    nature: str
    description: str
    parameters: tuple[Parameter, ...]
    back: str
    """How it can be taken back."""
    digest: str


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What somebody answered."""

    who: str
    answer: str
    tone: Tone
    at: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, kw_only=True)
class GateCard:
    """A question to people, what they saw, and what they said."""

    title: str
    question: str
    state: Chip
    asked: tuple[Row, ...]
    calls: tuple[SeenCall, ...]
    more: str
    """Whatever else was shown, as JSON."""
    replies: tuple[Reply, ...]


@dataclass(frozen=True, kw_only=True)
class FactCard:
    """A piece of evidence that the run stands on."""

    id: str
    classification: str
    source: str
    trust: Chip
    rows: tuple[Row, ...]
    content: str


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """A question to a language model, and its answer."""

    title: str
    tone: Tone
    how: str
    system: str
    messages: tuple[Row, ...]
    answer: str


@dataclass(frozen=True, kw_only=True)
class RepairCard:
    """An attempt to mend an output."""

    title: str
    result: Chip
    rows: tuple[Row, ...]


@dataclass(frozen=True, kw_only=True)
class Page:
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
    meters: tuple[Meter, ...]
    evidence: tuple[FactCard, ...]
    evidence_note: str
    repairs: tuple[RepairCard, ...]
    taken_back: tuple[Row, ...]
    exchanges: tuple[Exchange, ...]
    exchanges_note: str
    hashes: tuple[Row, ...]
