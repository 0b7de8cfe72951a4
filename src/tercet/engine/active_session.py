"""A session that this process carries forward, as the parts of the engine that answer commands see it; and waiting for
other people's code in a way that the session can still be stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from tercet.contracts.evidence import Evidence
from tercet.core import commands as c
from tercet.core import events as e
from tercet.core.answers import Answer
from tercet.core.run import Run
from tercet.engine.streams.stops import Stop
from tercet.journal.protocol import Lease

ResultT = TypeVar("ResultT")

LETTING_GO_S = 2.0
"""How many seconds somebody has to let go of what is given up."""


class Interrupted(Exception):  # noqa: N818 - a signal between two functions of the driver, and no error
    """The session is let go of while somebody is asked."""


class Interruptible(Protocol):
    """Somebody who hears that a session is to be let go of."""

    async def interrupted(self) -> None:
        """Returns once the session is to be let go of; raises `JournalError` if nobody can know that."""
        ...


async def unless_interrupted(session: Interruptible, work: Awaitable[ResultT]) -> ResultT:
    """What some work comes to, unless the session is let go of before: then it is given up, and `Interrupted` raised."""
    task = asyncio.ensure_future(work)
    interrupted = asyncio.ensure_future(session.interrupted())
    try:
        await asyncio.wait((task, interrupted), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            interrupted.result()  # that the journal cannot be read is no wish to stop
            raise Interrupted
        if task.cancelled():
            raise RuntimeError("it was cancelled by its own code")
        return task.result()
    finally:
        for each in (task, interrupted):
            each.cancel()
        # What does not let itself be cancelled is left behind: the session does not wait for it.
        await asyncio.wait((task, interrupted), timeout=LETTING_GO_S)
        for each in (task, interrupted):
            each.add_done_callback(_forget)


def _forget(task: asyncio.Future[Any]) -> None:
    """Take note of how a task ended that nobody waits for any more."""
    if not task.cancelled():
        task.exception()


class ActiveSession(Interruptible, Protocol):
    """A session that this process carries forward."""

    @property
    def run(self) -> Run:
        """The run as the interpreter sees it."""
        ...

    @property
    def lease(self) -> Lease:
        """The right to write."""
        ...

    @property
    def is_stopping(self) -> bool:
        """Whether nothing more may begin."""
        ...

    def now(self) -> int:
        """Return the time, which never runs backwards within a session."""
        ...

    def record(self, command: c.Command, answer: Answer) -> None:
        """Resolve a command and record its events; the next flush makes them durable."""
        ...

    async def flush(self) -> None:
        """Make durable what was recorded, and notice whether an operator stopped the pack or the tenant."""
        ...

    async def events(self) -> Sequence[e.Event]:
        """Return all events so far, with the large results among them loaded."""
        ...

    async def history(self) -> Sequence[e.Event]:
        """Return all events so far."""
        ...

    async def load(self, digests: Iterable[str]) -> None:
        """Load large values into the run."""
        ...

    async def blob(self, digest: str) -> bytes:
        """Return bytes that were stored before."""
        ...

    def learn(self, digest: str, facts: tuple[Evidence, ...]) -> None:
        """Make facts available that the next event refers to."""
        ...

    def release(self, reason: str, code: str = "") -> None:
        """Begin nothing more, and pause the session so that it can be resumed."""
        ...

    def stop_for(self, stop: Stop | None) -> None:
        """Begin nothing more because an operator stopped what would be called, or the lease is lost."""
        ...
