"""Making recorded text safe for a terminal.

Plans, packs and file names may hold anything, also codes that move the cursor, colour the screen or reorder text.
All of it passes `printable` before it is shown as `rich.text.Text`, which reads no markup.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.values import pointer
from tercet.contracts.values.canonical import canonical
from tercet.policy import schemas
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


# --- values ---
# Also samples of values that fit a schema.


WHOLE = 1_000_000
"""Values that are approved are not shortened."""
_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,80}")
_CURRENCIES = frozenset(
    {"aed", "aud", "brl", "cad", "chf", "cny", "czk", "dkk", "eur", "gbp", "hkd", "huf", "idr", "ils", "inr", "jpy",
     "krw", "mxn", "myr", "nok", "nzd", "php", "pln", "ron", "sar", "sek", "sgd", "thb", "try", "twd", "uah", "usd",
     "vnd", "zar"}
)  # fmt: skip
_MINOR = {"cents": 2, "pence": 2, "paise": 2, "microcents": 8}
"""The number of decimal places by the last word of a parameter's name."""
_LARGE = 10_000


def value_text(value: Any) -> str:
    """Return a value as JSON on one line, whole, with everything spelt out that does not print."""
    return printable(json.dumps(value, ensure_ascii=False), WHOLE)


def name_text(name: str) -> str:
    """Return a name; in quotes if it could be mistaken for something else."""
    return name if _NAME.fullmatch(name) else value_text(name)


def readable(name: str, value: Any) -> str:
    """Return a readable amount for a number that is money by its name, or long; empty for any other value."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return ""
    words = name.lower().split("_")
    currency = next((f"{word.upper()} " for word in words if word in _CURRENCIES), "")
    places = _MINOR.get(words[-1])
    if places is not None:
        return f"{currency}{Decimal(str(value)).scaleb(-places):,.2f}"
    if words[-1] in _CURRENCIES:
        return f"{currency}{value:,}"
    return f"{value:,}" if abs(value) >= _LARGE else ""


def with_reading(name: str, value: Any) -> str:
    """Return a value in full, and its readable amount."""
    amount = readable(name, value)
    return f"{value_text(value)}{f'  ({amount})' if amount else ''}"


def strange_letters(value: Any) -> str:
    """Return the names of the letters of a value that are not ASCII: some look like others."""
    found = dict.fromkeys(letter for letter in json.dumps(value, ensure_ascii=False) if not letter.isascii())
    named = [unicodedata.name(letter, f"U+{ord(letter):04X}") for letter in list(found)[:4]]
    return ", ".join(named)


# --- sample values ---


_DEEPEST = 6
_SIMPLE: dict[str, Any] = {
    "boolean": False,
    "array": [],
    "null": None,
}


def sample(schema: Any) -> Any:
    """Return a value that fits a schema; None if none was found."""
    root = as_object(schema) or {}
    made = _made(root, root, 0)
    fits = not schemas.faults(canonical(root).decode(), made)
    return made if fits else None


def _made(schema: JsonObject, root: JsonObject, depth: int) -> Any:
    if depth > _DEEPEST:
        return None
    for given in ("const", "default"):
        if given in schema:
            return schema[given]
    for listed in ("enum", "examples"):
        if values := as_list(schema.get(listed)):
            return values[0]
    if isinstance(reference := schema.get("$ref"), str):
        target = as_object(pointer.value_at(root, reference.removeprefix("#")))
        return _made(target or {}, root, depth + 1)
    for choice in ("anyOf", "oneOf", "allOf"):
        if options := as_list(schema.get(choice)):
            return _made(as_object(options[0]) or {}, root, depth + 1)
    return _by_type(schema, root, depth)


def _by_type(schema: JsonObject, root: JsonObject, depth: int) -> Any:
    given: Any = schema.get("type", "object" if "properties" in schema else "string")
    kind = str((as_list(given) or [given])[0])
    if kind == "object":
        members = as_object(schema.get("properties")) or {}
        wanted = as_list(schema.get("required")) or list(members)
        return {str(name): _made(as_object(members.get(str(name))) or {}, root, depth + 1) for name in wanted}
    if kind in ("integer", "number"):
        return schema.get("minimum", 0)
    if kind == "string":
        return "…".ljust(int(schema.get("minLength", 0)), "…")
    return _SIMPLE.get(kind)
