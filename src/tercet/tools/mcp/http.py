"""A server that listens at a URL: the SDK's streamable HTTP, with limits.

Only what the pack says goes along: no proxy, certificate store or password file of the environment is used. The SDK
follows a redirect only within the origin of the URL.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client import Transport
from mcp.client.streamable_http import streamable_http_client

from tercet.tools.mcp.stdio import MAX_MESSAGE_BYTES

_CONNECT_S = 10.0


def reach(url: str, *, headers: Mapping[str, str]) -> Transport:
    """A transport to a URL."""
    return _reached(url, headers)


@asynccontextmanager
async def _reached(url: str, headers: Mapping[str, str]) -> AsyncGenerator[Any]:
    # How long a server may be silent is the business of whoever waits: of the connecting, and of each call.
    async with (
        httpx2.AsyncClient(
            headers=dict(headers),
            timeout=httpx2.Timeout(_CONNECT_S, read=None),
            transport=_Bounded(),
            trust_env=False,
        ) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES) as streams,
    ):
        yield streams


class _Bounded(httpx2.AsyncBaseTransport):
    """HTTP in which no answer has more bytes than a message may; the SDK itself counts the events of a stream."""

    def __init__(self) -> None:
        self._inner = httpx2.AsyncHTTPTransport(trust_env=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        if response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            return response
        response.stream = _Counted(response.stream)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MAX_MESSAGE_BYTES
        async for chunk in self._inner:
            left -= len(chunk)
            if left < 0:
                raise httpx2.ReadError(f"it sent an answer of more than {MAX_MESSAGE_BYTES:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
