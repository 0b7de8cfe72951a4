"""What the stores on PostgreSQL rely on, whatever the server's own settings are."""

from __future__ import annotations

import pytest

from tercet.database.postgres import Server, connect
from tercet.database.schema import Schema
from tercet.journal.errors import JOURNAL


@pytest.mark.req("R149")
async def test_a_commit_waits_for_the_disk(postgres_url: str) -> None:
    """Where the server would acknowledge a commit before it is on the disk, the connections of a store do not let it."""
    careless = {"options": "-c synchronous_commit=off"}
    settings = Server(postgres_url, Schema(kind=JOURNAL, queries={}, migrations=())).settings()
    found: list[str] = []
    for given in (careless, careless | settings):
        connection = await connect(postgres_url, settings=given)
        try:
            found.append(await connection.fetchval("SHOW synchronous_commit"))
        finally:
            await connection.close()
    assert found == ["off", "on"]
