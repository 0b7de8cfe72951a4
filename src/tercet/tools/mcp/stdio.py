"""A server that is a program: started in its own process group, spoken to line by line, and killed at the end.

The SDK has such a transport too. This one adds what an agent runtime needs for an unknown program: a message has a size
limit, the environment is a list of names, stderr is kept for an error instead of printed, and child processes are
killed with it, also when it ends by itself.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

MAX_MESSAGE_BYTES = 8 * 2**20
"""A longer line ends the connection."""
GRACE_S = 1.0
"""How long to wait for a program to end after its input is closed, and again after SIGTERM."""
MAX_STRAY_LINES = 100
"""The number of non-message lines that are tolerated."""
_POLL_S = 0.01

Incoming = MemoryObjectSendStream[SessionMessage | Exception]


@dataclass
class Notes:
    """Observations about a program, for debugging."""

    hide: Callable[[str], str] = str
    """Redacts secrets from a whole line: a truncated secret would not be recognised."""
    words: deque[str] = field(default_factory=lambda: deque[str](maxlen=5))
    """The last lines that it wrote to stderr."""
    stray: str = ""
    """The first line on its stdout that was not a message."""
    stray_lines: int = 0
    fault: str = ""
    """Why this side closed the connection."""
    pid: int = 0
    has_ended: bool = False
    """Whether no further message can arrive."""

    def text(self) -> str:
        """Return the notes as one sentence; empty if there are none."""
        told = [self.fault]
        if self.stray:
            told.append(f"its stdout has a line that is not an MCP message: {self.stray[:120]!r}")
        if self.words:
            told.append(f"its last stderr lines: {' / '.join(self.words)[-300:]}")
        return "; ".join(filter(None, told))


@asynccontextmanager
async def start(
    command: Sequence[str], *, folder: Path, environment: Mapping[str, str], notes: Notes
) -> AsyncGenerator[Any]:
    """Return a transport to a program that is started on entry and ended on exit.

    Entering raises `OSError` if the program cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=folder,
        env=dict(environment),
        start_new_session=True,
        limit=MAX_MESSAGE_BYTES,
    )
    notes.pid = process.pid
    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as group:
        group.start_soon(_read, process, incoming, notes)
        group.start_soon(_write, process, outgoing, incoming)
        group.start_soon(_overhear, process, notes)
        try:
            yield read, write
        finally:
            read.close()
            write.close()
            try:
                with anyio.CancelScope(shield=True):
                    await _end(process)
            finally:
                _signal(process, signal.SIGKILL)  # a second cancellation must not leave processes behind
            group.cancel_scope.cancel()


async def _read(process: asyncio.subprocess.Process, incoming: Incoming, notes: Notes) -> None:
    """Forward messages until the program closes its stdout, or misbehaves; then drain, so that it can end."""
    if process.stdout is None:
        raise RuntimeError("the program was started without a stdout")
    async with incoming:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            while (line := await _next_line(process.stdout, notes)) is not None:
                if (message := _message(line, notes)) is not None:
                    await incoming.send(message)
    notes.has_ended = True
    while await process.stdout.read(65_536):
        pass


async def _next_line(stdout: asyncio.StreamReader, notes: Notes) -> bytes | None:
    if notes.stray_lines > MAX_STRAY_LINES:
        notes.fault = f"it wrote more than {MAX_STRAY_LINES} lines that are not messages"
        return None
    try:
        line = await stdout.readline()
    except ValueError:
        notes.fault = f"it sent a message of more than {MAX_MESSAGE_BYTES:,} bytes"
        return None
    return line or None


def _message(line: bytes, notes: Notes) -> SessionMessage | None:
    if not line.strip():
        return None
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        notes.stray = notes.stray or notes.hide(line.decode(errors="replace").strip())[:200]
        notes.stray_lines += 1
        return None


async def _write(
    process: asyncio.subprocess.Process,
    outgoing: MemoryObjectReceiveStream[SessionMessage],
    incoming: Incoming,
) -> None:
    if process.stdin is None:
        raise RuntimeError("the program was started without a stdin")
    async with outgoing:
        async for each in outgoing:
            text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                process.stdin.write(f"{text}\n".encode())
                await process.stdin.drain()
            except OSError:
                # It may run on without reading: waiting callers must learn that no answer will come.
                incoming.close()
                return


async def _overhear(process: asyncio.subprocess.Process, notes: Notes) -> None:
    if process.stderr is None:
        raise RuntimeError("the program was started without a stderr")
    while True:
        try:
            line = await process.stderr.readline()
        except ValueError:
            continue  # an overlong line, which the reader has dropped
        if not line:
            return
        if words := line.decode(errors="replace").strip():
            notes.words.append(notes.hide(words)[:500])


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ask the program to end, by closing its input and then by a signal, and kill the rest of its group."""
    if process.stdin is not None:
        process.stdin.close()
    if not await _has_ended(process, GRACE_S):
        _signal(process, signal.SIGTERM)
        await _has_ended(process, GRACE_S)
    _signal(process, signal.SIGKILL)
    await _has_ended(process, GRACE_S)
    # The pipes of a surviving child would keep the transport open forever.
    transport: Any = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()


async def _has_ended(process: asyncio.subprocess.Process, seconds: float) -> bool:
    """Return whether the program ends in time. `wait()` would also wait for its children to close the pipes."""
    with anyio.move_on_after(seconds):
        while process.returncode is None:  # noqa: ASYNC110 - there is no event to wait for
            await anyio.sleep(_POLL_S)
    return process.returncode is not None


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
