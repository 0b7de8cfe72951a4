"""The declaration of an HTTP service: its address, its headers, and which operations are tools."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, Field, field_validator

from tercet.contracts.errors import NotSent, UsageError
from tercet.contracts.shape import Authored
from tercet.tools.tool import Terms

Address: TypeAlias = IPv4Address | IPv6Address

_NAT64 = IPv6Network("64:ff9b::/96")
_NEVER = (
    IPv6Network("::/96"),  # IPv4-compatible, deprecated
    IPv6Network("64:ff9b:1::/48"),  # local-use NAT64
    IPv6Network("fec0::/10"),  # site-local
)
_ISATAP = (0x00005EFE, 0x02005EFE)


class Endpoint(NamedTuple):
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def read_endpoint(text: str) -> Endpoint:
    """Return the endpoint in `host:port` or `[address]:port`; raise `UsageError`."""
    host, colon, port = text.rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if is_bracketed else host
    is_number = port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65_536
    if not colon or not host or not is_number or (":" in host) != is_bracketed or not host.isprintable():
        raise UsageError(
            f"{text!r} is not a host with a port", code="endpoint", remedy='write "api.example.test:443"'
        )
    return Endpoint(host.lower(), int(port))


def as_address(text: str) -> Address | None:
    """Return the address in a text; None for a name."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def why_refused(address: Address) -> str | None:
    """Return the kind of a forbidden address; None for a global one."""
    for looked_at in (address, *_wrapped(address)):
        kind = _kind(looked_at)
        if kind is not None:
            return kind if looked_at is address else f"{kind} (inside {address})"
    return None


def _kind(address: Address) -> str | None:
    kinds = {
        "an unspecified": address.is_unspecified,
        "a loopback": address.is_loopback,
        "a link-local": address.is_link_local,
        "a multicast": address.is_multicast,
        "a private": address.is_private,
        "a reserved": not address.is_global or _is_never(address),
    }
    return next((f"{kind} address" for kind, is_so in kinds.items() if is_so), None)


def _is_never(address: Address) -> bool:
    return isinstance(address, IPv6Address) and any(address in network for network in _NEVER)


def _wrapped(address: Address) -> Iterator[Address]:
    """Return the IPv4 addresses embedded in an IPv6 address."""
    if not isinstance(address, IPv6Address):
        return
    number = int(address)
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if address in _NAT64 or (number >> 32) & 0xFFFFFFFF in _ISATAP:
        yield IPv4Address(number & 0xFFFFFFFF)


Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a name; raises `OSError` if there is none."""

MAX_ADDRESSES = 16


async def ask_system(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a name from the operating system."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


async def find_addresses(
    target: Endpoint, *, private: frozenset[Endpoint], resolve: Resolver
) -> tuple[str, ...]:
    """Return the addresses that a call to this host and port may connect to; raise `NotSent` if it is forbidden."""
    found = tuple(dict.fromkeys(await _resolved(target, resolve)))
    for text in found:
        address = as_address(text)
        why = "no address" if address is None else why_refused(address)
        if why is not None and Endpoint(str(address), target.port) not in private:
            shown = "it is" if text == target.host else f"{target.host} leads to {text},"
            raise NotSent(
                f"{target} is not called: {shown} {why}",
                code="private_address",
                remedy=f'list it if it is meant: private = ["{Endpoint(text, target.port)}"]',
                is_retriable=False,
            )
    return found[:MAX_ADDRESSES]


async def _resolved(target: Endpoint, resolve: Resolver) -> Sequence[str]:
    if as_address(target.host) is not None:
        return [target.host]
    fault = "it has no address"
    try:
        found = await resolve(target.host, target.port)
    except (OSError, UnicodeError) as error:
        found, fault = (), str(error)
    if not found:
        raise NotSent(f"{target.host} was not found: {fault}", code="host_not_found")
    return found


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, kw_only=True)
class World:
    """The resolver, clock, environment and certificates; tests replace them."""

    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    """Read at each call."""
    resolve: Resolver = ask_system
    tls: ssl.SSLContext | None = None
    """The trusted certificates; None means the operating system's."""
    now: Callable[[], datetime] = _now


# --- service ---


HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
RESERVED = frozenset(
    {
        "host", "content-length", "content-type", "content-encoding", "transfer-encoding", "connection", "accept",
        "accept-encoding", "upgrade", "te", "trailer", "expect", "cookie", "proxy-authorization",
    }
)  # fmt: skip
"""Transport headers, which only this client sets."""


def _endpoint(text: str) -> str:
    try:
        return str(read_endpoint(text))
    except UsageError as error:
        raise ValueError(str(error)) from None


def _address(text: str) -> str:
    given = read_endpoint(_endpoint(text))
    address = as_address(given.host)
    if address is None:
        raise ValueError('only addresses are listed here, not names: write "127.0.0.1:8080" or "[::1]:8080"')
    return str(Endpoint(str(address), given.port))


def _header(name: str) -> str:
    if not HEADER.fullmatch(name) or name.lower() in RESERVED:
        raise ValueError("a pack may not set this header")
    return name


EndpointText = Annotated[str, AfterValidator(_endpoint)]
AddressText = Annotated[str, AfterValidator(_address)]
HeaderName = Annotated[str, AfterValidator(_header)]


class Auth(Authored):
    """A header whose value is in an environment variable."""

    header: HeaderName = "Authorization"
    env: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,199}$")
    """The name of the variable; its value is read at each call, and never stored."""
    prefix: str = Field(default="", max_length=100, pattern=r"^[ -~]*$")


class Operation(Terms):
    """One operation that becomes a tool, and what is declared about the tool."""

    operation: str = Field(min_length=1)
    """Its `operationId`, or its method and path: `GET /invoices/{id}`."""
    name: str = ""
    """The tool's name; by default `<service>.<operation>`."""
    rename: dict[str, str] = {}
    """New names for its parameters, by location: `query.id`, `path.id`, `header.X-Id`, `body.id`."""
    omit: tuple[str, ...] = ()
    """Optional parameters that no plan may set, by location."""
    not_done: tuple[int, ...] = ()
    """Statuses that mean not done."""
    unknown: tuple[int, ...] = ()
    """Statuses that mean unknown."""


class Service(Authored):
    """An HTTP service."""

    name: str = Field(pattern=r"^[A-Za-z0-9_\-]{1,80}$")
    description: str = Field(min_length=1)
    """The OpenAPI file, by its path in the pack."""
    base_url: str
    egress: tuple[EndpointText, ...]
    """The hosts and ports that calls may go to."""
    private: tuple[AddressText, ...] = ()
    """Private addresses and ports that may be called."""
    auth: tuple[Auth, ...] = ()
    headers: dict[HeaderName, str] = {}
    """Headers of every request; not for secrets."""
    idempotency_header: str = "Idempotency-Key"
    """The header that carries the idempotency key; empty for none."""
    fencing_header: str = ""
    """The header that carries the fencing token; empty for none."""
    max_answer_bytes: int = Field(default=2**20, ge=1, le=2**25)
    connect_timeout_ms: int = Field(default=5_000, ge=1)
    operations: Literal["all", "listed"] = "listed"

    @field_validator("auth", mode="before")
    @classmethod
    def _one_or_more(cls, given: Any) -> Any:
        return (given,) if isinstance(given, dict) else given

    @field_validator("idempotency_header", "fencing_header")
    @classmethod
    def _header_or_none(cls, name: str) -> str:
        return _header(name) if name else name

    @field_validator("headers")
    @classmethod
    def _printable(cls, headers: dict[str, str]) -> dict[str, str]:
        if not all(value.isascii() and value.isprintable() for value in headers.values()):
            raise ValueError("a header holds printable ASCII characters only")
        return headers

    @field_validator("base_url")
    @classmethod
    def _absolute(cls, text: str) -> str:
        try:
            url = urlsplit(text)
            fits = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
        except ValueError:
            fits, url = False, SplitResult("", "", "", "", "")
        if (
            not fits
            or url.query
            or url.fragment
            or not text.isascii()
            or not text.isprintable()
            or " " in text
        ):
            raise ValueError("it is not a URL of a service, such as https://api.example.test/v1")
        if url.username is not None or url.password is not None:
            raise ValueError("it holds a user or a password: name a variable in auth instead")
        return text.rstrip("/")

    @cached_property
    def scheme(self) -> Literal["http", "https"]:
        """The URL scheme."""
        return "http" if urlsplit(self.base_url).scheme == "http" else "https"

    @cached_property
    def target(self) -> Endpoint:
        """The host and port."""
        url = urlsplit(self.base_url)
        port = url.port or (80 if self.scheme == "http" else 443)
        return Endpoint((url.hostname or "").lower(), port)

    @property
    def base_path(self) -> str:
        """The prefix of every path."""
        return urlsplit(self.base_url).path

    @cached_property
    def private_endpoints(self) -> frozenset[Endpoint]:
        """The private addresses that may be called."""
        return frozenset(map(read_endpoint, self.private))

    @property
    def filled_headers(self) -> frozenset[str]:
        """The headers that no plan can set, since they are filled here, in lower case."""
        own = {
            self.idempotency_header,
            self.fencing_header,
            *self.headers,
            *(auth.header for auth in self.auth),
        }
        return frozenset(name.lower() for name in own if name)
