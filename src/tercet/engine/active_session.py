"""The session that a driver is running, as the code that answers its commands sees it."""

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
