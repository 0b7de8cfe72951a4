"""`Runtime`: starting, resuming, migrating and replaying runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial

import msgspec

from tercet.contracts.errors import UsageError
from tercet.contracts.loop import Phase
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.plan import Plan
from tercet.contracts.request import Actor, InvokeRequest, Request, anonymous
from tercet.contracts.runs.behaviour import is_outdated
from tercet.contracts.runs.session import (
    RoleLimit,
    RoleName,
)
from tercet.contracts.runs.trace_context import read_traceparent
from tercet.contracts.values.plain import storable
from tercet.core import commands as c
from tercet.core import messages
from tercet.core.answers import Now
from tercet.core.config import RunConfig
from tercet.core.plans import read_plan
from tercet.core.state import State
from tercet.engine import inbox, sessions
from tercet.engine.arguments import Fields, as_actor, as_envelope, as_plan, as_request
from tercet.engine.driver import MANY_STEPS, Driver
from tercet.engine.evidence.library import LibraryEvidence
from tercet.engine.lanes import LaneStart, bind_lanes
from tercet.engine.leases import Held, HeldLease
from tercet.engine.models.planners import (
    PLANNER_NAMES,
    PlannerName,
    TaskPlanner,
    TemplatePlanner,
    choose_planner,
)
from tercet.engine.models.session import MODEL, Inquirer, names_of, open_all
from tercet.engine.personal.vault import Vault
from tercet.engine.planning import AnyPlanner, Planning
from tercet.engine.result import RunResult
from tercet.engine.services import Services
from tercet.engine.session_reader import Restored, restore
from tercet.engine.streams import nesting
from tercet.engine.streams.kinds import demand_history
from tercet.engine.streams.nesting import ALONE, Place
from tercet.engine.values import LARGE
from tercet.executor.clock import AnchoredClock
from tercet.journal.errors import AppendUnknown, ClaimHeld, JournalError, LeaseHeld
from tercet.models.model import Model
from tercet.packs.pack import Pack
from tercet.runtime.live import record
from tercet.runtime.operations import Operations
from tercet.runtime.options import NewRun, require_ttl
from tercet.tools import ToolContext

LONG_MS = 3_600_000
"""The least time to live of a long-running session."""


def _limits(pack: Pack, config: RunConfig) -> Callable[[RoleName], RoleLimit]:
    """Return the function that looks up the limits of a model role for a decision, and remembers them."""
    known: dict[RoleName, RoleLimit] = {}

    def limit_for(role: RoleName) -> RoleLimit:
        if role not in known:
            known[role] = pack.limit_for(role, config.spec)
        return known[role]

    return limit_for


def _is_large(plan: Plan | Fields | None) -> bool:
    """Return whether parsing a caller's plan would block the event loop."""
    if isinstance(plan, Plan) or not isinstance(plan, dict):
        return isinstance(plan, Plan) and len(plan.steps) > MANY_STEPS
    try:
        return len(msgspec.json.encode(plan)) > LARGE
    except (TypeError, ValueError, RecursionError):
        return False  # it is refused unread


def _raise_if_held(found: LeaseHeld) -> None:
    """Raise at once if another process holds the session."""
    raise found


@dataclass(frozen=True, kw_only=True)
class _Move:
    """A session's move to another pack, snapshot or set of rules."""

    by: str = ""
    """The operator; empty if outdated rules are the reason."""
    library_evidence: LibraryEvidence


class Runtime(Operations):
    """Runs requests against a pack, with a journal: use it as `async with Runtime(pack) as runtime`."""

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
        _lane: LaneStart | None = None,
    ) -> RunResult:
        """Start a session and run it until it is over or waits. Request, plan and actor may be dicts of their fields.

        `request_key` makes a request idempotent: sent again by the same actor for this pack, it returns the session that it
        started, and continues it unless it is over, waits for a person, was paused by one, or runs in another process.
        `shadow` only rehearses: the plan is reviewed, no tool is called, and no key is claimed. `planner` is the name of a
        planner of the pack, or your own planner; `models` are the language models that the planner "model" asks, the
        second one if the first does not answer. A tool that starts a run passes its own context as `parent`, which limits
        the depth; without `actor`, the owner of that run owns the nested one too. `traceparent` is the caller's W3C
        header: the run becomes part of that trace. `dev` starts a development session, in which one person may act as any
        actor of the pack, recorded as simulated. `folder` is the pack's folder, which suggested commands name.
        """
        require_ttl(ttl_ms)
        sessions.demand_explained_replans(self.pack)
        request, is_large = as_request(request), _is_large(plan)
        if plan is not None:
            parse = partial(as_plan, plan)
            plan = await self._gateway.threads.work(parse) if is_large else parse()
        above = () if parent is None else nesting.owners_above(parent)
        asker = as_actor(actor) if actor is not None else above[0] if above else anonymous()
        owner = self.known(messages.nameable(asker))
        sessions.demand_development(self.pack, owner, is_dev=dev)
        caller = traceparent or ("" if parent is None else parent.traceparent)
        asking_span = str(read_traceparent(caller)) if caller else ""
        sealed = None
        if (vault := self._vault(self.pack)) is not None:
            sealed = await vault.seal_request(request, plan)
            request, plan = sealed.request, sealed.plan
        body = sessions.body_of(request, plan)
        # A rehearsal claims no key, so that the real run can use it.
        claims = () if shadow else sessions.claims_of(request, self.pack, owner)
        if claims and (known := await self._find_submitted(request, body, owner, planner)) is not None:
            return known
        new = NewRun(
            session=f"ses_{self._options.ids()}",
            request=request,
            plan=plan,
            safety_mode=safety_mode,
            snapshot=snapshot,
            owner=owner,
            planner=planner,
            models=models,
            ttl_ms=ttl_ms,
            shadow=shadow,
            parent=parent,
            parent_owners=above,
            traceparent=asking_span,
            dev=dev,
            folder=folder,
            lane=_lane,
            body=body,
            claims=claims,
            sealed=sealed,
            is_large=is_large,
        )
        async with AsyncExitStack() as owed:
            driver = await self._begin(new, owed)
            running = self._run_new(driver, owed.pop_all(), request, body, owner)
        if not self._options.is_front or parent is not None:
            return await running
        return await record(driver, running, self._options.keep) or await self._result(driver.state)

    async def _begin(self, new: NewRun, owed: AsyncExitStack) -> Driver:
        """Return the driver of a new session, which the journal does not have yet; `owed` undoes what was reserved."""
        clock = AnchoredClock(self._clock)
        now = clock.now()
        request, session = new.request, new.session
        place = ALONE
        if new.parent is not None:
            budget = self.pack.budget if new.lane is None else new.lane.budget
            place = await nesting.reserve(self.journal, self.tenant, new.parent, session, budget)
            owed.push_async_callback(self._return_iterations, place, session)
        ctx = self._frame(now, new.owner, new.safety_mode, place)
        if new.lane is not None:
            ctx = new.lane.frame(ctx)
        library_evidence = await self._library_evidence(request, now)
        # The caller's own planner might change its context.
        is_shared = new.planner is None or isinstance(new.planner, str)
        pack = await self._seal_evidence(self.pack)
        config = sessions.build_run_config(
            pack, ctx, request, new.snapshot, library_evidence, is_shared=is_shared
        )
        if not new.shadow:
            sessions.demand_extras(config)
        frozen = sessions.freeze(pack, config.compiled.snapshot, library_evidence)
        proposing, asking = await self._planning(new, config)
        planning = Planning(proposing, new.plan, limit_for=_limits(self.pack, config))
        started = sessions.make_start_event(
            self.pack,
            config,
            request,
            session,
            now,
            planner="" if proposing is None else proposing.name,
            models=names_of(asking),
            is_fallible=planning.is_fallible,
            is_stepwise=planning.is_stepwise,
            ttl_ms=new.ttl_ms,
            is_shadow=new.shadow,
            body=new.body,
            place=place,
            parent_owners=new.parent_owners,
            frozen=frozen,
            traceparent=new.traceparent,
            is_dev=new.dev,
            folder=new.folder,
            lane=None if new.lane is None else new.lane.recorded,
            personal="" if new.sealed is None else new.sealed.key,
        )
        if new.sealed is not None and (vault := self._vault(self.pack)) is not None:
            await vault.enrol(new.sealed, session)
        if library_evidence.snapshot:
            await self._pin(session, "", library_evidence.snapshot)
            owed.push_async_callback(self._unpin, session, library_evidence.snapshot)
        driver = self._driver(self.pack, config, State(), self._leases.begin(session), planning, clock)
        driver.begin(started, claims=new.claims, blobs=sessions.start_blobs(self.pack, frozen))
        dump = partial(planning.known_plan, driver.state, now)
        given = await self._gateway.threads.work(dump) if new.is_large else dump()
        if given is not None:
            # In one append with the start: without the caller's plan a session could not continue.
            driver.record(c.Propose(), given)
        return driver

    async def _planning(self, new: NewRun, config: RunConfig) -> tuple[AnyPlanner | None, Sequence[Model]]:
        """Return the planner of a new run and its models; raise if a template or a model cannot be used."""
        if new.plan is not None:
            return None, ()
        proposing = self._planner(new.planner, new.request.intent, new.models)
        if isinstance(proposing, TemplatePlanner | TaskPlanner) and proposing is not new.planner:
            await proposing.propose(config, ())  # a request without a plan starts no session
        asking = proposing.models if isinstance(proposing, Inquirer) else ()
        open_all(asking)  # nor does one whose models cannot be opened
        return proposing, asking

    async def _run_new(
        self, driver: Driver, owed: AsyncExitStack, request: Request, body: str, owner: Actor
    ) -> RunResult:
        """Run a new session; its reservations are undone only if it is certain that the journal does not have it."""
        async with owed:
            is_absent = False
            try:
                return await self._drive(driver)
            except JournalError as error:
                is_absent = not driver.ledger.log and not isinstance(error, AppendUnknown)
                known = (
                    await self._find_submitted(request, body, owner)
                    if is_absent and isinstance(error, ClaimHeld)
                    else None
                )
                if known is None:
                    raise
                return known  # the same request was sent twice at the same time
            finally:
                if not is_absent:
                    owed.pop_all()
        raise AssertionError  # no callback suppresses exceptions

    async def invoke(
        self, envelope: InvokeRequest | Fields, *, plan: Plan | Fields | None = None
    ) -> RunResult:
        """Start the run of an envelope; a long-running one needs a time to live of an hour or more.

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
                f"a long-running session needs a time to live of at least {LONG_MS:,} ms, not {duration:,}",
                code="too_short",
                remedy="raise runtime.max_session_duration_ms, or ask for mode inline",
            )
        return await self.run(envelope.request, plan=plan, actor=envelope.actor, ttl_ms=duration)

    def _planner(
        self, given: AnyPlanner | PlannerName | None, intent: str, models: Sequence[str]
    ) -> AnyPlanner:
        """Return the caller's planner, or the pack's planner by name."""
        if given is None or isinstance(given, str):
            return choose_planner(self.pack, intent, given or "", named=self._models, models=models)
        return given

    async def _return_iterations(self, place: Place, session: str) -> None:
        """Return the reserved iterations of a run that was never started."""
        with suppress(JournalError):  # the first error is the one to report
            await nesting.give_back(self.journal, self.tenant, place, session)

    async def _drive(self, driver: Driver) -> RunResult:
        state = await self._pool.drive(driver)
        self._subscription.publish_release(state, driver.ledger.log)
        if state.is_over:
            await self._unpin(state.start.session, state.start.library)
        if state.start.root:
            await nesting.settle(self.journal, self.tenant, state)
        return await self._result(state, driver.run.record)

    async def _find_submitted(
        self,
        request: Request,
        body: str,
        owner: Actor,
        planner: AnyPlanner | PlannerName | None = None,
    ) -> RunResult | None:
        """Return the session that this request started, continued if possible; None if there is none."""
        session = await sessions.find_session(self.journal, self.tenant, request, self.pack, owner)
        if session is None:
            return None
        state = await self.state(session)
        sessions.demand_same(request, state, body)
        is_left_to_worker = self._options.is_front and state.status == "in_progress"
        if is_left_to_worker or not await self._can_continue(session, state):
            return await self._result(state)
        try:
            given = None if isinstance(planner, str) else planner
            return await self._resume(session, given, held=_raise_if_held, is_left=self._options.is_front)
        except (UsageError, LeaseHeld):  # another process runs it, or it needs another pack or planner
            return await self._result(await self.state(session))

    async def _can_continue(self, session: str, state: State) -> bool:
        """Return whether a session can continue without an answer or a decision by a person."""
        if state.is_over or state.paused_by or session in self._pool:
            return False
        return not state.gates or bool(await inbox.read_unread(self.journal, self.tenant, state))

    # --- continuing ---

    async def carry_on(self, session_id: str) -> RunResult:
        """Resume a session that no process runs, as workers do; raise `LeaseHeld` at once if one does."""
        return await self._resume(session_id, held=_raise_if_held)

    async def resume(
        self,
        session_id: str,
        *,
        planner: AnyPlanner | None = None,
        extend: dict[str, int] | None = None,
        actor: Actor | None = None,
    ) -> RunResult:
        """Resume a session that was paused or answered, or whose process has died.

        A session that was started with a planner of its own needs that planner again to re-plan. `extend` adds to its
        budget first.

        A session under rules that are known to allow effects without their approval adopts the current rules: its plan is
        reviewed again, and its approvals are void.
        """
        if session_id in self._pool:
            raise UsageError(
                f"session {session_id} is already running in this process",
                code="session_busy",
                remedy="wait for it",
            )
        if extend is not None:
            await self.extend(session_id, extend, actor=actor or anonymous())
        return await self._resume(
            session_id, planner, held=self._options.held, is_left=self._options.is_front
        )

    async def _resume(
        self, session_id: str, planner: AnyPlanner | None = None, *, held: Held, is_left: bool = False
    ) -> RunResult:
        restored = await restore(self.journal, self.tenant, session_id)
        if restored.state.is_over:
            return await self._result(restored.state)
        pack, config = await self._pinned(restored.state)
        if not is_outdated(config.ctx.behaviour):
            return await self._continue(pack, config, restored, planner, held=held, is_left=is_left)
        library_evidence = await sessions.load_library_evidence(self.journal, restored.state)
        ctx, request = sessions.frame_of(restored.state)
        snapshot = config.compiled.snapshot or None
        current = sessions.build_run_config(
            pack, sessions.under_current_rules(ctx), request, snapshot, library_evidence
        )
        return await self._continue(
            pack, current, restored, planner, held=held, moved=_Move(library_evidence=library_evidence)
        )

    async def migrate(self, session_id: str, *, actor: Actor, planner: AnyPlanner | None = None) -> RunResult:
        """Move a session to this pack, its newest snapshot and the rules of this version, and resume it: its plan is
        reviewed again, and earlier approvals are void. One that is ending ends with the tools of this pack."""
        restored = await restore(self.journal, self.tenant, session_id)
        if restored.state.is_over:
            raise UsageError(
                f"session {session_id} is over: it is {restored.state.status}",
                code="session_over",
                remedy="start another run",
            )
        sessions.demand_movable(self.pack, restored.state)
        ctx, request = sessions.frame_of(restored.state)
        library_evidence = await self._library_evidence(request, self._clock.now())
        pack = await self._seal_evidence(self.pack)
        config = sessions.build_run_config(
            pack, sessions.under_current_rules(ctx), request, None, library_evidence
        )
        sessions.demand_moved(self.pack, config, restored.state)
        return await self._continue(
            pack,
            config,
            restored,
            planner,
            held=self._options.held,
            moved=_Move(by=storable(as_actor(actor).id), library_evidence=library_evidence),
            is_left=self._options.is_front,
        )

    async def _continue(
        self,
        pack: Pack,
        config: RunConfig,
        restored: Restored,
        planner: AnyPlanner | None,
        *,
        held: Held,
        moved: _Move | None = None,
        is_left: bool = False,
    ) -> RunResult:
        session = restored.state.start.session
        if restored.state.phase not in (Phase.COMMIT, Phase.FAIL):
            sessions.demand_extras(config)
        held_lease = await self._leases.wait_for(session, held)
        if held_lease is None:
            return await self._result(await self.state(session))
        try:
            driver = await self._take_over(pack, config, held_lease, planner, restored)
        except BaseException:
            await self.journal.release(held_lease.lease)
            raise
        if driver.state.is_over:
            await self.journal.release(held_lease.lease)
            return await self._result(driver.state)
        if moved is not None:
            frozen = sessions.freeze(pack, config.compiled.snapshot, moved.library_evidence)
            await self._pin(session, driver.state.start.library, config.library_snapshot)
            event = sessions.make_migration_event(pack, config, driver.state, moved.by, frozen)
            driver.begin(event, blobs=sessions.start_blobs(pack, frozen))
        driver.control.check_inbox()
        if is_left:
            driver.control.hand_over()
        return await self._drive(driver)

    async def _take_over(
        self,
        pack: Pack,
        config: RunConfig,
        held_lease: HeldLease,
        planner: AnyPlanner | None,
        known: Restored,
    ) -> Driver:
        """Return a driver for the session of a lease, in its current state."""
        lease = held_lease.lease
        await demand_history(self.journal, self.tenant, lease.stream)
        restored = await restore(self.journal, self.tenant, lease.stream, known=known)
        state = restored.state
        clock = AnchoredClock(self._clock, earliest=state.at)
        is_callers = state.plan_origin == "caller" and bool(state.plan)
        proposing = (
            None
            if is_callers
            else sessions.planner_of(state, planner, self._default_planner(pack, config, state))
        )
        if isinstance(proposing, Inquirer) and Phase.PLAN in (state.phase, state.halted_from):
            open_all(proposing.models)
        given = read_plan(state.plan) if is_callers else None
        planning = Planning(proposing, given, limit_for=_limits(pack, config))
        driver = self._driver(
            pack, config, state, held_lease, planning, clock, tail_bytes=restored.tail_bytes
        )
        await driver.values.load_for(driver.state)
        if not state.is_over:
            now = driver.now()
            # Earlier messages are read first: resuming an escalated session would close its gate.
            unread = await inbox.read_unread(self.journal, self.tenant, state)
            for event, _ in inbox.apply_messages(state, unread, now, outside=True):
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

    def _default_planner(self, pack: Pack, config: RunConfig, state: State) -> AnyPlanner:
        """Return the planner that a session was started with, by name, or the pack's default."""
        started = state.start.planner
        intent = config.compiled.request.intent if config.compiled.request else ""
        if started not in PLANNER_NAMES:
            return choose_planner(pack, intent, named=self._models)
        models = state.start.models if started == MODEL else ()
        return choose_planner(pack, intent, started, named=self._models, models=models)

    async def _pinned(self, state: State) -> tuple[Pack, RunConfig]:
        """Return the pack and configuration of a session; raise `UsageError` if its pinned pack is not loaded.

        A pack that lets pinned sessions continue uses the evidence that they have stored.
        """
        pack = self._packs.get(state.start.pack_hash, self.pack)
        sessions.demand_pack(pack, state)
        is_pinned = pack.session.resume == "pinned" or bool(pack.personal.evidence)
        if is_pinned and pack.hash == state.start.pack_hash:
            pack = await sessions.restore_evidence(self.journal, pack, state)
        ctx, request = sessions.frame_of(state)
        library_evidence = await sessions.load_library_evidence(self.journal, state)
        config = sessions.build_run_config(
            pack, ctx, request, sessions.snapshot_of(pack, state), library_evidence
        )
        sessions.demand_pins(pack, state, config)
        return pack, config

    def _vault(self, pack: Pack) -> Vault | None:
        """Return what seals the personal values of a pack; None if it marks none."""
        return Vault(self.journal, self.tenant, pack.personal) if pack.personal.has_marks else None

    async def _seal_evidence(self, pack: Pack) -> Pack:
        """Return a pack with tokens in place of the personal values of its evidence."""
        vault = self._vault(pack)
        if vault is None or not pack.personal.evidence:
            return pack
        return sessions.with_evidence(pack, await vault.seal_evidence(pack.evidence))

    def _driver(
        self,
        pack: Pack,
        config: RunConfig,
        state: State,
        held_lease: HeldLease,
        planning: Planning,
        clock: AnchoredClock,
        *,
        tail_bytes: int = 0,
    ) -> Driver:
        services = Services(
            journal=self.journal,
            clock=clock,
            gateway=self._gateway,
            breakers=self._breakers,
            tools=self._lines.bind(pack.tools) if pack is not self.pack else self._tools,
            lines=self._lines,
            planning=planning,
            draw=self._options.draw,
            stops=self._stops,
            critics=self._critics or self._models.named(pack, pack.models.critic),
            repairers=self._repairers or self._models.named(pack, pack.models.repair),
            library=self._library,
            objection=self._roster.objection,
            crash=self._options.crash,
            subscription=self._subscription,
            vault=self._vault(pack),
            lanes=self._lanes if pack is self.pack else bind_lanes(pack, self, self._clock),
            end_lane=self.end_lane,
            shared=self._shared,
        )
        return Driver(services, config, state, held_lease, tail_bytes=tail_bytes)

    # --- lanes ---

    async def start_lane(self, request: Request, start: LaneStart) -> None:
        """Start the session of a lane and run it until it is over or waits."""
        driver = self._pool.get(start.parent.session_id)
        await self.run(
            request,
            safety_mode=start.safety_mode,
            snapshot=start.snapshot,
            parent=start.parent,
            dev=driver is not None and driver.state.start.dev,
            _lane=start,
        )
