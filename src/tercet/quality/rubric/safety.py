"""What an output must not contain: secrets, card numbers, personal numbers, instructions to its reader."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tercet.quality.rubric.credentials import find_any_secrets

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
