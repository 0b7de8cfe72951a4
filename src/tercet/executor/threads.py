"""Threads for tools that are plain functions, and for work that would block the event loop.

They are daemons, and as many as calls are in progress. The standard pool is joined when the process ends, and has few
threads: one tool that never returns would keep the process for ever, and a handful of them would stop all others.
"""

from __future__ import annotations

import asyncio
import queue
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from tercet.executor import collector

_T = TypeVar("_T")

_LINGER_S = 5.0
"""How long a thread without work waits for more."""
SWITCH_S = 0.0005
"""How long heavy work keeps the interpreter from the event loop each time that this waits for something. A run waits for its
writer, for the disk and for sockets dozens of times, so that Python's default of 5 ms would add up to most of a second."""


class _Yield(collector.HoldBack):
    """Lets threads take turns more often. An interval that the program sets itself is left alone."""

    _before = 0.0

    def _begin(self) -> None:
        self._before = sys.getswitchinterval()
        if self._before > SWITCH_S:
            sys.setswitchinterval(SWITCH_S)

    def _end(self) -> None:
        if sys.getswitchinterval() == SWITCH_S < self._before:
            sys.setswitchinterval(self._before)


_yielding = _Yield()
"""While heavy work is under way."""


class HeavyWork:
    """How much work on large values and plans is under way: two pieces in all, and one of each tenant.

    Python runs one thread at a time, so that more of them would be no faster, and the event loop would wait for each.
    """

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(2)
        self._tenants: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def take(self, tenant: str) -> Callable[[], None]:
        """Wait for a place, and return the function that frees it."""
        own = self._tenants.setdefault(tenant, asyncio.Lock())
        await own.acquire()
        try:
            await self._places.acquire()
        except BaseException:
            own.release()
            raise

        def free() -> None:
            self._places.release()
            own.release()

        return free

    async def run(self, threads: ToolThreads, tenant: str, function: Callable[[], _T]) -> _T:
        """Return the result of a function that runs in a thread. Its place is free again when the function has ended, also if
        nothing waits for it any more."""
        free = await self.take(tenant)
        running = asyncio.get_running_loop().run_in_executor(threads, partial(_considerately, function))
        running.add_done_callback(lambda _: free())
        return await asyncio.shield(running)


class ToolThreads(Executor):
    """Runs each function at once, in a thread that waits for work or in a new one."""

    def __init__(self, heavy: HeavyWork | None = None, tenant: str = "") -> None:
        """`heavy` is shared by those who share the event loop."""
        self._heavy = heavy or HeavyWork()
        self._tenant = tenant
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting = 0
        """Threads that wait and for which no job has been put yet."""

    def submit(self, fn: Callable[..., _T], /, *args: Any, **kwargs: Any) -> Future[_T]:
        """Begin to run a function."""
        future: Future[_T] = Future()
        with self._lock:
            self._jobs.put((future, partial(fn, *args, **kwargs)))
            if self._waiting:
                self._waiting -= 1
            else:
                threading.Thread(target=self._serve, name="tercet tool", daemon=True).start()
        return future

    async def work(self, function: Callable[[], _T]) -> _T:
        """Run pure work on large values in a thread and return its result, so that the event loop is not blocked."""
        return await self._heavy.run(self, self._tenant, function)

    def _serve(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=_LINGER_S)
            except queue.Empty:
                with self._lock:
                    if not self._waiting:
                        continue  # a job was put for this thread in this very moment
                    self._waiting -= 1
                return
            _run(*job)
            # What a tool returned must not live on in a thread that waits.
            del job
            with self._lock:
                self._waiting += 1


def _considerately(function: Callable[[], _T]) -> _T:
    """Return the result of heavy work that keeps other threads waiting as little as it can."""
    with collector.paused, _yielding:
        return function()


def _run(future: Future[Any], function: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = function()
    except BaseException as error:  # noqa: BLE001 - whatever it is, the waiter must get it
        future.set_exception(error)
    else:
        future.set_result(result)
