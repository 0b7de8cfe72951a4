"""Numbers and moments in words."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal


def count(number: int, noun: str) -> str:
    """A number with its noun: `1 step`, `2 steps`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def took(ms: int) -> str:
    """A duration: `12 ms`, `3.4 s`, `2 min 5 s`, `3 h 20 min`, `2 days 4 h`."""
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1_000:.1f} s"
    if ms < 3_600_000:
        return _two(ms // 1_000, 60, "min", "s")
    if ms < 86_400_000:
        return _two(ms // 60_000, 60, "h", "min")
    days = ms // 86_400_000
    return _two(ms // 3_600_000, 24, "day" if days == 1 else "days", "h")


def _two(amount: int, base: int, large: str, small: str) -> str:
    rest = amount % base
    return f"{amount // base:,} {large}{f' {rest} {small}' if rest else ''}"


def moment(ms: int) -> str:
    """A moment for people: `2026-05-09 14:30:00 UTC`."""
    try:
        return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):  # a clock that was wrong is told as it was
        return f"{ms:,} ms"


def elapsed(ms: int) -> str:
    """How long after the start something was: `+3.4 s`."""
    return f"+{took(max(0, ms))}"


def cents(microcents: int) -> str:
    """Money: `2.50 cents`."""
    return f"{Decimal(microcents).scaleb(-6):,.2f} cents"


def joined(parts: Iterable[str], separator: str = ", ") -> str:
    """The parts that say something, one after the other."""
    return separator.join(part for part in parts if part)
