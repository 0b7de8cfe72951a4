"""Opening a journal by its address: `memory:`, `sqlite:///runs.db`, `postgresql://…`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from tercet.database.schema import LOCK_S, Opening, demand_driver, parse_address
from tercet.journal.errors import JOURNAL
from tercet.journal.memory import MemoryJournal
from tercet.journal.protocol import Journal

if TYPE_CHECKING:
    from tercet.journal.database import DatabaseJournal
    from tercet.journal.errors import Loss

T = TypeVar("T")


def open_journal(
    url: str, *, patience_s: float | None = None, may_be_read_only: bool = False
) -> Opening[Journal]:
    """Open a journal by its address: `async with open_journal(url) as journal`, or `await open_journal(url)`.

    `patience_s` is how long to wait for a lock that another process holds, and for a server that went away: by default
    5 seconds for a lock and 45 for a server, so that a restart of half a minute is survived.
    With `may_be_read_only` a file that may not be written is opened all the same, and every append to it is refused.
    An address that names no journal raises `UsageError`; a store that cannot be opened, one of `JournalError`'s kinds.
    """
    return Opening(partial(_open, url, patience_s, may_be_read_only=may_be_read_only))


async def _open(url: str, patience_s: float | None, *, may_be_read_only: bool) -> Journal:
    # The drivers are imported where they are used: sqlite3 costs time that a process without a journal need not
    # spend, and asyncpg is an optional dependency.
    address = parse_address(url, JOURNAL)
    match address.backend:
        case "memory":
            return MemoryJournal()
        case "sqlite":
            from tercet.journal.sqlite import SqliteJournal  # noqa: PLC0415 - see above

            patience_s = LOCK_S if patience_s is None else patience_s
            return await SqliteJournal.open(
                address.path, patience_s=patience_s, may_be_read_only=may_be_read_only
            )
        case "postgres":
            with demand_driver(JOURNAL):
                from tercet.journal.postgres import PostgresJournal  # noqa: PLC0415 - see above
            return await PostgresJournal.open(url, patience_s=patience_s)


async def open_to_inspect(url: str, *, patience_s: float = LOCK_S) -> tuple[DatabaseJournal, Loss | None]:
    """Open a durable journal even if it is damaged, and return it with the durable commits that it lacks.

    A SQLite file is only read. Raises one of `JournalError`'s kinds if it cannot be read at all.
    """
    address = parse_address(url, JOURNAL)
    match address.backend:
        case "memory":
            raise JOURNAL.unknown_address(
                f"the journal {url!r} is not durable, so there is nothing to check",
                'name one with --journal: "sqlite:///runs.db" or "postgresql://host/database"',
            )
        case "sqlite":
            from tercet.journal.sqlite import SqliteJournal  # noqa: PLC0415 - as in _open

            return SqliteJournal.open_to_inspect(address.path, patience_s=patience_s)
        case "postgres":
            return cast("DatabaseJournal", await _open(url, patience_s, may_be_read_only=True)), None


async def accept_loss(
    url: str, mark: Callable[[DatabaseJournal, Loss], Awaitable[T]], *, patience_s: float = LOCK_S
) -> T | None:
    """Accept that a SQLite journal lacks durable commits: let `mark` record what is lost, then clear the commit log.

    Returns what `mark` returned; None if nothing is missing.
    """
    from tercet.journal.sqlite import SqliteJournal  # noqa: PLC0415 - as in _open

    address = parse_address(url, JOURNAL)
    if address.backend != "sqlite":
        return None
    return await SqliteJournal.accept_loss(address.path, mark, patience_s=patience_s)
