"""PostgreSQL servers as stores: connections, migrations, pools that survive outages, and what the driver's errors mean.

The package `asyncpg` ships no types, so the part of it that the stores use is described here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar, cast
from urllib.parse import urlsplit

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from tercet.contracts.errors import TercetError
from tercet.database.schema import LOCK_S, Schema, StoreKind

CONNECT_S = 10.0
"""How long one attempt to connect may take."""
IDLE_S = 2.0
"""How long a connection of a pool is kept for the next query."""
OUTAGE_S = 45.0
"""A server that restarts is away for up to half a minute, and then may need a moment to recover."""
RETRY_S = 0.05
READER = "tercet_reader"
"""The role that queries for one tenant have: a policy of each table hides the rows of others from it."""
CONNECTIONS = 3
"""The most connections that a store opens in one process: for a journal, one that writes and two that read."""

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
"""The connection is gone or cannot be had; whether the statement in progress was done is not known.

`OSError` includes time-outs and refused connections; asyncpg says `InterfaceError` when it finds a connection closed,
and `InternalClientError` when it is cut while a failed transaction is being rolled back.
"""
NOT_YET = (asyncpg.CannotConnectNowError, asyncpg.TooManyConnectionsError)
"""The server answers, and takes no connection at the moment: it starts, stops, recovers, or has too many already."""
CONTENTION = (asyncpg.UniqueViolationError, asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
"""Another transaction was quicker: nothing was done, and looking again tells more."""
FAILURES = (asyncpg.PostgresError, *LOST)
"""Everything that the driver raises when a statement was not carried out as asked."""

ROLE_REMEDY = f"let an administrator of the server run: CREATE ROLE {READER} NOLOGIN; GRANT {READER} TO user"
_MAKE_READER = f"""
DO $$ BEGIN
    CREATE ROLE {READER} NOLOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;  -- another database of the server has it too
END $$;
GRANT {READER} TO CURRENT_USER
"""
_CHECK_ROLES = """
SELECT coalesce(pg_has_role(to_regrole($1), 'MEMBER'), false), coalesce(bool_or(row_security_active(c.oid)), false)
  FROM pg_catalog.pg_class AS c
 WHERE c.relnamespace = 'tercet'::regnamespace AND c.relrowsecurity
"""
_LIMIT = "SELECT set_config('role', $1, false), set_config('tercet.tenant', $2, false)"

T = TypeVar("T")


class Connection(Protocol):
    """One connection to a server. Rows are sequences that also know their columns by name."""

    async def execute(self, query: str, *args: Any) -> str:
        """Run a statement, or without arguments a whole script."""
        ...

    async def fetch(self, query: str, *args: Any) -> list[Any]:
        """Return all rows of a query."""
        ...

    async def fetchrow(self, query: str, *args: Any) -> Any:
        """Return the first row of a query, or None."""
        ...

    async def fetchval(self, query: str, *args: Any) -> Any:
        """Return the first column of the first row, or None."""
        ...

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """Begin a transaction that is rolled back when the block raises."""
        ...

    def is_closed(self) -> bool:
        """Return whether the connection is gone, as far as this side knows."""
        ...

    async def close(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109 - asyncpg's own name
        """Say goodbye to the server."""
        ...

    def terminate(self) -> None:
        """Drop the connection without a word."""
        ...


async def connect(url: str, *, settings: dict[str, str]) -> Connection:
    """Open one connection."""
    driver = cast("Any", asyncpg)
    return cast("Connection", await driver.connect(url, timeout=CONNECT_S, server_settings=settings))


class Server:
    """Where a store is, and how long to wait for it: `patience_s`, or 5 seconds for locks and 45 for a server that is
    away."""

    def __init__(self, url: str, schema: Schema, *, patience_s: float | None = None) -> None:
        self.url = url
        self.schema = schema
        self.patience_s = LOCK_S if patience_s is None else patience_s
        self.outage_s = OUTAGE_S if patience_s is None else patience_s
        self.place = name_place(url)

    def settings(self) -> dict[str, str]:
        """Return what a store relies on, whatever the server's own settings are."""
        return {
            "application_name": "tercet",
            # A commit that is acknowledged is on the disk.
            "synchronous_commit": "on",
            # The journal's checks look again after waiting for a lock, which only this level does.
            "default_transaction_isolation": "read committed",
            # A plan that was made while a table was small stays in use while it grows; so streams and sessions are found
            # by their indexes from the start.
            "enable_seqscan": "off",
            "lock_timeout": f"{max(1, int(self.patience_s * 1000))}ms",
        }

    async def open(self) -> Connection:
        """Return the first connection, with the schema brought up to date. Raises the store's errors.

        It waits, up to the patience for locks, for a server that answers and has no room yet. A server that does not
        answer at all raises at once: the address may be wrong.
        """
        deadline = asyncio.get_running_loop().time() + self.patience_s
        try:
            connection = await self._connect_until(deadline, NOT_YET)
            try:
                await migrate(connection, self.schema, self.place)
                await self._check_roles(connection)
            except BaseException:
                connection.terminate()
                raise
        except FAILURES as error:
            raise self.translate(error) from error
        return connection

    async def reconnect(self, deadline: float) -> Connection:
        """Return a connection after one was lost: tries until the deadline on the loop's clock, at least once."""
        return await self._connect_until(deadline, LOST)

    async def _check_roles(self, connection: Connection) -> None:
        """Raise the store's error unless tenants can be kept apart: a reader may be limited to one, and the writer is not."""
        is_member, is_limited = await connection.fetchrow(_CHECK_ROLES, READER)
        if not is_member:
            raise self.schema.kind.unavailable(
                self.place, f"its user may not act as the role {READER}", remedy=ROLE_REMEDY
            )
        if is_limited:
            raise self.schema.kind.unavailable(
                self.place,
                "its user does not own the tables of the schema tercet, so their policies hide every row",
                remedy="connect as their owner, or let an administrator run: GRANT owner TO user",
            )

    def translate(self, error: BaseException) -> TercetError:
        """Return the store's error for one of the driver's."""
        return translate(error, self.schema.kind, self.place)

    async def _connect_until(self, deadline: float, passing: tuple[type[Exception], ...]) -> Connection:
        clock = asyncio.get_running_loop()
        while True:
            try:
                return await connect(self.url, settings=self.settings())
            except (asyncpg.ClientConfigurationError, ValueError) as error:
                raise self.schema.kind.unknown_address(
                    f"{self.place} is not the address of a PostgreSQL database: {error}",
                    'use "postgresql://user@host/database"',
                ) from error
            except passing:
                if clock.time() + RETRY_S >= deadline:
                    raise
                await asyncio.sleep(RETRY_S)


def name_place(url: str) -> str:
    """Return an address without user and password, for messages."""
    try:
        parts = urlsplit(url)
    except ValueError:  # brackets that hold no address; connecting to it says so
        return "postgresql://…"
    return f"postgresql://{parts.netloc.rpartition('@')[2]}{parts.path}"


async def migrate(connection: Connection, schema: Schema, place: str) -> None:
    """Run the migrations that a database lacks, all in one transaction; refuse one from a newer version."""
    if await _read_version(connection, schema, place) == schema.version:
        return
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", schema.kind.migration_lock)
        version = await _read_version(connection, schema, place)
        await make_reader(connection, schema, place)
        await connection.execute(
            "CREATE SCHEMA IF NOT EXISTS tercet;"
            f"CREATE TABLE IF NOT EXISTS tercet.{schema.table} (version integer PRIMARY KEY)"
        )
        for migration in schema.migrations:
            if migration.version > version:
                await connection.execute(migration.script)
                await connection.execute(
                    f"INSERT INTO tercet.{schema.table} (version) VALUES ($1)",  # noqa: S608 - our own name
                    migration.version,
                )


async def make_reader(connection: Connection, schema: Schema, place: str) -> None:
    """Make the role of readers, unless this user may act as it already."""
    if await connection.fetchval("SELECT pg_has_role(to_regrole($1), 'MEMBER')", READER):
        return
    try:
        await connection.execute(_MAKE_READER)
    except asyncpg.InsufficientPrivilegeError as error:
        reason = f"its user may not make the role {READER}, or not act as it"
        raise schema.kind.unavailable(place, reason, remedy=ROLE_REMEDY) from error


async def _read_version(connection: Connection, schema: Schema, place: str) -> int:
    """Return the schema version of a database; 0 for one without such a store."""
    # Not to_regclass: it believes a cache, which still says "not there" after waiting for another's migration.
    found = "SELECT true FROM pg_catalog.pg_tables WHERE schemaname = 'tercet' AND tablename = $1"
    if await connection.fetchval(found, schema.table) is None:
        return 0
    newest = f"SELECT coalesce(max(version), 0) FROM tercet.{schema.table}"  # noqa: S608 - our own name
    return schema.demand_known(await connection.fetchval(newest), place)


class PostgresSession:
    """A connection to a server, for code that is written for any database."""

    def __init__(self, connection: Connection, schema: Schema) -> None:
        self._connection = connection
        self._queries = schema.queries

    async def fetch(self, query: str, *parameters: Any) -> list[Any]:
        """Return all rows of a query."""
        return await self._connection.fetch(self._queries[query], *parameters)

    async def fetch_row(self, query: str, *parameters: Any) -> Any:
        """Return the first row of a query, or None."""
        return await self._connection.fetchrow(self._queries[query], *parameters)

    async def fetch_value(self, query: str, *parameters: Any) -> Any:
        """Return the first column of the first row, or None."""
        return await self._connection.fetchval(self._queries[query], *parameters)

    async def execute(self, query: str, *parameters: Any) -> None:
        """Run a statement."""
        await self._connection.execute(self._queries[query], *parameters)

    async def try_execute(self, query: str, *parameters: Any) -> bool:
        """Run a statement; return False if another transaction was quicker."""
        try:
            await self.execute(query, *parameters)
        except CONTENTION:
            return False
        return True


class Pooled(asyncpg.Connection):  # pyright: ignore[reportUnknownMemberType, reportUntypedBaseClass]
    """A connection of a pool that knows whose rows it sees: it is limited to one tenant, or to none."""

    limit: tuple[str, str] | None = ("none", "")

    async def limit_to(self, tenant: str | None) -> None:
        """See the rows of one tenant only; those of all with None. The server is asked where that is a change."""
        limit = ("none", "") if tenant is None else (READER, tenant)
        if limit != self.limit:
            self.limit = None  # not known until the server has answered
            await cast("Connection", self).execute(_LIMIT, *limit)
            self.limit = limit


async def _keep(connection: object) -> None:
    """Keep the settings of a connection that goes back to its pool; asyncpg would ask the server to reset them each time."""


class Pool:
    """A few connections that are opened when they are needed; one that is lost is replaced until patience ends."""

    def __init__(self, server: Server, *, most: int, is_read_only: bool = False) -> None:
        self._server = server
        self._most = most
        self._is_read_only = is_read_only
        self._pool: Any = None
        self._closed = False

    async def open(self) -> None:
        """Make the pool. The server has been connected to before, so an error here is a passing one."""
        server = self._server
        self._pool = await cast("Any", asyncpg).create_pool(
            server.url,
            min_size=0,
            max_size=self._most,
            max_inactive_connection_lifetime=IDLE_S,
            timeout=CONNECT_S,
            connection_class=Pooled,
            reset=_keep,
            server_settings=server.settings()
            | ({"default_transaction_read_only": "on"} if self._is_read_only else {}),
        )

    async def read(self, tenant: str | None, act: Callable[[PostgresSession], Coroutine[Any, Any, T]]) -> T:
        """Run queries for one tenant, or with None for all; again over a new connection while one is lost and patience
        lasts."""

        async def attempt(connection: Connection) -> T:
            return await act(PostgresSession(connection, self._server.schema))

        return await self._run(attempt, may_repeat=lambda: True, tenant=tenant)

    async def write(
        self, act: Callable[[PostgresSession], Coroutine[Any, Any, T]], *, is_repeatable: bool = False
    ) -> T:
        """Run something in one transaction; again over a new connection while one is lost and patience lasts.

        Once the COMMIT has been sent it is not run again, unless it is repeatable: doing it twice must then be the same
        as doing it once.
        """
        is_sent = False

        async def attempt(connection: Connection) -> T:
            nonlocal is_sent
            async with connection.transaction():
                done = await act(PostgresSession(connection, self._server.schema))
                is_sent = True
            return done

        return await self._run(attempt, may_repeat=lambda: is_repeatable or not is_sent)

    async def _run(
        self,
        act: Callable[[Connection], Awaitable[T]],
        *,
        may_repeat: Callable[[], bool],
        tenant: str | None = None,
    ) -> T:
        clock = asyncio.get_running_loop()
        deadline = clock.time() + self._server.outage_s
        while True:
            if self._closed or self._pool is None:
                raise self._server.schema.kind.closed()
            try:
                async with self._pool.acquire() as connection:
                    await connection.limit_to(tenant)
                    return await act(connection)
            except LOST as error:
                if not may_repeat():
                    raise self._unknown(error) from error
                if clock.time() + RETRY_S >= deadline:
                    raise self._server.translate(error) from error
            except FAILURES as error:
                raise self._server.translate(error) from error
            await asyncio.sleep(RETRY_S)

    def _unknown(self, error: Exception) -> TercetError:
        return self._server.schema.kind.unavailable(
            self._server.place,
            f"{type(error).__name__}: {error}; the change under way was either stored whole or not at all",
            remedy="when the store is back, look whether the change is there",
        )

    async def close(self) -> None:
        """Wait for what is in progress and disconnect."""
        if self._closed or self._pool is None:
            return
        self._closed = True
        try:
            await asyncio.wait_for(self._pool.close(), self._server.patience_s)
        except FAILURES:
            self._pool.terminate()


def is_lost(error: BaseException) -> bool:
    """Return whether a statement has no answer that can be relied on: the connection is gone, or the server gave up.

    A server that panics, at the COMMIT for example, may find the transaction committed when it has recovered.
    """
    return isinstance(error, LOST) or getattr(error, "severity_en", None) in ("FATAL", "PANIC")


def translate(error: BaseException, kind: StoreKind, place: str) -> TercetError:
    """Return the store's error for one of the driver's."""
    reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    match error:
        case asyncpg.LockNotAvailableError() | asyncpg.QueryCanceledError():
            return kind.busy(place, reason)
        case asyncpg.DiskFullError() | asyncpg.ProgramLimitExceededError() | asyncpg.OutOfMemoryError():
            return kind.full(place, reason)
        case asyncpg.UniqueViolationError() if error.table_name in ("events", "checkpoints"):  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
            return kind.corrupt(place, f"it holds a row that no stream knows of ({reason})")
        case asyncpg.DataCorruptedError() | asyncpg.IndexCorruptedError():
            return kind.corrupt(place, reason)
        case asyncpg.TooManyConnectionsError():
            remedy = (
                f"raise max_connections of the server, or run fewer processes: each opens up to {CONNECTIONS}"
                f" connections for its journal, and up to {CONNECTIONS} for evidence on the same server"
            )
        case asyncpg.InvalidCatalogNameError():
            remedy = "create the database, then try again"
        case asyncpg.InvalidAuthorizationSpecificationError() | asyncpg.InsufficientPrivilegeError():
            remedy = "give the user of the address the right to use the database"
        case _:
            remedy = "see that the server runs and takes writes, then try again"
    return kind.unavailable(place, reason, remedy=remedy)
