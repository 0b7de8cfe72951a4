"""How long to wait before a retry: a value, decided here and recorded before anybody waits."""

from __future__ import annotations

from collections.abc import Callable

from tercet.contracts.invocation import Backoff


def delay_ms(backoff: Backoff, retry: int, draw: Callable[[], float]) -> int:
    """min(maximum, base * 2^retry + a draw from the jitter)."""
    jitter = int(draw() * backoff.jitter_ms)
    return min(backoff.maximum_ms, backoff.base_ms * 2 ** min(retry, 30) + jitter)
