"""A connection to the service: how long it may take to send a request or to read a response, and the answer to what is not
HTTP."""

from __future__ import annotations

import asyncio
import resource
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
RESERVED_FILES = 128
"""How many of the files that this process may open are kept from connections, for the journal and for tools."""


class Connection(H11Protocol):
    """uvicorn's connection, which by itself waits forever for slow clients.

    A client that sends its headers byte by byte, or goes on sending after the response, is cut off after `request_s`. One
    that stops reading is cut off after `read_s`. Where there are more connections than files for them, one that waits for
    its next request makes room.
    """

    request_s = REQUEST_S
    read_s = READ_S
    _request_limit: asyncio.TimerHandle | None = None
    _read_limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._limit_request()
        if len(self.connections) > most_connections():
            others = cast("set[Connection]", self.connections) - {self}
            idle = (each for each in others if each.is_idle and not each.transport.is_closing())
            next(idle, self).transport.abort()

    @property
    def is_idle(self) -> bool:
        """Whether no request of this connection is being answered."""
        cycle: Any = self.cycle  # None at first
        return cycle is None or cycle.response_complete

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
        if not self.is_idle:
            self._request_limit = _cancel(self._request_limit)
        elif self._request_limit is None and not self.transport.is_closing():
            self._request_limit = self.loop.call_later(self.request_s, self.transport.abort)


def most_connections() -> int:
    """Return how many connections there may be, by the number of files that this process may open."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 2**31 if limit == resource.RLIM_INFINITY else max(1, limit - RESERVED_FILES)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
