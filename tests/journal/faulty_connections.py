"""Connections to PostgreSQL that fail at chosen operations: for enumerating every point at which one can be lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
import pytest

from tercet.database import postgres
from tercet.database.postgres import FAILURES, Connection

Kind: TypeAlias = Literal["not sent", "answer lost", "carried out late", "panic"]
"""What the server does with the operation whose connection is lost: nothing, all of it, all of it a little later, or all
of it before it panics."""

_PANIC = {"S": "PANIC", "V": "PANIC", "C": "58030", "M": "could not fsync the write-ahead log"}


@dataclass(frozen=True)
class Fault:
    """The operation with this number fails, and so do that many attempts to connect afterwards."""

    at: int
    kind: Kind = "not sent"
    refusals: int = 0


@dataclass
class FaultyDriver:
    """Counts the operations of all connections in the order in which they begin, and lets some fail."""

    faults: Sequence[Fault] = ()
    operations: list[str] = field(default_factory=list[str])
    refusals: int = 0
    """How many of the next attempts to connect are refused; -1 refuses them all."""
    before_reconnecting: Callable[[], Awaitable[Any]] | None = None
    """What another client does once, just before the next connection is opened."""
    _late: list[asyncio.Future[Any]] = field(default_factory=list[asyncio.Future[Any]])
    _made: list[Connection] = field(default_factory=list[Connection])

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Let every connection that the journal's writer opens be one of these."""
        connect = postgres.connect

        async def connect_faulty(url: str, *, settings: dict[str, str]) -> Any:
            if self.refusals:
                self.refusals -= self.refusals > 0
                raise ConnectionRefusedError("connection refused")
            if self.operations and self.before_reconnecting is not None:
                happen, self.before_reconnecting = self.before_reconnecting, None
                await happen()
            connecting = connect(url, settings=settings)
            inner: Connection = await self.run("connect", lambda: connecting)
            self._made.append(inner)
            return _FaultyConnection(inner, self)

        patch.setattr(postgres, "connect", connect_faulty)
        patch.setattr(postgres, "RETRY_S", 0.001)

    async def run(
        self, name: str, perform: Callable[[], Awaitable[Any]], cut: Callable[[], None] | None = None
    ) -> Any:
        """Perform one operation, or fail as planned; `cut` drops the connection."""
        number = len(self.operations)
        self.operations.append(name)
        fault = next((each for each in self.faults if each.at == number), None)
        if fault is None:
            return await perform()
        self.refusals = fault.refusals
        if fault.kind == "carried out late" and name in ("fetch", "commit"):
            self._late.append(asyncio.ensure_future(perform()))
            raise ConnectionResetError("the connection is lost; the server still works on it")
        if fault.kind == "not sent" and name == "connect":
            await _close(await perform())
        elif fault.kind != "not sent":
            lost = await perform()
            if name == "connect":
                await _close(lost)
        if cut is not None:
            cut()
        if fault.kind == "panic":
            raise cast("Any", asyncpg.PostgresError).new(_PANIC)
        raise ConnectionResetError("the connection is lost")

    @property
    def is_working_late(self) -> bool:
        """Whether an operation of a lost connection is still under way."""
        return any(not each.done() for each in self._late)

    def cut(self) -> None:
        """Drop every connection while nothing is under way."""
        for connection in self._made:
            connection.terminate()

    async def finish(self) -> None:
        """Wait for what is carried out late, and drop the connections that did it."""
        if self._late:
            await asyncio.gather(*self._late, return_exceptions=True)
            self._late.clear()
            self.cut()
        self._made = [connection for connection in self._made if not connection.is_closed()]


async def _close(connection: Connection) -> None:
    with suppress(*FAILURES):
        await connection.close(timeout=5)


class _FaultyConnection:
    """One connection whose operations may fail."""

    def __init__(self, inner: Connection, faulty: FaultyDriver) -> None:
        self._inner = inner
        self._faulty = faulty
        self._is_cut = False

    def _cut(self) -> None:
        self._is_cut = True
        self._inner.terminate()

    async def _run(self, name: str, *args: Any) -> Any:
        return await self._faulty.run(name, lambda: getattr(self._inner, name)(*args), self._cut)

    async def execute(self, query: str, *args: Any) -> str:
        return await self._run("execute", query, *args)

    async def fetch(self, query: str, *args: Any) -> list[Any]:
        return await self._run("fetch", query, *args)

    async def fetchrow(self, query: str, *args: Any) -> Any:
        return await self._run("fetchrow", query, *args)

    async def fetchval(self, query: str, *args: Any) -> Any:
        return await self._run("fetchval", query, *args)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[None]:
        inner = cast("Any", self._inner.transaction())
        await self._faulty.run("begin", inner.start, self._cut)
        try:
            yield
        except BaseException:
            if not self._is_cut:
                await self._faulty.run("rollback", inner.rollback, self._cut)
            raise
        await self._faulty.run("commit", inner.commit, self._cut)

    def is_closed(self) -> bool:
        return self._inner.is_closed()

    async def close(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109 - asyncpg's own name
        await self._inner.close(timeout=timeout)

    def terminate(self) -> None:
        if not self._faulty.is_working_late:
            self._inner.terminate()
