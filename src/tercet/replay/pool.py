"""Many recorded runs at once: one process for each core, a few runs at a time.

Judging again is pure computing, which Python's threads cannot share. Processes are started anew and not forked: a journal
has threads of its own, which a forked process would be left without.
"""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import islice
from typing import Any, TypeVar, cast

_ItemT = TypeVar("_ItemT")
_FoundT = TypeVar("_FoundT")

CHUNK = 20
"""How many runs are handed over at a time."""
FEW = 60
"""So many runs are judged sooner than another process is started."""

_job: list[Callable[[Any], Any]] = []
"""What this process, one of a pool, does with each item."""


def on_all_cores(
    job: Callable[[_ItemT], _FoundT],
    items: Iterable[_ItemT],
    *,
    workers: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[_FoundT]:
    """What a job makes of each item, in order. Without `workers`, few items are done here, and many on all cores."""
    told = progress or _untold
    rest = iter(items)
    head = list(islice(rest, FEW)) if workers is None else []
    limit = workers or (os.cpu_count() or 1)
    if limit < 2 or (workers is None and len(head) < FEW):
        return list(_here(job, _chain(head, rest), told))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        limit, mp_context=context, initializer=_prepare, initargs=(cast("Callable[[Any], Any]", job),)
    ) as pool:
        return list(_there(pool, _chain(head, rest), told, ahead=2 * limit))


def _untold(_: int) -> None:
    """Nobody wants to know how far it is."""


def _chain(head: list[_ItemT], rest: Iterator[_ItemT]) -> Iterator[_ItemT]:
    yield from head
    yield from rest


def _here(
    job: Callable[[_ItemT], _FoundT], items: Iterator[_ItemT], told: Callable[[int], None]
) -> Iterator[_FoundT]:
    for done, item in enumerate(items, 1):
        yield job(item)
        told(done)


def _there(
    pool: ProcessPoolExecutor, items: Iterator[Any], told: Callable[[int], None], *, ahead: int
) -> Iterator[Any]:
    """Hand chunks over, never many more than there are processes: the runs of a journal may not fit into memory."""
    done = 0
    under_way: deque[Future[list[Any]]] = deque()
    while True:
        while len(under_way) < ahead and (chunk := list(islice(items, CHUNK))):
            under_way.append(pool.submit(_do, chunk))
        if not under_way:
            return
        found = under_way.popleft().result()
        done += len(found)
        told(done)
        yield from found


def _prepare(job: Callable[[Any], Any]) -> None:
    _job[:] = [job]


def _do(chunk: list[Any]) -> list[Any]:
    return [_job[0](item) for item in chunk]
