"""How long, in the words that people type: `90d`, `12h`, `1h30m`, `45s`, `500ms`."""

from __future__ import annotations

import re

from tercet.contracts.errors import UsageError

_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_PART = re.compile(r"([0-9]{1,9})(ms|d|h|m|s)", re.ASCII)


def read_duration(text: str) -> int:
    """A duration in milliseconds; raises `UsageError` if it is none."""
    parts = _PART.findall(text.strip())
    total = sum(int(number) * _UNITS[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != text.strip() or not total:
        raise UsageError(
            f"{text!r} is no duration",
            code="duration_invalid",
            remedy="write a number with a unit: 90d, 12h, 1h30m, 45s or 500ms",
        )
    return total
