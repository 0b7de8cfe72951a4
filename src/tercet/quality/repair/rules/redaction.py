"""Taking out what must not leave: keys, tokens and passwords, wherever in the output they stand again.

A mark takes their place, so that the sentence stays one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from tercet.contracts.shape import JsonObject
from tercet.quality.repair.regions import Edit, from_the_end, text_at, texts
from tercet.quality.rubric.credentials import NAMED, Secret, find_any_secrets
from tercet.quality.verification.locations import Location

REDACTED = "[redacted]"
_RUN = re.compile(r"[^\s\"'`<>()\[\]{},;]+")
_ENDS = ".:!?"
_SEPARATOR = re.compile(r"[\s:=\"']+")


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
    """Yield the known secrets at a place; where a range touches none, the range itself, out to the ends of its words."""
    for where in texts(output) if place is None else [place.pointer]:
        text = text_at(output, where) or ""
        known = [_value(text, each) for each in find_any_secrets(text) if _touches(place, each)]
        yield from known
        if known or place is None or place.start is None or place.end is None:
            continue
        runs = [
            match for match in _RUN.finditer(text) if match.start() < place.end and place.start < match.end()
        ]
        whole = text[runs[0].start() : runs[-1].end()].rstrip(_ENDS) if runs else ""
        # What is redacted goes wherever it stands again; a single letter stands everywhere.
        yield from [whole] if len(whole) > 1 else []


def _value(text: str, secret: Secret) -> str:
    """Return a secret without the word that it is called by, which stays, and without the stop behind it."""
    found = text[secret.start : secret.end].rstrip(_ENDS)
    return _SEPARATOR.split(found)[-1] if secret.kind == NAMED else found


def _touches(place: Location | None, secret: Secret) -> bool:
    if place is None or place.start is None or place.end is None:
        return True
    return secret.start < place.end and place.start < secret.end


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
