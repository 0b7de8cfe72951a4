"""One exchange with a service: connects to a checked address, sends, and follows a few redirects on the same host.

Failures are returned as values until no exception of the HTTP library is being handled any more. Its messages quote
what the service sent, so an exception chained to them would expose whatever the service echoed.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Protocol
from urllib.parse import urljoin, urlsplit

from tercet.contracts.errors import NotSent, Unusable
from tercet.contracts.values.plain import not_plain
from tercet.tools.http.service import Endpoint, Resolver, find_addresses
from tercet.tools.strict_json import read_strictly


class _Incoming(Protocol):
    """The parts of an HTTP answer that are read here."""

    @property
    def headers(self) -> Mapping[str, str]: ...

    def aiter_raw(self) -> AsyncIterator[bytes]: ...


async def read_body(answer: _Incoming, limit: int) -> bytes:
    """Return the body; raise `Unusable` if it is larger than the limit, whatever Content-Length said, or compressed."""
    encoding = _encoding(answer)
    if encoding != "identity":
        raise _unusable(f"the answer is encoded as {encoding[:40]!r}", "answer_encoded")
    length = answer.headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length[:20]) > limit:
        raise _too_large(limit)
    body = bytearray()
    async for part in answer.aiter_raw():
        body += part
        if len(body) > limit:
            raise _too_large(limit)
    return bytes(body)


async def read_beginning(answer: _Incoming, limit: int) -> bytes:
    """Return the beginning of a body that is only shown to people; empty if it cannot be read."""
    body = bytearray()
    if _encoding(answer) == "identity":
        async for part in answer.aiter_raw():
            body += part[: limit - len(body)]
            if len(body) >= limit:
                break
    return bytes(body)


def _encoding(answer: _Incoming) -> str:
    return answer.headers.get("content-encoding", "").strip().lower() or "identity"


def read_value(body: bytes, media_type: str) -> Any:
    """Return the value of a body: JSON, or text if the service says so; raise `Unusable`."""
    kind = media_type.partition(";")[0].strip().lower()
    if not body:
        return None
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _unusable(f"byte {error.start} is not UTF-8", "answer_not_text") from None
    if kind.startswith("text/") and kind != "text/json":
        return text
    return read_json(text)


def read_json(text: str) -> Any:
    """Return strictly parsed JSON without numbers that other readers would round; raise `Unusable`."""
    fault = ""
    try:
        value = read_strictly(text)
    except ValueError as error:
        value, fault = None, str(error)
    fault = fault or not_plain(value) or ""
    if fault:
        raise _unusable(f"the answer is not usable JSON: {fault}", "answer_not_json")
    return value


def _too_large(limit: int) -> Unusable:
    return _unusable(f"the answer has more than {limit:,} bytes", "answer_too_large")


def _unusable(message: str, code: str) -> Unusable:
    return Unusable(message, code=code)


Outcome = Literal["done", "not_done", "unknown"]

AGAIN = frozenset({425, 429})
REFUSED = frozenset(
    {307, 308, *range(400, 408), *range(409, 418), 421, 422, 423, 424, 426, 428, 431, 451} - {407}
)
MAX_WAIT_MS = 600_000
"""The longest delay that a service can ask for."""


def outcome_of(status: int, *, not_done: frozenset[int], unknown: frozenset[int]) -> Outcome:
    """Return the outcome for this status; a pack may declare others."""
    if status in unknown:
        return "unknown"
    if status in not_done:
        return "not_done"
    if 200 <= status < 300:
        return "done"
    return "not_done" if status in AGAIN or status in REFUSED else "unknown"


def read_retry_after(text: str, now: datetime) -> int:
    """Return `Retry-After` in milliseconds, from seconds or a date; 0 if it is missing or invalid."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(int(text[:9]) * 1_000, MAX_WAIT_MS)
    try:
        then = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    return max(0, min(int((then - now).total_seconds() * 1_000), MAX_WAIT_MS))


# --- exchange ---


MAX_REDIRECTS = 3
MAX_HEADERS = 200
EXCERPT_BYTES = 2_000
EXCERPT_S = 1.0
"""How long to wait for the body of an error, whose status is known already."""
REDIRECT_REFUSED = "redirect_refused"
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, kw_only=True)
class Sending:
    """A request, ready to be sent."""

    method: str
    scheme: Literal["http", "https"]
    target: Endpoint
    path: str
    """The path with its query, encoded."""
    headers: Mapping[str, str]
    body: bytes | None = None

    @property
    def host(self) -> str:
        """The Host header: without the default port of the scheme."""
        usual = {"http": 80, "https": 443}[self.scheme]
        shown = str(self.target)
        return shown.removesuffix(f":{usual}") if self.target.port == usual else shown


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """The limits of a call."""

    private: frozenset[Endpoint]
    max_answer_bytes: int
    connect_timeout_ms: int
    resolve: Resolver
    tls: ssl.SSLContext | None = None


class Answered(NamedTuple):
    """An answer: the whole body of a success, the beginning of any other."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Lost(NamedTuple):
    """No complete answer; `was_sent` says whether the service may have acted."""

    was_sent: bool
    code: str
    error: str


async def exchange(sending: Sending, bounds: Bounds) -> Answered | Lost | Unusable:
    """Return the answer to a request after redirects on the same host, or why there is none or it cannot be used."""
    addresses = await _looked_up(sending, bounds)
    for steps in range(MAX_REDIRECTS + 1):
        answered = await _try_addresses(sending, bounds, addresses)
        if isinstance(answered, Lost) and steps:
            return answered._replace(
                was_sent=True
            )  # the previous request was received, and may have had an effect
        if not isinstance(answered, Answered) or answered.status not in _REDIRECTS:
            return answered
        if sending.method not in ("GET", "HEAD"):
            return answered  # a redirect never repeats an effect
        following = _followed(sending, answered.headers.get("location", ""))
        if isinstance(following, Lost):
            return following
        sending = following
    return _redirected(f"it redirects more than {MAX_REDIRECTS} times")


async def _looked_up(sending: Sending, bounds: Bounds) -> tuple[str, ...]:
    """Return the addresses of a host; raise `NotSent`, also if the look-up takes too long."""
    try:
        async with asyncio.timeout(bounds.connect_timeout_ms / 1_000):
            return await find_addresses(sending.target, private=bounds.private, resolve=bounds.resolve)
    except TimeoutError:
        pass
    raise NotSent(f"{sending.target.host} was not found in time", code="host_not_found")


def _followed(sending: Sending, location: str) -> Sending | Lost:
    """Return the request for a redirect, if it stays on the same host."""
    here = f"{sending.scheme}://{sending.host}{sending.path}"
    try:
        there = urlsplit(urljoin(here, location))
        port = there.port or {"http": 80, "https": 443}.get(there.scheme)
        same = (there.scheme, (there.hostname or "").lower(), port) == (
            sending.scheme,
            *sending.target,
        )
    except ValueError:
        return _redirected("it redirects to an invalid address")
    if not same or there.username is not None:
        shown = f"{there.scheme}://{there.hostname}:{port}"
        return _redirected(f"it redirects to {shown[:200]}, and {sending.target} is all that is called")
    path = there.path or "/"
    return Sending(
        method=sending.method,
        scheme=sending.scheme,
        target=sending.target,
        path=f"{path}?{there.query}" if there.query else path,
        headers=sending.headers,
    )


def _redirected(message: str) -> Lost:
    return Lost(was_sent=True, code=REDIRECT_REFUSED, error=message)


async def _try_addresses(
    sending: Sending, bounds: Bounds, addresses: tuple[str, ...]
) -> Answered | Lost | Unusable:
    """Return the answer from the first address that accepts a connection.

    All of them together have the time of one connection: a host of many addresses, none of which answers, is then known
    not to have been reached before the call times out.
    """
    began, whole = asyncio.get_running_loop().time(), 2 * bounds.connect_timeout_ms
    told: Answered | Lost | Unusable = Lost(was_sent=False, code="not_connected", error="it has no address")
    for address in addresses:
        left = int(whole - 1_000 * (asyncio.get_running_loop().time() - began)) // 2
        if left <= 0:
            break
        told = await _send(sending, replace(bounds, connect_timeout_ms=left), address)
        if not isinstance(told, Lost) or told.was_sent:
            break
    return told


async def _send(sending: Sending, bounds: Bounds, address: str) -> Answered | Lost | Unusable:
    import httpx2  # noqa: PLC0415 - an extra

    secretive = _IS_SECRETIVE.set(True)
    try:
        async with _answer(sending, bounds, address) as answer:
            if (count := len(answer.headers.raw)) > MAX_HEADERS:
                return Unusable(f"the answer has {count:,} headers", code="answer_too_large")
            return Answered(answer.status_code, answer.headers, await _body(answer, bounds))
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.UnsupportedProtocol) as error:
        place = f"{sending.target.host}:{sending.target.port}"
        return Lost(was_sent=False, code="not_connected", error=f"{place}: {error or type(error).__name__}")
    except httpx2.TimeoutException:
        return Lost(was_sent=True, code="timeout", error="it did not answer in time")
    except httpx2.TransportError as error:
        return Lost(was_sent=True, code="connection_lost", error=str(error) or type(error).__name__)
    except Unusable as error:
        return error
    except httpx2.InvalidURL:
        return Lost(was_sent=False, code="not_connected", error="the address of the request is invalid")
    except Exception as error:  # noqa: BLE001 - its message may quote the service, so only its type is reported
        return Lost(was_sent=True, code="connection_lost", error=type(error).__name__)
    finally:
        _IS_SECRETIVE.reset(secretive)


@asynccontextmanager
async def _answer(sending: Sending, bounds: Bounds, address: str) -> AsyncGenerator[Any, None]:
    """Return the answer of the service at an address; the connection is then closed."""
    import httpx2  # noqa: PLC0415 - an extra

    _silence()
    literal = f"[{address}]" if ":" in address else address
    request = httpx2.Request(
        sending.method,
        f"{sending.scheme}://{literal}:{sending.target.port}{sending.path}",
        headers={"host": sending.host, **sending.headers, "connection": "close"},
        content=sending.body,
        extensions={
            # The name is used for the handshake and checked against the certificate.
            "sni_hostname": sending.target.host,
            "timeout": {"connect": bounds.connect_timeout_ms / 1_000},
        },
    )
    context = (
        (bounds.tls or _usual_tls()) if sending.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    )
    async with httpx2.AsyncHTTPTransport(verify=context, trust_env=False) as transport:
        answer = await transport.handle_async_request(request)
        try:
            yield answer
        finally:
            await answer.aclose()


async def _body(answer: Any, bounds: Bounds) -> bytes:
    if 200 <= answer.status_code < 300:
        return await read_body(answer, bounds.max_answer_bytes)
    try:
        async with asyncio.timeout(EXCERPT_S):
            return await read_beginning(answer, EXCERPT_BYTES)
    except Exception:  # noqa: BLE001 - the status has been read; a missing body changes nothing
        return b""


@lru_cache(maxsize=1)
def _usual_tls() -> ssl.SSLContext:
    """Return the TLS context with the operating system's certificates; cached, since loading is slower than a call."""
    return ssl.create_default_context()


_IS_SECRETIVE: ContextVar[bool] = ContextVar("_IS_SECRETIVE", default=False)


class _Silence(logging.Filter):
    """Keeps the HTTP library from logging our exchanges: at DEBUG it logs every header that a service sends."""

    def filter(self, record: logging.LogRecord) -> bool:  # noqa: ARG002 - the signature is logging's
        return not _IS_SECRETIVE.get()


_SILENCE = _Silence()


def _silence() -> None:
    for name in ("httpx2", "httpcore2.connection", "httpcore2.http11", "httpcore2.http2", "httpcore2.proxy"):
        logging.getLogger(name).addFilter(_SILENCE)
