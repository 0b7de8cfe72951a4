"""The driver: carries one session forward until it is over, or waits for a person, a time or a signal.

One turn: fold what has ended into events, ask `decide` for the next command, carry it out, fold its event, and so on
until nothing is due; append everything as one unit; then begin the calls whose INTENT has become durable. So COMPLETE,
verdict, checkpoint and the next INTENT share one append, and a step costs one barrier. An effect never begins before
its INTENT is durable: if the append fails, nothing is called.

One file, although a long one: every part of it reads and moves the one state of the one session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import msgspec

from tercet.contracts.canonical import hash_bytes
from tercet.contracts.effective import EffectiveStep
from tercet.contracts.errors import InternalError, TercetError
from tercet.contracts.invocation import Backoff
from tercet.contracts.plain import storable
from tercet.contracts.plan import Plan
from tercet.contracts.shape import as_object
from tercet.executor.attempt import Done, Ended, NotHappened, Unknown
from tercet.executor.backoff import delay_ms
from tercet.executor.gateway import Attempt
from tercet.journal import codec
from tercet.journal import events as e
from tercet.journal.errors import JournalError, LeaseLost
from tercet.journal.protocol import Append, Lease, NewCheckpoint
from tercet.planner.template import PlanningError
from tercet.runtime import checkpoint, deciding
from tercet.runtime import commands as c
from tercet.runtime.changes import LEASE_EXPIRED, STOPPED
from tercet.runtime.machine import evolve
from tercet.runtime.plans import read_plan
from tercet.runtime.rows import row_of
from tercet.runtime.setting import Course, Setting
from tercet.runtime.state import State
from tercet.runtime.surroundings import Surroundings
from tercet.tools import ToolContext

LARGE = 64 * 1024
"""A value of more bytes is stored as a blob, and the event carries its digest."""
WITHHELD = (LEASE_EXPIRED, "deadline")
"""The codes of calls that were not made after all."""
GRACE_MS = 2_000
"""How long calls in flight may take to end after the process was told to stop."""

Answering: TypeAlias = Callable[[State, int], e.GateAnswered]
"""Makes the event of an answer out of the state and the time; raises `UsageError` if the answer does not fit."""


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
        self.setting = setting
        self.state = state
        self.lease = lease
        self.log: list[e.Event] = []
        """The events of this process."""
        self.stopping = asyncio.Event()
        self._answers: list[tuple[Answering, asyncio.Future[State | None]]] = []
        """What people say, until it is folded."""
        self._heard: list[tuple[State, asyncio.Future[State | None]]] = []
        """Who waits until an answer is durable, with the state after it."""
        self._resting: asyncio.Future[None] | None = None
        self._is_nudged = False
        self._course: Course | None = None
        self._course_of = ""
        self._blobs: dict[str, Any] = {}
        self._unit = _Unit()
        self._calls: dict[str, tuple[e.Intent, Attempt]] = {}
        """The calls under way, by step."""
        self._over: list[tuple[e.Intent, Ended]] = []
        """Calls that have ended and are not folded yet."""
        self._tail_bytes = tail_bytes
        self._fold_bytes = 0

    def begin(self, event: e.Event) -> None:
        """The event with which this process begins or takes over; it is appended with the first turn."""
        self._record(event)

    async def answer(self, answering: Answering) -> State | None:
        """Take a person's answer while this process has the session: the state after it, once it is durable.

        `answering` makes the event out of the state at that moment, and may raise. None: the session was let go of
        before it could be taken.
        """
        heard: asyncio.Future[State | None] = asyncio.get_running_loop().create_future()
        self._answers.append((answering, heard))
        self._nudge()
        return await heard

    def stop(self) -> None:
        """Begin nothing more, and come to a halt."""
        self.stopping.set()
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
                if not self._calls and (wake is None or self.stopping.is_set() or self.state.is_over):
                    return await self._halted() if self.stopping.is_set() else self.state
                await self._wait(wake)
        finally:
            for _, attempt in self._calls.values():
                attempt.abandon()
            for _, heard in (*self._answers, *self._heard):
                if not heard.done():
                    heard.set_result(None)

    async def _turn(self) -> int | None:
        """Carry out all that is due; the time at which more will be, if that is known."""
        while self._answers:
            self._take(*self._answers.pop(0))
        while True:
            wake: int | None = None
            position = self.state.position
            for command in deciding.decide(self.state, self.setting, self.course, self._blobs):
                not_before = getattr(command, "not_before", 0)
                if not_before > self.around.clock.now():
                    wake = not_before if wake is None else min(wake, not_before)
                elif not (self.stopping.is_set() and isinstance(command, c.Dispatch | c.Settle | c.Propose)):
                    await self._carry_out(command)
                    break
            if self.state.position == position:
                return wake

    def _take(self, answering: Answering, heard: asyncio.Future[State | None]) -> None:
        """Fold an answer, if it still fits; otherwise only the one who gave it is told."""
        if heard.done():
            return  # whoever gave it has gone
        try:
            self._record(answering(self.state, self._now()))
        except TercetError as error:
            heard.set_exception(error)
        else:
            self._heard.append((self.state, heard))

    async def _wait(self, wake: int | None) -> None:
        """Until a call ends, it is time for something, somebody answers, or the process is told to stop."""
        if self.stopping.is_set():
            await self._wait_for_calls()
        elif wake is None:
            await self._rest()
        else:
            alarm = asyncio.ensure_future(self.around.clock.sleep(wake - self.around.clock.now()))
            alarm.add_done_callback(lambda _: self._nudge())
            try:
                await self._rest()
            finally:
                alarm.cancel()
        await self._fold_ended()

    async def _fold_ended(self) -> None:
        while self._over:
            intent, ended = self._over.pop(0)
            del self._calls[intent.step]
            await self._crash("after_answer")
            self._ended(intent, ended)
            await self._count(intent.tool, ended)

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

    async def _wait_for_calls(self) -> None:
        """Let calls in flight end for a while; those that do not are left behind, their outcome unknown."""
        loop = asyncio.get_running_loop()
        until = loop.time() + GRACE_MS / 1000
        while self._calls and (left := until - loop.time()) > 0:
            await self._rest(left)
            await self._fold_ended()
        for intent, attempt in self._calls.values():
            attempt.abandon()
            self._ended(intent, Unknown(error="the process was told to stop", code=STOPPED))
        self._calls.clear()

    async def _halted(self) -> State:
        if not self.state.is_over and self.state.status == "in_progress":
            self._record(e.SessionPaused(at=self._now(), reason="the process was told to stop"))
            self._unit.checkpoints.append(checkpoint.fold(self.state))
            await self._flush()
        return self.state

    # --- commands ---

    async def _carry_out(self, command: c.Command) -> None:
        match command:
            case c.Propose() | c.Settle():
                await self._flush()  # what comes next may take long: nothing is left unwritten
                await self._look_outside(command)
            case c.Score() | c.End():
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
        self, command: c.Decompose | c.Retrieve | c.Skip | c.Fault | c.Ask | c.Finish | c.GiveUp
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
                    reason = f"the planner raised {type(error).__name__}: {error}"
                    self._record(
                        e.PlanningFailed(at=self._now(), reason=storable(reason), code="planner_raised")
                    )
            case c.Settle():
                await self._settle(command.step)

    async def _look_back(self, command: c.Score | c.End) -> None:
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

    def _dispatch(self, command: c.Dispatch) -> None:
        now = self._now()
        tool = self.around.tools[self._call(command.step).tool.name]
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
            self.state, self.setting, self._call(command.step), command, now, self.lease.epoch, circuit
        )
        self._record(intent)
        self._unit.claims.append(intent.key)
        self._unit.begin.append(intent)

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
                if not has_retries:
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
        if isinstance(ended, NotHappened) and ended.code in WITHHELD:
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
        await self._append(unit, encoded)
        await self._crash("after_append")
        self.log += unit.events
        for intent in unit.begin:
            self._begin(intent)
        while self._heard:
            state, heard = self._heard.pop(0)
            if not heard.done():
                heard.set_result(state)
        for event in unit.events:
            self.around.tell(self.state, event)

    async def _append(self, unit: _Unit, encoded: tuple[bytes, ...]) -> None:
        """Write a unit, all or nothing: a verdict whose checkpoint cannot be written was never given."""
        run = self.state.start["run"]
        try:
            await self.around.journal.append(
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
        for written in unit.checkpoints:
            size = len(written.data)
            self.around.signal(
                "checkpoint_written", {"loop_id": run, "iteration": written.seq, "size_bytes": size}
            )
        for event in unit.events:
            if isinstance(event, e.Intent):
                self.around.signal(
                    "action_dispatched", {"loop_id": run, "action": event.step, "tool": event.tool}
                )
            elif isinstance(event, e.SessionResumed):
                recovered = len(event.in_flight)
                self.around.signal("loop_resumed", {"loop_id": run, "inflight_actions_recovered": recovered})

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
        if self.state.plan and self._course_of != self.state.plan_hash:
            self._course = Course.of(read_plan(self.state.plan), self.setting.surface)
            self._course_of = self.state.plan_hash
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
