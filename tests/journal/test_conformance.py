"""Every backend passes the shipped suite."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tercet.journal.opening import open_journal
from tercet.journal.protocol import Journal
from tercet.testing.journal_suite import Backend, Case, cases


def backend(url: str) -> Backend:
    """The backend behind an address."""

    async def open_it() -> Journal:
        return await open_journal(url)

    return Backend(open=open_it)


def case_name(case: Case) -> str:
    """Name a case as its function is named."""
    return getattr(case, "__name__", repr(case))


@pytest.mark.parametrize("case", cases(durable=False), ids=case_name)
def test_memory_conforms(case: Case) -> None:
    """The journal in memory keeps every promise but durability."""
    asyncio.run(case(backend("memory:")))


@pytest.mark.req("R148")
@pytest.mark.parametrize("case", cases(durable=True), ids=case_name)
def test_sqlite_conforms(case: Case, tmp_path: Path) -> None:
    """The journal in a SQLite file keeps every promise."""
    asyncio.run(case(backend(f"sqlite:///{tmp_path / 'runs.db'}")))


@pytest.mark.req("R148")
@pytest.mark.parametrize("case", cases(durable=True), ids=case_name)
def test_postgres_conforms(case: Case, postgres_url: str) -> None:
    """The journal on a PostgreSQL server keeps every promise."""
    asyncio.run(case(backend(postgres_url)))
