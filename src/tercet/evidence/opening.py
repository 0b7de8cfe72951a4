"""Opening a store of evidence by its address: `memory:`, `sqlite:///evidence.db`, `postgresql://…`."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from types import TracebackType
from typing import Any

from tercet.contracts.errors import UsageError, extra_missing
from tercet.evidence.memory import MemoryEvidence
from tercet.evidence.store import EvidenceStore
from tercet.journal.opening import short_of_slashes

SQLITE = "sqlite:///"
_POSTGRES = ("postgresql://", "postgres://")
_LOCK_S = 5.0
_REMEDY = 'use "memory:", "sqlite:///evidence.db" or "postgresql://host/database"'


class Opening:
    """A store about to be opened: await it, or enter it to have it closed at the end."""

    def __init__(self, url: str, patience_s: float | None) -> None:
        self._url = url
        self._patience_s = patience_s
        self._store: EvidenceStore | None = None

    def __await__(self) -> Generator[Any, Any, EvidenceStore]:
        return _open(self._url, self._patience_s).__await__()

    async def __aenter__(self) -> EvidenceStore:
        self._store = await self
        return self._store

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._store is not None:
            await self._store.close()


def open_evidence(url: str, *, patience_s: float | None = None) -> Opening:
    """A store by its address; `async with open_evidence(url) as store`, or `await open_evidence(url)`.

    `patience_s` is how long to wait for a lock, and for a server that went away: by default 5 and 45 seconds.
    An address that names no store raises `UsageError`; a store that cannot be opened, one of `StoreError`'s kinds.
    """
    return Opening(url, patience_s)


async def _open(url: str, patience_s: float | None) -> EvidenceStore:
    # The drivers are imported where they are used: sqlite3 costs time that a process without a store need not spend,
    # and asyncpg is an optional dependency.
    if url == "memory:":
        return MemoryEvidence()
    if url.startswith(SQLITE):
        from tercet.evidence.sqlite import SqliteEvidence  # noqa: PLC0415 - see above

        path, patience_s = _sqlite_path(url), _LOCK_S if patience_s is None else patience_s
        return await SqliteEvidence.open(path, patience_s=patience_s)
    if url.startswith(_POSTGRES):
        try:
            from tercet.evidence.postgres import PostgresEvidence  # noqa: PLC0415 - see above
        except ModuleNotFoundError as error:
            if error.name != "asyncpg":
                raise
            raise extra_missing("evidence on PostgreSQL", "asyncpg", "postgres") from error
        return await PostgresEvidence.open(url, patience_s=patience_s)
    if (path := short_of_slashes(url)) is not None:
        raise UsageError(
            f"{url!r} has too few slashes to be the address of a file",
            code="unknown_store",
            remedy=f'say "{SQLITE}{path}"; an absolute path makes four slashes',
        )
    scheme, colon, _ = url.partition(":")
    remedy = _REMEDY if colon or not url else f'for a file, say "{SQLITE}{url}"; else {_REMEDY}'
    raise UsageError(f"{scheme!r} is no kind of store", code="unknown_store", remedy=remedy)


def _sqlite_path(url: str) -> Path:
    name = url.removeprefix(SQLITE)
    if not name or name == ":memory:" or "\0" in name:
        raise UsageError(f"{url!r} names no file", code="unknown_store", remedy=_REMEDY)
    return Path(name)
