"""The sweep wakes what others have lost: also behind many sessions that no worker takes, and soon after Temporal was away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from msgspec.structs import replace

from tercet.cluster.sweep import Sweep
from tercet.journal.memory import MemoryJournal
from tercet.journal.protocol import SessionRow
from tercet.testing.clock import VirtualClock

ROW = SessionRow(
    session_id="ses_lost", tenant="acme", status="in_progress", pack="orders@1.0.0", pack_hash="sha256:0", snapshot="",
    intent="order.sell", owner="agent", started_at=0, updated_at=1_000_000,
)  # fmt: skip
WAITING_MS = 30_000


class Listed(MemoryJournal):
    """A journal whose sessions that could go on are given, the oldest first."""

    rows: Sequence[SessionRow] = ()

    async def resumable(
        self, *, now_ms: int, limit: int = 100, after: SessionRow | None = None
    ) -> list[SessionRow]:
        """Return as many of each tenant as are asked for."""
        first = 0 if after is None else self.rows.index(after) + 1
        counts: Counter[str] = Counter()
        found: list[SessionRow] = []
        for row in self.rows[first:]:
            counts[row.tenant] += 1
            if counts[row.tenant] <= limit:
                found.append(row)
        return found


@dataclass
class Temporal:
    """Takes wake-ups while it is up."""

    is_up: bool = True
    tried: list[str] = field(default_factory=list[str])

    async def wake(self, row: SessionRow) -> bool:
        """Note the wake-up, and say whether it was taken."""
        self.tried.append(row.session_id)
        return self.is_up


@pytest.fixture
def journal() -> Listed:
    """A journal with one session whose wake-up was lost."""
    listed = Listed()
    listed.rows = [ROW]
    return listed


async def test_sessions_that_no_worker_takes_do_not_hide_a_later_one(journal: Listed) -> None:
    """The workers of an old pack version are gone, and its sessions stay where they are."""
    stuck = [replace(ROW, session_id=f"ses_{number}", updated_at=number) for number in range(3_000)]
    journal.rows = [*stuck, ROW]
    temporal, clock = Temporal(), VirtualClock()
    sweep = Sweep(journal, cast("Any", temporal), clock)
    await _look(sweep, clock, WAITING_MS // 1_000)
    assert "ses_lost" in temporal.tried
    assert (
        max(map(temporal.tried.count, temporal.tried)) <= 6
    )  # those that wait are woken less and less often


@pytest.mark.parametrize("most_known", [100_000, 40])
async def test_a_session_is_found_behind_any_number_of_others(journal: Listed, most_known: int) -> None:
    """Two tenants have many pages of sessions that no worker takes; also more of them than are remembered."""
    stuck = [
        replace(ROW, session_id=f"ses_{number}", tenant=("acme", "bolt")[number % 3 > 1], updated_at=number)
        for number in range(300)
    ]
    journal.rows = [*stuck, ROW, replace(ROW, session_id="ses_also_lost", tenant="calm")]
    temporal, clock = Temporal(), VirtualClock()
    sweep = Sweep(journal, cast("Any", temporal), clock, page=5, most_known=most_known)
    await _look(sweep, clock, 2 + 1)
    assert "ses_also_lost" in temporal.tried  # a tenant with few sessions does not wait for one with many
    await _look(sweep, clock, 2 * 200 // 5)
    assert "ses_lost" in temporal.tried
    await _look(sweep, clock, 3_600)
    tried = Counter(temporal.tried)
    assert tried.keys() == {row.session_id for row in journal.rows}
    assert max(tried.values()) <= 3_600 / (200 // 5) + 5


async def _look(sweep: Sweep, clock: VirtualClock, times: int) -> None:
    for _ in range(times):
        await sweep.look()
        clock.advance(1_000)


async def test_a_session_is_woken_soon_after_temporal_is_back(journal: Listed) -> None:
    """A wake-up that was not taken is no reason to wait longer for the next."""
    temporal, clock = Temporal(is_up=False), VirtualClock()
    sweep = Sweep(journal, cast("Any", temporal), clock)
    await _look(sweep, clock, 600)
    temporal.is_up = True
    temporal.tried.clear()
    await _look(sweep, clock, 3)
    assert temporal.tried == ["ses_lost"]
