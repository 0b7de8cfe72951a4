"""The session that a driver runs, requests to the driver (read the inbox, stop, release), and waits that these interrupt."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from tercet.core import commands as c
from tercet.core import messages
from tercet.core.answers import Answer
from tercet.core.run import Run
from tercet.core.state import State
from tercet.engine import inbox
from tercet.engine.streams.stops import Stop
from tercet.engine.values import LargeValues
from tercet.journal.protocol import Journal, Lease

if TYPE_CHECKING:  # a ledger needs the services, and some of them need a session
    from tercet.engine.ledger import Ledger

ResultT = TypeVar("ResultT")

CANCEL_TIMEOUT_S = 2.0
"""How many seconds cancelled work may take to end."""
GRACE_MS = 2_000
"""How long calls in progress may take to end after the process was asked to stop."""


_TOLD_TO_STOP = c.Pause(reason="the process was told to stop")


@dataclass(frozen=True, kw_only=True)
class Halt:
    """Why a driver releases its session before the run is over."""

    pause: c.Pause | None = _TOLD_TO_STOP
    """The pause to record; None leaves the session as it is, so that another worker can continue it immediately."""
    grace_ms: int | None = GRACE_MS
    """How long calls in progress may still take; None for no limit."""


class Wakeup:
    """An event with one waiter; a wake-up that comes before the wait is kept."""

    def __init__(self) -> None:
        self._waiting: asyncio.Future[None] | None = None
        self._is_nudged = False

    def wake(self, _: object = None) -> None:
        """Wake the waiter, or make the next wait return immediately."""
        self._is_nudged = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def wait(self, seconds: float | None = None) -> None:
        """Wait for a wake-up, at most this many seconds. A bare future is used, since every step waits here."""
        if not self._is_nudged:
            loop = asyncio.get_running_loop()
            self._waiting = loop.create_future()
            alarm = None if seconds is None else loop.call_later(seconds, self.wake)
            try:
                await self._waiting
            finally:
                self._waiting = None
                if alarm is not None:
                    alarm.cancel()
        self._is_nudged = False


class Turn:
    """The wait of a session that is recorded and begins nothing before its process has a place for it."""

    def __init__(self) -> None:
        self.is_needed = False
        """Whether there is anything to begin."""
        self.awaited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once everything up to there is durable."""


class Control:
    """The requests to one driver."""

    def __init__(self, journal: Journal, tenant: str, run: Run) -> None:
        self._journal = journal
        self._tenant = tenant
        self._run = run
        self.halt: Halt | None = None
        """Set once no new work may start."""
        self.has_messages = False
        """Whether the inbox has to be read."""
        self.turn: Turn | None = None
        """What the session waits for before it begins anything; None once it may."""
        self.readers = inbox.InboxReaders()
        self.wakeup = Wakeup()
        self._interrupt = asyncio.Event()
        """Set when a wait for a model has to check for a stop or for new messages."""
        self._grace_until: float | None = None

    def check_inbox(self) -> None:
        """Ask the driver to read its inbox and to check for expiry."""
        self.has_messages = True
        self._interrupt.set()
        self.wakeup.wake()

    async def read_up_to(self, position: int) -> State | None:
        """Return the state once the inbox has been read durably up to a position; None if the session was released before."""
        reader = self.readers.wait(position)
        self.check_inbox()
        return await reader

    def stop(self, halt: Halt | None = None) -> None:
        """Start no new work, and release the session."""
        self._interrupt.set()
        if self.halt is None or self.halt.grace_ms is None:
            wanted, before = halt or Halt(), None if self.halt is None else self.halt.pause
            if wanted.pause is not None and before is not None:  # the message of a pause is not read again
                read = max(wanted.pause.inbox, before.inbox)
                wanted = replace(wanted, pause=msgspec.structs.replace(wanted.pause, inbox=read))
            self.halt = wanted
        self.wakeup.wake()

    def hold(self) -> asyncio.Future[None]:
        """Begin nothing before `proceed`; return what is done once the session is recorded and waits for that."""
        self.turn = Turn()
        return self.turn.awaited

    def proceed(self) -> None:
        """Let a session begin that was held."""
        self.turn = None
        self.wakeup.wake()

    def hand_over(self) -> None:
        """Begin no more calls, and leave the session to another worker; a session that is being paused is paused."""
        self.stop(Halt(pause=None) if self.halt is None else replace(self.halt, grace_ms=GRACE_MS))

    def stop_for(self, stop: Stop | None) -> None:
        """Stop because the lease is lost (None), or because of an emergency stop."""
        self.stop(
            None if stop is None else Halt(pause=c.Pause(reason=stop.reason, by=stop.by), grace_ms=None)
        )

    def release(self, reason: str, code: str = "") -> None:
        """Stop, and leave the session paused so that it can be resumed."""
        self.stop(Halt(pause=c.Pause(reason=reason, code=code)))

    @property
    def is_held(self) -> bool:
        """Whether there is something to begin, and the session waits for its turn."""
        return self.turn is not None and self.turn.is_needed

    @property
    def is_stopping(self) -> bool:
        """Whether no new work may start."""
        return self.halt is not None

    async def interrupted(self) -> None:
        """Return once the session has to be released, or a message asks to pause or end it."""
        while self.halt is None and not await self._has_urgent_message():
            await self._interrupt.wait()
            self._interrupt.clear()

    async def _has_urgent_message(self) -> bool:
        """Whether the inbox holds a message that must be handled before a model answers."""
        if not self.has_messages:
            return False
        unread = await inbox.read_unread(self._journal, self._tenant, self._run.state)
        return any(messages.calls_off(message.data) for message in unread)

    def grace_left(self, grace_ms: int | None) -> float | None:
        """Return the seconds that calls in progress still have, counted from the first request; None for no limit."""
        if grace_ms is None:
            return None
        now = asyncio.get_running_loop().time()
        if self._grace_until is None:
            self._grace_until = now + grace_ms / 1000
        return self._grace_until - now


class ActiveSession(Protocol):
    """A session that this process is running."""

    @property
    def run(self) -> Run:
        """The run as the interpreter sees it."""
        ...

    @property
    def lease(self) -> Lease:
        """The lease that allows this process to write."""
        ...

    @property
    def ledger(self) -> Ledger:
        """The recorded events, and those still to be written."""
        ...

    @property
    def values(self) -> LargeValues:
        """The large values and evidence of the session."""
        ...

    @property
    def control(self) -> Control:
        """Requests to stop or release the session."""
        ...

    def now(self) -> int:
        """Return the time, which never runs backwards within a session."""
        ...

    def record(self, command: c.Command, answer: Answer) -> None:
        """Resolve a command and record its events; the next flush makes them durable."""
        ...

    async def flush(self) -> None:
        """Write the recorded events, and check for emergency stops of the pack or tenant."""
        ...


class Interrupted(Exception):  # noqa: N818 - a signal between two functions of the driver, not an error
    """The session was released while a planner or a model was asked."""


async def unless_interrupted(control: Control, work: Awaitable[ResultT]) -> ResultT:
    """Return the result of some work; cancel it and raise `Interrupted` if the session is released first."""
    task = asyncio.ensure_future(work)
    interrupted = asyncio.ensure_future(control.interrupted())
    try:
        await asyncio.wait((task, interrupted), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            interrupted.result()  # raises if the journal could not be read, which is not a request to stop
            raise Interrupted
        if task.cancelled():
            raise RuntimeError("it was cancelled by its own code")
        return task.result()
    finally:
        for each in (task, interrupted):
            each.cancel()
        # Work that ignores its cancellation is abandoned: the session does not wait for it.
        await asyncio.wait((task, interrupted), timeout=CANCEL_TIMEOUT_S)
        for each in (task, interrupted):
            each.add_done_callback(_forget)


def _forget(task: asyncio.Future[Any]) -> None:
    """Retrieve the outcome of a task that is no longer awaited."""
    if not task.cancelled():
        task.exception()
