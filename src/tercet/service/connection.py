"""A connection to the service: how long it may take to send a request or to read a response, and the answer to what is not
HTTP."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import h11
import orjson
from uvicorn.protocols.http.h11_impl import H11Protocol

from tercet.service.boundary import HEADERS
from tercet.service.errors import ServiceError, shape

REQUEST_S = 10.0
"""How long a connection may go without a whole request line and headers."""
READ_S = 30.0
"""How long a client may leave a full buffer unread."""


class Connection(H11Protocol):
    """uvicorn's connection, which by itself waits forever for slow clients.

    A client that sends its headers byte by byte, or goes on sending after the response, is cut off after `request_s`. One
    that stops reading is cut off after `read_s`.
    """

    request_s = REQUEST_S
    read_s = READ_S
    _request_limit: asyncio.TimerHandle | None = None
    _read_limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._limit_request()

    def data_received(self, data: bytes) -> None:
        """Take what the client sent."""
        super().data_received(data)
        self._limit_request()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        super().on_response_complete()
        self._limit_request()

    def pause_writing(self) -> None:
        """Begin to wait for a client that does not read."""
        super().pause_writing()
        self._read_limit = self.loop.call_later(self.read_s, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on writing to a client that reads."""
        super().resume_writing()
        self._read_limit = _cancel(self._read_limit)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of the connection."""
        self._request_limit, self._read_limit = _cancel(self._request_limit), _cancel(self._read_limit)
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP with an error of the usual shape and headers."""
        error = ServiceError(msg, code="malformed_request", remedy="send HTTP/1.1 requests", status=400)
        body = orjson.dumps({"error": shape(error)})
        headers = {**HEADERS, "content-type": "application/json", "connection": "close"}
        response = h11.Response(status_code=400, headers=list(headers.items()), reason=b"Bad Request")
        events: tuple[Any, ...] = (response, h11.Data(data=body), h11.EndOfMessage())
        for event in events:
            self.transport.write(cast("bytes", self.conn.send(event)))
        self.transport.close()

    def _limit_request(self) -> None:
        """Limit the time until the next request, unless one is being answered."""
        if self.cycle is not None and not self.cycle.response_complete:  # pyright: ignore[reportUnnecessaryComparison] - None at first
            self._request_limit = _cancel(self._request_limit)
        elif self._request_limit is None and not self.transport.is_closing():
            self._request_limit = self.loop.call_later(self.request_s, self.transport.abort)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
