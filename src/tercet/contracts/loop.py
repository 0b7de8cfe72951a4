"""The loop protocol: phases, events, required transitions, and the types that pass between phases."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from tercet.contracts.context import CompiledContext, RunContext
from tercet.contracts.decision import Threshold
from tercet.contracts.documents import MissingPart, TokenVerdict, UnjudgedText
from tercet.contracts.outputs.quality import SchemaFault, TextJudgement
from tercet.contracts.plan import Plan, Step
from tercet.contracts.runs.budget import RunBudget
from tercet.contracts.runs.run import TranscriptEntry
from tercet.contracts.shape import JsonObject, Shape

LOOP_PROTOCOL = "1.0"
"""Additive fields raise the minor number; a breaking change of a phase contract raises the major one."""


class Phase(StrEnum):
    """The phase of a run."""

    PLAN = "PLAN"
    DECOMPOSE = "DECOMPOSE"
    RETRIEVE = "RETRIEVE"
    REVIEW = "REVIEW"
    ACT = "ACT"
    VERIFY = "VERIFY"
    CRITIQUE = "CRITIQUE"
    REPAIR = "REPAIR"
    COMMIT = "COMMIT"
    FAIL = "FAIL"
    HALT = "HALT"


START = Phase.PLAN
TERMINAL: frozenset[Phase] = frozenset({Phase.COMMIT, Phase.FAIL, Phase.HALT})


class LoopEvent(StrEnum):
    """An event that moves a run from one phase to another."""

    PHASE_COMPLETE = "phase_complete"
    ERROR = "error"
    TIMEOUT = "timeout"
    BUDGET_EXCEEDED = "budget_exceeded"
    QUALITY_PASSED = "quality_passed"
    QUALITY_FAILED = "quality_failed"
    SCHEMA_FAILED = "schema_failed"


REQUIRED_ARCS: dict[tuple[Phase, LoopEvent], Phase] = {
    (Phase.VERIFY, LoopEvent.QUALITY_PASSED): Phase.COMMIT,
    (Phase.VERIFY, LoopEvent.QUALITY_FAILED): Phase.CRITIQUE,
    (Phase.VERIFY, LoopEvent.SCHEMA_FAILED): Phase.REPAIR,
    (Phase.CRITIQUE, LoopEvent.PHASE_COMPLETE): Phase.REPAIR,
    (Phase.REPAIR, LoopEvent.PHASE_COMPLETE): Phase.VERIFY,
    (Phase.REPAIR, LoopEvent.BUDGET_EXCEEDED): Phase.FAIL,
}
"""Transitions that every table of this protocol must have; a schema failure needs no critique."""

LIFECYCLE: tuple[str, ...] = ("plan", "verify", "execute", "score", "consolidate")


class LoopConfig(Shape):
    """The bounds of a loop."""

    max_iterations: int = Field(default=50, ge=1)
    max_repairs: int = Field(default=3, ge=0)
    max_depth: int = Field(default=3, ge=0)
    budget: RunBudget = Field(default_factory=RunBudget)
    thresholds: tuple[Threshold, ...] = ()


class TaskSpec(Shape):
    """The task of a loop."""

    task_id: str
    intent: str
    input: JsonObject = {}
    decision_key: str
    requires_human_approval: bool = False


class ExecutionContext(Shape):
    """What the phases of a loop share."""

    run: RunContext
    compiled: CompiledContext


class SubTask(Shape):
    """A part of a plan that can be retrieved for and executed on its own."""

    plan_id: str
    step: Step


class ExecutionOutputs(Shape):
    """The outputs that ACT passes to VERIFY."""

    outputs: JsonObject = {}
    transcript: tuple[TranscriptEntry, ...] = ()


class VerificationVerdict(Shape):
    """The result of VERIFY: the composite score and its parts."""

    passed: bool
    schema_valid: bool
    semantic: float | None = None
    """The share of tokens that equal a known value; None if the schema was violated or there are no tokens."""
    factual: float | None = None
    """The share of tokens that are bound, or found in their role in a trusted source."""
    score: float
    failures: tuple[str, ...] = ()
    threshold: float = 0.0
    schema_faults: tuple[SchemaFault, ...] = ()
    tokens: tuple[TokenVerdict, ...] = ()
    missing: tuple[MissingPart, ...] = ()
    unjudged: tuple[UnjudgedText, ...] = ()
    """The words that no source and no person vouches for."""
    judgements: tuple[TextJudgement, ...] = ()


class PhaseContract(Shape):
    """The input and output types of a phase, by name."""

    phase: Phase
    takes: tuple[str, ...]
    gives: str
    protocol: Literal["1.0"] = LOOP_PROTOCOL


def _contract(phase: Phase, takes: tuple[str, ...], gives: str) -> PhaseContract:
    return PhaseContract(phase=phase, takes=takes, gives=gives)


def phase_contracts() -> tuple[PhaseContract, ...]:
    """Return the eight rows of the phase table."""
    return (
        _contract(Phase.PLAN, ("TaskSpec", "ExecutionContext"), "Plan"),
        _contract(Phase.DECOMPOSE, ("Plan", "ExecutionContext"), "list[SubTask]"),
        _contract(Phase.RETRIEVE, ("list[SubTask]", "ExecutionContext"), "EvidenceBundle"),
        _contract(Phase.ACT, ("list[SubTask]", "EvidenceBundle", "ExecutionContext"), "ExecutionOutputs"),
        _contract(Phase.VERIFY, ("ExecutionOutputs", "TaskSpec", "EvidenceBundle"), "VerificationVerdict"),
        _contract(
            Phase.CRITIQUE, ("ExecutionOutputs", "VerificationVerdict", "TaskSpec"), "CritiqueDiagnosis"
        ),
        _contract(
            Phase.REPAIR, ("ExecutionOutputs", "CritiqueDiagnosis", "ExecutionContext"), "ExecutionOutputs"
        ),
        _contract(Phase.COMMIT, ("ExecutionOutputs", "TaskSpec", "ExecutionContext"), "AgentResult"),
    )


def decompose(plan: Plan) -> tuple[SubTask, ...]:
    """Return the sub-tasks of a plan: one for each step."""
    return tuple(SubTask(plan_id=plan.plan_id, step=step) for step in plan.steps)
