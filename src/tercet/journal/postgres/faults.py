"""What PostgreSQL's errors, and those of the way to it, mean to the user of a journal."""

from __future__ import annotations

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from tercet.journal.errors import JournalBusy, JournalCorrupt, JournalError, JournalFull, JournalUnavailable

LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
)
"""The connection is gone or cannot be had; whether the statement under way was done is not known.

`OSError` includes time-outs and refused connections; asyncpg says `InterfaceError` when it finds a connection closed,
and `InternalClientError` when it is cut while a failed transaction is being rolled back.
"""

NOT_YET = (asyncpg.CannotConnectNowError, asyncpg.TooManyConnectionsError)
"""The server answers, and takes no connection at the moment: it starts, stops, recovers, or has too many already."""

CONNECTIONS = 3
"""The most connections that a journal opens in one process: one that writes, and two that read."""

CONTENTION = (
    asyncpg.UniqueViolationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
)
"""Somebody else was quicker: nothing was done, and looking again tells more."""

FAILURES = (asyncpg.PostgresError, *LOST)
"""Everything that the driver raises when a statement was not carried out as asked."""


def is_lost(error: BaseException) -> bool:
    """Whether a statement has no answer that can be relied on: the connection is gone, or the server gave up.

    A server that panics, at the COMMIT for example, may find the transaction committed when it has recovered.
    """
    return isinstance(error, LOST) or getattr(error, "severity_en", None) in ("FATAL", "PANIC")


def translate(error: BaseException, place: str) -> JournalError:
    """The journal's error for one of the driver's."""
    reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    match error:
        case asyncpg.LockNotAvailableError() | asyncpg.QueryCanceledError():
            return JournalBusy(place, reason)
        case asyncpg.DiskFullError() | asyncpg.ProgramLimitExceededError() | asyncpg.OutOfMemoryError():
            return JournalFull(place, reason)
        case asyncpg.UniqueViolationError() if error.table_name in ("events", "checkpoints"):  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
            return JournalCorrupt(place, f"it holds a row that no stream knows of ({reason})")
        case asyncpg.DataCorruptedError() | asyncpg.IndexCorruptedError():
            return JournalCorrupt(place, reason)
        case asyncpg.TooManyConnectionsError():
            remedy = (
                f"raise max_connections of the server, or run fewer processes: each opens up to {CONNECTIONS}"
                f" connections for its journal, and up to {CONNECTIONS} for evidence on the same server"
            )
            return JournalUnavailable(place, reason, remedy=remedy)
        case asyncpg.InvalidCatalogNameError():
            return JournalUnavailable(place, reason, remedy="create the database, then try again")
        case asyncpg.InvalidAuthorizationSpecificationError() | asyncpg.InsufficientPrivilegeError():
            return JournalUnavailable(
                place, reason, remedy="give the user of the address the right to use the database"
            )
        case _:
            return JournalUnavailable(
                place, reason, remedy="see that the server runs and takes writes, then try again"
            )
