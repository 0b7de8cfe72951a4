"""The driver: carries one session forward until it is over, or waits for a person, a time or a signal.

One turn: fold what has ended into events, ask `decide` for the next command, carry it out, fold its event, and so on
until nothing is due; append everything as one unit; then begin the calls whose INTENT has become durable. So COMPLETE,
verdict, checkpoint and the next INTENT share one append, and a step costs one barrier. An effect never begins before
its INTENT is durable: if the append fails, nothing is called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from tercet.contracts.canonical import hash_bytes
from tercet.contracts.errors import InternalError
from tercet.contracts.invocation import Backoff
from tercet.contracts.plan import Plan
from tercet.executor.attempt import Done, Ended, NotHappened, Unknown
from tercet.executor.backoff import delay_ms
from tercet.executor.breaker import Breakers
from tercet.executor.clock import Clock
from tercet.executor.gateway import Gateway
from tercet.journal import codec
from tercet.journal import events as e
from tercet.journal.protocol import Append, Journal, Lease, NewCheckpoint, SessionRow
from tercet.planner.template import PlanningError
from tercet.runtime import checkpoint, deciding
from tercet.runtime import commands as c
from tercet.runtime.machine import evolve
from tercet.runtime.setting import Course, Setting
from tercet.runtime.state import State
from tercet.runtime.work import Work
from tercet.tools import Tool, ToolContext

LARGE = 64 * 1024
"""A value of more bytes is stored as a blob, and the event carries its digest."""
GRACE_MS = 2_000
"""How long calls in flight may take to end after the process was told to stop."""


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What a driver needs of the world, each of it an argument."""

    journal: Journal
    clock: Clock
    gateway: Gateway
    breakers: Breakers
    tools: dict[str, Tool]
    work: Work
    draw: Callable[[], float]
    """Draws from [0, 1): the jitter of retries."""
    crash: Callable[[str], Awaitable[None] | None] = lambda _: None
    """Called at every named crash point; does nothing outside of tests."""
    tell: Callable[[State, e.Event], None] = lambda _state, _event: None
    """Told of every event once it is durable."""


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
        self._answers: list[e.GateAnswered] = []
        self._nudge = asyncio.Event()
        self._course: Course | None = None
        self._course_of = ""
        self._blobs: dict[str, Any] = {}
        self._unit = _Unit()
        self._calls: dict[asyncio.Task[Ended], e.Intent] = {}
        self._tail_bytes = tail_bytes
        self._fold_bytes = 0

    def begin(self, event: e.Event) -> None:
        """The event with which this process begins or takes over; it is appended with the first turn."""
        self._record(event)

    def answer(self, event: e.GateAnswered) -> None:
        """A person's answer, while this process has the session: folded with the next turn."""
        self._answers.append(event)
        self._nudge.set()

    def stop(self) -> None:
        """Begin nothing more, and come to a halt."""
        self.stopping.set()
        self._nudge.set()

    async def load_blobs(self) -> None:
        """Read the large values that steps still to come refer to."""
        for name in self.state.needed:
            step = self.state.steps.get(name)
            if step is not None and step.blob:
                data = await self.around.journal.blob(self.lease.tenant, step.blob)
                self._blobs[step.blob] = msgspec.json.decode(data)

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
            for task in self._calls:
                task.cancel()

    async def _turn(self) -> int | None:
        """Carry out all that is due; the time at which more will be, if that is known."""
        while self._answers:
            self._record(self._answers.pop(0))
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

    async def _wait(self, wake: int | None) -> None:
        """Until a call ends, it is time for something, somebody answers, or the process is told to stop."""
        if self.stopping.is_set():
            await self._wait_for_calls()
        elif not self._nudge.is_set():
            waiting: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._nudge.wait())]
            if wake is not None:
                waiting.append(asyncio.ensure_future(self.around.clock.sleep(wake - self.around.clock.now())))
            await asyncio.wait([*self._calls, *waiting], return_when=asyncio.FIRST_COMPLETED)
            for future in waiting:
                future.cancel()
        self._nudge.clear()
        for task in [task for task in self._calls if task.done()]:
            intent = self._calls.pop(task)
            ended = task.result()
            await self._crash("after_answer")
            self._ended(intent, ended)
            await self._count(intent.tool, ended)

    async def _wait_for_calls(self) -> None:
        """Let calls in flight end for a while; those that do not are left behind, their outcome unknown."""
        await asyncio.wait(self._calls, timeout=GRACE_MS / 1000)
        for task, intent in list(self._calls.items()):
            if not task.done():
                task.cancel()
                del self._calls[task]
                self._ended(intent, Unknown(error="the process was told to stop", code="stopped"))

    async def _halted(self) -> State:
        if not self.state.is_over and self.state.status == "in_progress":
            self._record(e.SessionPaused(at=self._now(), reason="the process was told to stop"))
            self._unit.checkpoints.append(checkpoint.fold(self.state))
            await self._flush()
        return self.state

    # --- commands ---

    async def _carry_out(self, command: c.Command) -> None:
        match command:
            case c.Propose() | c.Settle() | c.Score() | c.End():
                await (
                    self._flush()
                )  # what comes next may take long, or read the journal: nothing is left unwritten
                await self._look_outside(command)
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

    def _fact(self, command: c.Decompose | c.Retrieve | c.Skip | c.Fault | c.Ask | c.Finish) -> e.Event:
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
            case c.Finish():
                return work.finish(self.state, self.setting, self.course, self._blobs, now)

    async def _look_outside(self, command: c.Propose | c.Settle | c.Score | c.End) -> None:
        """Commands that ask a planner or a tool, or read what the journal holds."""
        work = self.around.work
        match command:
            case c.Propose():
                try:
                    self._record(await work.propose(self.state, self.setting, self._now()))
                except PlanningError as error:
                    self._record(e.PlanningFailed(at=self._now(), reason=str(error), code=error.code))
            case c.Settle():
                await self._settle(command.step)
            case c.Score():
                events = await self._events()
                self._record(work.score(self.state, self.setting, self.course, events, self._now()))
                self._point("run")
            case c.End():
                events = await self._events()
                ended, record = work.end(
                    self.state, self.setting, self.course, events, command.status, self._now()
                )
                self._unit.blobs.append(record)
                self._record(ended)
                self._point(command.status)

    def _dispatch(self, command: c.Dispatch) -> None:
        now = self._now()
        tool = self.around.tools[self._call(command.step).tool.name]
        circuit = self.around.breakers.glance(tool.name).state(now)
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
        now, due = self._now(), step.began + call.tool.settle_after_ms
        match found:
            case Done():
                self._record(
                    e.Complete(
                        at=now,
                        step=name,
                        attempt=step.attempt,
                        value=found.value,
                        error=found.error,
                        reconciled=True,
                    )
                )
            case NotHappened() if now >= due:
                self._settled(name, "absent", "reconcile", 0)
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
        self._calls[asyncio.ensure_future(self._called(intent))] = intent

    async def _called(self, intent: e.Intent) -> Ended:
        tool = self.around.tools[intent.tool]
        now = self._now()
        if now >= self.lease.until:
            return NotHappened(error="the lease on the session has run out", code="lease_expired")
        left = intent.deadline - now
        if left <= 0:
            return NotHappened(
                error="its deadline passed before the call", code="deadline", is_retriable=False
            )
        await self._crash("before_call")
        context = self._context(intent.step, intent.key, intent.attempt, intent.deadline)
        return await self.around.gateway.call(tool, intent.params, context, timeout_ms=left)

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
        now, step, attempt = self._now(), intent.step, intent.attempt
        match ended:
            case Done():
                data = msgspec.json.encode(ended.value)
                blob = hash_bytes(data) if len(data) > LARGE else ""
                if blob:
                    self._unit.blobs.append(data)
                    self._blobs[blob] = ended.value
                value = None if blob else ended.value
                self._record(
                    e.Complete(
                        at=now,
                        step=step,
                        attempt=attempt,
                        value=value,
                        blob=blob,
                        error=ended.error,
                        latency=ended.latency_ms,
                        tokens=intent.tokens,
                        cost=intent.cost,
                    )
                )
            case NotHappened():
                self._record(
                    e.Abort(
                        at=now,
                        step=step,
                        attempt=attempt,
                        outcome="not_done",
                        error=ended.error,
                        code=ended.code,
                        retriable=ended.is_retriable,
                        latency=ended.latency_ms,
                    )
                )
            case Unknown():
                self._record(
                    e.Abort(
                        at=now,
                        step=step,
                        attempt=attempt,
                        outcome="unknown",
                        error=ended.error,
                        code=ended.code,
                        latency=ended.latency_ms,
                    )
                )

    async def _count(self, tool: str, ended: Ended) -> None:
        is_success = isinstance(ended, Done)
        if is_success and not self.around.breakers.glance(tool).failures:
            return
        await self._flush()
        await self.around.breakers.record(tool, is_success=is_success, now=self._now())

    # --- events ---

    def _record(self, event: e.Event) -> None:
        self.state = evolve(self.state, event)
        self._unit.events.append(event)

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
        if self._tail_bytes > max(checkpoint.SMALLEST_FOLD, self._fold_bytes):
            folded = checkpoint.fold(self.state)
            self._fold_bytes, self._tail_bytes = len(folded.data), 0
            unit.checkpoints.append(folded)
        await self._crash("before_append")
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
        await self._crash("after_append")
        self.log += unit.events
        for event in unit.events:
            self.around.tell(self.state, event)
        for intent in unit.begin:
            self._begin(intent)

    async def _events(self) -> list[e.Event]:
        """Every event of the session, from the journal where this process has not seen them all."""
        if len(self.log) == self.state.position:
            return self.log
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
            self._course = Course.of(Plan.model_validate(self.state.plan), self.setting.surface)
            self._course_of = self.state.plan_hash
        return self._course

    def _plan(self) -> Plan:
        if self.course is None:
            raise InternalError("there is no plan")
        return self.course.plan

    def _call(self, step: str) -> Any:
        if self.course is None:
            raise InternalError("there is no plan")
        return self.course.calls[step]

    def _now(self) -> int:
        return max(self.around.clock.now(), self.state.at)


def row_of(state: State) -> SessionRow:
    """What lists of sessions show."""
    start = state.start
    return SessionRow(
        session_id=start["session"],
        tenant=start["tenant"],
        status=state.status,
        pack=start["pack"],
        pack_hash=start["pack_hash"],
        snapshot=start["snapshot"],
        intent=start["request"]["intent"],
        owner=start["actor"]["id"],
        started_at=start["at"],
        updated_at=state.at,
        next_step=state.frontier[0] if state.frontier else None,
    )
