"""The progress of a session in its published shapes: progress envelopes, and the session row with its checkpoints.

Both are views of the journal, so they also work for a session that another process runs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from tercet.contracts.errors import UsageError
from tercet.contracts.loop import Phase
from tercet.contracts.runs.budget import MICROCENTS_PER_CENT, BudgetRemaining
from tercet.contracts.runs.session import (
    BackgroundSession,
    Heartbeat,
    LoopCheckpoint,
    ProgressEnvelope,
    SessionCheckpoint,
)
from tercet.contracts.shape import unchecked
from tercet.contracts.verdict import StepScore
from tercet.core import budget
from tercet.core import events as e
from tercet.core.state import State
from tercet.core.transcript import timestamp, transcript
from tercet.engine.checkpoint import compare
from tercet.engine.session_reader import load_history, restore
from tercet.engine.subscription import Receive
from tercet.executor.clock import Clock
from tercet.journal.protocol import Journal, NewCheckpoint, StoredCheckpoint

POLL_MS = 250
_JUDGING = (Phase.VERIFY, Phase.CRITIQUE, Phase.REPAIR)
"""The phases that judge and repair outputs: no step is running, so the phase is shown instead."""
_PENDING = ("pending", "gated", "in_flight", "unknown")
_VERDICTS = (e.PlanReviewed, e.StepJudged, e.RunReported)


def envelope(state: State, now: int) -> ProgressEnvelope:
    """Return the progress of a session, numbered by its position."""
    start = state.start
    planned = [step for step in state.steps.values() if not step.compensates]
    session = start.session
    return ProgressEnvelope(
        session_id=session,
        progress_id=f"{session}.p{state.position}",
        emitted_at=timestamp(now),
        current_step=_current(state),
        completed_step_count=sum(step.status in ("done", "skipped") for step in planned),
        total_step_count=len(planned),
        budget_remaining=remaining(state, now),
        awaiting_gate=next(iter(state.gates), None),
    )


def _current(state: State) -> str | None:
    if state.is_over:
        return None
    if state.phase in _JUDGING and state.quality.drawn:
        return str(state.phase)
    return next(iter((*state.in_flight, *state.frontier)), None)


def remaining(state: State, now: int) -> BudgetRemaining:
    """Return the remaining budget of a session, including extensions."""
    running = max(0, now - state.active_since) if state.active_since else 0
    limits = budget.limits_of(budget.budget_of(state))
    left = budget.remaining(budget.add(state.used, wall_clock=running), limits)
    shown = {name: left.get(name) for name in budget.EXTENSIBLE}
    cost = shown.pop("cost_microcents")
    return BudgetRemaining(cost_cents=None if cost is None else cost / MICROCENTS_PER_CENT, **shown)


def envelopes(show: Callable[[ProgressEnvelope], None], clock: Clock) -> Receive:
    """Return a subscriber that shows an envelope after every append."""

    def receive(state: State, _events: Sequence[e.Event], _checkpoints: Sequence[NewCheckpoint]) -> None:
        show(envelope(state, max(clock.now(), state.at)))

    return receive


async def watch(
    journal: Journal, tenant: str, session: str, *, clock: Clock
) -> AsyncIterator[ProgressEnvelope]:
    """Yield an envelope now and each time that the session has moved, until it is over."""
    known = await restore(journal, tenant, session)
    while True:
        yield envelope(known.state, clock.now())
        if known.state.is_over:
            return
        position = known.state.position
        while known.state.position == position:
            await clock.sleep(POLL_MS)
            known = await restore(journal, tenant, session, known=known)


async def session_row(journal: Journal, state: State) -> BackgroundSession:
    """Return a session in its published shape, with the status of this state."""
    history = await load_history(journal, state.start.tenant, state.start.session, has_checkpoints=True)
    return make_session_row(state, history.events, history.checkpoints)


def make_session_row(
    state: State, events: Sequence[e.Event], checkpoints: Sequence[StoredCheckpoint]
) -> BackgroundSession:
    """Return a session in its published shape, from its events and checkpoints."""
    start = state.start
    seen = max((event.at for event in events if isinstance(event, _VERDICTS)), default=start.at)
    return BackgroundSession(
        session_id=start.session,
        tenant_id=start.tenant,
        pack_pin=start.pack,
        snapshot_pin=start.snapshot,
        intent=start.request["intent"],
        started_at=timestamp(start.at),
        heartbeat=Heartbeat(
            interval_ms=start.heartbeat,
            ttl_ms=max(0, start.expires - start.at),
            last_seen=timestamp(seen),
        ),
        status=state.status,
        checkpoints=tuple(_checkpoints(checkpoints, events)),
        next_step=state.frontier[0] if state.frontier and not state.is_over else None,
        owner_actor=start.actor["id"],
    )


def _checkpoints(
    stored: Sequence[StoredCheckpoint], events: Sequence[e.Event]
) -> Iterator[SessionCheckpoint]:
    """Yield the points after a verdict, each with the last step that was judged by then."""
    step = verdict = ""
    position = 0
    for point in (each for each in stored if each.kind == "point"):
        for event in events[position : point.seq]:
            step = event.step if isinstance(event, e.StepJudged) else step
            verdict = _verdict(event) or verdict
        position = point.seq
        if verdict:
            fields = {
                "checkpoint_id": point.hash,
                "after_step": step,
                "critic_verdict": verdict,
                "saved_at": timestamp(events[point.seq - 1].at),
            }
            yield unchecked(SessionCheckpoint, fields)


async def read_checkpoint(
    journal: Journal, tenant: str, session: str, checkpoint_id: str | None = None
) -> LoopCheckpoint:
    """Return a session at one of its checkpoints, by default the newest; raises `UsageError` if it has none such."""
    history = await load_history(journal, tenant, session, has_checkpoints=True)
    points = [each for each in history.checkpoints if each.kind == "point"]
    stored = next((each for each in reversed(points) if checkpoint_id in (None, each.hash)), None)
    if stored is None:
        raise UsageError(
            f"session {session} has no checkpoint {checkpoint_id}"
            if points
            else f"session {session} has none yet",
            code="unknown_checkpoint",
            remedy="runtime.session() lists the checkpoints of a session",
        )
    events, state = history.events[: stored.seq], history.states[stored.seq]
    compare(state, stored)
    pinned = [event.evidence for event in events if isinstance(event, e.EvidenceRetrieved)]
    statuses = {name: str(step.status) for name, step in state.steps.items()}
    calls = transcript(events, {})
    return LoopCheckpoint(
        checkpoint_id=stored.hash,
        loop_id=state.start.run,
        k=stored.seq,
        phase=str(state.phase),
        plan_id=str(state.plan.get("plan_id", "")),
        plan_state=statuses,
        completed_actions=tuple(state.done),
        pending_actions=tuple(name for name, status in statuses.items() if status in _PENDING),
        next_step=state.frontier[0] if state.frontier and not state.is_over else None,
        outputs_so_far=state.outputs or {each.call.step_id: each.result.value for each in calls},
        used=budget.budget_use(state.used),
        token_consumption=state.used.tokens,
        tool_transcript=tuple(dict.fromkeys(each.call.idempotency_key for each in calls)),
        evidence_refs=tuple(pinned[-1]) if pinned else (),
        step_scores=tuple(map(StepScore.model_validate, state.envelope.get("step_scores", ()))),
        timestamp=timestamp(state.at),
    )


def _verdict(event: e.Event) -> str:
    match event:
        case e.PlanReviewed():
            outcome: Any = event.verdict.get("outcome", "")
            return str(outcome)
        case e.StepJudged() | e.RunReported():
            return event.outcome
        case _:
            return ""
