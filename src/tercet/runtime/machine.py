"""The transition table, and `evolve`: how an event changes a run.

    PLAN ──plan_proposed──▶ DECOMPOSE ──decomposed──▶ RETRIEVE ──evidence_retrieved──▶ REVIEW
    REVIEW ──plan_reviewed: ok──▶ ACT, replan ──▶ PLAN, reject ──▶ FAIL
    ACT ──outputs_produced──▶ VERIFY ──run_reported: accept──▶ COMMIT, replan ──▶ PLAN, otherwise ──▶ FAIL or HALT
    ACT ──step_judged: replan──▶ PLAN, escalate ──▶ HALT;  ACT, HALT ──gate_answered: deny──▶ FAIL
    more phases than allowed ──given_up──▶ FAIL
    any ──session_paused──▶ HALT ──session_resumed──▶ where it was;  COMMIT, FAIL ──session_ended──▶ over

`evolve` is pure and total: it either returns the next state or raises `IllegalEvent`, which names run, phase and event,
and the state that was handed in is as it was. Time comes from the events and from nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any, TypeVar

import msgspec
from pydantic import ValidationError

from tercet.contracts import references
from tercet.contracts.canonical import hash_bytes
from tercet.contracts.errors import PlanError, TercetError
from tercet.contracts.loop import Phase
from tercet.contracts.plan import Plan
from tercet.contracts.shape import as_object
from tercet.journal import events as e
from tercet.runtime.plans import read_plan
from tercet.runtime.state import Answer, OpenGate, SessionState, State, StepState, Used

_E = TypeVar("_E", bound=e.Event)
P = Phase

TABLE: dict[type[e.Event], frozenset[Phase]] = {
    e.SessionStarted: frozenset({P.PLAN}),
    e.SessionResumed: frozenset(P),
    e.SessionPaused: frozenset({P.PLAN, P.DECOMPOSE, P.RETRIEVE, P.REVIEW, P.ACT, P.VERIFY}),
    e.GivenUp: frozenset({P.PLAN, P.DECOMPOSE, P.RETRIEVE, P.REVIEW, P.ACT, P.VERIFY}),
    e.SessionEnded: frozenset({P.COMMIT, P.FAIL}),
    e.PlanProposed: frozenset({P.PLAN}),
    e.PlanningFailed: frozenset({P.PLAN}),
    e.Decomposed: frozenset({P.DECOMPOSE}),
    e.EvidenceRetrieved: frozenset({P.RETRIEVE}),
    e.PlanReviewed: frozenset({P.REVIEW}),
    e.Intent: frozenset({P.ACT}),
    e.Complete: frozenset({P.ACT, P.FAIL}),
    e.Abort: frozenset({P.ACT, P.FAIL}),
    e.RetryScheduled: frozenset({P.ACT}),
    e.Settled: frozenset({P.ACT, P.FAIL}),
    e.StepRefused: frozenset({P.ACT}),
    e.StepSkipped: frozenset({P.ACT}),
    e.StepJudged: frozenset({P.ACT}),
    e.LoopGuardTripped: frozenset({P.ACT}),
    e.GateOpened: frozenset({P.ACT, P.FAIL}),
    e.GateAnswered: frozenset({P.ACT, P.HALT, P.FAIL}),
    e.OutputsProduced: frozenset({P.ACT}),
    e.RunReported: frozenset({P.VERIFY}),
}
"""In which phases an event may happen. What it leads to is in the function of its name below."""


INTERRUPTED = "interrupted"
"""The code of a step whose process died during its call."""
STOPPED = "stopped"
"""The code of a step whose process was told to stop during its call."""
LEASE_EXPIRED = "lease_expired"
"""The code of a call that was withheld because the lease had run out; it costs no retry."""
ANSWERS: dict[str, tuple[str, ...]] = {
    "approval": ("approve", "deny"),
    "reconcile": ("happened", "did_not_happen"),
    "escalation": (),
}
"""What each kind of gate may be answered."""


class IllegalEvent(TercetError):  # noqa: N818 - what happened is named, not that it is an error
    """An event that the table does not allow; nothing was changed."""

    default_code = "illegal_event"


def evolve(state: State, event: e.Event) -> State:
    """The state after an event."""
    if state.is_over or state.phase not in TABLE[type(event)]:
        raise _illegal(state, event, "the phase does not allow it")
    moved = _HANDLERS[type(event)](state, event)
    now = max(state.at, event.at)
    status = _status(moved)
    return msgspec.structs.replace(
        moved,
        position=state.position + 1,
        at=now,
        status=status,
        used=_clocked(state, moved, event, now),
        active_since=now if status == "in_progress" and not _is_from_outside(event) else 0,
        iterations=state.iterations + _counts(state.phase, moved.phase),
    )


def _illegal(state: State, event: e.Event, why: str) -> IllegalEvent:
    name = type(event).__struct_config__.tag
    run = state.start.get("run", "?")
    return IllegalEvent(
        f"run {run}: {name} cannot happen in phase {state.phase}: {why}",
        remedy="this is a bug in the driver, or the journal was changed by hand",
    )


def _clocked(before: State, after: State, event: e.Event, now: int) -> Used:
    """The wall clock runs while the session is in progress, and stands still at gates and pauses."""
    if not before.active_since or isinstance(event, e.SessionResumed) or _is_from_outside(event):
        return after.used  # while no process had the session, no time was spent on it
    spent = now - before.active_since
    return (
        msgspec.structs.replace(after.used, wall_clock=before.used.wall_clock + spent)
        if spent
        else after.used
    )


def _is_from_outside(event: e.Event) -> bool:
    """Whether an event was appended by somebody who does not carry the session forward."""
    return isinstance(event, e.GateAnswered) and event.outside


def _counts(before: Phase, after: Phase) -> int:
    """A move to another phase is an iteration; pausing and resuming are none."""
    return int(after is not before and P.HALT not in (before, after))


def _status(state: State) -> SessionState:
    """A session waits at a gate while one is open and nothing else can go on."""
    if state.status not in ("in_progress", "awaiting_gate"):
        return state.status
    if not state.gates or state.phase not in (P.ACT, P.FAIL):
        return "in_progress"
    waiting = (state.steps[step] for step in state.frontier)
    is_blocked = all(step.gate or step.status == "failed" for step in waiting)
    return "awaiting_gate" if is_blocked else "in_progress"


def _with(state: State, **changes: Any) -> State:
    return msgspec.structs.replace(state, **changes)


def _step(state: State, name: str, event: e.Event) -> StepState:
    if name not in state.steps:
        raise _illegal(state, event, f"there is no step {name}")
    return state.steps[name]


def _set(state: State, name: str, **changes: Any) -> dict[str, StepState]:
    return {**state.steps, name: msgspec.structs.replace(state.steps[name], **changes)}


def _demand(state: State, event: e.Event, *, is_met: bool, why: str) -> None:
    if not is_met:
        raise _illegal(state, event, why)


# --- the session ---------------------------------------------------------------------------------------------------


def _session_started(state: State, event: e.SessionStarted) -> State:
    _demand(state, event, is_met=not state.start, why="it has started already")
    return _with(state, start=msgspec.to_builtins(event))


def _session_resumed(state: State, _: e.SessionResumed) -> State:
    steps = dict(state.steps)
    unjudged = list(state.unjudged)
    for name in state.frontier:
        step = steps[name]
        if step.status == "in_flight":
            # Whether a call that was under way when its process stopped took effect is not known any more,
            # and it may still take effect until its deadline.
            steps[name] = msgspec.structs.replace(
                step,
                status="unknown",
                outcome="unknown",
                error="its process stopped",
                code=INTERRUPTED,
                not_before=step.deadline,
                since=step.deadline,
                asked=0,
            )
        elif step.status == "failed" and (state.halted_from or name not in unjudged):
            # It was handed to a person, who lets the run go on: what did not happen may be tried afresh.
            unjudged = [other for other in unjudged if other != name]
            if step.outcome == "done":
                unjudged.append(name)
            else:
                steps[name] = msgspec.structs.replace(step, status="pending", retries=0, not_before=0)
    return _with(
        state,
        phase=state.halted_from or state.phase,
        halted_from=None,
        status="in_progress",
        steps=steps,
        unjudged=tuple(unjudged),
        used=_interrupted(state.used),
        reason="" if state.halted_from else state.reason,
    )


def _interrupted(used: Used) -> Used:
    """Calls that a stopped process left behind count as made; what they cost is booked if they turn out to be done."""
    return msgspec.structs.replace(
        used,
        tool_calls=used.tool_calls + used.reserved_calls,
        reserved_calls=0,
        reserved_tokens=0,
        reserved_cost=0,
    )


def _session_paused(state: State, event: e.SessionPaused) -> State:
    _demand(state, event, is_met=not state.in_flight, why="a call is in flight")
    return _with(state, phase=P.HALT, halted_from=state.phase, status="paused", reason=event.reason)


def _given_up(state: State, event: e.GivenUp) -> State:
    _demand(state, event, is_met=not state.in_flight, why="a call is in flight")
    return _with(state, phase=P.FAIL, reason=event.reason)


def _session_ended(state: State, event: e.SessionEnded) -> State:
    _demand(state, event, is_met=not state.in_flight, why="a call is in flight")
    wanted = "completed" if state.phase is P.COMMIT else "failed"
    _demand(state, event, is_met=event.status == wanted, why=f"it can only end {wanted}")
    return _with(state, status=wanted, reason=event.reason, record=event.record, kept=event.kept, gates={})


# --- the plan ------------------------------------------------------------------------------------------------------


def _plan_proposed(state: State, event: e.PlanProposed) -> State:
    try:
        plan = read_plan(event.plan)
    except (ValidationError, PlanError) as error:
        raise _illegal(state, event, f"its plan cannot be read: {error}") from error
    order = plan.graph
    ids = [step.id for step in plan.steps]
    kept = _kept(state, plan, event.plan)
    steps = {
        step.id: kept.get(step.id)
        or StepState(unmet=sum(ids[p] not in kept for p in order.predecessors[index]))
        for index, step in enumerate(plan.steps)
    }
    return _with(
        state,
        phase=P.DECOMPOSE,
        plan=event.plan,
        plan_hash=event.hash,
        plan_origin=event.origin,
        revision=state.revision + 1,
        steps=steps,
        after={ids[index]: tuple(ids[s] for s in after) for index, after in enumerate(order.successors)},
        frontier=tuple(name for name in ids if name not in kept and not steps[name].unmet),
        unjudged=(),
        gates={},
        verdict={},
        # A plan that may still be planned anew keeps all results: what the next one refers to is not known yet.
        needed=frozenset(ids) if event.origin == "planner" else _needed(plan),
    )


def _kept(state: State, plan: Plan, said: dict[str, Any]) -> dict[str, StepState]:
    """The steps that have ended well and that the new plan says in the same words: they are not carried out again.

    A step whose predecessors are not all kept is none of them: it ran on other results than it would have now.
    """
    before = {step["id"]: step for step in state.plan.get("steps", ())}
    now = {step["id"]: step for step in said.get("steps", ())}
    kept: dict[str, StepState] = {}
    for index in plan.graph.order:
        name = plan.steps[index].id
        is_same = name in before and before[name] == now[name]
        is_founded = all(plan.steps[p].id in kept for p in plan.graph.predecessors[index])
        if is_same and is_founded and state.steps[name].status in ("done", "skipped"):
            kept[name] = state.steps[name]
    return kept


def _needed(plan: Plan) -> frozenset[str]:
    """The steps whose results a parameter, a condition or an output refers to."""
    found = [item for step in plan.steps for item in step.found] + references.scan(plan.outputs)
    named = {name for item in found if isinstance(item, references.Reference) for name in item.names}
    return frozenset(
        named.union(*(references.names(step.when) for step in plan.steps if step.when is not None))
    )


def _planning_failed(state: State, event: e.PlanningFailed) -> State:
    return _with(state, phase=P.FAIL, reason=event.reason)


def _decomposed(state: State, _: e.Decomposed) -> State:
    return _with(state, phase=P.RETRIEVE)


def _evidence_retrieved(state: State, _: e.EvidenceRetrieved) -> State:
    return _with(state, phase=P.REVIEW)


def _plan_reviewed(state: State, event: e.PlanReviewed) -> State:
    _demand(state, event, is_met=event.hash == state.plan_hash, why="it reviews another plan")
    outcome = event.verdict.get("outcome", "")
    reasons = tuple(event.verdict.get("reasons", ()))
    _demand(
        state, event, is_met=outcome in ("ok", "replan", "reject"), why=f"{outcome!r} is no review's outcome"
    )
    if outcome == "ok":
        return _with(state, phase=P.ACT, verdict=event.verdict)
    refused = _with(state, verdict=event.verdict, refused=(*state.refused, event.hash), feedback=reasons)
    if outcome == "replan":
        return _with(refused, phase=P.PLAN, used=_more(state, replans=1))
    return _with(refused, phase=P.FAIL, reason="; ".join(reasons))


def _more(state: State, **amounts: int) -> Used:
    return msgspec.structs.replace(
        state.used, **{name: getattr(state.used, name) + n for name, n in amounts.items()}
    )


# --- the steps -----------------------------------------------------------------------------------------------------


def _intent(state: State, event: e.Intent) -> State:
    step = _step(state, event.step, event)
    _demand(
        state,
        event,
        is_met=step.status == "pending" and not step.unmet,
        why=f"step {event.step} is {step.status}",
    )
    _demand(state, event, is_met=event.attempt == step.attempt + 1, why=f"attempt {step.attempt + 1} is due")
    calls = 1 if event.tool else 0  # a note calls nothing
    used = _more(state, reserved_calls=calls, reserved_tokens=event.tokens, reserved_cost=event.cost)
    steps = _set(
        state,
        event.step,
        status="in_flight",
        attempt=event.attempt,
        key=event.key,
        occurrence=event.occurrence,
        calls=calls,
        tokens=event.tokens,
        cost=event.cost,
        error="",
        code="",
        call=event.call,
        began=event.at,
        deadline=event.deadline,
    )
    return _with(state, steps=steps, used=used)


def _in_flight(state: State, name: str, attempt: int, event: e.Event) -> StepState:
    step = _step(state, name, event)
    _demand(state, event, is_met=step.attempt == attempt, why=f"step {name} is at attempt {step.attempt}")
    _demand(state, event, is_met=step.status in ("in_flight", "unknown"), why=f"step {name} is {step.status}")
    return step


def _complete(state: State, event: e.Complete) -> State:
    step = _in_flight(state, event.step, event.attempt, event)
    same = _same(step.call, event)
    repeated = 0 if event.error or not step.call else state.repeats.get(same, 0) + 1
    steps = _set(
        state,
        event.step,
        status="failed" if event.error else "done",
        outcome="done",
        value=event.value if event.step in state.needed else None,
        blob=event.blob,
        error=event.error,
        gate="",
        call="",
        repeated=repeated,
    )
    changes: dict[str, Any] = {
        "used": _spent(state, step, steps=1, tokens=event.tokens, cost=event.cost),
        "keys": {**state.keys, step.key: event.step},
        "unjudged": (*state.unjudged, event.step),
    }
    if event.error:
        return _with(state, steps=steps, **changes)
    if repeated:
        changes["repeats"] = {**state.repeats, same: repeated}
    return _freed(
        state,
        event.step,
        steps,
        done=(*state.done, event.step),
        head=hash_bytes(f"{state.head}{event.step}{same}".encode()),
        **changes,
        **_named(state, event),
    )


def _same(call: str, event: e.Complete) -> str:
    """The hash of a call with its result: what the loop guard counts. Half of one, since folds hold it for every step."""
    return sha256(msgspec.json.encode([call, event.value, event.blob])).hexdigest()[:32]


def _named(state: State, event: e.Complete) -> dict[str, Any]:
    """Outputs by name only come from the last completed result that carries them: what changes with this one."""
    declared = state.plan.get("declared_outputs")
    if not declared:
        return {}
    result = as_object(event.value) or {}
    carried = {name: result[name] for name in declared if name in result}
    kept = {name: value for name, value in state.named.items() if name not in event.carries}
    kept_in = {name: blob for name, blob in state.named_in.items() if name not in carried}
    return {
        "named": {**kept, **carried},
        "named_in": {**kept_in, **dict.fromkeys(event.carries, event.blob)},
    }


def _spent(state: State, step: StepState, *, steps: int = 0, tokens: int = 0, cost: int = 0) -> Used:
    """What was reserved for a call is given back, and what it really used is booked.

    A call whose outcome was unknown until now was counted when it became unknown.
    """
    used = state.used
    is_reserved = step.status == "in_flight"
    return msgspec.structs.replace(
        used,
        steps=used.steps + steps,
        tool_calls=used.tool_calls + step.calls * is_reserved,
        tokens=used.tokens + tokens,
        cost=used.cost + cost,
        reserved_calls=used.reserved_calls - step.calls * is_reserved,
        reserved_tokens=used.reserved_tokens - step.tokens * is_reserved,
        reserved_cost=used.reserved_cost - step.cost * is_reserved,
    )


def _abort(state: State, event: e.Abort) -> State:
    step = _in_flight(state, event.step, event.attempt, event)
    _demand(state, event, is_met=step.status == "in_flight", why=f"step {event.step} is {step.status}")
    is_known = event.outcome == "not_done"
    steps = _set(
        state,
        event.step,
        status="failed" if is_known else "unknown",
        outcome=event.outcome,
        error=event.error,
        code=event.code,
        is_retriable=event.retriable,
        # A call that its process left behind may still take effect until its deadline.
        not_before=step.deadline if event.code == STOPPED else step.not_before,
        since=step.deadline if event.code == STOPPED else event.at,
    )
    unjudged = (*state.unjudged, event.step) if is_known else state.unjudged
    return _with(state, steps=steps, used=_spent(state, step), unjudged=unjudged)


def _step_refused(state: State, event: e.StepRefused) -> State:
    step = _step(state, event.step, event)
    _demand(state, event, is_met=step.status == "pending", why=f"step {event.step} is {step.status}")
    is_open = step.attempt > 0 and step.outcome == "unknown"
    _demand(state, event, is_met=not is_open, why=f"nobody knows whether step {event.step} happened")
    steps = _set(
        state,
        event.step,
        status="failed",
        outcome="refused",
        error=event.reason,
        code=event.code,
        is_retriable=False,
    )
    return _with(state, steps=steps, unjudged=(*state.unjudged, event.step))


def _retry_scheduled(state: State, event: e.RetryScheduled) -> State:
    step = _step(state, event.step, event)
    is_due = step.status == "failed" and event.step not in state.unjudged
    _demand(state, event, is_met=is_due, why=f"step {event.step} is {step.status}")
    retries = 0 if step.code == LEASE_EXPIRED else 1
    steps = _set(
        state, event.step, status="pending", not_before=event.not_before, retries=step.retries + retries
    )
    return _with(state, steps=steps, used=_more(state, retries=retries))


def _settled(state: State, event: e.Settled) -> State:
    step = _step(state, event.step, event)
    is_open = step.status == "unknown" and not step.gate
    _demand(state, event, is_met=is_open, why=f"step {event.step} is {step.status}, or a person was asked")
    if event.how == "ask_again":
        return _with(state, steps=_set(state, event.step, asked=step.asked + 1, not_before=event.not_before))
    # That a process stopped is not the tool's fault, so the call that it cut off is no retry of the tool's.
    retries = 0 if step.code in (INTERRUPTED, STOPPED) else 1
    steps = _set(
        state,
        event.step,
        status="pending",
        outcome="not_done" if event.how == "absent" else step.outcome,
        asked=0,
        retries=step.retries + retries,
        not_before=event.not_before,
    )
    return _with(state, steps=steps, used=_more(state, retries=retries))


def _step_skipped(state: State, event: e.StepSkipped) -> State:
    step = _step(state, event.step, event)
    _demand(
        state, event, is_met=step.status in ("pending", "failed"), why=f"step {event.step} is {step.status}"
    )
    return _freed(state, event.step, _set(state, event.step, status="skipped", error=event.reason))


def _freed(state: State, name: str, steps: dict[str, StepState], **changes: Any) -> State:
    """What waited for a step that has ended comes nearer. `steps` is a new copy, and becomes the state's."""
    ready: list[str] = []
    for after in state.after.get(name, ()):
        waiting = msgspec.structs.replace(steps[after], unmet=steps[after].unmet - 1)
        steps[after] = waiting
        if not waiting.unmet and waiting.status == "pending":
            ready.append(after)
    frontier = (*(step for step in state.frontier if step != name), *ready)
    return _with(state, steps=steps, frontier=frontier, **changes)


def _step_judged(state: State, event: e.StepJudged) -> State:
    step = _step(state, event.step, event)
    _demand(
        state,
        event,
        is_met=step.status in ("done", "failed", "unknown"),
        why=f"step {event.step} is {step.status}",
    )
    judged = _with(state, unjudged=tuple(name for name in state.unjudged if name != event.step))
    if event.outcome in ("replan", "escalate"):
        _demand(state, event, is_met=not state.in_flight, why="a call is in flight")
    match event.outcome:
        case "replan":
            return _with(
                judged,
                phase=P.PLAN,
                gates={},
                used=_more(state, replans=1),
                feedback=(event.reason,),
                refused=(*state.refused, state.plan_hash),
            )
        case "escalate":
            return _with(
                judged, phase=P.HALT, halted_from=P.ACT, status="paused", reason=f"escalated: {event.reason}"
            )
        case _:
            return judged


def _loop_guard_tripped(state: State, event: e.LoopGuardTripped) -> State:
    return _with(state, trips=state.trips + 1, feedback=(event.reason,))


# --- people --------------------------------------------------------------------------------------------------------


def _gate_opened(state: State, event: e.GateOpened) -> State:
    step = _step(state, event.step, event)
    _demand(state, event, is_met=event.gate not in state.gates, why="this gate is open already")
    _demand(
        state, event, is_met=step.status in ("pending", "unknown"), why=f"step {event.step} is {step.status}"
    )
    gate = OpenGate(
        id=event.gate,
        kind=event.kind,
        step=event.step,
        names=event.names,
        digest=event.digest,
        shown=event.shown,
        at=event.at,
    )
    status = "gated" if event.kind == "approval" else "unknown"
    return _with(
        state,
        gates={**state.gates, event.gate: gate},
        opened=state.opened + 1,
        steps=_set(state, event.step, status=status, gate=event.gate),
    )


def _gate_answered(state: State, event: e.GateAnswered) -> State:
    gate = state.gates.get(event.gate)
    if gate is None:
        raise _illegal(state, event, f"gate {event.gate} is not open")
    _demand(state, event, is_met=event.digest == gate.digest, why="the answer is about another call")
    is_fitting = event.answer in ANSWERS[gate.kind]
    _demand(state, event, is_met=is_fitting, why=f"{event.answer} is no answer to a gate of kind {gate.kind}")
    answer = Answer(
        gate=event.gate,
        names=gate.names,
        step=gate.step,
        actor=event.actor,
        auth=event.auth,
        answer=event.answer,
        digest=event.digest,
        at=event.at,
        note=event.note,
    )
    rest = {name: other for name, other in state.gates.items() if name != event.gate}
    answered = _with(state, gates=rest, answers=(*state.answers, answer))
    if event.answer == "deny":
        return _with(
            answered,
            phase=P.FAIL,
            halted_from=None,
            status="in_progress",
            # What a person was asked about a call that may have happened stays asked.
            gates={name: other for name, other in rest.items() if other.kind == "reconcile"},
            reason=f"{event.actor} denied {gate.step}: {event.note}".rstrip(": "),
        )
    if event.answer == "approve":
        answered = _with(
            answered, steps=_set(answered, gate.step, status="pending", gate="", approved=gate.digest)
        )
    elif event.answer == "did_not_happen":
        answered = _with(
            answered,
            steps=_set(
                answered, gate.step, status="pending", outcome="not_done", gate="", asked=0, not_before=0
            ),
        )
    else:
        answered = _complete(answered, _found(state, gate, event))
    return answered


def _found(state: State, gate: OpenGate, event: e.GateAnswered) -> e.Complete:
    """The end of a call that a person says happened."""
    step = state.steps[gate.step]
    return e.Complete(
        at=event.at,
        step=gate.step,
        attempt=step.attempt,
        value=event.value,
        tokens=step.tokens,
        cost=step.cost,
        reconciled=True,
    )


# --- the end -------------------------------------------------------------------------------------------------------


def _outputs_produced(state: State, event: e.OutputsProduced) -> State:
    _demand(state, event, is_met=not state.in_flight, why="a call is in flight")
    return _with(state, phase=P.VERIFY, outputs=event.outputs, missing=event.missing)


def _run_reported(state: State, event: e.RunReported) -> State:
    reported = _with(state, report=event.report, envelope=event.envelope)
    match event.outcome:
        case "accept":
            return _with(reported, phase=P.COMMIT)
        case "replan":
            return _with(
                reported,
                phase=P.PLAN,
                used=_more(state, replans=1),
                feedback=event.reasons,
                refused=(*state.refused, state.plan_hash),
            )
        case _:
            return _with(
                reported,
                phase=P.HALT,
                halted_from=P.VERIFY,
                status="paused",
                reason="escalated: " + "; ".join(event.reasons),
            )


_HANDLERS: dict[type[Any], Callable[[State, Any], State]] = {
    e.SessionStarted: _session_started,
    e.SessionResumed: _session_resumed,
    e.SessionPaused: _session_paused,
    e.GivenUp: _given_up,
    e.SessionEnded: _session_ended,
    e.PlanProposed: _plan_proposed,
    e.PlanningFailed: _planning_failed,
    e.Decomposed: _decomposed,
    e.EvidenceRetrieved: _evidence_retrieved,
    e.PlanReviewed: _plan_reviewed,
    e.Intent: _intent,
    e.Complete: _complete,
    e.Abort: _abort,
    e.RetryScheduled: _retry_scheduled,
    e.Settled: _settled,
    e.StepRefused: _step_refused,
    e.StepSkipped: _step_skipped,
    e.StepJudged: _step_judged,
    e.LoopGuardTripped: _loop_guard_tripped,
    e.GateOpened: _gate_opened,
    e.GateAnswered: _gate_answered,
    e.OutputsProduced: _outputs_produced,
    e.RunReported: _run_reported,
}
