"""Retention: sessions that ended long enough ago are removed, with everything that belongs to them.

A session that needs a person is never removed: neither one that is not over, nor one with an effect that could not be
compensated and has not been settled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from tercet.contracts.errors import TercetError, UsageError
from tercet.core import events as e
from tercet.core.messages import inbox_of
from tercet.core.same_calls import recent_claim, shorten_session
from tercet.core.state import TERMINAL
from tercet.engine.leases import LeaseClient
from tercet.engine.ledger import ROW_MS
from tercet.engine.rows import each_once
from tercet.engine.session_reader import load_history, load_state
from tercet.engine.sessions import request_claim
from tercet.engine.streams import artifacts, nesting
from tercet.engine.streams.experience import feedback_of
from tercet.engine.streams.kinds import lost_of
from tercet.engine.streams.notices import forget_notice, is_notable, notice_of
from tercet.journal.errors import JournalBusy, JournalClosed, JournalFull, JournalUnavailable, LeaseHeld
from tercet.journal.protocol import SessionRow

DAY_MS = 24 * 3_600_000


def demand_age(older_than_ms: int | None, retention_days: int | None) -> int | None:
    """Return the age in ms at which sessions are removed; None if none are. Raises `UsageError` for a negative age."""
    if older_than_ms is not None and older_than_ms < 0:
        raise UsageError(
            f"invalid age of {older_than_ms:,} ms",
            code="wrong_age",
            remedy="give a positive time since the end of a session",
        )
    if older_than_ms is not None:
        return older_than_ms
    return None if retention_days is None else retention_days * DAY_MS


async def prune(
    leases: LeaseClient,
    *,
    before_ms: int,
    is_ours: Callable[[SessionRow], bool],
    signal: Callable[[str, dict[str, Any]], None],
) -> int:
    """Remove the sessions that ended before a time, and return their number.

    A session that cannot be read stays, since it may need a person, and is reported as the signal `prune_failed`.
    """
    forgotten = 0
    statuses = tuple(sorted(TERMINAL))
    async for row in each_once(
        lambda limit: leases.journal.ended(leases.tenant, before_ms=before_ms, statuses=statuses, limit=limit)
    ):
        if not is_ours(row):
            continue
        try:
            forgotten += await _forget(leases, row.session_id)
        except LeaseHeld:
            continue  # the process that ended it is just releasing it
        except (JournalUnavailable, JournalBusy, JournalFull, JournalClosed):
            raise
        except TercetError as error:
            signal("prune_failed", {"session_id": row.session_id, "reason": error.message})
    return forgotten


async def _forget(leases: LeaseClient, session: str) -> bool:
    """Remove a session with its side streams, unless an operator still has to settle an effect."""
    journal, tenant = leases.journal, leases.tenant
    state = await load_state(journal, tenant, session)
    result = await artifacts.rollback_result(journal, tenant, state)
    if result is not None and result.requires_manual_intervention:
        return False
    beside = [
        inbox_of(session),
        lost_of(session),
        artifacts.rollback_of(session),
        feedback_of(session),
        nesting.family_of(session),
    ]
    if (root := state.start.root) and not (await journal.head(tenant, root)).seq:
        beside.append(nesting.family_of(root))  # a child may have written to it after its root was removed
    history = await load_history(journal, tenant, session)
    for position, event in enumerate(history.events, start=1):
        if is_notable(event, state):
            await forget_notice(leases, notice_of(session, position))
    # The session itself is removed last, so that an interrupted removal is continued the next time.
    for stream in (*beside, session):
        if (await journal.head(tenant, stream)).seq:
            await journal.forget((await leases.acquire_ended(stream)).lease)
    return True


class ExpectedClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim that a session must hold."""

    keys: tuple[str, ...]
    """The key, and its forms in earlier versions."""
    seq: int
    """The event that made it; the claim names the end of the append that holds this event."""


def add_row(rows: deque[SessionRow], row: SessionRow) -> None:
    """Add the row after an event, and drop rows that can no longer be the stored one.

    Within a second, steps alone do not change the stored row.
    """
    if rows and (rows[-1].status, rows[-1].details) != (row.status, row.details):
        rows.clear()
    while rows and row.updated_at - rows[0].updated_at >= ROW_MS:
        rows.popleft()
    rows.append(row)


def expected_claims(events: Sequence[e.Event]) -> list[ExpectedClaim]:
    """Return the claims that a session's events have made: its request key, the key of every call, and the key by which
    other runs find the call."""
    found: dict[str, ExpectedClaim] = {}
    session = next((event.session for event in events if isinstance(event, e.SessionStarted)), "")
    by = shorten_session(session)
    for seq, event in enumerate(events, 1):
        match event:
            case e.SessionStarted() if not event.shadow and event.request.get("request_key") is not None:
                key = str(event.request["request_key"])
                pack = event.pack.partition("@")[0]
                keys = (request_claim(pack, str(event.actor["id"]), key), f"request:{key}")
                found[keys[0]] = ExpectedClaim(keys=keys, seq=seq)
            case e.Intent() if event.tool:
                found.setdefault(event.key, ExpectedClaim(keys=(event.key,), seq=seq))
                if (key := recent_claim(event, by, seq)) is not None:
                    earlier = str(recent_claim(event, by, seq, is_long=True))
                    found[key] = ExpectedClaim(keys=(key, earlier), seq=seq)
            case _:
                pass
    return list(found.values())


def find_claim_faults(
    expected: Sequence[ExpectedClaim],
    held: Mapping[str, int],
    last: int,
    points: Sequence[int],
    turns: Sequence[int],
) -> list[tuple[str, str]]:
    """Return each key whose claim is missing, at the wrong event or not this session's, with what is wrong.

    `held` maps the keys that the session holds to their events, `last` is its last event, and `turns` are the events that changed the phase:
    an append that holds one ends in a point.
    """
    faults: list[tuple[str, str]] = []
    known: set[str] = set()
    for claim in expected:
        known.update(claim.keys)
        key = next((key for key in claim.keys if key in held), None)
        if key is None:
            faults.append((claim.keys[0], f"it is missing; event {claim.seq} made it"))
            continue
        end = held[key]
        is_split = any(claim.seq <= point < end for point in points)
        is_short = end not in points and any(claim.seq <= turn <= end for turn in turns)
        if not claim.seq <= end <= last or is_split or is_short:
            faults.append((key, f"it names event {end}, and the append that made it does not end there"))
    faults += [(key, "no event of this session made it") for key in held if key not in known]
    return faults


def find_missing_points(events: Sequence[e.Event], points: Sequence[int]) -> list[int]:
    """Return the positions of step verdicts without a point; each must have one before a later call ends."""
    missing: list[int] = []
    begun: dict[tuple[str, int], int] = {}
    waiting: list[int] = []
    at = set(points)
    for seq, event in enumerate(events, 1):
        match event:
            case e.StepJudged():
                waiting.append(seq)
            case e.Intent() if event.tool:
                begun[event.step, event.attempt] = seq
            case e.Complete() | e.Abort():
                since = begun.get((event.step, event.attempt), 0)
                missing += [each for each in waiting if each < since]
                waiting = [each for each in waiting if each > since]
            case _:
                pass
        if seq in at:
            waiting = []
    return [*missing, *waiting]
