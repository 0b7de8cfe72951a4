"""Sealing values under the key of a subject, and opening them.

AES-SIV is deterministic: the same value under the same key has the same token, which resuming and replay rely on. Values
are padded, so that a token says little about the length of its value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Protocol, cast, runtime_checkable
from urllib.parse import quote, quote_plus

import msgspec

from tercet.contracts.errors import extra_missing
from tercet.contracts.personal import TOKEN, find_tokens, map_texts
from tercet.engine.personal.keys import SubjectKey, decode_bytes, encode_bytes, find_key_by_id
from tercet.journal.protocol import Journal

MARK = b"[personal:"
"""What every token begins with."""
_BLOCK = 32
_PERCENT = re.compile("%[0-9A-F]{2}")
_PAD = b"\x80"
_SHORTEST = 4
"""Shorter values are found only where they are the whole text."""


def demand_cryptography() -> None:
    """Raise `UsageError` if values can be neither sealed nor revealed here."""
    if find_spec("cryptography") is None:
        raise extra_missing("a personal value", "cryptography", "erasure")


def seal(key: SubjectKey, tenant: str, text: str) -> str:
    """Return the token of a text; an empty text and a text that is a token stay."""
    if not text or TOKEN.fullmatch(text):
        return text
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV  # noqa: PLC0415 - an extra

    padded = text.encode() + _PAD
    padded += bytes(-len(padded) % _BLOCK)
    sealed = AESSIV(key.key).encrypt(padded, [tenant.encode(), key.id.encode()])
    return f"[personal:{key.id}:{encode_bytes(sealed)}]"


def unseal(key: SubjectKey, tenant: str, token: str) -> str | None:
    """Return the text behind a token; None if it was not made with this key."""
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - an extra
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV  # noqa: PLC0415 - an extra

    found = TOKEN.fullmatch(token)
    if found is None or found.group(1) != key.id:
        return None
    try:
        padded = AESSIV(key.key).decrypt(decode_bytes(found.group(2)), [tenant.encode(), key.id.encode()])
    except (InvalidTag, ValueError):
        return None
    return padded.rstrip(b"\0").removesuffix(_PAD).decode()


async def unseal_all(journal: Journal, tenant: str, tokens: Iterable[str]) -> dict[str, str | None]:
    """Return the text behind each token; None where its key was destroyed, or it is not a token of this tenant."""
    keys: dict[str, SubjectKey | None] = {}
    texts: dict[str, str | None] = {}
    for token in dict.fromkeys(tokens):
        found = TOKEN.fullmatch(token)
        if found is None:
            continue
        if (key_id := found.group(1)) not in keys:
            demand_cryptography()
            keys[key_id] = await find_key_by_id(journal, tenant, key_id)
        key = keys[key_id]
        texts[token] = None if key is None else unseal(key, tenant, token)
    return texts


@runtime_checkable
class Keyless(Protocol):
    """A copy of events without the keys of their subjects."""

    is_keyless: bool


async def list_erased(journal: Journal, tenant: str, events: Sequence[bytes]) -> tuple[str, ...]:
    """Return the values in a session's events whose key was destroyed, each by its first event and its field."""
    if isinstance(journal, Keyless) or not any(MARK in data for data in events):
        return ()
    places: dict[str, str] = {}
    for position, data in enumerate(events, 1):
        if MARK in data:
            body = msgspec.json.decode(data[data.index(b"{") :])
            for path, token in _places("", body):
                places.setdefault(token, f"event {position}: {path}")
    texts = await unseal_all(journal, tenant, places)
    return tuple(place for token, place in places.items() if texts[token] is None)


def _places(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, each in cast("dict[str, Any]", value).items():
            yield from ((path, token) for token in find_tokens(name))
            yield from _places(f"{path}.{name}".lstrip("."), each)
    elif isinstance(value, list):
        for number, each in enumerate(cast("list[Any]", value)):
            yield from _places(f"{path}.{number}", each)
    else:
        yield from ((path, token) for token in find_tokens(value))


def with_encoded(tokens: Mapping[str, str]) -> dict[str, str]:
    """Return tokens by text, and by the forms in which a text is sent over HTTP: a service may repeat its URL or body."""
    encoded: dict[str, str] = {}
    for text, token in tokens.items():
        if len(text) >= _SHORTEST:
            url = quote(text, safe="")
            lower = _PERCENT.sub(lambda found: found.group().lower(), url)
            encoded |= dict.fromkeys((url, lower, quote_plus(text), json.dumps(text)[1:-1]), token)
    return {**encoded, **tokens}


def replace_texts(value: Any, tokens: Mapping[str, str]) -> Any:
    """Return a JSON value in which known texts are replaced by their tokens, also inside of longer texts and in keys."""
    if not tokens:
        return value
    known = sorted((text for text in tokens if len(text) >= _SHORTEST), key=len, reverse=True)
    # Tokens come first, so that nothing is replaced inside of one.
    pattern = re.compile("|".join((TOKEN.pattern, *map(re.escape, known))))

    def replace(text: str) -> str:
        if text in tokens:
            return tokens[text]
        return pattern.sub(lambda found: tokens.get(found.group(), found.group()), text)

    return map_texts(value, replace)
