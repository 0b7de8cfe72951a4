"""The closed union of events: one file a family.

An event is a fact: frozen, tagged by `type`, tolerant of fields that a newer version adds. Its time is given by
the shell, and its position is its id; nothing here reads a clock. What an event carries is all that replay will ever know.
"""

from __future__ import annotations

from typing import TypeAlias

from tercet.core.events.gate import (
    AcceptanceLapsed,
    ApprovalGranted,
    GateAnswered,
    GateOpened,
    MessageDropped,
    Need,
)
from tercet.core.events.model import ModelAnswered, ModelAsked
from tercet.core.events.plan import (
    Decomposed,
    EvidenceRetrieved,
    OutputsProduced,
    PlanningFailed,
    PlanProposed,
    PlanReviewed,
)
from tercet.core.events.quality import (
    EvidenceFetched,
    ExperienceDrawn,
    OutputsAttacked,
    OutputsCritiqued,
    OutputsRepaired,
    OutputsVerified,
    SamplesDrawn,
    TestsRun,
)
from tercet.core.events.saga import CompensationBegun, EffectsKept, Undo
from tercet.core.events.session import (
    BudgetExtended,
    GivenUp,
    SessionCancelled,
    SessionEnded,
    SessionExpired,
    SessionMigrated,
    SessionPaused,
    SessionResumed,
    SessionStarted,
)
from tercet.core.events.step import (
    Abort,
    BoundCompensation,
    CallMarks,
    Complete,
    EarlierCall,
    Intent,
    RepeatsChecked,
    RetryScheduled,
    Settled,
    StepRefused,
    StepSkipped,
)
from tercet.core.events.turn import TurnJudged
from tercet.core.events.verdict import LoopGuardTripped, RunReported, StepJudged

Event: TypeAlias = (
    SessionStarted
    | SessionResumed
    | SessionPaused
    | GivenUp
    | SessionEnded
    | PlanProposed
    | PlanningFailed
    | Decomposed
    | EvidenceRetrieved
    | PlanReviewed
    | OutputsProduced
    | Intent
    | Complete
    | Abort
    | RetryScheduled
    | Settled
    | StepRefused
    | StepSkipped
    | StepJudged
    | LoopGuardTripped
    | RunReported
    | GateOpened
    | GateAnswered
    | ApprovalGranted
    | MessageDropped
    | SessionCancelled
    | SessionExpired
    | SessionMigrated
    | BudgetExtended
    | CompensationBegun
    | EffectsKept
    | ModelAsked
    | ModelAnswered
    | TurnJudged
    | ExperienceDrawn
    | SamplesDrawn
    | TestsRun
    | OutputsVerified
    | OutputsAttacked
    | OutputsCritiqued
    | OutputsRepaired
    | EvidenceFetched
    | AcceptanceLapsed
    | RepeatsChecked
)

__all__ = [
    "Abort",
    "AcceptanceLapsed",
    "ApprovalGranted",
    "BoundCompensation",
    "BudgetExtended",
    "CallMarks",
    "CompensationBegun",
    "Complete",
    "Decomposed",
    "EarlierCall",
    "EffectsKept",
    "Event",
    "EvidenceFetched",
    "EvidenceRetrieved",
    "ExperienceDrawn",
    "GateAnswered",
    "GateOpened",
    "GivenUp",
    "Intent",
    "LoopGuardTripped",
    "MessageDropped",
    "ModelAnswered",
    "ModelAsked",
    "Need",
    "OutputsAttacked",
    "OutputsCritiqued",
    "OutputsProduced",
    "OutputsRepaired",
    "OutputsVerified",
    "PlanProposed",
    "PlanReviewed",
    "PlanningFailed",
    "RepeatsChecked",
    "RetryScheduled",
    "RunReported",
    "SamplesDrawn",
    "SessionCancelled",
    "SessionEnded",
    "SessionExpired",
    "SessionMigrated",
    "SessionPaused",
    "SessionResumed",
    "SessionStarted",
    "Settled",
    "StepJudged",
    "StepRefused",
    "StepSkipped",
    "TestsRun",
    "TurnJudged",
    "Undo",
]
