"""Human approval: what a gate asks for, what was asked, and what was answered."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, Field

from tercet.contracts.shape import Authored, Json, JsonObject, Shape


class Gate(Authored):
    """A named human approval: who may give it, how many of them, and for how long it waits."""

    name: str = Field(min_length=1, max_length=200)
    description: str = ""
    roles: tuple[str, ...]
    quorum: int = Field(default=1, ge=1)
    ttl_ms: int = Field(default=86_400_000, ge=1)
    when: str | None = None
    """A CEL condition on `args`; where it is false the gate is not asked for.
    A conditional gate never satisfies the demand that a destructive or irreversible step be gated."""


class GateDemand(Shape):
    """A gate that one step of a reviewed plan waits for, and why."""

    step: int
    step_id: str
    gate: str
    reason: str


class Approval(Shape):
    """A recorded answer to a gate."""

    gate: str
    step_id: str
    approver: str
    decision: Literal["approve", "deny", "modify", "withdraw"]
    decided_at: AwareDatetime
    auth: str = "local"
    digest: str = ""
    note: str = ""


class ApprovalRequest(Shape):
    """What a person is shown before a result is committed."""

    output: Json
    provenance: JsonObject
    quality_scores: dict[str, float]
    confidence: float | None
    risk_assessment: str
    recommended_action: Literal["approve", "reject", "modify"]
