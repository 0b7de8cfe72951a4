"""A service on loopback that answers as a test says, byte by byte, and tools that call it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tercet.core.answers import Ended
from tercet.executor.clock import SystemClock
from tercet.executor.gateway import Gateway
from tercet.tools import Tool, ToolContext
from tercet.tools.http.service import World
from tercet.tools.openapi import Document, Service, openapi_tools

CONTEXT = ToolContext(
    tenant="t", run_id="r", step_id="s", actor="ada", idempotency_key="key-1", fencing_token=7
)

THING = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "note": {"type": "string"}},
    "required": ["id"],
}
DESCRIPTION: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "things", "version": "1"},
    "paths": {
        "/things/{id}": {
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
            "get": {
                "operationId": "getThing",
                "summary": "Reads a thing.",
                "parameters": [
                    {"name": "tags", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
                    {"name": "X-Trace", "in": "header", "schema": {"type": "string"}},
                ],
                "responses": {"200": {"content": {"application/json": {"schema": THING}}}},
            },
            "delete": {"operationId": "deleteThing", "responses": {"204": {"description": "gone"}}},
        },
        "/things": {
            "post": {
                "operationId": "makeThing",
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json": {
                            "schema": {
                                "type": "object",
                                "properties": {"note": {"type": "string"}},
                                "required": ["note"],
                            }
                        }
                    },
                },
                "responses": {"201": {"content": {"application/json": {"schema": THING}}}},
            }
        },
    },
}


@dataclass(frozen=True)
class Heard:
    """A request as it came in."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


Behave = Callable[[Heard, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Loopback:
    """A running service, and what it has heard."""

    port: int = 0
    heard: list[Heard] = field(default_factory=list[Heard])

    def tools(
        self,
        *,
        host: str = "127.0.0.1",
        is_listed: bool = True,
        world: World | None = None,
        operations: Sequence[Mapping[str, Any]] = (),
        **declared: Any,
    ) -> dict[str, Tool]:
        """The tools of this service by the names of their operations."""
        service = Service.model_validate(
            {
                "name": "things",
                "description": "things.json",
                "base_url": f"http://{host}:{self.port}",
                "egress": [f"{host}:{self.port}"],
                "private": [f"127.0.0.1:{self.port}"] if is_listed else [],
                "operations": "all",
                **declared,
            }
        )
        made = openapi_tools(service, Document(DESCRIPTION), operations, world=world)
        return {tool.capability_id: tool for tool in made}


@asynccontextmanager
async def serving(behave: Behave, **tls: Any) -> AsyncGenerator[Loopback, None]:
    """A service that behaves so, as long as it is needed."""
    loopback = Loopback()
    talks: set[asyncio.Task[None]] = set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (task := asyncio.current_task()) is not None:
            talks.add(task)
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            heard = await _hear(reader)
            loopback.heard.append(heard)
            await behave(heard, writer)
            await writer.drain()
        writer.close()
        with suppress(ConnectionError, asyncio.CancelledError):
            await writer.wait_closed()

    server = await asyncio.start_server(talk, "127.0.0.1", 0, **tls)
    loopback.port = server.sockets[0].getsockname()[1]
    try:
        yield loopback
    finally:
        server.close()
        for task in talks:
            task.cancel()
        await asyncio.gather(*talks, return_exceptions=True)


async def _hear(reader: asyncio.StreamReader) -> Heard:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    headers = {
        name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    method, path, _ = first.split(" ")
    return Heard(method, path, headers, body)


def respond(
    value: Any = None,
    *,
    status: str = "200 OK",
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
) -> bytes:
    """An answer as it stands on the wire."""
    data = json.dumps({"id": 1} if value is None else value).encode() if body is None else body
    lines = {"content-type": "application/json", "content-length": str(len(data)), **(headers or {})}
    shown = "".join(f"{name}: {text}\r\n" for name, text in lines.items() if text)
    return f"HTTP/1.1 {status}\r\n{shown}\r\n".encode() + data


def saying(*answers: bytes) -> Behave:
    """A service that gives these answers, one for each request, and the last one from then on."""
    left = list(answers)

    async def behave(_: Heard, writer: asyncio.StreamWriter) -> None:
        writer.write(left.pop(0) if len(left) > 1 else left[0])

    return behave


async def call(
    tool: Tool,
    params: Mapping[str, Any] | None = None,
    *,
    context: ToolContext = CONTEXT,
    timeout_ms: int = 10_000,
) -> Ended:
    """How one call ends, in real time."""
    given = {"id": "1"} if params is None else dict(params)
    return await Gateway(SystemClock()).call(tool, given, context, timeout_ms=timeout_ms)
