"""Plain data: what may come in with a request, as evidence, as a result or as a schema."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tercet.contracts.context import EvidenceManifestEntry, KnownResult
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.errors import UsageError
from tercet.contracts.evidence import Evidence
from tercet.contracts.mode import ApprovalMode, Trust
from tercet.contracts.plan import named_problems
from tercet.contracts.request import Request
from tercet.contracts.shape import as_list, as_object
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values import references
from tercet.contracts.values.canonical import canonical
from tercet.contracts.values.plain import is_small, not_json, not_plain, scan_scalars
from tercet.contracts.values.trust import scalars

REF = "kg:order:o1#snapshot_k1"


def nested(depth: int) -> Any:
    """A list in a list in a list."""
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


NOT_PLAIN: dict[str, Any] = {
    "NaN": math.nan,
    "infinity": -math.inf,
    "a large integer": 2**53,
    "a huge integer": 10**5_000,
    "a large float": 1e19,
    "half a pair": "\ud800",
    "half a pair in a key": {"\ud800": 1},
    "a key that is a number": {1: 2},
    "a set": {1},
    "a tuple": (1,),
    "bytes": b"x",
    "a decimal": Decimal(1),
    "an object": object(),
    "an enumeration": Trust.TRUSTED,
    "without end": nested(100_000),
}


@pytest.mark.parametrize("case", NOT_PLAIN)
def test_a_value_that_is_no_plain_data_is_named_with_its_place(case: str) -> None:
    """The fault says what it is and where it stands."""
    assert not_plain({"a": [0, NOT_PLAIN[case]]}) is not None
    fault = not_plain(NOT_PLAIN[case])
    assert fault
    if case != "without end":
        assert not_plain({"a": [0, NOT_PLAIN[case]]}) == f"/a/1: {fault}"


ENTRANCES: dict[str, Callable[[Any], Any]] = {
    "a request": lambda value: Request(intent="i", input={"x": value}),
    "evidence": lambda value: Evidence(id=REF, content=value),
    "the evidence manifest": lambda value: EvidenceManifestEntry(
        id=REF, classification="order", content=value
    ),
    "a known result": lambda value: KnownResult(step_id="s1", tool="x.y", value=value, trust=Trust.TRUSTED),
    "a tool's parameters": lambda value: ToolSpec(
        name="x.y", mode=ApprovalMode.READ_ONLY, parameters={"default": value}
    ),
    "a tool's result": lambda value: ToolSpec(
        name="x.y", mode=ApprovalMode.READ_ONLY, result={"default": value}
    ),
    "a decision's outputs": lambda value: DecisionSpec(id="d", outputs_schema={"default": value}),
}


@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize("case", NOT_PLAIN)
def test_nothing_else_comes_in(case: str, entrance: str) -> None:
    """Wherever data enters, a value that would break a hash, a rule or a tool later is refused at once."""
    with pytest.raises(ValidationError):
        ENTRANCES[entrance](NOT_PLAIN[case])


def test_ordinary_data_comes_in_unchanged() -> None:
    """Null, booleans, numbers, text, and lists and objects of them; nothing in it is taken for a reference."""
    value: Any = {"a": [None, True, 2**53 - 1, -0.5, "é😀"], "$from": {"b": {}}, "c": []}
    assert not_plain(value) is None
    assert Request(intent="i", input=value).input == value
    assert Evidence(id=REF, content=value).content == value
    assert KnownResult(step_id="s1", tool="x.y", value=value, trust=Trust.TRUSTED).value == value


@pytest.mark.parametrize("value", [None, True, False, 0, -(2**53) + 1, 1.5, "", "é", {}, []])
def test_scalars_of_json(value: Any) -> None:
    """What JSON has is no fault; an empty container counts as a leaf."""
    assert not_json(value) is None


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=4)
    | st.binary(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(), max_size=3) | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(deadline=None, max_examples=200)
@given(anything)
def test_plain_data_always_has_a_canonical_form(value: Any) -> None:
    """Whatever passes can be hashed, and what cannot be hashed never passes."""
    if not_plain(value) is None:
        assert canonical(value)
        return
    try:
        canonical(value)
    except UsageError:
        return
    # A float beyond 2^53 can be printed, but is read back as an integer that cannot.
    assert any(isinstance(leaf.value, float) and abs(leaf.value) >= 2**53 for leaf in scalars(value))


PARTS = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.just("\ud800"), st.just((1,))
    ),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.one_of(st.text(), st.just("\ud800")), inner)),
)


@given(PARTS)
def test_a_value_is_plain_exactly_if_each_of_its_parts_is(value: Any) -> None:
    """The fast look at a whole value agrees with a look at every part."""

    def is_plain(part: Any) -> bool:
        if (members := as_object(part)) is not None:
            return all(is_plain(each) for pair in members.items() for each in pair)
        items = as_list(part)
        return not_json(part) is None if items is None else all(map(is_plain, items))

    assert (not_plain(value) is None) == is_plain(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, True),
        ({"a": [1, 2.5, "text", True]}, True),
        ([0] * 10_000, False),
        ("x" * 1_000_000, False),
        ({"x" * 1_000_000: 1}, False),
        ([["x"] * 100] * 100, False),
        (object(), False),
    ],
)
def test_a_small_value_is_one_that_is_read_at_once(value: Any, expected: bool) -> None:
    """Many parts and long texts are large, and so may be what is not JSON."""
    assert is_small(value) is expected


odd_values = st.sampled_from(
    [*NOT_PLAIN.values(), "é", 2**53 - 1, 1.5, [], {}, {"$from": "s1"}, True, None, "s", 7]
)
odd_names = st.sampled_from(["a", "b", "", "$from", "a$", "é", "\ud800", 3])


@settings(deadline=None)
@given(st.dictionaries(odd_names, odd_values, max_size=3))
def test_scalars_that_are_scanned_quickly_have_no_fault(members: dict[Any, Any]) -> None:
    """What the quick scan lets through is what the whole scan finds, and nothing is wrong with it."""
    found = scan_scalars(members)
    if found is not None:
        assert found == references.scan(members)
        assert named_problems(members, ("params",)) == []


def test_ordinary_parameters_are_scanned_quickly() -> None:
    """Otherwise nothing would be gained."""
    assert scan_scalars({"n": 1, "text": "x", "is_new": True, "note": None}) is not None
