"""A PostgreSQL server seen from beside the journal: connections and databases of one's own."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tercet.database.postgres import Connection, connect


@asynccontextmanager
async def administrator(url: str) -> AsyncGenerator[Connection]:
    """A connection of one's own."""
    connection = await connect(url, settings={"application_name": "administrator"})
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def new_database(url: str) -> AsyncGenerator[str]:
    """A database of one's own on the server."""
    name = f"db_{secrets.token_hex(4)}"
    async with administrator(url) as connection:
        await connection.execute(f"CREATE DATABASE {name}")
        try:
            yield url.replace("/postgres?", f"/{name}?")
        finally:
            await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@asynccontextmanager
async def own_journal(kind: str, folder: Path, request: pytest.FixtureRequest) -> AsyncGenerator[str]:
    """The address of an empty journal that no other test uses: in memory, in a file, or in a database of its own."""
    if kind == "memory":
        yield "memory:"
    elif kind == "sqlite":
        yield f"sqlite:///{folder / 'runs.db'}"
    else:
        async with new_database(str(request.getfixturevalue("postgres_url"))) as url:
            yield url
