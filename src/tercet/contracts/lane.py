"""Lanes: runs that a step starts, with a budget and tools of their own, and what comes back from one."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from tercet.contracts.decision import RiskTier
from tercet.contracts.mode import ApprovalMode, Reversibility, Trust
from tercet.contracts.runs.budget import LaneBudget
from tercet.contracts.runs.session import SessionStatus
from tercet.contracts.shape import TEN_YEARS_MS, Authored, JsonObject, Shape
from tercet.contracts.values.plain import PlainObject

LANE = "lane"
"""The adapter of every lane: a step calls `lane.<name>`."""


def lane_tool_name(name: str) -> str:
    """Return what a step calls to start a lane."""
    return f"{LANE}.{name}"


class Lane(Authored):
    """A run that steps of other runs may start: what it is asked, what it may use, and for which decisions."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_\-]{0,63}$")
    description: str = ""
    """What it finds out, for a planner that may use it."""
    intent: str
    """The decision of the same pack that it takes, by its id or one of its intents; that decision's planner plans it."""
    tools: tuple[str, ...]
    """All that it may use. A tool that its parent's run does not have, it does not have either."""
    params: PlainObject = {"type": "object", "properties": {}}
    """The JSON Schema of what a step gives it: the input of its request. Nothing else is passed on."""
    budget: LaneBudget = Field(default_factory=LaneBudget)
    """What is reserved from the budget of its parent; what it does not use is returned."""
    timeout_ms: int = Field(default=60_000, ge=1, le=TEN_YEARS_MS)
    """How long it may take."""
    max_fan_out: int = Field(default=8, ge=1, le=1_000)
    """How many of it one run may start."""
    risk_tiers: tuple[RiskTier, ...] = (RiskTier.LOW, RiskTier.MEDIUM)
    """The risk tiers of decisions that may use it."""
    trust: Trust = Trust.UNTRUSTED
    """What its outputs are worth. They are trusted only where every tool of it is, and the pack itself plans it."""

    @property
    def tool_name(self) -> str:
        """What a step calls to start it."""
        return lane_tool_name(self.name)


class LaneFrame(Authored):
    """Marks a run as a lane, and names its tools: those that it declares and its parent's run has."""

    name: str
    tools: tuple[str, ...] = ()


LaneStatus = SessionStatus
Verdict = Literal["", "accept", "retry", "replan", "escalate"]


class LaneProposal(Shape):
    """A step that a lane did not carry out: the critic of its parent decides whether the parent does."""

    id: str
    """The step as the lane's plan names it."""
    tool: str
    params: JsonObject = {}
    """Values, and references to other proposals of the same lane."""
    depends_on: tuple[str, ...] = ()
    """The proposals that come before it."""
    evidence_refs: tuple[str, ...] = ()
    approval_mode: ApprovalMode | None = None
    gates: tuple[str, ...] = ()
    reversibility: Reversibility | None = None


class LaneUse(Shape):
    """What a lane used up of the budget of its parent."""

    tool_calls: int = Field(default=0, ge=0)
    tokens: int = Field(default=0, ge=0)
    cost_microcents: int = Field(default=0, ge=0)
    wall_clock_ms: int = Field(default=0, ge=0)


class LaneEnvelope(Shape):
    """How a lane ended, as its parent sees it: the result of the step that started it."""

    lane: str
    session_id: str
    """The session of the lane: its own events, budget and trace."""
    status: LaneStatus
    verdict: Verdict = ""
    """What the lane's critic said of its run; empty if it did not come to that."""
    code: str = ""
    """Why it did not succeed, such as `lane_timeout`; empty if it did."""
    reason: str = ""
    outputs: JsonObject = {}
    proposals: tuple[LaneProposal, ...] = ()
    used: LaneUse = Field(default_factory=LaneUse)
    evidence_refs: tuple[str, ...] = ()
    """The evidence that its plan is based on."""


def envelope_schema() -> dict[str, Any]:
    """Return the JSON Schema of what a lane comes back with, as the result of a call."""
    text, names = {"type": "string"}, {"type": "array", "items": {"type": "string"}}
    count = {"type": "integer", "minimum": 0}
    return {
        "type": "object",
        "properties": {
            "lane": text,
            "session_id": text,
            "status": text,
            "verdict": text,
            "code": text,
            "reason": text,
            "outputs": {"type": "object"},
            "proposals": {"type": "array", "items": {"type": "object"}},
            "used": {"type": "object", "properties": dict.fromkeys(LaneUse.model_fields, count)},
            "evidence_refs": names,
        },
        "required": ["lane", "session_id", "status", "used"],
    }
