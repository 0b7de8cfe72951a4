"""Repairs that need no model: the same defect of the same output is always repaired in the same way, or not at all.

Secrets are taken out wherever in the output they stand again, and a mark takes their place, so that the sentence stays
one. A wrong value gives way to the slot of the right one, which is written when the outputs are rendered again. A missing
section is added in the words of the pack's author. And outputs get the form that their schema asks for, where there is
exactly one. Nothing is guessed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Any

import orjson

from tercet.contracts.documents import find_slots
from tercet.contracts.outputs.quality import Defect, RootCauseClass
from tercet.contracts.outputs.repair import SectionTemplate
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.text.words import is_only_headings
from tercet.contracts.values import pointer
from tercet.contracts.values.pointer import value_at
from tercet.policy.schemas import faults
from tercet.quality.repair.losses import Materials
from tercet.quality.repair.regions import Edit, from_the_end, headings, is_there, splice, text_at, texts
from tercet.quality.rubric.safety import NAMED, Secret, find_any_secrets
from tercet.quality.verification.authored import section_words
from tercet.quality.verification.places import Location

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


_MOST_REFERENCES = 32
_INTEGER = re.compile(r"[+-]?[0-9]{1,15}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,15}|[0-9]{1,3}(?:,[0-9]{3}){1,4})(?:\.[0-9]{1,9})?")
_BOOLEANS = {"true": True, "yes": True, "false": False, "no": False}


def coerce(output: JsonObject, place: Location | None, materials: Materials) -> tuple[Edit, ...]:
    """Return the edit that gives what is at a place, or the whole output, its form; none unless all of it can be given."""
    root, at = materials.schema, place.pointer if place else ""
    part = _part(root or {}, at)
    if root is None or (part is None and not is_there(output, at)):
        return ()
    value = value_at(output, at)
    new = None if part is None else _fit(root, part, value) if is_there(output, at) else _only_choice(part)
    edit = Edit(region=Location(at), replacement=new, is_removal=part is None)
    if part is not None and (new is None or orjson.dumps(new) == orjson.dumps(value)):
        return ()
    left = (pointer.join(fault.place) for fault in faults(orjson.dumps(root).decode(), splice(output, edit)))
    return () if any(f"{each}/".startswith(f"{at}/") for each in left) else (edit,)


def _fit(root: JsonObject, schema: Any, value: Any) -> Any:
    """Return a value in the form of its schema, as far as that is clear."""
    part = _dereference(root, schema)
    if (items := as_list(value)) is not None:
        listed = as_list(part.get("prefixItems")) or []
        return [
            _fit(root, listed[at] if at < len(listed) else part.get("items"), item)
            for at, item in enumerate(items)
        ]
    if (members := as_object(value)) is None:
        return _coerce_value(value, part)
    known = as_object(part.get("properties")) or {}
    kept = {
        name: _fit(root, known.get(name), member)
        for name, member in members.items()
        if name in known or not _is_closed(part)
    }
    required = (name for name in as_list(part.get("required")) or () if name not in members)
    filled = {name: _only_choice(_dereference(root, known.get(name))) for name in required}
    return kept | {name: new for name, new in filled.items() if new is not None}


def _is_closed(part: JsonObject) -> bool:
    """Return whether other members than its own are a fault; which names patterns allow is for the validator to say."""
    return part.get("additionalProperties") is False and not part.get("patternProperties")


def _only_choice(part: JsonObject) -> Any:
    """Return the only value that the schema leaves a missing member; None if there are several."""
    choices = as_list(part.get("enum")) or []
    return part.get("default", part.get("const", choices[0] if len(choices) == 1 else None))


def _coerce_value(value: Any, part: JsonObject) -> Any:
    """Return a scalar in the form that its schema asks for; as it is, if there is none, or more than one."""
    if "const" in part:
        return part["const"]
    if (choices := as_list(part.get("enum"))) is not None:
        same = [each for each in choices if isinstance(each, str) and _plain(each) == _plain(str(value))]
        return same[0] if len(same) == 1 and isinstance(value, str) else value
    kinds = as_list(part.get("type")) or [part.get("type")]
    if kinds == [None] or not faults(orjson.dumps({"type": kinds}).decode(), value):
        return value
    found = [new for kind in kinds if (new := _as_kind(value, kind)) is not None]
    return found[0] if len(found) == 1 else value


def _plain(word: str) -> str:
    return re.sub(r"[\s_-]+", " ", word.strip().casefold())


def _as_kind(value: Any, kind: Any) -> Any:
    text = value.strip() if isinstance(value, str) else ""
    match kind:
        case "integer":
            return int(text) if _INTEGER.fullmatch(text) else None
        case "number":
            plain = text.replace(",", "") if _NUMBER.fullmatch(text) else ""
            return (float(plain) if "." in plain else int(plain)) if plain else None
        case "boolean":
            return _BOOLEANS.get(text.casefold())
        case "string":
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            return orjson.dumps(value).decode() if is_number else None
        case "array":
            return [value] if isinstance(value, str | int | float) else None
        case _:
            return None


def _part(root: JsonObject, at: str) -> JsonObject | None:
    """Return the schema of what is at a place, as far as `properties`, `items` and local references lead there; None for a
    member that is a fault."""
    part = _dereference(root, root)
    for token in pointer.parts(at):
        inside = as_object(part.get("properties")) or {}
        listed = as_list(part.get("prefixItems")) or []
        if token in inside:
            inner = inside[token]
        elif token.isdecimal() and ("items" in part or listed):
            inner = listed[int(token)] if int(token) < len(listed) else part.get("items")
        elif _is_closed(part):
            return None
        else:
            inner = part.get("additionalProperties")
        part = _dereference(root, inner)
    return part


def _dereference(root: JsonObject, part: Any) -> JsonObject:
    for _ in range(_MOST_REFERENCES):
        found = as_object(part) or {}
        reference = found.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#"):
            return found
        part = value_at(root, reference[1:])
    return {}


_C = RootCauseClass


RULES: dict[RootCauseClass, tuple[str, ...]] = {
    _C.SCHEMA_VIOLATION: ("coerce",),
    _C.SAFETY_VIOLATION: ("redact",),
    _C.FACTUAL_ERROR: ("replace_value",),
    _C.HALLUCINATION: ("replace_value",),
    _C.INCOMPLETENESS: ("add_section", "coerce"),
}
"""Which rules are tried on which class, the one that keeps more first."""


def propose(
    output: JsonObject, defect: Defect, cause: RootCauseClass, place: Location | None, materials: Materials
) -> dict[str, tuple[Edit, ...]]:
    """Return what the rules for a class would change, by their names; those that do not apply propose nothing."""
    proposed = {name: _edits(name, output, defect, place, materials) for name in RULES.get(cause, ())}
    return {name: edits for name, edits in proposed.items() if edits}


def _edits(
    name: str, output: JsonObject, defect: Defect, place: Location | None, materials: Materials
) -> tuple[Edit, ...]:
    match name:
        case "coerce":
            return coerce(output, place, materials)
        case "redact":
            return redact(output, place)
        case "replace_value":
            return replace_value(output, defect, place, materials)
        case _:
            return add_section(output, defect, place, materials)
