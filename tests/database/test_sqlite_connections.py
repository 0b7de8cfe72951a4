"""What the stores on SQLite rely on: transactions that are whole, and code for any database that runs in one thread."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tercet.contracts.errors import InternalError
from tercet.database.schema import Migration, Schema
from tercet.database.sqlite import Connections, SqliteSession, connect_writer
from tercet.evidence.errors import EVIDENCE, StoreClosed
from tercet.evidence.opening import open_evidence
from tercet.journal.opening import open_journal

SCHEMA = Schema(
    kind=EVIDENCE,
    queries={
        "add": "INSERT INTO words (word) VALUES (?)",
        "list": "SELECT word FROM words WHERE ?1 IS NULL OR word IN (SELECT value FROM json_each(?1)) ORDER BY word",
    },
    migrations=(Migration(1, "CREATE TABLE words (word TEXT NOT NULL UNIQUE) STRICT;\n"),),
)


@asynccontextmanager
async def opened(path: Path) -> AsyncGenerator[Connections]:
    """A store with one table."""
    connections = Connections(path / "words.db", SCHEMA, patience_s=1)
    await connections.open()
    try:
        yield connections
    finally:
        await connections.close()


async def words(connections: Connections, wanted: list[str] | None = None) -> list[str]:
    """Return the words of a store."""
    return [word for (word,) in await connections.read("", lambda session: session.fetch("list", wanted))]


@pytest.mark.req("R149")
def test_a_commit_waits_for_the_disk(tmp_path: Path) -> None:
    """A writing connection syncs the file with every commit, so that a power cut loses nothing that was acknowledged."""
    full = 2
    connection = connect_writer(tmp_path / "words.db", SCHEMA, patience_s=1)
    try:
        assert connection.execute("PRAGMA synchronous").fetchone() == (full,)
    finally:
        connection.close()


def test_a_list_goes_in_as_json_and_a_taken_row_is_reported(tmp_path: Path) -> None:
    """Parameters are the same as on a server; a unique row that is taken is an answer."""

    async def add(session: SqliteSession) -> list[bool]:
        return [await session.try_execute("add", word) for word in ("a", "b", "a")]

    async def main() -> None:
        async with opened(tmp_path) as connections:
            assert await connections.write(add) == [True, True, False]
            assert await words(connections) == ["a", "b"]
            assert await words(connections, ["b", "c"]) == ["b"]

    asyncio.run(main())


def test_a_transaction_that_raises_or_waits_leaves_nothing(tmp_path: Path) -> None:
    """Waiting would leave the file locked for as long as it takes, so it is refused."""

    async def fail(session: SqliteSession) -> None:
        await session.execute("add", "a")
        raise ValueError("stopped")

    async def wait(session: SqliteSession) -> None:
        await session.execute("add", "a")
        await asyncio.sleep(0)

    async def main() -> None:
        async with opened(tmp_path) as connections:
            with pytest.raises(ValueError, match="stopped"):
                await connections.write(fail)
            with pytest.raises(InternalError):
                await connections.write(wait)
            assert await words(connections) == []
        with pytest.raises(StoreClosed):
            await words(connections)

    asyncio.run(main())


def modes(folder: Path) -> dict[str, int]:
    """Return who may do what with each file of a folder."""
    return {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}


async def test_other_users_cannot_read_a_new_store(tmp_path: Path) -> None:
    """Journal, evidence and the files beside them are for their owner; a file that exists keeps its mode."""
    before = os.umask(0o022)
    try:
        async with (
            open_journal(f"sqlite:///{tmp_path / 'runs.db'}"),
            open_evidence(f"sqlite:///{tmp_path / 'e.db'}"),
        ):
            assert set(modes(tmp_path).values()) == {0o600}
        shared = tmp_path / "shared.db"
        shared.touch(0o644)
        async with open_journal(f"sqlite:///{shared}"):
            assert modes(tmp_path)["shared.db"] == 0o644
    finally:
        os.umask(before)
