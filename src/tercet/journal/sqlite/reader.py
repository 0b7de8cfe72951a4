"""Reading: a few connections that cannot write, each used by one thread at a time."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from msgspec import json

from tercet.journal.errors import JournalClosed
from tercet.journal.sqlite.connection import QUERIES, connect_reader
from tercet.journal.sqlite.faults import FAILURES, translate

_THREADS = 4

T = TypeVar("T")


class Reader:
    """Runs queries in threads. A writer never keeps readers waiting, since the file has a write-ahead log."""

    def __init__(self, path: Path, *, patience_s: float, address: str = "") -> None:
        self._path = path
        self._address = address
        self._patience_s = patience_s
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix=f"journal {path.name} reader")
        self._idle: queue.SimpleQueue[sqlite3.Connection] = queue.SimpleQueue()
        self._closed = False

    async def rows(self, query: str, *parameters: Any) -> list[Any]:
        """All rows that a named query finds; a list goes in as JSON."""
        given = [json.encode(each).decode() if isinstance(each, list) else each for each in parameters]
        return await self.run(lambda connection: connection.execute(QUERIES[query], given).fetchall())

    async def run(self, act: Callable[[sqlite3.Connection], T]) -> T:
        """Run several queries on one connection, in one thread."""
        if self._closed:
            raise JournalClosed
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, act)

    async def close(self) -> None:
        """Wait for the queries under way and close the connections."""
        if self._closed:
            return
        self._closed = True
        await asyncio.get_running_loop().run_in_executor(None, self._threads.shutdown)
        while not self._idle.empty():
            self._idle.get_nowait().close()

    def _run(self, act: Callable[[sqlite3.Connection], T]) -> T:
        try:
            with self._connection() as connection:
                return act(connection)
        except FAILURES as error:
            raise translate(error, str(self._path)) from error

    @contextmanager
    def _connection(self) -> Generator[sqlite3.Connection]:
        try:
            connection = self._idle.get_nowait()
        except queue.Empty:
            connection = connect_reader(self._address or self._path, patience_s=self._patience_s)
        try:
            yield connection
        finally:
            self._idle.put(connection)
