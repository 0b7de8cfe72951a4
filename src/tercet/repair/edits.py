"""Changing an output at one place: the rest stays as it is, byte for byte, and that is looked at afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from tercet.contracts import pointer
from tercet.contracts.errors import InternalError, UsageError
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.repair.regions import WHOLE, Region, text_at


@dataclass(frozen=True, kw_only=True, slots=True)
class Edit:
    """What takes the place of a region; `is_removal` takes a member out."""

    region: Region
    replacement: Any = None
    is_removal: bool = False


def splice(output: JsonObject, edit: Edit) -> JsonObject:
    """The output with one edit; raises `UsageError` for a replacement that does not fit its region."""
    region = edit.region
    if region.is_range:
        new: Any = _spliced_text(output, region, edit.replacement)
    else:
        new = edit.replacement
    changed = _put(output, pointer.parts(region.pointer), new, is_removal=edit.is_removal)
    whole = as_object(changed)
    if whole is None:
        raise UsageError("an output is a JSON object", code="edit_misfit")
    if not is_same_outside(output, whole, edit):
        raise InternalError(f"an edit of {region} changed something outside of it")
    return whole


def splice_all(output: JsonObject, edits: Iterable[Edit]) -> JsonObject:
    """The output with several edits, one after the other: each is meant for what those before it left."""
    for edit in edits:
        output = splice(output, edit)
    return output


def from_the_end(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """Edits of texts in the order in which none moves the place of another."""
    return tuple(sorted(edits, key=lambda each: (each.region.pointer, -(each.region.start or 0))))


def _spliced_text(output: JsonObject, region: Region, replacement: Any) -> str:
    text = text_at(output, region.pointer)
    start, end = region.start or 0, region.end or 0
    if text is None or not isinstance(replacement, str) or not 0 <= start <= end <= len(text):
        raise UsageError(
            f"{region} takes a text, in the place of characters that are there", code="edit_misfit"
        )
    return text[:start] + replacement + text[end:]


def _put(value: Any, tokens: Sequence[str], new: Any, *, is_removal: bool) -> Any:
    if not tokens:
        return new
    name, rest = tokens[0], tokens[1:]
    if (members := as_object(value)) is not None:
        if is_removal and not rest:
            return {key: member for key, member in members.items() if key != name}
        inner = _put(members.get(name), rest, new, is_removal=is_removal)
        return {**members, name: inner}
    items = as_list(value)
    if items is None or not name.isdecimal() or int(name) >= len(items):
        raise UsageError(f"nothing holds the member {name[:80]!r}", code="edit_misfit")
    index = int(name)
    if is_removal and not rest:
        return [*items[:index], *items[index + 1 :]]
    return [*items[:index], _put(items[index], rest, new, is_removal=is_removal), *items[index + 1 :]]


def is_same_outside(before: JsonObject, after: JsonObject, edit: Edit) -> bool:
    """Whether two outputs are the same but for the region of an edit."""
    region = edit.region
    if region == WHOLE:
        return True
    if region.is_range and not _is_same_text_outside(before, after, edit):
        return False
    tokens = pointer.parts(region.pointer)
    return _bytes(_without(before, tokens)) == _bytes(_without(after, tokens))


def _is_same_text_outside(before: JsonObject, after: JsonObject, edit: Edit) -> bool:
    old, new = text_at(before, edit.region.pointer), text_at(after, edit.region.pointer)
    if old is None or new is None:
        return False
    start, end = edit.region.start or 0, edit.region.end or 0
    tail = len(old) - end
    return old[:start] == new[:start] and old[end:] == new[len(new) - tail :] and len(new) >= start + tail


def _without(value: Any, tokens: Sequence[str]) -> Any:
    """A value with what is at a place taken out."""
    if (members := as_object(value)) is not None:
        rest = {key: member for key, member in members.items() if key != tokens[0]}
        if len(tokens) > 1 and tokens[0] in members:
            rest[tokens[0]] = _without(members[tokens[0]], tokens[1:])
        return rest
    items = as_list(value)
    if items is None or not tokens[0].isdecimal():
        return value
    index = int(tokens[0])
    inner = [_without(items[index], tokens[1:])] if len(tokens) > 1 and index < len(items) else []
    return [*items[:index], *inner, *items[index + 1 :]]


def _bytes(value: Any) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:  # such as a whole number beyond 64 bits
        return repr(value).encode(errors="surrogatepass")


def follow_edit(region: Region | None, edit: Edit) -> tuple[Region | None, bool]:
    """Where a place is after an edit, and whether the edit touched it."""
    if region is None:
        return None, False
    changed = edit.region
    if changed == WHOLE or _is_within(region.pointer, changed.pointer, is_strict=True):
        return Region(pointer=region.pointer), True
    if changed.pointer != region.pointer:
        return region, _is_within(changed.pointer, region.pointer, is_strict=True)
    if changed.start is None or changed.end is None or region.start is None or region.end is None:
        return Region(pointer=region.pointer), True
    grown = len(edit.replacement) - (changed.end - changed.start)
    if region.end <= changed.start:
        return region, False
    if changed.end <= region.start:
        return replace(region, start=region.start + grown, end=region.end + grown), False
    start = min(region.start, changed.start)
    return replace(region, start=start, end=max(max(region.end, changed.end) + grown, start)), True


def _is_within(place: str, holder: str, *, is_strict: bool) -> bool:
    return place.startswith(f"{holder}/") or (not is_strict and place == holder)
