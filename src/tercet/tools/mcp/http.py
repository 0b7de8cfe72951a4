"""A server at a URL: the SDK's streamable HTTP transport, with limits, and with detection of calls that never arrived.

Only settings of the pack are used: no proxy, certificate store or password file of the environment. The SDK follows a
redirect only within the origin of the URL.

The SDK reports every failure as the same error. Here it is still known that the server was not reached, or rejected the
request without processing it; such a call is recorded by its mark, since it did not happen.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from tercet.tools.mcp.stdio import MAX_MESSAGE_BYTES

MARK = "tercet/call"
"""The key of a call's mark in its `_meta`."""
_MARK = re.compile(rf'"{MARK}":\s*"([0-9a-f]{{32}})"')
_CONNECT_S = 10.0


@asynccontextmanager
async def reach(url: str, *, headers: Mapping[str, str], turned_away: set[str]) -> AsyncGenerator[Any]:
    """Return a transport to a URL; the marks of calls that did not happen are added to `turned_away`."""
    # No timeouts here: connecting and each call have their own.
    async with (
        httpx2.AsyncClient(
            headers={"accept-encoding": "identity", **headers},
            timeout=httpx2.Timeout(_CONNECT_S, read=None),
            transport=_Bounded(turned_away),
            trust_env=False,
        ) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES) as streams,
    ):
        yield streams


class _Bounded(httpx2.AsyncBaseTransport):
    """An HTTP transport that limits the size of answers; the SDK itself counts the events of a stream."""

    def __init__(self, turned_away: set[str]) -> None:
        self._inner = httpx2.AsyncHTTPTransport(trust_env=False)
        self._turned_away = turned_away

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await self._inner.handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout):
            self._turned_away.update(_marks(request))
            raise
        if _is_turned_away(request, response):
            self._turned_away.update(_marks(request))
        if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
            await response.aclose()  # the decompressed size could not be limited here
            raise httpx2.ReadError("it sent a compressed answer, which was not requested")
        if response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            return response
        response.stream = _Counted(response.stream)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


def _is_turned_away(request: httpx2.Request, response: httpx2.Response) -> bool:
    """Return whether a server rejected a request without processing it: unauthorised, rate-limited, or an unknown
    session.

    Without a session 404 can be the answer of a tool: newer servers have a status for each error.
    """
    return response.status_code in (401, 403, 429) or (
        response.status_code == 404 and "mcp-session-id" in request.headers
    )


def _marks(request: httpx2.Request) -> list[str]:
    return _MARK.findall(request.content.decode(errors="replace")) if request.method == "POST" else []


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
