"""The writer: acts gather while a batch is under way, and go out together when it is done.

One task owns one connection. There is never more than one statement in flight, so acts on one stream are carried out
in the order in which they were handed over. A caller that is cancelled leaves its act behind: the task does not know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, TypeAlias

from tercet.journal.errors import AppendUnknown, JournalClosed, JournalError, JournalUnavailable
from tercet.journal.postgres.batch import Batcher, Outcome
from tercet.journal.postgres.connection import Server, migrate
from tercet.journal.postgres.driver import Connection
from tercet.journal.postgres.faults import FAILURES, LOST, translate
from tercet.journal.protocol import Position
from tercet.journal.stream import Act

Waiting: TypeAlias = tuple[Act, "asyncio.Future[Any]"]

_MOST = 512
"""The most acts in one batch."""


class Writer:
    """Owns the writing connection and the task that uses it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._batcher = Batcher()
        self._connection: Connection | None = None
        self._gathered: list[Waiting] = []
        self._wake = asyncio.Event()
        self._closed = False
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect, bring the schema up to date, and start the task."""
        try:
            self._connection = await self._server.connect()
            await migrate(self._connection, self._server.place)
        except FAILURES as error:
            raise translate(error, self._server.place) from error
        self._task = self._loop.create_task(self._serve())

    def submit(self, act: Act) -> asyncio.Future[Any]:
        """Hand an act over; the future holds its outcome once it is durable."""
        if self._closed:
            raise JournalClosed
        future = self._loop.create_future()
        self._gathered.append((act, future))
        self._wake.set()
        return future

    async def close(self) -> None:
        """Let the task finish what was handed over, and disconnect."""
        self._closed = True
        self._wake.set()
        if self._task is not None:
            await asyncio.shield(self._task)
        await self._disconnect()

    async def _serve(self) -> None:
        while self._gathered or not self._closed:
            if not self._gathered:
                self._wake.clear()
                await self._wake.wait()
                continue
            waiting = [each for each in self._gathered[:_MOST] if not each[1].cancelled()]
            del self._gathered[:_MOST]
            outcomes = await self._carry_out([act for act, _ in waiting])
            for (_, future), outcome in zip(waiting, outcomes, strict=True):
                _settle(future, outcome)

    async def _carry_out(self, acts: Sequence[Act]) -> list[Outcome]:
        """The outcome of every act, over a new connection if need be."""
        outcomes: list[Outcome | None] = [None] * len(acts)
        planned: dict[int, Position] = {}
        try:
            connection = await self._connected()
            outcomes = await self._batcher.run(connection, acts)
        except LOST:
            planned = dict(self._batcher.planned)
            await self._disconnect()
        except Exception:  # noqa: BLE001 - a unit that breaks the batch is found one by one, and answered then
            self._batcher.forget()
        return [
            await self._one(act, planned.get(index)) if outcome is None else outcome
            for index, (act, outcome) in enumerate(zip(acts, outcomes, strict=True))
        ]

    async def _one(self, act: Act, planned: Position | None) -> Outcome:
        """One act the careful way, over new connections while they are lost under way and patience lasts."""
        deadline = self._loop.time() + self._server.patience_s
        while True:
            try:
                connection = await self._connected()
            except FAILURES as error:
                return self._unreachable(error, in_doubt=planned is not None)
            try:
                return await self._batcher.run_carefully(connection, act, planned=planned)
            except LOST as error:
                planned = self._batcher.attempted or planned
                await self._disconnect()
                if self._loop.time() >= deadline:
                    return self._unreachable(error, in_doubt=planned is not None)
            except Exception as error:  # noqa: BLE001 - whatever it is, the caller must hear of it and the task live on
                return translate(error, self._server.place)

    def _unreachable(self, error: BaseException, *, in_doubt: bool) -> JournalError:
        fault = translate(error, self._server.place)
        if in_doubt and isinstance(fault, JournalUnavailable):
            return AppendUnknown(self._server.place, str(error) or type(error).__name__)
        return fault

    async def _connected(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            self._batcher.forget()
            self._connection = await self._server.reconnect()
        return self._connection

    async def _disconnect(self) -> None:
        """Let go of the connection, politely if it still answers."""
        connection, self._connection = self._connection, None
        self._batcher.forget()
        if connection is None or connection.is_closed():
            return
        try:
            await connection.close(timeout=self._server.patience_s)
        except FAILURES:
            connection.terminate()


def _settle(future: asyncio.Future[Any], outcome: Outcome) -> None:
    if future.done():
        return
    if isinstance(outcome, JournalError):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
