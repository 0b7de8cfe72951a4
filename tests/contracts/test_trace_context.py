"""W3C trace context: what is read, what is refused, and ids that everybody comes to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.contracts.errors import UsageError
from tercet.contracts.runs.trace_context import TraceContext, read_traceparent, span_id_of, trace_id_of

HEX = "0123456789abcdef"
IDS = st.tuples(st.text(HEX, min_size=32, max_size=32), st.text(HEX, min_size=16, max_size=16)).filter(
    lambda ids: bool(ids[0].strip("0")) and bool(ids[1].strip("0"))
)


@given(IDS, st.booleans())
def test_a_span_is_read_as_it_was_written(ids: tuple[str, str], is_sampled: bool) -> None:
    """Writing and reading bring back the same span."""
    span = TraceContext(trace_id=ids[0], span_id=ids[1], is_sampled=is_sampled)
    assert read_traceparent(str(span)) == span


def test_a_later_version_may_say_more() -> None:
    """Of a version that is not known yet, what is known is read; other flags are left alone."""
    found = read_traceparent("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-03-what-ever")
    assert str(found) == "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x",
    ],
)
def test_what_names_no_span_is_refused(text: str) -> None:
    """The answer shows what one looks like."""
    with pytest.raises(UsageError) as caught:
        read_traceparent(text)
    assert caught.value.code == "wrong_traceparent"


def test_ids_belong_to_a_run_and_a_position() -> None:
    """The same place has the same id for everybody, another place another one, and a caller's trace is kept."""
    assert span_id_of("run_1", 3, "call") == span_id_of("run_1", 3, "call")
    places = [("run_1", 3, "call"), ("run_1", 4, "call"), ("run_2", 3, "call"), ("run_1", 3, "phase")]
    assert len({span_id_of(*place) for place in places}) == 4
    assert (len(trace_id_of("run_1")), len(span_id_of("run_1", 1, "run"))) == (32, 16)
    asked = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    assert trace_id_of("run_1", asked) == "4bf92f3577b34da6a3ce929d0e0e4736" != trace_id_of("run_1")
