"""What is left at the end of a run."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

from pydantic import AwareDatetime, Field

from tercet.contracts.canonical import digest
from tercet.contracts.evidence import Citation
from tercet.contracts.gate import Approval
from tercet.contracts.quality import RepairLog
from tercet.contracts.run import TranscriptEntry
from tercet.contracts.saga import RollbackResult
from tercet.contracts.shape import Absent, Json, JsonObject, Shape
from tercet.contracts.verdict import CriticReport, Verdict


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
    """Where each piece of evidence was found: its document, the chunk of it, and the query that led there."""
    models: tuple[str, ...] = ()
    """Every language model that answered, by its full name; `model_id` is the last of them."""
    approvers: tuple[str, ...] = ()
    """Every person or policy that let something happen; `approver` names them all in one text."""
    logins: Absent[dict[str, str]] = None
    """The login that each of them answered from, by name; absent where nobody answered from one."""

    @cached_property
    def hash(self) -> str:
        """The content address of this provenance."""
        return digest(self)


CostPhase = Literal["planning", "retrieval", "execution", "verification", "critique", "repair"]
"""What a cost was for."""


class PhaseCost(Shape):
    """What a run has used up for one purpose."""

    cost_microcents: int = 0
    tokens: int = 0
    tool_calls: int = 0
    latency_ms: int = 0


class CheckpointLink(Shape):
    """One checkpoint of a run, chained to the one before: what the run was after so many events."""

    k: int
    position: int
    """After how many events it was taken; 0 for the beginning."""
    phase: str
    status: str
    verdict: str = ""
    """What was decided there."""
    summary: str
    """The hash over the state's summary, which a fold of the events must come to again."""
    checkpoint: str | None = None
    """The hash of the stored checkpoint; None for the beginning, of which nothing is stored."""
    previous: str | None = None
    """The content address of the one before."""

    @cached_property
    def hash(self) -> str:
        """The content address of this link, which stands for all before it."""
        return digest(self)


class AuditRecord(Shape):
    """The whole trajectory of a run."""

    loop_trace: tuple[str, ...] = ()
    all_checkpoints: tuple[str, ...] = ()
    all_tool_traces: tuple[TranscriptEntry, ...] = ()
    all_repair_logs: tuple[RepairLog, ...] = ()
    total_cost_microcents: int = 0
    total_latency_ms: int = 0
    final_quality_scores: dict[str, float] = {}
    cost_by_phase: dict[CostPhase, PhaseCost] = {}
    """What was used up for what; together it is all that was."""
    checkpoint_chain: tuple[CheckpointLink, ...] = ()
    """Every checkpoint from the beginning (k = 0) to the last."""


class AgentResult(Shape):
    """What COMMIT leaves."""

    output: JsonObject
    provenance: Provenance
    audit: AuditRecord
    content_hash: str
    status: Literal["COMMITTED"] = "COMMITTED"


class FailureReport(Shape):
    """What FAIL leaves: why, what was done, and from where a person can go on."""

    reason: str
    diagnosis: tuple[str, ...] = ()
    partial_output: JsonObject = {}
    checkpoint: str | None = None
    status: Literal["failed", "rejected", "expired", "cancelled"] = "failed"
    rollback: RollbackResult | None = None
    next_commands: tuple[str, ...] = ()
    """What a person may type next."""
    provenance: Provenance | None = None
    """Where what there is came from."""


class HaltRecord(Shape):
    """What HALT leaves: a checkpoint that can be resumed."""

    reason: str
    checkpoint: str
    halted_at: AwareDatetime
    gate: str | None = None
    """The gate that the session waits for, if that is why it halted."""
    provenance: Provenance | None = None
    """Where what there is came from."""


class MemoryProposal(Shape):
    """Something that a run suggests remembering; it is written only if the critic accepts it."""

    classification: str
    content: Json
    sources: tuple[str, ...] = ()


class Delivery(Shape):
    """The accepted outputs of a run that steps of its plan took, and what became of these steps."""

    outputs_digest: str
    """The digest of the accepted outputs."""
    accepted_by: tuple[str, ...] = ()
    """The people who accepted them; empty where the decision's rules did."""
    delivered: tuple[str, ...] = ()
    """The steps that took them and completed, or waited for such a step and completed."""
    undelivered: tuple[str, ...] = ()
    """Those that did not complete."""


class DecisionRecord(Shape):
    """The durable result of a run, completed or refused."""

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
    report: CriticReport
    transcript: tuple[TranscriptEntry, ...] = ()
    memory_proposals: tuple[MemoryProposal, ...] = ()
    delivery: Absent[Delivery] = None
    """What was delivered; absent where no step takes an output, or the outputs were not accepted."""
    pack: str = ""
    pack_hash: str = ""
    context_hash: str = ""

    @cached_property
    def hash(self) -> str:
        """The content address of this record."""
        return digest(self)


class FeedbackEntry(Shape):
    """An operator's correction, attached to a record and reading the same report."""

    record_hash: str
    report: CriticReport
    author: str
    correction: str
    expected: JsonObject = {}
    given_at: AwareDatetime


class ReplayDiff(Shape):
    """How a replayed report differs from the recorded one; no differences means replay-equal."""

    recorded: CriticReport
    replayed: CriticReport
    differences: tuple[str, ...] = ()
