"""The journal on PostgreSQL, and its writer: acts gather while a batch is in progress, and go out when it is done.

One task owns one connection. There is never more than one statement in flight, so acts on one stream are carried out
in the order in which they were submitted. A caller that is cancelled leaves its act behind: the task does not know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, TypeAlias, cast

from tercet.database.postgres import CONNECTIONS, FAILURES, Connection, Pool, Server, is_lost
from tercet.journal.database import DatabaseJournal, settle
from tercet.journal.errors import JournalClosed
from tercet.journal.postgres.batch import Batcher
from tercet.journal.postgres.delivery import Delivery, Outcome
from tercet.journal.postgres.rows import SCHEMA
from tercet.journal.stream import Act

Waiting: TypeAlias = tuple[Act, "asyncio.Future[Any]"]

_MOST = 512
"""The most acts in one batch."""
_FEW = 16
"""So many acts go out together. Of more, one half goes first: while the server stores it, the callers of the half before it
go on, and neither this process nor the server waits for the other."""


class Writer:
    """Owns the writing connection and the task that uses it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._batcher = Batcher(server.place)
        self._connection: Connection | None = None
        self._gathered: list[Waiting] = []
        self._wake = asyncio.Event()
        self._closed = False
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect, bring the schema up to date, and start the task."""
        self._connection = await self._server.open()
        self._task = self._loop.create_task(self._serve())

    def submit(self, act: Act) -> asyncio.Future[Any]:
        """Submit an act; the future holds its outcome once it is durable."""
        if self._closed:
            raise JournalClosed
        future = self._loop.create_future()
        self._gathered.append((act, future))
        self._wake.set()
        return future

    async def close(self) -> None:
        """Let the task finish what was submitted, and disconnect."""
        self._closed = True
        self._wake.set()
        if self._task is not None:
            await asyncio.shield(self._task)
        await self._disconnect()

    async def _serve(self) -> None:
        while self._gathered or not self._closed:
            if not self._gathered:
                self._wake.clear()
                await self._wake.wait()
                continue
            number = min(max(_FEW, (len(self._gathered) + 1) // 2), _MOST)
            waiting = [each for each in self._gathered[:number] if not each[1].cancelled()]
            del self._gathered[:number]
            outcomes = await self._carry_out([act for act, _ in waiting])
            settle([future for _, future in waiting], outcomes)

    async def _carry_out(self, acts: Sequence[Act]) -> list[Outcome]:
        """The outcome of every act, over new connections while they are lost and patience lasts.

        All acts of a batch share one deadline, which begins when the connection is found to be lost.
        """
        deliveries = [Delivery(act) for act in acts]
        deadline = self._loop.time() + self._server.outage_s
        try:
            connection = await self._connected(deadline)
        except Exception as error:  # noqa: BLE001 - whatever it is, the callers must hear of it and the task live on
            for delivery in deliveries:
                self._give_up(delivery, error)
            return [cast("Outcome", delivery.outcome) for delivery in deliveries]
        try:
            await self._batcher.run(connection, deliveries)
        except Exception:  # noqa: BLE001 - what has no outcome is looked at on its own, and answered then
            self._drop()
            deadline = self._loop.time() + self._server.outage_s
        lost: Exception | None = None
        for delivery in deliveries:
            if delivery.outcome is None and lost is None:
                lost = await self._deliver(delivery, deadline)
            if delivery.outcome is None and lost is not None:
                self._give_up(delivery, lost)
        return [cast("Outcome", delivery.outcome) for delivery in deliveries]

    async def _deliver(self, delivery: Delivery, deadline: float) -> Exception | None:
        """Carry one act out the careful way; or return why the server cannot be reached any more."""
        while delivery.outcome is None:
            try:
                connection = await self._connected(deadline)
            except Exception as error:  # noqa: BLE001 - as above
                return error
            try:
                await self._batcher.run_carefully(connection, delivery)
            except Exception as error:  # noqa: BLE001 - as above
                if not is_lost(error):
                    self._give_up(delivery, error)
                    return None
                self._drop()
                if self._loop.time() >= deadline:
                    return error
        return None

    def _give_up(self, delivery: Delivery, error: Exception) -> None:
        delivery.give_up(self._server.translate(error), self._server.place)

    async def _connected(self, deadline: float) -> Connection:
        if self._connection is None or self._connection.is_closed():
            self._batcher.forget()
            self._connection = await self._server.reconnect(deadline)
        return self._connection

    def _drop(self) -> None:
        """Let go of a connection that is lost, or whose state is not known."""
        connection, self._connection = self._connection, None
        self._batcher.forget()
        if connection is not None and not connection.is_closed():
            connection.terminate()

    async def _disconnect(self) -> None:
        """Close the connection, if the server still answers."""
        connection, self._connection = self._connection, None
        if connection is None or connection.is_closed():
            return
        try:
            await connection.close(timeout=self._server.patience_s)
        except FAILURES:
            connection.terminate()


ACROSS_TENANTS = frozenset(
    {
        "list_resumable",
        "list_unfinished",
        "list_reminders",
        "check_streams",
        "check_sessions",
        "check_claims",
        "check_blobs",
        "check_blob_uses",
        "check_foreign_rows",
    }
)
"""The queries that see the rows of all tenants: what a worker and a notifier look for, and the check of a whole journal."""


class Reader(Pool):
    """Reads for one tenant at a time; the server hides the rows of others."""

    async def rows(self, query: str, *parameters: Any) -> list[Any]:
        """Return all rows that a named query finds; unless it is for all tenants, its first parameter is the tenant."""
        tenant = None if query in ACROSS_TENANTS else parameters[0]
        return await self.read(tenant, lambda session: session.fetch(query, *parameters))


class PostgresJournal(DatabaseJournal):
    """A durable journal on a server, for many machines. Open it with `open_journal("postgresql://host/database")`."""

    _server: Server

    async def purge(self) -> None:
        """Let the server drop removed rows now, and not at its next clean-up."""
        connection = await self._server.open()
        try:
            for table in ("events", "streams", "claims"):
                await connection.execute(f"VACUUM tercet.{table}")
        except FAILURES as error:
            raise self._server.translate(error) from error
        finally:
            connection.terminate()

    @classmethod
    async def open(cls, url: str, *, patience_s: float | None = None) -> PostgresJournal:
        """Connect to a database; `patience_s` is how long to wait for locks and for a server that restarts, by default 5
        seconds for locks and 45 for a server that restarts."""
        server = Server(url, SCHEMA, patience_s=patience_s)
        writer, reader = Writer(server), Reader(server, most=CONNECTIONS - 1, is_read_only=True)
        journal = cls(writer, reader)
        journal._server = server
        try:
            await writer.open()
            await reader.open()
        except BaseException:
            await journal.close()
            raise
        return journal
