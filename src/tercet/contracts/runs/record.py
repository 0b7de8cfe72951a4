"""The records of a finished run."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

from pydantic import AwareDatetime, Field

from tercet.contracts.evidence import Citation
from tercet.contracts.gate import Approval
from tercet.contracts.outputs.quality import RepairLog
from tercet.contracts.runs.run import TranscriptEntry
from tercet.contracts.runs.saga import RollbackResult
from tercet.contracts.shape import Absent, Json, JsonObject, Shape
from tercet.contracts.values.canonical import digest
from tercet.contracts.verdict import CriticReport, Verdict, VerdictEnvelope


class Provenance(Shape):
    """Where an output came from."""

    task_id: str
    plan_hash: str
    evidence_refs: tuple[str, ...] = ()
    tool_invocations: tuple[str, ...] = ()
    repair_history: RepairLog = Field(default_factory=RepairLog)
    verification_scores: dict[str, float] = {}
    model_id: str | None = None
    timestamp: AwareDatetime
    approver: str | None = None
    sources: tuple[Citation, ...] = ()
    """Where each piece of evidence was found: document, chunk and query."""
    models: tuple[str, ...] = ()
    """Every language model that answered, by its full name; `model_id` is the last of them."""
    approvers: tuple[str, ...] = ()
    """Every person or policy that approved a step; `approver` lists all of them in one text."""
    logins: Absent[dict[str, str]] = None
    """The login of each approver, by name; absent if none was recorded."""

    @cached_property
    def hash(self) -> str:
        """The content address of this provenance."""
        return digest(self)


CostPhase = Literal["planning", "retrieval", "execution", "verification", "critique", "repair"]
"""The purpose of a cost."""


class PhaseCost(Shape):
    """The cost of a run for one purpose."""

    cost_microcents: int = 0
    tokens: int = 0
    tool_calls: int = 0
    latency_ms: int = 0


class CheckpointLink(Shape):
    """One checkpoint of a run, chained to the previous one."""

    k: int
    position: int
    """The number of events before it; 0 for the start."""
    phase: str
    status: str
    verdict: str = ""
    """What was decided there."""
    summary: str
    """The hash of the state's summary, which folding the events must reproduce."""
    checkpoint: str | None = None
    """The hash of the stored checkpoint; None for the start, which is not stored."""
    previous: str | None = None
    """The content address of the previous link."""

    @cached_property
    def hash(self) -> str:
        """The content address of this link, which covers all previous ones."""
        return digest(self)


class AuditRecord(Shape):
    """The complete trajectory of a run."""

    loop_trace: tuple[str, ...] = ()
    all_checkpoints: tuple[str, ...] = ()
    all_tool_traces: tuple[TranscriptEntry, ...] = ()
    all_repair_logs: tuple[RepairLog, ...] = ()
    total_cost_microcents: int = 0
    total_latency_ms: int = 0
    final_quality_scores: dict[str, float] = {}
    cost_by_phase: dict[CostPhase, PhaseCost] = {}
    """The cost by purpose; the sum is the whole cost of the run."""
    checkpoint_chain: tuple[CheckpointLink, ...] = ()
    """Every checkpoint from the start (k = 0) to the last."""


class AgentResult(Shape):
    """The record of a committed run."""

    output: JsonObject
    provenance: Provenance
    audit: AuditRecord
    content_hash: str
    status: Literal["COMMITTED"] = "COMMITTED"


class FailureReport(Shape):
    """The record of a failed run: the reason, what was done, and where a person can continue."""

    reason: str
    diagnosis: tuple[str, ...] = ()
    partial_output: JsonObject = {}
    checkpoint: str | None = None
    status: Literal["failed", "rejected", "expired", "cancelled"] = "failed"
    rollback: RollbackResult | None = None
    next_commands: tuple[str, ...] = ()
    """A command to run next."""
    provenance: Provenance | None = None
    """The provenance of the outputs, if there are any."""


class HaltRecord(Shape):
    """The record of a halted run: a checkpoint from which it can be resumed."""

    reason: str
    checkpoint: str
    halted_at: AwareDatetime
    gate: str | None = None
    """The gate that the session waits for, if that is why it halted."""
    provenance: Provenance | None = None
    """The provenance of the outputs, if there are any."""


class MemoryProposal(Shape):
    """A fact that a run suggests remembering; it is stored only if the critic accepts it."""

    classification: str
    content: Json
    sources: tuple[str, ...] = ()


class Delivery(Shape):
    """The accepted outputs that steps of the plan delivered, and how these steps ended."""

    outputs_digest: str
    """The digest of the accepted outputs."""
    accepted_by: tuple[str, ...] = ()
    """The people who accepted them; empty if the decision's rules did."""
    delivered: tuple[str, ...] = ()
    """The completed steps that took outputs or waited for such a step."""
    undelivered: tuple[str, ...] = ()
    """The steps of this kind that did not complete."""


class TakenDecision(Shape):
    """A decision that the plan took on the way, after one of its steps."""

    decision_id: str
    after_step: str
    outcome: str
    """`accept`; or `replan` or `escalate` where the decision lacked evidence."""
    evidence_refs: tuple[str, ...] = ()
    """The evidence that it rests on."""
    reason: str = ""
    decided_at: AwareDatetime


class DecisionRecord(Shape):
    """The durable record of a run, completed or refused."""

    version: Literal[1] = 1
    decision_id: str
    trace_id: str
    run_id: str = ""
    plan_id: str = ""
    plan_hash: str
    outputs: JsonObject = {}
    evidence_refs: tuple[str, ...] = ()
    approvals: tuple[Approval, ...] = ()
    controls_active: tuple[str, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    """The review of the plan."""
    run_verdict: Absent[VerdictEnvelope] = None
    """The verdict on the run with the scores of its steps; absent if nothing was scored, or by earlier rules."""
    report: CriticReport
    decisions: Absent[tuple[TakenDecision, ...]] = None
    """The decisions at the plan's checkpoints, in order; absent if the plan has none."""
    transcript: tuple[TranscriptEntry, ...] = ()
    memory_proposals: tuple[MemoryProposal, ...] = ()
    delivery: Absent[Delivery] = None
    """The delivery; absent if no step takes an output, or the outputs were not accepted."""
    pack: str = ""
    pack_hash: str = ""
    context_hash: str = ""

    @cached_property
    def hash(self) -> str:
        """The content address of this record."""
        return digest(self)


class FeedbackEntry(Shape):
    """An operator's correction, attached to a record; it uses the same report."""

    record_hash: str
    report: CriticReport
    author: str
    correction: str
    expected: JsonObject = {}
    given_at: AwareDatetime


class ReplayDiff(Shape):
    """The report of a run as it was recorded, and as a replay derives it again."""

    recorded: CriticReport
    replayed: CriticReport
    differences: tuple[str, ...] = ()
    """The fields of the report that differ."""

    @classmethod
    def of(cls, recorded: CriticReport, replayed: CriticReport) -> ReplayDiff:
        """Compare two reports field by field."""
        fields = CriticReport.model_fields
        differing = (name for name in fields if getattr(recorded, name) != getattr(replayed, name))
        return cls(recorded=recorded, replayed=replayed, differences=tuple(differing))
