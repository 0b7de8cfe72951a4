"""The keys of subjects: a stream for each, whose removal erases everything that is sealed under it.

Its first event is the key, and each of the others names a session of the subject. A claim `key:ID` leads from a token
to the stream. The stream's name is a hash, so that the subject's name is stored in no other place.
"""

from __future__ import annotations

import base64
import secrets

import msgspec

from tercet.contracts.errors import UsageError
from tercet.contracts.values.canonical import digest
from tercet.journal.errors import ClaimHeld, LeaseLost, PositionConflict
from tercet.journal.protocol import Append, Journal, Stored
from tercet.journal.side_stream import encode_entry, read_all

KIND = "subject"
_CLAIM = "key:"
_KEY_BYTES = 64
"""AES-SIV with 256 bits takes two keys of 32 bytes."""
_TRIES = 20
STOP_NOTES = "notes of stops\0"
"""Stands for the subject, and for the session, of the notes of emergency stops: no one knows whom they name."""


class SubjectEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event of a subject's stream: the key with its id, or a session that uses it."""

    id: str = ""
    key: bytes = b""
    session: str = ""


class SubjectKey(msgspec.Struct, frozen=True, kw_only=True):
    """The key of a subject."""

    id: str
    key: bytes
    stream: str
    sessions: tuple[str, ...] = ()
    """The sessions whose request names the subject."""


_decode = msgspec.json.Decoder(SubjectEntry).decode


def subject_stream(tenant: str, subject: str) -> str:
    """Return the name of the stream that holds the key of a subject."""
    return f"{KIND}:{digest([tenant, subject]).removeprefix('sha256:')[:40]}"


def is_subject(stream: str) -> bool:
    """Return whether a stream holds the key of a subject."""
    return stream.startswith(f"{KIND}:")


def claim_of(stored: bytes) -> str:
    """Return the claim that an event of a subject's stream makes; empty for one that makes none."""
    entry = _decode(stored)
    return _CLAIM + entry.id if entry.id else ""


async def find_key(journal: Journal, tenant: str, subject: str) -> SubjectKey | None:
    """Return the key of a subject; None if there is none, or it was destroyed."""
    return await _read(journal, tenant, subject_stream(tenant, subject))


async def has_keys(journal: Journal, tenant: str) -> bool:
    """Return whether a tenant has sealed values."""
    return bool(await journal.claims(tenant, _CLAIM, limit=1))


async def find_key_by_id(journal: Journal, tenant: str, key_id: str) -> SubjectKey | None:
    """Return a key by the id that tokens carry; None if it was destroyed."""
    holder = await journal.claim(tenant, _CLAIM + key_id)
    found = None if holder is None else await _read(journal, tenant, holder.stream)
    return found if found is not None and found.id == key_id else None


async def use_key(journal: Journal, tenant: str, subject: str, session: str = "") -> SubjectKey:
    """Return the key of a subject, made if there is none, after noting the session that uses it."""
    stream = subject_stream(tenant, subject)
    for _ in range(_TRIES):
        stored = await read_all(journal, tenant, stream)
        found = _key_of(stream, stored)
        if found is not None and (not session or session in found.sessions):
            return found
        entries = [] if found is not None else [_new_key()]
        entries += [SubjectEntry(session=session)] if session else []
        unit = Append(
            tenant=tenant,
            stream=stream,
            expected=len(stored),
            events=tuple(encode_entry(each, tenant, stream) for each in entries),
            claims=tuple(_CLAIM + each.id for each in entries if each.id),
        )
        try:
            await journal.append(unit)
        except (PositionConflict, LeaseLost, ClaimHeld):
            continue  # another process made it, or destroyed it, in between
    raise UsageError(
        "the key of the subject is being changed by other processes",
        code="subject_busy",
        remedy="try again in a moment",
    )


def _new_key() -> SubjectEntry:
    return SubjectEntry(id=secrets.token_hex(8), key=secrets.token_bytes(_KEY_BYTES))


async def _read(journal: Journal, tenant: str, stream: str) -> SubjectKey | None:
    return _key_of(stream, await read_all(journal, tenant, stream))


def _key_of(stream: str, stored: list[Stored]) -> SubjectKey | None:
    if not stored:
        return None
    first, *others = (_decode(each.data) for each in stored)
    return SubjectKey(
        id=first.id, key=first.key, stream=stream, sessions=tuple(each.session for each in others)
    )


def encode_bytes(data: bytes) -> str:
    """Return bytes as a token writes them."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode_bytes(text: str) -> bytes:
    """Return the bytes that a token writes so."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
