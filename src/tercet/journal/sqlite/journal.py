"""The journal in a SQLite file."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from tercet.database.sqlite import FAILURES, Readers, find_reading_address, migrate, translate
from tercet.journal.database import DatabaseJournal
from tercet.journal.errors import JOURNAL, JournalUnavailable, Loss
from tercet.journal.sqlite.batch import SCHEMA
from tercet.journal.sqlite.heads import Heads, demand_whole, read_loss
from tercet.journal.sqlite.writer import NoWriter, Writer

T = TypeVar("T")


class SqliteJournal(DatabaseJournal):
    """A durable journal in one file, for one machine. Open it with `open_journal("sqlite:///runs.db")`."""

    _reader: Readers
    _path: Path
    _patience_s: float

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        patience_s: float = 5.0,
        may_be_read_only: bool = False,
        accepts_loss: bool = False,
    ) -> SqliteJournal:
        """Open or create a file; `patience_s` is how long to wait for another process's lock.

        With `may_be_read_only` a file that is there and may not be written is opened too, and refuses every append.
        Raises `JournalDamaged` if durable commits are missing, unless `accepts_loss`; `Heads.clear` then forgets them.
        """
        writer = Writer(path, patience_s=patience_s, accepts_loss=accepts_loss)
        journal = cls(writer, _readers(path, patience_s))
        try:
            await writer.open()
            journal._path, journal._patience_s = path, patience_s
        except JournalUnavailable:
            await journal.close()
            if not may_be_read_only:
                raise
            with _translated(path):
                address = find_reading_address(path, SCHEMA, patience_s=patience_s)
                # Where the commit log may not be read, looking is still allowed: nothing is called because of it.
                with suppress(JournalUnavailable):
                    demand_whole(path, patience_s=patience_s, address=address)
            return cls(NoWriter(path), _readers(path, patience_s, address))
        except BaseException:
            await journal.close()
            raise
        return journal

    @classmethod
    def open_to_inspect(cls, path: Path, *, patience_s: float) -> tuple[SqliteJournal, Loss | None]:
        """Open a file for reading, whatever its commit log says, and return it with the commits that it lacks.

        Nothing is written, not even a log written back.
        """
        with _translated(path):
            address = find_reading_address(path, SCHEMA, patience_s=patience_s)
            loss = read_loss(path, patience_s=patience_s)
        return cls(NoWriter(path), _readers(path, patience_s, address)), loss

    @classmethod
    async def accept_loss(
        cls, path: Path, mark: Callable[[DatabaseJournal, Loss], Awaitable[T]], *, patience_s: float
    ) -> T | None:
        """Let `mark` record what is lost, and only then clear the commit log; return what `mark` returned."""
        with _translated(path):
            loss = read_loss(path, patience_s=patience_s)
        if loss is None:
            return None
        journal = await cls.open(path, patience_s=patience_s, accepts_loss=True)
        try:
            marked = await mark(journal, loss)
        finally:
            await journal.close()
        heads = Heads(path)
        heads.clear()
        heads.close()
        return marked

    async def purge(self) -> None:
        """Write the log back and empty it, so that removed rows, which SQLite overwrites, are in neither file.

        Raises `JournalBusy` while a reader of another process holds the log.
        """
        await asyncio.to_thread(_empty_log, self._path, self._patience_s)

    async def store_faults(self) -> list[str]:
        """Return what SQLite's own check of the whole file finds, and how its schema differs from a journal's."""
        rows = await self._reader.rows("integrity_check")
        return [text for (text,) in rows if text != "ok"] + await self._reader.run(_find_schema_faults)


def _empty_log(path: Path, patience_s: float) -> None:
    with (
        _translated(path),
        closing(sqlite3.connect(path, timeout=patience_s, isolation_level=None)) as opened,
    ):
        is_busy, _, _ = opened.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if is_busy:
        raise JOURNAL.busy(str(path), "a reader keeps its log from being emptied")


def _readers(path: Path, patience_s: float, address: str = "") -> Readers:
    return Readers(path, SCHEMA, patience_s=patience_s, address=address, is_lenient=True)


def _find_schema_faults(connection: sqlite3.Connection) -> list[str]:
    """Return the tables, indexes, triggers and views that a file lacks, has in another form, or should not have."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        migrate(fresh, SCHEMA, ":memory:")
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


@contextmanager
def _translated(path: Path) -> Generator[None]:
    """Raise the journal's errors for those of SQLite."""
    try:
        yield
    except FAILURES as error:
        raise translate(error, JOURNAL, str(path)) from error
