"""Recent calls of a tenant that are like one a person is asked about: the same payment, or another to the same account.

Every call with an effect claims a key that begins with what it is compared by, followed by its time, the newest first. So
the recent calls like another are one short read, however many sessions there are. They are looked up when a gate is shown;
no answer binds to them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tercet.contracts.errors import TercetError
from tercet.contracts.shape import as_list, as_object
from tercet.core import codec
from tercet.core import events as e
from tercet.core.same_calls import DAY_MS, CallOutcome, outcome_of, read_recent_key, recent_prefix
from tercet.core.state import OpenGate
from tercet.critic.outputs.credentials import find_any_secrets
from tercet.engine.session_reader import load_state
from tercet.journal.protocol import ClaimHolder, Journal
from tercet.tools.secrets import REDACTED, is_secret

MOST = 5
"""How many recent calls a gate shows."""
MAX_AGE_MS = 30 * DAY_MS
_READ = 100
"""How many calls are looked through; identical ones among them are shown first."""
_DEEPEST = 20


class RecentCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that a run of the tenant has made, beside one that a gate asks about."""

    session: str
    step: str
    at: int
    identical: bool
    """Whether it is the same call; otherwise only the first parameter that it is compared by is the same."""
    outcome: CallOutcome
    params: dict[str, Any]
    """The parameters that it is compared by, without secrets."""


async def recent_calls(
    journal: Journal, tenant: str, session: str, gate: OpenGate, now: int
) -> tuple[RecentCall, ...]:
    """Return recent calls like those that a gate asks about: identical ones first, then the newest."""
    others = (as_object(other) or {} for other in as_list(gate.shown.get("sequence")) or ())
    found: dict[tuple[str, int], RecentCall] = {}
    for call in (gate.shown, *others):
        if (given := as_object(call.get("marks"))) is not None:
            marks = msgspec.convert(given, e.CallMarks)
            own = (session, str(call.get("step", gate.step)))
            found |= await _find_like(journal, tenant, marks, own, now)
    return tuple(sorted(found.values(), key=lambda call: (not call.identical, -call.at)))[:MOST]


async def _find_like(
    journal: Journal, tenant: str, marks: e.CallMarks, own: tuple[str, str], now: int
) -> dict[tuple[str, int], RecentCall]:
    """Return at most `MOST` calls like one, by session and position."""
    claimed = await journal.claims(tenant, recent_prefix(marks), limit=_READ)
    keys = ((read_recent_key(key), holder) for key, holder in claimed)
    recent = [(key, holder) for key, holder in keys if key is not None and key.at >= now - MAX_AGE_MS]
    recent.sort(key=lambda each: each[0].same != marks.same)
    found: dict[tuple[str, int], RecentCall] = {}
    for key, holder in recent:
        call = await _read_call(journal, tenant, holder, key.seq, marks)
        if call is not None and (call.session, call.step) != own:
            found[holder.stream, key.seq] = call
        if len(found) == MOST:
            break
    return found


async def _read_call(
    journal: Journal, tenant: str, holder: ClaimHolder, seq: int, marks: e.CallMarks
) -> RecentCall | None:
    """Return a call by its INTENT; None if that cannot be read."""
    stored = await journal.read(tenant, holder.stream, after=seq - 1, limit=1)
    try:
        event = codec.decode(stored[0].data) if stored else None
    except codec.CodecError:
        return None
    if not isinstance(event, e.Intent) or event.marks is None:
        return None
    return RecentCall(
        session=holder.stream,
        step=event.step,
        at=event.at,
        identical=event.marks.same == marks.same,
        outcome=await _outcome(journal, tenant, holder.stream, event.key),
        params={name: _masked(name, event.params[name]) for name in marks.names if name in event.params},
    )


async def _outcome(journal: Journal, tenant: str, session: str, key: str) -> CallOutcome:
    try:
        return outcome_of(await load_state(journal, tenant, session), key)
    except TercetError:  # damaged, or written by a newer version
        return "unknown"


def _masked(name: str, value: Any, depth: int = _DEEPEST) -> Any:
    """Return a value without what its name or its shape says is a secret."""
    if is_secret(name, value) or not depth:
        return REDACTED
    if (members := as_object(value)) is not None:
        return {key: _masked(key, member, depth - 1) for key, member in members.items()}
    if (items := as_list(value)) is not None:
        return [_masked("", item, depth - 1) for item in items]
    if not isinstance(value, str):
        return value
    for secret in reversed(find_any_secrets(value)):
        if secret.kind != "random string":
            value = f"{value[: secret.start]}{REDACTED}{value[secret.end :]}"
    return value
