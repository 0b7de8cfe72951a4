"""W3C trace context: the caller's span, and the ids of a run's own spans.

No id is random. A trace id is derived from the run, and a span id from the position in the journal at which it began,
so every process that reads the same events derives the same ids, and a run that moved between processes is one trace.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256

from tercet.contracts.errors import UsageError

_TRACEPARENT = re.compile(r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})(?P<more>-.*)?")  # fmt: skip
_SAMPLED = 1


@dataclass(frozen=True, kw_only=True)
class TraceContext:
    """A span, by its ids, and whether its trace is recorded."""

    trace_id: str
    span_id: str
    is_sampled: bool = False

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.is_sampled else '00'}"


def read_traceparent(text: str) -> TraceContext:
    """Return the span in a `traceparent` header; raise `UsageError` if the header is invalid."""
    found = _TRACEPARENT.fullmatch(text.strip())
    if found is None or not _is_valid(found):
        raise UsageError(
            f"invalid traceparent {text[:80]!r}",
            code="wrong_traceparent",
            remedy="pass the header on unchanged, such as 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01, or omit it",
        )
    is_sampled = bool(int(found["flags"], 16) & _SAMPLED)
    return TraceContext(trace_id=found["trace"], span_id=found["span"], is_sampled=is_sampled)


def _is_valid(found: re.Match[str]) -> bool:
    """Version ff and ids of zeros are forbidden; only a later version may have more fields."""
    has_ids = any(found["trace"].strip("0")) and any(found["span"].strip("0"))
    return has_ids and found["version"] != "ff" and (found["version"] != "00" or not found["more"])


def trace_id_of(run: str, traceparent: str = "") -> str:
    """Return the trace of a run: the caller's, or its own."""
    return read_traceparent(traceparent).trace_id if traceparent else _hashed(f"{run}/trace", 32)


def span_id_of(run: str, position: int, kind: str) -> str:
    """Return the id of a span that begins with the event at a position of a run's journal."""
    return _hashed(f"{run}/{position}/{kind}", 16)


def _hashed(text: str, digits: int) -> str:
    return sha256(text.encode()).hexdigest()[:digits]
