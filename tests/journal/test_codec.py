"""Events as bytes: what comes back, what is ignored, and what is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.contracts.errors import InternalError
from tercet.core import codec
from tercet.core import events as e

ABORT = e.Abort(at=5, step="s1", attempt=2, outcome="unknown", error="lost")


def test_the_bytes_of_an_event_are_fixed() -> None:
    """One byte of version, then JSON with the type first and without defaults: old journals stay readable."""
    assert codec.encode(ABORT) == (
        b'1{"type":"ABORT","at":5,"step":"s1","attempt":2,"outcome":"unknown","error":"lost"}'
    )
    assert codec.decode(codec.encode(ABORT)) == ABORT


@pytest.mark.parametrize("wrong", [{"retry_after": 0.5}, {"retriable": "no"}, {"code": 5}])
def test_an_event_that_could_not_be_read_is_not_written(wrong: dict[str, Any]) -> None:
    """Else its session could never be read again."""
    with pytest.raises(InternalError, match="could not be read"):
        codec.encode(msgspec.structs.replace(ABORT, **wrong))


def test_a_field_that_a_newer_version_added_is_ignored() -> None:
    """Additive fields are compatible."""
    data = codec.encode(ABORT)[:-1] + b',"colour":"red"}'
    assert codec.decode(data) == ABORT


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b'2{"type":"ABORT"}', "newer_journal"),
        (b"\x80", "newer_journal"),
        (b"", "newer_journal"),
        (b'1{"type":"NEW_THING","at":5}', "journal_unreadable"),
        (b'1{"type":"ABORT","at":5}', "journal_unreadable"),
        (b'1{"type":"ABORT"', "journal_unreadable"),
        (b"1\xff", "journal_unreadable"),
        (b'1{"at":5}', "journal_unreadable"),
    ],
    ids=["version", "binary", "empty", "type", "field", "cut off", "no text", "no type"],
)
def test_what_cannot_be_read_is_refused(data: bytes, code: str) -> None:
    """An ignored fact would fold a wrong state, so each of these is an error that says what to do."""
    with pytest.raises(codec.CodecError) as caught:
        codec.decode(data)
    assert caught.value.code == code
    assert caught.value.remedy


@given(st.binary(max_size=60))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    """Any bytes are an event, or a `CodecError`."""
    for prefix in (b"", b"1"):
        try:
            event = codec.decode(prefix + data)
        except codec.CodecError:
            continue
        assert isinstance(event, msgspec.Struct)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    )
)  # fmt: skip
def test_any_result_comes_back_as_it_was(value: object) -> None:
    """A value that a tool may return survives being written."""
    event = e.Complete(at=1, step="s", attempt=1, value=value)
    assert codec.decode(codec.encode(event)) == event
