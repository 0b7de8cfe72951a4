"""Arguments and names of subtasks inside `$select`."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.planner.sources import PlanningError
from tercet.planner.template import bind, express


def test_a_selection_gets_its_arguments_and_the_ids_of_subtasks() -> None:
    """The list is renamed with or without `$from`; arguments are filled in."""
    body: dict[str, Any] = {"from": "look#/rows", "where": {"a": {"$arg": "who"}, "b": {"$from": "look#/b"}}}
    expected = {"from": "n7#/rows", "where": {"a": {"$from": "request#/who"}, "b": {"$from": "n7#/b"}}}
    args = {"who": {"$from": "request#/who"}}
    assert bind({"$select": body}, args, {"look": "n7"}) == {"$select": expected}
    assert bind({"$select": {"from": {"$arg": "list"}}}, {"list": {"$from": "n1#/rows"}}, {}) == {
        "$select": {"from": {"$from": "n1#/rows"}}
    }


def test_an_expression_cannot_hold_a_selection() -> None:
    """CEL has no such thing, so planning fails with a remedy."""
    with pytest.raises(PlanningError, match="cannot hold the selection"):
        express("args.row == 1", {"row": {"$select": {"from": "s1"}}}, {})
