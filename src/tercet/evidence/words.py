"""The words of a fact: what a search compares with the words of a query. The same for every store."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from tercet.contracts.search_words import LONGEST, MOST_LETTERS, words_of
from tercet.contracts.shape import as_list, as_object

MOST_WORDS = 10_000
"""So many words of one fact are searched."""


def indexed(content: Any) -> list[str]:
    """The words of a fact's content: of its texts and numbers, and of the names of its fields."""
    found: list[str] = []
    for text in _texts(content):
        found += words_of(text[:MOST_LETTERS])
        if len(found) > MOST_WORDS:
            break
    return _bounded(found[:MOST_WORDS])


def _bounded(words: list[str]) -> list[str]:
    """The first words that have no more letters than are searched."""
    if len(words) * LONGEST <= MOST_LETTERS:
        return words
    sizes = accumulate(map(len, words))
    return [word for word, size in zip(words, sizes, strict=True) if size <= MOST_LETTERS]


def _texts(content: Any) -> Iterator[str]:
    """Texts, names of fields and numbers, in the order of the canonical form."""
    stack: list[Any] = [content]
    while stack:
        item = stack.pop()
        if (members := as_object(item)) is not None:
            for name in sorted(members, reverse=True):
                stack += (members[name], name)
        elif (items := as_list(item)) is not None:
            stack.extend(reversed(items))
        elif isinstance(item, str):
            yield item
        elif item is not None and not isinstance(item, bool):
            yield format(item, "g") if isinstance(item, float) and item.is_integer() else str(item)
