"""The records of the write-ahead log, as bytes."""

from __future__ import annotations

from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.journal.records import Abort, Complete, Intent, WalRecord, decode, encode

TS = "2026-05-09T09:30:00Z"
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
texts = st.text(max_size=8)
records = (
    st.builds(
        Intent, action_id=texts, tool=texts, input=st.dictionaries(texts, json_values, max_size=3), ts=texts
    )
    | st.builds(Complete, action_id=texts, result=json_values, ts=texts)
    | st.builds(Abort, action_id=texts, error=texts, ts=texts)
)


@pytest.mark.req("R40")
@pytest.mark.parametrize(
    ("record", "data"),
    [
        (
            Intent(action_id="a1", tool="adp_payments.issue_refund", input={"amount_inr": 24500}, ts=TS),
            b'{"type":"INTENT","action_id":"a1","tool":"adp_payments.issue_refund","input":{"amount_inr":24500},"ts":"2026-05-09T09:30:00Z"}',
        ),
        (
            Complete(action_id="a1", result={"refund_id": "r1"}, ts=TS),
            b'{"type":"COMPLETE","action_id":"a1","result":{"refund_id":"r1"},"ts":"2026-05-09T09:30:00Z"}',
        ),
        (
            Abort(action_id="a1", error="declined", ts=TS),
            b'{"type":"ABORT","action_id":"a1","error":"declined","ts":"2026-05-09T09:30:00Z"}',
        ),
    ],
    ids=["intent", "complete", "abort"],
)
def test_the_bytes_of_a_record_never_change(record: WalRecord, data: bytes) -> None:
    """Each kind is told by its tag, and what was written by one version is read by every later one."""
    assert encode(record) == data
    assert decode(data) == record


@pytest.mark.req("R40")
@settings(deadline=None, max_examples=150)
@given(records)
def test_a_record_comes_back_as_it_was(record: WalRecord) -> None:
    """Whatever a call was given or brought, its record reads as it was written."""
    again = decode(encode(record))
    assert again == record
    assert type(again) is type(record)


@pytest.mark.req("R33")
@settings(deadline=None, max_examples=50)
@given(
    records,
    st.dictionaries(st.text(min_size=1, max_size=5).map("x_{}".format), json_values, min_size=1, max_size=2),
)
def test_fields_of_a_newer_version_are_passed_over(record: WalRecord, added: dict[str, Any]) -> None:
    """A record that a newer version wrote is still read."""
    data = orjson.dumps({**orjson.loads(encode(record)), **added})
    assert decode(data) == record


def test_a_record_is_frozen() -> None:
    """What was written down is not changed afterwards."""
    record = Abort(action_id="a1", error="e", ts=TS)
    with pytest.raises(AttributeError):
        record.error = "other"  # type: ignore[misc]  # the very thing that must fail


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b'{"type":"MAYBE","action_id":"a","ts":"t"}',
        b'{"type":"INTENT","action_id":"a","ts":"t"}',
        b'{"type":"COMPLETE","action_id":1,"result":null,"ts":"t"}',
        b'{"type":"ABORT","action_id":"a","error":null,"ts":"t"}',
        b'{"action_id":"a","error":"e","ts":"t"}',
        b'{"type":"ABORT","action_id":"a","error":"e","ts":"t"',
    ],
)
def test_what_is_no_record_does_not_load(data: bytes) -> None:
    """A missing field, a wrong type, an unknown kind or half a line is an error and never a guess."""
    with pytest.raises(msgspec.MsgspecError):
        decode(data)
