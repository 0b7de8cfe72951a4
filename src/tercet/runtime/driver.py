"""The driver: carries one session forward until it is over, or waits for a person, a time or a signal.

One turn: fold what has ended into events, ask `decide` for the next command, carry it out, fold its event, and so on
until nothing is due; append everything as one unit; then begin the calls whose INTENT has become durable. So COMPLETE,
verdict, checkpoint and the next INTENT share one append, and a step costs one barrier. An effect never begins before
its INTENT is durable: if the append fails, nothing is called.

One file, although a long one: every part of it reads and moves the one state of the one session.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import msgspec

from tercet.contracts.canonical import hash_bytes
from tercet.contracts.effective import EffectiveStep
from tercet.contracts.errors import InternalError, UsageError
from tercet.contracts.invocation import Backoff
from tercet.contracts.loop import Phase
from tercet.contracts.plain import storable
from tercet.contracts.plan import Plan
from tercet.contracts.shape import as_object
from tercet.executor.attempt import Done, Ended, NotHappened, Unknown
from tercet.executor.backoff import delay_ms
from tercet.executor.gateway import Attempt
from tercet.journal import codec
from tercet.journal import events as e
from tercet.journal.errors import JournalError, LeaseLost
from tercet.journal.protocol import Append, Lease, NewCheckpoint, Position
from tercet.planner.template import PlanningError
from tercet.runtime import checkpoint, deciding, mail, undoing
from tercet.runtime import commands as c
from tercet.runtime.changes import EMERGENCY_STOP, LEASE_EXPIRED, STOPPED, WITHHELD
from tercet.runtime.drift import approved_drift
from tercet.runtime.expiry import overdue
from tercet.runtime.machine import evolve
from tercet.runtime.plans import read_plan
from tercet.runtime.progress import envelope
from tercet.runtime.rows import row_of
from tercet.runtime.setting import Course, Setting
from tercet.runtime.state import UNDO, State
from tercet.runtime.surroundings import Surroundings
from tercet.runtime.work import PLANNER_MISSING
from tercet.tools import ToolContext

LARGE = 64 * 1024
"""A value of more bytes is stored as a blob, and the event carries its digest."""
NOT_MADE = (*WITHHELD, "deadline")
"""The codes of calls that were not made after all."""
GRACE_MS = 2_000
"""How long calls in flight may take to end after the process was told to stop."""


@dataclass(frozen=True, kw_only=True)
class Halt:
    """Why a driver lets go of its session before the run is over."""

    reason: str = "the process was told to stop"
    by: str = ""
    inbox: int = 0
    grace_ms: int | None = GRACE_MS
    """How long calls under way may still take; None lets each take its own time."""


@dataclass
class _Unit:
    """What one turn will append."""

    events: list[e.Event] = field(default_factory=list[e.Event])
    blobs: list[bytes] = field(default_factory=list[bytes])
    claims: list[str] = field(default_factory=list[str])
    checkpoints: list[NewCheckpoint] = field(default_factory=list[NewCheckpoint])
    begin: list[e.Intent] = field(default_factory=list[e.Intent])


class Driver:
    """One session in one process, under one lease."""

    def __init__(
        self, around: Surroundings, setting: Setting, state: State, lease: Lease, *, tail_bytes: int = 0
    ) -> None:
        self.around = around
        self.state = state
        self.lease = lease
        self.log: list[e.Event] = []
        """The events of this process."""
        self.halt: Halt | None = None
        """Set once nothing more shall begin."""
        self._has_mail = False
        """Whether somebody may have put something into the inbox."""
        self._listeners: list[tuple[int, asyncio.Future[State | None]]] = []
        """Who waits until the inbox has been read up to a position, and that is durable."""
        self._bell = 0
        self._base = self._extended_setting = setting
        self._extended: dict[str, int] = {}
        self._resting: asyncio.Future[None] | None = None
        self._is_nudged = False
        self._grace_until: float | None = None
        self._course: Course | None = None
        self._course_of = ("", 0)
        self._blobs: dict[str, Any] = {}
        self._unit = _Unit()
        self._calls: dict[str, tuple[e.Intent, Attempt]] = {}
        """The calls under way, by step."""
        self._over: list[tuple[e.Intent, Ended]] = []
        """Calls that have ended and are not folded yet."""
        self._tail_bytes = tail_bytes
        self._fold_bytes = 0

    def begin(self, event: e.Event, *, claims: tuple[str, ...] = ()) -> None:
        """The event with which this process begins or takes over; it is appended with the first turn."""
        self._record(event)
        self._unit.claims += claims

    @property
    def setting(self) -> Setting:
        """What the run is judged and carried out in, with what operators have added to its budget."""
        if self.state.extended is not self._extended:
            self._extended = self.state.extended
            self._extended_setting = self._base.extended(self._extended)
        return self._extended_setting if self._extended else self._base

    def look_into_inbox(self) -> None:
        """Somebody may have said something to this session."""
        self._has_mail = True
        self._nudge()

    async def read_up_to(self, position: int) -> State | None:
        """The state once the inbox has been read up to a position, and that is durable; None if the session was let go
        of before."""
        listener: asyncio.Future[State | None] = asyncio.get_running_loop().create_future()
        self._listeners.append((position, listener))
        self.look_into_inbox()
        return await listener

    def stop(self, halt: Halt | None = None) -> None:
        """Begin nothing more, and come to a halt."""
        if self.halt is None or self.halt.grace_ms is None:
            read = (
                self.halt.inbox if self.halt is not None else 0
            )  # a pause that was asked for is not asked for again
            wanted = halt or Halt()
            self.halt = replace(wanted, inbox=max(wanted.inbox, read))
        self._nudge()

    async def load_blobs(self) -> None:
        """Read the large values that steps still to come refer to."""
        steps = [self.state.steps[name] for name in self.state.needed if name in self.state.steps]
        for blob in {*(step.blob for step in steps), *self.state.named_in.values()} - {""}:
            data = await self.around.journal.blob(self.lease.tenant, blob)
            self._blobs[blob] = msgspec.json.decode(data)

    # --- the loop ---

    async def advance(self) -> State:
        """Go on until nothing is due."""
        try:
            while True:
                wake = await self._turn()
                await self._flush()
                if self._unit.begin or self._unit.events:
                    raise InternalError("a turn left work behind")
                if self._has_mail and not self.state.is_over:
                    continue
                if not self._calls and (wake is None or self.halt is not None or self.state.is_over):
                    return self.state if self.halt is None else await self._halted(self.halt)
                await self._wait(wake)
        finally:
            for _, attempt in self._calls.values():
                attempt.abandon()
            for _, listener in self._listeners:
                if not listener.done():
                    listener.set_result(None)

    async def _turn(self) -> int | None:
        """Carry out all that is due; the time at which more will be, if that is known."""
        if self._has_mail:
            await self._read_inbox()
        if (late := overdue(self.state, self._now())) is not None:
            self._record(late)
            self._point("expired")
        while True:
            wake: int | None = None
            position = self.state.position
            for command in deciding.decide(self.state, self.setting, self.course, self._blobs):
                not_before = getattr(command, "not_before", 0)
                if not_before > self.around.clock.now():
                    wake = not_before if wake is None else min(wake, not_before)
                elif self.halt is None or not isinstance(command, c.Dispatch | c.Settle | c.Propose):
                    await self._carry_out(command)
                    break
            if self.state.position == position:
                return wake

    async def _read_inbox(self) -> None:
        """Make events of what people said; a wish to pause waits until the calls under way have ended."""
        self._has_mail = False
        letters = await mail.unread(self.around.journal, self.lease.tenant, self.state)
        for event, _ in mail.heard(self.state, letters, self._now(), outside=False):
            if isinstance(event, e.SessionPaused):
                self.stop(Halt(reason=event.reason, by=event.by, inbox=event.inbox, grace_ms=None))
                return
            self._record(event)

    async def _wait(self, wake: int | None) -> None:
        """Until a call ends, it is time for something, somebody answers, or the process is told to stop."""
        if self.halt is not None:
            await self._wait_for_calls(self.halt)
        elif wake is None:
            await self._rest()
        else:
            alarm = asyncio.ensure_future(self.around.clock.sleep(wake - self.around.clock.now()))
            alarm.add_done_callback(self._ring)
            try:
                await self._rest()
            finally:
                alarm.remove_done_callback(self._ring)  # else cancelling it would wake the driver again
                alarm.cancel()
        await self._fold_ended()

    async def _fold_ended(self) -> None:
        while self._over:
            intent, ended = self._over.pop(0)
            del self._calls[intent.step]
            await self._crash("after_answer")
            self._ended(intent, ended)
            await self._count(intent.tool, ended)

    def _ring(self, _: asyncio.Future[None]) -> None:
        self._nudge()

    def _nudge(self) -> None:
        """There is something to do: wake the driver, or keep it from going to rest."""
        self._is_nudged = True
        if self._resting is not None and not self._resting.done():
            self._resting.set_result(None)

    async def _rest(self, seconds: float | None = None) -> None:
        """Until somebody nudges this driver, or so many seconds have passed. A bare future: this happens at every step."""
        if not self._is_nudged:
            loop = asyncio.get_running_loop()
            self._resting = loop.create_future()
            alarm = None if seconds is None else loop.call_later(seconds, self._nudge)
            try:
                await self._resting
            finally:
                self._resting = None
                if alarm is not None:
                    alarm.cancel()
        self._is_nudged = False

    async def _wait_for_calls(self, halt: Halt) -> None:
        """Let calls in flight end for a while; those that do not are left behind, their outcome unknown."""
        loop = asyncio.get_running_loop()
        while self._calls:
            left = None if halt.grace_ms is None else self._grace(loop.time(), halt.grace_ms)
            if left is not None and left <= 0:
                break
            await self._rest(left)
            await self._fold_ended()
            if self.halt is not None:
                halt = self.halt  # a pause turns into a stop of the process
        for intent, attempt in self._calls.values():
            attempt.abandon()
            self._ended(intent, Unknown(error="the process was told to stop", code=STOPPED))
        self._calls.clear()

    def _grace(self, now: float, grace_ms: int) -> float:
        """How many seconds are left of the grace, which begins when it is first asked for."""
        if self._grace_until is None:
            self._grace_until = now + grace_ms / 1000
        return self._grace_until - now

    async def _halted(self, halt: Halt) -> State:
        if not self.state.is_over and self.state.status == "in_progress" and not self.state.ending:
            self._record(e.SessionPaused(at=self._now(), reason=halt.reason, by=halt.by, inbox=halt.inbox))
            self._unit.checkpoints.append(checkpoint.fold(self.state))
            await self._flush()
        return self.state

    # --- commands ---

    async def _carry_out(self, command: c.Command) -> None:
        match command:
            case c.Propose() | c.Settle():
                await self._flush()  # what comes next may take long: nothing is left unwritten
                await self._look_outside(command)
            case c.Score() | c.End() | c.HandOver() | c.TakeBack():
                await self._look_back(command)
            case c.Dispatch():
                self._dispatch(command)
            case c.Note():
                self._note(command)
            case c.Judge():
                now, draw = self._now(), self.around.draw
                for event in self.around.work.judge(
                    self.state, self.setting, self.course, command.step, now, draw
                ):
                    self._record(event)
                self._point("step")
            case c.Review():
                self._record(self.around.work.review(self.state, self._plan(), self.setting, self._now()))
                self._point(str(self.state.verdict.get("outcome", "")))
                for tool in {step.tool for step in self._plan().steps if step.tool}:
                    await self.around.breakers.refresh(tool, self._now())
            case _:
                self._record(self._fact(command))

    def _fact(
        self, command: c.Decompose | c.Retrieve | c.Skip | c.Fault | c.Ask | c.Grant | c.Finish | c.GiveUp
    ) -> e.Event:
        """The event of a command that needs nothing but the state."""
        now, work = self._now(), self.around.work
        match command:
            case c.Decompose():
                return e.Decomposed(at=now, steps=len(self.state.steps))
            case c.Retrieve():
                return work.retrieve(self._plan(), self.setting, now)
            case c.Skip():
                return e.StepSkipped(at=now, step=command.step, reason=command.reason)
            case c.Fault():
                return e.StepRefused(at=now, step=command.step, code=command.code, reason=command.reason)
            case c.Ask():
                return work.ask(self.state, command, now)
            case c.Grant():
                return e.ApprovalGranted(
                    at=now, step=command.step, policy=command.policy, digest=command.digest
                )
            case c.GiveUp():
                return e.GivenUp(at=now, reason=command.reason, iterations=self.state.iterations)
            case c.Finish():
                return work.finish(self.state, self.setting, self.course, self._blobs, now)

    async def _look_outside(self, command: c.Propose | c.Settle) -> None:
        """Commands that ask a planner or a tool."""
        work = self.around.work
        match command:
            case c.Propose():
                try:
                    self._record(await work.propose(self.state, self.setting, self._now()))
                except PlanningError as error:
                    self._record(
                        e.PlanningFailed(at=self._now(), reason=storable(str(error)), code=error.code)
                    )
                except Exception as error:  # noqa: BLE001 - a planner is somebody else's code, and must not end the process
                    if isinstance(error, UsageError) and error.code == PLANNER_MISSING:
                        self.stop(Halt(reason=error.message))
                        return
                    reason = f"the planner raised {type(error).__name__}: {error}"
                    self._record(
                        e.PlanningFailed(at=self._now(), reason=storable(reason), code="planner_raised")
                    )
            case c.Settle():
                await self._settle(command.step)

    async def _look_back(self, command: c.Score | c.End | c.HandOver | c.TakeBack) -> None:
        """Commands that read all that has happened."""
        work = self.around.work
        events = await self._events()
        match command:
            case c.Score():
                self._record(
                    work.score(self.state, self.setting, self.course, events, self._blobs, self._now())
                )
                self._point("run")
            case c.End():
                ended, record = work.end(
                    self.state, self.setting, self.course, events, self._blobs, command.status, self._now()
                )
                self._unit.blobs.append(record)
                self._record(ended)
                self._point(command.status)
            case c.HandOver():
                opened, packet = work.hand_over(self.state, self.setting, events, self._now())
                self._unit.blobs.append(packet)
                self._record(opened)
            case c.TakeBack():
                await self._take_back(command, events)

    async def _take_back(self, command: c.TakeBack, events: list[e.Event]) -> None:
        """Take the effects of the run back, ask whether to, or leave them, where there are any."""
        done = undoing.effects(events)
        for blob in {effect.blob for effect in done} - {"", *self._blobs}:
            data = await self.around.journal.blob(self.lease.tenant, blob)
            self._blobs[blob] = msgspec.json.decode(data)
        ways = undoing.ways_back(done, self.setting, self.around.tools, self._blobs)
        now = self._now()
        if not ways or command.how == "keep":
            self._record(e.EffectsKept(at=now))
        elif command.how == "ask" and any(way.tool for way in ways):
            self._record(self.around.work.ask_back(self.state, ways, now))
        else:
            self._record(e.CompensationBegun(at=now, undo=ways))

    def _dispatch(self, command: c.Dispatch) -> None:
        now = self._now()
        call = self._call(command.step)
        tool = self.around.tools[call.tool.name]
        if (stop := self.around.board.stopped(tool.name)) is not None:
            self.stop(Halt(reason=stop.reason, by=stop.by, grace_ms=None))
            return
        if (drift := self._drift(command.step, call, now)) is not None:
            self._record(drift)
            return
        circuit = self.around.breakers.glance(tool.name).state(now).value
        if circuit == "OPEN" and deciding.is_unsettled(self.state.steps[command.step]):
            # It cannot be refused, since it may have happened: a person is asked instead.
            step = self.state.steps[command.step]
            acting = deciding.Acting(self.state, self.setting, self._followed(), self._blobs)
            self._record(self.around.work.ask(self.state, acting.ask_whether(command.step, step), now))
            return
        if circuit == "OPEN":
            self._record(
                e.StepRefused(
                    at=now,
                    step=command.step,
                    code="circuit_open",
                    reason=f"the circuit of {tool.name} is open",
                )
            )
            return
        intent = self.around.work.intent(
            self.state, self.setting, self._followed(), command, now, self.lease.epoch, circuit
        )
        self._record(intent)
        self._unit.claims.append(intent.key)
        self._unit.begin.append(intent)

    def _drift(self, name: str, call: EffectiveStep, now: int) -> e.StepRefused | None:
        """What has changed since a call was approved, so that it must not be made: looked at just before its INTENT."""
        found = approved_drift(self.state, self.setting, name, call, now, self.around.roles)
        if found is None or deciding.is_unsettled(self.state.steps[name]):
            return None
        return e.StepRefused(at=now, step=name, code=found.code, reason=found.reason)

    def _note(self, command: c.Note) -> None:
        now = self._now()
        attempt = self.state.steps[command.step].attempt + 1
        self._record(
            e.Intent(
                at=now,
                step=command.step,
                tool="",
                params={},
                key=f"note:{command.step}:{attempt}",
                attempt=attempt,
            )
        )
        self._record(e.Complete(at=now, step=command.step, attempt=attempt, value=command.params))

    async def _settle(self, name: str) -> None:
        """Find out what became of a call, by what its tool declares."""
        call, step = self._call(name), self.state.steps[name]
        if not call.tool.reconciles:
            wait = delay_ms(Backoff(), step.attempt - 1, self.around.draw) if step.attempt > 1 else 0
            by = "idempotent" if call.tool.idempotent else "pure"
            self._settled(name, "run_again", by, self._now() + wait)
            return
        tool = self.around.tools[call.tool.name]
        found = await self.around.gateway.look_up(tool, self._context(name, step.key, step.attempt, 0))
        now, due = self._now(), step.since + call.tool.settle_after_ms
        match found:
            case Done():
                self._completed(name, found, is_reconciled=True)
            case NotHappened() if now >= due:
                has_retries = deciding.has_retries(self.state, self.setting, step)
                self._settled(
                    name, "absent", "reconcile", now + delay_ms(Backoff(), step.retries, self.around.draw)
                )
                is_over = self.state.phase is Phase.FAIL and not name.startswith(UNDO)
                if not has_retries and not is_over:
                    reason = f"{tool.name} did not happen, and has no retries left"
                    self._record(e.StepRefused(at=now, step=name, code="retries_exhausted", reason=reason))
            case NotHappened():
                self._settled(name, "ask_again", "reconcile", due)
            case Unknown():
                self._settled(
                    name, "ask_again", "reconcile", now + delay_ms(Backoff(), step.asked, self.around.draw)
                )

    def _settled(
        self, name: str, how: Literal["absent", "ask_again", "run_again"], by: str, not_before: int
    ) -> None:
        attempt = self.state.steps[name].attempt
        self._record(
            e.Settled(at=self._now(), step=name, attempt=attempt, how=how, by=by, not_before=not_before)
        )

    # --- calls ---

    def _begin(self, intent: e.Intent) -> None:
        def tell(ended: Ended) -> None:
            self._over.append((intent, ended))
            self._nudge()

        async def check() -> NotHappened | None:
            return await self._withheld(intent)

        attempt = self.around.gateway.begin(
            self.around.tools[intent.tool],
            intent.params,
            self._context(intent.step, intent.key, intent.attempt, intent.deadline),
            timeout_ms=max(0, intent.deadline - self._now()),
            tell=tell,
            check=check,
        )
        self._calls[intent.step] = (intent, attempt)

    async def _withheld(self, intent: e.Intent) -> NotHappened | None:
        """Why a call is not made after all, looked at just before it."""
        if self.around.clock.now() >= self.lease.until and not await self._has_renewed():
            return NotHappened(error="the lease on the session has run out", code=LEASE_EXPIRED)
        if self._now() >= intent.deadline:
            return NotHappened(
                error="its deadline passed before the call", code="deadline", is_retriable=False
            )
        if (stop := self.around.board.stopped(intent.tool)) is not None:
            self.stop(Halt(reason=stop.reason, by=stop.by, grace_ms=None))
            return NotHappened(error=stop.reason, code=EMERGENCY_STOP)
        await self._crash("before_call")
        return None

    async def _has_renewed(self) -> bool:
        """Renew a lease that has run out, which works unless somebody else has the session by now: then stop."""
        now, ttl = self.around.clock.now(), self.around.lease_ms
        try:
            self.lease = await self.around.journal.renew(self.lease, now_ms=now, ttl_ms=ttl)
        except LeaseLost:
            self.stop()
            return False
        except JournalError:
            return False
        return True

    def _context(self, step: str, key: str, attempt: int, deadline: int) -> ToolContext:
        start = self.state.start
        return ToolContext(
            tenant=start["tenant"],
            run_id=start["run"],
            step_id=step,
            actor=start["actor"]["id"],
            idempotency_key=key,
            attempt=attempt,
            deadline=self.around.work.moment(deadline) if deadline else None,
            fencing_token=self.lease.epoch,
        )

    def _ended(self, intent: e.Intent, ended: Ended) -> None:
        """Fold the end of a call into an event."""
        match ended:
            case Done():
                self._completed(intent.step, ended)
            case NotHappened() | Unknown():
                is_known = isinstance(ended, NotHappened)
                self._record(
                    e.Abort(
                        at=self._now(),
                        step=intent.step,
                        attempt=intent.attempt,
                        outcome="not_done" if is_known else "unknown",
                        error=ended.error,
                        code=ended.code,
                        retriable=ended.is_retriable if is_known else True,
                        latency=ended.latency_ms,
                    )
                )

    def _completed(self, name: str, ended: Done, *, is_reconciled: bool = False) -> None:
        """Record a call that happened, its value as a blob if it is large; what was reserved for it is spent."""
        step = self.state.steps[name]
        data = msgspec.json.encode(ended.value)
        blob = hash_bytes(data) if len(data) > LARGE else ""
        declared: list[str] = self.state.plan.get("declared_outputs", []) if blob else []
        carries = tuple(output for output in declared if output in (as_object(ended.value) or ()))
        if blob:
            self._unit.blobs.append(data)
            if name in self.state.needed or carries:
                self._blobs[blob] = ended.value
        self._record(
            e.Complete(
                at=self._now(),
                step=name,
                attempt=step.attempt,
                value=None if blob else ended.value,
                blob=blob,
                carries=carries,
                error=ended.error,
                latency=ended.latency_ms,
                tokens=step.tokens,
                cost=step.cost,
                reconciled=is_reconciled,
            )
        )

    async def _count(self, tool: str, ended: Ended) -> None:
        is_success = isinstance(ended, Done)
        if isinstance(ended, NotHappened) and ended.code in NOT_MADE:
            return  # nobody called the tool
        if is_success and not self.around.breakers.glance(tool).failures:
            return
        await self._flush()
        await self.around.breakers.record(tool, is_success=is_success, now=self._now())

    # --- events ---

    def _record(self, event: e.Event) -> None:
        before = self.state.phase
        self.state = evolve(self.state, event)
        self._unit.events.append(event)
        if self.state.phase is not before:
            self._point(str(self.state.phase))

    def _point(self, verdict: str) -> None:
        """A checkpoint; of several in one unit only the last one says anything that the others do not."""
        self._unit.checkpoints = [checkpoint.point(self.state, verdict)]

    async def _flush(self) -> None:
        """Append what has been recorded, then begin the calls whose INTENT is now durable."""
        unit = self._unit
        if not unit.events:
            return
        self._unit = _Unit()
        encoded = tuple(codec.encode(event) for event in unit.events)
        self._tail_bytes += sum(map(len, encoded))
        if self._tail_bytes > max(checkpoint.SMALLEST_FOLD, checkpoint.TAIL * self._fold_bytes):
            folded = checkpoint.fold(self.state)
            self._fold_bytes, self._tail_bytes = len(folded.data), 0
            unit.checkpoints.append(folded)
        await self._crash("before_append")
        position = await self._append(unit, encoded)
        await self._crash("after_append")
        if position.bell != self._bell:
            # Somebody said something to the tenant: it is heard before a call begins.
            self._bell = position.bell
            self._has_mail = True
            await self.around.board.refresh(position.bell)
        self.log += unit.events
        for intent in unit.begin:
            self._begin(intent)
        if self._listeners:
            self._tell_listeners()
        for event in unit.events:
            self.around.tell(self.state, event)
        self._show_progress()

    def _show_progress(self) -> None:
        """Whoever watches may fail; the run does not."""
        if self.around.progress is None:
            return
        try:
            self.around.progress(envelope(self.state, self._now()))
        except Exception as error:  # noqa: BLE001 - somebody else's code, and only a spectator's
            run = self.state.start["run"]
            self.around.signal(
                "progress_failed", {"loop_id": run, "error": f"{type(error).__name__}: {error}"}
            )

    def _tell_listeners(self) -> None:
        for waits_for, listener in self._listeners:
            if waits_for <= self.state.inbox and not listener.done():
                listener.set_result(self.state)
        self._listeners = [each for each in self._listeners if not each[1].done()]

    async def _append(self, unit: _Unit, encoded: tuple[bytes, ...]) -> Position:
        """Write a unit, all or nothing: a verdict whose checkpoint cannot be written was never given."""
        run = self.state.start["run"]
        try:
            position = await self.around.journal.append(
                Append(
                    tenant=self.lease.tenant,
                    stream=self.lease.stream,
                    expected=self.state.position - len(unit.events),
                    epoch=self.lease.epoch,
                    events=encoded,
                    checkpoints=tuple(unit.checkpoints),
                    blobs=tuple(unit.blobs),
                    claims=tuple(unit.claims),
                    row=row_of(self.state),
                )
            )
        except JournalError as error:
            self.around.signal("failed", {"loop_id": run, "reason": error.message, "code": error.code})
            raise
        self._measure(run, unit)
        return position

    def _measure(self, run: str, unit: _Unit) -> None:
        signal = self.around.signal
        for written in unit.checkpoints:
            size = len(written.data)
            signal("checkpoint_written", {"loop_id": run, "iteration": written.seq, "size_bytes": size})
        for event in unit.events:
            match event:
                case e.Intent():
                    signal("action_dispatched", {"loop_id": run, "action": event.step, "tool": event.tool})
                case e.SessionResumed():
                    recovered = len(event.in_flight)
                    signal("loop_resumed", {"loop_id": run, "inflight_actions_recovered": recovered})
                case e.StepSkipped() if event.step.startswith(UNDO):
                    step = self.state.steps[event.step]
                    signal("compensation_failed", {"loop_id": run, "action": event.step, "error": step.error})
                case e.GateOpened():
                    signal("gate_opened", {"loop_id": run, "gate": event.gate, "kind": event.kind})
                case _:
                    pass

    async def _events(self) -> list[e.Event]:
        """Every event of the session, from the journal where this process has not seen them all."""
        if len(self.log) + len(self._unit.events) == self.state.position:
            return [*self.log, *self._unit.events]
        await self._flush()
        found: list[e.Event] = []
        while len(found) < self.state.position:
            page = await self.around.journal.read(self.lease.tenant, self.lease.stream, after=len(found))
            if not page:
                raise InternalError(
                    f"the journal ends at {len(found)}, before position {self.state.position}"
                )
            found += [codec.decode(stored.data) for stored in page]
        return found

    async def _crash(self, point: str) -> None:
        waiting = self.around.crash(point)
        if waiting is not None:
            await waiting

    # --- the plan ---

    @property
    def course(self) -> Course | None:
        """The plan of the state, ready to be followed."""
        wanted = (self.state.plan_hash, len(self.state.undo))
        if self.state.plan and self._course_of != wanted:
            course = Course.of(read_plan(self.state.plan), self.setting.surface)
            self._course = course.with_undo(self.state.undo, self.around.tools) if self.state.undo else course
            self._course_of = wanted
        return self._course

    def _followed(self) -> Course:
        if self.course is None:
            raise InternalError("there is no plan")
        return self.course

    def _plan(self) -> Plan:
        return self._followed().plan

    def _call(self, step: str) -> EffectiveStep:
        return self._followed().calls[step]

    def _now(self) -> int:
        return max(self.around.clock.now(), self.state.at)
