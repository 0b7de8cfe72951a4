"""Calls that the runs of a tenant may make only once in a period: who made one, and who may make the next.

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

from tercet.contracts.errors import InternalError
from tercet.contracts.tool import ToolSpec
from tercet.core import codec
from tercet.core import events as e
from tercet.core.fold.base import IllegalEvent
from tercet.core.same_calls import DAY_MS, CallOutcome, outcome_of, params_digest
from tercet.core.state import State
from tercet.engine import sessions as opening
from tercet.journal.errors import JournalCorrupt, PositionConflict
from tercet.journal.protocol import Append, Journal
from tercet.journal.side_stream import name_owner, read_all
from tercet.policy.call_params import repeat_params

KIND = "once"
"""What the names of these streams begin with."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """That a session is about to make a call."""

    session: str
    step: str
    key: str
    at: int
    position: int
    """Where the session ended: its INTENT comes after this position."""


_decode = msgspec.json.Decoder(Claim).decode


class Repeats:
    """The claims on one call of a tenant, as one of its sessions sees them."""

    def __init__(self, journal: Journal, state: State, tool: ToolSpec, step: str) -> None:
        if tool.once_per is None:
            raise InternalError(f"{tool.name} may be called any number of times")
        self._journal = journal
        self._state = state
        self._tenant, self._session = str(state.start.tenant), str(state.start.session)
        self._tool = tool
        self._once = tool.once_per
        self._step = step

    async def find(self, params: dict[str, Any], key: str, now: int) -> tuple[e.EarlierCall, ...]:
        """Return the other calls that count within the period, the oldest first."""
        return (await self._read(self._stream(params), key, now))[1]

    async def claim(
        self, params: dict[str, Any], key: str, now: int, known: Collection[e.EarlierCall]
    ) -> tuple[e.EarlierCall, ...]:
        """Claim a call, and return nothing; or return the calls that count, if one of them is not known."""
        stream = self._stream(params)
        accepted = {(call.session, call.key) for call in known}
        claim = Claim(session=self._session, step=self._step, key=key, at=now, position=self._state.position)
        while True:
            position, found = await self._read(stream, key, now)
            if any((call.session, call.key) not in accepted for call in found):
                return found
            data = name_owner(msgspec.json.encode(claim), self._tenant, stream)
            unit = Append(tenant=self._tenant, stream=stream, expected=position, events=(data,))
            try:
                await self._journal.append(unit)
            except PositionConflict:
                continue  # another session claimed it at the same moment
            return ()

    def _stream(self, params: dict[str, Any]) -> str:
        identity = params_digest(self._tool.name, repeat_params(self._tool, params))
        return f"{KIND}:{self._tool.name}:{identity}"

    async def _read(self, stream: str, key: str, now: int) -> tuple[int, tuple[e.EarlierCall, ...]]:
        """Return where a stream ends, and the calls of others that count."""
        claims = [_decode(stored.data) for stored in await read_all(self._journal, self._tenant, stream)]
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
        return len(claims), tuple(sorted(counting, key=lambda call: (call.at, call.session, call.key)))

    async def _outcome(self, claim: Claim) -> CallOutcome:
        """Return what became of a claimed call; one that may still begin is unknown."""
        if claim.session == self._session:
            return outcome_of(self._state, claim.key)
        state, has_begun = State(), False
        try:
            for record in await read_all(self._journal, self._tenant, claim.session):
                state = opening.fold_stored(state, record, claim.session)
                if record.seq > claim.position and not has_begun:
                    event = codec.decode(record.data)
                    has_begun = isinstance(event, e.Intent) and event.key == claim.key
        except (codec.CodecError, IllegalEvent, JournalCorrupt):  # damaged, or written by a newer version
            return "unknown"
        if not has_begun and not state.is_over:
            return "unknown"
        return outcome_of(state, claim.key)
