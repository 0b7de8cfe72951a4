"""Whatever the examples did in a test, their journals are judged again when it is over."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tercet.journal.opening import open_journal
from tercet.replay.replaying import replay
from tercet.replay.sources import list_rows

JOURNALS = ("tercet.db", "react.db")


@pytest.fixture(autouse=True)
def looking_back(tmp_path: Path) -> Iterator[None]:
    """Every run that a test leaves in a journal comes out the same."""
    yield
    for name in JOURNALS:
        if (tmp_path / name).exists():
            asyncio.run(_look_back(f"sqlite:///{tmp_path / name}"))


async def _look_back(url: str) -> None:
    async with open_journal(url) as journal:
        async for row in list_rows(journal, "default"):
            report = await replay(journal, row.session_id)
            assert report.difference is None, report.difference
