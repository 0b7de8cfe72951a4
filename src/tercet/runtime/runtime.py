"""The front door: run, resume, approve, deny, settle.

A `Runtime` holds a pack, a journal, a clock and nothing else; all that a run is, is in the journal.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from itertools import count
from types import TracebackType
from typing import Any, Self

from tercet.contracts.errors import UsageError
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.plan import Plan
from tercet.contracts.request import Actor, Request, anonymous
from tercet.executor.breaker import Breakers
from tercet.executor.clock import Clock, SystemClock
from tercet.executor.gateway import Gateway
from tercet.journal import events as e
from tercet.journal.errors import JournalError, LeaseLost
from tercet.journal.opening import open_journal
from tercet.journal.protocol import Journal, Lease, SessionRow
from tercet.packs.pack import Pack
from tercet.planner.template import PlanningError, fill
from tercet.runtime import opening
from tercet.runtime.answering import Held, Reply, append_reply, take
from tercet.runtime.driver import Driver
from tercet.runtime.plans import read_plan
from tercet.runtime.records import read_record
from tercet.runtime.setting import Setting
from tercet.runtime.state import OpenGate, State
from tercet.runtime.surroundings import Surroundings
from tercet.runtime.transcript import moment
from tercet.runtime.work import Planner, Work

LEASE_MS = 10_000


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """How a session stands: over, waiting for a person, or paused."""

    status: str
    session_id: str
    reason: str
    outputs: dict[str, Any]
    report: dict[str, Any]
    verdict: dict[str, Any]
    record: str
    """The digest of the decision record; `Runtime.record` reads it."""
    gate: OpenGate | None
    steps_done: int

    @classmethod
    def of(cls, state: State) -> RunResult:
        """The result that a state comes to."""
        return cls(
            status=state.status,
            session_id=state.start["session"],
            reason=state.reason,
            outputs=state.outputs,
            report=state.report,
            verdict=state.verdict,
            record=state.record,
            gate=next(iter(state.gates.values()), None),
            steps_done=len(state.done),
        )


class TemplatePlanner:
    """Proposes the pack's own plan for an intent."""

    name = "template"

    def __init__(self, pack: Pack) -> None:
        self._templates = {plan.intent: plan for plan in pack.templates}

    async def propose(self, setting: Setting, feedback: tuple[str, ...]) -> Plan:
        """The template of the request's intent; it cannot learn, so a refused one is not proposed again."""
        request = setting.compiled.request
        template = self._templates.get(request.intent) if request else None
        if request is None or template is None:
            raise PlanningError(
                "no plan was given, and the pack has no template for this intent",
                remedy="give a plan, or add one with this intent to the pack's templates folder",
            )
        if feedback:
            raise PlanningError(
                f"the template was refused: {'; '.join(feedback)}", remedy="mend the template, or give a plan"
            )
        return fill(template, request, setting.compiled.snapshot)


class Runtime:
    """Runs a pack's decisions on a journal."""

    def __init__(
        self,
        pack: Pack,
        journal: str | Journal = "memory:",
        *,
        tenant: str = "default",
        clock: Clock | None = None,
        ids: Callable[[], str] | None = None,
        draw: Callable[[], float] = random.random,
        lease_ms: int = LEASE_MS,
        crash: Callable[[str], Awaitable[None] | None] = lambda _: None,
        tell: Callable[[State, e.Event], None] = lambda _state, _event: None,
        signal: Callable[[str, dict[str, Any]], None] = lambda _name, _fields: None,
        held: Held = lambda _: None,
    ) -> None:
        self.pack = pack
        self.tenant = tenant
        self._url = journal
        self._clock = clock or SystemClock()
        self._ids = ids or (lambda: os.urandom(8).hex())
        self._draw = draw
        self._lease_ms = lease_ms
        self._crash = crash
        self._tell = tell
        self._signal = signal
        self._held = held
        self._tools = {tool.name: tool for tool in pack.tools}
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{os.urandom(4).hex()}"
        self._leases = count(1)
        self._drivers: dict[str, Driver] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self.journal = (
            await self._stack.enter_async_context(open_journal(self._url))
            if isinstance(self._url, str)
            else self._url
        )
        self._gateway = Gateway(self._clock)
        self._breakers = Breakers(self.journal, self.tenant)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def _fresh_owner(self) -> str:
        """A name for one lease: two tasks of one process contend for a session like any two processes."""
        return f"{self._owner}:{next(self._leases)}"

    # --- running ---

    async def run(
        self,
        request: Request,
        *,
        plan: Plan | None = None,
        safety_mode: ApprovalMode | None = None,
        snapshot: str | None = None,
        actor: Actor | None = None,
        planner: Planner | None = None,
    ) -> RunResult:
        """Start a session and carry it as far as it goes."""
        now = self._clock.now()
        session = f"ses_{self._ids()}"
        ctx = self.pack.run_context(
            run_id=f"run_{self._ids()}",
            trace_id=f"trace_{self._ids()}",
            tenant=self.tenant,
            actor=actor or anonymous(),
            safety_mode=safety_mode,
            started_at=moment(now),
        )
        setting = opening.setting_of(self.pack, ctx, request, snapshot)
        proposing = planner or TemplatePlanner(self.pack)
        if plan is None and planner is None:
            await proposing.propose(setting, ())  # a request that nobody can plan starts no session
        lease = await self.journal.acquire(
            self.tenant, session, owner=self._fresh_owner(), now_ms=now, ttl_ms=self._lease_ms
        )
        work = Work(None if plan else proposing, plan)
        driver = self._driver(setting, State(), lease, work)
        driver.begin(opening.started(self.pack, setting, request, session, now))
        if plan is not None:
            # In one append with the start: nobody but the caller knows it, so a session without it could not go on.
            driver.begin(await work.propose(driver.state, setting, now))
        return await self._drive(driver, session)

    async def resume(self, session_id: str, *, planner: Planner | None = None) -> RunResult:
        """Carry on a session that was paused, waits no longer, or whose process has died.

        A session that was started with a planner of its own needs that planner again to plan anew.
        """
        if session_id in self._drivers:
            raise UsageError(
                f"session {session_id} is being carried on here already",
                code="session_busy",
                remedy="wait for the run that has it",
            )
        restored = await opening.restore(self.journal, self.tenant, session_id)
        if restored.state.is_over:
            return RunResult.of(restored.state)
        setting = self._pinned(restored.state)
        lease = await self._take(session_id)
        try:
            driver = await self._taken_over(setting, lease, planner, restored)
        except BaseException:
            await self.journal.release(lease)
            raise
        if driver.state.is_over:
            await self.journal.release(lease)
            return RunResult.of(driver.state)
        return await self._drive(driver, session_id)

    async def _taken_over(
        self, setting: Setting, lease: Lease, planner: Planner | None, known: opening.Restored
    ) -> Driver:
        """A driver for the session of a lease, where it stands now."""
        restored = await opening.restore(self.journal, self.tenant, lease.stream, known=known)
        state = restored.state
        is_callers = state.plan_origin == "caller" and bool(state.plan)
        work = (
            Work(None, read_plan(state.plan))
            if is_callers
            else Work(planner or TemplatePlanner(self.pack), None)
        )
        driver = self._driver(setting, state, lease, work, tail_bytes=restored.tail_bytes)
        await driver.load_blobs()
        if not state.is_over:
            driver.begin(
                e.SessionResumed(
                    at=max(self._clock.now(), state.at),
                    owner=self._fresh_owner(),
                    epoch=lease.epoch,
                    in_flight=state.in_flight,
                )
            )
        return driver

    def _pinned(self, state: State) -> Setting:
        """What a session was started in; raises `UsageError` if this pack is not the one that it is pinned to."""
        ctx, request = opening.frame_of(state)
        setting = opening.setting_of(self.pack, ctx, request, state.start["snapshot"] or None)
        opening.demand_pins(self.pack, state, setting)
        return setting

    def _driver(
        self, setting: Setting, state: State, lease: Lease, work: Work, *, tail_bytes: int = 0
    ) -> Driver:
        around = Surroundings(
            journal=self.journal,
            clock=self._clock,
            gateway=self._gateway,
            breakers=self._breakers,
            tools=self._tools,
            work=work,
            lease_ms=self._lease_ms,
            draw=self._draw,
            crash=self._crash,
            tell=self._tell,
            signal=self._signal,
        )
        return Driver(around, setting, state, lease, tail_bytes=tail_bytes)

    async def _take(self, session: str) -> Lease:
        """The lease on a session, as soon as its owner has let go of it or it has run out."""
        return await take(
            self.journal,
            self.tenant,
            session,
            owner=self._fresh_owner(),
            clock=self._clock,
            lease_ms=self._lease_ms,
            held=self._held,
        )

    async def _drive(self, driver: Driver, session: str) -> RunResult:
        self._drivers[session] = driver
        renewing = asyncio.ensure_future(self._renew(driver))
        try:
            return RunResult.of(await driver.advance())
        finally:
            renewing.cancel()
            self._drivers.pop(session, None)
            if not driver.state.is_over:  # nobody wants the lease on a session that is over
                with suppress(JournalError):  # it runs out by itself; what the run came to must be told
                    await self.journal.release(driver.lease)

    async def _renew(self, driver: Driver) -> None:
        while True:
            await self._clock.sleep(self._lease_ms // 3)
            try:
                driver.lease = await self.journal.renew(
                    driver.lease, now_ms=self._clock.now(), ttl_ms=self._lease_ms
                )
            except LeaseLost:
                driver.stop()
                return
            except JournalError:
                # Asked again soon; a lease that runs out meanwhile holds every call back, and an append says more.
                continue

    def stop(self) -> None:
        """Let every session of this process come to a halt from which it can be resumed."""
        for driver in self._drivers.values():
            driver.stop()

    # --- people ---

    async def approve(self, gate_id: str, *, actor: Actor, note: str = "") -> RunResult:
        """Approve the call that a gate shows; whoever drives the session goes on with it."""
        return await self._answer(Reply(gate=gate_id, answer="approve", actor=actor, note=note))

    async def deny(self, gate_id: str, *, actor: Actor, note: str = "") -> RunResult:
        """Deny it; the run ends failed."""
        return await self._answer(Reply(gate=gate_id, answer="deny", actor=actor, note=note))

    async def settle(
        self, gate_id: str, *, happened: bool, value: Any = None, actor: Actor, note: str = ""
    ) -> RunResult:
        """Say whether a call of unknown outcome happened, and what it brought."""
        answer = "happened" if happened else "did_not_happen"
        return await self._answer(Reply(gate=gate_id, answer=answer, actor=actor, note=note, value=value))

    async def _answer(self, reply: Reply) -> RunResult:
        driver = self._drivers.get(reply.session)
        if driver is not None and (taken := await driver.answer(reply.event)) is not None:
            return RunResult.of(taken)
        moved = await append_reply(
            self.journal,
            self.tenant,
            reply,
            owner=self._fresh_owner(),
            clock=self._clock,
            lease_ms=self._lease_ms,
            held=self._held,
        )
        return RunResult.of(moved)

    # --- looking ---

    async def state(self, session_id: str) -> State:
        """How a session stands, folded from its events."""
        return (await opening.restore(self.journal, self.tenant, session_id)).state

    async def sessions(self, *, status: str | None = None, limit: int = 50) -> list[SessionRow]:
        """The sessions of this tenant, newest first."""
        return await self.journal.sessions(self.tenant, status=status, limit=limit)

    async def record(self, session_id: str) -> dict[str, Any]:
        """The decision record of a session that is over."""
        state = await self.state(session_id)
        if not state.record:
            raise UsageError(
                f"session {session_id} has no record yet", code="no_record", remedy="it is not over"
            )
        return await read_record(self.journal, self.tenant, state)
