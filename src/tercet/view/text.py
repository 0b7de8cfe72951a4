"""Numbers, durations, moments and lists in words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from math import floor
from typing import Any

from tercet.contracts.outputs.quality import RootCauseClass

BLANK = re.compile(
    r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0e\uffa0\U000e0100-\U000e01ef]"
)
"""Printable characters that cannot be seen: fillers, and variation selectors, which can encode a hidden text."""
MOST_NAMES = 4


def count(number: int, noun: str) -> str:
    """Return a number with its noun: `1 step`, `2 steps`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


_PASSED = re.compile(r"(\d+) steps, (\d+) required outputs covered")


def reasons_text(reasons: Iterable[object]) -> str:
    """Return the reasons of a verdict in one line, with numbers that agree with their nouns.

    The reason of a plan that passes is a published text, `1 steps, 0 required outputs covered`, and is recorded as it is.
    """
    return "; ".join(_PASSED.sub(_passed, str(reason)) for reason in reasons)


def _passed(found: re.Match[str]) -> str:
    steps, outputs = map(int, found.groups())
    covered = f"{count(outputs, 'required output')} covered" if outputs else ""
    return join_parts((count(steps, "step"), covered))


_CAUSES = re.compile(rf"\(({'|'.join(RootCauseClass)}); ")


def with_plain_causes(text: str) -> str:
    """Return the reason of an escalation with the causes of defects as words: their codes are recorded as they are."""
    return _CAUSES.sub(lambda found: f"({as_words(found[1])}; ", text)


def without_step(reason: str, step: str) -> str:
    """Return a reason that is shown beside its step, with `it` in the place of the name."""
    subject = f"step {step} "
    return f"it {reason.removeprefix(subject)}" if reason.startswith(subject) else reason


def duration_text(ms: int) -> str:
    """Return a duration: `12 ms`, `3.4 s`, `2 min 5 s`, `3 h 20 min`, `2 days 4 h`."""
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{min(ms, 59_900) / 1_000:.1f} s"
    if ms < 3_600_000:
        return _two(ms // 1_000, 60, "min", "s")
    if ms < 86_400_000:
        return _two(ms // 60_000, 60, "h", "min")
    return _two(ms // 3_600_000, 24, "day" if ms < 172_800_000 else "days", "h")


def _two(amount: int, base: int, large: str, small: str) -> str:
    rest = amount % base
    return f"{amount // base:,} {large}{f' {rest} {small}' if rest else ''}"


def utc_time(ms: int) -> str:
    """Return a moment for people: `2026-05-09 14:30:00 UTC`."""
    try:
        return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):  # the clock was set wrong
        return f"{ms:,} ms"


def amount_text(dimension: str, amount: int) -> str:
    """Return an amount of a budget's dimension: `3 tool calls`, `2.50 cents`, `40.0 s`."""
    match dimension:
        case "cost_microcents":
            return cents(amount)
        case "wall_clock_ms":
            return duration_text(amount)
        case "retries":
            return f"{amount:,} {'retry' if amount == 1 else 'retries'}"
        case _:
            noun = dimension.replace("_", " ").replace("replan", "re-plan")
            return f"{amount:,} {noun.removesuffix('s') if amount == 1 else noun}"


def cents(microcents: int) -> str:
    """Return money: `2.50 cents`."""
    return f"{Decimal(microcents).scaleb(-6):,.2f} cents"


def score(value: float | None) -> str:
    """Return a score, cut off after two places, so that a score below a limit never reads as equal to it."""
    return "not measured" if value is None else f"{floor(value * 100 + 1e-9) / 100:g}"


def elapsed(ms: int) -> str:
    """Return a time since the start: `+3.4 s`."""
    return f"+{duration_text(max(0, ms))}"


def as_words(name: str) -> str:
    """Return a name of the code as words: `MINIMAL_EDIT` is a minimal edit."""
    return name.lower().replace("_", " ")


def as_sentence(text: str) -> str:
    """Return text with a capital letter and a full stop; empty text stays empty."""
    return f"{text[0].upper()}{text[1:]}." if text else ""


def join_parts(parts: Iterable[str], separator: str = ", ") -> str:
    """Return the parts that are not empty, one after the other."""
    return separator.join(filter(None, parts))


def first_names(names: Sequence[str], most: int = MOST_NAMES) -> str:
    """Return the first names of a list, and the number of the others."""
    more = len(names) - most
    return ", ".join([*names[:most], *([f"… {more} more"] if more > 0 else [])])


def join_names(names: Sequence[str]) -> str:
    """Return names as words: `ann`, `ann and bob`, `ann, bob and eve`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def changes_text(changes: Mapping[str, Any]) -> str:
    """Return the values that an approver has set, in one line."""
    return ", ".join(
        f"{place.removeprefix('/')} = {json.dumps(value, ensure_ascii=False)}"
        for place, value in changes.items()
    )
