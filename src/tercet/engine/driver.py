"""The driver: runs one session until it ends, or until it waits for a person, a time or a signal.

One turn: ask `decide` which commands are due, let the world answer them, and fold the events that `resolve` makes of each
answer, until nothing is due; append all events as one unit; then start the calls whose INTENT is now durable. So COMPLETE,
verdict, checkpoint and the next INTENT share one append, and a step costs one durable write. If the append fails, nothing
is called. The driver contains no rules of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from types import CoroutineType

import msgspec

from tercet.contracts.errors import InternalError
from tercet.core import commands as c
from tercet.core import events as e
from tercet.core.answers import Answer, CallEnded, Done, Ended, Made, Now, Unknown
from tercet.core.config import RunConfig
from tercet.core.decide import decide
from tercet.core.fold.base import STOPPED, copy_fields
from tercet.core.resolve import resolve
from tercet.core.resolve.sessions import find_expired
from tercet.core.run import Run, WaitingCalls
from tercet.core.state import State
from tercet.engine import inbox
from tercet.engine.calls import Calls
from tercet.engine.control import Control, Halt
from tercet.engine.leases import HeldLease
from tercet.engine.ledger import Ledger
from tercet.engine.services import Services
from tercet.engine.values import LARGE, LargeValues
from tercet.engine.world import World
from tercet.journal.protocol import Lease

_BEGINNING = frozenset({c.CheckRepeats, c.Dispatch, c.Settle, c.Propose, c.Reflect, *c.OUTPUT_COMMANDS})
"""Commands that are not started once the process is asked to stop."""
_LONG = frozenset({c.Propose, c.Reflect, *c.OUTPUT_COMMANDS})
"""Commands that may take long: the inbox is read after them."""
_LOOKS_BACK = frozenset({c.Score, c.End, c.Escalate, c.Compensate})
"""Commands whose work grows with the events of the session."""
MANY_STEPS = 50
"""Deciding what is due in a plan of more steps with references takes long: each call is reviewed with the whole plan."""


class Driver:
    """One session in one process, under one lease."""

    def __init__(
        self,
        services: Services,
        config: RunConfig,
        state: State,
        held_lease: HeldLease,
        *,
        tail_bytes: int = 0,
    ) -> None:
        tenant = held_lease.lease.tenant
        self.services = services
        self.values = LargeValues(services.journal, tenant, services.gateway.threads)
        self.run = Run(
            config,
            state,
            tools=services.tools,
            limit_for=services.planning.limit_for,
            blobs=self.values.blobs,
            facts=self.values.facts,
            shared=services.shared,
        )
        self.run.waiting = WaitingCalls()
        self.ledger = Ledger(services, self.run, held_lease, self.values, tail_bytes=tail_bytes)
        self.control = Control(services.journal, tenant, self.run)
        self.calls = Calls(services, held_lease, nudge=self.control.wakeup.wake)
        # Nothing that a driver holds refers back to it, so a run is freed at its end without the garbage collector.
        self._world = World(services, self.calls)
        self._clock = services.clock
        self._weighed: object = None
        """The plan that was last weighed."""
        self._is_plan_heavy = False
        """Whether work on it would block the event loop."""
        self._changes = 0
        """The tenant's change counter when it was last read."""

    @property
    def state(self) -> State:
        """The state of the run."""
        return self.run.state

    @property
    def lease(self) -> Lease:
        """The lease that allows this process to write."""
        return self.held_lease.lease

    @property
    def held_lease(self) -> HeldLease:
        """The lease with its remaining time; the pool renews it."""
        return self.calls.held_lease

    def now(self) -> int:
        """Return the time, which never runs backwards within a session."""
        now, at = self._clock.now(), self.run.state.at
        return now if now > at else at  # noqa: FURB136 - six times a step, and a call of `max` takes several times as long

    def begin(self, event: e.Event, *, claims: tuple[str, ...] = (), blobs: tuple[bytes, ...] = ()) -> None:
        """Record the event by which this process starts or resumes the session; the first turn appends it."""
        self.ledger.record(event)
        self.ledger.unit.claims += claims
        self.ledger.unit.blobs += blobs

    # --- the loop ---

    async def advance(self) -> State:
        """Run the session until nothing more is due, and return its state."""
        control = self.control
        try:
            while True:
                wake = await self._turn()
                if self.ledger.unit.events:
                    await self._flush()
                    if self.ledger.unit.events:
                        raise InternalError("a turn ended with unwritten events")
                if control.has_messages and not self.state.is_over:
                    continue
                is_idle = wake is None and not control.is_held
                if not self.calls and (is_idle or control.halt is not None or self.state.is_over):
                    return self.state if control.halt is None else await self._pause(control.halt)
                await self._wait(wake)
        finally:
            self.calls.abandon()

    async def _turn(self) -> int | None:
        """Carry out every command that is due; return when the next one will be, if that is known."""
        run, ledger = self.run, self.ledger
        if self.control.has_messages:
            await self._read_inbox()
        if find_expired(run.state, now := self.now()) is not None:
            self.record(c.Expire(), Now(at=now))
        while True:
            is_heavy = self.values.is_heavy or (
                self._is_plan_heavy if run.state.plan is self._weighed else self._weigh_plan()
            )
            due = await self.values.work(lambda: tuple(decide(run))) if is_heavy else decide(run)
            command, wake = self._choose(due)
            position = run.state.position
            if command is not None:
                answering = self._world.answer(self, command)
                answer = await answering if type(answering) is CoroutineType else answering
                if answer is not None and (is_heavy or (type(command) in _LOOKS_BACK and ledger.is_heavy)):
                    self._take(await self.values.work(partial(resolve, run, command, answer)), answer)
                elif answer is not None:
                    self._take(resolve(run, command, answer), answer)
                if type(command) in _LONG:
                    await self._read_inbox()
            if run.state.position == position or self._is_all_under_way():
                return wake

    def _weigh_plan(self) -> bool:
        """Return whether work on the whole plan would block the event loop."""
        plan = self._weighed = self.run.state.plan
        data = msgspec.json.encode(plan) if plan else b""
        has_many = len(plan.get("steps", ())) > MANY_STEPS and (b'"$' in data or b'"when"' in data)
        self._is_plan_heavy = len(data) > LARGE or has_many
        return self._is_plan_heavy

    def _choose(self, due: Iterable[c.Command]) -> tuple[c.Command | None, int | None]:
        """Return the first command that may be carried out now, and when one of those before it may be."""
        wake: int | None = None
        turn = self.control.turn
        may_begin = turn is None and self.control.halt is None
        for command in due:
            not_before = command.not_before if isinstance(command, c.DELAYED) else 0
            if not_before and not_before > self._clock.now():
                wake = not_before if wake is None else min(wake, not_before)
            elif may_begin or type(command) not in _BEGINNING:
                return command, wake
            elif turn is not None:
                turn.is_needed = True
        return None, wake

    def _is_all_under_way(self) -> bool:
        """Whether every step that could be dispatched is being called, so that no other command is due."""
        begun = self.ledger.unit.begin
        return bool(begun) and len(self.calls) + len(begun) == len(self.run.state.frontier)

    def record(self, command: c.Command, answer: Answer) -> None:
        """Resolve a command and record its events; the next flush makes them durable."""
        self._take(resolve(self.run, command, answer), answer)

    def _take(self, made: Made, answer: Answer) -> None:
        if type(answer) is CallEnded and answer.blob:
            self.values.keep(self.state, made.events, answer)
        self.ledger.take(made)

    async def _read_inbox(self) -> None:
        """Record the messages in the inbox; a pause waits until the calls in progress have ended."""
        if not self.control.has_messages or self.state.is_over:
            return
        self.control.has_messages = False
        unread = await inbox.read_unread(self.services.journal, self.lease.tenant, self.state)
        for event, _ in inbox.apply_messages(self.state, unread, self.now(), outside=False):
            if isinstance(event, e.SessionPaused):
                self.control.stop(Halt(pause=copy_fields(c.Pause, event), grace_ms=None))
                return
            self.ledger.record(event)

    # --- waiting and stopping ---

    async def _wait(self, wake: int | None) -> None:
        """Wait until a call ends, `wake` is reached, a message arrives, or the process is asked to stop."""
        wakeup, turn = self.control.wakeup, self.control.turn
        if turn is not None and not turn.awaited.done():
            turn.awaited.set_result(None)
        if self.control.halt is not None:
            await self._wait_for_calls(self.control.halt)
        elif wake is None:
            await wakeup.wait()
        else:
            alarm = asyncio.ensure_future(self._clock.sleep(wake - self._clock.now()))
            alarm.add_done_callback(wakeup.wake)
            try:
                await wakeup.wait()
            finally:
                alarm.remove_done_callback(wakeup.wake)  # else cancelling it would wake the driver again
                alarm.cancel()
        await self._record_ended()

    async def _wait_for_calls(self, halt: Halt) -> None:
        """Give calls in progress time to end; record the outcome of the others as unknown."""
        control = self.control
        while self.calls:
            left = control.grace_left(halt.grace_ms)
            if left is not None and left <= 0:
                break
            await control.wakeup.wait(left)
            await self._record_ended()
            halt = control.halt or halt  # the process may be stopped while the session pauses
        for intent in self.calls.abandon():
            self._record_end(intent, Unknown(error="the process was told to stop", code=STOPPED))

    async def _pause(self, halt: Halt) -> State:
        is_running = self.state.status == "in_progress" and not self.state.ending
        if halt.pause is not None and is_running:
            self.record(halt.pause, Now(at=self.now()))
            await self._flush(is_folded=True)
        return self.state

    # --- calls ---

    async def _record_ended(self) -> None:
        breakers = self.services.breakers
        for intent, ended in self.calls.ended():
            if (waiting := self.services.crash("after_answer")) is not None:
                await waiting
            if type(ended) is Done:
                self._record_end(intent, ended, *await self.values.encode(ended.value))
            else:
                self._record_end(intent, ended)
            if breakers.is_affected(intent.tool, ended):
                await self._flush()
                await breakers.record(intent.tool, is_success=type(ended) is Done, now=self.now())

    def _record_end(self, intent: e.Intent, ended: Ended, data: bytes = b"", blob: str = "") -> None:
        answer = CallEnded(at=self.now(), ended=ended, data=data, blob=blob)
        self.record(c.Await(step=intent.step, attempt=intent.attempt), answer)

    # --- the journal ---

    async def flush(self) -> None:
        """Write the recorded events, and check for emergency stops of the pack or tenant."""
        await self._flush()
        if (stop := self.services.stops.stopped("")) is not None:
            self.control.stop_for(stop)

    async def _flush(self, *, is_folded: bool = False) -> None:
        """Write the recorded events, then start the calls whose INTENT is now durable."""
        ledger, control = self.ledger, self.control
        if not ledger.unit.events:
            return
        unit = await ledger.write(is_folded=is_folded)
        if ledger.change_count != self._changes:
            # Something changed for the tenant: an emergency stop is noticed before a call begins.
            self._changes = ledger.change_count
            control.has_messages = True
            await self.services.stops.refresh(self._changes)
        state = self.run.state
        if unit.begin:
            now = self.now()
            for position, intent in unit.begin:
                self.calls.begin(intent, state.start, now, stop=control.stop_for, position=position)
        if control.readers:
            control.readers.answer(state)
        self.services.subscription.publish(state, unit.events, unit.checkpoints)
