"""Turns a command into a tool, and runs its process."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

import orjson

from tercet.contracts.errors import GatewayError, NotDone, NotSent, Unusable
from tercet.contracts.mode import ApprovalMode
from tercet.tools.code import find_changed
from tercet.tools.commands.command import Command, fill
from tercet.tools.http.exchange import read_json
from tercet.tools.secrets import Redaction, read_secret
from tercet.tools.tool import Terms, Tool, ToolContext, one_line, uncalled

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


# --- making ---


KEY_VARIABLE = "TERCET_IDEMPOTENCY_KEY"
FENCE_VARIABLE = "TERCET_FENCING_TOKEN"
_OF_THE_TOOL = {*Terms.model_fields} - {"timeout_ms"}


@dataclass(frozen=True, kw_only=True)
class Place:
    """The environment of a command: its pack folder, its program as found, and the hashed files."""

    folder: Path = field(default_factory=Path.cwd)
    program: str | None = None
    """The program's path; None if it did not exist when the pack was loaded."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """The hashes of the files among the arguments, by their names in the pack or their absolute paths."""
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)


def find_program(command: Command, folder: Path, environment: Mapping[str, str]) -> str | None:
    """Return the path of a command's program: in the pack if its name has a slash, else on the search path."""
    name = command.argv[0].replace("$$", "$")
    if "/" in name:
        path = folder / name
        return str(path) if path.is_file() and os.access(path, os.X_OK) else None
    return shutil.which(name, path=environment.get("PATH", os.defpath))


def command_tool(command: Command, *, place: Place | None = None) -> Tool:
    """Return the tool for a command."""
    place = place or Place()
    fields: dict[str, Any] = {
        "mode": ApprovalMode.DESTRUCTIVE,
        **command.declared,
        "timeout_ms": command.timeout_ms,
        "name": command.name,
        "parameters": command.inputs,
        "result": command.shape,
        "adapter": "command",
    }
    made = Tool.model_validate({**fields, "call": uncalled})
    definition = {
        "command": command.model_dump(mode="json", exclude_defaults=True, exclude=_OF_THE_TOOL),
        "files": dict(place.files),
    }
    return made.model_copy(update={"call": make_call(command, made, place), "definition": definition})


def make_call(command: Command, tool: Tool, place: Place) -> Callable[..., Any]:
    """Return the function that runs a command."""

    async def call(_tercet_context: ToolContext, **params: Any) -> Any:
        secrets = {name: read_secret(place.environment, name, tool.name) for name in command.secrets}
        redaction = Redaction(secrets.values())
        launch = _launch(command, tool, place, _tercet_context, {**command.defaults, **params}, secrets)
        ran = await _in_time(launch, tool)
        if isinstance(ran, NotRun):
            raise _not_run(tool, redaction.text(ran.error), "program_failed")
        return _result(command, tool, ran, redaction)

    return call


async def _in_time(launch: Launch, tool: Tool) -> Ran | NotRun:
    """Wait for the end of a program within the tool's timeout, also without a gateway."""
    try:
        async with asyncio.timeout(tool.timeout_ms / 1_000):
            return await run(launch)
    except TimeoutError:
        pass
    raise GatewayError(
        f"{tool.name} did not end within {tool.timeout_ms:,} ms and was killed", code="timeout"
    )


def _launch(
    command: Command,
    tool: Tool,
    place: Place,
    context: ToolContext,
    params: dict[str, Any],
    secrets: dict[str, str],
) -> Launch:
    arguments = fill(command.template, params, command.options)
    program = place.program or find_program(command, place.folder, place.environment)
    if program is None:
        raise _not_run(tool, f"the program {command.argv[0]} does not exist", "program_missing")
    if (name := find_changed(place.folder, place.files)) is not None:
        raise _not_run(tool, f"{name} has changed since the pack was loaded", "program_changed")
    seen = {name: place.environment[name] for name in command.env if name in place.environment}
    return Launch(
        path=program,
        argv=arguments,
        environment={
            **seen,
            **secrets,
            KEY_VARIABLE: context.idempotency_key,
            FENCE_VARIABLE: str(context.fencing_token),
        },
        cwd=str(place.folder / command.cwd),
        stdin=orjson.dumps(params) if command.stdin == "json" else None,
        limits=command.resource_limits,
        max_output_bytes=command.max_output_bytes,
    )


def _not_run(tool: Tool, why: str, code: str) -> NotSent:
    return NotSent(f"{tool.name} was not run: {why}", code=code, is_retriable=False)


def _result(command: Command, tool: Tool, ran: Ran, redaction: Redaction) -> Any:
    """Return the output of a successful program; else raise the error that states the outcome."""
    if ran.is_cut:
        raise GatewayError(
            f"{tool.name} printed more than {command.max_output_bytes:,} bytes and was ended",
            code="output_too_large",
        )
    said = one_line(redaction.text(ran.errors.decode("utf-8", "replace")))
    said = f"…{said[-200:]}" if len(said) > 200 else said
    ended = f"was ended by signal {-ran.code}" if ran.code < 0 else f"ended with exit code {ran.code}"
    message = f"{tool.name} {ended}{f': {said}' if said else ''}"
    code = "signalled" if ran.code < 0 else f"exit_{ran.code}"
    if ran.code in command.not_done:
        raise NotDone(message, code=code, is_attempt_only=True)
    if ran.code not in command.done:
        raise GatewayError(message, code=code)
    return _value(command, tool, ran.output.decode("utf-8", "replace"), redaction)


def _value(command: Command, tool: Tool, text: str, redaction: Redaction) -> Any:
    match command.result:
        case "text":
            return redaction.text(text)
        case "lines":
            return [redaction.text(line) for line in text.splitlines()]
        case "json":
            pass
    fault = ""
    try:
        return redaction.value(read_json(text))
    except Unusable as error:
        fault = error.message
    raise Unusable(f"{tool.name}: {redaction.text(fault)}", code="answer_not_json")
