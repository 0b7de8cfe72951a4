"""Where a call may go: hosts by name, and which addresses are nobody's business from outside.

An address is refused unless it is a global one. IPv6 has several ways to wrap an IPv4 address (mapped, compatible,
6to4, Teredo, NAT64, ISATAP); whoever routes the packet unwraps it, so what is wrapped is looked at as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import NamedTuple, TypeAlias

from tercet.contracts.errors import UsageError

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
