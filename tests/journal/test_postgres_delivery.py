"""What the PostgreSQL journal answers when its connection fails, at every operation: acknowledged is stored exactly once,
refused is not stored, and only what was sent without an answer is called unknown."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable
from typing import Any

import pytest

from journal.faulty_connections import FaultyDriver
from tercet.contracts.errors import TercetError
from tercet.journal.opening import open_journal
from tercet.journal.protocol import Append, Position


@pytest.fixture
def tenant() -> str:
    """A tenant of the test's own."""
    return f"tenant-{secrets.token_hex(8)}"


def test_an_append_is_not_acknowledged_for_what_the_batch_before_it_stored(
    postgres_url: str, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection is gone, and so is the server for a moment: the next append is stored, or is not acknowledged."""
    faulty = FaultyDriver()
    faulty.install(monkeypatch)

    async def run() -> None:
        async with open_journal(postgres_url, patience_s=0) as journal:
            events = [b"first", b"second", b"third"]
            for seq, event in enumerate(events[:2]):
                await journal.append(Append(tenant=tenant, stream="ses_1", expected=seq, events=(event,)))
            faulty.cut()
            faulty.refusals = 1
            last = Append(tenant=tenant, stream="ses_1", expected=2, events=(events[2],))
            answer = await answer_of(journal.append(last))
            stored = [event.data for event in await journal.read(tenant, "ses_1")]
            assert stored == events[: 3 if isinstance(answer, Position) else 2]

    asyncio.run(run())


async def answer_of(call: Awaitable[Any]) -> Any:
    """What a call returns, or the typed error that it raises."""
    try:
        return await call
    except TercetError as error:
        return error
