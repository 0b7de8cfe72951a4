"""Other people's words in a question: shown between two marks that they cannot contain.

The mark is made out of all that stands between the marks of one question. So the same question has the same mark, and
nobody who writes such words can know it beforehand.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from itertools import count
from typing import Any

_LENGTH = 8
LONGEST = 12_000
"""Longer data is cut, and says so."""


def fence(parts: Sequence[tuple[str, Any]]) -> str:
    """Named data as the text of a question, each part on its own lines."""
    shown = [(name, _show(value)) for name, value in parts]
    mark = _find_mark([text for _, text in shown])
    return "\n".join(f"{name}:\n<data-{mark}>\n{text}\n</data-{mark}>" for name, text in shown)


def _show(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    text = "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} … ({len(text) - LONGEST} more characters)"


def _find_mark(texts: list[str]) -> str:
    seed = "\0".join(texts).encode(errors="surrogatepass")
    for number in count():
        mark = sha256(b"%d:%b" % (number, seed)).hexdigest()[:_LENGTH]
        if not any(mark in text.casefold() for text in texts):
            return mark
    raise AssertionError  # count does not end
