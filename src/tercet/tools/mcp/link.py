"""One connection to an MCP server: opened, initialised, its tools listed; then calls, until it is closed or lost.

The SDK's scopes must be left by the task that entered them, so each connection has its own task. A call runs in its
caller's task, and cancelling it notifies the server.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import mcp_types as types
from mcp import Client, MCPError
from mcp.client import IncomingMessage, Transport
from mcp.shared.dispatcher import ProgressFnT
from pydantic import ValidationError

from tercet.contracts.errors import NotSent, UsageError
from tercet.contracts.shape import as_list, as_object
from tercet.contracts.values.plain import storable
from tercet.tools.mcp import http, stdio
from tercet.tools.mcp.server import Definition, ServerSpec
from tercet.tools.secrets import MIN_LENGTH, Redaction

LEAST = 4
"""Shorter values are not hidden, since that would damage ordinary text."""
HIDDEN = "[hidden]"


class Secrets:
    """The values of some environment variables, and redaction of them."""

    def __init__(self, names: Sequence[str], environment: Mapping[str, str]) -> None:
        """Raise `NotSent` if a variable is not set: nothing was called."""
        missing = [name for name in names if not environment.get(name)]
        if missing:
            raise NotSent(
                f"the environment variable {missing[0]} is not set",
                code="mcp_environment",
                remedy=f"set {', '.join(missing)} for the process that runs Tercet",
                is_retriable=False,
            )
        self.values = {name: environment[name] for name in names}
        found = self.values.values()
        self._redaction = Redaction((value for value in found if len(value) >= MIN_LENGTH), mark=HIDDEN)
        # Longest first: one value may contain another.
        self._short = sorted((value for value in found if LEAST <= len(value) < MIN_LENGTH), key=len)[::-1]

    def hide(self, text: str) -> str:
        """Return the text without the values."""
        text = self._redaction.text(text)
        for value in self._short:
            text = text.replace(value, HIDDEN)
        return text

    def hide_in(self, value: Any) -> Any:
        """Return a JSON value without the secret values."""
        if isinstance(value, str):
            return self.hide(value)
        if (members := as_object(value)) is not None:
            return {self.hide(key): self.hide_in(member) for key, member in members.items()}
        if (items := as_list(value)) is not None:
            return [self.hide_in(item) for item in items]
        return self._redaction.value(value)


# A broken connection is reported as an error here; to see the SDK's own logs, configure logging.
logging.getLogger("mcp").addHandler(logging.NullHandler())

PASSED_ON = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER")
"""Variables that every program receives."""
MAX_TOOLS = 1_000
"""The maximum number of tools of a server."""
_CLOSING_S = 8.0


class Link:
    """A connection, usable after it is opened and until `is_lost`."""

    def __init__(self, spec: ServerSpec, folder: Path) -> None:
        self.secrets = Secrets(spec.variables, os.environ)
        self.notes = stdio.Notes(hide=self.secrets.hide)
        self.definitions: dict[str, Definition] = {}
        self.protocol = ""
        self._is_open = False
        self.is_stale = False
        """Whether the server reported a change of its tools since they were listed."""
        self._spec = spec
        self._folder = folder
        self._client: Client | None = None
        self._turned_away: set[str] = set()
        self._ending = asyncio.Event()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None

    @classmethod
    async def opened(cls, spec: ServerSpec, folder: Path, *, within_ms: int) -> Link:
        """Return a connection with its tools listed; raise `NotSent`, since nothing was called, if it is not ready in
        time.
        """
        link = cls(spec, folder)
        try:
            await link.open(within_ms)
        except BaseException:
            await link.aclose()
            raise
        return link

    async def open(self, within_ms: int) -> None:
        """Connect, once; raises like `opened`. A connection that failed to open must be closed with `aclose` too."""
        self._task = asyncio.ensure_future(self._live())
        try:
            async with asyncio.timeout(within_ms / 1000):
                await asyncio.shield(self._ready)
        except TimeoutError:
            self._give_up(self._task)
            raise self._fault(f"did not answer the handshake within {within_ms:,} ms", _SLOW) from None
        except BaseException:
            self._give_up(self._task)
            raise

    def _give_up(self, task: asyncio.Task[None]) -> None:
        self._is_open = False
        task.cancel()

    @property
    def is_lost(self) -> bool:
        """Whether nothing can be called over it any more."""
        return not self._is_open or self.notes.has_ended

    async def call(
        self, name: str, params: dict[str, Any], *, meta: dict[str, Any], progress: ProgressFnT
    ) -> types.CallToolResult:
        """Call a tool. Raises `NotSent` if the server certainly did not take the call; any other exception says nothing
        about whether the call happened.
        """
        if self._client is None:
            raise MCPError(types.CONNECTION_CLOSED, "there is no connection")
        # Not `Client.call_tool`: that resends a call after some refusals, and treats a result that violates
        # its schema as a failure of the call.
        mark = uuid4().hex
        asked = {"name": name, "arguments": params, "_meta": {**meta, http.MARK: mark}}
        request = types.CallToolRequest(params=types.CallToolRequestParams.model_validate(asked))
        try:
            return await self._client.session.send_request(
                request, types.CallToolResult, progress_callback=progress
            )
        except MCPError as error:
            if mark in self._turned_away:
                raise self._fault(f"did not take the call: {error.message}", _OTHER) from None
            raise

    async def list_tools(self) -> dict[str, Definition]:
        """Return the current definitions of the server's tools."""
        if self._client is None:
            raise MCPError(types.CONNECTION_CLOSED, "there is no connection")
        found: dict[str, Definition] = {}
        cursor: str | None = None
        self.is_stale = False
        while True:
            page = await self._client.session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
            for tool in page.tools:
                definition = self._definition(tool)
                if found.setdefault(definition.name, definition) is not definition:
                    raise ValueError(f"it has two tools named {definition.name!r}")
            cursor = page.next_cursor
            if cursor is None:
                self.definitions = found
                return found
            if len(found) > MAX_TOOLS or not page.tools:
                raise ValueError(f"its list of tools has no end, or more than {MAX_TOOLS:,} entries")

    async def aclose(self) -> None:
        """Close the connection, and end the program behind it."""
        self._is_open = False
        self._ending.set()
        task = self._task
        if task is None or task.done():
            return
        await asyncio.wait([task], timeout=_CLOSING_S)
        if not task.done():
            task.cancel()

    async def _live(self) -> None:
        try:
            await self._serve()
        except asyncio.CancelledError:
            self._fail("was stopped", "")
            raise
        except BaseException as error:  # noqa: BLE001 - any error must reach the waiting caller
            self._explain(_leaf(error))
        finally:
            self._is_open = False
            self._client = None
            self._fail("closed the connection", _CLOSED)

    async def _serve(self) -> None:
        client = Client(
            self._transport(),
            mode="legacy" if self._spec.protocol == "initialize" else "auto",
            client_info=types.Implementation(name="tercet", version=version("tercet")),
            message_handler=self._hear,
            cache=None,
        )
        async with client:
            self._client = client
            self.protocol = client.protocol_version
            await self.list_tools()
            if not self._ready.done():
                self._is_open = True
                self._ready.set_result(None)
            await self._ending.wait()

    async def _hear(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.is_stale = True

    def _transport(self) -> Transport:
        spec, values = self._spec, self.secrets.values
        if spec.url is not None:
            headers = {name: values[variable] for name, variable in spec.headers.items()}
            return http.reach(spec.url, headers=headers, turned_away=self._turned_away)
        command = spec.command or ()
        if command[:1] == ("python",):
            command = (sys.executable, *command[1:])
        seen = (*PASSED_ON, *spec.plain_env)
        usual = {name: os.environ[name] for name in seen if name in os.environ}
        return stdio.start(command, folder=self._folder, environment={**usual, **values}, notes=self.notes)

    def _definition(self, tool: types.Tool) -> Definition:
        """Return the definition of a tool; values of this machine's environment must not be pinned with it."""
        told = tool.model_dump(mode="json", by_alias=True, exclude_none=True)
        return Definition.read(self.secrets.hide_in(told))

    # --- what went wrong ---

    def _explain(self, error: BaseException) -> None:
        """Give the waiting caller the reason why there is no connection."""
        match error:
            case NotSent():
                if not self._ready.done():
                    self._ready.set_exception(error)
            case FileNotFoundError() | PermissionError():
                what = f"cannot be started: {error.strerror}: {error.filename}"
                self._fail(what, "check that the first word of its command is a program on this machine")
            case MCPError() if error.code == types.CONNECTION_CLOSED:
                self._fail("ended during the handshake", _CLOSED)
            case MCPError():
                self._fail(f"refused the handshake: {error.message}", _OTHER)
            case RuntimeError() if "protocol version" in str(error):
                self._fail(
                    f"speaks another protocol: {error}", "update the server, or Tercet with its MCP SDK"
                )
            case ValidationError() | ValueError() | UsageError():
                fault = _first_fault(error) if isinstance(error, ValidationError) else str(error)
                self._fail(f"lists invalid tools: {fault}", "correct the server's tool definitions")
            case _:
                self._fail(f"cannot be reached: {type(error).__name__}: {error}", _OTHER)

    def _fail(self, what: str, remedy: str) -> None:
        if not self._ready.done():
            self._ready.set_exception(self._fault(what, remedy))
            self._ready.exception()  # retrieved: the waiting caller may be gone

    def _fault(self, what: str, remedy: str) -> NotSent:
        notes = self.notes.text()
        if self.notes.stray:
            remedy = "let the server print to stderr: its stdout is for messages"
        told = f"the MCP server {self._spec.name} {what}{f' ({notes})' if notes else ''}"
        return NotSent(storable(self.secrets.hide(told)), code="mcp_unreachable", remedy=remedy or None)


_SLOW = 'raise its start_timeout_ms in mcp.toml; protocol = "initialize" helps with a server that ignores newer handshakes'
_CLOSED = "run its command by hand in the pack's folder: it must wait for messages on its stdin"
_OTHER = "check that it is an MCP server, and that its address and headers are right"


def _first_fault(error: ValidationError) -> str:
    detail = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}"


def _leaf(error: BaseException) -> BaseException:
    """Return the first error of an exception group."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error
