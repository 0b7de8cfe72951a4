"""Declarations of relations and of fields: what cannot be meant is refused with a reason."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tercet.contracts.relations import FieldSpec, Relation, parse_path


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"evidence": "order"},
        {"evidence": "order", "field": "id"},
        {"evidence": "order", "tool": "a.b", "field": "id", "equals": "request.id"},
        {"tool": "a.b", "one_source": ("x",)},
        {"tool": "a.b", "one_source": ("x", "y"), "equals": "request.id"},
        {"evidence": "order", "field": "id", "equals": "request"},
        {"evidence": "order", "field": "id", "equals": "request."},
        {"evidence": "order", "field": "id", "equals": "#/id"},
    ],
)
def test_a_relation_has_one_of_four_forms(fields: dict[str, Any]) -> None:
    """Anything else is an error that names the forms or the path."""
    with pytest.raises(ValidationError):
        Relation.model_validate(fields)


def test_a_path_names_an_owner_and_a_place() -> None:
    """With dots, or as a JSON Pointer."""
    assert parse_path("request.order.id") == ("request", ("order", "id"))
    assert parse_path("window#/lines/0/a~1b") == ("window", ("lines", "0", "a/b"))


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "pay .*",
        "(?P<x>a{1,99999999999})",
        "[[a](?P<x>x)",
        "(?P<x>a)" + "a" * 1_000,
    ],
)
def test_a_pattern_is_a_regular_expression_with_a_named_group(pattern: str) -> None:
    """One that Python cannot compile, warns about, or that is too long is an error of the declaration."""
    with pytest.raises(ValidationError):
        FieldSpec(of="request.task", kind="sentence", patterns=(pattern,))
