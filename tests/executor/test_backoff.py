"""How long to wait before a retry."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.contracts.runs.invocation import Backoff
from tercet.core.answers import delay_ms

BACKOFFS = st.builds(
    Backoff,
    base_ms=st.integers(0, 10_000),
    maximum_ms=st.integers(0, 100_000),
    jitter_ms=st.integers(0, 10_000),
)


@pytest.mark.req("R121")
@given(BACKOFFS, st.integers(0, 1_000), st.floats(0, 1, exclude_max=True))
def test_the_delay_doubles_up_to_its_maximum(backoff: Backoff, retry: int, drawn: float) -> None:
    """min(maximum, base * 2^retry + U(0, jitter)), whatever is drawn, and without ever overflowing."""
    delay = delay_ms(backoff, retry, lambda: drawn)
    grown = backoff.base_ms * 2 ** min(retry, 30)
    assert min(backoff.maximum_ms, grown) <= delay <= min(backoff.maximum_ms, grown + backoff.jitter_ms)
    assert delay == min(backoff.maximum_ms, grown + int(drawn * backoff.jitter_ms))


def test_the_usual_delays() -> None:
    """A tenth of a second, doubled each time, ten seconds at most."""
    assert [delay_ms(Backoff(), retry, lambda: 0.0) for retry in range(9)] == [
        100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000,
    ]  # fmt: skip
