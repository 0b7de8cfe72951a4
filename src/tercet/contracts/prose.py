"""Lines of a text: where one goes on in the next, where the next begins something new, and whether they say anything."""

from __future__ import annotations

import re
import unicodedata

_ENDED = re.compile(r"[.!?:;][\"'”’)\]*_]*\Z")
_MARKED = re.compile(r"[ \t]*(?:[-*+•|>]|#{1,6}[ \t]|\d+[.)][ \t])")
_HEADINGS = re.compile(r"^[ \t]*#{1,6}[ \t].*$", re.MULTILINE)
_SILENT = ("P", "Z", "C")
LONG = 50
"""A line of so many characters that no stop ends was broken for its length."""


def goes_on(text: str, at: int) -> bool:
    """Whether the line before a line break goes on in the line behind it."""
    before = text[text.rfind("\n", 0, at) + 1 : at].rstrip()
    end = text.find("\n", at + 1)
    after = text[at + 1 : len(text) if end < 0 else end]
    if not before or not after.strip() or _ENDED.search(before) or _MARKED.match(after):
        return False
    if before.lstrip().startswith(("#", "|")):
        return False
    return after.lstrip()[0].islower() or len(before) >= LONG


def is_blank(text: str) -> bool:
    """Whether a text says nothing: it is empty, or has only white space and marks such as `-` and `...`."""
    return all(unicodedata.category(char)[0] in _SILENT for char in text)


def is_only_headings(text: str) -> bool:
    """Whether a text says nothing but for its headings."""
    return is_blank(_HEADINGS.sub("", text))
