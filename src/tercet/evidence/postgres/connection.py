"""Connecting to a PostgreSQL server as a store of evidence: a pool, the schema brought up to date, and its errors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar, cast

from tercet.contracts.errors import UsageError
from tercet.evidence.errors import (
    NewerStore,
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from tercet.journal.errors import JournalBusy, JournalCorrupt, JournalFull
from tercet.journal.postgres import driver, faults
from tercet.journal.postgres.connection import RETRY_S, Server
from tercet.journal.postgres.driver import Connection
from tercet.journal.sqlfiles import read_migrations, read_queries, read_schema

PACKAGE = "tercet.evidence.postgres"
QUERIES = read_queries(PACKAGE)
MIGRATIONS = read_migrations(PACKAGE)

_MIGRATION_LOCK = 0x7E7C_E702

T = TypeVar("T")


class Pool(Protocol):
    """Connections that are lent."""

    def acquire(self) -> AbstractAsyncContextManager[Connection]:
        """Borrow one."""
        ...

    async def close(self) -> None:
        """Wait until all connections are back, and close them."""
        ...

    def terminate(self) -> None:
        """Drop all connections."""
        ...


class Connections:
    """A pool of connections to one database."""

    def __init__(self, url: str, *, patience_s: float | None) -> None:
        self._server = Server(url, patience_s=patience_s)
        self._pool: Pool | None = None
        self._closed = False

    async def open(self) -> None:
        """Connect, and bring the schema up to date."""
        server = self._server
        try:
            first = await server.connect_first()
            try:
                await migrate(first, server.place)
            finally:
                await first.close()
            pool = await driver.create_pool(
                server.url,
                most=faults.CONNECTIONS,
                settings=server.settings(),
            )
        except faults.FAILURES as error:
            raise translate(error, server.place) from error
        except UsageError as error:
            raise UsageError(error.message, code="unknown_store", remedy=error.remedy) from error
        self._pool = cast("Pool", pool)

    async def write(self, act: Callable[[Connection], Awaitable[T]], *, is_repeatable: bool = False) -> T:
        """Run something in one transaction; again over a new connection while one is lost and patience lasts.

        Once the COMMIT has been sent it is not run again, unless it is repeatable: doing it twice must then be the same
        as doing it once.
        """
        is_sent = False

        async def attempt(connection: Connection) -> T:
            nonlocal is_sent
            async with connection.transaction():
                done = await act(connection)
                is_sent = True
            return done

        return await self._run(attempt, may_repeat=lambda: is_repeatable or not is_sent)

    async def read(self, act: Callable[[Connection], Awaitable[T]]) -> T:
        """Run queries; again over a new connection while one is lost and patience lasts."""
        return await self._run(act, may_repeat=lambda: True)

    async def _run(self, act: Callable[[Connection], Awaitable[T]], *, may_repeat: Callable[[], bool]) -> T:
        clock = asyncio.get_running_loop()
        deadline = clock.time() + self._server.outage_s
        while True:
            try:
                async with self._lent() as connection:
                    return await act(connection)
            except faults.LOST as error:
                if not may_repeat():
                    raise _unknown(error, self._server.place) from error
                if clock.time() + RETRY_S >= deadline:
                    raise translate(error, self._server.place) from error
            except faults.FAILURES as error:
                raise translate(error, self._server.place) from error
            await asyncio.sleep(RETRY_S)

    async def close(self) -> None:
        """Wait for what is under way and disconnect."""
        if self._closed or self._pool is None:
            return
        self._closed = True
        try:
            await asyncio.wait_for(self._pool.close(), self._server.patience_s)
        except faults.FAILURES:
            self._pool.terminate()

    def _lent(self) -> AbstractAsyncContextManager[Connection]:
        if self._closed or self._pool is None:
            raise StoreClosed
        return self._pool.acquire()


async def migrate(connection: Connection, place: str) -> None:
    """Run the migrations that the database lacks, all in one transaction; refuse one from a newer version."""
    known = MIGRATIONS[-1].version
    if await _read_version(connection, place, known) == known:
        return
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _MIGRATION_LOCK)
        version = await _read_version(connection, place, known)
        await connection.execute(read_schema(PACKAGE))
        for migration in MIGRATIONS:
            if migration.version > version:
                await connection.execute(migration.script)
                await connection.execute(
                    "INSERT INTO tercet.evidence_schema (version) VALUES ($1)", migration.version
                )


async def _read_version(connection: Connection, place: str, known: int) -> int:
    found = (
        "SELECT true FROM pg_catalog.pg_tables WHERE schemaname = 'tercet' AND tablename = 'evidence_schema'"
    )
    if await connection.fetchval(found) is None:
        return 0
    version: int = await connection.fetchval("SELECT coalesce(max(version), 0) FROM tercet.evidence_schema")
    if version > known:
        raise NewerStore(place, version=version, known=known)
    return version


def _unknown(error: BaseException, place: str) -> StoreError:
    reason = f"{type(error).__name__}: {error}; the change under way was either stored whole or not at all"
    return StoreUnavailable(place, reason, remedy="when the store is back, look whether the change is there")


def translate(error: BaseException, place: str) -> StoreError:
    """The store's error for one of the driver's."""
    known = faults.translate(error, place)
    reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    match known:
        case JournalBusy():
            return StoreBusy(place, reason)
        case JournalFull():
            return StoreFull(place, reason)
        case JournalCorrupt():
            return StoreCorrupt(place, reason)
        case _:
            return StoreUnavailable(place, reason, remedy=known.remedy or "see that it can be reached")
