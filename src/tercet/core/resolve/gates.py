"""Events that open gates: for calls, outputs, escalations and compensation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from tercet.contracts.gate import HandOff
from tercet.contracts.shape import JsonObject
from tercet.contracts.values.canonical import canonical, digest, hash_bytes
from tercet.core import budget, effects, transcript
from tercet.core import commands as c
from tercet.core import events as e
from tercet.core.answers import History, LaneGate, Made, Now, made
from tercet.core.approval import accepting, people_of
from tercet.core.fold.base import ANSWERS, copy_fields
from tercet.core.messages import TEMPLATE
from tercet.core.run import Run
from tercet.core.state import State

_WITHOUT_PLANNER = ("extend", "accept_partial", "abandon")


def ask(run: Run, command: c.Ask, answer: Now) -> Made:
    """Return the gate that a command opens."""
    return made(open_gate(run.state, command, answer.at))


def ask_for_lane(run: Run, command: c.AskForLane, answer: LaneGate) -> Made:
    """Return the gate of a lane, at the step that started the lane; or a new attempt if the lane no longer waits."""
    state, name = run.state, command.step
    if answer.gate is None:
        attempt = state.steps[name].attempt
        return made(e.Settled(at=answer.at, step=name, attempt=attempt, how="run_again", by="lane"))
    given: JsonObject = {"gate": _gate_id(state), "step": name, "covers": {}, "lane": command.lane}
    return made(copy_fields(e.GateOpened, answer.gate, at=answer.at, **given))


def open_gate(state: State, command: c.Ask, at: int) -> e.GateOpened:
    """Return the event that opens a gate."""
    expires = _expiry(state, at, command.ttl_ms)
    return copy_fields(e.GateOpened, command, at=at, gate=_gate_id(state), expires=expires)


def _expiry(state: State, now: int, ttl_ms: int) -> int:
    """Return when a gate can no longer be answered: its own time is over, or that of its session."""
    ends = [end for end in (now + ttl_ms if ttl_ms else 0, state.start.expires) if end]
    return min(ends) if ttl_ms else 0


def _gate_id(state: State) -> str:
    return f"{state.start.session}.g{state.opened + 1}"


def grant(run: Run, command: c.Grant, answer: Now) -> Made:
    """Return an approval that a policy gives."""
    del run
    return made(copy_fields(e.ApprovalGranted, command, at=answer.at))


def escalate(run: Run, command: c.Escalate, answer: History) -> Made:
    """Return the gate at which a person decides how a run continues, with the packet that they are shown."""
    del command
    state, config = run.state, run.config
    is_ours = state.plan_origin == "planner" and state.start.planner != TEMPLATE
    can_replan = is_ours and state.accepted is None
    options = ANSWERS["escalation"] if can_replan else _WITHOUT_PLANNER
    reason = state.escalation or ""
    entries = transcript.transcript(answer.events, {})
    packet = HandOff(
        plan=state.plan,
        transcript=tuple(entry.model_dump(mode="json", exclude_none=True) for entry in entries),
        verdicts=tuple(_list_verdicts(state)),
        attempts=tuple(_list_attempts(answer.events)),
        reason=reason,
        budget_remaining=budget.remaining(state.used, config.limits),
        options=options,
    )
    data = canonical(packet)
    gate = accepting(config)
    opened = e.GateOpened(
        at=answer.at,
        gate=_gate_id(state),
        kind="escalation",
        step=next((name for name in state.frontier if state.steps[name].status == "failed"), ""),
        names=(gate.name,) if gate else (),
        needs={gate.name: e.Need(roles=gate.roles)} if gate else {},
        digest=hash_bytes(data),
        shown={"reason": reason, "options": list(options), "packet": hash_bytes(data)},
    )
    return made(opened, blobs=(data,))


def compensate(run: Run, command: c.Compensate, answer: History) -> Made:
    """Return what happens to the effects of an unsuccessful run: they are compensated, asked about, or kept."""
    state, config, at = run.state, run.config, answer.at
    undo = effects.plan_compensations(effects.effects(answer.events), config, run.tools, run.blobs)
    if not undo or command.how == "keep":
        return made(e.EffectsKept(at=at))
    if command.how != "ask" or not any(each.tool for each in undo):
        return made(e.CompensationBegun(at=at, undo=undo))
    shown = [msgspec.to_builtins(each) for each in undo]
    opened = e.GateOpened(
        at=at,
        gate=_gate_id(state),
        kind="compensation",
        step="",
        needs=people_of(state, config, (each.step.partition("#")[0] for each in undo)),
        digest=digest(shown),
        shown={"reason": state.reason, "undo": shown},
    )
    return made(opened)


_ATTEMPTS: dict[type[e.Event], tuple[str, tuple[str, ...]]] = {
    e.SamplesDrawn: ("sampled", ("consistency", "step", "samples", "error")),
    e.TestsRun: ("tested", ("tool", "result", "error")),
    e.OutputsVerified: ("verified", ("next", "verdict")),
    e.OutputsAttacked: ("attacked", ("tool", "tried", "error")),
    e.OutputsCritiqued: ("critiqued", ("next", "diagnosis", "exit")),
    e.OutputsRepaired: ("repaired", ("outcome", "log", "escalation")),
    e.PlanProposed: ("plan", ("hash", "plan")),
    e.PlanningFailed: ("no_plan", ("code", "reason")),
    e.ModelAsked: ("asked", ("model", "prompt")),
    e.TurnJudged: ("turn", ("action", "critic", "reason")),
    e.StepJudged: ("step", ("step", "reason")),
}
"""The events that a hand-off packet lists as attempts, each with its word there and the fields that it shows."""


def _list_attempts(events: Iterable[e.Event]) -> Iterator[JsonObject]:
    """Return the attempts of a run before it was escalated: every plan with its verdict, every question to a model,
    every turn, and every judgement of the outputs."""
    for event in events:
        if isinstance(event, e.PlanReviewed):
            yield {"what": "verdict", "at": event.at, **event.verdict}
        elif isinstance(event, e.ModelAnswered):
            said = {"error": event.error, "code": event.code} if event.code else {"answer": event.answer}
            yield {"what": "answered", "at": event.at, "blob": event.blob, **said}
        elif isinstance(event, e.StepJudged) and event.outcome not in ("replan", "escalate"):
            continue
        elif (described := _ATTEMPTS.get(type(event))) is not None:
            said = {name: getattr(event, name) for name in described[1]}
            yield {"what": described[0], "at": event.at, **msgspec.to_builtins(said)}


def _list_verdicts(state: State) -> Iterator[JsonObject]:
    """Yield the critic's current verdicts on the plan, the failed steps, and the run."""
    if state.verdict:
        yield {**state.verdict, "stage": "review"}
    for name, step in state.steps.items():
        if step.status == "failed":
            yield {"stage": "step", "step_id": name, "reasons": [step.error], "code": step.code}
    if state.report:
        yield {**state.report, "stage": "run"}
