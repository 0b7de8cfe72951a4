"""A store of the schema before is brought up to date, and all that was in it is still there."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import pytest

from journal.filling import TENANT, at, refusal
from journal.servers import administrator, new_database
from tercet.contracts.values.canonical import hash_bytes
from tercet.database.postgres import migrate
from tercet.database.schema import Schema
from tercet.database.sqlite import connect_writer
from tercet.journal.chain import verify_chain
from tercet.journal.errors import BlobMissing, ClaimHeld
from tercet.journal.opening import open_journal
from tercet.journal.postgres.rows import SCHEMA as POSTGRES
from tercet.journal.protocol import Append, ClaimHolder, Journal
from tercet.journal.sqlite.batch import SCHEMA as SQLITE
from tercet.testing.journal_backend import session_row


def until(schema: Schema, version: int) -> Schema:
    """A schema as an earlier version of Tercet had it."""
    return dataclasses.replace(schema, migrations=schema.migrations[:version])


def digest(data: bytes) -> bytes:
    """The bytes of a SHA-256."""
    return hashlib.sha256(data).digest()


LAST = digest(digest(bytes(32) + b"one") + b"two")
OLD_ROWS: list[tuple[str, tuple[Any, ...]]] = [
    ("streams (tenant, stream, seq, chain, owner, epoch, until)", (TENANT, "ses_1", 2, LAST, "ann", 1, 9)),
    (
        "streams (tenant, stream, seq, chain, owner, epoch, until)",
        (TENANT, "ses_2", 0, bytes(32), None, 0, 0),
    ),
    ("events", (1, 1, b"one", digest(bytes(32) + b"one"))),
    ("events", (1, 2, b"two", LAST)),
    ("checkpoints", (1, "fold", 2, digest(b"state"), b"state")),
    ("blobs", (TENANT, digest(b"record"), b"record")),
    ("claims (tenant, key, stream, seq)", (TENANT, "key", "ses_1", 2)),
    (
        "sessions",
        (TENANT, "ses_1", "completed", "p@1", "sha256:00", "snap", "refund", "ann", 1, 2, None, b"{}"),
    ),
]
"""A session and an empty stream, as version 1 wrote them."""


async def check(journal: Journal) -> None:
    """What version 1 wrote is there, and the new abilities work on it."""
    assert (await verify_chain(journal, TENANT, "ses_1")).seq == 2
    assert await journal.claim(TENANT, "key") == ClaimHolder("ses_1", 2)
    assert await journal.blob(TENANT, hash_bytes(b"record")) == b"record"
    row = await journal.session(TENANT, "ses_1")
    assert row is not None
    assert (row.status, row.due_at) == ("completed", None)
    assert await journal.ended(TENANT, before_ms=3, statuses=("completed",)) == [row]
    assert await journal.change_count(TENANT) == 0
    await refusal(
        ClaimHeld, journal.append(Append(tenant=TENANT, stream="ses_2", expected=0, claims=("key",)))
    )
    lease = await journal.lease(TENANT, "ses_1")
    assert lease is not None
    due = session_row(TENANT, "ses_1", due_at=5)
    unit = Append(
        tenant=TENANT, stream="ses_1", expected=2, epoch=1, events=(b"three",), blobs=(b"record", b"new"), row=due, notify=True
    )  # fmt: skip
    assert (await journal.append(unit)).change_count == 1
    assert await journal.due(TENANT, now_ms=5) == [due]
    await journal.forget(lease)
    assert await journal.claim(TENANT, "key") is None
    assert await journal.sessions(TENANT) == []
    await refusal(BlobMissing, journal.blob(TENANT, hash_bytes(b"new")))
    # Nobody knows who else referred to what version 1 stored.
    assert await journal.blob(TENANT, hash_bytes(b"record")) == b"record"


async def test_a_file_of_version_1_is_brought_up_to_date(tmp_path: Path) -> None:
    """Streams, claims, blobs and rows of the old schema are found through the new one."""
    path = tmp_path / "runs.db"
    connection = connect_writer(path, until(SQLITE, 1), patience_s=1)
    for table, row in OLD_ROWS:
        places = ", ".join("?" * len(row))
        connection.execute(f"INSERT INTO {table} VALUES ({places})", row)  # noqa: S608 - our own names
    connection.close()

    async with open_journal(at(path)) as journal:
        await check(journal)


async def test_a_database_of_version_1_is_brought_up_to_date(postgres_url: str) -> None:
    """The same on a server."""

    async with new_database(postgres_url) as url:
        async with administrator(url) as connection:
            await migrate(connection, until(POSTGRES, 1), "here")
            for table, row in OLD_ROWS:
                places = ", ".join(f"${number}" for number in range(1, len(row) + 1))
                await connection.execute(f"INSERT INTO tercet.{table} VALUES ({places})", *row)  # noqa: S608 - our own names
        async with open_journal(url) as journal:
            await check(journal)


@pytest.mark.parametrize(("schema", "newest"), [(SQLITE, 8), (POSTGRES, 9)])
def test_versions_follow_each_other(schema: Schema, newest: int) -> None:
    """Each store has gone through its versions without a gap; only a server has row security, its version 8."""
    assert [each.version for each in schema.migrations] == [*range(1, newest + 1)]
