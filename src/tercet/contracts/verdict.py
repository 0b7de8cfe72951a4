"""Verdicts of the critic. One model with a stage; the published shapes are views of it."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field

from tercet.contracts.gate import GateDemand
from tercet.contracts.mode import ApprovalMode, Reversibility, Trust
from tercet.contracts.plan import Compensation
from tercet.contracts.runs.scorecard import Scorecard
from tercet.contracts.shape import Absent, Published, Shape, Timestamp
from tercet.contracts.values.canonical import canonical


def _is_empty(value: object) -> bool:
    """Return whether a field is omitted: records from before it existed keep their hashes."""
    return not value


class RefusalKind(StrEnum):
    """The published kinds of refusal: exactly these five."""

    MISSING_EVIDENCE = "missing_evidence"
    APPROVAL_MODE_MISMATCH = "approval_mode_mismatch"
    VIOLATES_DECISION_SPEC = "violates_decision_spec"
    LOOP_GUARD = "loop_guard"
    BUDGET_EXCEEDED = "budget_exceeded"


class Code(StrEnum):
    """The code of a refusal. Each belongs to one kind: `KIND_OF`."""

    OUTPUT_NOT_DECLARED = "output_not_declared"
    TOOL_NOT_SURFACED = "tool_not_surfaced"
    MODE_EXCEEDED = "mode_exceeded"
    EVIDENCE_NOT_PINNED = "evidence_not_pinned"
    EVIDENCE_UNRESOLVED = "evidence_unresolved"
    TOO_MANY_STEPS = "too_many_steps"
    TOKENS_EXCEEDED = "tokens_exceeded"
    EMPTY_PLAN = "empty_plan"
    KIND_UNAVAILABLE = "kind_unavailable"
    CYCLIC_DEPENDENCY = "cyclic_dependency"
    UNRESOLVED_REFERENCE = "unresolved_reference"
    EXPRESSION_INVALID = "expression_invalid"
    ARGUMENT_INVALID = "argument_invalid"
    ARGUMENT_NOT_PERMITTED = "argument_not_permitted"
    MODE_UNDERSTATED = "mode_understated"
    GATE_MISSING = "gate_missing"
    GATE_UNKNOWN = "gate_unknown"
    UNBOUND_ARGUMENT = "unbound_argument"
    COMPENSATION_MISSING = "compensation_missing"
    UNMET_PRECONDITION = "unmet_precondition"
    THREATENED_CONDITION = "threatened_condition"
    LATENCY_EXCEEDED = "latency_exceeded"
    CONCURRENCY_EXCEEDED = "concurrency_exceeded"
    BRANCHES_EXCEEDED = "branches_exceeded"
    TOOL_CALLS_EXCEEDED = "tool_calls_exceeded"
    COST_EXCEEDED = "cost_exceeded"
    POLICY_INVARIANT = "policy_invariant"
    CHECKPOINT_UNBOUND = "checkpoint_unbound"
    DUPLICATE_ACTION = "duplicate_action"
    AUTHORIZATION_REQUIRED = "authorization_required"
    TOOL_DEFINITION_CHANGED = "tool_definition_changed"
    LANE_NOT_ELIGIBLE = "lane_not_eligible"
    FAN_OUT_EXCEEDED = "fan_out_exceeded"
    DEPTH_EXCEEDED = "depth_exceeded"


_OTHER_KINDS: dict[RefusalKind, tuple[Code, ...]] = {
    RefusalKind.MISSING_EVIDENCE: (Code.EVIDENCE_NOT_PINNED, Code.EVIDENCE_UNRESOLVED),
    RefusalKind.APPROVAL_MODE_MISMATCH: (
        Code.MODE_EXCEEDED,
        Code.MODE_UNDERSTATED,
        Code.GATE_MISSING,
        Code.GATE_UNKNOWN,
        Code.AUTHORIZATION_REQUIRED,
    ),
    RefusalKind.LOOP_GUARD: (Code.TOO_MANY_STEPS, Code.DUPLICATE_ACTION, Code.DEPTH_EXCEEDED),
    RefusalKind.BUDGET_EXCEEDED: (
        Code.TOKENS_EXCEEDED,
        Code.LATENCY_EXCEEDED,
        Code.CONCURRENCY_EXCEEDED,
        Code.BRANCHES_EXCEEDED,
        Code.TOOL_CALLS_EXCEEDED,
        Code.COST_EXCEEDED,
        Code.FAN_OUT_EXCEEDED,
    ),
}

KIND_OF: dict[Code, RefusalKind] = dict.fromkeys(Code, RefusalKind.VIOLATES_DECISION_SPEC) | {
    code: kind for kind, codes in _OTHER_KINDS.items() for code in codes
}

Severity = Literal["CRITICAL", "ERROR", "BLOCKED", "WARNING"]


class Origin(Shape):
    """Where a value came from, and whether that source is trusted."""

    parameter: str
    """The place of the value in the step, as a JSON Pointer."""
    came_from: str
    """`literal`, or the reference as written."""
    trust: Trust
    detail: str = ""
    source: str = Field(default="", exclude_if=_is_empty)
    """The source of the value: `request#/order_id`, `kg:…#/payment_id`, `s1#/total`; empty if there is none."""
    kind: str = Field(default="", exclude_if=_is_empty)
    """The kind of value that the parameter takes, if known."""


class Refusal(Shape):
    """One reason to refuse a plan."""

    code: Code
    reason: str
    remedy: str
    step: int | None = None
    step_id: str | None = None
    place: str = ""
    """A JSON Pointer to the offending part of the plan."""
    sources: tuple[Origin, ...] = ()

    @property
    def kind(self) -> RefusalKind:
        """The published kind that the code belongs to."""
        return KIND_OF[self.code]


Outcome = Literal["ok", "replan", "reject", "accept", "retry", "escalate"]
ReviewOutcome = Literal["ok", "replan", "reject"]
RunOutcome = Literal["accept", "retry", "replan", "escalate"]
Stage = Literal["review", "step", "run"]


class StepEffect(Shape):
    """How a step with an effect can be compensated, as known when the plan was reviewed."""

    step_id: str
    mode: ApprovalMode
    reversibility: Reversibility
    compensate: Compensation | None = None
    """The compensating call: the step's own, else its tool's."""
    no_compensation: str = ""
    """Why there is none, if the tool says so."""


class Verdict(Shape):
    """A verdict of the critic at one stage: the published part, the code, the remedy and the sources."""

    version: Literal[1] = 1
    stage: Stage
    outcome: Outcome
    reasons: tuple[str, ...]
    kind: RefusalKind | None = None
    code: Code | None = None
    offending_step: int | None = None
    step_id: str | None = None
    place: str = ""
    remedy: str = ""
    sources: tuple[Origin, ...] = ()
    """The sources of values: the offending one of a refusal, or the authority literals of a plan that passed."""
    refusals: tuple[Refusal, ...] = ()
    """Every problem that review found, the decisive one first."""
    gates: tuple[GateDemand, ...] = ()
    """The approvals that the plan needs when it runs."""
    deferred: tuple[str, ...] = ()
    """Rules that read values known only at dispatch, and are checked there on the resolved call."""
    unchecked: tuple[str, ...] = Field(default=(), exclude_if=_is_empty)
    """Relations that could not be checked, since there was no request."""
    effects: tuple[StepEffect, ...] = ()
    """The effect of each step of an accepted plan and its compensation; steps without effects are not listed."""

    @property
    def ok(self) -> bool:
        """Whether the run may continue."""
        return self.outcome in ("ok", "accept")

    @cached_property
    def printed(self) -> bytes:
        """The canonical JSON of this verdict, as records hold it."""
        return canonical(self)

    def published(self) -> VerifyVerdict:
        """Return the published shape of a review."""
        if self.ok or self.kind is None:
            return VerifyPassed(reasons=self.reasons)
        return VerifyRefused(kind=self.kind, reasons=self.reasons, offending_step=self.offending_step)


class VerifyPassed(Published):
    """A plan that may run."""

    ok: Literal[True] = True
    reasons: tuple[str, ...]


class VerifyRefused(Published):
    """A plan that may not."""

    ok: Literal[False] = False
    kind: RefusalKind
    reasons: tuple[str, ...]
    offending_step: Absent[int] = None


VerifyVerdict = Annotated[VerifyPassed | VerifyRefused, Field(discriminator="ok")]
"""The published verdict of a review."""


class ScoreVerdict(Published):
    """The scorecard of a run, and whether its floors hold."""

    ok: bool
    scorecard: Scorecard


class CriticReport(Published):
    """Both verdicts together, with the one-line rationale."""

    trace_id: str
    decision_key: str
    verify: VerifyVerdict
    score: Absent[ScoreVerdict] = None
    status: Literal["completed", "refused_by_critic", "partial"]
    rationale: str
    decided_at: Timestamp


class StepScore(Published):
    """The scores of one step, and who approved it."""

    step_id: str
    scores: dict[str, float]
    approval_gate: Absent[str] = None
    approver: Absent[str] = None


class VerdictEnvelope(Published):
    """The verdict of a run as the orchestration specification publishes it."""

    run_id: str
    plan_id: str
    verdict: RunOutcome
    step_scores: tuple[StepScore, ...]
    loop_guard_trips: int = 0
    replan_attempts: int = 0


class ValidationIssue(Shape):
    """One finding of the feasibility matrix."""

    severity: Severity
    code: str
    message: str
    remedy: str = ""
    step: int | None = None


class ValidationResult(Shape):
    """The summary of the feasibility matrix: valid unless an issue is CRITICAL, ERROR or BLOCKED."""

    valid: bool
    issues: tuple[ValidationIssue, ...] = ()
