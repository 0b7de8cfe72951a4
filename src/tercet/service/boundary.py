"""What every request passes first: Host and Origin, how many at once and how often, and the headers of every response."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson
from starlette.requests import ClientDisconnect, Request

from tercet.contracts.shape import as_object
from tercet.contracts.values.references import MAX_DEPTH
from tercet.service.errors import PARSE_ERROR, ServiceError, demand_flat, malformed, rpc_body, shape
from tercet.service.identity import Caller
from tercet.tools.strict_json import JsonFault, read_strictly

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Accept: TypeAlias = Callable[[Request], Awaitable[tuple[Caller, bytes]]]
"""Returns who sends a request, and its body; raises `ServiceError` without a valid credential, or for a wrong body."""

HEADERS = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Set on every response, also on errors, unless it sets them itself."""
HEALTH = ("/healthz", "/readyz")
"""What is answered under every name: who checks the health of a process knows it by a number, and learns nothing."""
_MOST_CALLERS = 10_000
CALL_BYTES = 10_000
"""A request counts as a further call for each so many bytes of its body."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much one service takes on."""

    body_bytes: int = 1_000_000
    body_s: float = 10.0
    """How long a body may take to arrive."""
    requests_at_once: int = 1024
    tenant_requests: int = 512
    """How many of these may be of one tenant."""
    calls_per_second: float = 100.0
    """How many calls one credential may make on average."""
    burst: int = 200
    tenant_streams: int = 64
    """How many progress streams one tenant may have open."""
    streams: int = 256
    """How many there may be of all tenants; they count as requests too."""


class Rate:
    """Token buckets, one for each credential."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, who: str, count: int = 1) -> None:
        """Count calls; raises `ServiceError` if there were too many."""
        now, limits = self._clock(), self._limits
        left, since = self._buckets.pop(who, (float(limits.burst), now))
        rate = limits.calls_per_second
        left = min(limits.burst, left + (now - since) * rate)
        self._buckets[who] = (max(0.0, left - count), now)
        if len(self._buckets) > _MOST_CALLERS:
            self._buckets.popitem(last=False)
        if left < count:
            raise ServiceError(
                f"this credential makes more than {rate:g} calls a second",
                code="rate_limited",
                remedy="wait as long as Retry-After says, then send fewer at once",
                status=429,
                retry_s=math.ceil(min(count, limits.burst) / rate),
            )


def count_calls(request: Request, limits: Limits) -> int:
    """Return as how many calls a request counts: a body of unknown length as one of the greatest length."""
    given = request.headers.get("content-length", "")
    size = int(given) if given.isdecimal() and len(given) < 20 else 0
    if "transfer-encoding" in request.headers:
        size = limits.body_bytes
    return min(1 + min(size, limits.body_bytes) // CALL_BYTES, limits.burst)


_HELD = "tercet.held"
"""Where the scope of a request keeps the tenant whose place it has."""


class Places:
    """How many requests of each tenant are under way."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._held: Counter[str] = Counter()

    def take(self, scope: Scope, tenant: str) -> None:
        """Give a request one of its tenant's places; raises `ServiceError` if there is none left."""
        if self._held[tenant] >= self._limits.tenant_requests:
            raise ServiceError(
                "too many requests of this tenant at once",
                code="overloaded",
                remedy="wait until some have ended",
                status=503,
            )
        scope[_HELD].append(tenant)
        self._held[tenant] += 1

    def release(self, scope: Scope) -> None:
        """Free the place of a request that has ended."""
        for tenant in scope[_HELD]:
            self._held[tenant] -= 1
            if not self._held[tenant]:
                del self._held[tenant]


async def read_body(request: Request, limits: Limits) -> bytes:
    """Return the body of a request; raises `ServiceError` if it is too large or takes too long."""
    body = bytearray()
    try:
        async with asyncio.timeout(limits.body_s):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limits.body_bytes:
                    raise ServiceError(
                        f"the body has more than {limits.body_bytes:,} bytes",
                        code="too_large",
                        remedy="send less",
                        status=413,
                    )
    except TimeoutError:
        raise ServiceError(
            "the body took too long to arrive", code="timeout", remedy="send it again", status=408
        ) from None
    except ClientDisconnect:
        raise ServiceError(
            "the client went away before its body was here",
            code="disconnected",
            remedy="send it again",
            status=400,
        ) from None
    return bytes(body)


class Authenticated:
    """An application that is reached only with a credential, and finds its caller in `scope["state"]`."""

    def __init__(self, app: App, accept: Accept) -> None:
        self._app = app
        self._accept = accept

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, once its whole body is here."""
        try:
            caller, body = await self._accept(Request(scope, receive))
        except ServiceError as error:
            await respond(send, error)
            return
        scope.setdefault("state", {})["caller"] = caller
        await self._app(scope, received(body, receive), send)


def received(body: bytes, receive: Receive) -> Receive:
    """Return what gives an application a body that was read already."""
    parts = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive_again() -> MutableMapping[str, Any]:
        return next(parts, None) or await receive()

    return receive_again


def refuse_unread(body: bytes) -> dict[str, Any] | None:
    """Return the answer to a call of JSON-RPC that libraries would answer with a fault of theirs; None for others."""
    number = None
    try:
        sent = read_json(body)
        given = (as_object(sent) or {}).get("id")
        number = given if isinstance(given, str) or type(given) is int else None
        demand_flat(sent, MAX_DEPTH + 1)
    except ServiceError as error:
        return rpc_body(number, error)
    return None


def read_json(body: bytes) -> Any:
    """Return what a body says; raises `ServiceError` if it is not JSON, or could be read in two ways."""
    try:
        sent = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise malformed(f"the body is not JSON: {error}", PARSE_ERROR) from None
    try:
        read_strictly(body.decode())
    except JsonFault as fault:
        if fault.key:  # what nests too deep is refused call by call
            raise malformed(f"the body has two meanings: {fault.quoted}", PARSE_ERROR) from None
    return sent


class Boundary:
    """The outermost layer of the service."""

    def __init__(
        self, app: App, limits: Limits, hosts: frozenset[str] | None, places: Places, public_url: str = ""
    ) -> None:
        """`hosts` are the names under which the service may be called, without ports; None allows every name. Pages at the
        host of `public_url` have its scheme too."""
        self._scheme, _, rest = public_url.lower().partition("://")
        self._public = _name(rest.partition("/")[0])
        self._app = app
        self._limits = limits
        self._places = places
        self._hosts = hosts
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        has_begun = False

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                present = {name.lower() for name, _ in message["headers"]}
                more = [
                    (name.encode(), value.encode())
                    for name, value in HEADERS.items()
                    if name.encode() not in present
                ]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        self._under_way += 1
        scope[_HELD] = []
        try:
            self._check(scope)
            await self._app(scope, receive, send_with_headers)
        except ServiceError as error:
            await respond(send_with_headers, error)
        except asyncio.CancelledError:
            if not has_begun:
                await respond(send_with_headers, _stopping())
            raise
        except Exception:
            if not has_begun:
                raise
            # The application has logged and answered it, and raises it again for servers that would log it.
        finally:
            self._under_way -= 1
            self._places.release(scope)

    def _check(self, scope: Scope) -> None:
        if self._under_way > self._limits.requests_at_once:
            raise ServiceError(
                "too many requests at once", code="overloaded", remedy="try again soon", status=503
            )
        headers = _single_headers(scope)
        host = headers.get(b"host", "")
        is_known = self._hosts is None or _name(host) in self._hosts or scope["path"] in HEALTH
        if not is_known:
            raise ServiceError(
                f"this service is not called {host[:100]!r}",
                code="wrong_host",
                remedy="use the address that it was started with, or start it with --allow-host",
                status=421,
            )
        if (origin := headers.get(b"origin")) is not None and not self._is_own(origin, host):
            raise ServiceError(
                "requests of web pages from elsewhere are refused",
                code="wrong_origin",
                remedy="call the service from a program, or from a page of its own",
                status=403,
            )

    def _is_own(self, origin: str, host: str) -> bool:
        """Whether a page is one of the service itself."""
        scheme, _, page = origin.partition("://")
        return page == host and (_name(host) != self._public or scheme.lower() == self._scheme)


_SINGLE = frozenset({b"host", b"origin", b"authorization", b"tercet-act-as"})
"""The headers that say who asks whom: a proxy might look at the first of two, where the service looks at the last."""


def _single_headers(scope: Scope) -> dict[bytes, str]:
    """Return the headers of a request; raises `ServiceError` for a request that two readers could read differently."""
    headers: dict[bytes, str] = {}
    for raw, value in scope["headers"]:
        name = raw.lower()
        if name in _SINGLE and name in headers:
            raise _ambiguous(f"the header {name.decode()} was sent twice")
        headers[name] = value.decode("latin-1")
    if b"transfer-encoding" in headers and b"content-length" in headers:
        raise _ambiguous("the request gives its length in two ways")
    return headers


def _stopping() -> ServiceError:
    return ServiceError(
        "the service stopped before the call was over, which may still take effect",
        code="stopping",
        remedy="look at the session before you send it again, or send it with the same request_key",
        status=503,
    )


def _ambiguous(message: str) -> ServiceError:
    return ServiceError(message, code="malformed_request", remedy="send each header once", status=400)


def _name(host: str) -> str:
    """Return a Host header in lower case and without its port."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower()


async def respond(send: Send, error: ServiceError) -> None:
    """Send an error as the whole response."""
    body = orjson.dumps({"error": shape(error)})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(name.encode(), value.encode()) for name, value in error.headers.items()]
    if error.status == 400:
        headers.append((b"connection", b"close"))  # where the next request begins is in doubt
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
