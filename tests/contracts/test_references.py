"""References: how they are spelt, found and told from plain data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.contracts.values import references
from tercet.contracts.values.references import (
    MAX_DEPTH,
    Leaf,
    Malformed,
    Reference,
    as_reference,
    is_text,
    parse,
    scan,
)

REF = "kg:order:o1#snapshot_k1"


@pytest.mark.parametrize(
    ("text", "target", "pointer"),
    [
        ("s1", "s1", ""),
        ("s1#", "s1", ""),
        ("s1#/total", "s1", "/total"),
        ("s1#/a~1b/0", "s1", "/a~1b/0"),
        ("s1#/a#b", "s1", "/a#b"),
        ("request#/order_id", "request", "/order_id"),
    ],
)
def test_a_reference_to_a_result(text: str, target: str, pointer: str) -> None:
    """A step, or the request, and behind the first # a pointer into what it holds; a reference adds the dependency."""
    assert parse("from", text) == Reference("from", text, (), target, pointer, (target,))


@pytest.mark.req("R16")
@pytest.mark.parametrize(
    ("text", "target", "pointer"),
    [(REF, REF, ""), (f"{REF}#/amount", REF, "/amount"), (f"{REF}#/a#/b", REF, "/a#/b")],
)
def test_a_reference_to_evidence(text: str, target: str, pointer: str) -> None:
    """The snapshot's # belongs to the evidence id; the pointer begins at the first #/."""
    assert parse("evidence", text) == Reference("evidence", text, (), target, pointer, ())


def test_a_computed_reference_needs_every_name_in_it() -> None:
    """An expression points at nothing by itself, and needs every root name that it mentions."""
    found = parse("cel", "s1.total - s2.fee", ("x",))
    assert found == Reference("cel", "s1.total - s2.fee", ("x",), "", "", ("s1", "s2"))


@pytest.mark.parametrize(
    ("kind", "text", "says"),
    [
        ("from", "", "names nothing"),
        ("from", "#/a", "names nothing"),
        ("from", "s1#total", "s1#/total"),
        ("evidence", "#/a", "names nothing"),
    ],
)
def test_a_misspelt_reference_says_what_was_meant(kind: references.Kind, text: str, says: str) -> None:
    """A text that is no reference of its kind comes back as malformed, with what to write."""
    found = parse(kind, text, ("x",))
    assert isinstance(found, Malformed)
    assert found.place == ("x",)
    assert says in found.message


def test_everything_is_found_in_document_order() -> None:
    """References, broken references and the plan's own values come in order, each with its place."""
    value: Any = {
        "a": [{"$from": "s1#/x"}, 1],
        "b": {"c": {"$frm": "s1"}},
        "d": {"e": {}, "f": [], "g": None},
    }
    assert [(type(item), item.place) for item in scan(value)] == [
        (Reference, ("a", 0)),
        (Leaf, ("a", 1)),
        (Malformed, ("b", "c")),
        (Leaf, ("d", "e")),
        (Leaf, ("d", "f")),
        (Leaf, ("d", "g")),
    ]
    assert [item.place for item in scan({"x": 1}, ("outputs",))] == [("outputs", "x")]


def test_no_parameters_are_no_value() -> None:
    """An empty object is a value inside of parameters; as all of them it is nothing."""
    assert scan({}) == []
    assert scan([]) == [Leaf([], ())]


@pytest.mark.parametrize(
    "value",
    [
        {"$from": "s1", "$cel": "s1"},
        {"$from": "s1", "else": 0},
        {"plain": 1, "$from": "s1"},
        {"$FROM": "s1"},
        {"$": "s1"},
        {"$literal": 1, "x": 2},
        {"$from": None},
        {"$cel": 1},
        {"$evidence": ["x"]},
        {"$from": "\ud800"},
    ],
)
def test_a_key_with_a_dollar_is_never_sent_as_data(value: dict[str, Any]) -> None:
    """An object with a reserved key is exactly one good reference, or an error; never a literal."""
    (found,) = scan({"x": value})
    assert isinstance(found, Malformed)
    assert found.place == ("x",)
    assert found.is_reference


def test_a_literal_is_taken_as_it_stands() -> None:
    """Inside $literal nothing is a reference, whatever its keys look like."""
    value = {"x": {"$literal": {"$from": "s1", "$price": [{"$cel": "1"}]}}}
    assert scan(value) == [
        Leaf("s1", ("x", "$literal", "$from")),
        Leaf("1", ("x", "$literal", "$price", 0, "$cel")),
    ]


def test_a_literal_within_a_literal_is_data() -> None:
    """Only the outermost $literal is a wrapper."""
    assert scan({"x": {"$literal": {"$literal": 1}}}) == [Leaf(1, ("x", "$literal", "$literal"))]


def listed(value: Any) -> Any:
    """A value in a list."""
    return [value]


def keyed(value: Any) -> Any:
    """A value in an object."""
    return {"k": value}


@pytest.mark.parametrize("wrap", [listed, keyed])
def test_depth_is_bounded(wrap: Callable[[Any], Any]) -> None:
    """A value may nest as deep as is allowed; one level more is malformed, and told apart from a bad reference."""
    value: Any = 1
    for _ in range(MAX_DEPTH + 1):
        value = wrap(value)
    assert [type(item) for item in scan(value)] == [Leaf]
    (found,) = scan(wrap(value))
    assert isinstance(found, Malformed)
    assert not found.is_reference


def test_only_a_whole_object_spells_a_reference() -> None:
    """Plain data and broken references are no reference when values are put in."""
    found = as_reference({"$from": "s1#/x"})
    assert found is not None
    assert (found.target, found.pointer) == ("s1", "/x")
    for members in (
        {},
        {"a": 1},
        {"$from": 1},
        {"$from": ""},
        {"$from": "s1#x"},
        {"$literal": 1},
        {"$from": "s1", "a": 1},
    ):
        assert as_reference(members) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", True),
        ("abc", True),
        ("äöü😀", True),
        ("\x00", True),
        ("\ud800", False),
        ("a\udfff", False),
        (1, False),
        (None, False),
        (b"a", False),
    ],
)
def test_text_is_what_can_be_encoded(value: object, expected: bool) -> None:
    """A string with half a surrogate pair is no text, and neither is anything but a string."""
    assert is_text(value) is expected


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3).filter(lambda key: key[:1] != "$"), inner, max_size=3)
    ),
    max_leaves=10,
)


@settings(deadline=None, max_examples=100)
@given(st.dictionaries(st.sampled_from("abc"), plain, min_size=1))
def test_plain_data_holds_no_references(value: dict[str, Any]) -> None:
    """In data without reserved keys every scalar is found once, at a place that leads to it."""
    for item in scan(value):
        assert isinstance(item, Leaf)
        target: Any = value
        for key in item.place:
            target = target[key]
        assert target is item.value


@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        ("look.ok", "a__look.ok"),
        ("x.look && look", "x.look && a__look"),
        ('"look" + look // look', '"look" + a__look // look'),
        ("look(1) + look", "look(1) + a__look"),
        ("args.host + args.other", '"h" + args.other'),
        ("args . host.size()", '"h".size()'),
        ("x.args.host", "x.args.host"),
        ("r'look' + look", "r'look' + a__look"),
    ],
)
def test_root_names_are_rewritten_and_nothing_else(text: str, rewritten: str) -> None:
    """Fields, functions, strings and comments keep their words."""
    assert references.rewrite(text, {"look": "a__look", "args.host": '"h"'}) == rewritten
