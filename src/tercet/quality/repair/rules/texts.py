"""Rules for texts: take out a claim that nothing supports, work a total out again, add a section that is missing.

Of an output that is an object, a member that the schema does not ask for.

Where taking it out would leave a hole, nothing is done: a section without words, or a next sentence that begins with
`this` and would then speak of something else. Such a claim is a model's to mend.

A claim goes with its sentence, or its item of a list, and what joined it to the next one. A total is what evidence states,
or its items come to, or those beside it. A section comes out of the words that are declared for it.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, NamedTuple

import orjson

from tercet.contracts.pointer import value_at
from tercet.contracts.prose import goes_on, is_only_headings
from tercet.contracts.quality import Defect
from tercet.contracts.repair import SectionTemplate
from tercet.contracts.shape import JsonObject, as_object
from tercet.contracts.totals import find_totals, to_decimal, total_names, totals_in, worked_totals
from tercet.policy.schemas import faults
from tercet.quality.repair.materials import Materials
from tercet.quality.repair.regions import (
    WHOLE,
    Edit,
    Region,
    headings,
    is_there,
    parent_of,
    splice,
    text_at,
    texts,
    window,
)

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


def recompute_total(output: JsonObject, place: Region | None, materials: Materials) -> tuple[Edit, ...]:
    """The edit that puts the right total in the place of a wrong one; none where it is not clear which is right."""
    region = _total_at(output, place)
    if region is None:
        return ()
    right = _right_total(output, region, materials)
    if right is None:
        return ()
    if region.start is not None and region.end is not None:
        shown = (text_at(output, region.pointer) or "")[region.start : region.end]
        new: Any = None if to_decimal(shown.replace(",", "")) == right else _written_like(shown, right)
    else:
        old = value_at(output, region.pointer)
        new = None if to_decimal(old) == right else _number(right)
    return () if new is None else (Edit(region=region, replacement=new),)


def _total_at(output: JsonObject, place: Region | None) -> Region | None:
    """The number that is meant as a total."""
    if place is None:
        spots = [spot for where in texts(output) if (spot := _total_in(output, Region(pointer=where)))]
        return spots[0] if len(spots) == 1 else None
    if place.is_range or text_at(output, place.pointer) is not None:
        return _total_in(output, place)
    name = place.pointer.rpartition("/")[2]
    holder = as_object(value_at(output, parent_of(place.pointer))) or {}
    return place if name in total_names(holder) else None


def _total_in(output: JsonObject, place: Region) -> Region | None:
    """The number behind a word for a total, on a line of the place; of several the one that the place holds."""
    text = text_at(output, place.pointer) or ""
    lines = (
        window(output, place, 0) if place.is_range else Region(pointer=place.pointer, start=0, end=len(text))
    )
    found = set(find_totals(text, lines.start or 0, lines.end or 0))
    start, end = place.start or 0, len(text) if place.end is None else place.end
    held = {spot for spot in found if spot[0] < end and start < spot[1]} or found
    if len(held) != 1:
        return None
    ((first, last),) = held
    return Region(pointer=place.pointer, start=first, end=last)


def _right_total(output: JsonObject, region: Region, materials: Materials) -> Decimal | None:
    for facts in materials.by_trust:
        totals = {total for fact in facts for total in totals_in(fact.content)}
        if totals:
            return next(iter(totals)) if len(totals) == 1 else None
    worked = worked_totals(as_object(value_at(output, parent_of(region.pointer))) or {})
    return None if worked is None else worked.right


def _number(total: Decimal) -> int | float:
    return int(total) if total == total.to_integral_value() else float(total)


def _written_like(shown: str, total: Decimal) -> str:
    """A total with as many decimals as it was shown with, more if it needs them, and commas where there were some."""
    needed = max(0, -int(total.normalize().as_tuple().exponent))
    places = max(len(shown.partition(".")[2]), needed)
    return f"{total:{',' if ',' in shown else ''}.{places}f}"


_STRAY = re.compile(r"\{\{[^{}]*\}\}")
_BLANK = re.compile(r"\{\{\s*(?P<classification>[^{}#\s]+)#(?P<place>(?:/[^{}\s]*)?)\s*\}\}")


def add_section(
    output: JsonObject, defect: Defect, place: Region | None, materials: Materials
) -> tuple[Edit, ...]:
    """The edit that adds the section a defect misses; none where it is not clear which, where, or what it says."""
    where = _text_of(output, place)
    if where is None:
        return ()
    text = text_at(output, where) or ""
    if is_only_headings(text) and not materials.may_begin:
        return ()  # a letter that was never written is not made good by what the pack says in each
    missing = _meant(defect, [each for each in materials.sections if not _is_there(text, each)])
    words = fill(missing.text, materials) if missing is not None else None
    if missing is None or words is None:
        return ()
    at = _position(text, missing)
    new = _set_off(text, at, f"{'#' * missing.level} {missing.heading}\n\n{words.strip()}\n")
    return (Edit(region=Region(pointer=where, start=at, end=at), replacement=new),)


def _text_of(output: JsonObject, place: Region | None) -> str | None:
    if place is not None and text_at(output, place.pointer) is not None:
        return place.pointer
    found = texts(output)
    if len(found) == 1:
        return found[0]
    headed = [where for where in found if headings(text_at(output, where) or "")]
    return headed[0] if len(headed) == 1 else None


def _is_there(text: str, template: SectionTemplate) -> bool:
    return any(each.title.casefold() == template.heading.casefold() for each in headings(text))


def _meant(defect: Defect, missing: list[SectionTemplate]) -> SectionTemplate | None:
    told = f"{defect.description}\n{defect.location or ''}".casefold()
    named = [each for each in missing if each.heading.casefold() in told or _states(each, told)] or missing
    return named[0] if len(named) == 1 else None


class Blank(NamedTuple):
    """A place of a text that is filled from evidence: of which class, and from where in it."""

    classification: str
    place: str


def blanks_in(text: str) -> list[Blank]:
    """The blanks of a text, in their order."""
    return [Blank(match["classification"], match["place"]) for match in _BLANK.finditer(text)]


def strays_in(text: str) -> list[str]:
    """What looks like a blank of a text, and is none."""
    return [match[0] for match in _STRAY.finditer(text) if not _BLANK.fullmatch(match[0])]


def _states(template: SectionTemplate, told: str) -> bool:
    """Whether the words of a section have a blank for the member that a defect names."""
    refs = (f"{blank.classification}#{blank.place}".casefold() for blank in blanks_in(template.text))
    return any(f" {ref}:" in told for ref in refs)


def fill(text: str, materials: Materials) -> str | None:
    """A text with its blanks filled from evidence; None if one of them cannot be."""
    values = [materials.named(*blank) for blank in blanks_in(text)]
    if any(_shown(value) is None for value in values):
        return None
    left = iter(values)
    return _BLANK.sub(lambda _: _shown(next(left)) or "", text)


def _shown(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    # A fact that brings lines of its own could bring headings too.
    return " ".join(str(value).split())


def _position(text: str, template: SectionTemplate) -> int:
    after = [each.end for each in headings(text) if each.title.casefold() == template.after.casefold()]
    return after[0] if after else len(text)


def _set_off(text: str, at: int, section: str) -> str:
    """A section with a blank line before it, and one behind it where something follows."""
    before = text[:at]
    lead = "" if not before or before.endswith("\n\n") else "\n" if before.endswith("\n") else "\n\n"
    return f"{lead}{section}{chr(10) if at < len(text) else ''}"
