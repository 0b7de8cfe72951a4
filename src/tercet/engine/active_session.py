"""What the parts of the engine that answer commands need of the driver."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from tercet.contracts.evidence import Evidence
from tercet.core import commands as c
from tercet.core import events as e
from tercet.core.answers import Answer
from tercet.core.run import Run
from tercet.engine.interruption import Interruptible
from tercet.engine.streams.stops import Stop
from tercet.journal.protocol import Lease


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
