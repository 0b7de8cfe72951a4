"""A problem found in a document, and the wording of validation errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tercet.contracts.shape import Shape, as_object


class Problem(Shape):
    """One defect: where it is, what is wrong, and what to do about it."""

    code: str
    message: str
    place: str = ""
    """A JSON Pointer into the document (`/steps/2/params/amount`), or a name such as `tool adp_orders.lookup`."""
    remedy: str = ""
    file: str | None = None
    row: int | None = None
    """The line in `file`, counted from 1, where it is known."""
    severity: str = "error"

    def line(self) -> str:
        """This problem as one line of text."""
        where = ":".join(str(part) for part in (self.file, self.row) if part is not None)
        prefix = " ".join(part for part in (where, self.place) if part)
        text = f"{prefix}: {self.message}" if prefix else self.message
        return f"{text}; {self.remedy}" if self.remedy else text


class Words(NamedTuple):
    """The message and the remedy of a validation error."""

    fault: str
    remedy: str


def words_for(detail: Any) -> Words | None:
    """Return the wording for one of Pydantic's errors; None for rare ones, and for those that a contract words itself."""
    words = _WORDS.get(detail["type"])
    context = as_object(detail.get("ctx")) or {}
    return words(detail.get("input"), context) if callable(words) else words


def _list(given: Any, _: Mapping[str, Any]) -> Words:
    example = json.dumps([given], ensure_ascii=False) if isinstance(given, str | int | float) else '["…"]'
    return Words("it should be a list", f"write a list: {example[:80]}")


def _text(given: Any, _: Mapping[str, Any]) -> Words:
    is_plain = isinstance(given, int | float) and not isinstance(given, bool)
    remedy = f'write it in quotes: "{given}"' if is_plain else 'write text in quotes: "…"'
    return Words("it should be text", remedy)


def _bound(word: str, key: str) -> Callable[[Any, Mapping[str, Any]], Words]:
    def make(_: Any, context: Mapping[str, Any]) -> Words:
        limit = context.get(key)
        shown = f"{limit:f}".rstrip("0").rstrip(".") if isinstance(limit, float) else f"{limit}"
        return Words(f"it should be {word} {shown}", f"write a number that is {word} {shown}")

    return make


def _size(word: str, key: str, remedy: str) -> Callable[[Any, Mapping[str, Any]], Words]:
    def make(given: Any, context: Mapping[str, Any]) -> Words:
        length, unit = context.get(key), "character" if isinstance(given, str) else "item"
        return Words(f"it should have {word} {length} {unit}{'' if length == 1 else 's'}", remedy)

    return make


_TABLE = Words("it should be a table", "write a table: { name = value }")
_WHOLE = Words("it should be a whole number", "write a whole number without quotes")
_NUMBER = Words("it should be a number", "write a number without quotes")
_TRUTH = Words("it should be true or false", "write true or false without quotes")
_TIME = Words("it should be a time with its zone", "write a time such as 2026-05-09T06:00:00Z")
_WORDS: Mapping[str, Words | Callable[[Any, Mapping[str, Any]], Words]] = {
    **dict.fromkeys(("tuple_type", "list_type", "set_type", "frozen_set_type"), _list),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type", "dataclass_type"), _TABLE),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), _WHOLE),
    **dict.fromkeys(("float_type", "float_parsing"), _NUMBER),
    **dict.fromkeys(("bool_type", "bool_parsing"), _TRUTH),
    **dict.fromkeys(
        ("datetime_type", "datetime_parsing", "datetime_from_date_parsing", "timezone_aware"), _TIME
    ),
    "string_type": _text,
    "finite_number": Words("it should be a finite number", "write a finite number"),
    "greater_than": _bound("more than", "gt"),
    "greater_than_equal": _bound("at least", "ge"),
    "less_than": _bound("less than", "lt"),
    "less_than_equal": _bound("at most", "le"),
    **dict.fromkeys(
        ("string_too_short", "too_short"), _size("at least", "min_length", "add what is missing")
    ),
    **dict.fromkeys(("string_too_long", "too_long"), _size("at most", "max_length", "shorten it")),
}
