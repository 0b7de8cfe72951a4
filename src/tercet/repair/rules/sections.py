"""Adding a section that is missing, out of the words that are declared for it and the evidence that they speak of."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from tercet.contracts.prose import is_only_headings
from tercet.contracts.quality import Defect
from tercet.contracts.repair import SectionTemplate
from tercet.contracts.shape import JsonObject
from tercet.repair.edits import Edit
from tercet.repair.materials import Materials
from tercet.repair.regions import Region, headings, text_at, texts

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
