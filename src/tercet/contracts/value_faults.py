"""What is wrong with a value that does not fit its field, in words for whoever wrote it instead of the validator's."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tercet.contracts.shape import as_object


class Words(NamedTuple):
    """What was expected, and what to write."""

    fault: str
    remedy: str


def words_for(detail: Any) -> Words | None:
    """The words for one of Pydantic's errors; None for those that come up seldom, or that a contract words itself."""
    make = _WORDS.get(detail["type"])
    return None if make is None else make(detail.get("input"), as_object(detail.get("ctx")) or {})


def _list(given: Any, _: Mapping[str, Any]) -> Words:
    example = json.dumps([given], ensure_ascii=False) if isinstance(given, str | int | float) else '["…"]'
    return Words("it should be a list", f"write a list: {example[:80]}")


def _table(_: Any, __: Mapping[str, Any]) -> Words:
    return Words("it should be a table", "write a table: { name = value }")


def _text(given: Any, _: Mapping[str, Any]) -> Words:
    is_plain = isinstance(given, int | float) and not isinstance(given, bool)
    return Words(
        "it should be text", f'write it in quotes: "{given}"' if is_plain else 'write text in quotes: "…"'
    )


def _whole(_: Any, __: Mapping[str, Any]) -> Words:
    return Words("it should be a whole number", "write a whole number without quotes")


def _number(_: Any, __: Mapping[str, Any]) -> Words:
    return Words("it should be a number", "write a number without quotes")


def _truth(_: Any, __: Mapping[str, Any]) -> Words:
    return Words("it should be true or false", "write true or false without quotes")


def _time(_: Any, __: Mapping[str, Any]) -> Words:
    return Words("it should be a time with its zone", "write a time such as 2026-05-09T06:00:00Z")


def _finite(_: Any, __: Mapping[str, Any]) -> Words:
    return Words("it should be a finite number", "write a finite number")


def _bound(word: str, key: str) -> Callable[[Any, Mapping[str, Any]], Words]:
    def make(_: Any, context: Mapping[str, Any]) -> Words:
        limit = context.get(key)
        shown = f"{limit:f}".rstrip("0").rstrip(".") if isinstance(limit, float) else f"{limit}"
        return Words(f"it should be {word} {shown}", f"write a number that is {word} {shown}")

    return make


def _short(given: Any, context: Mapping[str, Any]) -> Words:
    return Words(f"it should have at least {_size(given, context.get('min_length'))}", "add what is missing")


def _long(given: Any, context: Mapping[str, Any]) -> Words:
    return Words(f"it should have at most {_size(given, context.get('max_length'))}", "shorten it")


def _size(given: Any, length: Any) -> str:
    unit = "character" if isinstance(given, str) else "item"
    return f"{length} {unit}{'' if length == 1 else 's'}"


_WORDS: Mapping[str, Callable[[Any, Mapping[str, Any]], Words]] = {
    **dict.fromkeys(("tuple_type", "list_type", "set_type", "frozen_set_type"), _list),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type", "dataclass_type"), _table),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), _whole),
    **dict.fromkeys(("float_type", "float_parsing"), _number),
    **dict.fromkeys(("bool_type", "bool_parsing"), _truth),
    **dict.fromkeys(
        ("datetime_type", "datetime_parsing", "datetime_from_date_parsing", "timezone_aware"), _time
    ),
    "string_type": _text,
    "finite_number": _finite,
    "greater_than": _bound("more than", "gt"),
    "greater_than_equal": _bound("at least", "ge"),
    "less_than": _bound("less than", "lt"),
    "less_than_equal": _bound("at most", "le"),
    **dict.fromkeys(("string_too_short", "too_short"), _short),
    **dict.fromkeys(("string_too_long", "too_long"), _long),
}
