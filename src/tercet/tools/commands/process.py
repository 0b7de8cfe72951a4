"""A program as a process: in a group of its own, read with a limit, and gone when the call is.

The group is killed as a whole: on time-out, on cancellation, when it prints too much, and also when the program itself has
ended, since what it left behind would go on in nobody's name. A thread waits for the program's end *without* collecting
it, kills the group, and only then collects it: as long as it is not collected, no other process can get its number.
A child that makes itself a session of its own leaves the group, and is not found.
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
"""How long the rest of the output is waited for once the group is dead: somebody who left it may hold the pipe."""

_LAUNCHER = """
import json, os, resource, sys
told, path, limits = int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
os.set_inheritable(told, False)
try:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name, limit in limits.items():
        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (limit, limit))
    os.execv(path, sys.argv[4:])
except (OSError, ValueError) as error:
    os.write(told, str(error).encode("utf-8", "replace")[:500])
    os._exit(127)
"""
# Limits are set by a program of a few lines that then becomes the real one. `preexec_fn` would run Python between fork
# and exec, in a process that has threads; and limits set from here would come after the program has begun.


@dataclass(frozen=True, kw_only=True)
class Launch:
    """A program, ready to be run."""

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
    """Run a program to its end; whoever cancels this kills it and what it started."""
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
        return subprocess.Popen(  # noqa: S603 - the pack names the program, and no shell reads what it is given
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
    """What the program reads: a file, so that one that does not read keeps nobody waiting."""
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
    """Take the error of a reading that was given up, so that nobody warns that it was never taken."""
    if not reading.cancelled():
        reading.exception()


class _Watch:
    """Waits in a thread for a program's end, and is the only one to collect it."""

    def __init__(self, process: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop) -> None:
        self.ended: asyncio.Future[int] = loop.create_future()
        self._process = process
        self._loop = loop
        self._lock = threading.Lock()
        self._is_collected = False
        threading.Thread(target=self._wait, name="tercet command", daemon=True).start()

    def kill(self) -> None:
        """End the whole group, unless it has been collected already."""
        with self._lock:
            if not self._is_collected:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)

    def _wait(self) -> None:
        if hasattr(os, "waitid"):
            with suppress(ChildProcessError):
                os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        else:  # it is collected at once: in the moment until its group is killed, its number is free
            self._process.wait()
        self.kill()
        with self._lock:
            code = self._process.wait()
            self._is_collected = True
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._tell, code)

    def _tell(self, code: int) -> None:
        if not self.ended.done():
            self.ended.set_result(code)


class _Pipe:
    """What a program prints, up to a limit; the rest is read and thrown away."""

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
    """The end of what a program prints: why it failed stands there."""

    def keep(self, part: bytes) -> None:
        self.data += part
        self.data[: -self._limit - 1] = b""

    def words(self) -> bytes:
        """What was kept, from its first whole word on: half a secret would not be known as one any more."""
        if not self.is_over:
            return bytes(self.data)
        return b"".join(self.data.split(maxsplit=1)[1:])
