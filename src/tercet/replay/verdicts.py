"""The verdicts of a run under other rules: what was said, and what would be said now, from the same facts.

Only what the critic says is compared, not the bytes: another pack has another hash, and so have its gates. Facts stay as
they were recorded: plans, results, answers, and the evidence that the session has kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tercet.contracts.canonical import digest
from tercet.contracts.shape import as_object
from tercet.core import commands as c
from tercet.core import events as e
from tercet.core.decide import decide, is_worn_out
from tercet.core.fold.base import ROLE_LOST, changed, with_step
from tercet.core.state import UNDO
from tercet.engine.outputs.rederiving import Judged, Unrecorded
from tercet.replay.comparison import brief
from tercet.replay.derivations import plan as plans
from tercet.replay.derivations import quality
from tercet.replay.scene import ReplayState


@dataclass(frozen=True, kw_only=True)
class Said:
    """One verdict in words that can be compared, with the reasons for it."""

    verdict: str
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What else must be the same for the verdict to be the same."""
    reasons: tuple[str, ...] = ()
    scores: Mapping[str, float] = field(default_factory=dict[str, float])

    def is_as(self, other: Said) -> bool:
        """Whether another verdict says the same; reasons and scores may be others."""
        return (self.verdict, dict(self.details)) == (other.verdict, dict(other.details))


@dataclass(frozen=True, kw_only=True)
class Both:
    """A verdict as it was recorded, and as it would be now."""

    old: Said
    new: Said
    event: e.Event | None = None
    """The event that would be recorded now, where there is one."""


def both(scene: ReplayState, event: e.Event) -> Both | None:
    """The verdict that an event tells, old and new; None for one that tells none, or one that is a fact."""
    if not scene.state.is_started:
        return None
    if not isinstance(event, e.GivenUp) and is_worn_out(scene.state, scene.setting):
        return Both(old=Said(verdict="go on"), new=Said(verdict="give up", reasons=("too many iterations",)))
    compare = _COMPARE.get(type(event))
    return None if compare is None else compare(scene, event)


# --- plans ---


def _reviewed(scene: ReplayState, event: e.PlanReviewed) -> Both | None:
    derived = plans.plan_reviewed(scene, event)
    if derived is None or not isinstance(derived.event, e.PlanReviewed) or derived.fact:
        return None
    now = derived.event
    return Both(old=_review(event.verdict), new=_review(now.verdict), event=now)


def _review(verdict: Mapping[str, Any]) -> Said:
    gates = verdict.get("gates", ())
    return Said(
        verdict=str(verdict.get("outcome")),
        details={
            "kind": verdict.get("kind"),
            "code": verdict.get("code"),
            "step": verdict.get("step_id"),
            "gates": sorted({(gate["step_id"], gate["gate"]) for gate in gates}),
        },
        reasons=(*verdict.get("reasons", ()), *dict.fromkeys(f"{g['gate']}: {g['reason']}" for g in gates)),
    )


def _planning_failed(scene: ReplayState, event: e.PlanningFailed) -> Both | None:
    derived = plans.planning_failed_as_told(scene, event)
    if derived is None or not isinstance(derived.event, e.PlanningFailed):
        return None
    old, new = (Said(verdict=each.outcome, reasons=(each.reason,)) for each in (event, derived.event))
    return Both(old=old, new=new, event=derived.event)


def _given_up(scene: ReplayState, event: e.GivenUp) -> Both:
    goes_on = not is_worn_out(scene.state, scene.setting)
    new = Said(verdict="go on" if goes_on else "give up")
    return Both(old=Said(verdict="give up", reasons=(event.reason,)), new=new)


# --- calls ---


def _due(scene: ReplayState, name: str) -> c.Command | None:
    due = _named(scene.commands(), name)
    if not isinstance(due, c.CheckRepeats):
        return due
    # Its tool did not ask for that when the run was recorded: the search is taken to find nothing.
    steps = with_step(scene.state, name, checked=due.key)
    state = changed(scene.state, steps=steps)
    return _named(decide(state, scene.setting, scene.course, scene.blobs), name)


def _named(commands: Iterable[c.Command], name: str) -> c.Command | None:
    return next((each for each in commands if getattr(each, "step", None) == name), None)


def _call(
    scene: ReplayState, event: e.Intent | e.GateOpened | e.ApprovalGranted | e.StepRefused
) -> Both | None:
    """Whether a step is called, asked about, granted or refused."""
    if event.step.startswith(UNDO) or _is_fact(event):
        return None
    command = _due(scene, event.step)
    is_settled = bool(scene.state.steps[event.step].approved) and isinstance(event, e.Intent)
    if is_settled and isinstance(command, c.Ask | c.Grant):
        return None  # the answer to its gate was compared when the gate was; it is taken to hold
    old, new = _recorded(event), _commanded(scene, event, command)
    return Both(old=old, new=new, event=_event(scene, event, command))


def _is_fact(event: e.Event) -> bool:
    """Refusals that follow from time, people and circuits, and questions about what happened."""
    match event:
        case e.StepRefused():
            return event.code in (ROLE_LOST, "circuit_open", "evidence_expired", "retries_exhausted")
        case e.GateOpened():
            return event.kind != "approval"
        case _:
            return False


def _recorded(event: e.Intent | e.GateOpened | e.ApprovalGranted | e.StepRefused) -> Said:
    match event:
        case e.Intent():
            return Said(verdict="call")
        case e.GateOpened():
            return Said(verdict="ask", details=_needs(event.needs))
        case e.ApprovalGranted():
            return Said(verdict="grant", details={"policy": event.policy})
        case e.StepRefused():
            return Said(verdict="refuse", details={"code": event.code}, reasons=(event.reason,))


def _commanded(scene: ReplayState, event: e.Event, command: c.Command | None) -> Said:
    match command:
        case c.Dispatch() | c.Note():
            return Said(verdict="call")
        case c.Ask():
            names = ", ".join(name for name in command.names if name) or "nobody in particular"
            return Said(verdict="ask", details=_needs(command.needs), reasons=(f"it would wait for {names}",))
        case c.Grant():
            is_free = isinstance(event, e.Intent)  # who is not asked before and after is not asked
            return (
                Said(verdict="call") if is_free else Said(verdict="grant", details={"policy": command.policy})
            )
        case c.Fault():
            return Said(verdict="refuse", details={"code": command.code}, reasons=(command.reason,))
        case c.Skip():
            return Said(verdict="skip", reasons=(command.reason,))
        case _:
            due = ", ".join(dict.fromkeys(type(each).__name__ for each in scene.commands())) or "nothing"
            return Said(verdict="wait", reasons=(f"it would not be due: {due} would be",))


def _needs(needs: Mapping[str, e.Need]) -> dict[str, Any]:
    return {"needs": {name: (sorted(need.roles), need.quorum) for name, need in needs.items()}}


def _event(scene: ReplayState, event: e.Event, command: c.Command | None) -> e.Event | None:
    match command:
        case c.Ask():
            return scene.work.ask(scene.state, command, event.at)
        case c.Fault():
            return e.StepRefused(at=event.at, step=command.step, code=command.code, reason=command.reason)
        case _:
            return None


# --- results ---


def _judged(scene: ReplayState, event: e.StepJudged) -> Both | None:
    args = scene.state, scene.setting, scene.course, event.step, event.at
    found = [each for each in scene.work.judge(*args, lambda: 0.0) if isinstance(each, e.StepJudged)]
    if not found:
        return None
    now = found[0]
    old, new = (
        Said(verdict=each.outcome, reasons=(each.reason,) * bool(each.reason)) for each in (event, now)
    )
    return Both(old=old, new=new, event=now)


def _reported(scene: ReplayState, event: e.RunReported) -> Both | None:
    now = scene.work.score(scene.state, scene.setting, scene.course, scene.events, scene.blobs, event.at)
    return Both(old=_report(event), new=_report(now), event=now)


def _report(event: e.RunReported) -> Said:
    scores = dict(_evaluations(event.report))
    return Said(
        verdict=event.outcome,
        details={name: found["status"] for name, found in scores.items()},
        reasons=event.reasons,
        scores={name: float(found["score"]) for name, found in scores.items()},
    )


def _evaluations(report: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    scored = as_object(report.get("score")) or {}
    card = as_object(scored.get("scorecard")) or {}
    yield from (as_object(card.get("scores")) or {}).items()


# --- outputs ---


def _outputs(scene: ReplayState, event: Judged) -> Both:
    """How outputs are judged and mended. Of a question that nobody has answered, no one knows what it would lead to."""
    old = _said_of(event)
    try:
        derived = quality.outputs_judged(scene, event)
    except Unrecorded:
        return Both(old=old, new=Said(verdict="unknown", reasons=("a model would be asked something else",)))
    if derived is None or not isinstance(derived.event, Judged):
        return Both(old=old, new=_commanded(scene, event, None))
    return Both(old=old, new=_said_of(derived.event), event=derived.event)


def _said_of(event: Judged) -> Said:
    match event:
        case e.OutputsVerified():
            passed = {name: event.verdict.get(name) for name in ("passed", "schema_valid")}
            return Said(verdict=event.next, details=passed, reasons=tuple(event.verdict.get("failures", ())))
        case e.OutputsCritiqued():
            wanted = "outcome", "disposition", "needs_approval"
            details = {name: event.exit.get(name) for name in wanted}
            below = {"below": event.rubric.get("below"), "missed": _missed(event.exit)}
            return Said(
                verdict=event.next, details={**details, **below}, reasons=(str(event.exit.get("reason", "")),)
            )
        case e.OutputsRepaired():
            return Said(verdict=event.outcome, details={"outputs": digest(event.outputs)})


def _missed(ended: Mapping[str, Any]) -> list[str]:
    """The thresholds that were not reached."""
    return [each["name"] for each in ended.get("thresholds", ()) if not each["passed"]]


_COMPARE: dict[type[e.Event], Callable[[ReplayState, Any], Both | None]] = {
    e.PlanReviewed: _reviewed,
    e.PlanningFailed: _planning_failed,
    e.GivenUp: _given_up,
    e.Intent: _call,
    e.GateOpened: _call,
    e.ApprovalGranted: _call,
    e.StepRefused: _call,
    e.StepJudged: _judged,
    e.RunReported: _reported,
    e.OutputsVerified: _outputs,
    e.OutputsCritiqued: _outputs,
    e.OutputsRepaired: _outputs,
}


def as_builtins(details: Mapping[str, Any]) -> dict[str, Any]:
    """What must be the same, as JSON, without what is empty."""
    plain = msgspec.json.decode(
        msgspec.json.encode({name: value for name, value in details.items() if value})
    )
    return {name: brief(value) for name, value in plain.items()}
