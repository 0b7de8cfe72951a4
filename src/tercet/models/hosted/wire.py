"""The HTTP client below a provider's own: it follows no redirect and reads no more than it was told to.

The provider's library reads an answer whole before anybody can look at it. So the limit stands here, on the bytes as
they arrive.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from ipaddress import ip_address
from urllib.parse import urlsplit

import httpx2

_PACKED_SHARE = 32
"""A packed answer may be this many times smaller: unpacked it can be a thousand times larger."""


class AnswerTooLong(Exception):  # noqa: N818 - it says what happened; nobody outside this folder sees it
    """An answer that is longer than anybody wants to read."""


class _Bounded(httpx2.AsyncByteStream):
    """A stream that ends with an error where it becomes too long."""

    def __init__(self, stream: httpx2.AsyncByteStream, limit: int) -> None:
        self._stream = stream
        self._left = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            self._left -= len(chunk)
            if self._left < 0:
                raise AnswerTooLong
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


def open_client(*, base_url: str | None, timeout_s: float, max_bytes: int) -> httpx2.AsyncClient:
    """A client for one call; closing it closes its connection."""

    async def ask_plainly(request: httpx2.Request) -> None:
        request.headers["accept-encoding"] = "identity"

    async def bound(response: httpx2.Response) -> None:
        is_packed = response.headers.get("content-encoding", "identity") != "identity"
        limit = max_bytes // _PACKED_SHARE if is_packed else max_bytes
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Bounded(response.stream, limit)

    return httpx2.AsyncClient(
        follow_redirects=False,
        timeout=httpx2.Timeout(timeout_s),
        # A proxy of the environment is for the world outside: it cannot reach this machine's loopback.
        trust_env=not _is_loopback(base_url),
        event_hooks={"request": [ask_plainly], "response": [bound]},
    )


def _is_loopback(base_url: str | None) -> bool:
    host = urlsplit(base_url).hostname if base_url else None
    if host is None or host == "localhost":
        return host == "localhost"
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
