"""Whatever the examples did in a test, their journals are judged again when it is over, whatever they are called."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tercet.journal.opening import open_journal
from tercet.journal.protocol import Journal
from tercet.replay.recording import list_rows
from tercet.replay.replay import replay


@pytest.fixture(autouse=True)
def looking_back(tmp_path: Path) -> Iterator[None]:
    """Every run that a test leaves in a journal comes out the same."""
    yield
    for file in journals_in(tmp_path):
        asyncio.run(look_back_at(file))


def journals_in(folder: Path) -> list[Path]:
    """The files below a folder that are journals."""
    return [file for file in sorted(folder.rglob("*.db")) if _is_journal(file)]


def _is_journal(file: Path) -> bool:
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as db:
        return bool(db.execute("SELECT 1 FROM sqlite_master WHERE name = 'journal_schema'").fetchall())


async def look_back_at(file: Path) -> int:
    """Judge every run of a journal again; how many there are."""
    async with open_journal(f"sqlite:///{file}") as journal:
        return await look_back(journal)


async def look_back(journal: Journal) -> int:
    """Judge every run of an open journal again; how many there are."""
    found = [row.session_id async for row in list_rows(journal, "default")]
    for session in found:
        report = await replay(journal, session)
        assert report.difference is None, report.difference
    return len(found)
