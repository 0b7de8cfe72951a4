"""A server that restarts, a connection that is cut, a lock that is held: recovery or a typed error, never a half."""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from journal.cutting_proxy import cutting_proxy
from journal.filling import refusal
from journal.servers import administrator, new_database
from plugins.postgres import PostgresServer
from tercet.contracts.errors import UsageError
from tercet.database import postgres
from tercet.database.postgres import READER, Connection, make_reader, migrate
from tercet.database.schema import Migration, Schema
from tercet.journal.chain import verify_chain
from tercet.journal.errors import (
    AppendUnknown,
    JournalBusy,
    JournalCorrupt,
    JournalError,
    JournalUnavailable,
    NewerJournal,
    PositionConflict,
)
from tercet.journal.opening import open_journal
from tercet.journal.postgres.rows import QUERIES, SCHEMA
from tercet.journal.protocol import Append, Journal

STREAMS = 8


@pytest.fixture
def tenant() -> str:
    """A tenant of the test's own."""
    return f"tenant-{secrets.token_hex(8)}"


def continued(migration: Migration) -> Schema:
    """The schema with one more migration."""
    return dataclasses.replace(SCHEMA, migrations=(*SCHEMA.migrations, migration))


def pair(tenant: str, stream: str, turn: int, epoch: int | None = None) -> Append:
    """A unit of two events and a claim."""
    events = (f"{stream} {turn} a".encode(), f"{stream} {turn} b".encode())
    return Append(
        tenant=tenant, stream=stream, expected=2 * turn, epoch=epoch, events=events, claims=(f"{stream} {turn}",)
    )  # fmt: skip


class Growth:
    """Streams that grow until they are told to stop, and how many units of each were acknowledged."""

    def __init__(self, journal: Journal, tenant: str) -> None:
        self.journal = journal
        self.tenant = tenant
        self.turns = {f"ses_{number}": 0 for number in range(STREAMS)}
        self.done = False
        self.grown = asyncio.Condition()

    async def grow(self, stream: str) -> None:
        """Append to one stream until told to stop."""
        lease = await self.journal.acquire(self.tenant, stream, owner="ann", now_ms=0, ttl_ms=1_000)
        while not self.done:
            await self.journal.append(pair(self.tenant, stream, self.turns[stream], lease.epoch))
            self.turns[stream] += 1
            async with self.grown:
                self.grown.notify_all()

    async def every_stream_grows(self) -> None:
        """Wait until each stream has grown by a unit."""
        before = dict(self.turns)
        async with self.grown:
            await self.grown.wait_for(lambda: all(self.turns[stream] > before[stream] for stream in before))


async def disturb(url: str, tenant: str, act: Callable[[], Awaitable[None]]) -> None:
    """Let streams grow while something happens, and check that each holds exactly what was acknowledged."""
    async with open_journal(url, patience_s=20) as journal:
        growth = Growth(journal, tenant)
        async with asyncio.TaskGroup() as tasks:
            for stream in growth.turns:
                tasks.create_task(growth.grow(stream))
            await growth.every_stream_grows()
            await act()
            await growth.every_stream_grows()
            growth.done = True
        for stream, count in growth.turns.items():
            assert (await verify_chain(journal, tenant, stream)).seq == 2 * count
            wanted = [data for turn in range(count) for data in pair(tenant, stream, turn).events]
            stored = await journal.read(tenant, stream, limit=10 * len(wanted))
            assert [event.data for event in stored] == wanted
            assert await journal.claim(tenant, f"{stream} {count}") is None


async def test_cut_connections_lose_and_repeat_nothing(postgres_url: str, tenant: str) -> None:
    """Connections cut by the server under load: every append is acknowledged, and stored exactly once."""

    async def cut() -> None:
        async with administrator(postgres_url) as connection:
            for _ in range(8):
                cut = await connection.fetch(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tercet'"
                )
                assert cut
                await asyncio.sleep(0.05)

    await disturb(postgres_url, tenant, cut)


async def test_a_restarted_server_loses_and_repeats_nothing(
    postgres_server: PostgresServer, tenant: str
) -> None:
    """A server that crashes and starts again under load: every append is acknowledged, and stored exactly once."""

    async def restart() -> None:
        await asyncio.to_thread(postgres_server.stop)
        await asyncio.to_thread(postgres_server.start)

    await disturb(postgres_server.url, tenant, restart)


async def test_a_server_that_stays_away_is_a_typed_error(
    postgres_server: PostgresServer, tenant: str
) -> None:
    """Without a server calls fail with what to do; when it is back, the same journal goes on."""

    async with open_journal(postgres_server.url, patience_s=0.3) as journal:
        await journal.append(pair(tenant, "ses_1", 0))
        await asyncio.to_thread(postgres_server.stop)
        try:
            with pytest.raises(JournalUnavailable) as caught:
                await journal.append(pair(tenant, "ses_1", 1))
            assert caught.value.remedy
            await refusal(JournalUnavailable, journal.head(tenant, "ses_1"))
            await refusal(JournalUnavailable, _open(postgres_server.url))
        finally:
            await asyncio.to_thread(postgres_server.start)
        assert (await verify_chain(journal, tenant, "ses_1")).seq == 2
        await journal.append(pair(tenant, "ses_1", 1))
        assert (await verify_chain(journal, tenant, "ses_1")).seq == 4


class Unreliable:
    """A connection that carries a statement out and then loses the answer."""

    def __init__(self, inner: Connection) -> None:
        self.inner = inner
        self.drop_after: str | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def fetch(self, query: str, *args: Any) -> list[Any]:
        """Carry it out; then, if so told, cut the connection."""
        rows = await self.inner.fetch(query, *args)
        if self.drop_after and query.startswith(self.drop_after):
            self.inner.terminate()
            raise ConnectionResetError("the answer was lost")
        return rows


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[Unreliable]:
    """The connections of the writer, which can be made to fail."""
    made: list[Unreliable] = []
    connect = postgres.connect

    async def unreliable(url: str, *, settings: dict[str, str]) -> Any:
        made.append(Unreliable(await connect(url, settings=settings)))
        return made[-1]

    monkeypatch.setattr(postgres, "connect", unreliable)
    return made


async def test_a_lost_answer_is_looked_up(
    postgres_url: str, tenant: str, connections: list[Unreliable]
) -> None:
    """A batch that was stored while its answer was lost is found stored, and not repeated."""

    async with open_journal(postgres_url) as journal:
        lease = await journal.acquire(tenant, "ses_1", owner="ann", now_ms=0, ttl_ms=10)
        await journal.append(pair(tenant, "ses_1", 0, lease.epoch))
        connections[-1].drop_after = QUERIES["store"]
        end = await journal.append(pair(tenant, "ses_1", 1, lease.epoch))
        assert len(connections) == 2
        assert end == await verify_chain(journal, tenant, "ses_1")
        assert end.seq == 4


async def test_a_lost_answer_does_not_hide_a_conflict(
    postgres_url: str, tenant: str, connections: list[Unreliable]
) -> None:
    """A unit that was not stored because another stands there is refused, also over a lost connection."""

    async with open_journal(postgres_url) as journal, open_journal(postgres_url) as other:
        await journal.append(pair(tenant, "ses_1", 0))
        await other.append(Append(tenant=tenant, stream="ses_1", expected=2, events=(b"other",)))
        connections[0].drop_after = QUERIES["store"]
        await refusal(PositionConflict, journal.append(pair(tenant, "ses_1", 1)))
        assert (await verify_chain(journal, tenant, "ses_1")).seq == 3


async def test_an_append_in_doubt_is_called_so(
    postgres_server: PostgresServer,
    tenant: str,
    connections: list[Unreliable],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """When the answer is lost and the server does not come back, nobody knows, and the error says so."""

    async def gone(url: str, *, settings: dict[str, str]) -> Any:
        raise ConnectionRefusedError("nobody there")

    async with open_journal(postgres_server.url, patience_s=0.2) as journal:
        await journal.append(pair(tenant, "ses_1", 0))
        connections[-1].drop_after = QUERIES["store"]
        with monkeypatch.context() as patch:
            patch.setattr(postgres, "connect", gone)
            error = await refusal(AppendUnknown, journal.append(pair(tenant, "ses_1", 1)))
        assert "read the stream again" in str(error)
        assert (await verify_chain(journal, tenant, "ses_1")).seq == 4


async def test_a_lock_beyond_patience_is_busy(postgres_url: str, tenant: str) -> None:
    """While another session holds the stream's row the append fails as busy, and works afterwards."""

    async with open_journal(postgres_url, patience_s=0.1) as journal:
        await journal.append(pair(tenant, "ses_1", 0))
        async with administrator(postgres_url) as connection, connection.transaction():
            await connection.execute("SELECT 1 FROM tercet.streams WHERE tenant = $1 FOR UPDATE", tenant)
            await refusal(JournalBusy, journal.append(pair(tenant, "ses_1", 1)))
        await journal.append(pair(tenant, "ses_1", 1))


async def test_tampering_is_found_and_its_place_is_named(postgres_url: str, tenant: str) -> None:
    """A row that another program changed is found by the chain."""

    async with open_journal(postgres_url) as journal, administrator(postgres_url) as connection:
        for turn in range(3):
            await journal.append(pair(tenant, "ses_1", turn))
        await connection.execute(
            "UPDATE tercet.events SET data = set_byte(data, 0, 0) WHERE seq = 4 AND stream_id ="
            " (SELECT id FROM tercet.streams WHERE tenant = $1)",
            tenant,
        )
        error = await refusal(JournalCorrupt, verify_chain(journal, tenant, "ses_1"))
        assert error.place == "event 3 of stream ses_1"


async def test_one_callers_impossible_unit_does_not_fail_the_others(postgres_url: str, tenant: str) -> None:
    """A unit that the server cannot take is refused alone."""

    async with open_journal(postgres_url) as journal:
        units = [
            Append(tenant=tenant, stream="a", expected=0, events=(b"1",)),
            Append(tenant=tenant, stream="b", expected=2**70, events=(b"1",)),
            Append(tenant=tenant, stream="c", expected=0, events=(b"1",)),
        ]
        results = await asyncio.gather(*map(journal.append, units), return_exceptions=True)
        assert [isinstance(result, JournalError) for result in results] == [False, True, False]


async def test_a_failed_migration_leaves_the_old_schema(postgres_server: PostgresServer) -> None:
    """A migration that breaks half-way is undone whole; a newer database is refused."""
    later = SCHEMA.version + 1

    async with new_database(postgres_server.url) as url, administrator(url) as connection:
        broken = Migration(later, "CREATE TABLE tercet.later (a int); CREATE INDEX ON tercet.missing (a);")
        with pytest.raises(Exception, match="missing"):
            await migrate(connection, continued(broken), "here")
        assert await connection.fetchval("SELECT to_regclass('tercet.streams')") is None
        await migrate(connection, SCHEMA, "here")
        good = Migration(later, "CREATE TABLE tercet.later (a int)")
        await migrate(connection, continued(good), "here")
        error = await refusal(NewerJournal, _open(url))
        assert (error.version, error.known) == (later, later - 1)


@asynccontextmanager
async def limited(url: str, most: int) -> AsyncGenerator[str]:
    """The address of a database of one's own, for a user who may have only so many connections."""
    user = f"user_{secrets.token_hex(4)}"
    async with new_database(url) as own, administrator(own) as connection:
        await make_reader(connection, SCHEMA, own)
        await connection.execute(
            f"CREATE ROLE {user} LOGIN CONNECTION LIMIT {most}; GRANT {READER} TO {user}"
        )
        await connection.execute(
            f"GRANT CREATE ON DATABASE {own.partition('?')[0].rpartition('/')[2]} TO {user}"
        )
        yield own.replace("//postgres:", f"//{user}:")
        await connection.execute(f"DROP OWNED BY {user}; DROP ROLE {user}")


async def test_too_many_connections_say_what_to_set(postgres_url: str) -> None:
    """A journal that gets no connection within its patience names the setting, and how many each process needs."""

    async with limited(postgres_url, 1) as url, open_journal(url):
        error = await refusal(JournalUnavailable, _open(url))
        assert "max_connections" in str(error)
        assert "up to 3 connections" in str(error)


async def test_many_processes_wait_for_connections_within_their_patience(
    postgres_url: str, tenant: str
) -> None:
    """24 journals write and read on a server that has connections for a few of them at a time."""

    async def use(url: str, number: int) -> int:
        async with open_journal(url, patience_s=60) as journal:
            await journal.append(pair(tenant, f"ses_{number}", 0))
            return (await journal.head(tenant, f"ses_{number}")).seq

    async with limited(postgres_url, 30) as url:
        assert await asyncio.gather(*(use(url, number) for number in range(24))) == [2] * 24


async def test_a_process_uses_few_connections(postgres_url: str, tenant: str) -> None:
    """However much is read and written at once, one journal opens three connections at most."""

    async with new_database(postgres_url) as url, open_journal(url) as journal:
        reads = (journal.head(tenant, f"ses_{number}") for number in range(40))
        await asyncio.gather(*reads, *(journal.append(pair(tenant, f"ses_{n}", 0)) for n in range(40)))
        async with administrator(url) as connection:
            open_now = await connection.fetchval(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE application_name = 'tercet' AND datname = current_database()"
            )
        assert open_now <= 3


async def test_several_may_open_a_new_database_at_once(postgres_url: str, tenant: str) -> None:
    """Eight journals that open the same new database at the same time all get the one schema."""

    async def open_and_append(url: str, number: int) -> int:
        async with open_journal(url) as journal:
            return (await journal.append(pair(tenant, f"ses_{number}", 0))).seq

    async with new_database(postgres_url) as url:
        ends = await asyncio.gather(*(open_and_append(url, number) for number in range(8)))
        assert ends == [2] * 8


async def test_a_database_that_is_not_there_is_named_without_the_password(
    postgres_server: PostgresServer,
) -> None:
    """The message names the database and keeps the password to itself."""
    url = postgres_server.url.replace("postgres:@/postgres", "postgres:hidden@/nowhere")
    error = await refusal(JournalUnavailable, _open(url))
    assert "nowhere" in str(error)
    assert "create the database" in str(error)
    assert "hidden" not in str(error)


async def test_a_bad_address_is_wrong_use() -> None:
    """What asyncpg cannot read as an address is the caller's mistake."""
    error = await refusal(UsageError, _open("postgresql://host:notaport/db"))
    assert error.code == "unknown_journal"


async def _open(url: str) -> None:
    async with open_journal(url, patience_s=0.3):
        pass


@pytest.mark.parametrize("cut", [1, 9, 100, 400])
async def test_connections_that_are_cut_while_they_are_made_are_made_again(
    postgres_url: str, tenant: str, cut: int
) -> None:
    """A network that breaks in the middle of the handshake is a lost connection like any other."""

    async with cutting_proxy(postgres_url) as proxy, open_journal(proxy.url, patience_s=20) as journal:
        await journal.append(pair(tenant, "ses_1", 0))
        proxy.hold_answers = True
        proxy.answers = [cut, cut]
        assert (await journal.append(pair(tenant, "ses_1", 1))).seq == 4
        proxy.answers = [cut, cut]
        assert (await verify_chain(journal, tenant, "ses_1")).seq == 4
        assert not proxy.answers
