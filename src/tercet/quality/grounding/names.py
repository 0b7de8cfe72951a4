"""Identifiers and names in a text: what is equal to the letter, or is something else."""

from __future__ import annotations

import re
from typing import NamedTuple

from tercet.quality.grounding.lexicon import STOP, TITLES

_PARTS = "section|chapter|floor|release|build|item|article|paragraph|level|phase|lane"
_IDENTIFIERS = re.compile(
    "|".join(
        (
            r"(?P<url>\bhttps?://[^\s<>\"')\]]+[\w/])",
            r"(?P<email>\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+)",
            r"(?P<ip>\b\d{1,3}(?:\.\d{1,3}){3}\b)",
            r"(?P<phone>\+\d[\d ()/-]{5,}\d)",
            r"(?P<iban>(?-i:\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b))",
            r"(?P<flag>(?<![\w-])--[a-z][\w-]*)",
            r"(?P<hexadecimal>\b0x[0-9A-Fa-f]+\b)",
            r"(?P<commit>\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b)",
            r"(?P<version>\bv?\d+(?:\.\d+){2,}\b|\bv\d+(?:\.\d+)*\b|(?<=version )\d+(?:\.\d+)*|(?<=Version )\d+(?:\.\d+)*)",
            rf"(?P<part>\b(?:{_PARTS})\s+(?:\d+(?:\.\d+)*|one|two|three|four|five|six)\b(?!\s*%))",
            r"(?P<plate>(?-i:\b(?!EUR|USD|GBP|CHF|INR|JPY|CNY|SEK|NOK|DKK|PLN|CZK|VAT)[A-Z]{2,5}(?:-[A-Z]{1,3})?[ -]\d{2,6}\b(?![-_]\w)))",
            r"(?P<letter>(?-i:\b(?!Mr|Ms|Dr|St)[A-Za-z][a-z]{2,} [A-HJ-Z]\b(?![.'’]|[-_:/]\w)))",
            r"(?P<code>\b(?=[\w.:/-]*\d)(?=[\w.:/-]*[A-Za-z])[A-Za-z0-9]+(?:[-_.:/]+[A-Za-z0-9]+)+\b)",
            r"(?P<word>\b(?=[A-Za-z0-9]*\d)[A-Za-z][A-Za-z0-9]+\b)",
        )
    ),
    re.IGNORECASE,
)
_NO_CODE = re.compile(
    r"(?:\d+(?:st|nd|rd|th)|\d+(?:[.,]\d+)*-?[A-Za-z°²³%]{1,5}|Q[1-4]|m[23]|\d+[-/](?:month|year|day|week|hour|fold|bit)s?"
    r"|\d{4}-\d\d-\d\dT\S*|\d+-[a-z]+)",
    re.IGNORECASE,
)
_NAME_WORD = r"(?:[A-ZÀ-ÖØ-Þ][\w’'-]*[a-zß-ÿ0-9][\w’'-]*|[A-ZÀ-ÖØ-Þ]{2,})"
_NAME = re.compile(rf"{_NAME_WORD}(?:\s+(?:&\s+|(?:van|von|de|der|la|du|of the)\s+)?{_NAME_WORD})*\.?")
_SPACES = re.compile(r"\s+")
_DIGITS = re.compile(r"\d")
_LETTERS = re.compile(r"[A-Za-z]+")


class Identifier(NamedTuple):
    """A code, address, number of a thing: equal or another."""

    key: str
    """As it is compared."""
    shape: str
    """What it looks like: digits as 9, letters as A."""
    start: int
    end: int


class Name(NamedTuple):
    """A name of one or more words."""

    words: tuple[str, ...]
    start: int
    end: int
    is_certain: bool = True
    """Whether its capitals are more than those that begin a sentence."""


def find_identifiers(text: str) -> list[Identifier]:
    """The identifiers of a text."""
    found: list[Identifier] = []
    for match in _IDENTIFIERS.finditer(text):
        kind = match.lastgroup or ""
        if kind in ("code", "word") and _NO_CODE.fullmatch(match[0]):
            continue
        key = _SPACES.sub("", match[0]).casefold()
        shape = (
            kind
            if kind in ("url", "email", "ip", "phone", "commit", "version", "part", "letter")
            else _shape(key)
        )
        found.append(Identifier(key, shape, *match.span()))
    return found


def _shape(key: str) -> str:
    return _LETTERS.sub(lambda match: match[0][:1].upper(), _DIGITS.sub("9", key))


def find_names(text: str) -> list[Name]:
    """The names of a text, without titles; a word that begins a sentence is a name for certain only in company."""
    found: list[Name] = []
    for match in _NAME.finditer(text):
        found += _read(text, match)
    return found


def _read(text: str, match: re.Match[str]) -> list[Name]:
    words = [(word.group(), match.start() + word.start()) for word in re.finditer(r"[\w’'-]+", match[0])]
    is_first = _is_sentence_start(text, match.start())
    if words and is_first and words[0][0].casefold() in STOP:
        words, is_first = words[1:], False
    kept = [(word, at) for word, at in words if word.casefold() not in TITLES and word.casefold() not in STOP]
    if not kept:
        return []
    is_certain = not is_first or len(words) > 1 or kept[0][0].isupper()
    key = tuple(word.removesuffix("'s").removesuffix("’s").casefold() for word, _ in kept)
    return [Name(key, kept[0][1], match.end(), is_certain)]


def _is_sentence_start(text: str, at: int) -> bool:
    before = text[:at].rstrip()
    last = re.search(r"([A-Za-z]+)\.$", before)
    if last and last[1].casefold() in TITLES:
        return False
    return not before or before[-1] in '.!?:;|\n"“' or "\n" in text[len(before) : at]
