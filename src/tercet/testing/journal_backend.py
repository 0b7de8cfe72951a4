"""Helpers of the journal suite: the backend type, units and rows."""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec.structs import replace

from tercet.journal.protocol import Append, Journal, SessionRow
from tercet.testing.expectation import StoreBackend

Backend: TypeAlias = StoreBackend[Journal]
"""How the suite opens the journal under test."""


def unit(tenant: str, expected: int = 0, *events: bytes, stream: str = "ses_1", **parts: Any) -> Append:
    """Return a unit with these events."""
    return Append(tenant=tenant, stream=stream, expected=expected, events=events, **parts)


def session_row(tenant: str, session_id: str = "ses_1", *, started_at: int = 1, **parts: Any) -> SessionRow:
    """Return a session's row with a value in every column."""
    row = SessionRow(
        session_id=session_id, tenant=tenant, status="in_progress", pack="refunds@1.0.0", pack_hash="sha256:00",
        snapshot="snap_1", intent="support.refund", owner="ann", started_at=started_at, updated_at=started_at,
        next_step="s1", details=b'{"a":1}',
    )  # fmt: skip
    return replace(row, **parts)
