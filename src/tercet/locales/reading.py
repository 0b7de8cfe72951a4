"""Rendering and reading one text of the outputs, and whether it is in the language that it is read in.

A slot is written `{{ order_total }}`, and `{{ frequency | times_per_day }}` to assert the role.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from tercet.contracts.documents import TEMPLATE_SLOT, KnownValue, ReadText, SlotFault, TextPiece, TextSource
from tercet.contracts.errors import UsageError
from tercet.contracts.mode import Trust
from tercet.locales.formats import format_value
from tercet.locales.lexicon import LEXICONS, word_set
from tercet.locales.tokens import read_tokens
from tercet.locales.vocabulary import Units, vocabulary
from tercet.quality.values import values_by_slot
from tercet.quality.words import words_of

Author = Literal["pack", "agent"]
FaultCode = Literal[
    "unknown_slot", "missing_value", "slot_role_mismatch", "untrusted_value", "malformed_slot"
]
_SLOT = re.compile(r"\{\{(?P<inside>[^{}\n]{0,200})\}\}")
_INSIDE = re.compile(r"\s*(?P<name>[A-Za-z_]\w*)\s*(?:\|\s*(?P<role>[\w-]+)\s*)?")


class Rendered(NamedTuple):
    """A text with its slots filled, who wrote which part of it, and the slots that could not be filled."""

    text: str
    pieces: tuple[TextPiece, ...]
    faults: tuple[SlotFault, ...]


class _Refusal(NamedTuple):
    code: FaultCode
    message: str


def render(
    template: str, known: Sequence[KnownValue], locale: str, units: Units, *, author: Author
) -> Rendered:
    """Fill the slots of a text once: what a value holds is text, and is not looked at for slots again."""
    slots = values_by_slot(known)
    words: TextSource = "authored" if author == "pack" else "free"
    parts: list[str] = []
    pieces: list[TextPiece] = []
    faults: list[SlotFault] = []
    length = 0
    for part, inside in _split(template, TEMPLATE_SLOT if author == "pack" else _SLOT):
        # A value that ends in a stop, such as a Russian date, ends its sentence as well.
        is_doubled = inside is None and part[:1] == "." != part[1:2] and _ends_in_stop(pieces, parts)
        text = part[1:] if is_doubled else part
        value, filled = _fill(inside, slots, locale, units) if inside is not None else (None, text)
        shown = text if isinstance(filled, _Refusal) else filled
        if isinstance(filled, _Refusal):
            fault = SlotFault(start=length, end=length + len(text), code=filled.code, message=filled.message)
            faults.append(fault)
        if shown:
            piece = TextPiece(start=length, end=length + len(shown), source=words)
            if value is not None and not isinstance(filled, _Refusal):
                binding = {"source": "bound", "slot": value.name, "pointer": value.pointer}
                piece = piece.model_copy(update={**binding, "in_template": author == "pack"})
            pieces.append(piece)
        parts.append(shown)
        length += len(shown)
    return Rendered("".join(parts), tuple(pieces), tuple(faults))


def _ends_in_stop(pieces: Sequence[TextPiece], parts: Sequence[str]) -> bool:
    return bool(pieces) and pieces[-1].source == "bound" and parts[-1].endswith(".")


def _split(template: str, slot: re.Pattern[str]) -> Iterator[tuple[str, str | None]]:
    """Yield the parts of a template: words, and slots with what is between their braces, or all of a malformed one."""
    done = 0
    for match in slot.finditer(template):
        if match.start() > done:
            yield template[done : match.start()], None
        yield match[0], match[0] if match["inside"] is None else match["inside"]
        done = match.end()
    if done < len(template):
        yield template[done:], None


def _fill(
    inside: str, slots: Mapping[str, KnownValue], locale: str, units: Units
) -> tuple[KnownValue | None, str | _Refusal]:
    if "{" in inside or "}" in inside:
        return None, _Refusal("malformed_slot", "a slot is written {{ name }} or {{ name | role }}")
    match = _INSIDE.fullmatch(inside)
    value = slots.get(match["name"]) if match else None
    if match is None or value is None:
        return None, _Refusal("unknown_slot", f"there is no value {inside.strip()[:80]!r}")
    role = match["role"]
    if role and role not in (value.type, value.unit, value.currency):
        own = ", ".join(filter(None, (value.type, value.unit, value.currency)))
        return value, _Refusal("slot_role_mismatch", f"{value.name} is not {role!r} (it is: {own})")
    if value.value is None:
        return value, _Refusal(
            "missing_value", f"{value.name} has no value that can be a {value.type} in {value.pointer}"
        )
    if value.trust is not Trust.TRUSTED:
        return value, _Refusal(
            "untrusted_value",
            f"{value.name} is a {value.type} that no source holds which is trusted in this run",
        )
    try:
        return value, format_value(value, locale, units)
    except UsageError as error:
        return value, _Refusal("missing_value", f"{error.message}: {error.remedy}")


_PARAGRAPH = re.compile(r"\n\s*\n")
_ENOUGH = 2
"""Small words that show a language; fewer could be names."""
_LONG = 12
"""Words of a paragraph that has to show its language itself."""


def read_text(
    pointer: str, text: str, known: Sequence[KnownValue], locale: str, units: Units, author: Author
) -> ReadText:
    """Fill the slots of a text, and find what in it can be looked up."""
    rendered = render(text, known, locale, units, author=author)
    currencies = {value.currency for value in known if value.currency}
    used_units = {value.unit for value in known if value.unit}
    words = vocabulary(locale, units, currencies, used_units)
    free = "".join(
        rendered.text[piece.start : piece.end] for piece in rendered.pieces if piece.source == "free"
    )
    language = words.language if author == "pack" and words.lexicon else detect_language(free, words.language)
    return ReadText(
        pointer=pointer,
        text=rendered.text,
        pieces=rendered.pieces,
        tokens=read_tokens(rendered.text, words, known),
        faults=rendered.faults,
        language=language,
    )


def detect_language(text: str, expected: str) -> str:
    """Return the expected language if the text shows it, and no long part of it shows another; else nothing."""
    if expected not in LEXICONS or not _shows(text, expected, _ENOUGH):
        return ""
    long = (part for part in _PARAGRAPH.split(text) if len(words_of(part)) >= _LONG)
    return expected if all(_shows(part, expected, 1) for part in long) else ""


def _shows(text: str, expected: str, enough: int) -> bool:
    """Return whether a text has more small words of a language than of any other."""
    words = [word for word in words_of(text) if not any(char.isdigit() for char in word)]
    counts = {
        language: sum(word in word_set(lexicon.small_words) for word in words)
        for language, lexicon in LEXICONS.items()
    }
    own = counts.pop(expected)
    return own >= enough and own * 12 >= len(words) and all(own > count for count in counts.values())
