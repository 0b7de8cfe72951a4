"""Values that outputs may state: where they come from, what they are worth, and how they are named."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tercet.contracts.documents import DocumentValue, KnownValue
from tercet.contracts.evidence import Evidence
from tercet.contracts.mode import Trust
from tercet.quality.values import known_values, slot_guide

from .scenarios import known_in

ORDER = {"id": "ord_1", "total": 74.5, "discount": 10, "items": [{"name": "Shade", "n": 2, "price": 12.25}]}


def _fact(content: Any, name: str = "order", key: str = "a", *, trusted: bool = True) -> Evidence:
    trust = Trust.TRUSTED if trusted else Trust.UNTRUSTED
    return Evidence(id=f"kg:{name}:{key}#snapshot_1", content=content, trust=trust)


def _value(rule: dict[str, Any], *facts: Evidence, request: dict[str, Any] | None = None) -> KnownValue:
    rules = [DocumentValue.model_validate({"name": "v", **rule})]
    return known_values(rules, facts or [_fact(ORDER)], request or {}, ("note",), "en")[0]


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        ({"from": "order#/total", "type": "money", "currency": "EUR"}, "74.5"),
        ({"from": "order#/id", "type": "identifier"}, "ord_1"),
        ({"cel": "order.total - order.discount", "type": "money"}, "64.5"),
        ({"cel": "order.discount + 1", "type": "count"}, "11"),
        ({"cel": "size(order.items)", "type": "count"}, "1"),
        ({"sum_of": "order#/items", "fields": ["n", "price"], "type": "money"}, "24.5"),
        ({"from": "order#/missing", "type": "money"}, None),
        ({"from": "order#/id", "type": "money"}, None),
        ({"from": "order#/total", "type": "date"}, None),
        ({"cel": "order.nothing", "type": "money"}, None),
        ({"cel": "order.total / (", "type": "money"}, None),
        ({"sum_of": "order#/items", "fields": ["n", "cost"], "type": "money"}, None),
        ({"sum_of": "order#/total", "fields": ["n"], "type": "money"}, None),
    ],
)
def test_a_value_has_the_normal_form_of_its_type_or_is_missing(
    rule: dict[str, Any], wanted: str | None
) -> None:
    assert _value(rule).value == wanted


def test_a_sum_over_no_rows_is_zero_only_where_there_is_a_list() -> None:
    rule = {"sum_of": "order#/items", "fields": ["n"], "type": "number"}
    assert _value(rule, _fact({"items": []})).value == "0"
    assert _value(rule, _fact({})).value is None


def test_sources_that_disagree_give_no_value() -> None:
    rule = {"from": "order#/total", "type": "number"}
    assert _value(rule, _fact({"total": 1}), _fact({"total": 2}, key="b")).value is None
    assert _value(rule, _fact({"total": 1}), _fact({"total": 1}, key="b")).value == "1"


def test_trusted_sources_come_before_untrusted_ones() -> None:
    found = _value(
        {"from": "order#/total", "type": "number"},
        _fact({"total": 9}, trusted=False),
        _fact({"total": 1}, key="b"),
    )
    assert (found.value, found.trust) == ("1", Trust.TRUSTED)


def test_a_computed_value_is_trusted_only_if_all_it_reads_is() -> None:
    rule = {"cel": "order.total - form.claimed", "type": "number"}
    total, claimed = _fact({"total": 5}), {"claimed": 2}
    trusted = _value(rule, total, _fact(claimed, "form"))
    untrusted = _value(rule, total, _fact(claimed, "form", trusted=False))
    assert [(each.value, each.trust) for each in (trusted, untrusted)] == [
        ("3", Trust.TRUSTED),
        ("3", Trust.UNTRUSTED),
    ]


def test_a_currency_from_an_untrusted_source_makes_the_amount_untrusted() -> None:
    rule = {"from": "order#/total", "type": "money", "currency_from": "form#/currency"}
    found = _value(rule, _fact({"total": 5}), _fact({"currency": "USD"}, "form", trusted=False))
    assert (found.currency, found.trust) == ("USD", Trust.UNTRUSTED)


def test_a_result_of_a_step_is_called_by_the_step() -> None:
    assert _value({"from": "lookup#/x", "type": "number"}, _fact({"x": 7}, "result", "lookup")).value == "7"
    part = _fact({"x": 7}, "result", "lookup/untrusted", trusted=False)
    assert _value({"from": "lookup#/x", "type": "number"}, part).trust is Trust.UNTRUSTED


def test_marked_fields_of_a_request_are_untrusted() -> None:
    request = {"order": "R-1", "note": "N-1"}
    by_pointer = {each.pointer: each.trust for each in known_values([], [], request, ("note",), "en")}
    assert by_pointer == {"request#/order": Trust.TRUSTED, "request#/note": Trust.UNTRUSTED}


def test_members_that_no_rule_names_are_known_by_their_names() -> None:
    known = known_values(
        [], [_fact({"delivered_on": "2026-05-04", "isOpen": True, "note": None})], {}, (), "en"
    )
    assert [(each.type, each.labels, each.name) for each in known] == [("date", ("delivered on",), "")]


def test_a_listed_member_is_known_once() -> None:
    rule = DocumentValue.model_validate(
        {"name": "v", "from": "order#/total", "type": "money", "currency": "EUR"}
    )
    known = known_values([rule], [_fact({"total": 5})], {}, (), "en")
    assert [each.name for each in known] == ["v"]


def test_rows_have_their_cells_their_product_and_their_number() -> None:
    known = {each.pointer.rpartition("#")[2]: each for each in known_in("order", "en")}
    assert known["/items/0/quantity*unit_price"].value == "24.5"
    assert known["/items/1/unit_price"].labels == ("Unit price", "unit price")
    assert known["/items/length"].value == "2"


def test_the_guide_to_slots_tells_names_and_roles_but_no_values() -> None:
    guide = slot_guide(known_in("order", "en"))
    assert "{{ order_total }}: money, EUR (total, order total)" in guide.splitlines()
    assert "{{ return_window }}: count, day (return, send back)" in guide.splitlines()
    values = [str(each.value) for each in known_in("order", "en") if isinstance(each.value, str)]
    assert not [value for value in values if len(value) > 1 and value in guide]


@pytest.mark.parametrize(
    "rule",
    [
        {"name": "v"},
        {"name": "v", "from": "a#/b", "cel": "a.b"},
        {"name": "v", "sum_of": "a#/b"},
        {"name": "v", "from": "a#/b", "fields": ["c"]},
        {"name": "no name", "from": "a#/b"},
        {"name": "v", "from": "a#/b", "type": "table", "columns": ["a:cheese"]},
        {"name": "v", "from": "a#/b", "type": "table", "columns": ["a:list"]},
    ],
)
def test_a_value_that_is_declared_wrongly_is_refused(rule: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        DocumentValue.model_validate(rule)
