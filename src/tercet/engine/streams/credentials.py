"""Credentials of callers, in the journal so that every process knows them: API keys, and logins of browsers.

One stream says which keys were made and which were revoked. Each login has a stream, named by the hash of its cookie.

A key is `tck_ID_SECRET`. Only the SHA-256 of the secret is kept: it has 256 random bits, so nothing slower is needed. The
stream belongs to a tenant of its own, since a key has to be found before it is known whose it is.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
from base64 import urlsafe_b64encode
from typing import Literal, TypeAlias, assert_never, get_args

import msgspec

from tercet.contracts.errors import UsageError
from tercet.contracts.values.plain import storable
from tercet.journal.errors import LeaseHeld, LeaseLost
from tercet.journal.protocol import Append, Journal
from tercet.journal.side_stream import append_next, encode_entry, read_all

SERVICE = "_service"
"""The tenant of the streams that belong to the service itself."""
STREAM = "api_keys"
PREFIX = "tck_"

Scope: TypeAlias = Literal["read", "run", "answer", "operate"]
SCOPES: tuple[Scope, ...] = get_args(Scope)


class ApiKey(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="created"):
    """A key with its owner, its permissions and its expiry."""

    id: str
    tenant: str
    actor: str
    hash: str
    at: int
    by: str
    roles: tuple[str, ...] = ()
    scopes: tuple[Scope, ...] = ()
    expires: int | None = None
    note: str = ""


class Revocation(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="revoked"):
    """The end of a key."""

    id: str
    at: int
    by: str


KeyEvent: TypeAlias = ApiKey | Revocation
_decoder: msgspec.json.Decoder[KeyEvent] = msgspec.json.Decoder(KeyEvent)
_decode = _decoder.decode


class NewKey(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a new key."""

    tenant: str
    actor: str
    by: str
    roles: tuple[str, ...] = ()
    scopes: tuple[Scope, ...] = ("read", "run", "answer")
    expires: int | None = None
    note: str = ""


def is_name(text: str) -> bool:
    """Return whether an actor or a tenant may have this name: printable, and without spaces around it."""
    return 0 < len(text) <= 256 and text.isprintable() and text == text.strip()


def is_tenant(text: str) -> bool:
    """Return whether this may be the name of a caller's tenant; those that begin with _ are Tercet's own."""
    return is_name(text) and not text.startswith("_")


def make_key(wanted: NewKey, now: int) -> tuple[ApiKey, str]:
    """Return a new key and its text, which is shown once and kept nowhere."""
    if not (is_tenant(wanted.tenant) and is_name(wanted.actor)):
        raise UsageError(
            "a key needs an actor and a tenant with printable names; a tenant's name does not begin with _",
            code="wrong_key",
            remedy="name both, such as: tercet api-keys create user_finance_lead --tenant default",
        )
    secret = urlsafe_b64encode(os.urandom(32)).rstrip(b"=").decode()
    fields = {name: getattr(wanted, name) for name in wanted.__struct_fields__}
    fields |= {name: storable(str(fields[name])) for name in ("tenant", "actor", "by", "note")}
    key = ApiKey(id=os.urandom(6).hex(), hash=_hash(secret), at=now, **fields)
    return key, f"{PREFIX}{key.id}_{secret}"


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


class ApiKeys:
    """The keys of a journal as known to this process."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._changes = -1
        self._position = 0
        self._keys: dict[str, ApiKey] = {}
        self._revoked: dict[str, Revocation] = {}
        self._look: asyncio.Task[None] | None = None
        self._next_look: asyncio.Task[None] | None = None

    def add(self, key: ApiKey) -> None:
        """Accept a key in this process only; it is written nowhere."""
        self._keys[key.id] = key

    async def refresh(self) -> None:
        """Read the new events of the stream, unless the change counter shows that there are none. Calls that wait for a look
        under way to end, which may have begun too early for them, share the next one."""
        if self._next_look is None:
            self._next_look = asyncio.create_task(self._look_after(self._look))
        await asyncio.shield(self._next_look)

    async def _look_after(self, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait((before,))
        self._look, self._next_look = self._next_look, None
        changes = await self._journal.change_count(SERVICE)
        if changes <= self._changes:
            return
        for stored in await read_all(self._journal, SERVICE, STREAM, after=self._position):
            if stored.seq > self._position:  # a concurrent look may have read further
                match event := _decode(stored.data):
                    case ApiKey():
                        self._keys[event.id] = event
                    case Revocation():
                        self._revoked[event.id] = event
                    case _:
                        assert_never(event)
                self._position = stored.seq
        self._changes = max(self._changes, changes)

    async def find(self, text: str, now: int | None) -> ApiKey | None:
        """Return the key with this text; None if there is none, or if it was revoked or has expired. Without a time, also
        one that counts no longer."""
        name, _, secret = text.removeprefix(PREFIX).partition("_")
        await self.refresh()
        key = self._keys.get(name)
        is_right = hmac.compare_digest(_hash(secret), key.hash if key is not None else _hash(""))
        if key is None or not is_right:
            return None
        return key if now is None or self.is_valid(key, now) else None

    def is_valid(self, key: ApiKey, now: int) -> bool:
        """Whether a key was not revoked and has not expired."""
        return key.id not in self._revoked and (key.expires is None or now < key.expires)

    def revoked_at(self, key: ApiKey) -> int | None:
        """Return when a key was revoked; None if it was not."""
        end = self._revoked.get(key.id)
        return None if end is None else end.at

    async def list(self) -> tuple[ApiKey, ...]:
        """Return every key, oldest first, also those that count no longer."""
        await self.refresh()
        return tuple(self._keys.values())

    async def create(self, wanted: NewKey, now: int) -> tuple[ApiKey, str]:
        """Make a key, and return it with its text."""
        key, text = make_key(wanted, now)
        await self._write(key)
        return key, text

    async def revoke(self, name: str, *, by: str, now: int) -> ApiKey:
        """End a key by its id; raises `UsageError` if there is none. Revoking it again changes nothing."""
        await self.refresh()
        key = self._keys.get(name)
        if key is None:
            raise UsageError(
                f"there is no API key {name}",
                code="unknown_key",
                remedy="tercet api-keys list names all of them",
            )
        if name not in self._revoked:
            await self._write(Revocation(id=name, at=now, by=storable(by)))
        return key

    async def _write(self, event: KeyEvent) -> None:
        await append_next(self._journal, SERVICE, STREAM, encode_entry(event, SERVICE, STREAM), notify=True)
        await self.refresh()


# --- logins of browsers ---


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


_decode_login = msgspec.json.Decoder(Login).decode


async def write_login(journal: Journal, name: str, login: Login) -> None:
    """Record a login under the hash of its cookie."""
    data = encode_entry(login, SERVICE, f"{KIND}:{name}")
    await journal.append(Append(tenant=SERVICE, stream=f"{KIND}:{name}", expected=0, events=(data,)))


async def read_login(journal: Journal, name: str) -> Login | None:
    """Return a login; None if there is none, or it was removed."""
    stored = await read_all(journal, SERVICE, f"{KIND}:{name}")
    return _decode_login(stored[0].data) if stored else None


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
