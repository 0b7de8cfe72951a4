"""The materials of a repair, and its losses: items, rows, required sections and correct values that it removed.

A repair with a loss is undone. People see the remaining changes as a unified diff.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from difflib import unified_diff
from typing import Any, NamedTuple

from tercet.contracts.documents import KnownValue, ReadText, TokenVerdict, find_slots
from tercet.contracts.evidence import Evidence
from tercet.contracts.outputs.repair import SectionTemplate
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.values.pointer import value_at
from tercet.quality.repair.regions import headings, is_there, text_at, texts
from tercet.quality.rubric.safety import CARD, Danger, find_dangers
from tercet.quality.screen import screen
from tercet.quality.values import SIZES

_COUNTED = {
    "list item": re.compile(r"^[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]+\S", re.MULTILINE),
    "table row": re.compile(r"^[ \t]*\|(?![ \t:|-]*$).*$", re.MULTILINE),
}
_KEPT_BY_RULES = {
    "heading": re.compile(r"^[ \t]*#{1,6}[ \t]+\S", re.MULTILINE),
    "sentence": re.compile(r"(?<=\S)[.!?…](?=\s|$)|[。।؟]"),
}
_CARD_FIELD = re.compile(
    r"(?<!\w)(?:card|pan)(?!\w)|karte(?!\w)|(?<!\w)(?:carte|tarjeta)(?!\w)|карт|カード|कार्ड", re.IGNORECASE
)
"""What a field with the number of a payment card is called."""
LONGEST_DIFF = 20_000
RIGHT = ("bound", "found")
"""The statuses of tokens that no repair may lose."""


class Stated(NamedTuple):
    """A value that a text states rightly: it must still state it when it was repaired."""

    pointer: str
    text: str
    slot: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Materials:
    """What a repair may be made of, and what it must leave."""

    schema: JsonObject | None = None
    evidence: tuple[Evidence, ...] = ()
    sections: tuple[SectionTemplate, ...] = ()
    slots: Mapping[str, str] = field(default_factory=dict[str, str])
    """The slot that may take the place of a wrong value, by the value's location."""
    guide: str = ""
    """Which slots there are, for a model."""
    required_sections: tuple[str, ...] = ()
    stated: tuple[Stated, ...] = ()
    """The values that the outputs state rightly."""


def find_loss(
    before: JsonObject,
    after: JsonObject,
    *,
    sections: Sequence[str] = (),
    stated: Sequence[Stated] = (),
    may_drop: bool = False,
    by_rule: bool = False,
) -> str:
    """Return what a repair took away, in words; empty if it took nothing.

    `may_drop` lets whole members go, which the schema does not know. A repair `by_rule` leaves every heading and sentence.
    """
    patterns = _COUNTED | _KEPT_BY_RULES if by_rule else _COUNTED
    return next(_losses(before, after, sections, stated, patterns, may_drop=may_drop), "")


def _losses(
    before: JsonObject,
    after: JsonObject,
    sections: Sequence[str],
    stated: Sequence[Stated],
    patterns: Mapping[str, re.Pattern[str]],
    *,
    may_drop: bool,
) -> Iterator[str]:
    def is_judged(where: str) -> bool:
        return is_there(after, where) or not may_drop

    for where, count in _list_lengths(before):
        if is_judged(where) and len(as_list(value_at(after, where)) or ()) < count:
            yield f"items of {where}"
    required = {name.casefold() for name in sections}
    for where in filter(is_judged, texts(before)):
        old, new = text_at(before, where) or "", text_at(after, where) or ""
        for name, pattern in patterns.items():
            if len(pattern.findall(new)) < len(pattern.findall(old)):
                yield f"a {name} of {where}"
        kept = {each.title.casefold() for each in headings(new)}
        for each in headings(old):
            if each.title.casefold() in required - kept:
                yield f"the section {each.title!r} of {where}"
    for each in dict.fromkeys(stated):
        old, new = (str(value_at(outputs, each.pointer) or "") for outputs in (before, after))
        if is_judged(each.pointer) and _count_mentions(each, new) < _count_mentions(each, old):
            yield f"{each.text[:80]!r} of {each.pointer}"


_NOT_WITHIN_BEFORE = r"(?<!\w)(?<!\d[.,'’\xa0\u202f])"
_NOT_WITHIN_AFTER = r"(?!\w|[.,'’\xa0\u202f]\d)"
"""Around a value: it is not part of a longer word or number."""


def _count_mentions(value: Stated, text: str) -> int:
    """Return how often a text states a value: `1` in `10` or `1,074.00` does not count, and a slot of it does."""
    alone = re.findall(rf"{_NOT_WITHIN_BEFORE}{re.escape(value.text)}{_NOT_WITHIN_AFTER}", text)
    return len(alone) + sum(slot.name == value.slot for slot in find_slots(text))


def _list_lengths(value: Any, place: str = "") -> Iterator[tuple[str, int]]:
    if (items := as_list(value)) is not None:
        yield place, len(items)
    members = as_object(value) or dict(enumerate(items or ()))
    for key, member in members.items():
        yield from _list_lengths(member, f"{place}/{str(key).replace('~', '~0').replace('/', '~1')}")


def lost_value(before: ReadText, after: ReadText, known: Sequence[KnownValue]) -> str:
    """Return a token of a text that was right, and is not any more in the text as it was repaired; empty if there is none.

    Whether the repaired text still states it in its role only reading it again can tell. A secret may be gone.
    """
    dangers = find_dangers(before.text)
    card_fields = {value.pointer for value in known if any(map(_CARD_FIELD.search, value.labels))}
    left = Counter(_size(each) for each in screen(after, known) if each.status in RIGHT)
    right = [
        each
        for each in screen(before, known)
        if each.status in RIGHT and not any(_may_go(danger, each, card_fields) for danger in dangers)
    ]
    for each in right:
        left[_size(each)] -= 1
    return next((each.token.text for each in right if left[_size(each)] < 0), "")


def _may_go(danger: Danger, right: TokenVerdict, card_fields: Container[str]) -> bool:
    """Return whether a value is a secret. One reference in ten has the check digit of a card: the name of its field tells."""
    is_same = danger.start < right.token.end and right.token.start < danger.end
    is_reference = (
        danger.kind == CARD and right.sources and not any(each in card_fields for each in right.sources)
    )
    return is_same and not is_reference


def _size(verdict: TokenVerdict) -> str:
    """Return the value of a token: the same for two weeks and for 14 days."""
    token = verdict.token
    if token.kind != "amount" or token.unit not in SIZES:
        return token.value
    measure, size = SIZES[token.unit]
    return f"{(Decimal(token.value) * size).normalize():f} {measure}"


def show_difference(before: JsonObject, after: JsonObject) -> str:
    """Return the texts of two outputs as a unified diff; empty if they are the same."""
    lines: list[str] = []
    for where in dict.fromkeys((*texts(before), *texts(after))):
        old, new = (str(value_at(each, where) or "").splitlines() for each in (before, after))
        lines += unified_diff(old, new, f"{where} as produced", f"{where} as repaired", lineterm="", n=1)
    shown = "\n".join(lines)
    return shown if len(shown) <= LONGEST_DIFF else f"{shown[:LONGEST_DIFF]}\n…"
