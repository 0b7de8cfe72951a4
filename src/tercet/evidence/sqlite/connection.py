"""Opening a SQLite file as a store of evidence, and using it: one thread writes, a few others read."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

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
from tercet.journal.sqlfiles import read_migrations, read_queries, read_schema
from tercet.journal.sqlite.connection import split_script
from tercet.journal.sqlite.faults import is_busy, primary_code

PACKAGE = "tercet.evidence.sqlite"
QUERIES = read_queries(PACKAGE)
MIGRATIONS = read_migrations(PACKAGE)

_READERS = 4
_RETRY_S = 0.01
_CACHE_KIB = 32_000

T = TypeVar("T")


class Connections:
    """The connections to one file, each used by one thread at a time."""

    def __init__(self, path: Path, *, patience_s: float) -> None:
        self._path = path
        self._patience_s = patience_s
        self._writing = ThreadPoolExecutor(1, thread_name_prefix=f"evidence {path.name} writer")
        self._reading = ThreadPoolExecutor(_READERS, thread_name_prefix=f"evidence {path.name} reader")
        self._idle: queue.SimpleQueue[sqlite3.Connection] = queue.SimpleQueue()
        self._writer: sqlite3.Connection | None = None
        self._closed = False

    async def open(self) -> None:
        """Open the file and bring its schema up to date."""
        await asyncio.get_running_loop().run_in_executor(self._writing, self._open)

    async def write(self, act: Callable[[sqlite3.Connection], T]) -> T:
        """Run something in the writing thread, in one transaction."""
        self._demand_open()
        return await asyncio.get_running_loop().run_in_executor(self._writing, self._write, act)

    async def read(self, act: Callable[[sqlite3.Connection], T]) -> T:
        """Run queries in a reading thread; they all see the same state of the file."""
        self._demand_open()
        return await asyncio.get_running_loop().run_in_executor(self._reading, self._read, act)

    async def aside(self, act: Callable[[], T]) -> T:
        """Run something in a reading thread that needs no connection."""
        self._demand_open()
        return await asyncio.get_running_loop().run_in_executor(self._reading, act)

    async def close(self) -> None:
        """Wait for what is under way and close the connections."""
        if self._closed:
            return
        self._closed = True
        loop = asyncio.get_running_loop()
        for pool in (self._writing, self._reading):
            await loop.run_in_executor(None, pool.shutdown)
        if self._writer is not None:
            self._writer.close()
        while not self._idle.empty():
            self._idle.get_nowait().close()

    def _demand_open(self) -> None:
        if self._closed:
            raise StoreClosed

    def _open(self) -> None:
        if not self._path.parent.is_dir():
            raise StoreUnavailable(
                str(self._path), "its folder does not exist", remedy=f"create {self._path.parent}"
            )
        try:
            self._writer = connection = self._connect()
            self._enter_wal(connection)
            # FULL waits for the disk at every commit: what was acknowledged survives a power cut.
            connection.execute("PRAGMA synchronous = FULL")
            # What is forgotten is overwritten, and not only marked as free.
            connection.execute("PRAGMA secure_delete = ON").fetchone()
            migrate(connection, str(self._path))
        except sqlite3.Error as error:
            raise translate(error, str(self._path)) from error

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path,
            timeout=self._patience_s,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=64,
        )
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        return connection

    def _enter_wal(self, connection: sqlite3.Connection) -> None:
        """Switch to the write-ahead log. SQLite does not wait for locks here, so we do."""
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL").fetchone()
            except sqlite3.OperationalError as error:
                if not is_busy(error) or time.monotonic() >= deadline:
                    raise
                time.sleep(_RETRY_S)
            else:
                return

    def _write(self, act: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._writer
        if connection is None:
            raise StoreClosed
        try:
            with _transaction(connection, "BEGIN IMMEDIATE"):
                return act(connection)
        except sqlite3.Error as error:
            raise translate(error, str(self._path)) from error

    def _read(self, act: Callable[[sqlite3.Connection], T]) -> T:
        try:
            with self._reader() as connection, _transaction(connection, "BEGIN"):
                return act(connection)
        except sqlite3.Error as error:
            raise translate(error, str(self._path)) from error

    @contextmanager
    def _reader(self) -> Generator[sqlite3.Connection]:
        try:
            connection = self._idle.get_nowait()
        except queue.Empty:
            connection = self._connect()
            connection.execute("PRAGMA query_only = ON")
        try:
            yield connection
        finally:
            self._idle.put(connection)


@contextmanager
def _transaction(connection: sqlite3.Connection, begin: str) -> Generator[None]:
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def migrate(connection: sqlite3.Connection, place: str) -> None:
    """Run the migrations that the file lacks, all in one transaction; refuse a file from a newer version."""
    known = MIGRATIONS[-1].version
    if _read_version(connection, place, known) == known:
        return
    with _transaction(connection, "BEGIN IMMEDIATE"):
        version = _read_version(connection, place, known)
        for statement in split_script(read_schema(PACKAGE)):
            connection.execute(statement)
        for migration in MIGRATIONS:
            if migration.version > version:
                for statement in split_script(migration.script):
                    connection.execute(statement)
                connection.execute("INSERT INTO evidence_schema (version) VALUES (?)", (migration.version,))


def _read_version(connection: sqlite3.Connection, place: str, known: int) -> int:
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if "evidence_schema" in tables:
        (version,) = connection.execute("SELECT coalesce(max(version), 0) FROM evidence_schema").fetchone()
        if version > known:
            raise NewerStore(place, version=version, known=known)
        return int(version)
    if tables:
        raise UsageError(
            f"{place} is a SQLite database, but no store of evidence",
            code="not_evidence",
            remedy="name a new file, or the file of a store; a journal has a file of its own",
        )
    return 0


def translate(error: sqlite3.Error, place: str) -> StoreError:
    """The store's error for one of SQLite's."""
    code, reason = primary_code(error), str(error)
    if is_busy(error):
        return StoreBusy(place, reason)
    if code == sqlite3.SQLITE_FULL:
        return StoreFull(place, reason)
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StoreCorrupt(place, reason)
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        remedy = "give the user of this process the right to write the file and its folder"
        return StoreUnavailable(place, reason, remedy=remedy)
    return StoreUnavailable(place, reason)
