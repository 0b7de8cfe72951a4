"""Small things that the journal's tests share."""

from __future__ import annotations

from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tercet.journal.errors import JournalError
from tercet.journal.opening import open_journal
from tercet.journal.protocol import Append, Journal

TENANT = "acme"

E = TypeVar("E", bound=Exception)


def at(path: Path) -> str:
    """The address of a file."""
    return f"sqlite:///{path}"


def event(number: int) -> bytes:
    """An event that can be found in a file by its bytes."""
    return f'{{"event": {number}, "text": "{"lorem ipsum " * 20}"}}'.encode()


async def fill(journal: Journal, count: int, *, tenant: str = TENANT, stream: str = "ses_1") -> None:
    """Append events one by one, numbered from 1."""
    start = (await journal.head(tenant, stream)).seq
    for seq in range(start, start + count):
        await journal.append(Append(tenant=tenant, stream=stream, expected=seq, events=(event(seq + 1),)))


async def make_journal(path: Path, count: int = 10) -> None:
    """A closed file with a stream of some events."""
    async with open_journal(at(path)) as journal:
        await fill(journal, count)


async def refusal(kind: type[E], call: Coroutine[Any, Any, Any]) -> E:
    """The error of this kind that a call raises, which says what to do."""
    with pytest.raises(kind) as caught:
        await call
    assert type(caught.value) is kind
    assert not isinstance(caught.value, JournalError) or caught.value.remedy
    return caught.value
