"""What a text has to hold and does not: required values, rows and sections."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tercet.contracts.documents import KnownValue, MissingPart, ReadText
from tercet.contracts.shape import as_list, as_object
from tercet.quality.screen import screen
from tercet.quality.words import same_word, words_of

_HEADINGS = re.compile(
    r"^[ \t]*(?:(?P<marks>#{1,6})[ \t]+(?P<marked>.+?)[ \t#]*"
    r"|(?P<under>[^\n|#>-][^\n|]{0,79})\n[ \t]*(?P<line>={3,}|-{3,})"
    r"|<h(?P<level>[1-6])[^<>]{0,200}>(?P<tagged>[^<>]+)</h(?P=level)>"
    r"|(?P<loud>(?=[^\n]*\w{3})[^\W\d_][^\n|.:]{0,79})"
    r"|(?:\*\*|__)(?P<bold>.+?)(?:\*\*|__):?"
    r"|(?P<numbered>\d{1,2}(?:\.\d{1,2}){0,3}[.)]?[ \t]+[^\n|.:]{1,80})(?=\n\s*\n)"
    r"|(?P<named>[^\n|]{1,80}):)[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)
_NUMBER = re.compile(r"^\d+(?:\.\d+)*[.)]?\s+(?=\S)")
_LOUD, _BOLD, _NUMBERED, _NAMED = 7, 8, 9, 10
_IN_TEXT = (_LOUD, _BOLD, _NUMBERED)
"""The levels of headings that have none: a line in capitals, in bold, with a number, and one that ends in a colon. The
first three may say something themselves."""


class _Heading(NamedTuple):
    start: int
    end: int
    level: int
    title: str


def missing_parts(
    read: ReadText,
    known: Sequence[KnownValue],
    required_values: Iterable[str],
    required_sections: Iterable[str],
) -> tuple[MissingPart, ...]:
    """Return the required values that a text does not state, and the required sections that it has not or leaves empty."""
    slots = {value.name: value for value in known if value.name}
    found = {
        source for verdict in screen(read, known) if verdict.status == "found" for source in verdict.sources
    }
    bound = {piece.slot for piece in read.pieces if piece.source == "bound"}
    text = " ".join(("", *words_of(read.text), ""))
    missing: list[MissingPart] = []
    for name in required_values:
        value = slots.get(name)
        if name not in bound and (value is None or value.pointer not in found):
            missing += _missing_value(name, value, text)
    bodies = list(_sections(read.text))
    for title in required_sections:
        found_bodies = [body for name, body in bodies if name == _title(title)]
        if not found_bodies:
            missing.append(
                MissingPart(kind="section", name=title, message=f"the section {title!r} is missing")
            )
        elif not any(map(words_of, found_bodies)):
            missing.append(
                MissingPart(kind="empty_section", name=title, message=f"the section {title!r} is empty")
            )
    return tuple(missing)


def _title(text: str) -> str:
    return " ".join(words_of(_NUMBER.sub("", text)))


def _missing_value(name: str, value: KnownValue | None, text: str) -> Iterator[MissingPart]:
    """Yield what is missing of a value that no slot and no token states: a text may still be there word by word."""
    items = as_list(value.value) if value and value.type in ("list", "table") else None
    if value and items is not None:
        words = tuple(text.split())
        present = sum(_has_name(words, _name_of_row(item)) for item in items)
        if 0 < present < len(items):
            message = f"{name} has {len(items)} rows, of which the text has {present}"
            yield MissingPart(kind="rows", name=name, message=message)
            return
        if present == len(items):
            return
    if value and value.type == "text" and _has_words(text, str(value.value)):
        return
    yield MissingPart(kind="value", name=name, message=f"the value {name!r} is not stated")


def _name_of_row(item: object) -> str:
    """The text that a row or item is recognised by: its first text."""
    members = as_object(item)
    texts = [value for value in (members or {}).values() if isinstance(value, str)]
    return texts[0] if texts else "" if members is not None else str(item)


def _has_words(text: str, wanted: str) -> bool:
    words = words_of(wanted)
    return bool(words) and f" {' '.join(words)} " in text


def _has_name(text: Sequence[str], wanted: str) -> bool:
    """Return whether a text has the words of a name, with any endings: `chairs` names a chair."""
    words = words_of(wanted)
    last = len(text) - len(words)
    return bool(words) and any(
        all(same_word(word, text[at + step]) for step, word in enumerate(words)) for at in range(last + 1)
    )


def _sections(text: str) -> Iterator[tuple[str, str]]:
    """Yield the titles of a text, each with what stands below it, without titles, until the next one of its level."""
    found = list(_headings(text))
    for at, heading in enumerate(found):
        behind = found[at + 1 :]
        last = next((other.start for other in behind if _ends(heading, other)), len(text))
        inner = [each for each in behind if each.start < last and each.level not in _IN_TEXT]
        edges = [heading.end, *(edge for other in inner for edge in (other.start, other.end)), last]
        parts = zip(edges[::2], edges[1::2], strict=True)
        yield heading.title, "\n".join(text[start:end] for start, end in parts)


def _ends(heading: _Heading, other: _Heading) -> bool:
    """Return whether a section ends at another heading; a numbered line may be an item of it."""
    is_item = other.level == _NUMBERED != heading.level
    return other.level <= heading.level and not is_item


def _headings(text: str) -> Iterator[_Heading]:
    for match in _HEADINGS.finditer(text):
        title = next(filter(None, map(match.group, _TITLES)), "")
        if match["loud"] and not match["loud"].isupper():
            continue
        yield _Heading(match.start(), match.end(), _level(match), _title(title))


_TITLES = ("marked", "under", "tagged", "loud", "bold", "numbered", "named")


def _level(match: re.Match[str]) -> int:
    if match["marks"]:
        return len(match["marks"])
    if match["line"]:
        return 1 if match["line"].startswith("=") else 2
    if match["level"]:
        return int(match["level"])
    return _LOUD if match["loud"] else _BOLD if match["bold"] else _NUMBERED if match["numbered"] else _NAMED
