"""Opening a journal by its address: `memory:`, `sqlite:///runs.db`, `postgresql://…`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tercet.contracts.errors import UsageError, extra_missing
from tercet.journal.memory import MemoryJournal
from tercet.journal.protocol import Journal

if TYPE_CHECKING:
    from tercet.journal.database import DatabaseJournal
    from tercet.journal.errors import Loss

T = TypeVar("T")

_SQLITE = "sqlite:///"
_POSTGRES = ("postgresql://", "postgres://")
_LOCK_S = 5.0
_REMEDY = 'use "memory:", "sqlite:///runs.db", "sqlite:////var/lib/runs.db" or "postgresql://host/database"'


class Opening:
    """A journal about to be opened: await it, or enter it to have it closed at the end."""

    def __init__(self, url: str, patience_s: float | None, *, may_be_read_only: bool) -> None:
        self._url = url
        self._patience_s = patience_s
        self._may_be_read_only = may_be_read_only
        self._journal: Journal | None = None

    def __await__(self) -> Generator[Any, Any, Journal]:
        return _open(self._url, self._patience_s, may_be_read_only=self._may_be_read_only).__await__()

    async def __aenter__(self) -> Journal:
        self._journal = await self
        return self._journal

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._journal is not None:
            await self._journal.close()


def open_journal(url: str, *, patience_s: float | None = None, may_be_read_only: bool = False) -> Opening:
    """A journal by its address; `async with open_journal(url) as journal`, or `await open_journal(url)`.

    `patience_s` is how long to wait for a lock that another process holds, and for a server that went away: by default
    5 seconds for a lock and 45 for a server, so that a restart of half a minute is survived.
    With `may_be_read_only` a file that may not be written is opened all the same, and every append to it is refused.
    An address that names no journal raises `UsageError`; a store that cannot be opened, one of `JournalError`'s kinds.
    """
    return Opening(url, patience_s, may_be_read_only=may_be_read_only)


async def _open(url: str, patience_s: float | None, *, may_be_read_only: bool) -> Journal:
    # The drivers are imported where they are used: sqlite3 costs time that a process without a journal need not
    # spend, and asyncpg is an optional dependency.
    if url == "memory:":
        return MemoryJournal()
    if url.startswith(_SQLITE):
        path = _sqlite_path(url)
        from tercet.journal.sqlite import SqliteJournal  # noqa: PLC0415 - see above

        return await SqliteJournal.open(
            path, patience_s=_LOCK_S if patience_s is None else patience_s, may_be_read_only=may_be_read_only
        )
    if url.startswith(_POSTGRES):
        try:
            from tercet.journal.postgres import PostgresJournal  # noqa: PLC0415 - see above
        except ModuleNotFoundError as error:
            if error.name != "asyncpg":
                raise
            raise extra_missing("a journal on PostgreSQL", "asyncpg", "postgres") from error
        return await PostgresJournal.open(url, patience_s=patience_s)
    if (path := short_of_slashes(url)) is not None:
        raise UsageError(
            f"{url!r} has too few slashes to be the address of a file",
            code="unknown_journal",
            remedy=f'say "{_SQLITE}{path}"; an absolute path makes four slashes, "{_SQLITE}/var/lib/runs.db"',
        )
    scheme, colon, _ = url.partition(":")
    remedy = _REMEDY if colon or not url else f'for a file, say "{_SQLITE}{url}"; else {_REMEDY}'
    raise UsageError(f"{scheme!r} is no kind of journal", code="unknown_journal", remedy=remedy)


async def open_to_inspect(url: str, *, patience_s: float = 5.0) -> tuple[DatabaseJournal, Loss | None]:
    """Open a durable journal even if it is damaged, and return it with the durable commits that it lacks.

    A SQLite file is only read. Raises one of `JournalError`'s kinds if it cannot be read at all.
    """
    if url.startswith(_SQLITE):
        from tercet.journal.sqlite.inspection import inspect_file  # noqa: PLC0415 - as in _open

        return inspect_file(_sqlite_path(url), patience_s=patience_s)
    if not url.startswith(_POSTGRES):
        raise UsageError(
            f"the journal {url!r} is not durable, so there is nothing to check",
            code="unknown_journal",
            remedy='name one with --journal: "sqlite:///runs.db" or "postgresql://host/database"',
        )
    return cast("DatabaseJournal", await _open(url, patience_s, may_be_read_only=True)), None


async def accept_loss(
    url: str, mark: Callable[[DatabaseJournal, Loss], Awaitable[T]], *, patience_s: float = 5.0
) -> T | None:
    """Accept that a SQLite journal lacks durable commits: let `mark` record what is lost, then clear the commit log.

    Returns what `mark` returned; None if nothing is missing.
    """
    from tercet.journal.sqlite.inspection import accept_file_loss  # noqa: PLC0415 - as in _open

    path = _sqlite_path(url) if url.startswith(_SQLITE) else None
    return None if path is None else await accept_file_loss(path, mark, patience_s=patience_s)


def short_of_slashes(url: str) -> str | None:
    """The file that is meant by `sqlite:runs.db` or `sqlite://runs.db`; None if the address is none of these."""
    scheme, _, rest = url.partition(":")
    if scheme != "sqlite" or url.startswith(_SQLITE):
        return None
    return rest.removeprefix("//") or None


def _sqlite_path(url: str) -> Path:
    name = url.removeprefix(_SQLITE)
    if not name or name == ":memory:" or "\0" in name:
        raise UsageError(f"{url!r} names no file", code="unknown_journal", remedy=_REMEDY)
    return Path(name)
