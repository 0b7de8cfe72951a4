"""Rules for texts: a wrong value gives way to the slot of the right one, and a missing section is added.

Neither takes anything else out. What a slot stands for is written when the outputs are rendered again, in the format of
its type and locale. The words of a section are the pack author's.
"""

from __future__ import annotations

from tercet.contracts.documents import find_slots
from tercet.contracts.outputs.quality import Defect
from tercet.contracts.outputs.repair import SectionTemplate
from tercet.contracts.shape import JsonObject
from tercet.contracts.text.words import is_only_headings
from tercet.quality.repair.losses import Materials
from tercet.quality.repair.regions import Edit, headings, text_at, texts
from tercet.quality.verification.authored import section_words
from tercet.quality.verification.locations import Location


def replace_value(
    output: JsonObject, defect: Defect, place: Location | None, materials: Materials
) -> tuple[Edit, ...]:
    """Return the edit that puts the slot of the only declared value that a sentence names in the place of a wrong one."""
    slot = materials.slots.get(defect.location or "")
    if slot is None or place is None or text_at(output, place.pointer) is None:
        return ()
    return (Edit(region=place, replacement=f"{{{{ {slot} }}}}"),)


def add_section(
    output: JsonObject, defect: Defect, place: Location | None, materials: Materials
) -> tuple[Edit, ...]:
    """Return the edit that adds the section a defect misses; none if it is not clear which, or where."""
    where = _text_of(output, place)
    text = (text_at(output, where) if where is not None else None) or ""
    if where is None or is_only_headings(text):
        return ()  # a letter that was never written is not made good by what the pack says in each
    missing = _find_section(defect, [each for each in materials.sections if not _is_there(text, each)])
    if missing is None:
        return ()
    at = _position(text, missing)
    new = _set_off(text, at, section_words(missing))
    return (Edit(region=Location(pointer=where, start=at, end=at), replacement=new),)


def _text_of(output: JsonObject, place: Location | None) -> str | None:
    if place is not None and text_at(output, place.pointer) is not None:
        return place.pointer
    found = texts(output)
    if len(found) == 1:
        return found[0]
    headed = [where for where in found if headings(text_at(output, where) or "")]
    return headed[0] if len(headed) == 1 else None


def _is_there(text: str, template: SectionTemplate) -> bool:
    return any(each.title.casefold() == template.heading.casefold() for each in headings(text))


def _find_section(defect: Defect, missing: list[SectionTemplate]) -> SectionTemplate | None:
    """Return the section whose heading a defect names, or the only one that states the value that it names."""
    told = f"{defect.description}\n{defect.location or ''}".casefold()
    named = [each for each in missing if each.heading.casefold() in told] or [
        each for each in missing if any(slot.name.casefold() in told for slot in find_slots(each.text))
    ]
    return named[0] if len(named) == 1 else None


def _position(text: str, template: SectionTemplate) -> int:
    after = [each.end for each in headings(text) if each.title.casefold() == template.after.casefold()]
    return after[0] if after else len(text)


def _set_off(text: str, at: int, section: str) -> str:
    """Return a section with a blank line before it, and one behind it where something follows."""
    before = text[:at]
    lead = "" if not before or before.endswith("\n\n") else "\n" if before.endswith("\n") else "\n\n"
    return f"{lead}{section}{chr(10) if at < len(text) else ''}"
