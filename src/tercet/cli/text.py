"""Other people's words on a terminal.

Plans, packs and file names may hold anything, also codes that move the cursor, colour the screen or turn text around.
Whatever reaches the screen goes through `printable` first, and is then shown as `rich.text.Text`, which reads no markup.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

# C0 and C1 controls, surrogates, and the marks that reorder or hide text. JSON escapes only the first 32 by itself.
_UNSAFE = re.compile(
    r"[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)

# What prints, and cannot be seen: fillers, and selectors of variants, of which a row can spell a hidden text.
_BLANK = re.compile(
    r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0e\uffa0\U000e0100-\U000e01ef]"
)


def printable(text: str, limit: int = 600) -> str:
    """The text on one line, with everything that does not print made visible, and its middle left out if it is long."""
    if len(text) > limit:
        keep = limit // 2
        text = f"{text[:keep]} … {text[-keep // 4 :]}"
    if not text.isprintable():
        text = "".join(letter if letter.isprintable() else _visible(letter) for letter in text)
    return text if text.isascii() else _BLANK.sub(_escape, text)


def _visible(letter: str) -> str:
    return " " if letter == "\xa0" else repr(letter)[1:-1]


def listed(names: Sequence[str], most: int = 4) -> str:
    """The first names of a list, and how many more there are."""
    shown = [printable(name, 120) for name in names[:most]]
    return ", ".join(shown if len(names) <= most else [*shown, f"… {len(names) - most} more"])


def json_text(value: Any, *, indent: int | None = 2) -> str:
    """A value as JSON that is safe on a terminal too, indented or on one line; nothing in it is lost."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    return _BLANK.sub(_escape, _UNSAFE.sub(_escape, text))


def _escape(match: re.Match[str]) -> str:
    return json.dumps(match.group())[1:-1]


def count(number: int, noun: str) -> str:
    """A number with its noun: `1 step`, `2 steps`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def took(ms: int) -> str:
    """A duration: `12 ms`, `3.4 s`, `2 min 5 s`."""
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1_000:.1f} s"
    seconds = ms // 1_000 % 60
    return f"{ms // 60_000:,} min{f' {seconds} s' if seconds else ''}"


def ago(ms: int) -> str:
    """How long ago something was: `just now`, `40 s ago`, `3 min ago`, `5 h ago`, `2 days ago`."""
    if ms < 2_000:
        return "just now"
    if ms < 120_000:
        return f"{ms // 1_000} s ago"
    if ms < 7_200_000:
        return f"{ms // 60_000} min ago"
    return f"{ms // 3_600_000} h ago" if ms < 172_800_000 else f"{ms // 86_400_000} days ago"


def ahead(ms: int) -> str:
    """How long until something is: `in 40 s`, `in 3 min`, `in 5 h`, `in 2 days`."""
    if ms < 120_000:
        return f"in {ms // 1_000} s"
    if ms < 7_200_000:
        return f"in {round(ms / 60_000)} min"
    return f"in {round(ms / 3_600_000)} h" if ms < 172_800_000 else f"in {round(ms / 86_400_000)} days"


def clock_time(ms: int) -> str:
    """A moment for people: `2026-05-09 14:30:00 UTC`."""
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
