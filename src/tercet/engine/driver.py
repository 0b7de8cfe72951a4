"""The driver: carries one session forward until it is over, or waits for a person, a time or a signal.

One turn: fold what has ended into events, ask `decide` for the next command, carry it out, fold its event, and so on
until nothing is due; append everything as one unit; then begin the calls whose INTENT has become durable. So COMPLETE,
verdict, checkpoint and the next INTENT share one append, and a step costs one barrier. An effect never begins before
its INTENT is durable: if the append fails, nothing is called.

What can be told apart stands elsewhere: calls under way, the ledger, rest, and whatever is asked of planners and libraries.
The rest stays in one place, since all of it reads and writes one state between two appends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import is_
from typing import Any, Literal, TypeVar

import msgspec

from tercet.contracts.canonical import hash_bytes
from tercet.contracts.context import KnownResult
from tercet.contracts.effective import EffectiveStep
from tercet.contracts.errors import InternalError
from tercet.contracts.evidence import Evidence
from tercet.contracts.invocation import Backoff
from tercet.contracts.loop import Phase
from tercet.contracts.mode import Trust
from tercet.contracts.plain import is_small
from tercet.contracts.plan import Plan
from tercet.contracts.shape import as_object
from tercet.core import commands as c
from tercet.core import decide as deciding
from tercet.core import effects as undoing
from tercet.core import events as e
from tercet.core import messages
from tercet.core.attempt import Done, Ended, NotHappened, Unknown
from tercet.core.backoff import delay_ms
from tercet.core.config import ExecutionPlan, RunConfig
from tercet.core.drift import accepted_drift, approved_drift
from tercet.core.expiry import overdue
from tercet.core.fold.base import INTERRUPTED, NOT_MADE, STOPPED
from tercet.core.fold.gate import acceptances
from tercet.core.plans import read_plan
from tercet.core.results import entered_results
from tercet.core.same_calls import recent_claim
from tercet.core.state import UNDO, State
from tercet.engine import inbox as mail
from tercet.engine.calls import Calls
from tercet.engine.evidence.retrieval import read_facts
from tercet.engine.leases import Tenure
from tercet.engine.ledger import Ledger
from tercet.engine.outputs.loop import QualityLoop
from tercet.engine.services import Services
from tercet.engine.streams.repeats import Repeats
from tercet.engine.streams.stops import Stop
from tercet.engine.thinking import Thinking
from tercet.engine.wakeup import Rest
from tercet.journal.protocol import Lease

_T = TypeVar("_T")

LARGE = 64 * 1024
"""A value of more bytes is stored as a blob, and the event carries its digest."""
_BEGINNING = (
    c.CheckRepeats, c.Dispatch, c.Settle, c.Propose, c.Reflect, c.DrawExperience, c.DrawSamples, c.RunTests, c.VerifyOutputs,
    c.Attack, c.Critique, c.FetchEvidence, c.Repair,
)  # fmt: skip
"""What is not begun once the process was told to stop."""
HEAVY = 512 * 1024
"""Work on more bytes than this is done in a thread, so that it does not block the event loop."""
GRACE_MS = 2_000
"""How long calls in flight may take to end after the process was told to stop."""


@dataclass(frozen=True, kw_only=True)
class Halt:
    """Why a driver lets go of its session before the run is over."""

    reason: str = "the process was told to stop"
    code: str = ""
    by: str = ""
    simulated_by: str = ""
    inbox: int = 0
    grace_ms: int | None = GRACE_MS
    """How long calls under way may still take; None lets each take its own time."""


class Driver:
    """One session in one process, under one lease."""

    def __init__(
        self, around: Services, setting: RunConfig, state: State, tenure: Tenure, *, tail_bytes: int = 0
    ) -> None:
        self.around = around
        self._rest = Rest()
        self.ledger = Ledger(around, state, tenure.lease, tail_bytes=tail_bytes)
        self.state = state
        """As the ledger has it: all the rest reads it here."""
        self.calls = Calls(around, tenure, nudge=self._rest.nudge)
        self.halt: Halt | None = None
        """Set once nothing more shall begin."""
        self._stirred = asyncio.Event()
        """Set when whoever waits for a model has to look up: to stop, or for the inbox."""
        self._has_mail = False
        """Whether somebody may have put something into the inbox."""
        self._listeners: list[tuple[int, asyncio.Future[State | None]]] = []
        """Who waits until the inbox has been read up to a position, and that is durable."""
        self._is_dismissed = False
        """Whether nothing will be read any more."""
        self._bell = 0
        self._base = self._current = setting
        self._made_of: tuple[object, ...] = (None,) * 6
        """What of the state went into it: each of them is another object when it has changed."""
        self._facts: dict[str, tuple[Evidence, ...]] = {}
        """What plans have found, by its digest."""
        self._grace_until: float | None = None
        self._course: ExecutionPlan | None = None
        self._course_of: tuple[Any, Any] = (state.plan, state.undo) if not state.plan else (None, None)
        self.blobs: dict[str, Any] = {}
        """The large results at hand, by their digest."""
        self._blob_bytes = 0

    # Nothing that a driver holds points back at it: so a run is let go of at its end, with all that belongs to it, and
    # the collector of cycles, which would look at everything in the process, has nothing to find.

    @property
    def _thinking(self) -> Thinking:
        return Thinking(self, self.around, self.calls)

    @property
    def _judging(self) -> QualityLoop:
        return QualityLoop(self, self.around, self.calls)

    def begin(self, event: e.Event, *, claims: tuple[str, ...] = (), blobs: tuple[bytes, ...] = ()) -> None:
        """The event with which this process begins or takes over; it is appended with the first turn."""
        self._record(event)
        self.ledger.unit.claims += claims
        self.ledger.unit.blobs += blobs

    @property
    def setting(self) -> RunConfig:
        """What the run is judged and carried out in, with what operators have added to its budget."""
        state = self.state
        made_of = (state.extended, state.learned, state.facts, state.entered, state.changed, state.earlier)
        if not all(map(is_, made_of, self._made_of)):
            self._made_of = made_of
            current = self._base
            if state.facts:
                current = current.with_facts([fact for each in state.facts for fact in self._facts[each]])
            if state.learned:
                current = current.knowing(self._known())
            if state.entered:
                current = current.with_entered(entered_results(state))
            if state.changed:
                current = current.with_changed(state.changed)
            if state.earlier:
                current = current.after(state.earlier)
            self._current = current.extended(state.extended) if state.extended else current
        return self._current

    def _known(self) -> tuple[KnownResult, ...]:
        """The trusted results of earlier turns."""
        return tuple(
            KnownResult(
                step_id=result.step,
                tool=result.tool,
                value=self.blobs[result.blob] if result.blob else result.value,
                trust=Trust.TRUSTED,
            )
            for result in self.state.learned
        )

    @property
    def lease(self) -> Lease:
        """The right to write."""
        return self.tenure.lease

    @property
    def tenure(self) -> Tenure:
        """The lease and how long it still runs; the keeper renews it."""
        return self.calls.tenure

    def look_into_inbox(self) -> None:
        """Somebody may have said something to this session."""
        self._has_mail = True
        self._stirred.set()
        self._rest.nudge()

    async def read_up_to(self, position: int) -> State | None:
        """The state once the inbox has been read up to a position, and that is durable; None if the session was let go
        of before."""
        if self._is_dismissed:
            return None
        listener: asyncio.Future[State | None] = asyncio.get_running_loop().create_future()
        self._listeners.append((position, listener))
        self.look_into_inbox()
        return await listener

    def dismiss(self) -> None:
        """Tell everybody who waits that nothing will be read any more; whoever comes later is told at once."""
        self._is_dismissed = True
        for _, listener in self._listeners:
            if not listener.done():
                listener.set_result(None)

    def stop(self, halt: Halt | None = None) -> None:
        """Begin nothing more, and come to a halt."""
        self._stirred.set()
        if self.halt is None or self.halt.grace_ms is None:
            wanted = halt or Halt()
            read = (
                0 if self.halt is None else self.halt.inbox
            )  # a pause that was asked for is not asked for again
            self.halt = replace(wanted, inbox=max(wanted.inbox, read))
        self._rest.nudge()

    def _stop_for(self, stop: Stop | None) -> None:
        """Come to a halt because the lease is lost, or because an operator stopped what would be called."""
        self.stop(None if stop is None else Halt(reason=stop.reason, by=stop.by, grace_ms=None))

    async def load_blobs(self) -> None:
        """Read the large values that steps still to come refer to."""
        steps = [self.state.steps[name] for name in self.state.needed if name in self.state.steps]
        learned = (result.blob for result in self.state.learned)
        await self._load((*(step.blob for step in steps), *self.state.named_in.values(), *learned))
        for digest in self.state.facts:
            self._facts[digest] = read_facts(await self.blob(digest))

    async def _load(self, digests: Iterable[str]) -> None:
        for digest in {*digests} - {"", *self.blobs}:
            data = await self.blob(digest)
            self._blob_bytes += len(data)
            self.blobs[digest] = await self.aside(partial(_read_json, data))

    async def aside(self, work: Callable[[], _T]) -> _T:
        """Run pure work whose duration grows with the session's values: in a thread if they are large, so that leases are
        renewed meanwhile."""
        return await self._run_weighed(work, self._blob_bytes)

    async def aside_with_log(self, work: Callable[[], _T]) -> _T:
        """The same for work that reads every event of the session."""
        return await self._run_weighed(work, self._blob_bytes + self.ledger.weight)

    async def _run_weighed(self, work: Callable[[], _T], weight: int) -> _T:
        if weight <= HEAVY:
            return work()
        return await self.around.gateway.threads.work(work)

    # --- the loop ---

    async def advance(self) -> State:
        """Go on until nothing is due."""
        try:
            while True:
                wake = await self._turn()
                await self._flush()
                if self.ledger.unit.begin or self.ledger.unit.events:
                    raise InternalError("a turn left work behind")
                if self._has_mail and not self.state.is_over:
                    continue
                if not self.calls and (wake is None or self.halt is not None or self.state.is_over):
                    return self.state if self.halt is None else await self._halted(self.halt)
                await self._wait(wake)
        finally:
            self.calls.abandon()

    async def _turn(self) -> int | None:
        """Carry out all that is due; the time at which more will be, if that is known."""
        if self._has_mail:
            await self._read_inbox()
        if (late := overdue(self.state, self.now())) is not None:
            self._record(late)
            self.ledger.point("expired")
        while True:
            wake: int | None = None
            position = self.state.position
            for command in await self.aside(self._due):
                not_before: int = getattr(command, "not_before", 0)
                if not_before and not_before > self.around.clock.now():
                    wake = not_before if wake is None else min(wake, not_before)
                elif self.halt is None or not isinstance(command, _BEGINNING):
                    await self._carry_out(command)
                    break
            if self.state.position == position or self._is_all_under_way():
                return wake

    def _due(self) -> tuple[c.Command, ...]:
        return deciding.decide(self.state, self.setting, self.course, self.blobs)

    def _is_all_under_way(self) -> bool:
        """Whether every step that could be looked at is being called, so that nothing can be due."""
        begun = self.ledger.unit.begin
        return bool(begun) and len(self.calls) + len(begun) == len(self.state.frontier)

    async def _read_inbox(self) -> None:
        """Make events of what people said; a wish to pause waits until the calls under way have ended."""
        if not self._has_mail or self.state.is_over:
            return
        self._has_mail = False
        letters = await mail.unread(self.around.journal, self.lease.tenant, self.state)
        for event, _ in mail.heard(self.state, letters, self.now(), outside=False):
            if isinstance(event, e.SessionPaused):
                self.stop(
                    Halt(
                        reason=event.reason,
                        by=event.by,
                        simulated_by=event.simulated_by,
                        inbox=event.inbox,
                        grace_ms=None,
                    )
                )
                return
            self._record(event)

    async def _wait(self, wake: int | None) -> None:
        """Until a call ends, it is time for something, somebody answers, or the process is told to stop."""
        if self.halt is not None:
            await self._wait_for_calls(self.halt)
        elif wake is None:
            await self._rest.wait()
        else:
            alarm = asyncio.ensure_future(self.around.clock.sleep(wake - self.around.clock.now()))
            alarm.add_done_callback(self._rest.nudge)
            try:
                await self._rest.wait()
            finally:
                alarm.remove_done_callback(self._rest.nudge)  # else cancelling it would wake the driver again
                alarm.cancel()
        await self._fold_ended()

    async def _fold_ended(self) -> None:
        for intent, ended in self.calls.ended():
            if (waiting := self.around.crash("after_answer")) is not None:
                await waiting
            await self._ended(intent, ended)
            await self._count(intent.tool, ended)

    async def _wait_for_calls(self, halt: Halt) -> None:
        """Let calls in flight end for a while; those that do not are left behind, their outcome unknown."""
        loop = asyncio.get_running_loop()
        while self.calls:
            left = None if halt.grace_ms is None else self._grace(loop.time(), halt.grace_ms)
            if left is not None and left <= 0:
                break
            await self._rest.wait(left)
            await self._fold_ended()
            if self.halt is not None:
                halt = self.halt  # a pause turns into a stop of the process
        for intent in self.calls.abandon():
            await self._ended(intent, Unknown(error="the process was told to stop", code=STOPPED))

    def _grace(self, now: float, grace_ms: int) -> float:
        """How many seconds are left of the grace, which begins when it is first asked for."""
        if self._grace_until is None:
            self._grace_until = now + grace_ms / 1000
        return self._grace_until - now

    async def _halted(self, halt: Halt) -> State:
        if not self.state.is_over and self.state.status == "in_progress" and not self.state.ending:
            self._record(
                e.SessionPaused(
                    at=self.now(),
                    reason=halt.reason,
                    code=halt.code,
                    by=halt.by,
                    simulated_by=halt.simulated_by,
                    inbox=halt.inbox,
                )
            )
            await self._flush(is_folded=True)
        return self.state

    # --- commands ---

    async def _carry_out(self, command: c.Command) -> None:
        match command:
            case c.CheckRepeats():
                found = await self._repeats(command.step).find(command.params, command.key, self.now())
                self._record(e.RepeatsChecked(at=self.now(), step=command.step, key=command.key, found=found))
            case c.Dispatch():
                await self._dispatch(command)
            case c.Judge():
                now, draw = self.now(), self.around.draw
                for event in self.around.work.judge(
                    self.state, self.setting, self.course, command.step, now, draw
                ):
                    self._record(event)
                self.ledger.point("step")
            case c.Note():
                self._note(command)
            case c.Retrieve():
                await self._thinking.retrieve()
            case c.Propose() | c.Reflect() | c.Settle():
                await self._flush()  # what comes next may take long: nothing is left unwritten
                await self._look_outside(command)
            case (
                c.DrawExperience()
                | c.DrawSamples()
                | c.RunTests()
                | c.VerifyOutputs()
                | c.Attack()
                | c.Critique()
                | c.FetchEvidence()
                | c.Repair()
            ):
                await self._judging.carry_out(command)
                self.ledger.point(self.state.phase)
                await self._read_inbox()
            case c.Score() | c.End() | c.Escalate() | c.Compensate():
                await self._look_back(command)
            case c.Review():
                changes = await self._changes_outside()
                now, work = self.now(), self.around.work
                self._record(
                    await self.aside(
                        lambda: work.review(self.state, self._plan(), self.setting, now, changes)
                    )
                )
                self.ledger.point(str(self.state.verdict.get("outcome", "")))
                for tool in {step.tool for step in self._plan().steps if step.tool}:
                    await self.around.breakers.refresh(tool, self.now())
            case _:
                self._record(await self.aside(partial(self._fact, command)))

    async def _changes_outside(self) -> tuple[str, ...]:
        """What the plan's tools reach outside that is no longer what a person has accepted; a rehearsal does not look."""
        named = {step.tool for step in self._plan().steps}
        tools = [tool for name in named if (tool := self.around.tools.get(name or "")) and tool.outside]
        if not tools or self.state.start.shadow:
            return ()
        await self._flush()  # looking may take long: nothing is left unwritten
        return await self.around.lines.find_changes(tools)

    def _fact(
        self, command: c.Decompose | c.Skip | c.Fault | c.Ask | c.Grant | c.Finish | c.StopExhausted
    ) -> e.Event:
        """The event of a command that needs nothing but the state."""
        now, work = self.now(), self.around.work
        match command:
            case c.Decompose():
                return e.Decomposed(at=now, steps=len(self.state.steps))
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
            case c.StopExhausted():
                return work.give_up(self.state, self.setting, command, now)
            case c.Finish():
                return work.finish(self.state, self.setting, self.course, self.blobs, now)

    async def _look_outside(self, command: c.Propose | c.Reflect | c.Settle) -> None:
        """Commands that ask a planner, an agent or a tool."""
        match command:
            case c.Propose():
                await self._thinking.propose()
                await self._read_inbox()
            case c.Reflect():
                await self._thinking.reflect()
                await self._read_inbox()
                if not self.state.is_turn_open:
                    self.ledger.point("turn")
            case c.Settle():
                await self._settle(command.step)

    # --- what thinking is lent ---

    def note(self, event: e.Event, *blobs: bytes) -> None:
        """Record an event, and bytes that belong to it."""
        self._record(event)
        self.ledger.unit.blobs += blobs

    async def events(self) -> Sequence[e.Event]:
        """All that has happened, and the large results that belong to it at hand."""
        events = await self.ledger.events(aside=self.aside_with_log)
        await self._load(event.blob for event in events if isinstance(event, e.Complete))
        return events

    def learn(self, digest: str, facts: tuple[Evidence, ...]) -> None:
        """Have facts at hand that the next event is about."""
        self._facts[digest] = facts

    def let_go(self, reason: str, code: str = "") -> None:
        """Come to a halt from which the session can be resumed."""
        self.stop(Halt(reason=reason, code=code))

    async def flush(self) -> None:
        """Make durable what was recorded, and hear whether an operator stopped the pack or the tenant."""
        await self._flush()
        if (stop := self.around.board.stopped("")) is not None:
            self._stop_for(stop)

    async def blob(self, digest: str) -> bytes:
        """Bytes that were stored before."""
        return await self.around.journal.blob(self.lease.tenant, digest)

    @property
    def is_let_go(self) -> bool:
        """Whether nothing more may begin."""
        return self.halt is not None

    async def interrupted(self) -> None:
        """Returns once the session is to be let go of, or somebody wants it to pause or to end."""
        while self.halt is None and not await self._is_called_off():
            await self._stirred.wait()
            self._stirred.clear()

    async def _is_called_off(self) -> bool:
        """Whether the inbox holds a wish that must not wait for a model."""
        if not self._has_mail:
            return False
        letters = await mail.unread(self.around.journal, self.lease.tenant, self.state)
        return any(messages.calls_off(letter.data) for letter in letters)

    async def _look_back(self, command: c.Score | c.End | c.Escalate | c.Compensate) -> None:
        """Commands that read all that has happened."""
        work, now = self.around.work, self.now()
        events = await self.ledger.events(aside=self.aside_with_log)
        match command:
            case c.Score():
                self._record(
                    await self.aside_with_log(
                        lambda: work.score(self.state, self.setting, self.course, events, self.blobs, now)
                    )
                )
                self.ledger.point("run")
            case c.End() if (lapsed := self._lapsed()) is not None:
                self._record(lapsed)
            case c.End():
                await self._thinking.remember()
                await self._judging.teach(events)
                now, status = self.now(), command.status
                ended, record = await self.aside_with_log(
                    lambda: work.end(self.state, self.setting, self.course, events, self.blobs, status, now)
                )
                self.ledger.unit.blobs.append(record)
                self._record(ended)
                self.ledger.point(command.status)
            case c.Escalate():
                opened, packet = await self.aside_with_log(
                    lambda: work.hand_over(self.state, self.setting, events, now)
                )
                self.ledger.unit.blobs.append(packet)
                self._record(opened)
            case c.Compensate():
                await self._take_back(command, events)

    async def _take_back(self, command: c.Compensate, events: list[e.Event]) -> None:
        """Take the effects of the run back, ask whether to, or leave them, where there are any."""
        done = undoing.effects(events)
        await self._load(effect.blob for effect in done)
        ways = await self.aside(lambda: undoing.ways_back(done, self.setting, self.around.tools, self.blobs))
        now = self.now()
        if not ways or command.how == "keep":
            self._record(e.EffectsKept(at=now))
        elif command.how == "ask" and any(way.tool for way in ways):
            self._record(self.around.work.ask_back(self.state, self.setting, ways, now))
        else:
            self._record(e.CompensationBegun(at=now, undo=ways))

    async def _dispatch(self, command: c.Dispatch) -> None:
        now = self.now()
        call = self._call(command.step)
        tool = self.around.tools[call.tool.name]
        if (stop := self.around.board.stopped(tool.name)) is not None:
            self._stop_for(stop)
            return
        if (drift := await self.aside(partial(self._drift, command.step, call, now))) is not None:
            self._record(drift)
            return
        circuit = self.around.breakers.glance(tool.name).state(now).value
        if circuit == "OPEN" and self.state.steps[command.step].is_unsettled:
            # It cannot be refused, since it may have happened: a person is asked instead.
            step = self.state.steps[command.step]
            acting = deciding.Acting(self.state, self.setting, self._followed(), self.blobs)
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
        if await self._is_taken(command, now):
            return
        work, course, epoch = self.around.work, self._followed(), self.lease.epoch
        intent = await self.aside(
            lambda: work.intent(self.state, self.setting, course, command, now, epoch, circuit)
        )
        self._record(intent)
        self.ledger.unit.claims.append(intent.key)
        claim = recent_claim(self.ledger.unit.events[-1], self.lease.stream, self.state.position)
        if claim is not None:
            self.ledger.unit.claims.append(claim)
        self.ledger.unit.begin.append(intent)

    def _repeats(self, name: str) -> Repeats:
        return Repeats(self.around.journal, self.state, self._call(name).tool, name)

    async def _is_taken(self, command: c.Dispatch, now: int) -> bool:
        """Return whether another call counts against one that may be made once in a period; claim it if not.

        The claim is durable before the INTENT is. An attempt whose outcome is unknown has its claim from before.
        """
        name = command.step
        step = self.state.steps[name]
        if self._call(name).tool.once_per is None or step.is_unsettled:
            return False
        await self._flush()  # a run that finds the claim must find the session
        found = await self._repeats(name).claim(command.params, command.key, now, step.earlier_calls)
        if found:
            self._record(e.RepeatsChecked(at=now, step=name, key=command.key, found=found))
        return bool(found)

    def _drift(self, name: str, call: EffectiveStep, now: int) -> e.StepRefused | None:
        """What has changed since a call was approved, so that it must not be made: looked at just before its INTENT."""
        found = approved_drift(self.state, self.setting, name, call, now, self.around.objection)
        if found is None or self.state.steps[name].is_unsettled:
            return None
        return e.StepRefused(at=now, step=name, code=found.code, reason=found.reason)

    def _lapsed(self) -> e.AcceptanceLapsed | None:
        """Why people have to be asked about the outputs again: looked at just before they are committed."""
        found = accepted_drift(self.state, self.setting, self.around.objection)
        if found is None:
            return None
        gate = acceptances(self.state)[-1].gate
        return e.AcceptanceLapsed(at=self.now(), gate=gate, reason=found.reason)

    def _note(self, command: c.Note) -> None:
        now = self.now()
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
            # In a run that is ending nothing is called again, and what leaves no effect need not be known.
            is_over = self.state.phase is Phase.FAIL and not name.startswith(UNDO)
            self._settled(name, "absent" if is_over else "run_again", by, self.now() + wait)
            return
        tool = self.around.tools[call.tool.name]
        params = deciding.Acting(self.state, self.setting, self._followed(), self.blobs).called_with(
            call.params
        )
        found = await self.around.gateway.look_up(
            tool, params, self.calls.context(self.state.start, name, step.key, step.attempt)
        )
        now, due = self.now(), step.since + call.tool.settle_after_ms
        match found:
            case Done():
                await self._completed(name, found, is_reconciled=True)
            case NotHappened() if now >= due:
                # That a process stopped is not the tool's fault: the call that it cut off is no retry.
                is_cut_off = step.code in (INTERRUPTED, STOPPED)
                has_retries = is_cut_off or deciding.has_retries(self.state, self.setting, step)
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
                later = now + delay_ms(Backoff(), step.asked, self.around.draw)
                self._settled(name, "ask_again", "reconcile", later, reason=found.error)

    def _settled(
        self,
        name: str,
        how: Literal["absent", "ask_again", "run_again"],
        by: str,
        not_before: int,
        *,
        reason: str = "",
    ) -> None:
        attempt = self.state.steps[name].attempt
        self._record(
            e.Settled(
                at=self.now(),
                step=name,
                attempt=attempt,
                how=how,
                by=by,
                not_before=not_before,
                reason=reason,
            )
        )

    # --- calls ---

    async def _ended(self, intent: e.Intent, ended: Ended) -> None:
        """Fold the end of a call into an event."""
        match ended:
            case Done():
                await self._completed(intent.step, ended)
            case NotHappened() | Unknown():
                is_known = isinstance(ended, NotHappened)
                self._record(
                    e.Abort(
                        at=self.now(),
                        step=intent.step,
                        attempt=intent.attempt,
                        outcome="not_done" if is_known else "unknown",
                        error=ended.error,
                        code=ended.code,
                        retriable=ended.is_retriable if is_known else True,
                        retry_after=ended.retry_after_ms if is_known else 0,
                        attempt_only=is_known and ended.is_attempt_only,
                        latency=ended.latency_ms,
                    )
                )

    async def _completed(self, name: str, ended: Done, *, is_reconciled: bool = False) -> None:
        """Record a call that happened, its value as a blob if it is large; what was reserved for it is spent."""
        step = self.state.steps[name]
        data, blob = await self._encode_value(ended.value)
        declared: list[str] = self.state.plan.get("declared_outputs", []) if blob else []
        carries = tuple(output for output in declared if output in (as_object(ended.value) or ()))
        if blob:
            self._blob_bytes += len(data)
            self.ledger.unit.blobs.append(data)
            if name in self.state.needed or carries:
                self.blobs[blob] = ended.value
        self._record(
            e.Complete(
                at=self.now(),
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

    async def _encode_value(self, value: Any) -> tuple[bytes, str]:
        """The bytes of a value, and their digest if they are stored as a blob."""
        if is_small(value):
            return _write_json(value)
        return await self.around.gateway.threads.work(partial(_write_json, value))

    async def _count(self, tool: str, ended: Ended) -> None:
        is_success = isinstance(ended, Done)
        if isinstance(ended, NotHappened) and ended.code in NOT_MADE:
            return  # nobody called the tool
        if is_success and not self.around.breakers.glance(tool).failures:
            return
        await self._flush()
        await self.around.breakers.record(tool, is_success=is_success, now=self.now())

    # --- events ---

    def _record(self, event: e.Event) -> None:
        self.state = self.ledger.record(event)

    async def _flush(self, *, is_folded: bool = False) -> None:
        """Write what has been recorded, then begin the calls whose INTENT is now durable."""
        unit = await self.ledger.write(aside=self.aside, is_folded=is_folded)
        if unit is None:
            return
        if self.ledger.bell != self._bell:
            # Somebody said something to the tenant: an emergency stop is heard before a call begins.
            self._bell = self.ledger.bell
            self._has_mail = True
            await self.around.board.refresh(self._bell)
        before = self.state.position - len(unit.events)
        for intent in unit.begin:
            position = before + unit.events.index(intent) + 1
            self.calls.begin(intent, self.state.start, self.now(), stop=self._stop_for, position=position)
        if self._listeners:
            self._tell_listeners()
        self.around.subscription.publish(self.state, unit.events, unit.checkpoints)

    def _tell_listeners(self) -> None:
        for waits_for, listener in self._listeners:
            if waits_for <= self.state.inbox and not listener.done():
                listener.set_result(self.state)
        self._listeners = [each for each in self._listeners if not each[1].done()]

    # --- the plan ---

    @property
    def course(self) -> ExecutionPlan | None:
        """The plan of the state, ready to be followed."""
        state = self.state
        if state.plan is not self._course_of[0] or state.undo is not self._course_of[1]:
            course = ExecutionPlan.of(read_plan(self.state.plan), self.setting.surface, self.around.tools)
            self._course = course.with_undo(self.state.undo, self.around.tools) if self.state.undo else course
            self._course_of = (state.plan, state.undo)
        return self._course

    def _followed(self) -> ExecutionPlan:
        if (course := self.course) is None:
            raise InternalError("there is no plan")
        return course

    def _plan(self) -> Plan:
        return self._followed().plan

    def _call(self, step: str) -> EffectiveStep:
        return self._followed().calls[step]

    def now(self) -> int:
        """The time, which never runs backwards within a session."""
        return max(self.around.clock.now(), self.state.at)


def _write_json(value: Any) -> tuple[bytes, str]:
    """The bytes of a value, and their digest if they are too many for an event."""
    data = msgspec.json.encode(value)
    return data, hash_bytes(data) if len(data) > LARGE else ""


def _read_json(data: bytes) -> Any:
    return msgspec.json.decode(data)
