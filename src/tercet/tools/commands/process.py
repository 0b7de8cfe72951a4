"""Runs a program in its own process group, reads its output with a limit, and kills it when the call ends.

The group is killed as a whole: on timeout, on cancellation, when it prints too much, and also when the program itself
has ended, since processes left behind would run without an owner. A thread waits for the program's end *without*
reaping it, kills the group, and only then reaps it: until it is reaped, no other process can get its number. A child
that creates its own session leaves the group, and is not found.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, NamedTuple

STDERR_BYTES = 4_096
_LINGER_S = 2.0
"""How long to wait for the rest of the output once the group is dead: a process that left it may hold the pipe."""

_LAUNCHER = """
import json, os, resource, sys
report, path, limits = int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
os.set_inheritable(report, False)
try:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name, limit in limits.items():
        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (limit, limit))
    os.execv(path, sys.argv[4:])
except (OSError, ValueError) as error:
    os.write(report, str(error).encode("utf-8", "replace")[:500])
    os._exit(127)
"""
# Limits are set by a small program that then execs the real one. `preexec_fn` would run Python between fork
# and exec, in a process that has threads; and limits set from here would come after the program has begun.


@dataclass(frozen=True, kw_only=True)
class Launch:
    """A program, ready to run."""

    path: str
    argv: Sequence[str]
    environment: Mapping[str, str]
    cwd: str
    stdin: bytes | None
    limits: Mapping[str, int]
    max_output_bytes: int


class Ran(NamedTuple):
    """A program that has ended. A negative `code` is the signal that ended it."""

    code: int
    output: bytes
    errors: bytes
    is_cut: bool
    """Whether it was killed because it printed too much."""


class NotRun(NamedTuple):
    """A program that could not be started."""

    error: str


async def run(launch: Launch) -> Ran | NotRun:
    """Run a program to its end; cancelling this kills it and what it started."""
    told, telling = os.pipe()
    try:
        started = _start(launch, telling)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        os.close(told)
        return NotRun(str(error))
    finally:
        os.close(telling)
    watch = _Watch(started, asyncio.get_running_loop())
    pipes = _Pipe(started.stdout, launch.max_output_bytes), _Tail(started.stderr, STDERR_BYTES)
    try:
        await asyncio.gather(*(pipe.open() for pipe in pipes))
        return await _follow(watch, pipes, told)
    finally:
        watch.kill()
        for pipe in pipes:
            pipe.close()
        os.close(told)


def _start(launch: Launch, telling: int) -> subprocess.Popen[bytes]:
    argv, path = list(launch.argv), launch.path
    if launch.limits:
        limits = json.dumps(dict(launch.limits))
        argv = [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(telling), path, limits, *argv]
        path = sys.executable
    with _input(launch.stdin) as given:
        return subprocess.Popen(  # noqa: S603 - the pack names the program, and no shell is involved
            argv,
            executable=path,
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(launch.environment),
            cwd=launch.cwd,
            start_new_session=True,
            pass_fds=(telling,) if launch.limits else (),
        )


def _input(data: bytes | None) -> IO[bytes]:
    """Return the program's input as a file, so that a program that does not read blocks nothing."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.write(data or b"")
    file.seek(0)
    return file


async def _follow(watch: _Watch, pipes: tuple[_Pipe, _Tail], told: int) -> Ran | NotRun:
    output, errors = pipes
    reading = asyncio.gather(output.read(watch.kill), errors.read())
    reading.add_done_callback(_take)
    try:
        code = await watch.ended
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_S):
                await asyncio.shield(reading)
    finally:
        reading.cancel()
    os.set_blocking(told, False)
    with suppress(BlockingIOError):
        if fault := os.read(told, 500):
            return NotRun(fault.decode("utf-8", "replace"))
    return Ran(code, bytes(output.data), errors.words(), output.is_over)


def _take(reading: asyncio.Future[tuple[None, None]]) -> None:
    """Retrieve the error of an abandoned read, so that asyncio does not warn about it."""
    if not reading.cancelled():
        reading.exception()


class _Watch:
    """Waits in a thread for a program's end; only it reaps the process."""

    def __init__(self, process: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop) -> None:
        self.ended: asyncio.Future[int] = loop.create_future()
        self._process = process
        self._loop = loop
        self._lock = threading.Lock()
        self._is_collected = False
        threading.Thread(target=self._wait, name="tercet command", daemon=True).start()

    def kill(self) -> None:
        """End the whole group, unless it has been reaped already."""
        with self._lock:
            if not self._is_collected:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)

    def _wait(self) -> None:
        if hasattr(os, "waitid"):
            with suppress(ChildProcessError):
                os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        else:  # reaped at once: until its group is killed, its number may be reused
            self._process.wait()
        self.kill()
        with self._lock:
            code = self._process.wait()
            self._is_collected = True
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._tell, code)

    def _tell(self, code: int) -> None:
        if not self.ended.done():
            self.ended.set_result(code)


class _Pipe:
    """A program's output, up to a limit; the rest is read and discarded."""

    def __init__(self, source: IO[bytes] | None, limit: int) -> None:
        self.data: bytearray = bytearray()
        self.is_over = False
        self._source = source
        self._limit = limit
        self._reader = asyncio.StreamReader(limit=2**16)
        self._transport: asyncio.ReadTransport | None = None

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        protocol = asyncio.StreamReaderProtocol(self._reader)
        self._transport, _ = await loop.connect_read_pipe(lambda: protocol, self._source)

    async def read(self, when_over: Callable[[], None] = lambda: None) -> None:
        while part := await self._reader.read(2**16):
            self.keep(part)
            if len(self.data) > self._limit and not self.is_over:
                self.is_over = True
                when_over()

    def keep(self, part: bytes) -> None:
        self.data += part[: self._limit + 1 - len(self.data)]

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
        elif self._source is not None:
            self._source.close()


class _Tail(_Pipe):
    """The end of a program's output, which usually says why it failed."""

    def keep(self, part: bytes) -> None:
        self.data += part
        self.data[: -self._limit - 1] = b""

    def words(self) -> bytes:
        """Return the kept text from its first whole word on: a truncated secret would not be recognised."""
        if not self.is_over:
            return bytes(self.data)
        return b"".join(self.data.split(maxsplit=1)[1:])
