"""Rendering outputs and reading their values in a locale: the one part of judging them that needs libraries for that.

Everything that comes of it is recorded, so nothing here is called again to judge a run.
"""

from __future__ import annotations

from typing import Any

from tercet.contracts.documents import ReadText
from tercet.contracts.shape import JsonObject
from tercet.contracts.values import pointer
from tercet.core import events as e
from tercet.core.outputs.judging import choose_sample
from tercet.core.outputs.review import OutputReview, ToRead, bound_text
from tercet.locales import read_text
from tercet.quality.repair.regions import Edit, Region, splice
from tercet.quality.verification.authored import mark_authored
from tercet.quality.verification.verification import is_within

LONGEST = 400_000
"""A text of more characters is not read: it counts as words that nobody vouches for."""


def read_outputs(review: OutputReview, now: int) -> e.OutputsRead:
    """Return the outputs as they are rendered, with what was read in them."""
    chosen = choose_sample(review)
    outputs = {**review.outputs, **chosen}
    texts: list[ReadText] = []
    for asked in review.list_texts(outputs):
        read = _read(review, asked)
        texts.append(read)
        if asked.author == "pack" or (not asked.source and read.text != _written(asked)):
            outputs = _put(outputs, asked, read)
    changed = {name: value for name, value in outputs.items() if value != review.outputs.get(name)}
    return e.OutputsRead(
        at=now,
        locale=review.locale,
        texts=tuple(each.model_dump(mode="json", exclude_defaults=True) for each in texts),
        outputs=changed,
    )


def _read(review: OutputReview, asked: ToRead) -> ReadText:
    if asked.source:
        return bound_text(asked)
    written = _written(asked)
    if len(written) > LONGEST or is_within(asked.pointer, review.executed):
        return unread_text(asked.pointer, written)
    rules = review.rules
    read = read_text(asked.pointer, written, review.known, review.locale, rules.units, asked.author)
    return mark_authored(read, rules.repair.sections)


def _written(asked: ToRead) -> str:
    """A text as it is read: a value that is no text behind its name, so that its role is known."""
    return f"{asked.name}: {asked.text}" if asked.name else asked.text


def unread_text(place: str, text: str) -> ReadText:
    """Return the reading of a text that is not read: words that nobody vouches for."""
    free: list[dict[str, Any]] = [{"start": 0, "end": len(text), "source": "free"}]
    return ReadText.model_validate({"pointer": place, "text": text, "pieces": free})


def _put(outputs: JsonObject, asked: ToRead, read: ReadText) -> JsonObject:
    """Outputs with a rendered text in its place; a number or a choice has no slots, and stays what it is."""
    is_other = not isinstance(pointer.value_at(outputs, asked.pointer), str | None)
    prefix = f"{asked.name}: " if asked.name else ""
    if is_other or not read.text.startswith(prefix):
        return outputs
    region = Region(pointer=asked.pointer)
    return splice(outputs, Edit(region=region, replacement=read.text.removeprefix(prefix)))
