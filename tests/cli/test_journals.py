"""The journal that a command works on: read while somebody forgets it, and named without its secrets."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from tercet.cli.journals import journal_words, read_session
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.errors import UsageError
from tercet.contracts.plan import Plan, Step
from tercet.contracts.request import Request
from tercet.journal.chain import START
from tercet.journal.memory import MemoryJournal
from tercet.journal.protocol import Journal, Position
from tercet.packs.pack import Pack
from tercet.runtime import Runtime

PACK = Pack(name="desk", version="1.0.0", decisions=[DecisionSpec(id="note")])


class Forgetful:
    """A journal that forgets a session between its state and its events."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._is_gone = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def read(self, tenant: str, stream: str, **named: Any) -> Any:
        """The events, the first time."""
        page = [] if self._is_gone else await self._journal.read(tenant, stream, **named)
        self._is_gone = True
        return page

    async def head(self, tenant: str, stream: str) -> Position:
        """Where the stream ends, as long as it is there."""
        return START if self._is_gone else await self._journal.head(tenant, stream)


def test_a_session_that_is_forgotten_while_it_is_read_is_told() -> None:
    """Whoever shows a session that somebody prunes meanwhile gets a typed answer, and does not read for ever."""

    async def main() -> None:
        journal = MemoryJournal()
        async with Runtime(PACK, journal, watchdog_ms=None) as runtime:
            plan = Plan(steps=(Step(id="a", kind="note", params={"n": 1}),))
            result = await runtime.run(Request(intent="note"), plan=plan)
        with pytest.raises(UsageError) as caught:
            await read_session(cast("Journal", Forgetful(journal)), result.session_id)
        assert caught.value.code == "unknown_session"

    asyncio.run(main())


SECRETS = [
    ("postgresql://db/runs?user=app&password=s3cret", "postgresql://db/runs?user=app&password=…"),
    ("postgresql://a:s3cret@db/runs?sslpassword=s3cret&x=1", "postgresql://a:…@db/runs?sslpassword=…&x=1"),
    ("postgresql://db/runs?passfile=s3cret.txt", "postgresql://db/runs?passfile=…"),
    ("postgresql://db/runs?p%61ssword=s3cret", "postgresql://db/runs?p%61ssword=…"),
    ("postgresql://db/runs?sslmode=require", "postgresql://db/runs?sslmode=require"),
]


@pytest.mark.parametrize(("url", "printed"), SECRETS)
def test_no_part_of_an_address_gives_a_password_away(url: str, printed: str) -> None:
    """A command to be copied names the journal without the secrets of its query, and the rest as it was."""
    assert journal_words(url) == ("--journal", printed)
