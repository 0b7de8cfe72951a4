"""What sessions count for, kept so that sessions that have not changed are not read again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from tercet.core import events as e
from tercet.engine.session_reader import load_history
from tercet.journal.protocol import Journal, SessionRow
from tercet.observe.tally import Figures, Recorded, Tally, count_run, figures_of

_KEPT = 4_000


@dataclass(frozen=True, kw_only=True)
class Counted:
    """What one session counts for."""

    started_at: int
    status: str
    intent: str
    tier: str
    tally: Tally


@dataclass(frozen=True, kw_only=True)
class Window:
    """The sessions that were counted, newest first."""

    sessions: tuple[Counted, ...]
    damaged: int
    is_cut: bool
    """Whether there are more sessions in the window than are read."""


@dataclass
class TallyCache:
    """The counts of sessions that were read, by their last change; the least recently used go first."""

    kept: OrderedDict[tuple[str, str, int], Counted] = field(
        default_factory=OrderedDict[tuple[str, str, int], Counted]
    )

    async def count(self, journal: Journal, tenant: str, row: SessionRow) -> Counted:
        """Return what a session counts for; one that has not changed since is not read again."""
        key = (tenant, row.session_id, row.updated_at)
        found = self.kept.pop(key, None) or await _count(journal, tenant, row)
        self.kept[key] = found
        while len(self.kept) > _KEPT:
            self.kept.popitem(last=False)
        return found


async def _count(journal: Journal, tenant: str, row: SessionRow) -> Counted:
    history = await load_history(journal, tenant, row.session_id, has_checkpoints=True)
    tally, started = Tally(), history.events[0]
    count_run(
        tally,
        Recorded(
            events=history.events, checkpoints=[(each.kind, len(each.data)) for each in history.checkpoints]
        ),
    )
    tier = started.risk_tier if isinstance(started, e.SessionStarted) else ""
    return Counted(
        started_at=row.started_at,
        status=row.status,
        intent=row.intent,
        tier=tier or "unknown",
        tally=tally,
    )


async def read_window(journal: Journal, tenant: str, cache: TallyCache, *, after: int, most: int) -> Window:
    """Return the counts of the newest sessions that began after a time: at most so many are looked at."""
    found: list[Counted] = []
    looked, damaged, before = 0, 0, None
    while looked < most and (
        page := await journal.sessions(tenant, limit=min(200, most - looked), before=before)
    ):
        for row in page:
            looked += 1
            if row.started_at < after:
                return Window(sessions=tuple(found), damaged=damaged, is_cut=False)
            try:
                found.append(await cache.count(journal, tenant, row))
            except Exception:  # noqa: BLE001 - damaged events can fail in any way, and are counted as damaged
                damaged += 1
        before = page[-1].session_id
    return Window(sessions=tuple(found), damaged=damaged, is_cut=looked >= most)


def figures_for(sessions: Sequence[Counted]) -> Figures:
    """Return the figures of some sessions, as `tercet stats` prints them."""
    total = Tally()
    for each in sessions:
        total.merge(each.tally)
    return figures_of(total)
