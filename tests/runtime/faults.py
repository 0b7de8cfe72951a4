"""Journals that fail, and journals in which something else happens at the same moment."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from tercet.journal.errors import JournalUnavailable
from tercet.journal.protocol import Journal


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
    """A journal that fails once, at the nth thing that it is asked, and otherwise lets everybody else go first."""

    def __init__(self, journal: Journal, nth: int) -> None:
        super().__init__(journal)
        self.asked = 0
        self._nth = nth

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.inner, name)

        async def answer(*args: Any, **named: Any) -> Any:
            self.asked += 1
            if self.asked == self._nth:
                raise JournalUnavailable("memory", f"{name} does not answer")
            await asyncio.sleep(0)
            return await method(*args, **named)

        return answer
