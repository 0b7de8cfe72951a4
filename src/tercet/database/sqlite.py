"""SQLite files as stores: connections and their pragmas, migrations, reading threads, and what SQLite's errors mean."""

from __future__ import annotations

import asyncio
import os
import queue
import sqlite3
import time
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from msgspec import json

from tercet.contracts.errors import InternalError, TercetError, UsageError
from tercet.database.schema import Schema, StoreKind

OLDEST = (3, 37, 0)
"""The first SQLite with STRICT tables."""
FAILURES = (sqlite3.Error, UnicodeDecodeError)
"""What the module raises: the second one for an error message that quotes damaged text."""

_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_CORRUPT = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_TAKEN = {sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY}
_UNWRITABLE = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}
_RETRY_S = 0.01
_READERS = 4
_LOG_PAGES = 1_000
"""How long the write-ahead log may get before it is written back: about 4 MB. What is in the file cannot be lost with
the log."""
_VERSIONS = "CREATE TABLE IF NOT EXISTS {table} ( version INTEGER NOT NULL PRIMARY KEY ) STRICT"

T = TypeVar("T")
_Mode: TypeAlias = Literal["DEFERRED", "IMMEDIATE"]

# The module knows how to bind bytes, but first looks for an adapter of theirs in three places, for every value.
sqlite3.register_adapter(bytes, bytes.__bytes__)


def connect_writer(path: Path, schema: Schema, *, patience_s: float) -> sqlite3.Connection:
    """Open the writing connection and bring the schema up to date. Raises SQLite's errors and the store's."""
    if not path.parent.is_dir():
        raise schema.kind.unavailable(str(path), "its folder does not exist", remedy=f"create {path.parent}")
    # Other users of the machine may not read a new store; SQLite gives the files beside it the same mode.
    with suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
    connection = _connect(path, patience_s, schema.pragmas)
    try:
        _enter_wal(connection, patience_s)
        # FULL waits for the disk at every commit: what was acknowledged survives a power cut.
        connection.execute("PRAGMA synchronous = FULL")
        # What is forgotten is overwritten, and not only marked as free.
        connection.execute("PRAGMA secure_delete = ON").fetchone()
        connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}").fetchone()
        migrate(connection, schema, str(path))
    except BaseException:
        connection.close()
        raise
    return connection


def _connect(path: Path | str, patience_s: float, pragmas: Sequence[str]) -> sqlite3.Connection:
    if sqlite3.sqlite_version_info < OLDEST:
        raise UsageError(
            f"this Python has SQLite {sqlite3.sqlite_version}, and a store needs 3.37 or newer",
            code="old_sqlite",
            remedy="use a Python that was built with a newer SQLite",
        )
    # isolation_level=None: transactions begin and end where we say. A connection wanders between the threads of a
    # pool, but only one uses it at a time.
    connection = sqlite3.connect(
        path,
        timeout=patience_s,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=64,
        uri=isinstance(path, str),
    )
    for pragma in pragmas:
        connection.execute(pragma)
    return connection


def connect_reader(
    path: Path | str, *, patience_s: float, pragmas: Sequence[str] = (), is_lenient: bool = False
) -> sqlite3.Connection:
    """Open a connection that can only read; a text is an address that `find_reading_address` has found.

    A lenient one returns damaged text, so that it does not hide the rows beside it.
    """
    connection = _connect(path, patience_s, pragmas)
    if is_lenient:
        connection.text_factory = _decode_text
    connection.execute("PRAGMA query_only = ON")
    return connection


def _decode_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _enter_wal(connection: sqlite3.Connection, patience_s: float) -> None:
    """Switch to the write-ahead log. SQLite does not wait for locks here, so we do."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() >= deadline:
                raise
            time.sleep(_RETRY_S)
        else:
            return


@contextmanager
def transaction(connection: sqlite3.Connection, mode: _Mode = "IMMEDIATE") -> Generator[None]:
    """Run a block in one transaction, which is rolled back if the block raises."""
    connection.execute(f"BEGIN {mode}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def migrate(connection: sqlite3.Connection, schema: Schema, place: str) -> None:
    """Run the migrations that a file lacks, all in one transaction. A newer file, and one of another program, is refused."""
    if _read_version(connection, schema, place) == schema.version:
        return
    with transaction(connection):
        version = _read_version(connection, schema, place)
        connection.execute(_VERSIONS.format(table=schema.table))
        for migration in schema.migrations:
            if migration.version > version:
                for statement in _split_script(migration.script):
                    connection.execute(statement)
                connection.execute(
                    f"INSERT INTO {schema.table} (version) VALUES (?)",  # noqa: S608 - our own name
                    (migration.version,),
                )


def _read_version(connection: sqlite3.Connection, schema: Schema, place: str) -> int:
    """Return the schema version of a file; 0 for an empty one."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if schema.table in tables:
        newest = f"SELECT coalesce(max(version), 0) FROM {schema.table}"  # noqa: S608 - our own name
        (version,) = connection.execute(newest).fetchone()
        return schema.demand_known(version, place)
    if tables:
        raise UsageError(
            f"{place} is a SQLite database, but does not hold {schema.kind.noun}",
            code=schema.kind.foreign,
            remedy=f"name a new file, or one that holds {schema.kind.noun}",
        )
    return 0


def _split_script(script: str) -> Iterator[str]:
    """Yield the statements of a script one by one, since `executescript` would end the transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def reading_address(path: Path) -> str:
    """Return the address by which a file is opened for reading only."""
    return f"{path.absolute().as_uri()}?mode=ro"


def find_reading_address(path: Path, schema: Schema, *, patience_s: float) -> str:
    """Return the address by which a file that may not be written is read; raises the store's error if there is none.

    A reader of a write-ahead log takes part in it, by a file `-shm` beside it. Where that can neither be found nor made,
    the file alone is read, as one that does not change; but only if no commit waits in the log, which would be left out.
    """
    log = path.with_name(f"{path.name}-wal")
    address = reading_address(path)
    try:
        _demand_newest(address, path, schema, patience_s)
    except sqlite3.OperationalError as error:
        if primary_code(error) not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            raise
    else:
        return address
    if log.exists() and log.stat().st_size:
        raise schema.kind.unavailable(
            str(path),
            f"its last commits are in {log.name}, which cannot be read without the right to write beside it",
            remedy=f"copy {path.name} and {log.name} into a folder of your own, or open it once as a user who may write"
            " there",
        )
    alone = f"{address}&immutable=1"
    _demand_newest(alone, path, schema, patience_s)
    return alone


def _demand_newest(address: str, path: Path, schema: Schema, patience_s: float) -> None:
    with closing(connect_reader(address, patience_s=patience_s)) as connection:
        if _read_version(connection, schema, str(path)) < schema.version:
            raise schema.kind.unavailable(
                str(path),
                "it is of an older version, and may not be written here",
                remedy="open it once with this version of Tercet as a user who may write it",
            )


class Readers:
    """A few connections that cannot write, each used by one thread at a time.

    A writer never keeps them waiting, since the file has a write-ahead log.
    """

    def __init__(
        self, path: Path, schema: Schema, *, patience_s: float, address: str = "", is_lenient: bool = False
    ) -> None:
        self._path = path
        self._schema = schema
        self._patience_s = patience_s
        self._address = address
        self._is_lenient = is_lenient
        self._threads = ThreadPoolExecutor(
            _READERS, thread_name_prefix=f"{schema.kind.name} {path.name} reader"
        )
        self._idle: queue.SimpleQueue[sqlite3.Connection] = queue.SimpleQueue()
        self._closed = False

    async def rows(self, query: str, *parameters: Any) -> list[Any]:
        """Return all rows that a named query finds; a list goes in as JSON."""
        sql, bound = self._schema.queries[query], _bind(parameters)
        return await self.run(lambda connection: connection.execute(sql, bound).fetchall())

    async def run(self, act: Callable[[sqlite3.Connection], T]) -> T:
        """Run several queries on one connection, in one thread."""
        if self._closed:
            raise self._schema.kind.closed()
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, act)

    async def close(self) -> None:
        """Wait for the queries in progress and close the connections."""
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
            raise translate(error, self._schema.kind, str(self._path)) from error

    @contextmanager
    def _connection(self) -> Generator[sqlite3.Connection]:
        try:
            connection = self._idle.get_nowait()
        except queue.Empty:
            connection = connect_reader(
                self._address or self._path,
                patience_s=self._patience_s,
                pragmas=self._schema.pragmas,
                is_lenient=self._is_lenient,
            )
        try:
            yield connection
        finally:
            self._idle.put(connection)


class SqliteSession:
    """A connection to a file, for code that is written for any database. It never waits; a list goes in as JSON."""

    def __init__(self, connection: sqlite3.Connection, schema: Schema) -> None:
        self.connection = connection
        self._queries = schema.queries

    async def fetch(self, query: str, *parameters: Any) -> list[Any]:
        """Return all rows of a query."""
        return self._run(query, parameters).fetchall()

    async def fetch_row(self, query: str, *parameters: Any) -> Any:
        """Return the first row of a query, or None."""
        return self._run(query, parameters).fetchone()

    async def fetch_value(self, query: str, *parameters: Any) -> Any:
        """Return the first column of the first row, or None."""
        row = self._run(query, parameters).fetchone()
        return None if row is None else row[0]

    async def execute(self, query: str, *parameters: Any) -> None:
        """Run a statement."""
        self._run(query, parameters)

    async def try_execute(self, query: str, *parameters: Any) -> bool:
        """Run a statement; return False if another row has what must be unique."""
        try:
            self._run(query, parameters)
        except sqlite3.IntegrityError:
            return False
        return True

    def _run(self, query: str, parameters: Sequence[Any]) -> sqlite3.Cursor:
        return self.connection.execute(self._queries[query], _bind(parameters))


def _bind(parameters: Sequence[Any]) -> list[Any]:
    return [json.encode(each).decode() if isinstance(each, list) else each for each in parameters]


def _finish(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits to its end, in this thread."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    coroutine.close()
    raise InternalError("a transaction on SQLite waited for something else")


class Connections:
    """The connections to one file: one thread writes, a few others read."""

    def __init__(self, path: Path, schema: Schema, *, patience_s: float) -> None:
        self._path = path
        self._schema = schema
        self._patience_s = patience_s
        self._readers = Readers(path, schema, patience_s=patience_s)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"{schema.kind.name} {path.name} writer")
        self._writer: sqlite3.Connection | None = None
        self._closed = False

    async def open(self) -> None:
        """Open the file and bring its schema up to date."""
        self._writer = await self._run(
            lambda: connect_writer(self._path, self._schema, patience_s=self._patience_s)
        )

    async def write(
        self, act: Callable[[SqliteSession], Coroutine[Any, Any, T]], *, is_repeatable: bool = False
    ) -> T:
        """Run something in the writing thread, in one transaction. A file loses no answers, so nothing is repeated."""
        del is_repeatable
        connection = self._writer
        if self._closed or connection is None:
            raise self._schema.kind.closed()
        return await self._run(lambda: self._transact(connection, "IMMEDIATE", act))

    async def read(self, tenant: str, act: Callable[[SqliteSession], Coroutine[Any, Any, T]]) -> T:
        """Run queries in a reading thread; they all see the same state of the file. Each names the tenant itself."""
        del tenant
        return await self._readers.run(lambda connection: self._transact(connection, "DEFERRED", act))

    async def close(self) -> None:
        """Wait for what is in progress and close the connections."""
        self._closed = True
        await asyncio.get_running_loop().run_in_executor(None, self._thread.shutdown)
        await self._readers.close()
        if self._writer is not None:
            self._writer.close()

    async def _run(self, act: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, act)
        except FAILURES as error:
            raise translate(error, self._schema.kind, str(self._path)) from error

    def _transact(
        self,
        connection: sqlite3.Connection,
        mode: _Mode,
        act: Callable[[SqliteSession], Coroutine[Any, Any, T]],
    ) -> T:
        with transaction(connection, mode):
            return _finish(act(SqliteSession(connection, self._schema)))


def primary_code(error: Exception) -> int | None:
    """Return SQLite's primary result code; errors of the Python module itself have none."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def is_busy(error: Exception) -> bool:
    """Return whether another connection holds the lock."""
    return primary_code(error) in _BUSY


def translate(error: sqlite3.Error | UnicodeDecodeError, kind: StoreKind, place: str) -> TercetError:
    """Return the store's error for one of SQLite's."""
    if isinstance(error, UnicodeDecodeError):
        return kind.corrupt(place, "it holds text that is not UTF-8")
    code, reason = primary_code(error), str(error)
    if code in _BUSY:
        return kind.busy(place, reason)
    extended = getattr(error, "sqlite_errorcode", 0)
    # A file in WAL mode cannot even be opened where the index of its log does not fit.
    if code == sqlite3.SQLITE_FULL or extended == sqlite3.SQLITE_IOERR_SHMSIZE:
        return kind.full(place, reason)
    if code in _CORRUPT or reason.startswith("no such "):  # a table or a column that every store has
        return kind.corrupt(place, reason)
    if extended in _TAKEN:
        # Everything was checked under the lock: the row in the way belongs to nothing.
        return kind.corrupt(place, f"it holds a row that no stream knows of ({reason})")
    if code in _UNWRITABLE:
        remedy = "give the user of this process the right to write the file and its folder"
        return kind.unavailable(place, reason, remedy=remedy)
    return kind.unavailable(place, reason)
