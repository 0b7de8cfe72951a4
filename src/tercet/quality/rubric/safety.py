"""What an output must not contain: secrets, card numbers, personal numbers, instructions to its reader.

Secrets are known by the shapes of usual keys, by names such as `password` beside them, and by looking like dice. The list is
a small one of our own, so that the core needs no other package.
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


CARD = "number of a payment card"
_CARD = re.compile(r"(?<![\w-])(?:\d[ -]?){12,18}\d(?![\d-])")
ACCOUNT = re.compile(r"(?<!\w)[A-Z]{2}\d{2}(?:[ \xa0]?[A-Z0-9]{4}){2,7}(?:[ \xa0]?[A-Z0-9]{1,3})?(?!\w)")
_SOCIAL = re.compile(r"(?<![\w-])(?!000|666|9\d\d)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\w-])")
_INJECTION = re.compile(
    r"\b(?:ignore|disregard|forget)\s+(?:all\s+|any\s+)?(?:of\s+)?(?:the\s+|your\s+|my\s+)?(?:previous|prior|above|earlier|preceding)\s+"
    r"(?:instructions?|prompts?|rules|messages?)"
    r"|\byou are now (?:a|an|in)\b[^.\n]{0,40}\b(?:mode|assistant|jailbroken|unrestricted)\b"
    r"|\b(?:reveal|print|show|repeat)\s+(?:me\s+)?(?:your|the)\s+(?:system\s+prompt|hidden\s+instructions)"
    r"|<\|(?:im_start|im_end|system|endoftext)\|>|\[/?INST\]|<</?SYS>>",
    re.IGNORECASE,
)
# Zero-width characters, those that turn the direction of writing, and the tags that no one sees.
_INVISIBLE = re.compile(
    "(?:[\u200b\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\U000e0000-\U000e007f]"
    "|(?<![\u0600-\u109f\u1780-\u17ff\u2600-\u27bf\ufe0f\U0001f000-\U0001faff])[\u200c\u200d])+"
)
"""Joiners are a part of Arabic, of scripts of India and its neighbours, and of pictures."""
_DIRECTION = re.compile("[\u200e\u200f]+")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
"""Scripts in which marks of direction are a part of ordinary texts."""


class Danger(NamedTuple):
    """Something in a text that must not be sent."""

    kind: str
    start: int
    end: int
    penalty: float
    """What it takes off the score of safety."""


def find_dangers(text: str) -> list[Danger]:
    """Return what must not be sent, in its order."""
    return sorted(_find(text), key=lambda danger: (danger.start, danger.end, danger.kind))


def mask(text: str) -> str:
    """Return a text with dangerous parts masked, for messages that quote it."""
    for danger in reversed(find_dangers(text)):
        text = f"{text[: danger.start]}[{danger.kind}]{text[danger.end :]}"
    return text


def _find(text: str) -> Iterator[Danger]:
    for secret in find_any_secrets(text):
        yield Danger(secret.kind, secret.start, secret.end, 1.0)
    accounts = [match.span() for match in ACCOUNT.finditer(text) if _is_account(match[0])]
    for match in _CARD.finditer(text):
        is_inside = any(start <= match.start() and match.end() <= end for start, end in accounts)
        if _is_card(match[0]) and not is_inside:
            yield Danger(CARD, *match.span(), 1.0)
    for match in _SOCIAL.finditer(text):
        yield Danger("social security number", *match.span(), 1.0)
    for match in _INJECTION.finditer(text):
        yield Danger("instruction to a model", *match.span(), 0.5)
    patterns = (_INVISIBLE,) if _RIGHT_TO_LEFT.search(text) else (_INVISIBLE, _DIRECTION)
    for match in (match for pattern in patterns for match in pattern.finditer(text)):
        yield Danger("invisible characters", *match.span(), 0.25)


def _is_account(text: str) -> bool:
    """Return whether the check digits of an account number are right (ISO 7064)."""
    plain = "".join(char for char in text if char.isalnum())
    return int("".join(str(int(char, 36)) for char in plain[4:] + plain[:4])) % 97 == 1


def _is_card(text: str) -> bool:
    """Return whether the check digit of a card number is right (Luhn); one number in ten passes by chance."""
    digits = [int(char) for char in text if char.isdigit()]
    if len(set(digits)) < 2 or not 13 <= len(digits) <= 19 or digits[0] not in (2, 3, 4, 5, 6):
        return False
    doubled = [
        digit if at % 2 == 0 else digit * 2 - 9 * (digit > 4) for at, digit in enumerate(reversed(digits))
    ]
    return sum(doubled) % 10 == 0
