"""Connecting to a PostgreSQL server as a journal: the settings, and the schema brought up to date in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from urllib.parse import urlsplit

from tercet.contracts.errors import UsageError
from tercet.journal.errors import NewerJournal
from tercet.journal.postgres import driver
from tercet.journal.postgres.driver import Connection
from tercet.journal.postgres.faults import LOST, NOT_YET
from tercet.journal.sqlfiles import Migration, read_migrations, read_queries, read_schema

QUERIES = read_queries("tercet.journal.postgres")
MIGRATIONS = read_migrations("tercet.journal.postgres")

_MIGRATION_LOCK = 0x7E7C_E701
"""The advisory lock that keeps two processes from migrating at once."""

LOCK_PATIENCE_S = 5.0
OUTAGE_PATIENCE_S = 45.0
"""A server that restarts is away for up to half a minute, and then may need a moment to recover."""
RETRY_S = 0.05


class Server:
    """Where the journal is, and how long to wait for it.

    `patience_s` is how long to wait for locks and for a server that is away; without it, 5 seconds for locks and 45 for
    a server that is away.
    """

    def __init__(self, url: str, *, patience_s: float | None = None) -> None:
        self.url = url
        self.patience_s = LOCK_PATIENCE_S if patience_s is None else patience_s
        self.outage_s = OUTAGE_PATIENCE_S if patience_s is None else patience_s
        self.place = name_place(url)

    def settings(self) -> dict[str, str]:
        """What the journal relies on, whatever the server's own settings are."""
        return {
            "application_name": "tercet",
            # A commit that is acknowledged is on the disk.
            "synchronous_commit": "on",
            # The checks in `store` look again after waiting for a lock, which only this level does.
            "default_transaction_isolation": "read committed",
            # A plan that was made while a table was small stays in use while it grows; so streams and sessions are found
            # by their indexes from the start.
            "enable_seqscan": "off",
            "lock_timeout": f"{max(1, int(self.patience_s * 1000))}ms",
        }

    async def connect(self) -> Connection:
        """A connection of one's own. Raises the driver's errors."""
        try:
            return await driver.connect(self.url, settings=self.settings())
        except (driver.ClientConfigurationError, ValueError) as error:
            raise UsageError(
                f"{self.place} is no address of a PostgreSQL database: {error}",
                code="unknown_journal",
                remedy='use "postgresql://user@host/database"',
            ) from error

    async def connect_first(self) -> Connection:
        """The first connection. It waits, up to the patience for locks, for a server that answers and has no room yet.

        A server that does not answer at all raises at once: the address may be wrong.
        """
        return await self._connect_until(asyncio.get_running_loop().time() + self.patience_s, NOT_YET)

    async def reconnect(self, deadline: float) -> Connection:
        """A connection after one was lost: tries until the deadline on the loop's clock, at least once."""
        return await self._connect_until(deadline, LOST)

    async def _connect_until(self, deadline: float, passing: tuple[type[Exception], ...]) -> Connection:
        clock = asyncio.get_running_loop()
        while True:
            try:
                return await self.connect()
            except passing:
                if clock.time() + RETRY_S >= deadline:
                    raise
                await asyncio.sleep(RETRY_S)


def name_place(url: str) -> str:
    """The address without user and password, for messages."""
    try:
        parts = urlsplit(url)
    except ValueError:  # brackets that hold no address; connecting to it says so
        return "postgresql://…"
    return f"postgresql://{parts.netloc.rpartition('@')[2]}{parts.path}"


async def migrate(connection: Connection, place: str, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Run the migrations that the database lacks, all in one transaction; refuse one from a newer version."""
    known = migrations[-1].version
    if await _read_version(connection, place, known) == known:
        return
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _MIGRATION_LOCK)
        version = await _read_version(connection, place, known)
        await connection.execute(read_schema("tercet.journal.postgres"))
        for migration in migrations:
            if migration.version > version:
                await connection.execute(migration.script)
                await connection.execute(
                    "INSERT INTO tercet.journal_schema (version) VALUES ($1)", migration.version
                )


async def _read_version(connection: Connection, place: str, known: int) -> int:
    """The schema version of a database; 0 for one without a journal. A newer one is refused."""
    # Not to_regclass: it believes a cache, which still says "not there" after waiting for another's migration.
    found = (
        "SELECT true FROM pg_catalog.pg_tables WHERE schemaname = 'tercet' AND tablename = 'journal_schema'"
    )
    if await connection.fetchval(found) is None:
        return 0
    version: int = await connection.fetchval("SELECT coalesce(max(version), 0) FROM tercet.journal_schema")
    if version > known:
        raise NewerJournal(place, version=version, known=known)
    return version
