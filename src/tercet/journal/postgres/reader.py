"""Reading: a small pool of connections. A read that loses its connection is tried again until patience ends."""

from __future__ import annotations

import asyncio
from typing import Any

from tercet.journal.errors import JournalClosed
from tercet.journal.postgres.connection import QUERIES, RETRY_S, Server
from tercet.journal.postgres.driver import Pool, create_pool
from tercet.journal.postgres.faults import CONNECTIONS, FAILURES, LOST, translate


class Reader:
    """Runs queries on a pool that opens its connections when they are needed."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._pool: Pool | None = None
        self._closed = False

    async def open(self) -> None:
        """Make the pool. The writer has connected before, so an error here is a passing one."""
        self._pool = await create_pool(
            self._server.url,
            most=CONNECTIONS - 1,
            settings=self._server.settings() | {"default_transaction_read_only": "on"},
        )

    async def rows(self, query: str, *parameters: Any) -> list[Any]:
        """All rows that a named query finds."""
        if self._closed or self._pool is None:
            raise JournalClosed
        clock = asyncio.get_running_loop()
        deadline = clock.time() + self._server.outage_s
        while True:
            try:
                return await self._pool.fetch(QUERIES[query], *parameters)
            except LOST as error:
                if clock.time() + RETRY_S >= deadline:
                    raise translate(error, self._server.place) from error
                await asyncio.sleep(RETRY_S)
            except FAILURES as error:
                raise translate(error, self._server.place) from error

    async def close(self) -> None:
        """Wait for the queries under way and close the connections."""
        if self._closed or self._pool is None:
            return
        self._closed = True
        try:
            await asyncio.wait_for(self._pool.close(), self._server.patience_s)
        except FAILURES:
            self._pool.terminate()
