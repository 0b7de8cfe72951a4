"""The verdicts of a run under another configuration: the recorded one, and the one that `resolve` derives now.

Only what the critic says is compared, not the bytes: another pack has another hash, and so have its gates. Facts stay as
they were recorded: plans, results, answers, and the evidence that the session has kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from tercet.contracts.plan import compensated_step
from tercet.contracts.shape import as_object
from tercet.contracts.values.canonical import digest
from tercet.core import commands as c
from tercet.core import events as e
from tercet.core.answers import Draw, Drawn, Now, Ready
from tercet.core.decide import decide, is_worn_out
from tercet.core.fold.base import ROLE_LOST, changed, with_step
from tercet.core.outputs.recorded_answers import Judged, Unrecorded
from tercet.core.resolve import resolve
from tercet.replay.answers import NotDue, derive, judged_earlier, planning_failed_as_recorded
from tercet.replay.comparison import brief
from tercet.replay.recorded_run import RecordedRun


@dataclass(frozen=True, kw_only=True)
class VerdictWords:
    """One verdict in words that can be compared, with the reasons for it."""

    verdict: str
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What else must be the same for the verdict to be the same."""
    reasons: tuple[str, ...] = ()
    scores: Mapping[str, float] = field(default_factory=dict[str, float])

    def is_same(self, other: VerdictWords) -> bool:
        """Return whether another verdict has the same outcome; reasons and scores may differ."""
        return (self.verdict, dict(self.details)) == (other.verdict, dict(other.details))


@dataclass(frozen=True, kw_only=True)
class BothVerdicts:
    """A recorded verdict, and the one that is derived now."""

    old: VerdictWords
    new: VerdictWords
    event: e.Event | None = None
    """The event that would be recorded now, where there is one."""


def compare_verdict(run: RecordedRun, event: e.Event) -> BothVerdicts | None:
    """Return the verdict of an event, old and new; None for an event that has none, or that is a fact."""
    if not run.events:
        return None
    is_exhausted = is_worn_out(run.state, run.run.config)
    if isinstance(event, e.GivenUp):
        old = VerdictWords(verdict="give up", reasons=(event.reason,))
        return BothVerdicts(old=old, new=VerdictWords(verdict="give up" if is_exhausted else "go on"))
    if is_exhausted:
        stop = VerdictWords(verdict="give up", reasons=("too many iterations",))
        return BothVerdicts(old=VerdictWords(verdict="go on"), new=stop)
    judge_now = _NOW.get(type(event))
    return None if judge_now is None else judge_now(run, event)


# --- verdicts in words ---


def _describe(event: e.Event) -> VerdictWords:
    """Return the content of an event in comparable words."""
    match event:
        case e.PlanReviewed():
            return _describe_review(event.verdict)
        case e.PlanningFailed():
            return VerdictWords(verdict=event.outcome, reasons=(event.reason,))
        case e.Intent():
            return VerdictWords(verdict="call")
        case e.GateOpened():
            needs = {name: (sorted(need.roles), need.quorum) for name, need in event.needs.items()}
            return VerdictWords(verdict="ask", details={"needs": needs})
        case e.ApprovalGranted():
            return VerdictWords(verdict="grant", details={"policy": event.policy})
        case e.StepRefused():
            return VerdictWords(verdict="refuse", details={"code": event.code}, reasons=(event.reason,))
        case e.StepSkipped():
            return VerdictWords(verdict="skip", reasons=(event.reason,))
        case e.StepJudged():
            return VerdictWords(verdict=event.outcome, reasons=(event.reason,) * bool(event.reason))
        case e.RunReported():
            scores = dict(_evaluations(event.report))
            return VerdictWords(
                verdict=event.outcome,
                details={name: found["status"] for name, found in scores.items()},
                reasons=event.reasons,
                scores={name: float(found["score"]) for name, found in scores.items()},
            )
        case e.OutputsVerified() | e.OutputsCritiqued() | e.OutputsRepaired():
            return _describe_outputs(event)
        case _:
            return VerdictWords(verdict="wait")


def _describe_outputs(event: Judged) -> VerdictWords:
    match event:
        case e.OutputsVerified():
            passed = {name: event.verdict.get(name) for name in ("passed", "schema_valid")}
            failures = tuple(event.verdict.get("failures", ()))
            return VerdictWords(verdict=event.next, details=passed, reasons=failures)
        case e.OutputsCritiqued():
            details = {name: event.exit.get(name) for name in ("outcome", "disposition", "needs_approval")}
            missed = [each["name"] for each in event.exit.get("thresholds", ()) if not each["passed"]]
            details |= {"below": event.rubric.get("below"), "missed": missed}
            reasons = (str(event.exit.get("reason", "")),)
            return VerdictWords(verdict=event.next, details=details, reasons=reasons)
        case e.OutputsRepaired():
            return VerdictWords(verdict=event.outcome, details={"outputs": digest(event.outputs)})


def _describe_review(verdict: Mapping[str, Any]) -> VerdictWords:
    gates = verdict.get("gates", ())
    return VerdictWords(
        verdict=str(verdict.get("outcome")),
        details={
            "kind": verdict.get("kind"),
            "code": verdict.get("code"),
            "step": verdict.get("step_id"),
            "gates": sorted({(gate["step_id"], gate["gate"]) for gate in gates}),
        },
        reasons=(*verdict.get("reasons", ()), *dict.fromkeys(f"{g['gate']}: {g['reason']}" for g in gates)),
    )


def _evaluations(report: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    scored = as_object(report.get("score")) or {}
    card = as_object(scored.get("scorecard")) or {}
    yield from (as_object(card.get("scores")) or {}).items()


def _not_due(run: RecordedRun) -> VerdictWords:
    due = ", ".join(dict.fromkeys(type(each).__name__ for each in run.commands())) or "nothing"
    return VerdictWords(verdict="wait", reasons=(f"it would not be due: {due} would be",))


# --- verdicts as they would be now ---


def _both(event: e.Event, now: e.Event) -> BothVerdicts:
    return BothVerdicts(old=_describe(event), new=_describe(now), event=now)


def _derived(run: RecordedRun, event: e.Event) -> BothVerdicts | None:
    """Return the verdict that `resolve` derives from the recorded answer; none if the verdict itself is a fact."""
    derived = derive(run, event)
    run.owed.clear()
    if derived is None or derived.fact or type(derived.event) is not type(event):
        return None
    return _both(event, derived.event)


def _planning_failed(run: RecordedRun, event: e.PlanningFailed) -> BothVerdicts | None:
    try:
        command, answer, _ = planning_failed_as_recorded(run, event)
    except NotDue:
        return None
    return _both(event, resolve(run.run, command, answer).events[0])


def _judged(run: RecordedRun, event: e.StepJudged) -> BothVerdicts | None:
    made = resolve(run.run, c.Judge(step=event.step), Drawn(at=event.at, draw=Draw())).events
    return next((_both(event, now) for now in made if isinstance(now, e.StepJudged)), None)


def _outputs(run: RecordedRun, event: e.Event) -> BothVerdicts | None:
    """Return a judgement or repair of outputs; None if it was made by rules that are gone. Where a model would be asked a
    question that has no recorded answer, it is unknown what would follow."""
    if judged_earlier(run):
        return None
    try:
        return _derived(run, event) or BothVerdicts(old=_describe(event), new=_not_due(run))
    except Unrecorded:
        unknown = VerdictWords(verdict="unknown", reasons=("a model would be asked something else",))
        return BothVerdicts(old=_describe(event), new=unknown)


_Call = e.Intent | e.GateOpened | e.ApprovalGranted | e.StepRefused


def _call(run: RecordedRun, event: _Call) -> BothVerdicts | None:
    """Return whether a step is called, asked about, granted or refused."""
    if compensated_step(event.step) or _is_fact(event):
        return None
    command = _due(run, event.step)
    if isinstance(event, e.Intent) and isinstance(command, c.Grant | c.Ask):
        if run.state.steps[event.step].approved:
            return None  # the answer to its gate was compared when the gate was, and is taken to hold
        if isinstance(command, c.Grant):  # no person was asked before, and none would be now
            return BothVerdicts(old=_describe(event), new=VerdictWords(verdict="call"))
    if not isinstance(command, c.Dispatch | c.Note | c.Ask | c.Grant | c.Fault | c.Skip):
        return BothVerdicts(old=_describe(event), new=_not_due(run))
    answer = Ready(at=event.at) if isinstance(command, c.Dispatch) else Now(at=event.at)
    now = resolve(run.run, command, answer).events[0]
    if isinstance(command, c.Ask):
        names = ", ".join(name for name in command.names if name) or "any person"
        asked = replace(_describe(now), reasons=(f"it would wait for {names}",))
        return BothVerdicts(old=_describe(event), new=asked, event=now)
    is_called = isinstance(command, c.Dispatch | c.Note)
    new = VerdictWords(verdict="call") if is_called else _describe(now)
    return BothVerdicts(old=_describe(event), new=new, event=now if isinstance(command, c.Fault) else None)


def _is_fact(event: _Call) -> bool:
    """Refusals that follow from time, people and circuits, and questions about outcomes."""
    match event:
        case e.StepRefused():
            return event.code in (ROLE_LOST, "circuit_open", "evidence_expired", "retries_exhausted")
        case e.GateOpened():
            return event.kind != "approval"
        case _:
            return False


def _due(run: RecordedRun, name: str) -> c.Command | None:
    due = _of_step(run.commands(), name)
    if not isinstance(due, c.CheckRepeats):
        return due
    # Its tool did not ask for that when the run was recorded: the search is taken to find nothing.
    now, before = run.run, run.state
    now.state = changed(before, steps=with_step(before, name, checked=due.key))
    try:
        return _of_step(decide(now), name)
    finally:
        now.state = before


def _of_step(commands: Iterable[c.Command], name: str) -> c.Command | None:
    return next((each for each in commands if getattr(each, "step", None) == name), None)


_NOW: dict[type[e.Event], Callable[[RecordedRun, Any], BothVerdicts | None]] = {
    e.PlanReviewed: _derived,
    e.PlanningFailed: _planning_failed,
    e.Intent: _call,
    e.GateOpened: _call,
    e.ApprovalGranted: _call,
    e.StepRefused: _call,
    e.StepJudged: _judged,
    e.RunReported: _derived,
    e.OutputsVerified: _outputs,
    e.OutputsCritiqued: _outputs,
    e.OutputsRepaired: _outputs,
}


def as_builtins(details: Mapping[str, Any]) -> dict[str, Any]:
    """Return the details of a verdict as JSON, without empty fields."""
    plain = msgspec.json.decode(
        msgspec.json.encode({name: value for name, value in details.items() if value})
    )
    return {name: brief(value) for name, value in plain.items()}
