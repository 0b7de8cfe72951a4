"""The one table of events: where each is allowed, how it is folded, where it leads, and how replay treats it.

The table of phases in the documentation is made from it, replay reads from it what is a fact, and bundles read from it
which blobs an event names. Adding an event means adding a struct, its fold, and a row here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

from tercet.contracts.loop import Phase
from tercet.core import events as e
from tercet.core.fold import gate, plan, quality, session, step
from tercet.core.fold.base import Changes
from tercet.core.state import State

P = Phase
Move: TypeAlias = tuple[Phase, Phase]


class Row(NamedTuple):
    """What holds for one type of event."""

    phases: frozenset[Phase]
    """Where it may happen."""
    fold: Callable[[State, Any], State | Changes]
    """How it changes the state."""
    outcome: Callable[[Any], str] = lambda _: ""
    """The decision, for an event that has several successors."""
    moves: Mapping[str, tuple[Move, ...]] = {}
    """Where it leads, by its outcome; the empty outcome for an event that has none. `fold_event` refuses any other move."""
    fact: str = ""
    """Why only the outside world can make it; empty for an event that replay derives again."""
    is_verdict: bool = False
    """Whether it records a verdict."""
    blobs: tuple[str, ...] = ()
    """Its fields that name bytes stored with the events."""
    compensates: bool = False
    """Whether in FAIL it may happen to compensations only."""
    label: Callable[[Any, State], str] | None = None
    """The label of the checkpoint that is written with it; None if it needs none."""

    def allows(self, event: e.Event, before: Phase, after: Phase) -> bool:
        """Return whether an event of this type may lead from one phase to another."""
        return (before, after) in self.moves.get(self.outcome(event), ())


def _p(*phases: Phase) -> frozenset[Phase]:
    return frozenset(phases)


def _m(before: Phase | Iterable[Phase], after: Phase | Iterable[Phase]) -> tuple[Move, ...]:
    """Return every move from one of these phases to one of those."""
    sources = (before,) if isinstance(before, Phase) else before
    targets = (after,) if isinstance(after, Phase) else tuple(after)
    return tuple((source, target) for source in sources for target in targets)


def _word(word: str) -> Callable[[e.Event, State], str]:
    return lambda _, __: word


def _phase(_: e.Event, state: State) -> str:
    return str(state.phase)


def _outcome(event: e.PlanReviewed, _: State | None = None) -> str:
    return str(event.verdict.get("outcome", ""))


def _status(event: e.SessionEnded, _: State) -> str:
    return event.status


_ANYWHERE = frozenset(P)
_BEFORE_THE_END = tuple(phase for phase in P if phase not in (P.COMMIT, P.FAIL))
_AT_WORK = tuple(phase for phase in _BEFORE_THE_END if phase is not P.HALT)
_PLANNED = (P.DECOMPOSE, P.RETRIEVE, P.ACT, P.VERIFY, P.CRITIQUE, P.REPAIR)
_ASKING = (P.PLAN, P.VERIFY, P.CRITIQUE, P.REPAIR)
"""Where language models are asked."""

TABLE: dict[type[e.Event], Row] = {
    e.SessionStarted: Row(_p(P.PLAN), session.session_started, blobs=("evidence",)),
    e.SessionResumed: Row(_ANYWHERE, session.session_resumed, moves={"": _m(P.HALT, _AT_WORK)}),
    e.SessionPaused: Row(
        _p(*_AT_WORK),
        session.session_paused,
        moves={"": _m(_AT_WORK, P.HALT)},
        fact="the release by a person or a process",
    ),
    e.GivenUp: Row(
        _p(*_BEFORE_THE_END),  # from HALT where a lane would have to ask a person
        session.given_up,
        moves={"": _m(_BEFORE_THE_END, P.FAIL)},
    ),
    e.SessionEnded: Row(
        _p(P.COMMIT, P.FAIL),
        session.session_ended,
        is_verdict=True,
        blobs=("kept",),
        label=_status,
    ),
    e.PlanProposed: Row(_p(P.PLAN), plan.plan_proposed, moves={"": _m(P.PLAN, P.DECOMPOSE)}),
    e.PlanningFailed: Row(
        _p(P.PLAN),
        plan.planning_failed,
        outcome=attrgetter("outcome"),
        moves={"fail": _m(P.PLAN, P.FAIL), "escalate": _m(P.PLAN, P.HALT)},
    ),
    e.Decomposed: Row(_p(P.DECOMPOSE), plan.decomposed, moves={"": _m(P.DECOMPOSE, P.RETRIEVE)}),
    e.EvidenceRetrieved: Row(
        _p(P.RETRIEVE), plan.evidence_retrieved, moves={"": _m(P.RETRIEVE, P.REVIEW)}, blobs=("facts",)
    ),
    e.PlanReviewed: Row(
        _p(P.REVIEW),
        plan.plan_reviewed,
        outcome=_outcome,
        moves={
            "ok": _m(P.REVIEW, (P.ACT, P.COMMIT)),  # a rehearsal ends with the review
            "replan": _m(P.REVIEW, (P.PLAN, P.FAIL)),  # it ends where the outcome of a call is unknown
            # To a person where the planner has no try left; back to the plan before an approver's change.
            "reject": _m(P.REVIEW, (P.FAIL, P.HALT, P.PLAN)),
        },
        is_verdict=True,
        label=_outcome,
    ),
    e.Intent: Row(_p(P.ACT, P.FAIL), step.intent, compensates=True),
    e.Complete: Row(_p(P.ACT, P.FAIL), step.complete, blobs=("blob",)),
    e.Abort: Row(_p(P.ACT, P.FAIL), step.abort, fact="the outcome of a call"),
    e.RetryScheduled: Row(_p(P.ACT, P.FAIL), step.retry_scheduled, compensates=True),
    e.Settled: Row(_p(P.ACT, P.FAIL), step.settled),
    e.StepRefused: Row(_p(P.ACT, P.FAIL), step.step_refused, is_verdict=True, compensates=True),
    e.StepSkipped: Row(_p(P.ACT, P.FAIL), step.step_skipped, compensates=True),
    e.StepJudged: Row(
        _p(P.ACT, P.FAIL),
        step.step_judged,
        outcome=attrgetter("outcome"),
        moves={"replan": _m(P.ACT, P.PLAN), "escalate": _m(P.ACT, P.HALT)},
        is_verdict=True,
        compensates=True,
        label=_word("step"),
    ),
    e.LoopGuardTripped: Row(_p(P.ACT), step.loop_guard_tripped, is_verdict=True),
    e.DecisionTaken: Row(_p(P.ACT), step.decision_taken, is_verdict=True),
    e.GateOpened: Row(_p(P.ACT, P.VERIFY, P.HALT, P.FAIL), gate.gate_opened, is_verdict=True),
    e.GateAnswered: Row(
        _p(P.ACT, P.VERIFY, P.HALT, P.FAIL),
        gate.gate_answered,
        outcome=attrgetter("answer"),
        moves={
            "deny": _m((P.ACT, P.VERIFY, P.HALT), P.FAIL),
            "approve": _m(P.VERIFY, P.COMMIT),
            "modify": _m(P.VERIFY, P.REPAIR),
            "extend": _m(P.HALT, (P.PLAN, P.ACT, P.VERIFY)),
            "replan": _m(P.HALT, P.PLAN),
            "accept_partial": _m(P.HALT, P.COMMIT),
            "abandon": _m(P.HALT, P.FAIL),
        },
    ),
    e.OutputsProduced: Row(_p(P.ACT), session.outputs_produced, moves={"": _m(P.ACT, P.VERIFY)}),
    e.RunReported: Row(
        _p(P.VERIFY, P.ACT),  # in ACT when all deliveries have ended
        session.run_reported,
        outcome=attrgetter("outcome"),
        moves={
            "accept": _m((P.VERIFY, P.ACT), P.COMMIT),
            "fail": _m(P.VERIFY, P.FAIL),
            "replan": _m(P.VERIFY, P.PLAN),
            "escalate": _m((P.VERIFY, P.ACT), P.HALT),
        },
        is_verdict=True,
        label=_word("run"),
    ),
    e.ApprovalGranted: Row(_p(P.ACT), gate.approval_granted, is_verdict=True),
    e.MessageDropped: Row(_ANYWHERE, gate.message_dropped, fact="a message of a person that came too late"),
    e.SessionCancelled: Row(
        _p(*_BEFORE_THE_END), session.session_cancelled, moves={"": _m(_BEFORE_THE_END, P.FAIL)}
    ),
    e.SessionExpired: Row(
        _p(*_BEFORE_THE_END),
        session.session_expired,
        moves={"": _m(_BEFORE_THE_END, P.FAIL)},
        label=_word("expired"),
    ),
    e.SessionMigrated: Row(
        _ANYWHERE,
        session.session_migrated,
        moves={"": _m((*_PLANNED, P.HALT, P.COMMIT), P.REVIEW) + _m(P.HALT, P.PLAN)},
        blobs=("evidence",),
    ),
    e.BudgetExtended: Row(_p(*_BEFORE_THE_END), session.budget_extended),
    e.CompensationBegun: Row(_p(P.FAIL), session.compensation_begun),
    e.EffectsKept: Row(_p(P.FAIL), session.effects_kept),
    e.ModelAsked: Row(_p(*_ASKING), session.model_asked, blobs=("prompt",)),
    e.ModelAnswered: Row(_p(*_ASKING), session.model_answered, fact="the answer of a model", blobs=("blob",)),
    e.TurnJudged: Row(
        _p(P.PLAN, P.ACT),
        plan.turn_judged,
        outcome=attrgetter("action"),
        moves={
            "continue": _m(P.ACT, P.PLAN),
            "retry": _m(P.ACT, P.PLAN),
            "replan": _m(P.ACT, P.PLAN),
            "stop": _m((P.PLAN, P.ACT), P.HALT),
            "escalate": _m((P.PLAN, P.ACT), P.HALT),
            "limit": _m((P.PLAN, P.ACT), P.FAIL),
            "end": _m((P.PLAN, P.ACT), P.FAIL),
        },
        is_verdict=True,
        label=_word("turn"),
    ),
    e.ExperienceDrawn: Row(
        _p(P.VERIFY), quality.experience_drawn, fact="the experience of earlier runs", label=_phase
    ),
    e.SamplesDrawn: Row(_p(P.VERIFY), quality.samples_drawn, label=_phase),
    e.OutputsRead: Row(_p(P.VERIFY), quality.outputs_read, fact="the formats of a locale", label=_phase),
    e.TestsRun: Row(_p(P.VERIFY), quality.tests_run, fact="the result of a test command", label=_phase),
    e.OutputsVerified: Row(
        _p(P.VERIFY),
        quality.outputs_verified,
        outcome=attrgetter("next"),
        moves={"critique": _m(P.VERIFY, P.CRITIQUE), "repair": _m(P.VERIFY, P.REPAIR)},
        is_verdict=True,
        label=_phase,
    ),
    e.OutputsAttacked: Row(
        _p(P.CRITIQUE), quality.outputs_attacked, fact="the outcomes of edge cases", label=_phase
    ),
    e.OutputsCritiqued: Row(
        _p(P.CRITIQUE),
        quality.outputs_critiqued,
        outcome=attrgetter("next"),
        moves={"repair": _m(P.CRITIQUE, P.REPAIR), "exit": _m(P.CRITIQUE, P.VERIFY)},
        is_verdict=True,
        label=_phase,
    ),
    e.OutputsRepaired: Row(
        _p(P.REPAIR),
        quality.outputs_repaired,
        moves={"": _m(P.REPAIR, P.VERIFY)},
        is_verdict=True,
        label=_phase,
    ),
    e.EvidenceFetched: Row(
        _p(P.REPAIR),
        quality.evidence_fetched,
        fact="facts of a library, and the results of repeated calls",
        blobs=("facts",),
        label=_phase,
    ),
    e.OutputsAccepted: Row(
        _p(P.COMMIT),
        quality.outputs_accepted,
        moves={"": _m(P.COMMIT, P.ACT)},
        is_verdict=True,
        label=_phase,
    ),
    e.AcceptanceLapsed: Row(_p(P.COMMIT), gate.acceptance_lapsed, moves={"": _m(P.COMMIT, P.VERIFY)}),
    e.RepeatsChecked: Row(_p(P.ACT, P.FAIL), step.repeats_checked, compensates=True),
    e.StepProposed: Row(_p(P.ACT), plan.step_proposed, is_verdict=True),
    e.ProposalsReviewed: Row(_p(P.ACT), plan.proposals_reviewed, is_verdict=True, label=_word("proposals")),
}


ANYWHERE = (
    "session_paused",
    "session_resumed",
    "given_up",
    "session_cancelled",
    "session_expired",
    "session_migrated",
)
"""Events that lead on from every phase, and are shown once."""


def list_moves() -> list[tuple[Phase, str, Phase]]:
    """Return every move from one phase to another, with the event that makes it and its outcome."""
    return [
        (before, f"{kind.__struct_config__.tag}{outcome and ': '}{outcome}", after)
        for kind, row in TABLE.items()
        for outcome, moves in row.moves.items()
        for before, after in moves
    ]


def draw_moves() -> str:
    """Return the moves as a Markdown table; those that are possible anywhere are in it once, for ACT."""
    made: dict[tuple[str, str], list[str]] = {("the start", P.PLAN): ["`session_started`"]}
    for before, event, after in list_moves():
        if event not in ANYWHERE or P.ACT in (before, after):
            made.setdefault((before, after), []).append(f"`{event}`")
    made |= {(phase, "the end"): ["`session_ended`"] for phase in (P.COMMIT, P.FAIL)}
    order = ["the start", *P]
    rows = sorted(made.items(), key=lambda row: order.index(row[0][0]))
    lines = [f"| {before} | {after} | {', '.join(events)} |" for (before, after), events in rows]
    return "\n".join(["| from | to | by |", "|---|---|---|", *lines])


def blobs_of(event: e.Event) -> tuple[str, ...]:
    """Return the digests of the bytes that an event names."""
    return tuple(digest for field in TABLE[type(event)].blobs if (digest := getattr(event, field)))
