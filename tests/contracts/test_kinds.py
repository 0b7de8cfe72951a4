"""Kinds of values: declared, given by a schema's format, or suggested by a name."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.mode import ApprovalMode
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values.kinds import Kind, fits, parameter_kind, result_kind, suggested_kind

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "site": {"type": "string", "format": "uri"},
        "maybe": {"anyOf": [{"type": "string", "format": "email"}, {"type": "null"}]},
        "both": {"anyOf": [{"format": "email"}, {"format": "date"}]},
        "rows": {"type": "array", "items": {"$ref": "#/$defs/row"}},
        "amount": {"type": "number"},
        "title": {"type": "string"},
    },
    "$defs": {"row": {"type": "object", "properties": {"when": {"type": "string", "format": "date-time"}}}},
}
TOOL = ToolSpec(
    name="a.b",
    mode=ApprovalMode.READ_ONLY,
    parameters=SCHEMA,
    result=SCHEMA,
    kinds={"title": "channel"},
    result_kinds={"/rows/*/name": "user", "title": "channel"},
)


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        (("site",), Kind("uri", is_declared=True)),
        (("maybe",), Kind("email", is_declared=True)),
        (("both",), Kind()),
        (("rows", 0, "when"), Kind("date", is_declared=True)),
        (("amount",), Kind("amount")),
        (("title",), Kind("channel", is_declared=True)),
        (("title", 3), Kind("channel", is_declared=True)),
        (("other",), Kind()),
    ],
)
def test_a_parameter_has_its_declared_kind_else_its_format_else_what_its_name_suggests(
    place: tuple[str | int, ...], kind: Kind
) -> None:
    """In this order."""
    assert parameter_kind(TOOL, place) == kind


@pytest.mark.parametrize("item", [0, "0", "*"])
def test_a_declared_kind_of_a_result_reaches_every_item(item: str | int) -> None:
    """An item is named by its index, or by the `*` of a selection."""
    assert result_kind(TOOL, ("rows", item, "name")) == Kind("user", is_declared=True)
    assert result_kind(TOOL, ("rows", item, "when")) == Kind("date", is_declared=True)
    assert result_kind(TOOL, ("title", item)) == Kind("channel", is_declared=True)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("amount_inr", "amount"),
        ("refundableInr", "amount"),
        ("customerEmail", "email"),
        ("order_id", "id"),
        ("rowNo", "count"),
        ("IBAN", "id"),
        ("days", ""),
        ("identity", ""),
        ("total_count", "amount"),
    ],
)
def test_the_words_of_a_name_suggest_a_kind(name: str, kind: str) -> None:
    """Whole words count, and the first row of the table decides."""
    assert suggested_kind(name).name == kind


def test_a_suggestion_refuses_and_never_vouches() -> None:
    """A parameter with a declared kind takes no source of unknown kind."""
    declared, suggested, unknown = Kind("amount", is_declared=True), Kind("amount"), Kind()
    assert fits(declared, declared)
    assert fits(suggested, declared)
    assert fits(unknown, suggested)
    assert fits(Kind("id"), unknown)
    assert not fits(unknown, declared)
    assert not fits(Kind("id"), suggested)
    assert not fits(Kind("id", is_declared=True), suggested)
