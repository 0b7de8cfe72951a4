"""Waiting until a pack version is drained goes on while Temporal is away, and a count says what is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest
from temporalio.service import RPCError, RPCStatusCode

from tercet.cluster import drain
from tercet.cluster.drain import Remaining, count_remaining, wait_drained
from tercet.contracts.errors import GatewayError, UsageError
from tercet.journal.memory import MemoryJournal

PACK = "orders@1.0.0"


@dataclass
class Temporal:
    """Has no workflow, and is away for the first counts."""

    away: int

    async def count_workflows(self, query: str) -> Any:
        """Return a count of none."""
        del query
        self.away -= 1
        if self.away >= 0:
            raise RPCError("connection refused", RPCStatusCode.UNAVAILABLE, b"")
        return cast("Any", type("Count", (), {"count": 0}))


async def test_waiting_goes_on_while_temporal_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session may wait for a month, and Temporal is restarted meanwhile."""
    monkeypatch.setattr(drain, "POLL_S", 0)
    told: list[Remaining] = []
    await wait_drained(cast("Any", Temporal(away=3)), MemoryJournal(), PACK, told.append)
    assert [each.is_drained for each in told] == [True]


@pytest.mark.parametrize(
    ("pack", "away", "error", "code"),
    [(PACK, 1, GatewayError, "temporal_unreachable"), ("orders", 0, UsageError, "unknown_pack")],
)
async def test_a_count_that_cannot_be_made_is_refused(
    pack: str, away: int, error: type[GatewayError | UsageError], code: str
) -> None:
    """Zero would say that the workers can stop."""
    with pytest.raises(error) as refused:
        await count_remaining(cast("Any", Temporal(away=away)), MemoryJournal(), pack)
    assert refused.value.code == code
