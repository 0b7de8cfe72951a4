"""A session that this process carries forward, as the parts of the engine that answer commands see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tercet.core import commands as c
from tercet.core.answers import Answer
from tercet.core.run import Run
from tercet.engine.control import Control
from tercet.engine.values import LargeValues
from tercet.journal.protocol import Lease

if TYPE_CHECKING:  # it needs the services, and some of them need a session
    from tercet.engine.ledger import Ledger


class ActiveSession(Protocol):
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
    def ledger(self) -> Ledger:
        """Its events."""
        ...

    @property
    def values(self) -> LargeValues:
        """Its large values and facts."""
        ...

    @property
    def control(self) -> Control:
        """How it is stopped or released."""
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
