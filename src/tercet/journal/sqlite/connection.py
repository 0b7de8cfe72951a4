"""Opening a SQLite file as a journal: the pragmas, and the schema brought up to date in one transaction."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from tercet.contracts.errors import UsageError
from tercet.journal.errors import JournalDamaged, JournalUnavailable, Loss, NewerJournal
from tercet.journal.sqlfiles import Migration, read_migrations, read_queries, read_schema
from tercet.journal.sqlite.faults import is_busy, primary_code
from tercet.journal.sqlite.heads import find_loss, read_records

QUERIES = read_queries("tercet.journal.sqlite")
MIGRATIONS = read_migrations("tercet.journal.sqlite")

_RETRY_S = 0.01
_LOG_PAGES = 1_000
"""How long the write-ahead log may get before it is written back: about 4 MB. What is in the file cannot be lost with
the log."""


def connect_writer(
    path: Path, *, patience_s: float, migrations: Sequence[Migration] = MIGRATIONS
) -> sqlite3.Connection:
    """The writing connection, its schema brought up to date. Raises sqlite3's errors, which the caller translates."""
    if not path.parent.is_dir():
        raise JournalUnavailable(str(path), "its folder does not exist", remedy=f"create {path.parent}")
    connection = _connect(path, patience_s)
    try:
        _enter_wal(connection, patience_s)
        # FULL waits for the disk at every commit: what was acknowledged survives a power cut.
        connection.execute("PRAGMA synchronous = FULL")
        # What is forgotten is overwritten, and not only marked as free.
        connection.execute("PRAGMA secure_delete = ON").fetchone()
        connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}").fetchone()
        migrate(connection, str(path), migrations)
    except BaseException:
        connection.close()
        raise
    return connection


def read_loss(path: Path, *, patience_s: float, address: str = "") -> Loss | None:
    """Return the durable commits that a database lacks; None if it has all that its commit log names.

    The database is opened for reading only: closing a writing connection would write back and remove the damaged log.
    """
    records = read_records(path)
    if not records or not path.exists():
        return None
    address = address or f"{path.absolute().as_uri()}?mode=ro"
    with closing(connect_reader(address, patience_s=patience_s)) as connection:
        (number,) = connection.execute("PRAGMA user_version").fetchone()
    return find_loss(records, number)


def demand_whole(path: Path, *, patience_s: float, address: str = "") -> None:
    """Raise `JournalDamaged` for a database that lacks durable commits."""
    loss = read_loss(path, patience_s=patience_s, address=address)
    if loss is not None:
        raise JournalDamaged(str(path), loss)


def connect_reader(path: Path | str, *, patience_s: float) -> sqlite3.Connection:
    """A connection that can only read; a text is an address that `find_way` has found."""
    connection = _connect(path, patience_s)
    # One text that is damaged must not hide the rows beside it.
    connection.text_factory = _decode_text
    connection.execute("PRAGMA query_only = ON")
    return connection


def _decode_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def find_way(path: Path, *, patience_s: float) -> str:
    """The address by which a file that may not be written is read; raises `JournalUnavailable` if there is none.

    A reader of a write-ahead log takes part in it, by a file `-shm` beside it. Where that can neither be found nor made,
    the file alone is read, as one that nobody changes; but only if no commit waits in the log, which would be left out.
    """
    log = path.with_name(f"{path.name}-wal")
    address = f"{path.absolute().as_uri()}?mode=ro"
    try:
        _demand_schema(address, path, patience_s)
    except sqlite3.OperationalError as error:
        if primary_code(error) not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            raise
    else:
        return address
    if log.exists() and log.stat().st_size:
        raise JournalUnavailable(
            str(path),
            f"its last commits are in {log.name}, which cannot be read without the right to write beside it",
            remedy=f"copy {path.name} and {log.name} into a folder of your own, or let whoever may write there open it once",
        )
    alone = f"{address}&immutable=1"
    _demand_schema(alone, path, patience_s)
    return alone


def _demand_schema(address: str, path: Path, patience_s: float) -> None:
    known = MIGRATIONS[-1].version
    with closing(connect_reader(address, patience_s=patience_s)) as connection:
        if _read_version(connection, str(path), known) < known:
            raise JournalUnavailable(
                str(path),
                "it is of an older version, and may not be written here",
                remedy="let whoever may write it open it once with this version of Tercet",
            )


def _connect(path: Path | str, patience_s: float) -> sqlite3.Connection:
    # isolation_level=None: transactions begin and end where we say. A connection wanders between the threads of a
    # pool, but only one uses it at a time.
    return sqlite3.connect(
        path,
        timeout=patience_s,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=64,
        uri=isinstance(path, str),
    )


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


def migrate(connection: sqlite3.Connection, place: str, migrations: Sequence[Migration]) -> None:
    """Run the migrations that the file lacks, all in one transaction; refuse a file from a newer version."""
    known = migrations[-1].version
    if _read_version(connection, place, known) == known:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _read_version(connection, place, known)
        for statement in split_script(read_schema("tercet.journal.sqlite")):
            connection.execute(statement)
        for migration in migrations:
            if migration.version > version:
                for statement in split_script(migration.script):
                    connection.execute(statement)
                connection.execute("INSERT INTO journal_schema (version) VALUES (?)", (migration.version,))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def find_schema_faults(connection: sqlite3.Connection) -> list[str]:
    """Return the tables, indexes, triggers and views that a journal has not, lacks, or has in another form."""
    with closing(_connect(":memory:", 0)) as fresh:
        migrate(fresh, ":memory:", MIGRATIONS)
        expected = _read_schema_objects(fresh)
    found = _read_schema_objects(connection)
    return [
        *(f"the {kind} {name} is missing" for kind, name in sorted(expected.keys() - found.keys())),
        *(f"the {kind} {name} is not a journal's" for kind, name in sorted(found.keys() - expected.keys())),
        *(
            f"the {kind} {name} is not as a journal defines it"
            for kind, name in sorted(expected.keys() & found.keys())
            if expected[kind, name] != found[kind, name]
        ),
    ]


def _read_schema_objects(connection: sqlite3.Connection) -> dict[tuple[str, str], str]:
    """Return the definition of everything in a schema by kind and name, without what SQLite adds itself."""
    rows = connection.execute(
        "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    )
    return {(kind, name): " ".join(sql.split()) for kind, name, sql in rows}


def _read_version(connection: sqlite3.Connection, place: str, known: int) -> int:
    """The schema version of a file; 0 for an empty one. A newer one, and a database of something else, is refused."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if "journal_schema" in tables:
        (version,) = connection.execute("SELECT coalesce(max(version), 0) FROM journal_schema").fetchone()
        if version > known:
            raise NewerJournal(place, version=version, known=known)
        return int(version)
    if tables:
        raise UsageError(
            f"{place} is a SQLite database, but not a journal",
            code="not_a_journal",
            remedy="name a new file, or the file of a journal",
        )
    return 0


def split_script(script: str) -> Iterator[str]:
    """The statements of a script one by one, since `executescript` would end the transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
