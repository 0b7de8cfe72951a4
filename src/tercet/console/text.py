"""Times and amounts as the console writes them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from tercet.view.html.safe_text import Shown
from tercet.view.text import duration_text
from tercet.view.vocabulary import MARKS, Tone


def iso(ms: int) -> str:
    """Return a time for machines: the `datetime` of a `<time>`."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")


def ago(ms: int) -> str:
    """Return how long something has been, such as `3 min ago`."""
    return "just now" if ms < 2_000 else f"{_rough(ms)} ago"


def ahead(ms: int) -> str:
    """Return how long there is until something, such as `in 3 h`."""
    return "now" if ms <= 0 else f"in {_rough(ms)}"


def _rough(ms: int) -> str:
    for size, unit in ((86_400_000, "days"), (3_600_000, "h"), (60_000, "min")):
        if ms >= 2 * size:
            return f"{ms // size} {unit}"
    return f"{ms // 1_000} s"


def mark(tone: Tone) -> str:
    """Return the mark of a tone, so that it does not depend on colour alone."""
    return MARKS[tone]


_TEXT = re.compile(r'"(\d{4}-\d\d-\d\d|(?=.*[^\W\d_])[\w@/][^"\\]*(?<!\s))"')
_VALUES = frozenset(("true", "false", "null", "none", "nan", "infinity"))
_NUMBER = re.compile(r"\d[\d_.,]*[eE][+-]?\d+|0[xXoObB]\w+")


def unquoted(shown: Shown) -> Shown:
    """Return a value in JSON, a text without its quotes unless it could be taken for a number or another value."""
    found = _TEXT.fullmatch(shown)
    if found is None or found[1].lower() in _VALUES or _NUMBER.fullmatch(found[1]):
        return shown
    return Shown(found[1])


FILTERS: dict[str, Callable[..., Any]] = {
    "iso": iso,
    "ago": ago,
    "ahead": ahead,
    "mark": mark,
    "lasted": duration_text,
    "unquoted": unquoted,
}
