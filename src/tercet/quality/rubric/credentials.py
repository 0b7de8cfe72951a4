"""Secrets in outputs: the shapes of known keys, passwords beside their names, and strings that look like dice.

A small list of our own, so that the core needs no other package.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from math import log2
from typing import NamedTuple

from tercet.contracts.text.encodings import decode_all

NAMED = "named secret"
_NAMED = (
    r"(?i:\b(?:api[_ -]?key|access[_ -]?key|secret(?:[_ -]?key)?|auth[_ -]?token|password|passwd|pwd)\b"
    r"[\"']?\s{0,3}(?:[:=]|is)\s{0,3}[\"']?)(?=[^\s\"',;]*[\d!@#$%^&*_-])[^\s\"',;]{8,200}"
)
_SHAPES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        (
            "private key",
            r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?:[^-]{0,8000}-----END [A-Z ]{0,40}PRIVATE KEY-----)?",
        ),
        ("AWS access key", r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
        ("GitHub token", r"\b(?:gh[pousr]_[A-Za-z0-9]{36,80}|github_pat_[A-Za-z0-9_]{22,100})\b"),
        ("GitLab token", r"\bglpat-[A-Za-z0-9_-]{20,40}"),
        ("Slack token", r"\bxox[abprs]-[A-Za-z0-9-]{10,80}"),
        ("Google API key", r"\bAIza[0-9A-Za-z_-]{35}\b"),
        ("payment provider key", r"\b[srp]k_(?:live|test)_[0-9A-Za-z]{16,100}\b"),
        ("model provider key", r"\bsk-(?:[a-z]{2,10}-)?[A-Za-z0-9_-]{20,200}"),
        ("JSON web token", r"\beyJ[A-Za-z0-9_-]{10,2000}\.eyJ[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]{5,1000}"),
        ("password in an address", r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{1,80}:[^\s/@]{3,80}@"),
        (NAMED, _NAMED),
    )
)
_TOKEN = re.compile(r"(?<![\w/+=.-])[A-Za-z0-9/+_-]{24,200}={0,2}(?![\w/+=-])")
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_HEX = re.compile(r"[0-9a-fA-F]+")
LEAST_ENTROPY = 4.0
"""Bits a character from which on a mixed string of 24 and more looks random."""


class Secret(NamedTuple):
    """Something that looks like a secret, and where it stands."""

    kind: str
    start: int
    end: int


def find_any_secrets(text: str, /) -> list[Secret]:
    """Return what looks like a secret in a text, as it stands or encoded, in its order.

    Found are secrets in Base64, also broken into lines, in hexadecimal with or without separators, and percent-encoded.
    """
    found = [*_find_shapes(text), *_find_random(text)]
    for decoded in decode_all(text):
        inner = [*_find_shapes(decoded.text), *(_find_random(decoded.text) if decoded.is_run else ())]
        found += [Secret(secret.kind, *decoded.span(secret.start, secret.end)) for secret in inner]
    return _without_overlaps(found)


def _find_shapes(text: str) -> Iterator[Secret]:
    return (Secret(kind, *match.span()) for kind, pattern in _SHAPES for match in pattern.finditer(text))


def _find_random(text: str) -> Iterator[Secret]:
    matches = (match for match in _TOKEN.finditer(text) if _looks_random(match[0]))
    return (Secret("random string", *match.span()) for match in matches)


def _without_overlaps(found: list[Secret]) -> list[Secret]:
    kept: list[Secret] = []
    for secret in sorted(found, key=lambda item: (item.start, -item.end, item.kind)):
        if not kept or secret.start >= kept[-1].end:
            kept.append(secret)
    return kept


def _looks_random(token: str) -> bool:
    """Hashes and ids are hexadecimal and meant to be shown; words and paths lack one of the three kinds of characters."""
    if _HEX.fullmatch(token) or _UUID.fullmatch(token):
        return False
    kinds = (any(map(str.isdigit, token)), any(map(str.isupper, token)), any(map(str.islower, token)))
    return all(kinds) and entropy(token) >= LEAST_ENTROPY


def entropy(text: str) -> float:
    """Return the bits of a character, by how often each occurs."""
    size = len(text)
    counts = sorted(Counter(text).values())
    return round(-sum(count / size * log2(count / size) for count in counts), 6) if size else 0.0
