"""Lanes as calls: each starts or resumes a session of its own, and returns its outcome as an envelope.

The key of the call is the request key of the session. So a parent that is resumed after a crash finds the same lane, and
what the lane used is counted once, at its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from tercet.contracts.context import RunContext
from tercet.contracts.errors import LaneWaiting, LimitError, NotDone, UsageError
from tercet.contracts.lane import Lane, LaneFrame
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.request import Actor, Request
from tercet.contracts.runs.budget import RunBudget
from tercet.contracts.shape import JsonObject
from tercet.core.fold.base import EMERGENCY_STOP
from tercet.core.lanes import TIMEOUT, dump_envelope, envelope_of
from tercet.core.state import State
from tercet.engine.streams import nesting
from tercet.executor.clock import Clock
from tercet.packs.pack import Pack
from tercet.packs.parts import GRACE_MS
from tercet.tools import Tool, ToolContext

PAUSED = "lane_paused"


@dataclass(frozen=True, kw_only=True)
class LaneStart:
    """The start of a session that is a lane, beside its request."""

    lane: Lane
    tools: tuple[str, ...]
    """The tools that it declares and that its parent's run has."""
    budget: RunBudget
    safety_mode: ApprovalMode
    """Its parent's safety mode, which limits what the lane may propose."""
    snapshot: str | None
    parent: ToolContext

    def frame(self, ctx: RunContext) -> RunContext:
        """Return the run context of the lane; its share of the iterations is already in it."""
        budget = self.budget.model_copy(update={"max_iterations": ctx.run_budget.max_iterations})
        lane = LaneFrame(name=self.lane.name, tools=self.tools)
        return ctx.model_copy(update={"run_budget": budget, "lane": lane})

    @property
    def recorded(self) -> JsonObject:
        """Return the fields about the lane in the session's first event."""
        return {
            "name": self.lane.name,
            "parent": self.parent.session_id,
            "step": self.parent.step_id,
            "tools": list(self.tools),
        }


class LaneHost(Protocol):
    """The parts of its parent's runtime that a lane needs."""

    def start_of(self, lane: Lane, context: ToolContext, left_ms: int) -> LaneStart:
        """Return the start of a lane; this process runs its parent."""
        ...

    async def find_lane(self, request: Request, owner: Actor) -> str | None:
        """Return the session that was started for this request; None if there is none."""
        ...

    async def start_lane(self, request: Request, start: LaneStart) -> None:
        """Start a session and run it as far as it goes."""
        ...

    async def answer_lane(self, session: str, context: ToolContext) -> None:
        """Pass the answers that people gave at the step of a lane on to the lane."""
        ...

    async def drive_lane(self, session: str) -> None:
        """Resume a session and run it until it stops, once no other process holds its lease."""
        ...

    async def state(self, session_id: str) -> State:
        """Return the state of a session."""
        ...

    async def cancel(self, session_id: str, *, actor: Actor, note: str = "") -> Any:
        """End a session without success."""
        ...

    def is_stopping(self, session: str) -> bool:
        """Whether the process or an operator is stopping a session."""
        ...


def bind_lanes(pack: Pack, host: LaneHost, clock: Clock) -> Mapping[str, Tool]:
    """Return the lanes of a pack with the code that runs them, by the names that steps call them by."""
    specs = {spec.name: spec for spec in pack.lane_tools}
    bound: dict[str, Tool] = {}
    for lane in pack.lanes:
        spec = specs[lane.tool_name]
        fields = {name: getattr(spec, name) for name in spec.model_fields_set}
        bound[spec.name] = Tool(**fields, call=_LaneCall(lane, host, clock))
    return bound


class _LaneCall:
    """Runs one lane for a step of another run."""

    def __init__(self, lane: Lane, host: LaneHost, clock: Clock) -> None:
        self._lane = lane
        self._host = host
        self._clock = clock

    async def __call__(self, lane_context_: ToolContext, **params: Any) -> JsonObject:
        context, lane = lane_context_, self._lane
        request = Request(intent=lane.intent, input=params, request_key=f"lane:{context.idempotency_key}")
        owner = nesting.owners_above(context)[0]
        left = self._time_left(context)
        is_late = await self._carry(request, owner, context, left)
        session = await self._host.find_lane(request, owner)
        if session is None:
            raise NotDone(f"lane {lane.name} was not started", code=PAUSED)
        state = await self._host.state(session)
        if state.start.lane.get("parent") != context.session_id:
            raise NotDone(
                f"session {session} has the key of lane {lane.name} and is not one of this run",
                code="lane_foreign",
                is_retriable=False,
            )
        if state.gates:
            gate = next(iter(state.gates.values()))
            what = ", ".join(gate.names) or "an approval"
            raise LaneWaiting(f"lane {lane.name} waits for {what} at its step {gate.step}", session=session)
        if not state.is_over:
            state = await self._end(session, state, owner, context)
        return dump_envelope(envelope_of(state, code=TIMEOUT if is_late else ""))

    def _time_left(self, context: ToolContext) -> int:
        """Return how long the lane may take: its own limit, or the time until its parent stops waiting."""
        if context.deadline is None:
            return self._lane.timeout_ms
        waits = int(context.deadline.timestamp() * 1000) - self._clock.now()
        return max(1, min(self._lane.timeout_ms, waits - min(GRACE_MS, waits // 2)))

    async def _carry(self, request: Request, owner: Actor, context: ToolContext, left: int) -> bool:
        """Start or resume the lane and run it until it stops; return whether it exceeded its time and was cancelled."""
        carrying = asyncio.ensure_future(self._start(request, owner, context, left))
        alarm = asyncio.ensure_future(self._clock.sleep(left))
        try:
            await asyncio.wait({carrying, alarm}, return_when=asyncio.FIRST_COMPLETED)
            if not carrying.done():
                if (session := await self._host.find_lane(request, owner)) is not None:
                    with suppress(UsageError):  # it has just ended
                        await self._host.cancel(session, actor=owner, note=TIMEOUT)
                await carrying
                return True
            carrying.result()
            return False
        finally:
            alarm.cancel()
            carrying.cancel()
            await asyncio.gather(carrying, alarm, return_exceptions=True)

    async def _start(self, request: Request, owner: Actor, context: ToolContext, left: int) -> None:
        known = await self._host.find_lane(request, owner)
        try:
            if known is None:
                await self._host.start_lane(request, self._host.start_of(self._lane, context, left))
            else:
                await self._host.answer_lane(known, context)
                await self._host.drive_lane(known)
        except (LimitError, UsageError) as error:
            raise NotDone(error.message, code=error.code, is_retriable=False) from error

    async def _end(self, session: str, state: State, owner: Actor, context: ToolContext) -> State:
        """Cancel a lane that stopped before its end and waits at no gate; one that the process released is resumed with
        its parent."""
        if self._host.is_stopping(context.session_id):
            raise NotDone(f"lane {self._lane.name} was let go of: {state.reason}", code=EMERGENCY_STOP)
        with suppress(UsageError):
            await self._host.cancel(session, actor=owner, note=PAUSED)
        await self._host.drive_lane(session)
        ended = await self._host.state(session)
        if not ended.is_over:
            raise NotDone(f"lane {self._lane.name} did not end: {ended.reason}", code=PAUSED)
        return ended


def budget_of_lane(lane: Lane, own: RunBudget, left_ms: int) -> RunBudget:
    """Return the budget of a lane: its reservation from its parent, and the pack's limits for the other dimensions."""
    time = left_ms if lane.budget.wall_clock_ms is None else min(left_ms, lane.budget.wall_clock_ms)
    return own.model_copy(
        update={
            "tool_calls": lane.budget.tool_calls,
            "tokens": lane.budget.tokens,
            "cost_microcents": lane.budget.cost_microcents,
            "wall_clock_ms": time,
            "max_iterations": lane.budget.max_iterations,
        }
    )
