"""From a name to the addresses that a call may connect to.

A name is resolved once for a call, every address it has is looked at, and the connection goes to one of exactly these:
a second look-up might bring another answer. One forbidden address among good ones refuses the call, since a name that
leads both ways is how a private address is reached by chance.

Where a call may go: hosts by name, and which addresses are nobody's business from outside.

An address is refused unless it is a global one. IPv6 has several ways to wrap an IPv4 address (mapped, compatible,
6to4, Teredo, NAT64, ISATAP); whoever routes the packet unwraps it, so what is wrapped is looked at as well.
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
    IPv6Network("::/96"),  # IPv4-compatible, long out of use
    IPv6Network("64:ff9b:1::/48"),  # NAT64 of one's own network
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
    """`host:port` or `[address]:port`; raises `UsageError`."""
    host, colon, port = text.rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if is_bracketed else host
    is_number = port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65_536
    if not colon or not host or not is_number or (":" in host) != is_bracketed or not host.isprintable():
        raise UsageError(
            f"{text!r} is no host with a port", code="endpoint", remedy='write "api.example.test:443"'
        )
    return Endpoint(host.lower(), int(port))


def as_address(text: str) -> Address | None:
    """The address that a text spells; None for a name."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def why_refused(address: Address) -> str | None:
    """What kind of address it is that no call goes to; None for one that anybody may reach."""
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
    """The IPv4 addresses that an IPv6 address carries."""
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
"""Gives the addresses of a name; raises `OSError` if there is none."""

MAX_ADDRESSES = 16


async def ask_system(host: str, port: int) -> Sequence[str]:
    """What the operating system says a name means."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


async def find_addresses(
    target: Endpoint, *, private: frozenset[Endpoint], resolve: Resolver
) -> tuple[str, ...]:
    """The addresses that a call to this host and port may connect to; raises `NotSent` if it may not be made."""
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
    """The world as it is, unless a test hands in another."""

    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    """Read at each call."""
    resolve: Resolver = ask_system
    tls: ssl.SSLContext | None = None
    """Whom to trust; None for whom the operating system trusts."""
    now: Callable[[], datetime] = _now
