"""Human approval: the gate, the request for approval and the answer."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import AwareDatetime, Field, model_validator

from tercet.contracts.shape import TEN_YEARS_MS, Absent, Authored, Json, JsonObject, Shape


class Gate(Authored):
    """A named human approval: who may give it, how many are needed, and how long it waits."""

    name: str = Field(min_length=1, max_length=200)
    description: str = ""
    roles: tuple[str, ...]
    quorum: int = Field(default=1, ge=1)
    ttl_ms: int = Field(default=86_400_000, ge=1, le=TEN_YEARS_MS)
    """How long it waits; at most ten years."""
    when: str | None = None
    """A CEL condition on `args`; the gate is skipped where it is false.
    A conditional gate never satisfies the demand that a destructive or irreversible step be gated."""
    covers: Literal["step", "sequence"] = "step"
    """`sequence`: one opening covers the whole resolved sequence of the steps that wait for this gate and are ready or
    can be resolved at the same time."""


class Notify(Authored):
    """Who is notified when a gate opens: a program, a webhook, or both; each receives the gate as JSON."""

    command: tuple[str, ...] = ()
    """A program and its fixed arguments; it reads the gate from its standard input."""
    webhook: str = Field(default="", pattern=r"^(https?://[^\s/?#]+\S*)?$")
    """A URL that the gate is posted to."""
    timeout_ms: int = Field(default=5_000, ge=1)

    @model_validator(mode="after")
    def _has_a_target(self) -> Self:
        if not self.command and not self.webhook:
            raise ValueError("it names neither a command nor a webhook")
        if self.command and not self.command[0].strip():
            raise ValueError("the command names no program")
        return self


class GateDemand(Shape):
    """A gate that a step of a reviewed plan waits for, and why."""

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
    """The login that the approver used; absent if another service authenticated them."""
    roles: tuple[str, ...] | None = None
    """The roles that the approver held when answering; None if they were not recorded."""
    digest: str = ""
    note: str = ""


Advice = Literal["approve", "reject", "modify", "compare"]
"""What a person is advised to say to outputs; `compare` them with the draft first, where a rule has replaced values."""


class ApprovalRequest(Shape):
    """What a person sees before a result is committed."""

    output: Json
    provenance: JsonObject
    quality_scores: dict[str, float]
    confidence: float | None
    risk_assessment: str
    recommended_action: Advice


class HandOff(Shape):
    """What a person receives when a run escalates: the state, the reason and the choices."""

    plan: JsonObject
    transcript: tuple[JsonObject, ...]
    verdicts: tuple[JsonObject, ...]
    attempts: tuple[JsonObject, ...] = ()
    """Everything that was tried, in order: plans with verdicts, model questions with answers, turns."""
    reason: str
    budget_remaining: JsonObject
    options: tuple[str, ...]
