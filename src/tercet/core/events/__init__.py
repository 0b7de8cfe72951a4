"""The closed union of events, one file per family.

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
)
from tercet.core.events.gate import Need as Need
from tercet.core.events.plan import (
    Decomposed,
    EvidenceRetrieved,
    ModelAnswered,
    ModelAsked,
    OutputsProduced,
    PlanningFailed,
    PlanProposed,
    PlanReviewed,
    ProposalsReviewed,
    StepProposed,
    TurnJudged,
)
from tercet.core.events.quality import (
    EvidenceFetched,
    ExperienceDrawn,
    OutputsAccepted,
    OutputsAttacked,
    OutputsCritiqued,
    OutputsRead,
    OutputsRepaired,
    OutputsVerified,
    SamplesDrawn,
    TestsRun,
)
from tercet.core.events.quality import ToolRetry as ToolRetry
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
    CompensationBegun,
    Complete,
    DecisionTaken,
    EffectsKept,
    Intent,
    LoopGuardTripped,
    RepeatsChecked,
    RetryScheduled,
    RunReported,
    Settled,
    StepJudged,
    StepRefused,
    StepSkipped,
)
from tercet.core.events.step import BoundCompensation as BoundCompensation
from tercet.core.events.step import CallMarks as CallMarks
from tercet.core.events.step import EarlierCall as EarlierCall
from tercet.core.events.step import Undo as Undo

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
    | DecisionTaken
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
    | OutputsRead
    | TestsRun
    | OutputsVerified
    | OutputsAttacked
    | OutputsCritiqued
    | OutputsRepaired
    | EvidenceFetched
    | AcceptanceLapsed
    | RepeatsChecked
    | OutputsAccepted
    | StepProposed
    | ProposalsReviewed
)
