"""Where worker processes come from: a server that has imported everything, and forks.

Each worker is a process of its own, to be killed and stopped like any other. Starting an interpreter anew for each of
them would cost ten times what they do.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

from . import worker

TESTS = Path(__file__).parents[1]


class Worker:
    """A process that has been started: a worker, or somebody who does something else with its words."""

    def __init__(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        main: Callable[[Sequence[str], worker.Say], None] = worker.main,
    ) -> None:
        self._ear, mouth = _nursery().Pipe(duplex=False)
        given = (main, words, dict(environment), mouth)
        self._process = _nursery().Process(target=_work, args=given, daemon=True)
        self._process.start()
        mouth.close()  # the worker has the other copy: when it ends, in whatever way, nobody has one
        self.pid = self._process.pid or 0

    def kill(self) -> None:
        """End it without a word."""
        self._process.kill()

    def wake(self) -> None:
        """Let it go on after it was stopped."""
        os.kill(self.pid, signal.SIGCONT)

    async def said(self) -> str:
        """What it says next; empty at its end."""
        try:
            return await asyncio.to_thread(self._ear.recv)
        except EOFError:
            return ""

    async def ended(self) -> tuple[int, dict[str, Any]]:
        """Wait for its end: its exit code, and the last thing that it said."""
        last = ""
        while line := await self.said():
            last = line
        # Not joined in a thread: starting another worker looks after this one too, and only one may read its code.
        while (code := self._process.exitcode) is None:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.005)
        return code, json.loads(last) if last.startswith("{") else {}

    async def stopped(self) -> bool:
        """Wait until it stands still; False if it has come to its end instead."""
        while self._process.exitcode is None:
            if await asyncio.to_thread(_stands_still, self.pid):
                return True
            await asyncio.sleep(0.02)
        return False


def _work(
    main: Callable[[Sequence[str], worker.Say], None],
    words: Sequence[str],
    environment: Mapping[str, str],
    mouth: Connection[str, str],
) -> None:
    os.environ.update(environment)
    main(words, mouth.send)


@cache
def _nursery() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([f"{__package__}.warmth"])
    before = os.environ.get("PYTHONPATH")
    # The server imports before it is told where from.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(TESTS), before)))
    try:
        forkserver.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
    return context


def _stands_still(pid: int) -> bool:
    """Whether a process is stopped: it is not our child, so the operating system does not tell us by itself."""
    told = subprocess.run(["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True, check=False)  # noqa: S607
    return told.stdout.strip().startswith("T")
