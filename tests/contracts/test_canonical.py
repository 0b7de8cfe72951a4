"""Canonical JSON and the hashes over it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, IntEnum, StrEnum
from typing import Any
from uuid import UUID

import orjson
import pytest
import rfc8785
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from tercet.contracts.errors import UsageError
from tercet.contracts.evidence import Evidence
from tercet.contracts.runs.record import MemoryProposal
from tercet.contracts.values.canonical import canonical, canonical_dump, digest, hash_bytes
from tercet.contracts.values.plain import not_plain
from tercet.contracts.verdict import VerifyRefused

safe_integers = st.integers(-(2**53) + 1, 2**53 - 1)
plain = st.recursive(
    st.none() | st.booleans() | safe_integers | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(max_codepoint=127), max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)
"""Values that the fast way prints."""
any_json = st.recursive(
    st.none()
    | st.booleans()
    | safe_integers
    | st.text(max_size=8)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
"""Values of any kind, of which most take the slow way."""
whole_floats = st.recursive(
    st.sampled_from(
        [0.0, -0.0, 1.0, -7.0, 0.5, -0.05, 2.0**52, 10, "text", "1.0", "a:1.0,", "[-7.0]", '{"n":0.0}']
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["a", ".0", ".0,"]), inner),
    max_leaves=12,
)
"""Numbers whose last digits are dropped, and texts that look like them."""


@settings(deadline=None, max_examples=200)
@given(plain | any_json | whole_floats)
def test_the_bytes_are_those_of_rfc_8785(value: Any) -> None:
    """Whichever way a value is printed, the bytes are those of the reference implementation."""
    assert canonical(value) == rfc8785.dumps(value)


class Text(str):
    """A string that is not just a string."""

    __slots__ = ()


class Shade(Enum):
    """No JSON, though orjson prints its value."""

    RED = "red"


class Tone(StrEnum):
    """A string, whatever else it is."""

    LOW = "low"


class Size(IntEnum):
    """An integer, whatever else it is."""

    SMALL = 1


@dataclass
class Pair:
    """No JSON, though orjson prints its fields."""

    a: int = 1


ODD: list[Any] = [
    Text("x"),
    {Text("k"): 1},
    Shade.RED,
    Tone.LOW,
    {Tone.LOW: 1},
    Size.SMALL,
    Pair(),
    datetime(2026, 5, 9, tzinfo=UTC),
    UUID(int=7),
    orjson.Fragment(b"1"),
    (1, ("a",)),
    math.nan,
    -math.inf,
    2**53,
    -(2**53) + 1,
    10**40,
    1.0,
    1e16,
    1e-7,
    5e-324,
    "1.5",
    ":1.0,",
    "null",
    "2026-05-09T12:00:42.5Z",
    "\u00cb",
    {"\u00eb": 1},
    {"\ue000": 1, "\U0001f600": 2},
    203,
    -53,
    {"b" * 203: "c" * 203},
]
"""What orjson, MessagePack and RFC 8785 see differently, or nearly so."""


def outcome(printing: Callable[[Any], bytes], value: Any) -> bytes | None:
    """The bytes of a value, or None if it is refused."""
    try:
        return printing(value)
    except (UsageError, rfc8785.CanonicalizationError):
        return None


@pytest.mark.parametrize("value", ODD, ids=range(len(ODD)))
def test_odd_values_are_printed_or_refused_as_by_rfc_8785(value: Any) -> None:
    """No type or number that a faster printer knows gets other bytes, or any bytes that it should not have."""
    nests: list[Any] = [value, [value], {"a": 1, "b": [value, None]}, {"a": "\u00eb", "b": {"c": value}}]
    for nest in nests:
        assert outcome(canonical, nest) == outcome(rfc8785.dumps, nest)


@settings(deadline=None, max_examples=200)
@given(plain | any_json | st.sampled_from(ODD) | st.lists(st.sampled_from(ODD) | st.floats(), max_size=4))
def test_what_was_dumped_is_printed_as_any_other_value(value: Any) -> None:
    """What Pydantic dumped is asked fewer questions, and gets the same bytes or the same refusal."""
    try:
        dumped = MemoryProposal(classification="x", content=value).model_dump(mode="json", exclude_none=True)
    except ValueError:
        reject()
    assert outcome(canonical_dump, dumped) == outcome(canonical, dumped) == outcome(rfc8785.dumps, dumped)


@settings(deadline=None, max_examples=100)
@given(any_json.filter(lambda value: not_plain(value) is None))
def test_canonical_json_is_a_fixed_point(value: Any) -> None:
    """Reading the canonical JSON of plain data and printing it again changes nothing."""
    once = canonical(value)
    assert canonical(orjson.loads(once)) == once


KNOWN: list[tuple[Any, bytes]] = [
    ({"b": 1, "a": [True, None, "x"]}, b'{"a":[true,null,"x"],"b":1}'),
    ([333333333.33333329, 1e30, 4.50, 2e-3, 1e-27], b"[333333333.3333333,1e+30,4.5,0.002,1e-27]"),
    ([1e-4, 1e-5, 0.0000123, 1e-6, 1e-7, -1.5e-5], b"[0.0001,0.00001,0.0000123,0.000001,1e-7,-0.000015]"),
    ([1e20, 1e21, 123456789012345680000.0], b"[100000000000000000000,1e+21,123456789012345680000]"),
    (-0.0, b"0"),
    (5.0, b"5"),
    ('\x00\x1f\x7f"\\/\u2028', '"\\u0000\\u001f\x7f\\"\\\\/\u2028"'.encode()),
    (2**53 - 1, b"9007199254740991"),
    ((1, (2,)), b"[1,[2]]"),
]


@pytest.mark.parametrize(("value", "expected"), KNOWN, ids=range(len(KNOWN)))
def test_known_answers(value: Any, expected: bytes) -> None:
    """The published examples of RFC 8785, and the edges of numbers and strings."""
    assert canonical(value) == expected


def test_keys_are_ordered_by_utf_16_code_units() -> None:
    """The published example of RFC 8785: a character beyond the first plane comes before some within it."""
    value = {"€": 1, "\r": 2, "\ufb33": 3, "1": 4, "😀": 5, "\x80": 6, "ö": 7}
    assert list(orjson.loads(canonical(value))) == ["\r", "1", "\x80", "ö", "€", "😀", "\ufb33"]


def nested(depth: int, leaf: Any = 1) -> Any:
    """A list in a list in a list."""
    for _ in range(depth):
        leaf = [leaf]
    return leaf


def endless() -> list[Any]:
    """A list that holds itself twice."""
    ring: list[Any] = []
    ring += [ring, ring]
    return ring


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        {"a": math.inf},
        2**53,
        [-(2**53)],
        10**5_000,
        "\ud800",
        ["\ud800", 1.5],
        {"\ud800": 1},
        {1: 2},
        {"a": 1, 2: 3},
        {1, 2},
        b"bytes",
        object(),
        nested(100_000),
        nested(100_000, 1.5),
        endless(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_without_canonical_json_is_refused(value: Any) -> None:
    """Anything that is no JSON, is not exact in JSON, or never ends is a typed refusal with a remedy."""
    with pytest.raises(UsageError) as caught:
        canonical(value)
    assert caught.value.code == "not_canonical"
    assert caught.value.remedy is not None


def test_depth_alone_is_no_obstacle() -> None:
    """A value deeper than the fast way goes is printed by the other one."""
    assert canonical(nested(300)) == b"[" * 300 + b"1" + b"]" * 300


def test_digests_never_change() -> None:
    """These hashes stand in records; a new version must find the same ones."""
    assert digest({}) == "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    assert digest({"a": [1, "x", None, True], "b": 1.5}) == hash_bytes(b'{"a":[1,"x",null,true],"b":1.5}')
    assert hash_bytes(b"") == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_a_contract_is_hashed_without_what_it_leaves_out() -> None:
    """Absent fields of a contract are left out; a null inside its data is data."""
    refused = VerifyRefused.model_validate({"ok": False, "kind": "loop_guard", "reasons": ["r"]})
    assert canonical(refused) == b'{"kind":"loop_guard","ok":false,"reasons":["r"]}'
    with_null = MemoryProposal(classification="x", content={"a": None})
    assert digest(with_null) != digest(MemoryProposal(classification="x", content={}))


@pytest.mark.parametrize("content", [object(), nested(300), "\ud800", math.nan], ids=type)
def test_a_contract_that_cannot_be_printed_is_refused(content: Any) -> None:
    """Also a contract that was built around a value which is no JSON ends in the typed refusal."""
    with pytest.raises(UsageError, match="no canonical JSON"):
        digest(MemoryProposal(classification="x", content=content))


def test_evidence_is_hashed_by_its_content() -> None:
    """What a gate freezes is the content, whatever else is said about the fact."""
    fact = Evidence(id="kg:order:o1#snapshot_k1", content={"b": 1, "a": 2})
    assert fact.hash == "sha256:" + hashlib.sha256(b'{"a":2,"b":1}').hexdigest()
    assert fact.model_copy(update={"source": "erp"}).hash == fact.hash
