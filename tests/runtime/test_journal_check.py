"""A whole journal is checked on both durable backends: what was written passes, and what was changed is named."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from journal.servers import administrator, new_database
from tercet import Actor, DecisionSpec, Pack, Plan, Request
from tercet.journal.opening import open_to_inspect
from tercet.runtime.journal_check import JournalReport, check_journal
from tercet.runtime.runtime import Runtime

PLAN = {"intent": "note", "steps": [{"id": "s1", "kind": "note", "params": {"n": 1}}]}


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty journal on each of the two durable backends."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'runs.db'}"
    return request.getfixturevalue("postgres_url")


@asynccontextmanager
async def _journal(url: str) -> AsyncGenerator[str]:
    """The address of a journal that nobody else uses."""
    if url.startswith("sqlite"):
        yield url
        return
    async with new_database(url) as own:
        yield own


async def _change(url: str, table: str, change: str) -> None:
    """Change rows with another program."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as database:
            database.execute(f"UPDATE {table} SET {change}")  # noqa: S608 - a test's own words
        return
    async with administrator(url) as connection:
        await connection.execute(f"UPDATE tercet.{table} SET {change}")  # noqa: S608 - as above


async def _check(url: str) -> JournalReport:
    journal, loss = await open_to_inspect(url)
    try:
        return await check_journal(journal, loss, progress=lambda _: None)
    finally:
        await journal.close()


async def _run(url: str, tenant: str) -> str:
    pack = Pack(name="notes", version="1.0.0", decisions=[DecisionSpec(id="note")])
    async with Runtime(pack, url, tenant=tenant) as runtime:
        request = Request(intent="note", request_key="k1")
        result = await runtime.run(request, plan=Plan.model_validate(PLAN), actor=Actor(id="ada"))
        return result.session_id


def test_every_part_of_a_journal_is_checked_on_every_backend(url: str) -> None:
    """Sessions of two tenants pass; then rows, claims and blobs are changed, and each is named."""

    async def main() -> None:
        async with _journal(url) as place:
            sessions = {await _run(place, "a"), await _run(place, "b")}
            report = await _check(place)
            assert report.problems == []
            assert (report.streams, report.sessions, report.claims) == (2, 2, 2)
            assert report.blobs >= 2
            await _change(place, "sessions", "status = 'failed'")
            await _change(place, "claims", "stream_id = 999999 WHERE tenant = 'a'")
            await _change(place, "claims", "seq = 999999 WHERE tenant = 'b'")
            await _change(place, "blobs", "data = digest WHERE tenant = 'a'")
            found = (await _check(place)).problems
            assert {problem.stream for problem in found if problem.place == "its row"} == sessions
            assert sum(problem.place.startswith("the claim on ") for problem in found) == 2
            assert {problem.tenant for problem in found if problem.place.startswith("blob ")} == {"a"}

    asyncio.run(main())
