"""Making recorded text safe for a terminal.

Plans, packs and file names may hold anything, also codes that move the cursor, colour the screen or reorder text.
All of it passes `printable` before it is shown as `rich.text.Text`, which reads no markup.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from tercet.view.text import BLANK, count, duration_text, first_names, utc_time

__all__ = ("ago", "ahead", "count", "duration_text", "json_text", "listed", "printable", "utc_time")

# C0 and C1 controls, surrogates, and characters that reorder or hide text. JSON itself escapes only the first 32.
_UNSAFE = re.compile(
    r"[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def printable(text: str, limit: int = 600) -> str:
    """Return the text on one line, with everything spelt out that does not print, and its middle left out if it is long."""
    if len(text) > limit:
        keep = limit // 2
        text = f"{text[:keep]} … {text[-keep // 4 :]}"
    if not text.isprintable():
        text = "".join(letter if letter.isprintable() else _visible(letter) for letter in text)
    return text if text.isascii() else BLANK.sub(_escape, text)


def _visible(letter: str) -> str:
    return " " if letter == "\xa0" else repr(letter)[1:-1]


def listed(names: Sequence[str], most: int = 4) -> str:
    """Return the first names of a list, printable, and the number of the others."""
    return first_names([printable(name, 120) for name in names], most)


def json_text(value: Any, *, indent: int | None = 2) -> str:
    """Return a value as JSON that is safe on a terminal, indented or on one line; nothing in it is lost."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    return BLANK.sub(_escape, _UNSAFE.sub(_escape, text))


def _escape(match: re.Match[str]) -> str:
    return json.dumps(match.group())[1:-1]


def ago(ms: int) -> str:
    """Return a past time relative to now: `just now`, `40 s ago`, `3 min ago`, `5 h ago`, `2 days ago`."""
    if ms < 2_000:
        return "just now"
    if ms < 120_000:
        return f"{ms // 1_000} s ago"
    if ms < 7_200_000:
        return f"{ms // 60_000} min ago"
    return f"{ms // 3_600_000} h ago" if ms < 172_800_000 else f"{ms // 86_400_000} days ago"


def ahead(ms: int) -> str:
    """Return a future time relative to now: `in 40 s`, `in 3 min`, `in 5 h`, `in 2 days`."""
    if ms < 120_000:
        return f"in {ms // 1_000} s"
    if ms < 7_200_000:
        return f"in {round(ms / 60_000)} min"
    return f"in {round(ms / 3_600_000)} h" if ms < 172_800_000 else f"in {round(ms / 86_400_000)} days"
