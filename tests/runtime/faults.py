"""Journals that fail, and journals in which something else happens at the same moment."""

from __future__ import annotations

from typing import Any, cast

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
