"""Resolves a host to the addresses that a call may connect to.

A name is resolved once for a call, every address is checked, and the connection goes to one of exactly these: a second
look-up might give another answer. One forbidden address among good ones refuses the call, since a name with both kinds
is how a private address is reached by chance.

An address is refused unless it is global. IPv6 has several ways to embed an IPv4 address (mapped, compatible, 6to4,
Teredo, NAT64, ISATAP); routers unwrap it, so the embedded address is checked as well.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import NamedTuple, TypeAlias

from tercet.contracts.errors import NotSent, UsageError

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
