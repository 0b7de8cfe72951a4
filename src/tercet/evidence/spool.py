"""Buffers changes on their way into a store.

Reading documents takes time, and a store that is locked meanwhile would keep sessions from pinning their snapshots. So
all changes are checked and buffered first, in memory or, if there are many, in a temporary file; then they are written
at once.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import IO, TypeAlias

import msgspec

from tercet.evidence.errors import StoreFull
from tercet.evidence.rows import Row, prepare
from tercet.evidence.store import Change, NewDocument, Progress

BATCH = 1_000
_IN_MEMORY = 32_000_000

Prepared: TypeAlias = NewDocument | Row


class Stopped(Exception):  # noqa: N818 - a cancellation, not a failure
    """The caller no longer waits."""


class _Page(msgspec.Struct, array_like=True):
    """Some changes in order; a document comes before its rows."""

    documents: list[tuple[int, NewDocument]]
    rows: list[Row]


class Stop:
    """Tells a thread that its caller no longer waits."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def ask(self) -> None:
        """Ask the thread to stop."""
        self._event.set()

    def check(self) -> None:
        """Raise `Stopped` if the thread was asked to stop."""
        if self._event.is_set():
            raise Stopped


class Spool:
    """Checked changes, in order."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(_Page)

    def fill(self, changes: Iterable[Change], progress: Progress, stop: Stop) -> None:
        """Buffer all changes; exceptions of the iterator pass through."""
        prepared, done = _while_wanted(prepare(changes), stop), 0
        while batch := list(islice(prepared, BATCH)):
            documents = [(at, each) for at, each in enumerate(batch) if isinstance(each, NewDocument)]
            rows = [each for each in batch if isinstance(each, Row)]
            self._write(self._encoder.encode(_Page(documents, rows)))
            done += len(batch)
            progress(done)

    def batches(self) -> Iterator[list[Prepared]]:
        """Yield the changes in batches."""
        self._file.seek(0)
        while size := self._file.read(8):
            page = self._decoder.decode(self._file.read(int.from_bytes(size)))
            batch: list[Prepared] = [*page.rows]
            for at, document in page.documents:
                batch.insert(at, document)
            yield batch

    def _write(self, data: bytes) -> None:
        try:
            self._file.write(len(data).to_bytes(8) + data)
        except OSError as error:
            raise StoreFull(tempfile.gettempdir(), str(error)) from error


def _while_wanted(changes: Iterable[Prepared], stop: Stop) -> Iterator[Prepared]:
    for change in changes:
        stop.check()
        yield change


@contextmanager
def spooled() -> Generator[Spool]:
    """Return a buffer for changes, which is deleted afterwards."""
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as file:
        yield Spool(file)
