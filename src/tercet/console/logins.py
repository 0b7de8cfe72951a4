"""Logins of the console: an opaque cookie, and a record in the journal that names the credential behind it.

A login with an API key ends at the first request after the key was revoked or has expired.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from typing import Protocol

from tercet.contracts.request import Actor
from tercet.engine.streams.credentials import Login, read_login, remove_login, write_login
from tercet.journal.protocol import Journal
from tercet.service.identity import Caller

KEY_LOGIN_MS = 12 * 3_600_000
"""How long a login with an API key lasts."""
OIDC_LOGIN_MS = 3_600_000
"""How long a login with an issuer lasts: roles that were taken away there count no longer than this."""
LINK_MS = 5 * 60_000
"""How long a login link may be used, once."""
_MOST_LINKS = 100
_API_KEY = "api_key:"


class Keys(Protocol):
    """Looks up API keys that were verified before."""

    async def find_caller(self, key_id: str) -> Caller | None:
        """Return who a key speaks for; None if it no longer counts."""
        ...


class Logins:
    """The logins of a journal, and the login links of this process."""

    def __init__(self, journal: Journal, keys: Keys, now_ms: Callable[[], int]) -> None:
        self._journal = journal
        self._keys = keys
        self._now_ms = now_ms
        self._links: OrderedDict[str, tuple[Caller, int]] = OrderedDict()

    async def open(self, caller: Caller) -> tuple[str, int]:
        """Begin a login of an authenticated caller; return the value of its cookie, which is kept nowhere, and its seconds."""
        now, cookie = self._now_ms(), secrets.token_urlsafe(32)
        key = caller.credential.removeprefix(_API_KEY) if caller.credential.startswith(_API_KEY) else ""
        lasts_ms = KEY_LOGIN_MS if key else OIDC_LOGIN_MS
        login = Login(at=now, until=now + lasts_ms, key=key)
        if not key:
            login = Login(
                at=now,
                until=now + lasts_ms,
                tenant=caller.tenant,
                actor=caller.actor.id,
                roles=tuple(caller.actor.roles),
                scopes=tuple(sorted(caller.scopes)),
            )
        await write_login(self._journal, _hash(cookie), login)
        return cookie, lasts_ms // 1000

    async def find(self, cookie: str) -> Caller | None:
        """Return who a cookie speaks for; None if the login has ended, or its credential no longer counts."""
        login = await read_login(self._journal, _hash(cookie))
        if login is None:
            return None
        if self._now_ms() >= login.until:
            await self.close(cookie)
            return None
        return await self._keys.find_caller(login.key) if login.key else _caller(login)

    async def close(self, cookie: str) -> None:
        """End a login."""
        await remove_login(self._journal, _hash(cookie), self._now_ms())

    def make_link(self, caller: Caller) -> str:
        """Return the secret of a login link for a caller; it works once, in this process, for a few minutes."""
        secret = secrets.token_urlsafe(32)
        self._links[_hash(secret)] = (caller, self._now_ms() + LINK_MS)
        while len(self._links) > _MOST_LINKS:
            self._links.popitem(last=False)
        return secret

    def use_link(self, secret: str) -> Caller | None:
        """Return whom a login link is for, and end the link; None if it was used or has expired."""
        caller, until = self._links.pop(_hash(secret), (None, 0))
        return caller if self._now_ms() < until else None


def csrf_token(cookie: str) -> str:
    """Return the token that forms of a login carry; the cookie cannot be found from it."""
    return _hash(f"csrf:{cookie}")


def _caller(login: Login) -> Caller:
    return Caller(
        tenant=login.tenant,
        actor=Actor(id=login.actor, roles=login.roles, auth="oidc"),
        scopes=frozenset(login.scopes),
        credential=f"oidc:{login.actor}",
    )


def _hash(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
