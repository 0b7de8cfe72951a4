"""Addresses, schema versions, and what the package imports."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from journal.filling import TENANT, at, fill, make_journal, refusal
from tercet.contracts.errors import UsageError
from tercet.database.schema import Migration, Schema
from tercet.database.sqlite import connect_writer
from tercet.journal.errors import JournalClosed, NewerJournal
from tercet.journal.memory import MemoryJournal
from tercet.journal.opening import open_journal
from tercet.journal.protocol import Journal
from tercet.journal.sqlite.batch import SCHEMA

LATER = Migration(SCHEMA.version + 1, "CREATE TABLE later (a INTEGER);\nCREATE INDEX i ON later (a);\n")
BROKEN = Migration(LATER.version, "CREATE TABLE later (a INTEGER);\nCREATE INDEX i ON missing (a);\n")


def continued(migration: Migration) -> Schema:
    """The schema with one more migration."""
    return dataclasses.replace(SCHEMA, migrations=(*SCHEMA.migrations, migration))


async def _open(url: str) -> Journal:
    return await open_journal(url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "runs.db",
        "mysql://host/db",
        "sqlite:runs.db",
        "sqlite://runs.db",
        "sqlite:///",
        "sqlite:///:memory:",
    ],
)
async def test_an_unknown_address_is_wrong_use(url: str) -> None:
    """What names no journal is refused, and the remedy shows what would."""
    error = await refusal(UsageError, _open(url))
    assert error.code == "unknown_journal"
    assert "sqlite:///runs.db" in (error.remedy or "")


async def test_a_malformed_address_of_a_server_is_wrong_use() -> None:
    """Brackets that hold no address are refused like any other address that is none."""
    error = await refusal(UsageError, _open("postgresql://[bad"))
    assert error.code == "unknown_journal"


async def test_a_relative_address_starts_in_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three slashes are relative, four absolute."""
    monkeypatch.chdir(tmp_path)

    async with open_journal("sqlite:///runs.db") as journal:
        await fill(journal, 1)
    async with open_journal(f"sqlite:///{tmp_path / 'runs.db'}") as journal:
        assert len(await journal.read(TENANT, "ses_1")) == 1


async def test_an_opening_can_be_awaited_or_entered() -> None:
    """Awaiting leaves the closing to the caller; entering closes at the end."""

    journal = await open_journal("memory:")
    assert isinstance(journal, MemoryJournal)
    assert isinstance(journal, Journal)
    await journal.close()
    async with open_journal("memory:") as journal:
        await fill(journal, 1)
    await refusal(JournalClosed, journal.head(TENANT, "ses_1"))


def test_a_newer_journal_is_refused_with_what_to_do(tmp_path: Path) -> None:
    """A file whose schema this version does not know is not opened and not changed."""
    path = tmp_path / "runs.db"
    asyncio.run(make_journal(path))
    connect_writer(path, continued(LATER), patience_s=1).close()
    before = path.read_bytes()
    error = asyncio.run(refusal(NewerJournal, _open(at(path))))
    assert (error.version, error.known) == (LATER.version, SCHEMA.version)
    assert "upgrade Tercet" in str(error)
    assert path.read_bytes() == before


async def test_a_migration_keeps_what_is_there(tmp_path: Path) -> None:
    """An older file gets the later tables, and its events stay."""
    path = tmp_path / "runs.db"
    await make_journal(path, 3)
    connection = connect_writer(path, continued(LATER), patience_s=1)
    assert connection.execute("SELECT count(*) FROM events").fetchone() == (3,)
    assert connection.execute("SELECT count(*) FROM later").fetchone() == (0,)
    versions = connection.execute("SELECT version FROM journal_schema").fetchall()
    assert versions == [(each.version,) for each in continued(LATER).migrations]
    connection.close()


async def test_a_failed_migration_leaves_the_old_schema(tmp_path: Path) -> None:
    """A migration that breaks half-way is undone whole, and the journal still opens."""
    path = tmp_path / "runs.db"
    await make_journal(path, 3)
    with pytest.raises(sqlite3.OperationalError, match="missing"):
        connect_writer(path, continued(BROKEN), patience_s=1)
    connection = connect_writer(path, SCHEMA, patience_s=1)
    assert connection.execute("SELECT name FROM sqlite_master WHERE name = 'later'").fetchall() == []
    assert connection.execute("SELECT max(version) FROM journal_schema").fetchone() == (SCHEMA.version,)
    connection.close()


async def test_several_may_open_a_new_file_at_once(tmp_path: Path) -> None:
    """Ten journals that open the same new file at the same time all get the one schema."""
    url = at(tmp_path / "runs.db")

    journals = await asyncio.gather(*(_open(url) for _ in range(10)))
    for number, journal in enumerate(journals):
        await fill(journal, 1, stream=f"ses_{number}")
    heads = [await journals[0].head(TENANT, f"ses_{number}") for number in range(10)]
    assert [head.seq for head in heads] == [1] * 10
    await asyncio.gather(*(journal.close() for journal in journals))


@pytest.mark.slow
def test_the_front_page_imports_no_database() -> None:
    """`import tercet` and opening a journal in memory load neither sqlite3 nor asyncpg."""
    script = (
        "import asyncio, sys, tercet\n"
        "from tercet.journal.opening import open_journal\n"
        "async def main(): await open_journal('memory:')\n"
        "asyncio.run(main())\n"
        "print([name for name in ('sqlite3', 'asyncpg') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.slow
def test_without_the_extra_postgres_is_refused_with_the_way_to_install_it(tmp_path: Path) -> None:
    """Where asyncpg is not installed the answer names the extra."""
    (tmp_path / "asyncpg.py").write_text(
        "raise ModuleNotFoundError('no asyncpg', name='asyncpg')\n", encoding="utf-8"
    )
    script = (
        "import asyncio\n"
        "from tercet.contracts.errors import UsageError\n"
        "from tercet.journal.opening import open_journal\n"
        "async def main():\n"
        "    try:\n"
        "        await open_journal('postgresql://localhost/x')\n"
        "    except UsageError as error:\n"
        "        print(error.code, error.remedy)\n"
        "asyncio.run(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])},
    )  # fmt: skip
    assert (
        done.stdout
        == "extra_missing install the extra postgres from where you have Tercet: pip install './tercet[postgres]' beside a clone\n"
    )
