"""Taking a claim out that nothing supports: its sentence, or its item of a list, and what joined it to the next one.

Of an output that is an object, a member that the schema does not ask for.

Where taking it out would leave a hole, nothing is done: a section without words, or a next sentence that begins with
`this` and would then speak of something else. Such a claim is a model's to mend.
"""

from __future__ import annotations

import re

import orjson

from tercet.contracts.prose import goes_on
from tercet.contracts.quality import Defect
from tercet.contracts.shape import JsonObject, as_object
from tercet.policy.schemas import faults
from tercet.repair.edits import Edit, splice
from tercet.repair.regions import WHOLE, Region, headings, is_there, parent_of, text_at, texts, value_at

_END = re.compile(r"(?:[.!?]+[\"')\]]*(?=\s|\Z))|\n")
_SHORT_FORMS = re.compile(
    r"(?:\b(?:mr|mrs|ms|dr|prof|st|no|nr|vs|etc|inc|ltd|co|approx|e\.g|i\.e|a\.m|p\.m|[A-Z]))\.\Z",
    re.IGNORECASE,
)
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d+[.)])[ \t]+")
_JOINT = re.compile(
    r"(?:moreover|furthermore|however|therefore|thus|hence|also|besides|in addition|additionally|as a result|"
    r"consequently|for this reason|because of this|likewise|similarly)\b,?[ \t]+",
    re.IGNORECASE,
)
_HANGING = re.compile(r"(?:this|that|these|those|such|both|the (?:latter|former|same))\b", re.IGNORECASE)
_QUOTED = re.compile(r"[\"“«'`](?P<claim>[^\"”»\n]{8,}?)[\"”»'`](?=[\s.,;:)]|\Z)")


def remove_claim(
    output: JsonObject, defect: Defect, place: Region | None, schema: JsonObject | None = None
) -> tuple[Edit, ...]:
    """The edit that takes the claim at a place out; none where that would leave a hole."""
    found = place if place is not None and place.is_range else _quoted(output, defect, place)
    if found is None or found.start is None or found.end is None:
        return _without_member(output, place, schema)
    edit = take_out(text_at(output, found.pointer) or "", found.pointer, found.start, found.end)
    return () if edit is None else (edit,)


def take_out(text: str, where: str, start: int, end: int) -> Edit | None:
    """The edit that takes the sentences of a text out that a range touches; None where that would leave a hole."""
    start, end = _sentences_over(text, start, end)
    start, end, replacement = _with_joints(text, start, end)
    if not _leaves_words(text, start, end) or _HANGING.match(text[end:].lstrip()):
        return None
    return Edit(region=Region(pointer=where, start=start, end=end), replacement=replacement)


def _without_member(output: JsonObject, place: Region | None, schema: JsonObject | None) -> tuple[Edit, ...]:
    """The edit that takes a member out which is no text, where the schema does not ask for it."""
    if place is None or place.is_range or schema is None or _is_long(output, place):
        return ()
    if as_object(value_at(output, parent_of(place.pointer))) is None or not is_there(output, place.pointer):
        return ()
    edit = Edit(region=place, is_removal=True)
    return () if faults(orjson.dumps(schema).decode(), splice(output, edit)) else (edit,)


def _is_long(output: JsonObject, place: Region) -> bool:
    """Whether a place is the whole output, or a text in which one claim is among others."""
    return place == WHOLE or "\n" in (text_at(output, place.pointer) or "").strip()


def _quoted(output: JsonObject, defect: Defect, place: Region | None) -> Region | None:
    """Where the claim stands that the description quotes, if it stands in one place only."""
    places = texts(output) if place is None else [place.pointer]
    for match in _QUOTED.finditer(defect.description):
        spots = [
            Region(pointer=where, start=at, end=at + len(match["claim"]))
            for where in places
            if (at := (text_at(output, where) or "").find(match["claim"])) >= 0
        ]
        if len(spots) == 1:
            return spots[0]
    return None


def sentences(text: str) -> list[tuple[int, int]]:
    """Where each sentence of a text begins and ends, without the space around it."""
    found: list[tuple[int, int]] = []
    start = 0
    for match in _END.finditer(text):
        is_stop = match[0][0] in ".!?"
        is_within = _SHORT_FORMS.search(text, start, match.end()) if is_stop else goes_on(text, match.start())
        if is_within:
            continue
        found.append((start, match.end() if is_stop else match.start()))
        start = match.end()
    found.append((start, len(text)))
    return [span for low, high in found if (span := _stripped(text, low, high))[0] < span[1]]


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), end - (len(piece) - len(piece.rstrip()))


def _sentences_over(text: str, start: int, end: int) -> tuple[int, int]:
    """The sentences that a range touches."""
    over = [span for span in sentences(text) if span[0] < max(end, start + 1) and start < span[1]]
    return (over[0][0], over[-1][1]) if over else (start, end)


def _with_joints(text: str, start: int, end: int) -> tuple[int, int, str]:
    """What goes along with a sentence: its line where it is an item, a space beside it, a joint of the next one."""
    line = text.rfind("\n", 0, start) + 1
    if _ITEM.fullmatch(text[line:start]) or _ITEM.match(text[start:end]):
        after = text.find("\n", end)
        return line, len(text) if after < 0 else after + 1, ""
    rest = text[end:]
    space = len(rest) - len(rest.lstrip(" \t"))
    is_last = end + space >= len(text) or rest[space] == "\n"
    if is_last and text[line:start].strip():
        return len(text[:start].rstrip(" \t")), end, ""
    if is_last:
        return _paragraph(text, start, end)
    joint = _JOINT.match(rest[space:])
    if joint is None:
        return start, end + space, ""
    after = end + space + joint.end()
    return start, after + 1, text[after : after + 1].upper()


def _paragraph(text: str, start: int, end: int) -> tuple[int, int, str]:
    """A paragraph that is one sentence goes with the blank lines behind it."""
    rest = text[end:]
    return start, end + len(rest) - len(rest.lstrip()), ""


def _leaves_words(text: str, start: int, end: int) -> bool:
    around = [each for each in headings(text) if each.start <= start < each.end]
    low, high = (
        max((each.start for each in around), default=0),
        min((each.end for each in around), default=len(text)),
    )
    left = text[low:start] + text[end:high]
    lines = [line for line in left.splitlines() if not line.startswith("#")]
    return any(char.isalnum() for line in lines for char in line)
