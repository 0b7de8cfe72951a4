"""On PostgreSQL the server itself hides the rows of other tenants from whatever reads for one."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
import pytest

from journal.filling import refusal
from journal.servers import administrator, new_database
from tercet.contracts.text.words import terms_of
from tercet.database.postgres import READER, Connection, connect
from tercet.evidence.opening import open_evidence
from tercet.evidence.store import Change, NewDocument, NewFact
from tercet.journal.errors import JournalUnavailable
from tercet.journal.opening import open_journal
from tercet.journal.postgres import PostgresJournal
from tercet.journal.postgres.rows import SCHEMA
from tercet.journal.postgres.writer import ACROSS_TENANTS, Reader
from tercet.journal.protocol import Append, NewCheckpoint
from tercet.testing.journal_backend import session_row

TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'tercet' AND tablename NOT LIKE '%\\_schema' ORDER BY 1"
ONE, TWO = "one", "two"


async def fill(url: str, *tenants: str) -> None:
    """Store something of each tenant in every table."""
    async with open_journal(url) as journal, open_evidence(url) as evidence:
        for tenant in tenants:
            unit = Append(
                tenant=tenant, stream="ses_1", expected=0, events=(tenant.encode(),), blobs=(b"blob",), claims=("key",),
                checkpoints=(NewCheckpoint(kind="fold", seq=1, data=b"state"),), row=session_row(tenant), reminders=(("late", 1),),
                notify=True,
            )  # fmt: skip
            await journal.append(unit)
            await evidence.create(tenant, "draft", now_ms=1)
            await evidence.put(tenant, "draft", changes(tenant))
            await evidence.freeze(tenant, "draft", now_ms=2)
            await evidence.pin(tenant, "draft", "ses_1")


def changes(tenant: str) -> list[Change]:
    """A document with a fact that names its tenant."""
    digest = "sha256:" + "0" * 64
    content = {"text": f"belongs to {tenant}"}
    return [
        NewDocument(name="orders", hash=digest, size=1),
        NewFact(classification="order", key="o1", content=content, document="orders"),
    ]


@asynccontextmanager
async def reading(url: str, tenant: str | None) -> AsyncGenerator[Connection]:
    """A plain connection under the role of readers, for one tenant."""
    settings = {"role": READER} | ({} if tenant is None else {"tercet.tenant": tenant})
    connection = await connect(url, settings=settings)
    try:
        yield connection
    finally:
        await connection.close()


async def count(connection: Connection, table: str) -> int:
    """How many rows of a table a connection sees."""
    return await connection.fetchval(f"SELECT count(*) FROM tercet.{table}")  # noqa: S608 - a name of the catalogue


async def test_a_plain_connection_sees_the_rows_of_its_tenant(postgres_url: str) -> None:
    """In every table: half of what two equal tenants have, nothing without a tenant, and nothing of an unknown one."""
    async with new_database(postgres_url) as url:
        await fill(url, ONE, TWO)
        async with (
            administrator(url) as owner,
            reading(url, ONE) as one,
            reading(url, None) as none,
            reading(url, "three") as three,
        ):
            tables = [row[0] for row in await owner.fetch(TABLES)]
            assert len(tables) == 15
            for table in tables:
                everything = await count(owner, table)
                seen = [await count(each, table) for each in (one, none, three)]
                assert seen == [everything / 2, 0, 0], table
                assert everything, table
            for table in ("streams", "sessions", "claims", "blobs", "bells", "reminders"):
                rows = await one.fetch(f"SELECT DISTINCT tenant FROM tercet.{table}")  # noqa: S608 - as above
                assert [row[0] for row in rows] == [ONE]
            data = await one.fetch("SELECT data FROM tercet.events")
            assert b"two" not in b"".join(row[0] for row in data)


async def test_a_reader_may_not_write(postgres_url: str) -> None:
    """The role has no right but to read."""
    async with new_database(postgres_url) as url:
        await fill(url, ONE)
        async with reading(url, ONE) as connection:
            for act in (
                "UPDATE tercet.sessions SET owner = ''",
                "DELETE FROM tercet.events",
                "TRUNCATE tercet.blobs",
            ):
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await connection.execute(act)


async def test_a_query_that_forgets_the_tenant_finds_no_row_of_another(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal's own connections are limited, also right after they read for another tenant or for all."""
    forgetful = "SELECT tenant FROM tercet.sessions WHERE $1::text IS NOT NULL ORDER BY tenant"
    monkeypatch.setitem(cast("dict[str, str]", SCHEMA.queries), "forgetful", forgetful)
    async with new_database(postgres_url) as url:
        await fill(url, ONE, TWO)
        async with open_journal(url) as journal:
            reader = cast("Reader", cast("Any", journal)._reader)
            for tenant in (ONE, TWO, ONE):
                assert [row[0] for row in await reader.rows("forgetful", tenant)] == [tenant]
                assert len(await journal.resumable(now_ms=5)) == 2
            assert await reader.rows("forgetful", "three") == []


async def test_a_search_of_words_stays_with_its_tenant(postgres_url: str) -> None:
    """The function that searches as the owner takes the tenant from the setting."""
    async with new_database(postgres_url) as url:
        await fill(url, ONE, TWO)
        async with open_evidence(url) as evidence:
            (hit,) = await evidence.search(TWO, "draft", "belongs")
            assert hit.fact.evidence.content == {"text": "belongs to two"}
        found = "SELECT count(*) FROM tercet.find_words($1, 1, NULL)"
        seen: list[int] = []
        for tenant in (ONE, "three", None):
            async with reading(url, tenant) as connection:
                seen.append(await connection.fetchval(found, terms_of("belongs")))
        assert seen == [1, 0, 0]


async def test_policies_leave_the_indexes_in_use(postgres_url: str) -> None:
    """No query of a journal reads a whole table because of a policy."""
    async with new_database(postgres_url) as url:
        await fill(url, ONE)
        async with reading(url, ONE) as connection:
            await connection.execute("SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan")
            names = [
                name for name in SCHEMA.queries
                if name.startswith(("read_", "list_", "newest_", "claims_of")) and name not in ACROSS_TENANTS
            ]  # fmt: skip
            assert len(names) > 15
            for name in names:
                await connection.execute(f"PREPARE asked AS {SCHEMA.queries[name]}")
                given = await connection.fetchval(
                    "SELECT cardinality(parameter_types) FROM pg_prepared_statements WHERE name = 'asked'"
                )
                plan = await connection.fetch(f"EXPLAIN EXECUTE asked ({', '.join(['NULL'] * given)})")
                assert not [row[0] for row in plan if "Seq Scan" in row[0]], (name, plan)
                await connection.execute("DEALLOCATE asked")


@asynccontextmanager
async def user_of(url: str, rights: str) -> AsyncGenerator[str]:
    """The address of a database for a user of its own."""
    user = f"user_{secrets.token_hex(4)}"
    async with administrator(url) as connection:
        await connection.execute(f"CREATE ROLE {user} LOGIN; {rights.format(user=user)}")
        yield url.replace("//postgres:", f"//{user}:")
        await connection.execute(f"DROP OWNED BY {user}; DROP ROLE {user}")


async def test_a_user_who_cannot_be_limited_is_refused(postgres_url: str) -> None:
    """Where the role of readers may not be used, no journal is opened; the remedy says what to run."""
    async with new_database(postgres_url) as url:
        name = url.partition("?")[0].rpartition("/")[2]
        async with user_of(url, f"GRANT CREATE ON DATABASE {name} TO {{user}}") as own:
            error = await refusal(JournalUnavailable, PostgresJournal.open(own))
            assert f"GRANT {READER} TO" in (error.remedy or "")


async def test_a_user_who_does_not_own_the_tables_is_refused(postgres_url: str) -> None:
    """Policies would hide every row from such a writer; a member of the owner's role is let in."""
    async with new_database(postgres_url) as url:
        await fill(url, ONE)
        rights = f"GRANT {READER} TO {{user}}; GRANT USAGE ON SCHEMA tercet TO {{user}}; GRANT ALL ON ALL TABLES IN SCHEMA tercet TO {{user}}"
        async with user_of(url, rights) as own:
            error = await refusal(JournalUnavailable, PostgresJournal.open(own))
            assert "does not own the tables" in str(error)
