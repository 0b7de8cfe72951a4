"""Putting values in the place of references."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.contracts.errors import TercetError
from tercet.policy.resolution import ResolutionError, evaluate, resolve

REF = "kg:order:o1#snapshot_k1"
RESULTS: dict[str, Any] = {
    "s1": {"total": 100, "items": [{"sku": "k1"}], "a/b": {"~": None}},
    "s2": [1, 2],
    "request": {"order_id": "ord_881"},
}
EVIDENCE: dict[str, Any] = {REF: {"amount": 40, "window": {"open": True}}}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"$from": "s1#/total"}, 100),
        ({"$from": "s1#/items/0/sku"}, "k1"),
        ({"$from": "s1#/a~1b/~0"}, None),
        ({"$from": "s2"}, [1, 2]),
        ({"$from": "s2#/1"}, 2),
        ({"$from": "request#/order_id"}, "ord_881"),
        ({"$evidence": REF}, EVIDENCE[REF]),
        ({"$evidence": f"{REF}#/amount"}, 40),
        ({"$cel": f's1.total - evidence["{REF}"].amount'}, 60),
        ({"$cel": "s1.total > 50 ? request.order_id : 'none'"}, "ord_881"),
        ({"$cel": "'a constant'"}, "a constant"),
        ({"$literal": {"$from": "s1"}}, {"$from": "s1"}),
        ({"$literal": {"$literal": 1}}, {"$literal": 1}),
        ({"a": [{"$from": "s1#/total"}, {"b": {"$cel": "s2[0]"}}], "c": 3}, {"a": [100, {"b": 1}], "c": 3}),
        ({}, {}),
        ([], []),
        ("s1#/total", "s1#/total"),
        (None, None),
    ],
)
def test_every_kind_of_reference_is_replaced(value: Any, expected: Any) -> None:
    """References become what they point at, at any depth; everything else stays as it is."""
    assert resolve(value, RESULTS, EVIDENCE) == expected


def test_inside_of_a_compensation() -> None:
    """`self` is the result of the step that is taken back, and `params` what it ran with."""
    names = {"self": {"refund_id": "r1"}, "params": {"amount": 40}}
    value = {"id": {"$from": "self#/refund_id"}, "amount": {"$cel": "params.amount * -1"}}
    assert resolve(value, names, {}) == {"id": "r1", "amount": -40}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"$from": "s9"}, "s9 points at s9, which is not there"),
        ({"$from": "s1#/none"}, "leads nowhere"),
        ({"$from": "s1#/total/deeper"}, "leads nowhere"),
        ({"$from": "s2#/2"}, "leads nowhere"),
        ({"$from": f"s2#/{'9' * 5_000}"}, "leads nowhere"),
        ({"$evidence": "kg:order:o2#snapshot_k1"}, "which is not there"),
        ({"$evidence": f"{REF}#/none"}, "leads nowhere"),
        ({"$cel": "s9.total"}, "needs s9, which has no result"),
        ({"$cel": "s1.none"}, "Key not found"),
        ({"$cel": "evidence['kg:x:y#snapshot_z'].a"}, "fails"),
        ({"$cel": "s1.total / 0"}, "divide by zero"),
        ({"$cel": "1.0 / 0.0"}, "it yields no JSON value"),
        ({"$cel": "b'bytes'"}, "it yields no JSON value"),
        ({"$cel": "s1.items.map(i, i)"}, "i, which has no result"),
        ({"$cel": "s1 +"}, "Syntax error"),
    ],
    ids=range(15),
)
def test_a_reference_without_a_value_is_an_error(value: Any, says: str) -> None:
    """What is not there is never taken for null; the error names the reference."""
    with pytest.raises(ResolutionError) as caught:
        resolve({"x": [value]}, RESULTS, EVIDENCE)
    assert isinstance(caught.value, TercetError)
    assert caught.value.code == "unresolved"
    assert says in str(caught.value)


def test_an_expression_sees_only_what_it_names() -> None:
    """A result that cannot even be converted does not disturb an expression that leaves it alone."""
    assert evaluate("s1.total + 1", {**RESULTS, "odd": object()}, {}) == 101
    with pytest.raises(ResolutionError):
        evaluate("odd == 1", {**RESULTS, "odd": object()}, {})


def test_resolving_changes_nothing_in_place() -> None:
    """The plan's own parameters stay as they were written."""
    value = {"a": [{"$from": "s1#/total"}]}
    resolve(value, RESULTS, EVIDENCE)
    assert value == {"a": [{"$from": "s1#/total"}]}


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3).filter(lambda key: key[:1] != "$"), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(deadline=None, max_examples=100)
@given(plain, plain)
def test_plain_data_and_literals_come_through_unchanged(value: Any, literal: Any) -> None:
    """Data without references resolves to itself, and a literal to what it wraps, whatever that looks like."""
    assert resolve(value, {}, {}) == value
    assert resolve([{"$literal": {"$from": literal}}], {}, {}) == [{"$from": literal}]
    assert resolve({"x": {"$from": "s1#/v"}}, {"s1": {"v": value}}, {}) == {"x": value}
