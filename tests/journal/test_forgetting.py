"""Forgetting and ringing under faults and races: all or nothing, nobody's blob lost, no ring missed."""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from journal.filling import TENANT, at, event, fill, refusal
from journal.servers import administrator, new_database
from tercet.contracts.values.canonical import hash_bytes
from tercet.database import postgres
from tercet.database.postgres import Connection
from tercet.database.sqlite import connect_writer
from tercet.journal.chain import START, verify_chain
from tercet.journal.errors import JournalError, JournalUnavailable
from tercet.journal.opening import open_journal
from tercet.journal.postgres.batch import Batcher
from tercet.journal.postgres.delivery import Delivery, Sent
from tercet.journal.postgres.rows import QUERIES
from tercet.journal.protocol import Append, Journal, Lease
from tercet.journal.sqlite import batch as sqlite_batch
from tercet.journal.stream import Forget
from tercet.testing.journal_backend import session_row

BLOB = b"the record of a run"


@pytest.fixture
def tenant() -> str:
    """A tenant of the test's own."""
    return f"tenant-{secrets.token_hex(8)}"


async def make_stream(journal: Journal, tenant: str, stream: str = "ses_1") -> Lease:
    """A leased stream with an event, a claim, a row and a blob."""
    lease = await journal.acquire(tenant, stream, owner="ann", now_ms=0, ttl_ms=10)
    whole = Append(
        tenant=tenant, stream=stream, expected=0, epoch=lease.epoch, events=(event(1),), blobs=(BLOB,),
        claims=(stream,), row=session_row(tenant, stream),
    )  # fmt: skip
    await journal.append(whole)
    return lease


async def test_a_stream_is_forgotten_whole_or_not_at_all(tmp_path: Path) -> None:
    """What stops in the middle of forgetting has removed nothing, and the next try removes all."""
    path = tmp_path / "runs.db"

    async with open_journal(at(path)) as journal:
        lease = await make_stream(journal, TENANT)
        other = sqlite3.connect(path)
        other.execute(
            "CREATE TRIGGER stop BEFORE DELETE ON streams BEGIN SELECT RAISE(ABORT, 'stopped'); END"
        )
        await refusal(JournalUnavailable, journal.forget(lease))
        assert (await verify_chain(journal, TENANT, "ses_1")).seq == 1
        assert await journal.blob(TENANT, hash_bytes(BLOB)) == BLOB
        assert await journal.claim(TENANT, "ses_1") is not None
        assert await journal.session(TENANT, "ses_1") is not None
        other.execute("DROP TRIGGER stop")
        other.close()
        await journal.forget(lease)
        assert await journal.head(TENANT, "ses_1") == START


async def test_forgotten_bytes_are_not_in_the_file(tmp_path: Path) -> None:
    """Once the journal is closed the file holds no event, key or blob of a forgotten stream."""
    path = tmp_path / "runs.db"

    async with open_journal(at(path)) as journal:
        await fill(journal, 1, stream="stays")
        await journal.forget(await make_stream(journal, TENANT, "ses_secret"))
    content = path.read_bytes()
    assert b"stays" in content
    assert b"ses_secret" not in content
    assert BLOB not in content


def test_what_is_due_is_found_by_an_index(tmp_path: Path) -> None:
    """SQLite finds the rows that are due without looking at those that wait, and sorts nothing."""
    connection = connect_writer(tmp_path / "runs.db", sqlite_batch.SCHEMA, patience_s=1)
    plan = connection.execute(
        f"EXPLAIN QUERY PLAN {sqlite_batch.QUERIES['list_due']}", (TENANT, 5, 100)
    ).fetchall()
    connection.close()
    (step,) = [row[-1] for row in plan]
    assert "sessions_by_due (tenant=? AND due_at<?)" in step


async def test_what_is_due_is_found_by_an_index_on_a_server(postgres_url: str) -> None:
    """PostgreSQL finds them among ten thousand by the same index."""

    async with new_database(postgres_url) as url, open_journal(url), administrator(url) as connection:
        await connection.execute(
            "INSERT INTO tercet.sessions SELECT 't', 's' || n, 'in_progress', '', '', '', '', '', n, n, NULL, '', n"
            " FROM generate_series(1, 10000) AS n"
        )
        await connection.execute("ANALYZE tercet.sessions")
        plan = await connection.fetch(f"EXPLAIN {QUERIES['list_due']}", "t", 5, 100)
        assert any("sessions_by_due" in row[0] for row in plan)


async def wait_for_a_waiter(connection: Connection) -> None:
    """Until somebody waits for a tenant's lock."""
    waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    while not await connection.fetchval(waiting):
        pass


async def test_an_append_waits_for_a_ring_that_is_being_committed(postgres_url: str, tenant: str) -> None:
    """An append that began before a ring was committed, and is committed after it, is told of it."""

    async with open_journal(postgres_url) as journal, administrator(postgres_url) as ringer:
        await make_stream(journal, tenant)
        unit = Append(tenant=tenant, stream="ses_1", expected=1, epoch=1, events=(b"intent",))
        async with ringer.transaction():
            await ringer.execute(QUERIES["listen"], tenant, True)
            appending = asyncio.ensure_future(journal.append(unit))
            async with administrator(postgres_url) as watcher:
                await wait_for_a_waiter(watcher)
            await ringer.execute("INSERT INTO tercet.bells (tenant, rings) VALUES ($1, 1)", tenant)
        assert (await appending).change_count == 1


async def test_a_blob_that_is_being_shared_is_not_forgotten(postgres_url: str, tenant: str) -> None:
    """Forgetting waits for an append under way, and then sees that its blob has another user."""

    async with open_journal(postgres_url) as journal, administrator(postgres_url) as other:
        lease = await make_stream(journal, tenant)
        async with other.transaction():
            await other.execute(QUERIES["listen"], tenant, False)
            forgetting = asyncio.ensure_future(journal.forget(lease))
            async with administrator(postgres_url) as watcher:
                await wait_for_a_waiter(watcher)
            await other.execute(
                "INSERT INTO tercet.blob_uses SELECT tenant, digest, 0 FROM tercet.blobs WHERE tenant = $1",
                tenant,
            )
        await forgetting
        assert await journal.blob(tenant, hash_bytes(BLOB)) == BLOB


async def test_a_blob_that_is_being_forgotten_is_stored_again(postgres_url: str, tenant: str) -> None:
    """An append that waits for a stream to be forgotten brings its blob itself."""

    async with open_journal(postgres_url) as journal, administrator(postgres_url) as other:
        await make_stream(journal, tenant)
        await journal.append(Append(tenant=tenant, stream="ses_2", expected=0, events=(b"1",)))
        number = await other.fetchval(
            "SELECT id FROM tercet.streams WHERE tenant = $1 AND stream = 'ses_1'", tenant
        )
        async with other.transaction():
            await other.execute(QUERIES["listen"], tenant, True)
            for name in ("forget_blobs", "forget_session", "forget_rest"):
                await other.execute(QUERIES[name], number)
            unit = Append(tenant=tenant, stream="ses_2", expected=1, events=(b"2",), blobs=(BLOB,))
            appending = asyncio.ensure_future(journal.append(unit))
            async with administrator(postgres_url) as watcher:
                await wait_for_a_waiter(watcher)
        assert (await appending).seq == 2
        assert await journal.blob(tenant, hash_bytes(BLOB)) == BLOB


class Cut:
    """A connection that is cut behind a statement, once."""

    def __init__(self, inner: Connection, cut_after: list[str]) -> None:
        self.inner = inner
        self.cut_after = cut_after

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def execute(self, query: str, *args: Any) -> str:
        """Carry it out; then, if so told, cut the connection."""
        done = await self.inner.execute(query, *args)
        if query in self.cut_after:
            self.cut_after.remove(query)
            self.inner.terminate()
            raise ConnectionResetError("the answer was lost")
        return done


@pytest.mark.parametrize("name", ["forget_blobs", "forget_session", "forget_rest"])
async def test_a_connection_cut_while_forgetting(
    postgres_url: str, tenant: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the connection is lost, the stream is removed whole over the next one."""
    connect, cut_after = postgres.connect, [QUERIES[name]]

    async def cut(url: str, *, settings: dict[str, str]) -> Any:
        return Cut(await connect(url, settings=settings), cut_after)

    monkeypatch.setattr(postgres, "connect", cut)

    async with open_journal(postgres_url) as journal:
        await journal.forget(await make_stream(journal, tenant))
        assert cut_after == []
        assert await journal.head(tenant, "ses_1") == START
        assert await journal.claim(tenant, "ses_1") is None
        await make_stream(journal, tenant)


async def test_a_stream_that_went_with_a_lost_answer_is_forgotten(postgres_url: str, tenant: str) -> None:
    """A try after a lost commit finds no stream, and is content; a first try is told that it has no lease."""

    async with open_journal(postgres_url) as journal, administrator(postgres_url) as connection:
        lease = await make_stream(journal, tenant)
        number = await connection.fetchval(
            "SELECT id FROM tercet.streams WHERE tenant = $1 AND stream = 'ses_1'", tenant
        )
        await journal.forget(lease)
        act = Forget(lease=lease)
        again, first = Delivery(act), Delivery(act)
        again.send(Sent(number))
        await Batcher("here").run_carefully(connection, again)
        assert again.outcome == lease
        await Batcher("here").run_carefully(connection, first)
        assert isinstance(first.outcome, JournalError)
        assert first.outcome.code == "lease_lost"
