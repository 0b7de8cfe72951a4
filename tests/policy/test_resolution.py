"""Putting values in the place of references."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.contracts.errors import TercetError
from tercet.policy.resolution import (
    MAX_COMPUTED_BYTES,
    MAX_RESOLVED_BYTES,
    ResolutionError,
    Resolver,
    evaluate,
    measure,
    resolve,
)

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


# ---- size ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["text", "items"])
def test_doubling_through_notes_stops_before_it_is_large(name: str) -> None:
    """Each note adds the one before it to itself; the size is known before anything is put together."""
    values: dict[str, Any] = {"text": "x" * 1_000, "items": [1] * 100}
    doubling = {name: {"$cel": f"n.{name} + n.{name}"}}
    while measure(values, 2**40) <= MAX_COMPUTED_BYTES // 2:
        values = resolve(doubling, {"n": values}, {})
    with pytest.raises(ResolutionError) as caught:
        resolve(doubling, {"n": values}, {})
    assert caught.value.code == "value_too_large"


@pytest.mark.parametrize(
    "expression",
    [
        "s.v + s.v",
        "[s.v, s.v]",
        "{'a': s.v, 'b': s.v}",
        "s + s.v",
        "size(s.v + s.v) > 0",
        'evidence["kg:a:b#snapshot_c"] + s.v',
    ],
)
def test_an_expression_is_not_evaluated_over_more_than_it_may_compute_with(
    expression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound is checked on what goes in, so that the evaluator never allocates what would come out."""
    evaluated: list[str] = []

    def note_evaluation(text: str, _: Any) -> None:
        evaluated.append(text)

    monkeypatch.setattr("tercet.policy.resolution.evaluate_planner", note_evaluation)
    large = "x" * (MAX_COMPUTED_BYTES * 2 // 3)
    with pytest.raises(ResolutionError) as caught:
        evaluate(expression, {"s": {"v": large}}, {"kg:a:b#snapshot_c": large})
    assert caught.value.code == "value_too_large"
    assert caught.value.remedy
    assert not evaluated


@pytest.mark.parametrize(
    "expression", ["s.v", "s.n + 1", "s.n > 1 ? s.v : 'none'", "size(s.v)", "[s.n, s.n]"]
)
def test_what_does_not_grow_may_read_large_results(expression: str) -> None:
    """A selection from a large result is as cheap as a reference, and a sum counts only the parts that it adds."""
    evaluate(expression, {"s": {"v": "x" * (MAX_COMPUTED_BYTES * 2), "n": 2}}, {})


def test_many_references_to_a_large_value_are_refused() -> None:
    """A list of references is small in a plan and large in a journal."""
    results = {"s": "x" * (MAX_RESOLVED_BYTES // 8)}
    assert resolve([{"$from": "s"}] * 4, results, {})
    with pytest.raises(ResolutionError) as caught:
        resolve([{"$from": "s"}] * 9, results, {})
    assert caught.value.code == "value_too_large"
    assert len(resolve([{"$from": "s"}] * 9, results, {}, is_bounded=False)) == 9
    alone = {"s": "x" * (MAX_RESOLVED_BYTES + 1)}
    assert resolve({"$from": "s"}, alone, {}) == alone["s"]


def test_outputs_that_are_kept_together_are_counted_together() -> None:
    """One resolver serves all outputs of a run."""
    resolver = Resolver({"s": "x" * (MAX_RESOLVED_BYTES // 2)}, {})
    assert resolver.resolve({"$from": "s"})
    with pytest.raises(ResolutionError):
        resolver.resolve({"$from": "s"})


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    )
)
def test_a_value_is_measured_at_about_its_length(value: Any) -> None:
    """Between a third of the length of its JSON and four times of it, and no further than asked."""
    length = len(orjson.dumps(value))
    assert length / 3 - 4 <= measure(value, 2**40) <= 4 * length + 4
    assert measure(value, -1) == 0
