"""A request whose response is read while it is still being sent, without a socket."""

from __future__ import annotations

import asyncio
from typing import Any

from service.desk import Desk


class Stream:
    """A client that stays connected, and keeps each line of the response's body as it comes."""

    def __init__(self, desk: Desk, key: str, path: str, *, body: bytes = b"", **headers: str) -> None:
        self.lines: list[str] = []
        self.has_begun = asyncio.Event()
        self._body = body
        self._is_sent = False
        sent = {"host": "127.0.0.1:8700", "authorization": f"Bearer {key}", **headers}
        scope: dict[str, Any] = {
            "type": "http", "http_version": "1.1", "method": "POST" if body else "GET", "scheme": "http", "path": path,
            "raw_path": path.encode(), "query_string": b"", "root_path": "", "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8700),
            "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
        }  # fmt: skip
        self._answering = asyncio.ensure_future(desk.running.app(scope, self._receive, self._send))

    async def end(self) -> list[str]:
        """Wait until the service has ended the response; return its lines."""
        await asyncio.wait_for(self._answering, 60)
        return self.lines

    async def _receive(self) -> dict[str, Any]:
        if self._is_sent:
            await asyncio.Event().wait()
        self._is_sent = True
        return {"type": "http.request", "body": self._body, "more_body": False}

    async def _send(self, message: Any) -> None:
        if body := message.get("body", b""):
            self.lines.extend(body.decode().splitlines())
            self.has_begun.set()
