"""The front door: run, resume, and what people say to a run.

A `Runtime` holds a pack, a journal, a clock and nothing else; all that a run is, is in the journal. It is one long list of
what a caller may ask for, and stays whole because each of these hands on to a room of its own.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import cache, partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tercet.contracts.behaviour import is_outdated
from tercet.contracts.context import RunContext
from tercet.contracts.errors import UsageError
from tercet.contracts.loop import Phase
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.plan import Plan
from tercet.contracts.request import Actor, InvokeRequest, Request, anonymous
from tercet.contracts.runs.record import RollbackResult
from tercet.contracts.runs.session import (
    BackgroundSession,
    ProgressEnvelope,
    RoleLimit,
    RoleName,
    SessionRules,
)
from tercet.contracts.runs.trace_context import read_traceparent
from tercet.contracts.shape import TEN_YEARS_MS
from tercet.contracts.values.plain import storable
from tercet.core import commands as c
from tercet.core import events as e
from tercet.core import messages
from tercet.core.answers import Now
from tercet.core.config import RunConfig
from tercet.core.messages import Message
from tercet.core.plans import read_plan
from tercet.core.shared import SharedWork
from tercet.core.state import State
from tercet.core.transcript import moment
from tercet.engine import inbox as mail
from tercet.engine import progress
from tercet.engine import sessions as opening
from tercet.engine.checks import retention
from tercet.engine.driver import Driver
from tercet.engine.evidence.library import NO_SHELF, Library, Shelf
from tercet.engine.given import Fields, as_actor, as_envelope, as_pack, as_plan, as_request, demand_journal
from tercet.engine.leases import LEASE_MS, Held, LeaseClient, Tenure
from tercet.engine.lists import ListedGate, ListedSession, open_gates
from tercet.engine.models.planners import (
    PLANNER_NAMES,
    PlannerName,
    TaskPlanner,
    TemplatePlanner,
    choose_planner,
)
from tercet.engine.models.session import MODEL, Inquirer, NamedModels, OpenModel, names_of, open_all
from tercet.engine.notifications import Notifier
from tercet.engine.people import People, Roster
from tercet.engine.planning import AnyPlanner, Planning
from tercet.engine.pool import DriverPool
from tercet.engine.result import RunResult
from tercet.engine.services import Services
from tercet.engine.session_reader import Restored, load_state, read_record, restore
from tercet.engine.streams import artifacts, nesting
from tercet.engine.streams.artifacts import Artifact
from tercet.engine.streams.kinds import demand_history
from tercet.engine.streams.nesting import ALONE, Place
from tercet.engine.streams.recent_calls import recent_calls
from tercet.engine.streams.stops import EmergencyStops, Stop, StopKind, demand_kind
from tercet.engine.subscription import Observer, Signal, Subscription
from tercet.engine.watchdog import WATCHDOG_MS, Swept, Ward, Watchdog
from tercet.evidence.errors import StoreError
from tercet.evidence.opening import open_evidence
from tercet.evidence.retrieval import Retriever
from tercet.evidence.store import EvidenceStore
from tercet.executor.breaker import Breakers
from tercet.executor.clock import AnchoredClock, Clock, SystemClock
from tercet.executor.gateway import Gateway
from tercet.journal.errors import AppendUnknown, ClaimHeld, JournalError, LeaseHeld
from tercet.journal.opening import open_journal
from tercet.journal.protocol import Journal
from tercet.models.model import Model
from tercet.models.opening import open_model
from tercet.packs.pack import Pack
from tercet.replay.agents import Agents, Recalls
from tercet.replay.outcome import ReplayReport
from tercet.replay.replay import replay_recording
from tercet.replay.rules import RuleSource
from tercet.replay.sources import load_run
from tercet.tools import ToolContext
from tercet.tools.tool import Lines

_WHILE_OPEN = frozenset(
    ("journal", "_desk", "_gateway", "_breakers", "_board", "_keeper", "_subscription", "_watchdog")
)
"""What a runtime has only once it is open."""

LONG_MS = 3_600_000
"""The least time to live of a session that is meant to run for long."""


def _demand_period(watchdog_ms: int | None) -> int | None:
    if watchdog_ms is not None and watchdog_ms < 1:
        raise UsageError(
            f"a watchdog cannot look every {watchdog_ms} ms",
            code="wrong_period",
            remedy="give how many milliseconds lie between two looks, or None for no watchdog",
        )
    return watchdog_ms


def _limits(pack: Pack, setting: RunConfig) -> Callable[[RoleName], RoleLimit]:
    """The limits of each role in a run for this decision, each worked out once."""
    return cache(partial(pack.limit_for, decision=setting.spec))


def _demand_life(ttl_ms: int | None) -> None:
    if ttl_ms is not None and not 1 <= ttl_ms <= TEN_YEARS_MS:
        raise UsageError(
            f"a session cannot live for {ttl_ms:,} ms",
            code="wrong_ttl",
            remedy="give how many milliseconds it may live, at most ten years, or None for what its pack says",
        )


async def _end(task: asyncio.Future[None]) -> None:
    """End a task of our own, however it ends."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _refuse(found: LeaseHeld) -> None:
    """Wait for nobody."""
    raise found


def _new_id() -> str:
    return os.urandom(8).hex()


def _wait_on(_: LeaseHeld) -> None:
    """Go on waiting for a session that another process has."""


@dataclass(frozen=True, kw_only=True)
class RuntimeOptions:
    """What a runtime rarely needs to be told."""

    lease_ms: int = LEASE_MS
    """How long a process may be silent before another one may take its sessions over."""
    held: Held = _wait_on
    """Called at every look while another process has a session; it may raise to wait no longer."""
    signal: Signal | None = None
    """Receives named measurements, such as `checkpoint_written` and `lease_wait`."""
    retriever: Retriever | None = None
    """Searches the evidence store; by words where none is given."""
    open_model: OpenModel = open_model
    """Opens language models by their names."""
    clock: Clock | None = None
    ids: Callable[[], str] = _new_id
    """Makes the ids of sessions and runs."""
    draw: Callable[[], float] = random.random
    """Draws from [0, 1): the jitter of retries."""
    crash: Callable[[str], Awaitable[None] | None] = lambda _: None
    """Called at every named crash point; does nothing outside of tests."""


@dataclass(frozen=True, kw_only=True)
class _Move:
    """A session's move to another pack, snapshot or set of rules."""

    by: str = ""
    """The operator; empty where outdated rules are the reason."""
    shelf: Shelf


class Runtime(People):
    """Runs a pack's decisions on a journal, and judges past runs again."""

    def __init__(
        self,
        pack: Pack,
        journal: str | Journal = "memory:",
        *,
        tenant: str = "default",
        packs: Sequence[Pack] = (),
        evidence: str | EvidenceStore | None = None,
        critics: Sequence[Model] = (),
        repairers: Sequence[Model] = (),
        observers: Sequence[Observer] = (),
        progress: Callable[[ProgressEnvelope], None] | None = None,
        tell: Callable[[State, e.Event], None] | None = None,
        watchdog_ms: int | None = WATCHDOG_MS,
        trusts_caller: bool = False,
        options: RuntimeOptions | None = None,
    ) -> None:
        """`packs` are older versions whose sessions may go on; `evidence` is a store, or its address, where plans may look for
        facts beside the pack's own. `critics` and `repairers` are language models of your own that judge and repair outputs,
        instead of those that the pack names. `observers` receive what became of every run, `progress` how far each session
        of this process is, and `tell` every event once it is durable. `watchdog_ms` is how often sessions are looked after
        that no process carries; None leaves that to other processes. Where the pack lists people, a person who is not among
        them holds no role, whatever the caller says, unless `trusts_caller` is set."""
        options = options or RuntimeOptions()
        self.pack = as_pack(pack)
        demand_journal(journal)
        self._packs = {other.hash: other for other in packs} if pack.session.resume == "pinned" else {}
        self._roster = Roster(pack.actors, trusts_caller=trusts_caller)
        self.tenant = tenant
        self._url = journal
        self._options = options
        self._clock = options.clock or SystemClock()
        self._tell = tell
        self._progress = progress
        self._evidence = evidence
        self._library: Library | None = None
        self._watchdog_ms = _demand_period(watchdog_ms)
        self._shared = SharedWork()
        self._lines = Lines()
        self._tools = self._lines.bind(pack.tools)
        self._models = NamedModels(options.open_model)
        self._critics = tuple(critics)
        self._repairers = tuple(repairers)
        self._observers = tuple(observers)
        self._stack = AsyncExitStack()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Asked only for what is not there: most of a runtime is there once it is open."""
            if name in _WHILE_OPEN:
                raise UsageError(
                    "this runtime is not open",
                    code="not_open",
                    remedy="use it inside of: async with Runtime(pack) as runtime",
                )
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            self.journal = (
                await stack.enter_async_context(open_journal(self._url))
                if isinstance(self._url, str)
                else self._url
            )
            if self._evidence is not None:
                store = (
                    await stack.enter_async_context(open_evidence(self._evidence))
                    if isinstance(self._evidence, str)
                    else self._evidence
                )
                self._library = Library(store, self._options.retriever)
            self._furnish(stack)
            self._stack = stack.pop_all()
        return self

    def _furnish(self, stack: AsyncExitStack) -> None:
        """All that works on the journal. It is closed in reverse order, each whatever becomes of the others."""
        stack.push_async_callback(self._lines.aclose)
        self._subscribe(stack)
        stack.push_async_callback(self._models.aclose)
        self._desk = LeaseClient(
            journal=self.journal,
            tenant=self.tenant,
            clock=self._clock,
            lease_ms=self._options.lease_ms,
            signal=self._subscription.signal,
        )
        self._gateway = Gateway(self._clock)
        self._breakers = Breakers(self.journal, self.tenant)
        self._board = EmergencyStops(self.journal, self.tenant, self.pack.name)
        self._keeper = DriverPool(
            self.journal,
            self.tenant,
            self._clock,
            self._board,
            lease_ms=self._options.lease_ms,
            signal=self._subscription.signal,
        )
        self._watchdog = Watchdog(self._ward())
        stack.push_async_callback(self._watchdog.close)
        if self._watchdog_ms is not None:
            guarding = asyncio.ensure_future(self._watchdog.watch(self._watchdog_ms))
            stack.push_async_callback(_end, guarding)
        stack.callback(self._keeper.close)

    def _subscribe(self, stack: AsyncExitStack) -> None:
        """Subscribe whatever the caller and the packs want to hear of runs."""
        self._subscription = subscription = Subscription(
            self.journal, self.tenant, observers=self._observers, signal=self._options.signal
        )
        stack.push_async_callback(subscription.close)
        if self._tell is not None:
            subscription.add_listener("tell_failed", self._tell)
        if self._progress is not None:
            subscription.add("progress_failed", progress.envelopes(self._progress, self._clock))
        packs = {self.pack.hash: self.pack, **self._packs}
        if any(pack.notify for pack in packs.values()):
            notifier = Notifier(lambda pack_hash: packs[pack_hash].notify, subscription.signal)
            subscription.add_listener("notify_failed", notifier.notify)
            stack.push_async_callback(notifier.close)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def _ward(self) -> Ward:
        """What the watchdog looks after, and what it may do."""
        return Ward(
            desk=self._desk,
            rules=self._rules_of,
            is_carried=self._keeper.__contains__,
            carry=self._carry_unwatched,
            is_stopped=self._is_stopped,
            stop=self._let_go,
            signal=self._subscription.signal,
        )

    def _rules_of(self, pack_hash: str) -> SessionRules | None:
        """The rules of a pack that is here, by its hash."""
        found = self.pack if pack_hash == self.pack.hash else self._packs.get(pack_hash)
        return found.session if found is not None else None

    async def _carry_unwatched(self, session_id: str) -> RunResult:
        """Take a session over for the watchdog, which does not wait for those that somebody has."""
        return await self._resume(session_id, held=_refuse)

    async def _is_stopped(self) -> bool:
        """Whether an emergency stop keeps every tool of this runtime from being called."""
        await self._board.refresh()
        return self._board.stopped("") is not None

    def _let_go(self, session_id: str) -> None:
        """Let a session come to a halt."""
        if (driver := self._keeper.get(session_id)) is not None:
            driver.control.stop()

    # --- running ---

    async def run(
        self,
        request: Request | Fields,
        *,
        plan: Plan | Fields | None = None,
        safety_mode: ApprovalMode | None = None,
        snapshot: str | None = None,
        actor: Actor | Fields | None = None,
        planner: AnyPlanner | PlannerName | None = None,
        models: Sequence[str] = (),
        ttl_ms: int | None = None,
        shadow: bool = False,
        parent: ToolContext | None = None,
        traceparent: str = "",
        dev: bool = False,
        folder: str = "",
    ) -> RunResult:
        """Start a session and carry it as far as it goes. Request, plan and actor may be dicts of their fields.

        A request with a `request_key` that the same actor used before for this pack is the session that it began. That
        session is continued, unless it is over, waits for a person, was paused by one, or another process carries it; so
        it is safe to send a request again that may not have arrived. `shadow` only rehearses: the plan is reviewed, nothing is
        called, and no key is used up. `planner` is one of the pack's by its name, or one of your own; `models` are the names of the
        language models that the planner "model" asks, the second one when the first does not answer. A tool that starts
        a run hands in its own context as `parent`, so that recursion ends somewhere; without `actor`, the owner of that
        run owns the nested one too. `traceparent` is the W3C header of
        whoever asks: the run becomes part of that trace. `dev` starts a development session, in which one person may act as
        any actor of the pack, recorded as simulated. `folder` is the pack's, as next commands shall name it.
        """
        _demand_life(ttl_ms)
        request, plan = as_request(request), as_plan(plan)
        above = () if parent is None else nesting.owners_above(parent)
        asker = as_actor(actor) if actor is not None else above[0] if above else anonymous()
        owner = self.known(messages.nameable(asker))
        opening.demand_development(self.pack, owner, is_dev=dev)
        caller = traceparent or ("" if parent is None else parent.traceparent)
        asking_span = str(read_traceparent(caller)) if caller else ""
        body = opening.body_of(request, plan)
        # A rehearsal claims no key: the run itself can still be sent with it.
        claims = () if shadow else opening.claims_of(request, self.pack, owner)
        if claims and (known := await self._submitted(request, body, owner, planner)) is not None:
            return known
        clock = AnchoredClock(self._clock)
        now = clock.now()
        session = f"ses_{self._options.ids()}"
        async with AsyncExitStack() as owed:
            place = await self._place(parent, session)
            owed.push_async_callback(self._give_back, place, session)
            ctx = self._frame(now, owner, safety_mode, place)
            shelf = await self._shelf(request, now)
            # A planner of the caller's own might change the context that it is handed.
            is_shared = planner is None or isinstance(planner, str)
            setting = opening.setting_of(self.pack, ctx, request, snapshot, shelf, is_shared=is_shared)
            if not shadow:
                opening.demand_extras(setting)
            frozen = opening.freeze(self.pack, setting.compiled.snapshot, shelf)
            proposing = None if plan is not None else self._planner(planner, request.intent, models)
            if isinstance(proposing, TemplatePlanner | TaskPlanner) and proposing is not planner:
                await proposing.propose(setting, ())  # a request that nobody can plan starts no session
            asking = proposing.models if proposing is not None and isinstance(proposing, Inquirer) else ()
            open_all(asking)  # nor does one whose models cannot be asked
            planning = Planning(proposing, plan, limit_for=_limits(self.pack, setting))
            started = opening.started(
                self.pack,
                setting,
                request,
                session,
                now,
                planner="" if proposing is None else proposing.name,
                models=names_of(asking),
                is_fallible=planning.is_fallible,
                is_stepwise=planning.is_stepwise,
                ttl_ms=ttl_ms,
                is_shadow=shadow,
                body=body,
                place=place,
                parent_owners=above,
                frozen=frozen,
                traceparent=asking_span,
                is_dev=dev,
                folder=folder,
            )
            await self._pin(session, "", shelf.snapshot)
            owed.push_async_callback(self._unpin, session, shelf.snapshot)
            tenure = self._desk.begin(session)
            driver = self._driver(self.pack, setting, State(), tenure, planning, clock)
            driver.begin(started, claims=claims, blobs=opening.kept_blobs(self.pack, frozen))
            if (given := planning.known_plan(driver.state, now)) is not None:
                # In one append with the start: nobody but the caller knows it, so a session without it could not go on.
                driver.record(c.Propose(), given)
            return await self._carry_new(driver, owed, request, body, owner)
        raise AssertionError  # nothing that is owed swallows an exception

    async def _carry_new(
        self, driver: Driver, owed: AsyncExitStack, request: Request, body: str, owner: Actor
    ) -> RunResult:
        """Carry a session that is not in the journal yet; what is owed stays so only if it surely never came there."""
        is_absent = False
        try:
            return await self._carry(driver)
        except JournalError as error:
            is_absent = not driver.ledger.log and not isinstance(error, AppendUnknown)
            known = (
                await self._submitted(request, body, owner)
                if is_absent and isinstance(error, ClaimHeld)
                else None
            )
            if known is None:
                raise
            return known  # somebody sent the same request at the same moment
        finally:
            if not is_absent:
                owed.pop_all()

    async def invoke(
        self, envelope: InvokeRequest | Fields, *, plan: Plan | Fields | None = None
    ) -> RunResult:
        """Start what an envelope asks for. A long-running one must be meant to: its session may live for an hour or more.

        Raises `UsageError` for another tenant's envelope, and for a long-running one with less time.
        """
        envelope = as_envelope(envelope)
        duration = envelope.runtime.max_session_duration_ms
        if envelope.tenant != self.tenant:
            raise UsageError(
                f"this runtime serves the tenant {self.tenant}, not {envelope.tenant}",
                code="wrong_tenant",
                remedy="send it to the runtime of that tenant",
            )
        if envelope.mode == "long_running" and duration < LONG_MS:
            raise UsageError(
                f"a long-running session lives for at least {LONG_MS:,} ms, not {duration:,}",
                code="too_short",
                remedy="raise runtime.max_session_duration_ms, or ask for mode inline",
            )
        return await self.run(envelope.request, plan=plan, actor=envelope.actor, ttl_ms=duration)

    def _planner(
        self, given: AnyPlanner | PlannerName | None, intent: str, models: Sequence[str]
    ) -> AnyPlanner:
        """The planner that was handed in, or the pack's own by its name."""
        if given is None or isinstance(given, str):
            return choose_planner(self.pack, intent, given or "", named=self._models, models=models)
        return given

    def _frame(self, now: int, actor: Actor, safety_mode: ApprovalMode | None, place: Place) -> RunContext:
        """The frame of a new run, with its share of the iterations where it stands among others."""
        ctx = self.pack.run_context(
            run_id=f"run_{self._options.ids()}",
            trace_id=f"trace_{self._options.ids()}",
            tenant=self.tenant,
            actor=actor,
            safety_mode=safety_mode,
            started_at=moment(now),
        )
        if place.max_iterations is None:
            return ctx
        budget = ctx.run_budget.model_copy(update={"max_iterations": place.max_iterations})
        return ctx.model_copy(update={"run_budget": budget})

    async def _place(self, parent: ToolContext | None, session: str) -> Place:
        if parent is None:
            return ALONE
        return await nesting.reserve(self.journal, self.tenant, parent, session, self.pack.budget)

    async def _give_back(self, place: Place, session: str) -> None:
        """Give back the iterations of a run that was never begun."""
        with suppress(JournalError):  # what it was refused for must be told
            await nesting.give_back(self.journal, self.tenant, place, session)

    async def _carry(self, driver: Driver) -> RunResult:
        state = await self._keeper.carry(driver)
        self._subscription.publish_release(state, driver.ledger.log)
        if state.is_over:
            await self._unpin(str(state.start.session), str(state.start.library))
        if state.start.root:
            await nesting.settle(self.journal, self.tenant, state)
        return RunResult.of(state)

    async def _shelf(self, request: Request, now: int) -> Shelf:
        """What of the library a run begins with."""
        if self._library is None:
            return NO_SHELF
        return await self._library.shelf(self.tenant, self.pack.decision_for(request.intent), request, now)

    async def _pin(self, session: str, before: str, after: str) -> None:
        """Keep the snapshot that a session is pinned to, and give up the one that it was pinned to before."""
        if self._library is None or before == after:
            return
        if after:
            await self._library.store.pin(self.tenant, after, session)
        if before:
            await self._library.store.unpin(self.tenant, before, session)

    async def _unpin(self, session: str, pinned: str) -> None:
        """Give up the snapshot that a session was pinned to, if there is one."""
        with suppress(
            StoreError
        ):  # the run has ended or never began; a pin that stays costs room, and nothing else
            await self._pin(session, pinned, "")

    async def _submitted(
        self,
        request: Request,
        body: str,
        owner: Actor,
        planner: AnyPlanner | PlannerName | None = None,
    ) -> RunResult | None:
        """Return the session that this request began, continued if it can be; None if there is none."""
        session = await opening.find_session(self.journal, self.tenant, request, self.pack, owner)
        if session is None:
            return None
        state = await self.state(session)
        opening.demand_same(request, state, body)
        if not await self._can_continue(session, state):
            return RunResult.of(state)
        try:
            return await self._resume(session, None if isinstance(planner, str) else planner, held=_refuse)
        except (UsageError, LeaseHeld):  # another process has it, or it needs another pack or planner
            return RunResult.of(await self.state(session))

    async def _can_continue(self, session: str, state: State) -> bool:
        """Whether a session goes on without an answer or a decision by a person."""
        if state.is_over or state.paused_by or session in self._keeper:
            return False
        return not state.gates or bool(await mail.unread(self.journal, self.tenant, state))

    async def resume(
        self,
        session_id: str,
        *,
        planner: AnyPlanner | None = None,
        extend: dict[str, int] | None = None,
        actor: Actor | None = None,
    ) -> RunResult:
        """Carry on a session that was paused, waits no longer, or whose process has died.

        A session that was started with a planner of its own needs that planner again to plan anew. `extend` adds to its
        budget first.

        A session whose rules have since been found to let effects through without their approval does not go on under
        them: it adopts the current rules, its plan is reviewed again, and its approvals are asked for again.
        """
        if session_id in self._keeper:
            raise UsageError(
                f"session {session_id} is being carried on here already",
                code="session_busy",
                remedy="wait for the run that has it",
            )
        if extend is not None:
            await self.extend(session_id, extend, actor=actor or anonymous())
        return await self._resume(session_id, planner, held=self._options.held)

    async def _resume(self, session_id: str, planner: AnyPlanner | None = None, *, held: Held) -> RunResult:
        restored = await restore(self.journal, self.tenant, session_id)
        if restored.state.is_over:
            return RunResult.of(restored.state)
        pack, setting = await self._pinned(restored.state)
        if not is_outdated(setting.ctx.behaviour):
            return await self._carry_on(pack, setting, restored, planner, held=held)
        shelf = await opening.shelf_of(self.journal, restored.state)
        ctx, request = opening.frame_of(restored.state)
        snapshot = setting.compiled.snapshot or None
        current = opening.setting_of(pack, opening.under_current_rules(ctx), request, snapshot, shelf)
        return await self._carry_on(pack, current, restored, planner, held=held, moved=_Move(shelf=shelf))

    async def migrate(self, session_id: str, *, actor: Actor, planner: AnyPlanner | None = None) -> RunResult:
        """Move a session to this pack, its newest snapshot and the rules of this version, and carry it on: its plan is
        reviewed again, and nothing that was approved before counts. One that is ending ends with the tools of this pack."""
        restored = await restore(self.journal, self.tenant, session_id)
        if restored.state.is_over:
            raise UsageError(
                f"session {session_id} is over: it is {restored.state.status}",
                code="session_over",
                remedy="start another run",
            )
        opening.demand_movable(self.pack, restored.state)
        ctx, request = opening.frame_of(restored.state)
        shelf = await self._shelf(request, self._clock.now())
        setting = opening.setting_of(self.pack, opening.under_current_rules(ctx), request, None, shelf)
        opening.demand_moved(self.pack, setting, restored.state)
        return await self._carry_on(
            self.pack,
            setting,
            restored,
            planner,
            held=self._options.held,
            moved=_Move(by=storable(as_actor(actor).id), shelf=shelf),
        )

    async def _carry_on(
        self,
        pack: Pack,
        setting: RunConfig,
        restored: Restored,
        planner: AnyPlanner | None,
        *,
        held: Held,
        moved: _Move | None = None,
    ) -> RunResult:
        session = str(restored.state.start.session)
        if restored.state.phase not in (Phase.COMMIT, Phase.FAIL):
            opening.demand_extras(setting)
        tenure = await self._desk.wait_for(session, held)
        if tenure is None:
            return RunResult.of(await self.state(session))
        try:
            driver = await self._taken_over(pack, setting, tenure, planner, restored)
        except BaseException:
            await self.journal.release(tenure.lease)
            raise
        if driver.state.is_over:
            await self.journal.release(tenure.lease)
            return RunResult.of(driver.state)
        if moved is not None:
            frozen = opening.freeze(pack, setting.compiled.snapshot, moved.shelf)
            await self._pin(session, driver.state.start.library, setting.library_snapshot)
            event = opening.migrated(pack, setting, driver.state, moved.by, frozen)
            driver.begin(event, blobs=opening.kept_blobs(pack, frozen))
        driver.control.check_inbox()
        return await self._carry(driver)

    async def _taken_over(
        self,
        pack: Pack,
        setting: RunConfig,
        tenure: Tenure,
        planner: AnyPlanner | None,
        known: Restored,
    ) -> Driver:
        """A driver for the session of a lease, where it stands now."""
        lease = tenure.lease
        await demand_history(self.journal, self.tenant, lease.stream)
        restored = await restore(self.journal, self.tenant, lease.stream, known=known)
        state = restored.state
        clock = AnchoredClock(self._clock, earliest=state.at)
        is_callers = state.plan_origin == "caller" and bool(state.plan)
        proposing = (
            None if is_callers else opening.planner_of(state, planner, self._usual(pack, setting, state))
        )
        if isinstance(proposing, Inquirer) and Phase.PLAN in (state.phase, state.halted_from):
            open_all(proposing.models)
        given = read_plan(state.plan) if is_callers else None
        planning = Planning(proposing, given, limit_for=_limits(pack, setting))
        driver = self._driver(pack, setting, state, tenure, planning, clock, tail_bytes=restored.tail_bytes)
        await driver.values.load_for(driver.state)
        if not state.is_over:
            now = driver.now()
            # What was said before is heard before: resuming what was handed to a person would close their gate.
            letters = await mail.unread(self.journal, self.tenant, state)
            for event, _ in mail.receive_all(state, letters, now, outside=True):
                driver.begin(event)
            people = self._roster.people
            driver.record(
                c.Resume(
                    owner=lease.owner,
                    epoch=lease.epoch,
                    people=None if people == state.start.people else people,
                ),
                Now(at=now),
            )
        return driver

    def _usual(self, pack: Pack, setting: RunConfig, state: State) -> AnyPlanner:
        """The planner by its name that a session was started with, or that it would be started with now."""
        started = str(state.start.planner or "")
        intent = setting.compiled.request.intent if setting.compiled.request else ""
        if started not in PLANNER_NAMES:
            return choose_planner(pack, intent, named=self._models)
        models = tuple(map(str, state.start.models or ()))
        return choose_planner(
            pack, intent, started, named=self._models, models=models if started == MODEL else ()
        )

    async def _pinned(self, state: State) -> tuple[Pack, RunConfig]:
        """What a session was started in; raises `UsageError` if no pack here is the one that it is pinned to.

        A pack that lets sessions go on pinned gives them the evidence that they have kept.
        """
        pack = self._packs.get(state.start.pack_hash, self.pack)
        opening.demand_pack(pack, state)
        if pack.session.resume == "pinned" and pack.hash == state.start.pack_hash:
            pack = await opening.thawed(self.journal, pack, state)
        ctx, request = opening.frame_of(state)
        shelf = await opening.shelf_of(self.journal, state)
        setting = opening.setting_of(pack, ctx, request, opening.snapshot_of(pack, state), shelf)
        opening.demand_pins(pack, state, setting)
        return pack, setting

    def _driver(
        self,
        pack: Pack,
        setting: RunConfig,
        state: State,
        tenure: Tenure,
        planning: Planning,
        clock: AnchoredClock,
        *,
        tail_bytes: int = 0,
    ) -> Driver:
        around = Services(
            journal=self.journal,
            clock=clock,
            gateway=self._gateway,
            breakers=self._breakers,
            tools=self._lines.bind(pack.tools) if pack is not self.pack else self._tools,
            lines=self._lines,
            planning=planning,
            draw=self._options.draw,
            stops=self._board,
            critics=self._critics or self._models.named(pack, pack.models.critic),
            repairers=self._repairers or self._models.named(pack, pack.models.repair),
            library=self._library,
            objection=self._roster.objection,
            crash=self._options.crash,
            subscription=self._subscription,
            shared=self._shared,
        )
        return Driver(around, setting, state, tenure, tail_bytes=tail_bytes)

    def stop(self) -> None:
        """Let every session of this process come to a halt from which it can be resumed."""
        for driver in self._keeper:
            driver.control.stop()

    async def replay(self, run_id: str, *, agents: Iterable[Recalls] = ()) -> ReplayReport:
        """Judge a run of this journal again, by its session or run id. Nothing is called, and nothing written.

        `agents` are the Engines of runs that an agent decided in: critics that are pure are asked again.
        """
        recording = await load_run(self.journal, self.tenant, run_id)
        rules = RuleSource((self.pack,), agents=Agents(agents, has_installed=True))
        return replay_recording(recording, rules)

    # --- people ---

    def roles(self, actor_id: str) -> tuple[str, ...] | None:
        """The roles that a person holds by the pack's list of people; None for somebody who is not in it."""
        return self._roster.roles(actor_id)

    def known(self, actor: Actor) -> Actor:
        """Somebody with the roles that they hold: by the pack's list, or by the caller's word where that counts."""
        return self._roster.known(as_actor(actor))

    async def say(self, said: Message) -> RunResult:
        """Say something to a session, whoever carries it: how it stands once that has become an event."""
        driver = self._keeper.get(said.session)
        if driver is not None:
            messages.event_of(said, driver.state, driver.now())  # raises at once for what is already wrong
            position = await mail.post(self.journal, self.tenant, said)
            if (state := await driver.control.read_up_to(position)) is not None:
                return RunResult.of(await mail.answer_to(self.journal, self.tenant, state, position))
            # It was let go of before it had read that; it is not said twice.
            return RunResult.of(await mail.follow(self._desk, said.session, position, self._options.held))
        return RunResult.of(await mail.deliver(self._desk, said, self._options.held))

    # --- operators ---

    async def halt(self, kind: StopKind, name: str, *, actor: Actor, note: str = "") -> Stop:
        """Emergency stop of a tool, a pack or the tenant: nothing that it names is called any more, here or in any other
        process; runs that want to come to rest, and can be resumed once it is lifted."""
        demand_kind(kind)
        if kind == "tenant" and name != self.tenant:
            raise UsageError(
                f"this runtime belongs to tenant {self.tenant}, and cannot stop {name}",
                code="wrong_tenant",
                remedy="stop it from a runtime of that tenant",
            )
        return await self._board.write(self._stop_of(kind, name, actor, note))

    async def lift(self, kind: StopKind, name: str, *, actor: Actor, note: str = "") -> Stop:
        """End an emergency stop."""
        demand_kind(kind)
        return await self._board.write(self._stop_of(kind, name, actor, note, is_lifted=True))

    def _stop_of(
        self, kind: StopKind, name: str, actor: Actor, note: str, *, is_lifted: bool = False
    ) -> Stop:
        return Stop(
            kind=kind,
            name=storable(name),
            by=storable(as_actor(actor).id),
            at=self._clock.now(),
            note=storable(note),
            is_lifted=is_lifted,
        )

    async def sweep(self) -> Swept:
        """Look once after the sessions that nobody carries, as the watchdog does now and then: those whose time is over
        expire and are brought to their end, those whose process is gone are paused, or resumed if their pack says so."""
        return await self._watchdog.sweep()

    async def settle_rollback(
        self, session_id: str, step: str, *, actor: Actor, note: str = ""
    ) -> RollbackResult:
        """Record that somebody dealt with an effect that could not be taken back, and how."""
        return await artifacts.settle_rollback(
            self.journal,
            self.tenant,
            await self.state(session_id),
            step,
            by=storable(as_actor(actor).id),
            note=storable(note),
            now=self._clock.now(),
        )

    async def prune(self, *, older_than_ms: int | None = None) -> int:
        """Forget sessions that ended so long ago, or of this pack, those that ended before the time it keeps them for;
        how many they were. One that cannot be read stays, and is told as the signal `prune_failed`."""
        age = retention.demand_age(older_than_ms, self.pack.session.retention_days)
        if age is None:
            return 0
        is_any = older_than_ms is not None
        return await retention.prune(
            self._desk,
            before_ms=self._clock.now() - age,
            is_ours=lambda row: is_any or row.pack.partition("@")[0] == self.pack.name,
            signal=self._subscription.signal,
        )

    # --- looking ---

    async def state(self, session_id: str) -> State:
        """How a session stands, folded from its events."""
        return await load_state(self.journal, self.tenant, session_id)

    async def session(self, session_id: str) -> BackgroundSession:
        """The row of a session in its published shape, with its heartbeat and its checkpoints."""
        return await progress.session_row(self.journal, self.tenant, session_id)

    def watch(self, session_id: str) -> AsyncIterator[ProgressEnvelope]:
        """How far a session is, now and each time that it moves, until it is over; whichever process carries it."""
        return progress.watch(self.journal, self.tenant, session_id, clock=self._clock)

    async def artifact(self, session_id: str) -> Artifact:
        """What a session that came to rest has left: an AgentResult, a FailureReport or a HaltRecord."""
        return await artifacts.artifact(self.journal, self.tenant, session_id)

    async def sessions(self, *, status: str | None = None, limit: int = 50) -> list[ListedSession]:
        """The sessions of this tenant, newest first."""
        wanted = None if status is None else storable(status)
        rows = await self.journal.sessions(self.tenant, status=wanted, limit=limit)
        return [ListedSession.of(row) for row in rows]

    async def gates(self, *, limit: int = 200) -> list[ListedGate]:
        """The gates of this tenant that wait for an answer, of every pack: what each asks, whom, and since when."""
        found = await open_gates(self.journal, self.tenant, limit)
        now = self._clock.now()
        return [
            ListedGate.of(
                state,
                gate,
                await recent_calls(self.journal, self.tenant, str(state.start.session), gate, now),
            )
            for state, gate in found
        ]

    async def record(self, session_id: str) -> dict[str, Any]:
        """The decision record of a session that is over."""
        state = await self.state(session_id)
        if not state.record:
            raise UsageError(
                f"session {session_id} has no record yet", code="no_record", remedy="it is not over"
            )
        return await read_record(self.journal, self.tenant, state)
