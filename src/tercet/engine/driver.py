"""The driver: carries one session forward until it is over, or waits for a person, a time or a signal.

One turn: ask `decide` for what is due, let the world answer it, fold the events that `resolve` makes of the answer, and so
on until nothing is due; append everything as one unit; then begin the calls whose INTENT has become durable. So COMPLETE,
verdict, checkpoint and the next INTENT share one append, and a step costs one durable write. If the append fails, nothing
is called. No rule is decided here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import CoroutineType
from typing import TypeVar

from tercet.contracts.errors import InternalError
from tercet.contracts.evidence import Evidence
from tercet.core import commands as c
from tercet.core import events as e
from tercet.core import messages
from tercet.core.answers import Answer, CallEnded, Now
from tercet.core.attempt import Done, Ended, NotHappened, Unknown
from tercet.core.config import RunConfig
from tercet.core.decide import decide
from tercet.core.expiry import find_expired
from tercet.core.fold.base import NOT_MADE, STOPPED
from tercet.core.resolve import resolve
from tercet.core.resolve.made import Made
from tercet.core.run import Run, WaitingCalls
from tercet.core.state import State
from tercet.engine import inbox
from tercet.engine.calls import Calls
from tercet.engine.leases import Tenure
from tercet.engine.ledger import Ledger
from tercet.engine.services import Services
from tercet.engine.streams.stops import Stop
from tercet.engine.values import HEAVY, LargeValues, encode_value
from tercet.engine.wakeup import Wakeup
from tercet.engine.world import World
from tercet.journal.protocol import Lease

_T = TypeVar("_T")

_OUTPUT_COMMANDS = (
    c.DrawExperience, c.DrawSamples, c.ReadOutputs, c.RunTests, c.VerifyOutputs, c.Attack, c.Critique, c.FetchEvidence, c.Repair,
)  # fmt: skip
_BEGINNING = frozenset({c.CheckRepeats, c.Dispatch, c.Settle, c.Propose, c.Reflect, *_OUTPUT_COMMANDS})
"""Commands that are not begun once the process is to stop."""
_LONG = frozenset({c.Propose, c.Reflect, *_OUTPUT_COMMANDS})
"""Commands that may take long: the inbox is read after them."""
_LOOKS_BACK = frozenset({c.Score, c.End, c.Escalate, c.Compensate})
"""Commands whose work grows with the events of the session."""
GRACE_MS = 2_000
"""How long calls in flight may take to end after the process was asked to stop."""


@dataclass(frozen=True, kw_only=True)
class Halt:
    """Why a driver releases its session before the run is over."""

    reason: str = "the process was told to stop"
    code: str = ""
    by: str = ""
    simulated_by: str = ""
    inbox: int = 0
    grace_ms: int | None = GRACE_MS
    """How long calls under way may still take; None lets each take its own time."""


class Driver:
    """One session in one process, under one lease."""

    def __init__(
        self, services: Services, config: RunConfig, state: State, tenure: Tenure, *, tail_bytes: int = 0
    ) -> None:
        self.services = services
        self._wakeup = Wakeup()
        self._values = LargeValues(services.journal, tenure.lease.tenant, services.gateway.threads)
        self.run = Run(
            config,
            state,
            tools=services.tools,
            limit_for=services.planning.limit_for,
            blobs=self._values.blobs,
            facts=self._values.facts,
        )
        self.run.waiting = WaitingCalls()
        self.ledger = Ledger(services, self.run, tenure, tail_bytes=tail_bytes)
        self.calls = Calls(services, tenure, nudge=self._wakeup.wake)
        # Nothing that a driver holds refers back to it: a run is freed at its end without the garbage collector.
        self._world = World(services, self.calls)
        self.halt: Halt | None = None
        """Set once nothing more may begin."""
        self._interrupt = asyncio.Event()
        """Set when a wait for a model has to be looked at: to stop, or for the inbox."""
        self._has_messages = False
        self._readers = inbox.InboxReaders()
        self._changes = 0
        """The tenant's change counter when it was last looked at."""
        self._grace_until: float | None = None

    @property
    def state(self) -> State:
        """The state of the run."""
        return self.run.state

    @property
    def lease(self) -> Lease:
        """The right to write."""
        return self.tenure.lease

    @property
    def tenure(self) -> Tenure:
        """The lease and how long it still runs; the pool renews it."""
        return self.calls.tenure

    def now(self) -> int:
        """Return the time, which never runs backwards within a session."""
        return max(self.services.clock.now(), self.run.state.at)

    # --- what others ask of it ---

    def begin(self, event: e.Event, *, claims: tuple[str, ...] = (), blobs: tuple[bytes, ...] = ()) -> None:
        """Record an event with which this process begins or takes over; it is appended with the first turn."""
        self.ledger.record(event)
        self.ledger.unit.claims += claims
        self.ledger.unit.blobs += blobs

    def check_inbox(self) -> None:
        """Look for messages to this session, or for its expiry."""
        self._has_messages = True
        self._interrupt.set()
        self._wakeup.wake()

    async def read_up_to(self, position: int) -> State | None:
        """Return the state once the inbox has been read durably up to a position; None if the session was released before."""
        reader = self._readers.wait(position)
        self.check_inbox()
        return await reader

    def close(self) -> None:
        """Answer everyone who waits for the inbox: nothing more will be read."""
        self._readers.close()

    def stop(self, halt: Halt | None = None) -> None:
        """Begin nothing more, and release the session."""
        self._interrupt.set()
        if self.halt is None or self.halt.grace_ms is None:
            wanted = halt or Halt()
            read = 0 if self.halt is None else self.halt.inbox  # a pause is not asked for twice
            self.halt = replace(wanted, inbox=max(wanted.inbox, read))
        self._wakeup.wake()

    def stop_for(self, stop: Stop | None) -> None:
        """Stop because the lease is lost, or because an operator stopped what would be called."""
        self.stop(None if stop is None else Halt(reason=stop.reason, by=stop.by, grace_ms=None))

    def release(self, reason: str, code: str = "") -> None:
        """Stop in such a way that the session can be resumed."""
        self.stop(Halt(reason=reason, code=code))

    @property
    def is_stopping(self) -> bool:
        """Whether nothing more may begin."""
        return self.halt is not None

    async def interrupted(self) -> None:
        """Return once the session is to be released, or a message wants it to pause or to end."""
        while self.halt is None and not await self._is_called_off():
            await self._interrupt.wait()
            self._interrupt.clear()

    async def _is_called_off(self) -> bool:
        """Whether the inbox holds a message that must not wait for a model."""
        if not self._has_messages:
            return False
        unread = await inbox.unread(self.services.journal, self.lease.tenant, self.state)
        return any(messages.calls_off(message.data) for message in unread)

    # --- the loop ---

    async def advance(self) -> State:
        """Go on until nothing is due."""
        try:
            while True:
                wake = await self._turn()
                await self._flush()
                if self.ledger.unit.events:
                    raise InternalError("a turn left work behind")
                if self._has_messages and not self.state.is_over:
                    continue
                if not self.calls and (wake is None or self.halt is not None or self.state.is_over):
                    return self.state if self.halt is None else await self._pause(self.halt)
                await self._wait(wake)
        finally:
            self.calls.abandon()

    async def _turn(self) -> int | None:
        """Do all that is due; return the time at which more will be, if that is known."""
        if self._has_messages:
            await self._read_inbox()
        if find_expired(self.state, now := self.now()) is not None:
            self.record(c.Expire(), Now(at=now))
        run = self.run
        while True:
            wake: int | None = None
            position = run.state.position
            for command in (
                await self._in_thread(lambda: tuple(decide(run))) if self._is_heavy() else decide(run)
            ):
                not_before: int = getattr(command, "not_before", 0)
                if not_before and not_before > self.services.clock.now():
                    wake = not_before if wake is None else min(wake, not_before)
                elif self.halt is None or type(command) not in _BEGINNING:
                    answering = self._world.answer(self, command)
                    answer = await answering if isinstance(answering, CoroutineType) else answering
                    if answer is not None and self._is_heavy(command):
                        made = await self._in_thread(partial(resolve, run, command, answer))
                        self._record(made, answer)
                    elif answer is not None:
                        self._record(resolve(run, command, answer), answer)
                    if type(command) in _LONG:
                        await self._read_inbox()
                    break
            if run.state.position == position or self._is_all_under_way():
                return wake

    def _is_all_under_way(self) -> bool:
        """Whether every step that could be looked at is being called, so that nothing can be due."""
        begun = self.ledger.unit.begin
        return bool(begun) and len(self.calls) + len(begun) == len(self.state.frontier)

    def record(self, command: c.Command, answer: Answer) -> None:
        """Resolve a command and record its events; the next flush makes them durable."""
        self._record(resolve(self.run, command, answer), answer)

    def _record(self, made: Made, answer: Answer) -> None:
        if type(answer) is CallEnded and answer.blob:
            self._values.keep(self.state, made.events, answer)
        for event in made.events:
            self.ledger.record(event)
        self.ledger.unit.blobs += made.blobs

    def _is_heavy(self, command: c.Command | None = None) -> bool:
        """Whether deciding, or resolving a command, works on so much that it would block the event loop."""
        log_bytes = self.ledger.weight if type(command) in _LOOKS_BACK else 0
        return self._values.bytes + log_bytes > HEAVY

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await self.services.gateway.threads.work(work)

    async def _read_inbox(self) -> None:
        """Record the messages of people; a pause waits until the calls under way have ended."""
        if not self._has_messages or self.state.is_over:
            return
        self._has_messages = False
        unread = await inbox.unread(self.services.journal, self.lease.tenant, self.state)
        for event, _ in inbox.receive_all(self.state, unread, self.now(), outside=False):
            if isinstance(event, e.SessionPaused):
                self.stop(
                    Halt(
                        reason=event.reason,
                        by=event.by,
                        simulated_by=event.simulated_by,
                        inbox=event.inbox,
                        grace_ms=None,
                    )
                )
                return
            self.ledger.record(event)

    async def _wait(self, wake: int | None) -> None:
        """Wait until a call ends, it is time for something, a message comes, or the process is to stop."""
        if self.halt is not None:
            await self._wait_for_calls(self.halt)
        elif wake is None:
            await self._wakeup.wait()
        else:
            alarm = asyncio.ensure_future(self.services.clock.sleep(wake - self.services.clock.now()))
            alarm.add_done_callback(self._wakeup.wake)
            try:
                await self._wakeup.wait()
            finally:
                alarm.remove_done_callback(
                    self._wakeup.wake
                )  # else cancelling it would wake the driver again
                alarm.cancel()
        await self._record_ended()

    async def _wait_for_calls(self, halt: Halt) -> None:
        """Let calls in flight end for a while; the outcome of those that do not is unknown."""
        loop = asyncio.get_running_loop()
        while self.calls:
            left = None if halt.grace_ms is None else self._grace(loop.time(), halt.grace_ms)
            if left is not None and left <= 0:
                break
            await self._wakeup.wait(left)
            await self._record_ended()
            if self.halt is not None:
                halt = self.halt  # a pause may become a stop of the process
        for intent in self.calls.abandon():
            await self._record_end(intent, Unknown(error="the process was told to stop", code=STOPPED))

    def _grace(self, now: float, grace_ms: int) -> float:
        """Return how many seconds are left of the grace, which begins when it is first asked for."""
        if self._grace_until is None:
            self._grace_until = now + grace_ms / 1000
        return self._grace_until - now

    async def _pause(self, halt: Halt) -> State:
        if not self.state.is_over and self.state.status == "in_progress" and not self.state.ending:
            self.record(
                c.Pause(
                    reason=halt.reason,
                    code=halt.code,
                    by=halt.by,
                    simulated_by=halt.simulated_by,
                    inbox=halt.inbox,
                ),
                Now(at=self.now()),
            )
            await self._flush(is_folded=True)
        return self.state

    # --- calls ---

    async def _record_ended(self) -> None:
        for intent, ended in self.calls.ended():
            if (waiting := self.services.crash("after_answer")) is not None:
                await waiting
            await self._record_end(intent, ended)
            await self._count_outcome(intent.tool, ended)

    async def _record_end(self, intent: e.Intent, ended: Ended) -> None:
        data, blob = b"", ""
        if type(ended) is Done:
            data, blob = await encode_value(ended.value, self.services.gateway.threads)
        answer = CallEnded(at=self.now(), ended=ended, data=data, blob=blob)
        self.record(c.Await(step=intent.step, attempt=intent.attempt), answer)

    async def _count_outcome(self, tool: str, ended: Ended) -> None:
        """Tell the circuit breaker of a tool how a call of it ended."""
        is_success = isinstance(ended, Done)
        if isinstance(ended, NotHappened) and ended.code in NOT_MADE:
            return
        if is_success and not self.services.breakers.glance(tool).failures:
            return
        await self._flush()
        await self.services.breakers.record(tool, is_success=is_success, now=self.now())

    # --- the journal ---

    async def flush(self) -> None:
        """Make durable what was recorded, and notice whether an operator stopped the pack or the tenant."""
        await self._flush()
        if (stop := self.services.stops.stopped("")) is not None:
            self.stop_for(stop)

    async def _flush(self, *, is_folded: bool = False) -> None:
        """Write what was recorded, then begin the calls whose INTENT is now durable."""
        if not self.ledger.unit.events:
            return
        in_thread = self._in_thread if self._is_heavy() else None
        unit = await self.ledger.write(in_thread=in_thread, is_folded=is_folded)
        if self.ledger.bell != self._changes:
            # Something changed for the tenant: an emergency stop is noticed before a call begins.
            self._changes = self.ledger.bell
            self._has_messages = True
            await self.services.stops.refresh(self._changes)
        if unit.begin:
            start, now, stop = self.state.start, self.now(), self.stop_for
            for position, intent in unit.begin:
                self.calls.begin(intent, start, now, stop=stop, position=position)
        if self._readers:
            self._readers.answer(self.state)
        self.services.subscription.publish(self.state, unit.events, unit.checkpoints)

    async def _aside_with_log(self, work: Callable[[], _T]) -> _T:
        is_heavy = self._values.bytes + self.ledger.weight > HEAVY
        return await self._in_thread(work) if is_heavy else work()

    async def events(self) -> Sequence[e.Event]:
        """Return all events so far, with the large results among them loaded."""
        events = await self.history()
        await self.load(event.blob for event in events if type(event) is e.Complete)
        return events

    async def history(self) -> Sequence[e.Event]:
        """Return all events so far."""
        return await self.ledger.events(aside=self._aside_with_log)

    async def blob(self, digest: str) -> bytes:
        """Return bytes that were stored before."""
        return await self._values.read(digest)

    def learn(self, digest: str, facts: tuple[Evidence, ...]) -> None:
        """Make facts available that the next event refers to."""
        self._values.facts[digest] = facts

    async def load_blobs(self) -> None:
        """Load the large values that steps still to come refer to."""
        await self._values.load_for(self.state)

    async def load(self, digests: Iterable[str]) -> None:
        """Load large values."""
        await self._values.load(digests)
