"""The writer thread: callers submit acts once per tick of the event loop, and the thread commits all that wait.

Theory of operation. `submit` puts an act and a future into a list; the first of a tick asks the loop to flush the list
at the end of the tick, in one `SimpleQueue.put`. The thread takes everything that is queued, commits it, and wakes the
loop with one `call_soon_threadsafe` that settles all futures of that commit. While a commit waits for the disk, the
next batch gathers. This talks to asyncio directly, because a portable wake-up for every append costs more than the
append.

A batch that SQLite refuses as a whole is tried again act by act, so that one caller's oversized unit does not fail
another's; a lock that another process holds fails all of them, since each would wait for it again.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from tercet.database.sqlite import FAILURES, connect_writer, is_busy, translate
from tercet.journal.database import settle
from tercet.journal.errors import JOURNAL, JournalClosed, JournalError, JournalUnavailable
from tercet.journal.sqlite.batch import SCHEMA, Batcher, Outcome
from tercet.journal.sqlite.heads import Heads, demand_whole, heads_path
from tercet.journal.stream import Act

Waiting: TypeAlias = tuple[Act, "asyncio.Future[Any]"]

_MOST = 1024
"""The most acts in one commit, so that a burst does not make its first caller wait for its last."""


class Writer:
    """Owns the writing connection and its thread."""

    def __init__(self, path: Path, *, patience_s: float, accepts_loss: bool = False) -> None:
        self._path = path
        self._patience_s = patience_s
        self._accepts_loss = accepts_loss
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[list[Waiting] | None] = queue.SimpleQueue()
        self._gathered: list[Waiting] = []
        self._closed = False
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(target=self._run, name=f"journal {path.name}", daemon=True)

    async def open(self) -> None:
        """Start the thread and wait until the file is open and its schema up to date."""
        self._thread.start()
        await asyncio.shield(self._opened)

    def submit(self, act: Act) -> asyncio.Future[Any]:
        """Submit an act; the future holds its outcome once it is durable."""
        if self._closed:
            raise JournalClosed
        future = self._loop.create_future()
        if not self._gathered:
            self._loop.call_soon(self._flush)
        self._gathered.append((act, future))
        return future

    async def close(self) -> None:
        """Let the thread finish what was submitted, and wait for it."""
        if not self._closed:
            self._closed = True
            self._flush()
            self._queue.put(None)
        await asyncio.shield(self._ended)
        self._thread.join()

    def _flush(self) -> None:
        # Acts whose caller was cancelled within this tick are not passed to the thread.
        waiting = [each for each in self._gathered if not each[1].cancelled()]
        self._gathered.clear()
        if waiting:
            self._queue.put(waiting)

    def _run(self) -> None:
        try:
            connection, heads = self._connect()
        except BaseException as error:  # noqa: BLE001 - handed to the caller that waits for the opening
            reported = translate(error, JOURNAL, str(self._path)) if isinstance(error, FAILURES) else error
            self._call(settle, [self._opened], [reported])
            self._call(settle, [self._ended], [None])
            return
        self._call(settle, [self._opened], [None])
        try:
            self._serve(Batcher(connection, heads))
        finally:
            connection.close()
            heads.close()
            self._call(settle, [self._ended], [None])

    def _connect(self) -> tuple[sqlite3.Connection, Heads]:
        """The writing connection and the commit log, once it is sure that the database lacks no durable commit."""
        # The log of a database that was removed says nothing about the new one.
        is_cleared = not self._path.exists() and heads_path(self._path).exists()
        if not (is_cleared or self._accepts_loss):
            demand_whole(self._path, patience_s=self._patience_s)
        connection = connect_writer(self._path, SCHEMA, patience_s=self._patience_s)
        heads = Heads(self._path)
        try:
            if is_cleared:
                heads.clear()
        except BaseException:
            connection.close()
            raise
        return connection, heads

    def _serve(self, batcher: Batcher) -> None:
        """Commit batch after batch until the stop sign is taken from the queue."""
        stopping = False
        while not stopping:
            waiting, stopping = self._take()
            if waiting:
                acts, futures = zip(*waiting, strict=True)
                self._call(settle, futures, self._commit(batcher, acts))

    def _take(self) -> tuple[list[Waiting], bool]:
        """Wait for acts, then take all that are there; whether the stop sign was among them."""
        taken: list[Waiting] = []
        some = self._queue.get()
        while some is not None:
            taken += some
            if len(taken) >= _MOST:
                return taken, False
            try:
                some = self._queue.get_nowait()
            except queue.Empty:
                return taken, False
        return taken, True

    def _commit(self, batcher: Batcher, acts: Sequence[Act]) -> Sequence[Outcome]:
        try:
            return batcher.run(acts)
        except JournalError as error:
            return [error for _ in acts]
        except FAILURES as error:
            if len(acts) == 1 or is_busy(error):
                return [translate(error, JOURNAL, str(self._path)) for _ in acts]
        except Exception as error:  # noqa: BLE001 - whatever it is, the callers must hear of it and the thread live on
            if len(acts) == 1:
                return [JournalUnavailable(str(self._path), f"{type(error).__name__}: {error}")]
        return [self._commit(batcher, [act])[0] for act in acts]

    def _call(self, settle: Callable[..., None], *args: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(settle, *args)
        except RuntimeError:
            # The loop is closed: nothing waits any more.
            return


class NoWriter:
    """The writer of a read-only file: it refuses every act."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def open(self) -> None:
        """Open nothing."""

    def submit(self, act: Act) -> asyncio.Future[Any]:
        """Refuse an act."""
        del act
        raise JournalUnavailable(
            str(self._path),
            "it may only be read here",
            remedy="give the user of this process the right to write the file and its folder",
        )

    async def close(self) -> None:
        """Close nothing."""
