"""The part of asyncpg that the journal uses, with types: the package ships none."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, cast

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

ClientConfigurationError = asyncpg.ClientConfigurationError

CONNECT_S = 10.0
"""How long one attempt to connect may take."""
IDLE_S = 2.0
"""How long a connection of a pool is kept for the next query."""


class Connection(Protocol):
    """One connection to a server. Rows are sequences that also know their columns by name."""

    async def execute(self, query: str, *args: Any) -> str:
        """Run a statement, or without arguments a whole script."""
        ...

    async def fetch(self, query: str, *args: Any) -> list[Any]:
        """All rows of a query."""
        ...

    async def fetchrow(self, query: str, *args: Any) -> Any:
        """The first row of a query, or None."""
        ...

    async def fetchval(self, query: str, *args: Any) -> Any:
        """The first column of the first row, or None."""
        ...

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """A transaction that is rolled back when the block raises."""
        ...

    def is_closed(self) -> bool:
        """Whether the connection is gone, as far as this side knows."""
        ...

    async def close(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109 - asyncpg's own name
        """Say goodbye to the server."""
        ...

    def terminate(self) -> None:
        """Drop the connection without a word."""
        ...


class Pool(Protocol):
    """Connections that are lent for one query each."""

    async def fetch(self, query: str, *args: Any) -> list[Any]:
        """All rows of a query."""
        ...

    async def close(self) -> None:
        """Wait until all connections are back, and close them."""
        ...

    def terminate(self) -> None:
        """Drop all connections."""
        ...


async def connect(url: str, *, settings: dict[str, str]) -> Connection:
    """Open one connection."""
    driver = cast("Any", asyncpg)
    return cast("Connection", await driver.connect(url, timeout=CONNECT_S, server_settings=settings))


async def create_pool(url: str, *, most: int, settings: dict[str, str]) -> Pool:
    """Make a pool that opens its connections when they are needed, and closes them when they have been idle."""
    driver = cast("Any", asyncpg)
    pool = await driver.create_pool(
        url,
        min_size=0,
        max_size=most,
        max_inactive_connection_lifetime=IDLE_S,
        timeout=CONNECT_S,
        server_settings=settings,
    )
    return cast("Pool", pool)
