"""Every event of a run as a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from tercet.contracts.plan import compensated_step
from tercet.core import events as e
from tercet.replay.report.case import Case
from tercet.replay.report.judgements import of_quality
from tercet.replay.report.page import Happening, Tone
from tercet.replay.report.wording import Wording
from tercet.replay.report.words import count, elapsed, moment, took

MOST = 600

Told = tuple[str, Tone]


def happenings(case: Case, wording: Wording) -> tuple[tuple[Happening, ...], str]:
    """The events of a run, and in words how many were left out in the middle."""
    return tuple(_told(case, wording)), _left_out(len(case.events))


def _left_out(events: int) -> str:
    return f"{events - MOST:,} events in the middle are left out." if events > MOST else ""


def _told(case: Case, wording: Wording) -> Iterator[Happening]:
    first = case.events[0].at
    for number, event in enumerate(case.events, start=1):
        if len(case.events) > MOST and MOST // 2 < number <= len(case.events) - MOST // 2:
            continue
        what, tone = sentence(event)
        yield Happening(
            number=number,
            at=moment(event.at),
            after=elapsed(event.at - first),
            what=wording.text(what, 400),
            tone=tone,
        )


def sentence(event: e.Event) -> Told:
    """What an event says."""
    match event:
        case (
            e.Intent()
            | e.Complete()
            | e.Abort()
            | e.RetryScheduled()
            | e.Settled()
            | e.StepRefused()
            | e.StepSkipped()
            | e.RepeatsChecked()
        ):
            return _of_step(event)
        case e.StepJudged() | e.LoopGuardTripped() | e.RunReported() | e.TurnJudged() | e.PlanReviewed():
            return _of_critic(event)
        case (
            e.GateOpened()
            | e.GateAnswered()
            | e.AcceptanceLapsed()
            | e.ApprovalGranted()
            | e.MessageDropped()
            | e.BudgetExtended()
        ):
            return _of_people(event)
        case (
            e.PlanProposed()
            | e.PlanningFailed()
            | e.Decomposed()
            | e.EvidenceRetrieved()
            | e.ModelAsked()
            | e.ModelAnswered()
        ):
            return _of_planning(event)
        case (
            e.ExperienceDrawn()
            | e.SamplesDrawn()
            | e.TestsRun()
            | e.OutputsVerified()
            | e.OutputsAttacked()
            | e.OutputsCritiqued()
            | e.EvidenceFetched()
            | e.OutputsRepaired()
        ):
            return of_quality(event)
        case _:
            return _of_session(event)


def _name(step: str) -> str:
    host = compensated_step(step)
    return f"taking {host} back" if host else step


def _of_step(
    event: e.Intent
    | e.Complete
    | e.Abort
    | e.RetryScheduled
    | e.Settled
    | e.StepRefused
    | e.StepSkipped
    | e.RepeatsChecked,
) -> Told:
    name = _name(event.step)
    match event:
        case e.Intent():
            return (
                f"INTENT {name}, attempt {event.attempt}: {event.tool or 'a note'} is about to be called",
                "busy",
            )
        case e.Complete() if event.error:
            return f"COMPLETE {name}: it happened, and its result is unusable: {event.error}", "bad"
        case e.Complete():
            return f"COMPLETE {name} after {took(event.latency)}", "good"
        case e.Abort(outcome="not_done"):
            return f"ABORT {name}: it did not happen: {event.error}", "bad"
        case e.Abort():
            return f"ABORT {name}: nobody knows whether it happened: {event.error}", "wait"
        case e.RetryScheduled():
            return f"{name} is tried again in {took(max(0, event.not_before - event.at))}", "wait"
        case e.Settled():
            return f"{name} is settled: {event.how.replace('_', ' ')}, by {event.by}", "wait"
        case e.StepRefused():
            return f"{name} is not called, {event.code}: {event.reason}", "bad"
        case e.StepSkipped():
            return f"{name} is skipped: {event.reason.replace('_', ' ')}", "quiet"
        case e.RepeatsChecked() if event.found:
            return f"{name} repeats a call of {', '.join(each.session for each in event.found)}", "bad"
        case e.RepeatsChecked():
            return f"{name} repeats no call of another run", "quiet"
        case _:
            assert_never(event)


def _of_critic(
    event: e.StepJudged | e.LoopGuardTripped | e.RunReported | e.TurnJudged | e.PlanReviewed,
) -> Told:
    match event:
        case e.StepJudged():
            why = f": {event.reason}" if event.reason else ""
            return f"the critic says {event.outcome} of {_name(event.step)}{why}", _good(
                event.outcome == "accept"
            )
        case e.LoopGuardTripped():
            return f"the loop guard stops {_name(event.step)}: {event.reason}", "bad"
        case e.RunReported(outcome="ask"):
            return f"the outputs hold, and a person is asked: {'; '.join(event.reasons)}", "wait"
        case e.RunReported(outcome="fail"):
            return f"the run fails by its outputs: {'; '.join(event.reasons)}", "bad"
        case e.RunReported():
            return f"the critic says {event.outcome} of the run: {'; '.join(event.reasons)}", _good(
                event.outcome == "accept"
            )
        case e.TurnJudged():
            by = f" by {event.critic}" if event.critic else ""
            return f"turn {event.turn}: {event.action}{by} {event.reason}".rstrip(), "quiet"
        case e.PlanReviewed():
            outcome = str(event.verdict.get("outcome"))
            return (
                f"the critic says {outcome} of the plan: {'; '.join(event.verdict.get('reasons', ()))}",
                _good(outcome == "ok"),
            )
        case _:
            assert_never(event)


def _good(is_good: bool) -> Tone:  # noqa: FBT001 - the one thing that it is asked
    return "good" if is_good else "bad"


def _of_people(
    event: e.GateOpened
    | e.GateAnswered
    | e.AcceptanceLapsed
    | e.ApprovalGranted
    | e.MessageDropped
    | e.BudgetExtended,
) -> Told:
    match event:
        case e.GateOpened(kind="output"):
            return f"the outputs wait for {', '.join(event.names) or 'somebody'} to accept them", "wait"
        case e.GateOpened():
            about = f" about {_name(event.step)}" if event.step else ""
            return f"people are asked{about}: {', '.join(event.names) or event.kind}", "wait"
        case e.GateAnswered():
            note = f": {event.note}" if event.note else ""
            tone = _good(event.answer not in ("deny", "abandon", "withdraw"))
            return f"{event.actor} answers {event.answer.replace('_', ' ')}{note}", tone
        case e.AcceptanceLapsed():
            return f"the outputs are not committed, and people are asked again: {event.reason}", "wait"
        case e.ApprovalGranted():
            return f"policy {event.policy} grants {event.step}", "good"
        case e.MessageDropped():
            return f"a message is not heard, {event.code}: {event.reason}", "quiet"
        case e.BudgetExtended():
            more = ", ".join(f"{amount:,} {name.replace('_', ' ')}" for name, amount in event.more.items())
            return f"{event.by} extends the budget by {more}", "wait"
        case _:
            assert_never(event)


def _of_planning(
    event: e.PlanProposed
    | e.PlanningFailed
    | e.Decomposed
    | e.EvidenceRetrieved
    | e.ModelAsked
    | e.ModelAnswered,
) -> Told:
    match event:
        case e.PlanProposed():
            steps = count(len(event.plan.get("steps", ())), "step")
            return f"a plan of {steps}, by {event.planner or event.origin}", "busy"
        case e.PlanningFailed():
            return f"no plan, {event.code}: {event.reason}", "bad"
        case e.Decomposed():
            return f"split into {count(event.steps, 'sub-task')}", "quiet"
        case e.EvidenceRetrieved():
            return f"{count(len(event.evidence), 'fact')} pinned", "quiet"
        case e.ModelAsked():
            return f"{event.model} is asked, attempt {event.attempt}", "busy"
        case e.ModelAnswered() if event.code:
            return f"no answer, {event.code}: {event.error}", "bad"
        case e.ModelAnswered():
            tokens = event.tokens_in + event.tokens_out
            return f"{event.model} answers after {took(event.latency)}, {count(tokens, 'token')}", "good"
        case _:
            assert_never(event)


def _of_session(event: e.Event) -> Told:
    match event:
        case e.SessionStarted():
            return f"session {event.session} starts, for {event.actor.get('id')}, with {event.pack}", "busy"
        case e.SessionResumed() if event.in_flight:
            return f"another process takes over; {', '.join(event.in_flight)} had been under way", "bad"
        case e.SessionResumed():
            return "a process carries it on", "busy"
        case e.SessionPaused():
            return f"paused: {event.reason}", "wait"
        case e.SessionMigrated():
            return (
                f"moved to {event.pack} {f'by {event.by}' if event.by else 'and the current rules'}",
                "wait",
            )
        case e.OutputsProduced():
            missing = f"; missing: {', '.join(event.missing)}" if event.missing else ""
            return f"outputs: {', '.join(event.outputs) or 'none'}{missing}", _good(not event.missing)
        case _:
            return _of_ending(event)


def _of_ending(event: e.Event) -> Told:
    match event:
        case e.SessionCancelled():
            return f"cancelled by {event.by}: {event.reason}", "bad"
        case e.SessionExpired():
            return f"expired: {event.reason}", "bad"
        case e.GivenUp():
            return f"given up: {event.reason}", "bad"
        case e.CompensationBegun():
            return f"taking back: {', '.join(each.step for each in event.undo) or 'nothing'}", "wait"
        case e.EffectsKept():
            return f"what was done is kept{f', by {event.by}' if event.by else ''}", "quiet"
        case e.SessionEnded():
            return f"{event.status}: {event.reason}", _good(event.status == "completed")
        case _:  # one that has no sentence of its own yet is told by its name
            return str(type(event).__struct_config__.tag).replace("_", " "), "quiet"
