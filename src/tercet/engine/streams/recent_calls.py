"""Recent calls of a tenant that resemble the one at a gate: the same payment, or another to the same account.

Every call with an effect claims a key that starts with the parameters it is compared by, followed by its time, newest
first. So finding similar calls is one short read, however many sessions there are. They are read when a gate is shown;
the approved digest does not cover them.

Also here: calls that the runs of a tenant may make only once in a period.

Every such call has a side stream, named by its tool and identity. A run appends a claim to it before it writes the INTENT
of the call, at the position that it has read up to: of two runs that claim at the same moment, one has to read again. A
claim is never removed. Whether it still counts follows from the session that made it:

| what the session says of the call                    | the claim |
|------------------------------------------------------|-----------|
| it happened                                          | counts    |
| it is in progress, or its outcome is unknown         | counts    |
| it has not begun, and the session may still begin it | counts    |
| it did not happen                                    | is void   |
| it was compensated as its tool declares              | is void   |
| it has not begun, and the session is over            | is void   |

A session that was removed can say nothing, so its claims count until their period is over.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from tercet.contracts.errors import InternalError, TercetError, UsageError
from tercet.contracts.shape import as_list, as_object
from tercet.contracts.tool import ToolSpec
from tercet.core import codec
from tercet.core import events as e
from tercet.core.fold.base import IllegalEvent
from tercet.core.prepared_call import params_digest
from tercet.core.same_calls import DAY_MS, CallOutcome, RecentCall, outcome_of, read_recent_key, recent_prefix
from tercet.core.state import OpenGate, State
from tercet.engine.session_reader import load_history, load_state
from tercet.journal.errors import JournalCorrupt
from tercet.journal.protocol import ClaimHolder, Journal
from tercet.journal.side_stream import append_at, encode_entry, read_all
from tercet.policy.call_params import canonical_params, repeat_params
from tercet.quality.rubric.safety import find_any_secrets
from tercet.tools.secrets import REDACTED, is_secret

MOST = 10
"""How many recent calls are found for a gate."""
MAX_AGE_MS = 30 * DAY_MS
_READ = 100
"""How many calls are looked through; identical ones among them are shown first."""
_DEEPEST = 20


async def recent_calls(
    journal: Journal, tenant: str, session: str, gate: OpenGate, now: int
) -> tuple[RecentCall, ...]:
    """Return recent calls that resemble those of a gate: identical ones first, then the newest."""
    others = (as_object(other) or {} for other in as_list(gate.shown.get("sequence")) or ())
    found: dict[tuple[str, str], RecentCall] = {}
    for call in (gate.shown, *others):
        if (given := as_object(call.get("marks"))) is not None:
            marks = msgspec.convert(given, e.CallMarks)
            own = (session, str(call.get("step", gate.step)))
            found |= await _find_like(journal, tenant, marks, own, now)
    return tuple(sorted(found.values(), key=lambda call: (not call.identical, -call.at)))[:MOST]


async def _find_like(
    journal: Journal, tenant: str, marks: e.CallMarks, own: tuple[str, str], now: int
) -> dict[tuple[str, str], RecentCall]:
    """Return at most `MOST` similar calls, by session and key: the last attempt of each."""
    claimed = await journal.claims(tenant, recent_prefix(marks), limit=_READ)
    keys = ((read_recent_key(key), holder) for key, holder in claimed)
    recent = [(key, holder) for key, holder in keys if key is not None and key.at >= now - MAX_AGE_MS]
    recent.sort(key=lambda each: each[0].same != marks.same)
    found: dict[tuple[str, str], RecentCall] = {}
    for key, holder in recent:
        event = await _read_intent(journal, tenant, holder, key.seq)
        if event is None or event.marks is None or (holder.stream, event.step) == own:
            continue
        name = holder.stream, event.key
        if (known := found.get(name)) is not None:
            found[name] = msgspec.structs.replace(known, attempts=known.attempts + 1)
        elif len(found) == MOST:
            break
        else:
            found[name] = RecentCall(
                session=holder.stream,
                step=event.step,
                at=event.at,
                identical=event.marks.same == marks.same,
                outcome=await _outcome(journal, tenant, holder.stream, event.key),
                params={
                    name: _mask(name, event.params[name]) for name in marks.names if name in event.params
                },
            )
    return found


async def _read_intent(journal: Journal, tenant: str, holder: ClaimHolder, seq: int) -> e.Intent | None:
    """Return the INTENT of a call; None if it cannot be read."""
    stored = await journal.read(tenant, holder.stream, after=seq - 1, limit=1)
    try:
        event = codec.decode(stored[0].data) if stored else None
    except codec.CodecError:
        return None
    return event if isinstance(event, e.Intent) else None


async def _outcome(journal: Journal, tenant: str, session: str, key: str) -> CallOutcome:
    try:
        return outcome_of(await load_state(journal, tenant, session), key)
    except TercetError:  # damaged, or written by a newer version
        return "unknown"


def _mask(name: str, value: Any, depth: int = _DEEPEST) -> Any:
    """Return a value with everything masked that looks like a secret by name or shape."""
    if is_secret(name, value) or not depth:
        return REDACTED
    if (members := as_object(value)) is not None:
        return {key: _mask(key, member, depth - 1) for key, member in members.items()}
    if (items := as_list(value)) is not None:
        return [_mask("", item, depth - 1) for item in items]
    if not isinstance(value, str):
        return value
    for secret in reversed(find_any_secrets(value)):
        if secret.kind != "random string":
            value = f"{value[: secret.start]}{REDACTED}{value[secret.end :]}"
    return value


KIND = "once"
"""The prefix of the names of these streams."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """That a session is about to make a call."""

    session: str
    step: str
    key: str
    at: int
    position: int
    """The last position of the session at that time: its INTENT comes later."""


_decode = msgspec.json.Decoder(Claim).decode


class Repeats:
    """The claims on one call of a tenant, as one of its sessions sees them."""

    def __init__(self, journal: Journal, state: State, tool: ToolSpec, step: str) -> None:
        if tool.once_per is None:
            raise InternalError(f"{tool.name} may be called any number of times")
        self._journal = journal
        self._state = state
        self._tenant, self._session = state.start.tenant, state.start.session
        self._tool = tool
        self._once = tool.once_per
        self._step = step

    async def find(self, params: dict[str, Any], key: str, now: int) -> tuple[e.EarlierCall, ...]:
        """Return the other calls that count within the period, the oldest first."""
        return (await self._read(params, key, now))[1]

    async def claim(
        self, params: dict[str, Any], key: str, now: int, known: Collection[e.EarlierCall]
    ) -> tuple[e.EarlierCall, ...]:
        """Claim a call, and return nothing; or return the calls that count, if one of them is not known."""
        stream = self._streams(params)[0]
        accepted = {(call.session, call.key) for call in known}
        claim = Claim(session=self._session, step=self._step, key=key, at=now, position=self._state.position)
        data = encode_entry(claim, self._tenant, stream)
        while True:
            position, found = await self._read(params, key, now)
            if any((call.session, call.key) not in accepted for call in found):
                return found
            if await append_at(self._journal, self._tenant, stream, position, data) is not None:
                return ()  # otherwise another session claimed it at the same moment

    def _streams(self, params: dict[str, Any]) -> list[str]:
        """Return the stream of the claims on a call, and the one that earlier rules gave them if it is another."""
        compared = (canonical_params(self._tool, params, reads_all=reads_all) for reads_all in (True, False))
        digests = (params_digest(self._tool.name, repeat_params(self._tool, each)) for each in compared)
        return list(dict.fromkeys(f"{KIND}:{self._tool.name}:{identity}" for identity in digests))

    async def _read(
        self, params: dict[str, Any], key: str, now: int
    ) -> tuple[int, tuple[e.EarlierCall, ...]]:
        """Return where the stream of a call ends, and the calls of others that count."""
        stored = [await read_all(self._journal, self._tenant, stream) for stream in self._streams(params)]
        claims = [_decode(each.data) for one in stored for each in one]
        calls: dict[tuple[str, str], Claim] = {}
        for claim in claims:
            before = calls.get((claim.session, claim.key))
            # Not the last one: a process that lost its lease may claim late, for a position long past.
            if before is None or claim.position >= before.position:
                calls[claim.session, claim.key] = claim
        since = now - self._once.days * DAY_MS
        others = [
            call
            for call in calls.values()
            if call.at >= since and (call.session, call.key) != (self._session, key)
        ]
        found = [(call, await self._outcome(call)) for call in others]
        counting = (
            e.EarlierCall(session=call.session, step=call.step, key=call.key, at=call.at, outcome=outcome)
            for call, outcome in found
            if outcome in ("done", "unknown")
        )
        return len(stored[0]), tuple(sorted(counting, key=lambda call: (call.at, call.session, call.key)))

    async def _outcome(self, claim: Claim) -> CallOutcome:
        """Return the outcome of a claimed call; that of a call that may still begin is unknown."""
        if claim.session == self._session:
            return outcome_of(self._state, claim.key)
        try:
            history = await load_history(self._journal, self._tenant, claim.session)
            state, later = history.state, history.events[claim.position :]
        except (UsageError, codec.CodecError, IllegalEvent, JournalCorrupt):  # gone, damaged, or newer
            return "unknown"
        has_begun = any(isinstance(event, e.Intent) and event.key == claim.key for event in later)
        return outcome_of(state, claim.key) if has_begun or state.is_over else "unknown"
