"""Threads for tools that are plain functions.

They are daemons, and as many as calls are in progress. The standard pool is joined when the process ends, and has few
threads: one tool that never returns would keep the process for ever, and a handful of them would stop all others.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, TypeVar

from tercet.executor import collector

_T = TypeVar("_T")

_LINGER_S = 5.0
"""How long a thread without work waits for more."""


class ToolThreads(Executor):
    """Runs each function at once, in a thread that waits for work or in a new one."""

    def __init__(self) -> None:
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
        return await asyncio.get_running_loop().run_in_executor(self, _without_collector, function)

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


def _without_collector(function: Callable[[], _T]) -> _T:
    with collector.paused:
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
