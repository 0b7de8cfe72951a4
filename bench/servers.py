"""Databases on a PostgreSQL server that runs as long as a benchmark does."""

from __future__ import annotations

from typing import Any, cast


async def make_database(url: str, name: str) -> str:
    """An empty database on the server; its address."""
    import asyncpg  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs] - an optional dependency

    connection = await cast("Any", asyncpg).connect(url)
    await connection.execute(f'CREATE DATABASE "{name}"')
    await connection.close()
    head, _, query = url.partition("?")
    return f"{head.rpartition('/')[0]}/{name}" + (f"?{query}" if query else "")
