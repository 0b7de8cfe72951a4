"""The ledger of a session: its state, the events that are recorded but not written yet, and the append that writes them.

All events between two writes are one unit: either all become durable or none. Events, checkpoint, blobs, claims and the
session's row are written together, so a verdict is never durable without its checkpoint.
"""

from __future__ import annotations

from functools import partial
from hashlib import sha256
from typing import Any

import msgspec

from tercet.core import codec
from tercet.core import events as e
from tercet.core.answers import Made
from tercet.core.run import Run
from tercet.core.same_calls import recent_claim, shorten_session
from tercet.core.state import State
from tercet.core.table import TABLE
from tercet.engine import checkpoint
from tercet.engine.leases import HeldLease
from tercet.engine.rows import row_of
from tercet.engine.services import Services
from tercet.engine.session_reader import load_history
from tercet.engine.streams.notices import NOTABLE, is_notable, notice_of
from tercet.engine.values import HEAVY, LargeValues
from tercet.journal.errors import JournalError
from tercet.journal.protocol import Append, NewCheckpoint, SessionRow

ROW_MS = 1_000
"""The time by which a session's row may lag behind while only its steps make progress."""


class Unit:
    """The contents of one append, and the calls that may start once it is durable."""

    __slots__ = ("begin", "blobs", "checkpoints", "claims", "events", "reminders", "verdict")

    def __init__(self) -> None:
        self.events: list[e.Event] = []
        self.blobs: list[bytes] = []
        self.claims: list[str] = []
        self.begin: list[tuple[int, e.Intent]] = []
        """The calls with the positions of their INTENT."""
        self.reminders: list[tuple[str, int]] = []
        """The facts that people have to hear of, by the names of their notifications."""
        self.verdict = ""
        """The last verdict in the unit; such a unit ends in a checkpoint."""
        self.checkpoints: tuple[NewCheckpoint, ...] = ()
        """The checkpoints that were written with it."""


class Ledger:
    """The state of one session, with the events still to be written."""

    def __init__(
        self, services: Services, run: Run, held_lease: HeldLease, values: LargeValues, *, tail_bytes: int = 0
    ) -> None:
        self.run = run
        self.unit = Unit()
        self.log: list[e.Event] = []
        """The events that this process has written."""
        self.points: list[NewCheckpoint] = []
        """The checkpoints of verdicts among them."""
        self.change_count = 0
        """The tenant's change counter at the last append."""
        self._around = services
        self._journal = services.journal
        self._values = values
        self._held_lease = held_lease
        self._tenant, self._stream, self._epoch = (
            held_lease.lease.tenant,
            held_lease.lease.stream,
            held_lease.lease.epoch,
        )
        self._by = shorten_session(self._stream)
        self._before_last = run.state
        """The state before the last event: a fold holds this state, so that the event can include its hash."""
        self._tail_bytes = self.weight = tail_bytes
        """`weight` counts the bytes of events that this process has read or written."""
        self._fold_bytes = 0
        self._listed: tuple[tuple[Any, ...], int] = ((), 0)
        """The content of the session's row, and since when."""

    @property
    def state(self) -> State:
        """The state of the run, including events still to be written."""
        return self.run.state

    @property
    def is_heavy(self) -> bool:
        """Whether work on all events and values of this session would block the event loop."""
        return self._values.bytes + self.weight > HEAVY

    def take(self, made: Made) -> None:
        """Record the events of a command, with their blobs."""
        for event in made.events:
            self.record(event)
        if made.blobs:
            self.unit.blobs += made.blobs

    def record(self, event: e.Event) -> None:
        """Fold an event, which the next write makes durable; a verdict and a new phase are checkpoints. Raises
        `IllegalEvent`."""
        run, unit = self.run, self.unit
        before = run.state
        if event.at < before.at:
            # It started before an event that was recorded meanwhile, such as a model's answer.
            event = msgspec.structs.replace(event, at=before.at)
        after = run.fold(event)
        self._before_last = before
        unit.events.append(event)
        if type(event) is e.Intent:
            self._claim(event)
        elif type(event) in NOTABLE and is_notable(event, after):
            unit.reminders.append((notice_of(self._stream, after.position), event.at))
        if after.phase is not before.phase:
            unit.verdict = str(after.phase)
        if (label := TABLE[type(event)].label) is not None:
            # One checkpoint at the end of the unit is enough, whichever of its events asked for one.
            unit.verdict = label(event, after)

    def _claim(self, intent: e.Intent) -> None:
        """Claim the action of a call, which starts once the unit is durable; a note calls nothing."""
        if not intent.tool:
            return
        unit = self.unit
        unit.claims.append(intent.key)
        position = self.run.state.position
        if (recent := recent_claim(intent, self._by, position)) is not None:
            unit.claims.append(recent)
        unit.begin.append((position, intent))

    async def write(self, *, is_folded: bool = False) -> Unit:
        """Append the recorded events, and return the unit that is now durable."""
        unit, self.unit = self.unit, Unit()
        if self._values.is_heavy:
            encoded = await self._values.work(partial(self._encode_unit, unit, is_folded=is_folded))
        else:
            encoded = self._encode_unit(unit, is_folded=is_folded)
        crash = self._around.crash
        if (waiting := crash("before_append")) is not None:
            await waiting
        first = self._held_lease.request()
        append = Append(
            tenant=self._tenant,
            stream=self._stream,
            expected=self.run.state.position - len(encoded),
            epoch=None if first else self._epoch,
            lease=first,
            events=encoded,
            checkpoints=unit.checkpoints,
            blobs=tuple(unit.blobs),
            claims=tuple(unit.claims),
            row=self._row(),
            reminders=tuple(unit.reminders),
        )
        try:
            position = await self._journal.append(append)
        except JournalError as error:
            self._around.subscription.signal(
                "failed", {"loop_id": self.state.start.run, "reason": error.message, "code": error.code}
            )
            raise
        self._held_lease.confirm()
        if (waiting := crash("after_append")) is not None:
            await waiting
        self.change_count = position.change_count
        self.log += unit.events
        if unit.verdict:
            self.points.append(unit.checkpoints[0])
        return unit

    def _encode_unit(self, unit: Unit, *, is_folded: bool) -> tuple[bytes, ...]:
        """Return the bytes of a unit's events, and make its checkpoints."""
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
        """Return a fold if one is requested or the events since the last one have outgrown it."""
        outgrown = max(checkpoint.SMALLEST_FOLD, checkpoint.TAIL * self._fold_bytes)
        if not self._before_last.position or (not is_folded and self._tail_bytes <= outgrown):
            return ()
        folded = checkpoint.fold(self._before_last)
        self._fold_bytes, self._tail_bytes = len(folded.data), 0
        return (folded,)

    def _row(self) -> SessionRow | None:
        """Return the session's row if it changed; progress of steps alone is written at most once a second."""
        state, (standing, since) = self.state, self._listed
        now = (state.status, state.ending, state.gates, state.reason)
        if now == standing and state.at - since < ROW_MS:
            return None
        self._listed = (now, state.at)
        return row_of(state)

    async def events(self) -> list[e.Event]:
        """Return every event of the session; those that this process did not write are read from the journal."""
        unwritten = self.unit.events
        if len(self.log) + len(unwritten) == self.state.position:
            return [*self.log, *unwritten]
        history = await load_history(self._journal, self._tenant, self._stream)
        self.weight += sum(len(stored.data) for stored in history.stored)
        if self.is_heavy:
            events = await self._values.work(lambda: history.events)
        else:
            events = history.events
        return [*events[: self.state.position - len(unwritten)], *unwritten]

    async def events_with_results(self) -> list[e.Event]:
        """Return every event of the session, with large results loaded."""
        events = await self.events()
        await self._values.load(event.blob for event in events if type(event) is e.Complete)
        return events
