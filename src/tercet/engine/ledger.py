"""The ledger of a session: its state, what has been recorded and not written yet, and the append that writes it.

What is recorded between two writes is one unit: all of it becomes durable, or nothing. Events, the checkpoint behind
them, blobs, claims and the session's row go together, so that a verdict whose checkpoint cannot be written was never
given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any, Protocol, TypeVar

import msgspec

from tercet.core import codec
from tercet.core import events as e
from tercet.core.run import Run
from tercet.core.same_calls import recent_claim, shorten_session
from tercet.core.state import State
from tercet.core.table import TABLE
from tercet.engine import checkpoint
from tercet.engine.leases import Tenure
from tercet.engine.rows import row_of
from tercet.engine.services import Services
from tercet.engine.session_reader import load_history
from tercet.journal.errors import JournalError
from tercet.journal.protocol import Append, NewCheckpoint, Position, SessionRow

ROW_MS = 1_000
"""How far a session's row may lag behind while nothing but its steps get on."""


_T = TypeVar("_T")


class Aside(Protocol):
    """Runs work whose duration grows with the session, without blocking the event loop."""

    async def __call__(self, work: Callable[[], _T], /) -> _T:
        """Return the result of the work."""
        ...


@dataclass
class Unit:
    """What one append will hold, and the calls that may begin once it is durable."""

    events: list[e.Event] = field(default_factory=list[e.Event])
    blobs: list[bytes] = field(default_factory=list[bytes])
    claims: list[str] = field(default_factory=list[str])
    begin: list[tuple[int, e.Intent]] = field(default_factory=list[tuple[int, e.Intent]])
    """The calls with the positions of their INTENT."""
    verdict: str = ""
    """What was decided last: such a unit ends in a checkpoint."""
    checkpoints: tuple[NewCheckpoint, ...] = ()
    """The checkpoints that were written with it."""


class Ledger:
    """One session as it stands, and what of that is still to be written."""

    def __init__(self, around: Services, run: Run, tenure: Tenure, *, tail_bytes: int = 0) -> None:
        self.run = run
        self.unit = Unit()
        self.log: list[e.Event] = []
        """The events that this process has written."""
        self.bell = 0
        """What the journal's bell said with the last append."""
        self._around = around
        self._tenure = tenure
        self._tenant, self._stream, self._epoch = tenure.lease.tenant, tenure.lease.stream, tenure.lease.epoch
        self._by = shorten_session(self._stream)
        self._before_last = run.state
        """The state before the last event: what a fold holds, so that the event can carry its hash."""
        self._tail_bytes = self.weight = tail_bytes
        """`weight` is how many bytes of events this process has read or written."""
        self._fold_bytes = 0
        self._listed: tuple[tuple[Any, ...], int] = ((), 0)
        """What the session's row says, and since when."""

    @property
    def state(self) -> State:
        """The state of the run, with what is still to be written."""
        return self.run.state

    def record(self, event: e.Event) -> None:
        """Fold an event, which the next write makes durable; a verdict and a new phase are checkpoints. Raises
        `IllegalEvent`."""
        before = self.run.state
        if event.at < before.at:  # it was begun before what was recorded meanwhile, such as a model's answer
            event = msgspec.structs.replace(event, at=before.at)
        after = self.run.fold(event)
        self._before_last = before
        unit = self.unit
        unit.events.append(event)
        if type(event) is e.Intent and event.tool:
            self._claim(event)
        if after.phase is not before.phase:
            unit.verdict = str(after.phase)
        if (label := TABLE[type(event)].label) is not None:
            # A checkpoint at the end of this unit; of several only the last one says anything that the others do not.
            unit.verdict = label(event, after)

    def _claim(self, intent: e.Intent) -> None:
        """Claim the action of a call, which begins once the unit is durable."""
        unit = self.unit
        unit.claims.append(intent.key)
        position = self.run.state.position
        if (recent := recent_claim(intent, self._by, position)) is not None:
            unit.claims.append(recent)
        unit.begin.append((position, intent))

    async def write(self, *, in_thread: Aside | None = None, is_folded: bool = False) -> Unit:
        """Append what has been recorded, encoded in a thread where one is given, and return the unit that is durable now."""
        unit = self.unit
        self.unit = Unit()
        if in_thread is None:
            encoded = self._encode_unit(unit, is_folded=is_folded)
        else:
            encoded = await in_thread(partial(self._encode_unit, unit, is_folded=is_folded))
        if (waiting := self._around.crash("before_append")) is not None:
            await waiting
        position = await self._append(unit, encoded, unit.checkpoints)
        if (waiting := self._around.crash("after_append")) is not None:
            await waiting
        self.bell = position.bell
        self.log += unit.events
        return unit

    def _encode_unit(self, unit: Unit, *, is_folded: bool) -> tuple[bytes, ...]:
        """The bytes of a unit's events; its checkpoints are made with them."""
        encoded = [codec.encode(event) for event in unit.events]
        size = sum(map(len, encoded))
        self._tail_bytes += size
        self.weight += size
        folds = self._folds(is_folded=is_folded)
        for fold in folds:
            encoded[-1] = codec.encode(unit.events[-1], fold=sha256(fold.data).digest())
        points = (checkpoint.point(self.state, unit.verdict),) if unit.verdict else ()
        unit.checkpoints = (*points, *folds)
        return tuple(encoded)

    def _folds(self, *, is_folded: bool) -> tuple[NewCheckpoint, ...]:
        """A fold, where the tail behind the last one has outgrown it or one is asked for."""
        outgrown = max(checkpoint.SMALLEST_FOLD, checkpoint.TAIL * self._fold_bytes)
        if not self._before_last.position or (not is_folded and self._tail_bytes <= outgrown):
            return ()
        folded = checkpoint.fold(self._before_last)
        self._fold_bytes, self._tail_bytes = len(folded.data), 0
        return (folded,)

    async def _append(
        self, unit: Unit, encoded: tuple[bytes, ...], checkpoints: tuple[NewCheckpoint, ...]
    ) -> Position:
        first = self._tenure.request()
        try:
            position = await self._around.journal.append(
                Append(
                    tenant=self._tenant,
                    stream=self._stream,
                    expected=self.state.position - len(unit.events),
                    epoch=None if first else self._epoch,
                    lease=first,
                    events=encoded,
                    checkpoints=checkpoints,
                    blobs=tuple(unit.blobs),
                    claims=tuple(unit.claims),
                    row=self._row(),
                )
            )
        except JournalError as error:
            self._around.subscription.signal(
                "failed", {"loop_id": self.state.start.run, "reason": error.message, "code": error.code}
            )
            raise
        self._tenure.confirm()
        return position

    def _row(self) -> SessionRow | None:
        """The row for lists, where it says anything new: within a second, that a run got on is not worth a write."""
        state, (standing, since) = self.state, self._listed
        now = (state.status, state.ending, state.gates, state.reason)
        if now == standing and state.at - since < ROW_MS:
            return None
        self._listed = (now, state.at)
        return row_of(state)

    async def events(self, *, aside: Aside) -> list[e.Event]:
        """Every event of the session, from the journal where this process has not written them all."""
        unwritten = self.unit.events
        if len(self.log) + len(unwritten) == self.state.position:
            return [*self.log, *unwritten]
        history = await load_history(self._around.journal, self._tenant, self._stream)
        self.weight += sum(len(stored.data) for stored in history.stored)
        events = await aside(lambda: history.events)
        return [*events[: self.state.position - len(unwritten)], *unwritten]
