"""Journals that fail, and journals in which something else happens at the same moment."""

from __future__ import annotations

import asyncio
from typing import Any, Literal, TypeAlias, cast, get_args

from tercet.journal.errors import AppendUnknown, JournalUnavailable
from tercet.journal.protocol import Journal

Fault: TypeAlias = Literal["unavailable", "unknown, stored", "unknown, not stored"]
FAULTS: tuple[Fault, ...] = get_args(Fault)
WRITES = ("append", "acquire", "renew", "release", "forget")


class Through:
    """A journal that hands everything on to another one; a test changes one answer of it."""

    def __init__(self, journal: Journal) -> None:
        self.inner = journal

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    @property
    def itself(self) -> Journal:
        """The same, as the type that runtimes take."""
        return cast("Journal", self)


class Faulty(Through):
    """A journal that fails once, at the nth thing that it is asked, and otherwise lets everybody else go first.

    With "unknown" a write is stored or not, and the answer says that it cannot be told which.
    """

    def __init__(self, journal: Journal, nth: int, fault: Fault = "unavailable") -> None:
        super().__init__(journal)
        self.asked = 0
        self._nth = nth
        self._fault: Fault = fault

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.inner, name)

        async def answer(*args: Any, **named: Any) -> Any:
            self.asked += 1
            if self.asked == self._nth:
                if self._fault != "unavailable" and name in WRITES:
                    if self._fault == "unknown, stored":
                        await method(*args, **named)
                    raise AppendUnknown("memory", f"the answer to {name} was lost")
                raise JournalUnavailable("memory", f"{name} does not answer")
            await asyncio.sleep(0)
            return await method(*args, **named)

        return answer
