"""Which facts belong to a request, by the relations of its decision."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.evidence import Evidence
from tercet.contracts.mode import Trust
from tercet.contracts.related import select_related
from tercet.contracts.relations import Relation


def fact(key: str, /, **content: Any) -> Evidence:
    """A fact by class and id."""
    return Evidence(id=f"kg:{key}#snapshot_s", content=content, trust=Trust.TRUSTED)


def related(facts: list[Evidence], request: dict[str, Any], *relations: dict[str, str]) -> list[str]:
    """The classes and ids of the facts that belong to a request."""
    found = select_related(facts, map(Relation.model_validate, relations), request)
    return [each.id.removeprefix("kg:").partition("#")[0] for each in found]


ORDER = {"evidence": "order", "field": "number", "equals": "request.order"}
FACTS = [
    fact("order:a", number=1),
    fact("order:b", number=2),
    fact("order_evidence:c", number=1),
    fact("rule:d"),
]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, ["order:a", "order_evidence:c", "rule:d"]),
        (1.0, ["order:a", "order_evidence:c", "rule:d"]),
        ([2, 3], ["order:b", "rule:d"]),
        ("1", ["rule:d"]),
        (True, ["rule:d"]),
        (None, ["rule:d"]),
        ({"number": 1}, ["rule:d"]),
    ],
)
def test_a_fact_belongs_if_its_field_has_the_value(value: Any, expected: list[str]) -> None:
    """Numbers compare by value, a list by its members, and classes without a relation always belong."""
    assert related(FACTS, {"order": value}, ORDER) == expected


def test_a_request_without_the_field_has_no_facts_of_the_class() -> None:
    """A relation to a field that is not there is not met."""
    assert related(FACTS, {}, ORDER) == ["rule:d"]
    assert related(FACTS, {}) == [each.id.removeprefix("kg:").partition("#")[0] for each in FACTS]


def test_every_relation_of_a_class_must_hold() -> None:
    """One of two is not enough."""
    facts = [fact("order:a", number=1, shop="x"), fact("order:b", number=1, shop="y")]
    shop = {"evidence": "order", "field": "shop", "equals": "request.shop"}
    assert related(facts, {"order": 1, "shop": "y"}, ORDER, shop) == ["order:b"]


def test_a_relation_may_lead_through_another_fact() -> None:
    """The customer is that of the order of the request, and not of any order."""
    facts = [
        fact("order:a", number=1, customer="ann"),
        fact("order:b", number=2, customer="ben"),
        fact("customer:ann", name="ann"),
        fact("customer:ben", name="ben"),
    ]
    customer = {"evidence": "customer", "field": "name", "equals": "order.customer"}
    assert related(facts, {"order": 2}, customer, ORDER) == ["order:b", "customer:ben"]


def test_relations_in_a_circle_end() -> None:
    """What only refers to itself is not met."""
    one = {"evidence": "a", "field": "x", "equals": "b.x"}
    two = {"evidence": "b", "field": "x", "equals": "a.x"}
    assert related([fact("a:1", x=1), fact("b:1", x=1)], {}, one, two) == []


def test_only_trusted_facts_lead_to_others() -> None:
    """No customer's record is shown because an untrusted order names the customer."""
    order = fact("order:a", number=1, customer="ann").model_copy(update={"trust": Trust.UNTRUSTED})
    customer = {"evidence": "customer", "field": "name", "equals": "order.customer"}
    assert related([order, fact("customer:ann", name="ann")], {"order": 1}, customer, ORDER) == ["order:a"]
