"""Values as approvers see them: in full, text in quotes, with readable amounts and the names of unusual letters.

Also samples of values that fit a schema.
"""

from __future__ import annotations

import json
import re
import unicodedata
from decimal import Decimal
from typing import Any

from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.values.canonical import canonical
from tercet.policy import schemas
from tercet.view.terminal.text import printable

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
        return _made(_pointed_at(root, reference), root, depth + 1)
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


def _pointed_at(root: JsonObject, reference: str) -> JsonObject:
    found: Any = root
    for part in reference.removeprefix("#/").split("/"):
        found = (as_object(found) or {}).get(part)
    return as_object(found) or {}
