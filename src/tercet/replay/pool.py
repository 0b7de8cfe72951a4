"""Processing of many recorded runs in one process per core, with few runs in memory at a time.

Judging again is pure computing, which Python's threads cannot share. Processes are started again and not forked: a journal
has threads of its own, which a forked process would be left without. Runs are taken as they are needed and passed on in
batches, one for each process and one to come; so it does not matter how many runs there are.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import closing, contextmanager
from typing import Any, TypeVar, cast

from tercet.replay.recording import Recording

_FoundT = TypeVar("_FoundT")

BATCH = 20
"""How many runs a process is given at a time."""
BATCH_BYTES = 8 * 2**20
"""The number of bytes that fill a batch, whatever the number of runs."""
FEW = 60
"""The number of runs that are judged faster than another process starts."""

_job: list[Callable[[Any], Any]] = []
"""The job of this process, one of a pool."""


def most_held(workers: int) -> int:
    """Return the maximum number of runs in memory for a number of processes."""
    return 1 if workers < 2 else BATCH * (workers + 1)


def on_all_cores(
    job: Callable[[Recording], _FoundT],
    runs: Iterable[Recording],
    *,
    workers: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[_FoundT]:
    """Return the result of a job for each run, in order; `progress` receives how many are done."""
    found: list[_FoundT] = []
    with closing(one_by_one(job, runs, workers=workers)) as coming:
        for each in coming:
            found.append(each)
            if progress is not None:
                progress(len(found))
    return found


def one_by_one(
    job: Callable[[Recording], _FoundT], runs: Iterable[Recording], *, workers: int | None = None
) -> Generator[_FoundT]:
    """Yield the same as it comes. Without `workers`, few runs are judged here, and many on all cores; close it to stop early.

    What raises while runs are taken is raised once those before it are judged.
    """
    source = _Source(runs)
    limit = workers or (os.cpu_count() or 1)
    # A few are looked at to know whether there are many. What was looked at is released as it is judged.
    head = deque(_batch(source, FEW)) if workers is None and limit > 1 else deque[Recording]()
    is_few = workers is None and len(head) < FEW and sum(map(size_of, head)) < BATCH_BYTES
    coming = _chain(head, source)
    if limit < 2 or is_few:
        yield from map(job, coming)
    else:
        with _pool(job, limit) as pool:
            yield from _submit_batches(pool, coming, ahead=limit + 1)
    if source.error is not None:
        raise source.error


class _Source(Iterator[Recording]):
    """Runs up to the first that cannot be had, and why."""

    def __init__(self, runs: Iterable[Recording]) -> None:
        self._runs = iter(runs)
        self.error: Exception | None = None

    def __next__(self) -> Recording:
        if self.error is not None:
            raise StopIteration
        try:
            return next(self._runs)
        except StopIteration:
            raise
        except Exception as error:
            self.error = error
            raise StopIteration from error


def size_of(run: Recording) -> int:
    """Return how many bytes a run has."""
    return sum(map(len, run.events)) + sum(map(len, run.blobs.values()))


def _chain(head: deque[Recording], rest: Iterator[Recording]) -> Iterator[Recording]:
    while head:
        yield head.popleft()
    yield from rest


def _batch(runs: Iterator[Recording], most: int = BATCH) -> list[Recording]:
    """Return the next few runs, or the next large one."""
    batch: list[Recording] = []
    size = 0
    for run in runs:
        batch.append(run)
        size += size_of(run)
        if len(batch) >= most or size >= BATCH_BYTES:
            break
    return batch


@contextmanager
def _pool(job: Callable[[Recording], Any], limit: int) -> Generator[ProcessPoolExecutor]:
    """Return processes that do a job; leaving early cancels the batches that have not begun."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(limit, mp_context=context, initializer=_prepare, initargs=(job,))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _submit_batches(pool: ProcessPoolExecutor, runs: Iterator[Recording], *, ahead: int) -> Iterator[Any]:
    """Submit a batch for each process and one ahead, and yield the results."""
    under_way: deque[Future[list[Any]]] = deque()
    while True:
        while len(under_way) < ahead and (batch := _batch(runs)):
            with _uninterrupted():
                under_way.append(pool.submit(_do, batch))
            del batch
        if not under_way:
            return
        yield from under_way.popleft().result()


@contextmanager
def _uninterrupted() -> Generator[None]:
    """Ignore Ctrl-C in the started processes: a terminal sends it to all of them, and this process stops them itself.

    They inherit what is held back; here it comes a moment later.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _prepare(job: Callable[[Recording], Any]) -> None:
    _job[:] = [cast("Callable[[Any], Any]", job)]


def _do(batch: list[Recording]) -> list[Any]:
    return [_job[0](run) for run in batch]
