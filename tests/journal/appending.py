"""Processes that append to a journal, for tests that share one or kill them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from tercet.journal.opening import open_journal
from tercet.journal.protocol import Append

from .filling import TENANT


def unit(stream: str, expected: int, *events: bytes) -> Append:
    """An append to a stream without a lease."""
    return Append(tenant=TENANT, stream=stream, expected=expected, events=events)


def append_and_reopen(words: Sequence[str], say: Callable[[str], None]) -> None:
    """Open a journal five times, and append to a stream three times each."""
    url, stream = words

    async def run() -> None:
        for turn in range(5):
            async with open_journal(url) as journal:
                for each in range(3):
                    await journal.append(unit(stream, 3 * turn + each, b"1"))

    asyncio.run(run())
    say("{}")


def append_until_killed(words: Sequence[str], say: Callable[[str], None]) -> None:
    """Append to a stream for ever, and say after each append where it ends."""
    url, stream = words

    async def run() -> None:
        async with open_journal(url) as journal:
            end = 0
            while True:
                end = (await journal.append(unit(stream, end, bytes(3000)))).seq
                say(str(end))

    asyncio.run(run())
