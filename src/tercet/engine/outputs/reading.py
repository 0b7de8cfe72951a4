"""Rendering outputs and reading the values in them in a locale, which needs locale libraries.

The readings are recorded, so a replay does not call this code.
"""

from __future__ import annotations

import re

from tercet.contracts.documents import ReadText, TextPiece
from tercet.contracts.shape import JsonObject
from tercet.contracts.values import pointer
from tercet.core import events as e
from tercet.core.outputs.judging import choose_sample
from tercet.core.outputs.review import OutputReview, ToRead, bound_text
from tercet.locales import decimal_mark, read_text
from tercet.quality.repair.losses import lost_value
from tercet.quality.repair.regions import Edit, splice
from tercet.quality.verification.authored import mark_authored
from tercet.quality.verification.places import Location
from tercet.quality.verification.verification import is_within

LONGEST = 400_000
"""A text with more characters is not read: it counts as free text without support."""
_DATA = re.compile(r"-?\d+\.(?:\d{1,2}|\d{4,})")
"""A number in JSON form that no locale with a decimal comma reads as another number."""


def read_outputs(review: OutputReview, now: int) -> e.OutputsRead:
    """Return the rendered outputs with the values read in them."""
    chosen = choose_sample(review)
    outputs = {**review.outputs, **chosen}
    texts: list[ReadText] = []
    for asked in review.list_texts(outputs):
        read = _read(review, asked)
        texts.append(read)
        if asked.author == "pack" or (not asked.source and read.text != _readable_text(asked, review.locale)):
            outputs = _put(outputs, asked, read)
    texts, outputs, undone = _undo_losses(review, texts, outputs)
    changed = {name: value for name, value in outputs.items() if value != review.outputs.get(name)}
    return e.OutputsRead(
        at=now,
        locale=review.locale,
        texts=tuple(each.model_dump(mode="json", exclude_defaults=True) for each in texts),
        outputs=changed,
        undone=undone,
    )


def _undo_losses(
    review: OutputReview, texts: list[ReadText], outputs: JsonObject
) -> tuple[list[ReadText], JsonObject, str]:
    """Return texts and outputs without the repairs that have lost a right value, and that value."""
    before = review.state.quality.before
    old = (
        {}
        if before is None
        else {each["pointer"]: ReadText.model_validate(each) for each in before.read or ()}
    )
    new = {each.pointer: each for each in texts if not is_within(each.pointer, review.executed)}
    lost = {
        pointer.parts(place)[0]: value
        for place in old.keys() & new.keys()
        if old[place].text != new[place].text and (value := lost_value(old[place], new[place], review.known))
    }
    if before is None or not lost:
        return texts, outputs, ""
    kept = [each for each in texts if pointer.parts(each.pointer)[0] not in lost]
    restored = [each for place, each in old.items() if pointer.parts(place)[0] in lost]
    return (
        [*kept, *restored],
        {**outputs, **{name: before.outputs[name] for name in lost}},
        min(lost.values()),
    )


def _read(review: OutputReview, asked: ToRead) -> ReadText:
    if asked.source:
        return bound_text(asked)
    written = _readable_text(asked, review.locale)
    if len(written) > LONGEST or is_within(asked.pointer, review.executed):
        return unread_text(asked.pointer, written)
    rules = review.rules
    read = read_text(asked.pointer, written, review.known, review.locale, rules.units, asked.author)
    return mark_authored(read, rules.repair.sections)


def _readable_text(asked: ToRead, locale: str) -> str:
    """Return the text to read: a single value after its name, which gives its role, and a number in the locale's format."""
    if not asked.name:
        return asked.text
    is_number = _DATA.fullmatch(asked.text) is not None
    return f"{asked.name}: {asked.text.replace('.', decimal_mark(locale)) if is_number else asked.text}"


def unread_text(place: str, text: str) -> ReadText:
    """Return the reading of a text that was not read: free text without support."""
    return ReadText(pointer=place, text=text, pieces=(TextPiece(start=0, end=len(text), source="free"),))


def _put(outputs: JsonObject, asked: ToRead, read: ReadText) -> JsonObject:
    """Return the outputs with a rendered text inserted; numbers and choices have no slots and stay unchanged."""
    is_other = not isinstance(pointer.value_at(outputs, asked.pointer), str | None)
    prefix = f"{asked.name}: " if asked.name else ""
    if is_other or not read.text.startswith(prefix):
        return outputs
    region = Location(pointer=asked.pointer)
    return splice(outputs, Edit(region=region, replacement=read.text.removeprefix(prefix)))
