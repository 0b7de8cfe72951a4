"""Small streams that several writers share without a lease: read whole, and appended to wherever they end."""

from __future__ import annotations

from collections.abc import Callable

from tercet.journal.errors import PositionConflict
from tercet.journal.protocol import Append, Journal, Position, Stored

_PAGE = 1000


async def read_all(journal: Journal, tenant: str, stream: str, *, after: int = 0) -> list[Stored]:
    """Every event of a stream behind a position."""
    found: list[Stored] = []
    while page := await journal.read(tenant, stream, after=after + len(found), limit=_PAGE):
        found += page
        if len(page) < _PAGE:
            break
    return found


async def append_next(
    journal: Journal,
    tenant: str,
    stream: str,
    make: Callable[[int], tuple[bytes, ...]],
    *,
    ring: bool = False,
) -> Position:
    """Append at the end of a stream, and again at the new end while somebody else is quicker.

    `make` gets the position at which the stream ends and says what to append there; it is asked anew at every try.
    """
    end = (await journal.head(tenant, stream)).seq
    while True:
        unit = Append(tenant=tenant, stream=stream, expected=end, events=make(end), ring=ring)
        try:
            return await journal.append(unit)
        except PositionConflict as conflict:
            end = conflict.actual
