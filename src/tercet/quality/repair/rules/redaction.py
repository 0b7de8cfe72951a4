"""Taking out what must not leave: keys, tokens and passwords, wherever in the output they stand again.

A mark takes their place, so that the sentence stays one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from tercet.contracts.shape import JsonObject
from tercet.quality.repair.regions import Edit, from_the_end, text_at, texts
from tercet.quality.verification.locations import Location

REDACTED = "[redacted]"
_SECRETS = re.compile(
    r"""
      -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----.*?(?:-----END\ [A-Z ]*PRIVATE\ KEY-----|\Z)
    | \b(?:sk|pk|rk)[-_](?:live[-_]|test[-_]|proj[-_]|ant[-_])?[A-Za-z0-9_-]{12,}
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b
    | \bgh[pousr]_[A-Za-z0-9]{20,}
    | \bgithub_pat_[A-Za-z0-9_]{20,}
    | \bxox[abeoprs]-[A-Za-z0-9-]{10,}
    | \bAIza[A-Za-z0-9_-]{30,}
    | \beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*
    | (?i:\bbearer\s+)(?P<bearer>[A-Za-z0-9._~+/-]{16,}=*)
    | (?i:\b(?:api[ _-]?key|secret|token|password|passwd|pwd)\b\s*(?:is\s*)?[:=]\s*)["']?(?P<named>[^\s"',;]{6,})
    """,
    re.VERBOSE | re.DOTALL,
)
_RUN = re.compile(r"[^\s\"'`<>()\[\]{},;]+")
_ENDS = ".:!?"


def redact(output: JsonObject, place: Location | None) -> tuple[Edit, ...]:
    """Edits that take the secrets at a place out, and the same ones everywhere else; without a place, all known kinds."""
    if place is not None and place.is_range and not _shown(output, place):
        return (Edit(region=place, replacement=""),)
    found = set(_at(output, place))
    edits: list[Edit] = []
    for where in texts(output):
        edits += [
            Edit(region=Location(pointer=where, start=start, end=end), replacement=REDACTED)
            for start, end in _occurrences(text_at(output, where) or "", found)
        ]
    return from_the_end(edits)


def _shown(output: JsonObject, place: Location) -> str:
    """Return what a reader sees of a range: nothing of characters that only steer the text."""
    text = (text_at(output, place.pointer) or "")[place.start : place.end]
    return "".join(char for char in text if unicodedata.category(char) != "Cf")


def _at(output: JsonObject, place: Location | None) -> Iterator[str]:
    places = texts(output) if place is None else [place.pointer]
    for where in places:
        text = text_at(output, where) or ""
        if place is None or place.start is None or place.end is None:
            yield from (secret for secret, _, _ in secrets_in(text))
        else:
            yield from _overlapping(text, place.start, place.end)


def _overlapping(text: str, start: int, end: int) -> list[str]:
    """Return the known secrets that a range touches; where there is none, the range itself, out to the ends of its words."""
    known = [secret for secret, low, high in secrets_in(text) if low < end and start < high]
    runs = [match for match in _RUN.finditer(text) if match.start() < end and start < match.end()]
    if known or not runs:
        return known
    whole = text[runs[0].start() : runs[-1].end()].rstrip(_ENDS)
    # What is redacted goes wherever it stands again; a single letter stands everywhere.
    return [whole] if len(whole) > 1 else []


def secrets_in(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the secrets of known kinds in a text, with where they stand."""
    for match in _SECRETS.finditer(text):
        group = match.lastgroup or 0
        secret = match[group].rstrip(_ENDS)
        if secret and secret != REDACTED:
            yield secret, match.start(group), match.start(group) + len(secret)


def _occurrences(text: str, secrets: set[str]) -> list[tuple[int, int]]:
    """Return where any of the secrets stand; of two that overlap, both as one."""
    found = sorted(
        (match.start(), match.end()) for secret in secrets for match in re.finditer(re.escape(secret), text)
    )
    merged: list[tuple[int, int]] = []
    for start, end in found:
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
