"""From a name to the addresses that a call may connect to.

A name is resolved once for a call, every address it has is looked at, and the connection goes to one of exactly these:
a second look-up might bring another answer. One forbidden address among good ones refuses the call, since a name that
leads both ways is how a private address is reached by chance.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeAlias

from tercet.contracts.errors import NotSent
from tercet.tools.http.addresses import Endpoint, as_address, why_refused

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
