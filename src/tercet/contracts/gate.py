"""Human approval: what a gate asks for, what was asked, and what was answered."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import AwareDatetime, Field, model_validator

from tercet.contracts.shape import TEN_YEARS_MS, Absent, Authored, Json, JsonObject, Shape


class Gate(Authored):
    """A named human approval: who may give it, how many of them, and for how long it waits."""

    name: str = Field(min_length=1, max_length=200)
    description: str = ""
    roles: tuple[str, ...]
    quorum: int = Field(default=1, ge=1)
    ttl_ms: int = Field(default=86_400_000, ge=1, le=TEN_YEARS_MS)
    """How long it waits, at most ten years."""
    when: str | None = None
    """A CEL condition on `args`; where it is false the gate is not asked for.
    A conditional gate never satisfies the demand that a destructive or irreversible step be gated."""
    covers: Literal["step", "sequence"] = "step"
    """`sequence`: one opening covers the whole resolved sequence of the steps that wait for this gate and are ready or
    can be resolved at the same time."""


class Notify(Authored):
    """Who is told that a gate has opened: a program, a webhook, or both; each gets the gate as JSON."""

    command: tuple[str, ...] = ()
    """A program and its fixed arguments; it reads the gate from its standard input."""
    webhook: str = Field(default="", pattern=r"^(https?://[^\s/?#]+\S*)?$")
    """A URL that the gate is posted to."""
    timeout_ms: int = Field(default=5_000, ge=1)

    @model_validator(mode="after")
    def _reaches_somebody(self) -> Self:
        if not self.command and not self.webhook:
            raise ValueError("it names neither a command nor a webhook")
        if self.command and not self.command[0].strip():
            raise ValueError("the command names no program")
        return self


class GateDemand(Shape):
    """A gate that one step of a reviewed plan waits for, and why."""

    step: int
    step_id: str
    gate: str
    reason: str


class Approval(Shape):
    """A recorded answer to a gate, or the grant of a policy.

    A grant has no gate; its approver is `policy:<name>`, its auth `policy`.
    """

    gate: str
    step_id: str
    approver: str
    decision: Literal["approve", "deny", "modify", "withdraw", "grant"]
    decided_at: AwareDatetime
    auth: str = "local"
    login: Absent[str] = None
    """The login that the approver answered from; absent where somebody else vouches for them."""
    roles: tuple[str, ...] | None = None
    """The roles that the approver held when answering; None where they were not recorded."""
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


class HandOff(Shape):
    """What a person is handed when a run escalates: all that is known, why, and what may be chosen."""

    plan: JsonObject
    transcript: tuple[JsonObject, ...]
    verdicts: tuple[JsonObject, ...]
    attempts: tuple[JsonObject, ...] = ()
    """All that was tried, in its order: plans with their verdicts, questions to models with their answers, turns."""
    reason: str
    budget_remaining: JsonObject
    options: tuple[str, ...]
