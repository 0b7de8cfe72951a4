"""Amounts and durations as users type them: `tokens=100`, `90d`, `12h`, `1h30m`, `45s`, `500ms`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tercet.contracts.errors import UsageError
from tercet.core.budget import EXTENSIBLE
from tercet.core.messages import demand_extension


def read_amounts(words: Sequence[str]) -> dict[str, int]:
    """Return amounts by name; raise `UsageError` for text that is not an amount, or an amount below one."""
    amounts: dict[str, int] = {}
    for word in words:
        name, equals, number = word.partition("=")
        name = name.replace("-", "_")
        if not equals or not number.isascii() or not number.removeprefix("-").isdecimal() or len(number) > 18:
            raise UsageError(
                f"'{word}' is not an extension of a budget",
                code="wrong_extension",
                remedy=f"write NAME=N, where NAME is one of {', '.join(EXTENSIBLE)}",
            )
        amounts[name] = amounts.get(name, 0) + int(number)
    return demand_extension(amounts)


_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_PART = re.compile(r"([0-9]{1,9})(ms|d|h|m|s)", re.ASCII)


def read_duration(text: str) -> int:
    """Return a duration in milliseconds; raise `UsageError` if the text is not a duration."""
    parts = _PART.findall(text.strip())
    total = sum(int(number) * _UNITS[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != text.strip() or not total:
        raise UsageError(
            f"'{text}' is not a duration",
            code="duration_invalid",
            remedy="write a number with a unit: 90d, 12h, 1h30m, 45s or 500ms",
        )
    return total
