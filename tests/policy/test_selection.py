"""`$select`: one item of a list, or a field of it."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.errors import PlanError
from tercet.contracts.plan import Plan, Step
from tercet.contracts.values.references import Malformed, Read, Reference, as_reference, reads_of, scan
from tercet.policy.resolution import MAX_SELECTED_FROM, ResolutionError, resolve

REF = "kg:prices:p1#snapshot_k1"
ROWS: list[Any] = [
    {"id": "t1", "payee": "asha", "amount": 20, "at": {"day": "2026-05-02"}},
    {"id": "t2", "payee": "ravi", "amount": 90, "at": {"day": "2026-05-01"}},
    {"id": "t3", "payee": "asha", "amount": 40.5, "at": {"day": "2026-05-03"}},
    {"id": "t4", "payee": "asha", "amount": 40.5, "at": {"day": "2026-05-04"}},
]
RESULTS: dict[str, Any] = {"s1": {"rows": ROWS}, "s2": [3, 9, 4], "request": {"payee": "asha"}}
EVIDENCE: dict[str, Any] = {REF: {"prices": [{"sku": "a", "price": 5}, {"sku": "b", "price": 3}]}}


def picked(results: Any = RESULTS, /, **body: Any) -> Any:
    """What a selection yields."""
    written = {"from" if name == "of" else name: value for name, value in body.items()}
    return resolve({"$select": written}, results, EVIDENCE)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"of": "s1#/rows", "field": "id"}, "t1"),
        ({"of": "s1#/rows"}, ROWS[0]),
        ({"of": {"$from": "s1#/rows"}, "order": "last", "field": "/at/day"}, "2026-05-04"),
        ({"of": "s1#/rows", "order": "largest", "by": "amount", "field": "id"}, "t2"),
        ({"of": "s1#/rows", "order": "smallest", "by": "/at/day", "field": "id"}, "t2"),
        (
            {
                "of": "s1#/rows",
                "where": {"payee": {"$from": "request#/payee"}},
                "order": "last",
                "field": "id",
            },
            "t4",
        ),
        ({"of": "s1#/rows", "where": {"payee": "ravi", "amount": 90.0}, "field": "id"}, "t2"),
        ({"of": "s1#/rows", "where": {"/at/day": {"$literal": "2026-05-03"}}, "field": "id"}, "t3"),
        ({"of": "s2", "order": "largest"}, 9),
        ({"of": {"$evidence": f"{REF}#/prices"}, "order": "smallest", "by": "price", "field": "sku"}, "b"),
    ],
)
def test_an_item_or_a_field_of_it_is_selected(body: dict[str, Any], expected: Any) -> None:
    """By position or by a field, among the items that satisfy every condition."""
    assert picked(**body) == expected


def test_of_equal_items_the_first_of_the_list_is_selected() -> None:
    """Ties are decided by the order of the list, for the largest and for the smallest."""
    asha: dict[str, Any] = {"of": "s1#/rows", "where": {"payee": "asha"}, "by": "amount", "field": "id"}
    assert picked(**asha, order="largest") == "t3"
    tied = {"rows": [{"n": 1, "id": "a"}, {"n": 1.0, "id": "b"}]}
    assert picked({"s1": tied}, of="s1#/rows", order="smallest", by="n", field="id") == "a"


@pytest.mark.parametrize(
    ("rows", "body", "code"),
    [
        ([], {}, "nothing_selected"),
        ([{"id": 1}], {"where": {"id": True}}, "nothing_selected"),
        ([{"id": 1}], {"where": {"other": None}}, "nothing_selected"),
        ([{"id": [1]}], {"where": {"id": {"$from": "request#/payee"}}}, "nothing_selected"),
        ([{"n": 1}, {"id": 2}], {"order": "largest", "by": "n"}, "not_comparable"),
        ([{"n": 1}, {"n": "2"}], {"order": "largest", "by": "n"}, "not_comparable"),
        ([{"n": True}, {"n": 2}], {"order": "smallest", "by": "n"}, "not_comparable"),
        ([{"n": None}], {"order": "smallest", "by": "n"}, "not_comparable"),
        ([{"n": 1}], {"field": "id"}, "not_comparable"),
        ({"n": 1}, {}, "not_comparable"),
        ([0] * (MAX_SELECTED_FROM + 1), {}, "value_too_large"),
    ],
)
def test_a_selection_that_picks_nothing_fails_with_a_code(rows: Any, body: dict[str, Any], code: str) -> None:
    """No item matches, the items cannot be compared, the field is missing, or the list is too long."""
    with pytest.raises(ResolutionError) as caught:
        picked({"s1": {"rows": rows}, "request": {"payee": "asha"}}, of="s1#/rows", **body)
    assert caught.value.code == code


def test_the_selections_of_one_value_are_bounded_together() -> None:
    """Many selections over a long list stop at the bound for all of them."""
    half = [0] * (MAX_SELECTED_FROM // 2 + 1)
    with pytest.raises(ResolutionError, match="more than 200,000 items together"):
        resolve([{"$select": {"from": "s1"}}, {"$select": {"from": "s1", "order": "last"}}], {"s1": half}, {})


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("s1#/rows", "takes an object"),
        ({}, "needs as 'from' a list"),
        ({"from": {"$cel": "s1.rows"}}, "needs as 'from' a list"),
        ({"from": "s1", "limit": 3}, "has no 'limit'"),
        ({"from": "s1", "order": "newest"}, "has no order 'newest'"),
        ({"from": "s1", "order": ["first"]}, "has no order"),
        ({"from": "s1", "by": "n"}, "drop 'by'"),
        ({"from": "s1", "field": 3}, "names a field as text"),
        ({"from": "s1", "where": [1]}, "takes as 'where' an object"),
        ({"from": "s1", "where": {"a": [1]}}, "compares with a scalar"),
        ({"from": "s1", "where": {"a": {}}}, "compares with a scalar"),
        ({"from": "s1", "where": {"a": {"$cel": "1 + 1"}}}, "compares with a scalar"),
        ({"from": "s1", "where": {str(n): n for n in range(5)}}, "at most 4"),
    ],
)
def test_a_malformed_selection_is_an_error_and_never_data(body: Any, says: str) -> None:
    """It is named where the plan is read, like any other broken reference."""
    (found,) = scan({"$select": body})
    assert isinstance(found, Malformed)
    assert says in found.message
    assert as_reference({"$select": body}) is None
    with pytest.raises(PlanError):
        Plan(steps=(Step(id="n", kind="note", params={"x": {"$select": body}}),))


@pytest.mark.parametrize("value", [float("nan"), 2**70, "\ud800"])
def test_a_condition_holds_only_json_values(value: Any) -> None:
    """What JSON does not have is refused inside a selection as it is elsewhere."""
    with pytest.raises(PlanError):
        Plan(
            steps=(
                Step(
                    id="n",
                    kind="note",
                    params={"x": {"$select": {"from": "request#/a", "where": {"a": value}}}},
                ),
            )
        )


def test_a_selection_reads_what_it_yields_and_what_decides() -> None:
    """The yielded field comes first; the steps that it needs are named."""
    body = {
        "from": "s1#/rows",
        "where": {"payee": {"$from": "s2#/who"}},
        "order": "largest",
        "by": "amount",
        "field": "id",
    }
    (found,) = scan({"$select": body})
    assert isinstance(found, Reference)
    assert found.names == ("s1", "s2")
    assert found.text == "largest amount of s1#/rows where payee is s2#/who, its id"
    assert reads_of(found) == [
        Read("s1", ("rows", "*", "id")),
        Read("s1", ("rows", "*", "payee")),
        Read("s1", ("rows", "*", "amount")),
        Read("s2", ("who",)),
    ]


def test_a_selection_adds_its_dependencies() -> None:
    """The list and the values that items are compared with come from steps that run first."""
    body = {"from": "rows#/all", "where": {"a": {"$from": "who"}}}
    plan = Plan(
        steps=(
            Step(id="pick", kind="note", params={"x": {"$select": body}}),
            Step(id="rows", kind="note", params={"all": [{"a": 1}]}),
            Step(id="who", kind="note", params={}),
        )
    )
    assert plan.graph.predecessors[0] == (1, 2)
