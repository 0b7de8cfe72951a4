"""Places in an output: a member by its JSON Pointer, and in a text a range of characters.

A location is written `/letter` for a member, `/letter#char=120,164` for characters of a text and `/letter#line=7` for a
line of it, counted from 1. `@120-164`, `:120-164`, `@L7` and `:7` do as well, and a text may be named by its file, as
tests do: `total.py:7`. What is there decides: a member whose name looks like a range is that member.

An edit changes an output at one place: the rest stays as it is.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tercet.contracts.errors import UsageError
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.values import pointer
from tercet.contracts.values.pointer import PointerError, value_at
from tercet.quality.verification.places import Location, leaves

_RANGE = re.compile(r"(?P<place>.*?)[@#:](?:char=)?(?P<start>[0-9]{1,9})[-,:](?P<end>[0-9]{1,9})", re.DOTALL)
_LINE = re.compile(r"(?P<place>.*?)(?:^|[@#: ])(?:L|line[ =])?(?P<line>[0-9]{1,9})", re.DOTALL)
_HEADING = re.compile(r"(?P<marks>#{1,6})[ \t]+(?P<title>.*?)[ \t#]*")
_FENCE = re.compile(r" {0,3}(?:`{3,}|~{3,})")
_BLANK = re.compile(r"\n[ \t]*\n")
SHORT = 200
"""A text of no more characters, on one line, is a precise place as a whole."""
WHOLE = Location()


@dataclass(frozen=True, kw_only=True, slots=True)
class Heading:
    """A heading of a Markdown text, and where what belongs to it begins and ends."""

    title: str
    level: int
    start: int
    end: int


def is_there(output: Any, place: str) -> bool:
    """Return whether a pointer leads somewhere."""
    try:
        pointer.follow(output, place)
    except PointerError:
        return False
    return True


def text_at(output: Any, place: str) -> str | None:
    """Return the text at a pointer; None if there is none."""
    found = value_at(output, place)
    return found if isinstance(found, str) else None


def parent_of(place: str) -> str:
    """Return the pointer to what holds a member."""
    return place.rpartition("/")[0]


def locate(output: JsonObject, location: str | None) -> Location | None:
    """Return the place that a location names in an output; None if it names none, or none that is there.

    The place of a member that is missing is one, if what would hold it is there.
    """
    if location is None:
        return None
    for name in (location, location.removesuffix("#")):
        if is_there(output, name):
            return Location(pointer=name)
    for pattern, found in ((_RANGE, _in_range), (_LINE, _on_line)):
        match = pattern.fullmatch(location)
        place = _text_place(output, match["place"]) if match else None
        if match is not None and place is not None:
            # Characters or lines that are not there: the text is meant, and no one knows where in it.
            return found(output, place, match) or Location(pointer=place)
    return _missing_member(output, location)


def _in_range(output: JsonObject, place: str, match: re.Match[str]) -> Location | None:
    start, end = int(match["start"]), int(match["end"])
    length = len(text_at(output, place) or "")
    return Location(pointer=place, start=start, end=end) if start <= end <= length else None


def _on_line(output: JsonObject, place: str, match: re.Match[str]) -> Location | None:
    lines = (text_at(output, place) or "").splitlines(keepends=True)
    number = int(match["line"])
    if not 1 <= number <= len(lines):
        return None
    start = sum(map(len, lines[: number - 1]))
    return Location(pointer=place, start=start, end=start + len(lines[number - 1].rstrip("\r\n")))


def _text_place(output: JsonObject, name: str) -> str | None:
    """The text that is meant: by its pointer, by its file's name, or the only one that there is."""
    if text_at(output, name) is not None:
        return name
    if name.startswith("/") and is_there(output, name):
        return None
    places = list(texts(output))
    named = [
        place for place in places if name and pointer.parts(place)[-1] in (name, name.rpartition("/")[2])
    ]
    if len(named) == 1:
        return named[0]
    is_only = len(places) == 1 and not name.startswith("/")
    return places[0] if is_only else None


def _missing_member(output: JsonObject, location: str) -> Location | None:
    is_pointer = location.startswith("/")
    holder = value_at(output, parent_of(location)) if is_pointer else None
    return Location(pointer=location) if as_object(holder) is not None else None


def texts(value: Any) -> list[str]:
    """Return the pointers of all texts in a value, in their order."""
    return [pointer.join(leaf.place) for leaf in leaves(value) if isinstance(leaf.value, str)]


def is_precise(output: JsonObject, region: Location | None) -> bool:
    """Return whether a place is small: a range, a scalar, a short text, or a member that is missing."""
    if region is None or region == WHOLE:
        return False
    if region.is_range or not is_there(output, region.pointer):
        return True
    found = value_at(output, region.pointer)
    if isinstance(found, str):
        return len(found) <= SHORT and "\n" not in found
    return as_object(found) is None and as_list(found) is None


def window(output: JsonObject, region: Location, radius: int) -> Location:
    """Return the lines around a place, within its section; of anything but a range, the member itself."""
    text = text_at(output, region.pointer)
    if text is None or region.start is None or region.end is None:
        return region
    around = section(output, region)
    starts = _line_starts(text)
    first = bisect_right(starts, region.start) - 1
    last = bisect_right(starts, max(region.end - 1, region.start)) - 1
    low = starts[max(first - radius, 0)]
    high = [*starts, len(text)][min(last + radius, len(starts) - 1) + 1]
    # Within the section, so that an edit never costs more than rewriting it.
    start, end = max(low, around.start or 0), min(high, len(text) if around.end is None else around.end)
    return region._replace(start=min(start, region.start), end=max(end, region.end))


def _line_starts(text: str) -> list[int]:
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts[:-1] if len(starts) > 1 else starts


def section(output: JsonObject, region: Location) -> Location:
    """The section that a place is in: of a text by its headings, else its paragraph; of JSON what holds the member."""
    text = text_at(output, region.pointer)
    if text is None or region.start is None or region.end is None:
        return _holding_member(output, region)
    bounds = [(each.start, each.end) for each in headings(text)] or _paragraphs(text)
    bounds.append((0, min((start for start, _ in bounds), default=len(text))))
    holding = [
        (low, high) for low, high in bounds if low <= region.start and region.end <= high and low < high
    ]
    if not holding:
        return Location(pointer=region.pointer, start=0, end=len(text))
    start, end = min(holding, key=lambda each: (each[1] - each[0], each[0]))
    return Location(pointer=region.pointer, start=start, end=end)


def _holding_member(output: JsonObject, region: Location) -> Location:
    holder = parent_of(region.pointer)
    is_top = holder == "" and is_there(output, region.pointer)
    return Location(pointer=region.pointer if is_top else holder)


def headings(text: str) -> list[Heading]:
    """The headings of a Markdown text, with all that belongs to each, deeper headings included."""
    found: list[tuple[str, int, int]] = []
    position, is_code = 0, False
    for line in text.splitlines(keepends=True):
        is_code ^= _FENCE.match(line) is not None
        match = None if is_code else _HEADING.fullmatch(line.rstrip("\r\n"))
        if match:
            found.append((match["title"], len(match["marks"]), position))
        position += len(line)
    return [
        Heading(title=title, level=level, start=start, end=_end_of(found[number + 1 :], level, len(text)))
        for number, (title, level, start) in enumerate(found)
    ]


def _end_of(later: list[tuple[str, int, int]], level: int, length: int) -> int:
    return next((start for _, other, start in later if other <= level), length)


def _paragraphs(text: str) -> list[tuple[int, int]]:
    edges = [0, *(match.end() for match in _BLANK.finditer(text)), len(text)]
    return list(pairwise(edges))


@dataclass(frozen=True, kw_only=True, slots=True)
class Edit:
    """What takes the place of a region; `is_removal` takes a member out."""

    region: Location
    replacement: Any = None
    is_removal: bool = False


def splice(output: JsonObject, edit: Edit) -> JsonObject:
    """Return the output with one edit; raises `UsageError` for a replacement that does not fit its region."""
    region = edit.region
    if region.is_range:
        new: Any = _spliced_text(output, region, edit.replacement)
    else:
        new = edit.replacement
    changed = _put(output, pointer.parts(region.pointer), new, is_removal=edit.is_removal)
    whole = as_object(changed)
    if whole is None:
        raise UsageError("an output is a JSON object", code="edit_misfit")
    return whole


def splice_all(output: JsonObject, edits: Iterable[Edit]) -> JsonObject:
    """Return the output with several edits, one after the other: each is meant for what those before it left."""
    for edit in edits:
        output = splice(output, edit)
    return output


def from_the_end(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """Edits of texts in the order in which none moves the place of another."""
    return tuple(sorted(edits, key=lambda each: (each.region.pointer, -(each.region.start or 0))))


def _spliced_text(output: JsonObject, region: Location, replacement: Any) -> str:
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


def follow_edit(region: Location | None, edit: Edit) -> tuple[Location | None, bool]:
    """Return where a place is after an edit, and whether the edit touched it."""
    if region is None:
        return None, False
    changed = edit.region
    if changed == WHOLE or region.pointer.startswith(f"{changed.pointer}/"):
        return Location(pointer=region.pointer), True
    if changed.pointer != region.pointer:
        return region, changed.pointer.startswith(f"{region.pointer}/")
    if changed.start is None or changed.end is None or region.start is None or region.end is None:
        return Location(pointer=region.pointer), True
    grown = len(edit.replacement) - (changed.end - changed.start)
    if region.end <= changed.start:
        return region, False
    if changed.end <= region.start:
        return region._replace(start=region.start + grown, end=region.end + grown), False
    start = min(region.start, changed.start)
    return region._replace(start=start, end=max(max(region.end, changed.end) + grown, start)), True
