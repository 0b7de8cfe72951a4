"""Logins of browsers: a stream for each, named by the hash of its cookie, so that every process of the journal knows it."""

from __future__ import annotations

import msgspec

from tercet.engine.streams.api_keys import SERVICE, Scope
from tercet.journal.errors import LeaseHeld, LeaseLost
from tercet.journal.protocol import Append, Journal
from tercet.journal.side_stream import encode_entry, read_all

KIND = "console_login"
"""The prefix of the names of these streams."""


class Login(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who is logged in, by which credential, and until when. It holds no secret."""

    at: int
    until: int
    key: str = ""
    """The id of the API key; empty for a login with an issuer, whose claims are the fields below."""
    tenant: str = ""
    actor: str = ""
    roles: tuple[str, ...] = ()
    scopes: tuple[Scope, ...] = ()


_decode = msgspec.json.Decoder(Login).decode


async def write_login(journal: Journal, name: str, login: Login) -> None:
    """Record a login under the hash of its cookie."""
    data = encode_entry(login, SERVICE, f"{KIND}:{name}")
    await journal.append(Append(tenant=SERVICE, stream=f"{KIND}:{name}", expected=0, events=(data,)))


async def read_login(journal: Journal, name: str) -> Login | None:
    """Return a login; None if there is none, or it was removed."""
    stored = await read_all(journal, SERVICE, f"{KIND}:{name}")
    return _decode(stored[0].data) if stored else None


async def remove_login(journal: Journal, name: str, now: int) -> None:
    """Remove a login, so that its cookie counts no longer in any process."""
    stream = f"{KIND}:{name}"
    if not (await journal.head(SERVICE, stream)).seq:
        return
    try:
        lease = await journal.acquire(SERVICE, stream, owner="console", now_ms=now, ttl_ms=10_000)
        await journal.forget(lease)
    except (LeaseHeld, LeaseLost):
        return  # another request is removing it
