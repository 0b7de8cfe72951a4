"""A server that listens at a URL: the SDK's streamable HTTP, with limits, and with an ear for calls that never arrived.

Only what the pack says goes along: no proxy, certificate store or password file of the environment is used. The SDK
follows a redirect only within the origin of the URL.

To the SDK every failure is the same error. Here it is still known that nobody was reached, or that the server turned the
request away before looking at it; such a call is written down by the mark that it carries, since it did not happen.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client import Transport
from mcp.client.streamable_http import streamable_http_client

from tercet.tools.mcp.stdio import MAX_MESSAGE_BYTES

MARK = "tercet/call"
"""In the `_meta` of a call: what it is known by on its way."""
_MARK = re.compile(rf'"{MARK}":\s*"([0-9a-f]{{32}})"')
_CONNECT_S = 10.0


def reach(url: str, *, headers: Mapping[str, str], turned_away: set[str]) -> Transport:
    """A transport to a URL; the marks of calls that did not happen are put into `turned_away`."""
    return _reached(url, headers, turned_away)


@asynccontextmanager
async def _reached(url: str, headers: Mapping[str, str], turned_away: set[str]) -> AsyncGenerator[Any]:
    # How long a server may be silent is the business of whoever waits: of the connecting, and of each call.
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
    """HTTP in which no answer has more bytes than a message may; the SDK itself counts the events of a stream."""

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
            await response.aclose()  # what it unpacks to could not be counted here
            raise httpx2.ReadError("it sent an answer that is packed, which it was not asked for")
        if response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            return response
        response.stream = _Counted(response.stream)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


def _is_turned_away(request: httpx2.Request, response: httpx2.Response) -> bool:
    """Whether a server has not looked at a request: whose it is, too many, or of a session that it has forgotten.

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
