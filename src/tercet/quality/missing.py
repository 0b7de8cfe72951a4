"""What a text has to hold and does not: required values, rows and sections."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from tercet.contracts.documents import KnownValue, MissingPart, ReadText
from tercet.contracts.shape import as_list, as_object
from tercet.quality.screen import screen
from tercet.quality.words import words_of

_SECTION = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]+(.+?)[ \t#]*|(?:\*\*|__)(.+?)(?:\*\*|__):?|([^\n|]{1,80}):)[ \t]*$", re.MULTILINE
)


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
    bodies = dict(_sections(read.text))
    for title in required_sections:
        body = bodies.get(_title(title))
        if body is None:
            missing.append(
                MissingPart(kind="section", name=title, message=f"the section {title!r} is missing")
            )
        elif not words_of(body):
            missing.append(
                MissingPart(kind="empty_section", name=title, message=f"the section {title!r} is empty")
            )
    return tuple(missing)


def _title(text: str) -> str:
    return " ".join(words_of(text))


def _missing_value(name: str, value: KnownValue | None, text: str) -> Iterator[MissingPart]:
    """Yield what is missing of a value that no slot and no token states: a text may still be there word by word."""
    items = as_list(value.value) if value and value.type in ("list", "table") else None
    if value and items is not None:
        present = sum(_has_words(text, _name_of_row(item)) for item in items)
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


def _sections(text: str) -> Iterator[tuple[str, str]]:
    """Yield the titles of a text, each with what stands between it and the next one."""
    titles = list(_SECTION.finditer(text))
    for at, match in enumerate(titles):
        end = titles[at + 1].start() if at + 1 < len(titles) else len(text)
        yield _title(next(filter(None, match.groups()), "")), text[match.end() : end]
