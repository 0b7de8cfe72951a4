"""A server on loopback that speaks OpenAI's protocol badly, in one way for each path: `http://127.0.0.1:PORT/WAY/v1`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Way: TypeAlias = Callable[[asyncio.StreamWriter], Awaitable[None]]
KEY = "sk-very-secret-0123456789"


@dataclass(kw_only=True)
class Misbehaving:
    """The server: where it is, and what it was sent."""

    port: int = 0
    bodies: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    heads: list[str] = field(default_factory=list[str])
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client that was kept waiting went away."""
    waiting: asyncio.Event = field(default_factory=asyncio.Event)

    def url(self, way: str) -> str:
        """The address at which it misbehaves in this way."""
        return f"http://127.0.0.1:{self.port}/{way}/v1"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read one request and answer it in the way that its path says."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.heads.append(head)
            length = next(line for line in head.lower().splitlines() if line.startswith("content-length:"))
            self.bodies.append(json.loads(await reader.readexactly(int(length.split(":")[1]))))
            way = head.split()[1].split("/")[1]
            if way == "hangs":
                self.waiting.set()
                await reader.read()  # ends when the client goes away
                self.hung_up.set()
            else:
                await WAYS[way](writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client went away, as some of these tests want it to
        finally:
            writer.close()


@asynccontextmanager
async def misbehaving() -> AsyncGenerator[Misbehaving]:
    """A server that runs inside the test's own loop."""
    server = Misbehaving()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()


def completion(text: str | None, **choice: Any) -> dict[str, Any]:
    """A well-formed answer."""
    message = {"role": "assistant", "content": text, **choice.pop("message", {})}
    return {
        "id": "c1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message, **choice}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
    }  # fmt: skip


def error(status: int, message: str = f"Incorrect API key: {KEY}", headers: str = "", **parts: Any) -> Way:
    """An answer with an error, which repeats the key as some providers do."""
    return body(json.dumps({"error": {"message": message, **parts}}), status=status, headers=headers)


def body(text: str, *, status: int = 200, kind: str = "application/json", headers: str = "") -> Way:
    """An answer with this body."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        data = text.encode("utf-8", "surrogatepass")
        writer.write(_head(status, kind, len(data), headers) + data)
        await writer.drain()

    return answer


def _head(status: int, kind: str, length: int, headers: str = "") -> bytes:
    lines = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n{headers}connection: close\r\n\r\n"
    return lines.encode()


async def _closes_at_once(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def _closes_in_the_middle(writer: asyncio.StreamWriter) -> None:
    writer.write(_head(200, "application/json", 10_000) + b'{"id": "c1", "choices": [')
    await writer.drain()
    writer.transport.abort()


async def _never_ends(writer: asyncio.StreamWriter) -> None:
    writer.write(_head(200, "application/json", 50_000_000) + b'{"id": "')
    for _ in range(5_000):
        writer.write(b"x" * 10_000)
        await writer.drain()


async def _drips(writer: asyncio.StreamWriter) -> None:
    writer.write(_head(200, "application/json", 1_000))
    for _ in range(1_000):
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.05)  # the server's own slowness, which no test waits for


async def _no_http(writer: asyncio.StreamWriter) -> None:
    writer.write(b"220 mail.example ESMTP ready\r\n")
    await writer.drain()


_BAD_USAGE = {"prompt_tokens": -5, "completion_tokens": 0, "total_tokens": -5}

WAYS: dict[str, Way] = {
    "well": body(json.dumps(completion('{"color": "red"}'))),
    "prose": body(json.dumps(completion("I would rather talk about the weather."))),
    "cut": body(json.dumps(completion('{"color": ', finish_reason="length"))),
    "bad_usage": body(json.dumps({**completion("fine"), "usage": _BAD_USAGE})),
    "no_numbers": body(json.dumps({**completion("fine"), "usage": {**_BAD_USAGE, "total_tokens": "x"}})),
    "no_usage": body(json.dumps({**completion("fine"), "usage": None})),
    "surrogate": body(json.dumps(completion("a \ud800 b"))),
    "error_500": error(500, headers=f"x-echo: Bearer {KEY}\r\n"),
    "error_503": error(503, headers="retry-after: 3\r\n"),
    "error_429": error(429, headers="retry-after: 7\r\n", code="rate_limit_exceeded"),
    "quota": error(429, code="insufficient_quota", type="insufficient_quota"),
    "error_402": error(402),
    "error_401": error(401, code="invalid_api_key"),
    "error_403": error(403),
    "error_404": error(404, code="model_not_found"),
    "error_400": error(400, type="invalid_request_error"),
    "error_408": error(408),
    "error_418": error(418),
    "too_long_for_it": error(400, code="context_length_exceeded"),
    "llama_too_long": error(400, type="exceed_context_size_error", code=400),
    "error_in_words": body(f"<html>Bad gateway, key {KEY}</html>", status=502, kind="text/html"),
    "half_json": body('{"id": "c1", "choices": [{"index": 0, "mess'),
    "no_json": body("it works"),
    "a_list": body("[1, 2, 3]"),
    "null": body("null"),
    "another_shape": body('{"choices": [{"message": 5}], "error": null}'),
    "no_choices": body(json.dumps({**completion("x"), "choices": []})),
    "null_choices": body(json.dumps({**completion("x"), "choices": None})),
    "empty_text": body(json.dumps(completion(""))),
    "null_text": body(json.dumps(completion(None))),
    "blank_text": body(json.dumps(completion(" \n "))),
    "thinks_only": body(json.dumps(completion("", finish_reason="length"))),
    "filtered": body(json.dumps(completion("", finish_reason="content_filter"))),
    "refusal": body(json.dumps(completion(None, message={"refusal": "No."}))),
    "wrong_type": body(json.dumps(completion("fine")), kind="text/plain"),
    "plain_text": body("it works", kind="text/plain"),
    "no_utf8": body('{"id": "\ud800"}'),
    "deep": body("[" * 100_000),
    "redirect": body("", status=307, headers=f"location: https://example.invalid/?key={KEY}\r\n"),
    "not_modified": body("", status=304),
    "ten_megabytes": body(json.dumps(completion("x" * 10_000_000))),
    "closes_at_once": _closes_at_once,
    "closes_in_the_middle": _closes_in_the_middle,
    "never_ends": _never_ends,
    "drips": _drips,
    "no_http": _no_http,
}  # fmt: skip
