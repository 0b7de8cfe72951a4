"""Every event of a run as a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tercet.contracts.plan import compensated_step
from tercet.contracts.quality import Consensus, Defect
from tercet.contracts.rubric import EdgeOutcome
from tercet.core import events as e
from tercet.quality.rubric.adversarial import judge_edge_cases
from tercet.replay.report.case import Case
from tercet.replay.report.page import Happening, Tone
from tercet.replay.report.wording import Wording, count, elapsed, joined, moment, score, spoken, took

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


def sentence(event: e.Event) -> Told:  # noqa: C901 - one case for each kind of event
    """Return what an event says, and its tone."""
    name = _name(getattr(event, "step", ""))
    match event:
        case e.Intent():
            called = event.tool or "a note"
            return f"INTENT {name}, attempt {event.attempt}: {called} is about to be called", "busy"
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
        case e.StepJudged():
            why = f": {event.reason}" if event.reason else ""
            return f"the critic says {event.outcome} of {name}{why}", _good(event.outcome == "accept")
        case e.LoopGuardTripped():
            return f"the loop guard stops {name}: {event.reason}", "bad"
        case e.RunReported(outcome="ask"):
            return f"the outputs hold, and a person is asked: {'; '.join(event.reasons)}", "wait"
        case e.RunReported(outcome="fail"):
            return f"the run fails by its outputs: {'; '.join(event.reasons)}", "bad"
        case e.RunReported():
            told = f"the critic says {event.outcome} of the run: {'; '.join(event.reasons)}"
            return told, _good(event.outcome == "accept")
        case e.TurnJudged():
            by = f" by {event.critic}" if event.critic else ""
            return f"turn {event.turn}: {event.action}{by} {event.reason}".rstrip(), "quiet"
        case e.PlanReviewed():
            outcome, reasons = str(event.verdict.get("outcome")), event.verdict.get("reasons", ())
            return f"the critic says {outcome} of the plan: {'; '.join(reasons)}", _good(outcome == "ok")
        case e.GateOpened(kind="output"):
            return f"the outputs wait for {', '.join(event.names) or 'somebody'} to accept them", "wait"
        case e.GateOpened():
            about = f" about {name}" if event.step else ""
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
            tokens = count(event.tokens_in + event.tokens_out, "token")
            return f"{event.model} answers after {took(event.latency)}, {tokens}", "good"
        case e.SessionStarted():
            return f"session {event.session} starts, for {event.actor.get('id')}, with {event.pack}", "busy"
        case e.SessionResumed() if event.in_flight:
            return f"another process takes over; {', '.join(event.in_flight)} had been under way", "bad"
        case e.SessionResumed():
            return "a process carries it on", "busy"
        case e.SessionPaused():
            return f"paused: {event.reason}", "wait"
        case e.SessionMigrated():
            by = f"by {event.by}" if event.by else "and the current rules"
            return f"moved to {event.pack} {by}", "wait"
        case e.OutputsProduced():
            missing = f"; missing: {', '.join(event.missing)}" if event.missing else ""
            return f"outputs: {', '.join(event.outputs) or 'none'}{missing}", _good(not event.missing)
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
        case _:
            return _judged(event)


def _name(step: str) -> str:
    host = compensated_step(step)
    return f"taking {host} back" if host else step


def _good(is_good: bool) -> Tone:  # noqa: FBT001 - the one thing that it is asked
    return "good" if is_good else "bad"


# --- the quality loop ---


def _judged(event: e.Event) -> Told:
    match event:
        case e.ExperienceDrawn():
            tried = sum(int(each["tried"]) for each in event.rates.get("tallies", ()))
            by = f"{count(tried, 'repair')} of runs before it" if tried else "no run before it"
            return f"experience of the task class {event.task_class}: {by}", "quiet"
        case e.SamplesDrawn() if not event.consistency:
            return f"there are not enough samples to compare: {event.error}", "bad"
        case e.SamplesDrawn():
            return _sampled(event)
        case e.OutputsRead():
            return f"{count(len(event.texts), 'text')} of the outputs are read in {event.locale}", "quiet"
        case e.TestsRun() if event.error:
            return f"tests {event.tool} could not be run: {event.error}", "bad"
        case e.TestsRun():
            return _tested(event)
        case e.OutputsVerified():
            return _verified(event)
        case e.OutputsAttacked():
            return _attacked(event)
        case e.OutputsCritiqued():
            return _critiqued(event)
        case e.EvidenceFetched():
            asked = count(len(event.queries), "question")
            return f"more evidence is looked for with {asked}: {count(len(event.refs), 'fact')} found", "busy"
        case e.OutputsRepaired():
            return _repaired(event)
        case _:  # an event without a sentence of its own is told by its name
            return str(type(event).__struct_config__.tag).replace("_", " "), "quiet"


def _sampled(event: e.SamplesDrawn) -> Told:
    agreed = Consensus.model_validate(event.consistency)
    told = f"{count(len(event.samples), 'sample')} of {event.step} agree at {score(agreed.consistency)}"
    return f"{told}; number {agreed.index + 1} is taken", "bad" if agreed.needs_critique else "good"


def _tested(event: e.TestsRun) -> Told:
    passed, failed = int(event.result.get("passed", 0)), int(event.result.get("failed", 0))
    time = f"after {took(event.latency)}" if event.latency else ""
    told = joined((f"{passed:,} passed", f"{failed:,} failed" if failed else "", time))
    return f"tests {event.tool}: {told}", "bad" if failed else "good"


def _verified(event: e.OutputsVerified) -> Told:
    verdict = event.verdict
    if not verdict.get("schema_valid"):
        faults = count(len(verdict.get("schema_faults", ())), "fault")
        return f"the form of the outputs is broken, {faults}; {_then(event.next)}", "bad"
    score_told = f"the outputs are verified at {score(float(verdict['score']))}"
    refused = sum(each["status"] in ("elsewhere", "unknown") for each in verdict.get("tokens", ()))
    counts = (
        count(refused, "value") + " refused" if refused else "",
        f"{len(verdict['missing']):,} missing" if verdict.get("missing") else "",
        count(len(verdict["unjudged"]), "text") + " unjudged" if verdict.get("unjudged") else "",
    )
    told = f"{joined((score_told, *counts))}; {_then(event.next)}"
    return told, "good" if verdict.get("passed") else "wait"


def _attacked(event: e.OutputsAttacked) -> Told:
    broken, tried = len(broken_by(event)), count(len(event.tried), "edge case")
    told = f"{broken:,} of {tried} broke it" if broken else f"it stood {tried}"
    why = f"not all was tried: {event.error}" if event.error else ""
    return f"attack {event.tool}: {joined((told, why))}", "bad" if broken or event.error else "good"


def broken_by(event: e.OutputsAttacked) -> tuple[Defect, ...]:
    """The defects that an attack brought to light."""
    outcomes = [EdgeOutcome.model_validate(each) for each in event.tried]
    return tuple(found.defect for found in judge_edge_cases(outcomes, limit=len(outcomes)))


def _critiqued(event: e.OutputsCritiqued) -> Told:
    rubric: dict[str, Any] = event.rubric
    defects = len(event.diagnosis.get("defects", ()))
    found = count(defects, "defect") if defects else "no defect"
    below = f", too low: {', '.join(map(str, rubric.get('below', ())))}" if rubric.get("below") else ""
    told = f"the critic scores the outputs {score(float(rubric['weighted']))}, {found}{below}"
    return f"{told}; {_then(event.next)}", "good" if rubric.get("passed") else "bad"


def _then(following: str) -> str:
    words = {"repair": "repair follows", "critique": "critique follows", "exit": "nothing more is mended"}
    return words[following]


def _repaired(event: e.OutputsRepaired) -> Told:
    done = sum(entry.get("success") is True for entry in event.log)
    told = f"{done:,} of {count(event.attempts, 'repair')} made" if event.attempts else "nothing was tried"
    if event.outcome == "repaired":
        return f"repaired, {told}; the outputs are looked at again", "good"
    left = count(len(event.escalation.get("left", ())), "defect")
    return f"not all is repaired, {told}: {left} left, {spoken(str(event.escalation.get('kind')))}", "bad"
