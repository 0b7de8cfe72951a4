"""Recorded answers: reads the answer to each command from the events, with which `resolve` must make the same events.

`RECORDED` has an entry for each event that is derived: the command that was due, and the answer that the event records.
An event that the table of events calls a fact is taken as it was recorded. One that is in neither is resolved together
with another event, and is only accepted behind that one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, NamedTuple, TypeVar

import msgspec

from tercet.contracts.loop import Phase
from tercet.contracts.question import Question
from tercet.contracts.runs.behaviour import Behaviour
from tercet.contracts.verdict import Code
from tercet.core import commands as c
from tercet.core import events as e
from tercet.core import messages
from tercet.core.answers import (
    Answer,
    CallEnded,
    Done,
    Draw,
    Drawn,
    History,
    LaneGate,
    NotHappened,
    NotPlanned,
    Now,
    Observed,
    Planned,
    Ready,
    Reflected,
    RepeatsFound,
    Retrieved,
    ToolChanges,
    Unknown,
)
from tercet.core.fold.base import ROLE_LOST, copy_fields
from tercet.core.fold.gate import acceptances
from tercet.core.messages import Cancel, Extend, Message, Reply
from tercet.core.outputs.judging import vote_on
from tercet.core.outputs.recorded_answers import Judged, judge_again
from tercet.core.plans import read_plan
from tercet.core.resolve import resolve
from tercet.core.retrieval import asking, read_facts, unread
from tercet.core.state import OpenGate
from tercet.core.table import TABLE
from tercet.core.turns import Reflection
from tercet.engine.models.planners import TaskPlanner, TemplatePlanner, pack_planner
from tercet.engine.models.session import AskingRole, shortage, time_for
from tercet.engine.planning import answer_failure, answer_plan, ask_planner
from tercet.planner.sources import PlanningError
from tercet.replay.recorded_run import RecordedRun, drive

_CommandT = TypeVar("_CommandT", bound=c.Command)


class Answered(NamedTuple):
    """A command that was due, and the answer that it got."""

    command: c.Command
    answer: Answer
    fact: str = ""
    """Why the judgement itself is a fact; empty if it follows from what was recorded before."""


class Derived(NamedTuple):
    """An event as it must have been, given all that was recorded before it."""

    event: e.Event
    fact: str = ""


def derive(run: RecordedRun, event: e.Event) -> Derived | None:
    """Return an event as it must have been; None if nothing of its kind was due. Events that are resolved together
    with it are owed."""
    if isinstance(event, e.SessionStarted | e.SessionMigrated):
        is_possible = bool(run.events) or isinstance(event, e.SessionStarted)
        return Derived(_pin_again(run, event)) if is_possible else None
    if not run.events:
        return None
    if run.owed:
        return Derived(_at_its_time(run.owed.popleft(), event))
    if fact := TABLE[type(event)].fact:
        return Derived(event, fact)
    if (read_answer := RECORDED.get(type(event))) is None:
        return None
    try:
        answered = read_answer(run, event)
    except NotDue:
        return None
    made = resolve(run.run, answered.command, answered.answer).events
    if not made:
        return None
    run.owed.extend(made[1:])
    return Derived(_at_its_time(made[0], event), answered.fact)


class NotDue(Exception):  # noqa: N818 - it says what is so, and never leaves the replay
    """No command of the kind was due that an event answers."""


def _demand(run: RecordedRun, kind: type[_CommandT], event: e.Event, step: str | None = None) -> _CommandT:
    """Return the command that an event answers; raises `NotDue` if there is none."""
    if (command := run.due(kind, at=event.at, step=step)) is None:
        raise NotDue
    return command


def _at_its_time(derived: e.Event, recorded: e.Event) -> e.Event:
    """Return a derived event with the recorded time, which is always a fact."""
    if type(derived) is not type(recorded) or derived.at == recorded.at:
        return derived
    return msgspec.structs.replace(derived, at=recorded.at)


# --- sessions ---


def _pin_again(run: RecordedRun, event: e.SessionStarted | e.SessionMigrated) -> e.Event:
    """Compile the context again under the pack that the event names; its hash must be the same."""
    config, pack = run.pin(event).config, run.pack
    pins = {
        "pack": pack.ref,
        "pack_hash": pack.hash,
        "snapshot": config.compiled.snapshot,
        "context": config.compiled.hash,
        "left_out": config.compiled.left_out,
    }
    if isinstance(event, e.SessionMigrated):
        return msgspec.structs.replace(event, **pins)
    spec = config.spec
    return msgspec.structs.replace(
        event,
        **pins,
        session=run.recording.session,
        tenant=run.recording.tenant,
        decision=spec.id,
        on_failure=spec.on_failure or pack.on_failure,
        heartbeat=pack.session.heartbeat_interval_ms,
        dev=event.dev and pack.session.simulated_people,
        personal=event.personal if pack.personal.has_marks else "",
        risk_tier=event.risk_tier and str(spec.risk_tier),  # the first journals do not have it
    )


def _resumed(run: RecordedRun, event: e.SessionResumed) -> Answered:
    del run
    return Answered(c.Resume(owner=event.owner, epoch=event.epoch, people=event.people), Now(at=event.at))


def _expired(run: RecordedRun, event: e.SessionExpired) -> Answered:
    del run
    return Answered(c.Expire(outside=event.outside), Now(at=event.at))


# --- people ---

_PERSON = "the message of a person"
_NO_INBOX = "the message of a person, taken from its event: the recording does not hold the message itself"


def _answered_gate(run: RecordedRun, event: e.GateAnswered) -> Answered:
    via = str(run.state.start.lane.get("parent", ""))
    reply = copy_fields(Reply, event, session=run.recording.session, digest="", via=via)
    return _received(run, reply, event)


def _cancelled(run: RecordedRun, event: e.SessionCancelled) -> Answered:
    said = {"session": run.recording.session, "actor": event.by, "note": event.reason}
    return _received(run, copy_fields(Cancel, event, **said), event)


def _extended(run: RecordedRun, event: e.BudgetExtended) -> Answered:
    return _received(run, copy_fields(Extend, event, session=run.recording.session, actor=event.by), event)


def _received(
    run: RecordedRun, message: Message, event: e.GateAnswered | e.SessionCancelled | e.BudgetExtended
) -> Answered:
    """Return the message in the inbox, or else one made from its event. Its consequence, and whether it was allowed,
    is derived."""
    data = run.recording.inbox.get(event.inbox)
    command = c.Receive(
        data=messages.encode(message) if data is None else data, inbox=event.inbox, outside=event.outside
    )
    return Answered(command, Now(at=event.at), _NO_INBOX if data is None else _PERSON)


# --- plans ---


def _proposed(run: RecordedRun, event: e.PlanProposed) -> Answered:
    command = _demand(run, c.Propose, event)
    if run.state.change is not None:
        return Answered(command, Now(at=event.at))
    if event.by_pack and event.planner in _PURE:
        return _plan_again(run, command, event.planner, event.at)
    planned = copy_fields(Planned, event, by_pack=False)
    return Answered(command, planned, "" if event.by_pack else "the proposal of a planner or a caller")


_PURE = (TemplatePlanner.name, TaskPlanner.name)


def _plan_again(run: RecordedRun, command: c.Propose, name: str, at: int) -> Answered:
    """Ask a planner of the pack again: these are pure functions of the pack, the request and the evidence."""
    planner = pack_planner(run.pack, "", name)
    try:
        plan = drive(ask_planner(planner, run.run.config, run.state))
    except PlanningError as error:
        return Answered(command, answer_failure(planner, error, run.run, at))
    return Answered(command, answer_plan(planner, plan, run.run, at))


def _planning_failed(run: RecordedRun, event: e.PlanningFailed) -> Answered:
    if event.by_pack and run.state.start.planner in _PURE:
        command = _demand(run, c.Propose, event)
        return _plan_again(run, command, run.state.start.planner, event.at)
    return planning_failed_as_recorded(run, event)


def planning_failed_as_recorded(run: RecordedRun, event: e.PlanningFailed) -> Answered:
    """Return the recorded answer of a planner without a plan."""
    command = _demand(run, c.Propose, event)
    by_pack = event.by_pack and run.state.start.planner in _PURE
    return Answered(
        command, copy_fields(NotPlanned, event, by_pack=by_pack), "the reason of a planner without a plan"
    )


def _retrieved(run: RecordedRun, event: e.EvidenceRetrieved) -> Answered:
    """Derive the revision of a plan from the evidence found for its steps, which is a recorded fact."""
    command = _demand(run, c.Retrieve, event)
    plan = read_plan(run.state.plan)
    facts = read_facts(run.recording.blobs[event.facts]) if event.facts else ()
    if not asking(plan, run.state):
        named = unread(plan, run.run.config)
        facts = tuple(fact for fact in facts if fact.id in named)
        return Answered(command, Retrieved(at=event.at, facts=facts, digest=event.facts if facts else ""))
    refs = {step.id: step.evidence_refs for step in read_plan(event.plan).steps}
    answer = Retrieved(
        at=event.at, facts=facts, digest=event.facts, refs=refs, calls=event.calls, cost=event.cost
    )
    return Answered(command, answer)


def _reviewed(run: RecordedRun, event: e.PlanReviewed) -> Answered:
    """Derive a review; only changed tool definitions are taken as recorded."""
    command = _demand(run, c.Review, event)
    is_outside = event.verdict.get("code") == Code.TOOL_DEFINITION_CHANGED
    changes = tuple(event.verdict.get("reasons", ())) if is_outside else ()
    fact = "a tool's definition outside had changed" if is_outside else ""
    return Answered(command, ToolChanges(at=event.at, changes=changes), fact)


def _turn_judged(run: RecordedRun, event: e.TurnJudged) -> Answered:
    """Return the judgement of an agent and its critics, if they are pure and installed; else the recorded one, as a
    fact."""
    command = _demand(run, c.Reflect, event)
    if (again := run.reflect(event.at)) is not None:
        return Answered(command, again)
    said = Reflection(**{each.name: getattr(event, each.name) for each in fields(Reflection)})
    fact = "the judgement of the agent's critics, which are Python"
    return Answered(command, Reflected(at=event.at, reflection=said), fact)


def _model_asked(run: RecordedRun, event: e.ModelAsked) -> Answered:
    """Return the reservation of a question that the budget had enough left for. Which model is asked, how often and at what
    price is other people's code. A question that the journal no longer holds is taken as recorded."""
    role: AskingRole = "planner" if run.state.phase is Phase.PLAN else "critic"
    limit = run.run.limit_for(role)
    if shortage(run.state.used, run.run.config, role, limit, event.tokens, event.cost) is not None:
        raise NotDue
    kept = run.recording.blobs.get(event.prompt)
    question = None if kept is None else Question.model_validate_json(kept)
    command = c.AskModel(
        purpose=event.purpose if question is None else question.purpose,
        model=event.model,
        prompt=event.prompt if question is None else question.hash,
        attempt=event.attempt,
        tokens=event.tokens if question is None else question.reserved_tokens,
        cost=event.cost,
        timeout_ms=time_for(limit),
    )
    return Answered(command, Now(at=event.at), "the question to a model, its name and its price")


# --- calls ---

_BREAKER = "the circuit of its tool was open"
_REPEATS = "the calls of other runs"
_ROLES = "a change of who holds a role"
_LANE = "the question of a lane"


def _intent(run: RecordedRun, event: e.Intent) -> Answered:
    if not event.tool:
        return _with_time(c.Note)(run, event)
    command = _demand(run, c.Dispatch, event, event.step)
    return Answered(command, Ready(at=event.at, epoch=event.epoch, circuit=event.breaker))


def _completed(run: RecordedRun, event: e.Complete) -> Answered:
    """Derive a COMPLETE: its result is a fact, the amounts and the outputs in a large result are derived."""
    if event.step not in run.state.steps:
        raise NotDue
    value = run.blobs[event.blob] if event.blob else event.value
    ended = Done(value=value, error=event.error, latency_ms=event.latency)
    answer = CallEnded(at=event.at, ended=ended, blob=event.blob)
    command: c.Command = c.Await(step=event.step, attempt=event.attempt)
    if event.reconciled:
        command = _demand(run, c.Settle, event, event.step)
    return Answered(command, answer, "the result of a tool")


def _repeats_checked(run: RecordedRun, event: e.RepeatsChecked) -> Answered:
    """Derive the check for earlier calls; its result is a fact."""
    if (search := run.due(c.CheckRepeats, at=event.at, step=event.step)) is not None:
        return Answered(search, RepeatsFound(at=event.at, found=event.found), _REPEATS)
    command = _demand(run, c.Dispatch, event, event.step)
    return Answered(command, Ready(at=event.at, repeats=event.found), _REPEATS)


def _refused(run: RecordedRun, event: e.StepRefused) -> Answered:
    if (fault := run.due(c.Fault, at=event.at, step=event.step)) is not None:
        return Answered(fault, Now(at=event.at))
    command = _demand(run, c.Dispatch, event, event.step)
    if event.code == ROLE_LOST:
        return Answered(command, Ready(at=event.at, role_lost=event.reason), _ROLES)
    # Evidence that had expired by then is found again, and needs no fact.
    is_expired = event.code == "evidence_expired"
    return Answered(command, Ready(at=event.at, circuit="OPEN"), "" if is_expired else _BREAKER)


def _judged(run: RecordedRun, event: e.StepJudged | e.LoopGuardTripped | e.DecisionTaken) -> Answered:
    command = _demand(run, c.Judge, event, event.step)
    match next(run.following(), None):
        case e.RetryScheduled(step=event.step, not_before=not_before):
            draw = Draw(not_before=not_before)
        case _:
            draw = Draw()
    return Answered(command, Drawn(at=event.at, draw=draw))


def _settled(run: RecordedRun, event: e.Settled) -> Answered:
    """Return how an unknown outcome was settled: by the tool's declaration, or by the result of its look-up."""
    if event.by == "lane":
        return Answered(_demand(run, c.AskForLane, event, event.step), LaneGate(at=event.at), _LANE)
    command = _demand(run, c.Settle, event, event.step)
    call, step = run.run.followed.calls[event.step], run.state.steps[event.step]
    answer = CallEnded(at=event.at, draw=Draw(not_before=event.not_before))
    if not call.tool.reconciles:
        return Answered(command, answer)
    due = step.since + call.tool.settle_after_ms
    is_absent = event.how == "absent" or (not event.reason and event.not_before == due)
    found = NotHappened(error="") if is_absent else Unknown(error=event.reason)
    return Answered(
        command, msgspec.structs.replace(answer, ended=found), "the look-up of the outcome by its tool"
    )


# --- gates ---


def _opened(run: RecordedRun, event: e.GateOpened) -> Answered:
    match event.kind:
        case "escalation":
            return _looking_back(c.Escalate)(run, event)
        case "compensation":
            return _looking_back(c.Compensate)(run, event)
        case "approval" | "reconcile" | "output":
            pass
    if event.lane:
        command = _demand(run, c.AskForLane, event, event.step)
        return Answered(command, LaneGate(at=event.at, gate=copy_fields(OpenGate, event, id="")), _LANE)
    if (asking_now := run.due(c.Ask, at=event.at, step=event.step)) is not None:
        return Answered(asking_now, Now(at=event.at))
    # A call that may have happened cannot be refused because a circuit is open: a person is asked instead.
    step = run.state.steps.get(event.step)
    if step is None or not step.is_unsettled:
        raise NotDue
    command = _demand(run, c.Dispatch, event, event.step)
    return Answered(command, Ready(at=event.at, circuit="OPEN"), _BREAKER)


def _accepted(run: RecordedRun, event: e.OutputsAccepted) -> Answered:
    return Answered(_demand(run, c.AcceptOutputs, event), Ready(at=event.at))


def _lapsed(run: RecordedRun, event: e.AcceptanceLapsed) -> Answered:
    """Derive a lapsed acceptance; that a person lost a role is a fact."""
    if (accepting := run.due(c.AcceptOutputs, at=event.at)) is not None and acceptances(run.state):
        return Answered(accepting, Ready(at=event.at, role_lost=event.reason), _ROLES)
    if not acceptances(run.state):
        raise NotDue
    command = _demand(run, c.End, event)
    return Answered(command, History(at=event.at, events=run.events, role_lost=event.reason), _ROLES)


# --- outputs ---

_JUDGING: dict[type[Judged], type[c.Command]] = {
    e.OutputsVerified: c.VerifyOutputs,
    e.OutputsCritiqued: c.Critique,
    e.OutputsRepaired: c.Repair,
}


_EARLIER = f"outputs judged by rules before {int(Behaviour.OUTPUTS_REPAIRED_PLAINLY)}"


def judged_earlier(run: RecordedRun) -> bool:
    """Return whether the outputs of a run were judged by rules that no longer exist."""
    return Behaviour.OUTPUTS_REPAIRED_PLAINLY not in run.state.start.behaviour


def _outputs_judged(run: RecordedRun, event: Judged) -> Answered:
    """Return the result of VERIFY, CRITIQUE or REPAIR with the recorded answers of models; raises `Unrecorded` if one
    is missing."""
    if judged_earlier(run):
        return Answered(_JUDGING[type(event)](), Observed(event=event), _EARLIER)
    command = _demand(run, _JUDGING[type(event)], event)
    return Answered(
        command, Observed(event=judge_again(run.output_review(event.repairers), event, run.blobs))
    )


def _samples_drawn(run: RecordedRun, event: e.SamplesDrawn) -> Answered:
    command = _demand(run, c.DrawSamples, event)
    if judged_earlier(run):
        return Answered(command, Observed(event=event), _EARLIER)
    return Answered(command, Observed(event=vote_on(run.output_review(), event)))


def _reported(run: RecordedRun, event: e.RunReported) -> Answered:
    """Return the report that follows from the exit of a run; an exit decided by earlier rules for outputs is a fact."""
    command = _demand(run, c.Score, event)
    is_fact = bool(event.exit) and judged_earlier(run)
    answer = History(at=event.at, events=run.events, exit=event.exit if is_fact else {})
    return Answered(command, answer, _EARLIER if is_fact else "")


# --- commands that need nothing but the time, or the events so far ---

Recorded = Callable[[RecordedRun, Any], Answered]


def _with_time(kind: type[c.Command]) -> Recorded:
    def answer(run: RecordedRun, event: e.Event) -> Answered:
        return Answered(_demand(run, kind, event, getattr(event, "step", None)), Now(at=event.at))

    return answer


def _looking_back(kind: type[c.Command]) -> Recorded:
    def answer(run: RecordedRun, event: e.Event) -> Answered:
        return Answered(_demand(run, kind, event), History(at=event.at, events=run.events))

    return answer


RECORDED: Mapping[type[e.Event], Recorded] = {
    e.SessionResumed: _resumed,
    e.SessionExpired: _expired,
    e.GivenUp: _with_time(c.StopExhausted),
    e.SessionEnded: _looking_back(c.End),
    e.PlanProposed: _proposed,
    e.PlanningFailed: _planning_failed,
    e.Decomposed: _with_time(c.Decompose),
    e.EvidenceRetrieved: _retrieved,
    e.PlanReviewed: _reviewed,
    e.OutputsProduced: _with_time(c.Finish),
    e.RepeatsChecked: _repeats_checked,
    e.Intent: _intent,
    e.Complete: _completed,
    e.StepRefused: _refused,
    e.StepSkipped: _with_time(c.Skip),
    e.StepProposed: _with_time(c.ProposeStep),
    e.ProposalsReviewed: _with_time(c.ReviewProposals),
    e.StepJudged: _judged,
    e.LoopGuardTripped: _judged,
    e.DecisionTaken: _judged,
    e.Settled: _settled,
    e.GateOpened: _opened,
    e.GateAnswered: _answered_gate,
    e.SessionCancelled: _cancelled,
    e.BudgetExtended: _extended,
    e.OutputsAccepted: _accepted,
    e.AcceptanceLapsed: _lapsed,
    e.ApprovalGranted: _with_time(c.Grant),
    e.CompensationBegun: _looking_back(c.Compensate),
    e.EffectsKept: _looking_back(c.Compensate),
    e.RunReported: _reported,
    e.TurnJudged: _turn_judged,
    e.ModelAsked: _model_asked,
    e.SamplesDrawn: _samples_drawn,
    e.OutputsVerified: _outputs_judged,
    e.OutputsCritiqued: _outputs_judged,
    e.OutputsRepaired: _outputs_judged,
}
