"""The methods of the service: a table of names, parameters, functions and scopes.

Each calls a method of `Runtime`, as the command line does, on behalf of the caller that the credential names.
"""

from __future__ import annotations

import asyncio
import base64
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import msgspec
from pydantic import BaseModel

from tercet.contracts.errors import TercetError, UsageError
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.request import SIMULATED, Actor
from tercet.contracts.values.plain import storable
from tercet.core import events as e
from tercet.core.messages import session_of
from tercet.engine.lists import GateCursor, ListedSession, PendingGate, each_gate
from tercet.engine.personal.erasure import erase
from tercet.engine.result import RunResult
from tercet.engine.session_reader import list_rows, load_history
from tercet.engine.streams.audit import AuditLog, read_audit_page
from tercet.engine.streams.credentials import Scope
from tercet.engine.streams.recent_calls import recent_calls
from tercet.engine.streams.stops import EmergencyStops
from tercet.journal.protocol import SessionFilter, SessionRow
from tercet.replay.bundle.exporting import export_run
from tercet.replay.recording import load_run
from tercet.replay.replay import replay_recording
from tercet.replay.rules import Agents, RuleSource
from tercet.runtime import Runtime
from tercet.runtime.live import LiveRun
from tercet.runtime.runs import LONG_MS
from tercet.service import views
from tercet.service.errors import ServiceError, not_found
from tercet.service.hub import Hub, pack_name
from tercet.service.identity import Caller
from tercet.service.journal_reads import ReadJournal, is_indexed, last_searched, read_journal
from tercet.service.params import (
    ApproveGate,
    DecideEscalation,
    EraseSubject,
    ExtendBudget,
    GateAnswer,
    GateRef,
    InvokeAgent,
    ListAudit,
    ListSessions,
    ModifyGate,
    Nothing,
    Page,
    SessionCommand,
    SessionRef,
    SettleOutcome,
    SettleRollback,
    StopRef,
    VerifyPlan,
)
from tercet.service.worker import Carrier, Worker, wait_for_rest

MOST_BUNDLE = 20_000_000
"""How large a bundle may be that is sent in an answer."""
RESUMED_AT_ONCE = 16
"""How many sessions are resumed at the same time once a stop is lifted."""


@dataclass(frozen=True, kw_only=True)
class Service:
    """What the methods work with."""

    hub: Hub
    worker: Carrier
    is_dev: bool = False
    calls: WeakValueDictionary[tuple[str, str], asyncio.Lock] = field(
        default_factory=WeakValueDictionary[tuple[str, str], asyncio.Lock]
    )
    """The calls with a request key that this process makes, by tenant and stream: one at a time."""
    logs: dict[str, AuditLog] = field(default_factory=dict[str, AuditLog])
    """The audit logs of tenants."""
    is_closing: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the service stops: calls wait no longer, streams end, and `/readyz` says so."""

    def now(self) -> int:
        """Return the wall time."""
        return self.hub.clock.now()

    def log_of(self, tenant: str) -> AuditLog:
        """Return the audit log of a tenant."""
        if (log := self.logs.get(tenant)) is None:
            log = self.logs[tenant] = AuditLog(self.hub.journal, tenant)
        return log


# --- runs and sessions ---


def actor_for(caller: Caller, runtime: Runtime) -> Actor:
    """Return who calls; a simulated actor must be one of the pack's."""
    actor = caller.actor
    if actor.auth != SIMULATED:
        return actor
    held = runtime.roles(actor.id)
    if held is None:
        raise _unknown_actor(f"the pack has no actor {actor.id!r}", [each.id for each in runtime.pack.actors])
    return actor.model_copy(update={"roles": held})


def demand_actor(service: Service, caller: Caller) -> None:
    """Raise `ServiceError` for a simulated actor whom no pack that is served has."""
    served = [versions[0] for versions in service.hub.packs.values()]
    known = {actor.id for pack in served for actor in pack.actors}
    if caller.actor.auth == SIMULATED and caller.actor.id not in known:
        raise _unknown_actor(f"no pack here has an actor {caller.actor.id!r}", sorted(known))


def _unknown_actor(message: str, known: Sequence[str]) -> ServiceError:
    remedy = f"act as one of {', '.join(known)}" if known else "list people in the pack's actors.toml"
    return ServiceError(message, code="unknown_actor", remedy=remedy, status=409)


async def _view(
    service: Service, runtime: Runtime, session: str, live: LiveRun | None = None
) -> dict[str, Any]:
    # With another carrier, workers of any version may be running elsewhere.
    serves = service.hub.serves_version if isinstance(service.worker, Worker) else None
    return await views.session_view(runtime, session, service.now(), serves, live)


async def _moved(service: Service, runtime: Runtime, result: RunResult) -> dict[str, Any]:
    """Let the worker go on with a session that was answered, resumed or moved, and return the session."""
    row = await _enqueue(service, runtime, result.session_id)
    if row is not None:
        service.worker.notice(row)
    return await _view(service, runtime, result.session_id)


async def _enqueue(service: Service, runtime: Runtime, session: str) -> SessionRow | None:
    """Let the worker go on with a session; return its row if there is nothing to go on with."""
    row = await runtime.journal.session(runtime.tenant, session)
    is_ending = row is not None and bool(ListedSession.of(row).ending) and not ListedSession.of(row).gates
    if row is not None and (row.status == "in_progress" or is_ending):
        service.worker.enqueue(row)
        return None
    return row


async def invoke_agent(service: Service, caller: Caller, params: InvokeAgent) -> dict[str, Any]:
    """Start a run, or return the one that the same request_key started."""
    runtime = await service.hub.runtime(caller.tenant, params.pack)
    ttl_ms = None if params.runtime is None else params.runtime.max_session_duration_ms
    if params.mode == "long_running" and (ttl_ms is None or ttl_ms < LONG_MS):
        raise ServiceError(
            f"a long-running session lives for at least {LONG_MS:,} ms",
            code="too_short",
            remedy="raise runtime.max_session_duration_ms, or use mode inline, stream or batch",
            status=409,
        )
    _demand_no_higher_mode(runtime, params.safety_mode)
    result = await runtime.run(
        params.request,
        plan=params.plan,
        planner=params.planner,
        actor=actor_for(caller, runtime),
        safety_mode=params.safety_mode,
        ttl_ms=ttl_ms,
        shadow=params.shadow,
        dev=service.is_dev,
        folder=service.hub.folders.get(runtime.pack.name, ""),
    )
    live = service.worker.live(caller.tenant, result.session_id)
    if live is None:
        await _enqueue(service, runtime, result.session_id)
    if params.mode == "inline":
        await wait_for_rest(
            service.worker, runtime, result.session_id, wait_ms=params.wait_ms, closing=service.is_closing
        )
    return await _view(service, runtime, result.session_id, live)


def _demand_no_higher_mode(runtime: Runtime, asked: ApprovalMode | None) -> None:
    """Raise `ServiceError` for a safety mode above the pack's: callers may only lower it."""
    most = runtime.pack.safety_mode
    if asked is not None and asked.rank > most.rank:
        raise ServiceError(
            f"safety_mode {asked} is above {most}, the most that pack {runtime.pack.name} allows",
            code="safety_mode_raised",
            remedy=f"send {most} or a lower one, or leave it out",
            status=403,
        )


async def get_session(service: Service, caller: Caller, params: SessionRef) -> dict[str, Any]:
    """Return a session."""
    runtime = await service.hub.of_session(caller.tenant, params.session_id)
    return await _view(service, runtime, params.session_id)


async def list_sessions(service: Service, caller: Caller, params: ListSessions) -> dict[str, Any]:
    """Return a page of the tenant's sessions, newest first."""
    if params.cursor is not None:
        await service.hub.find_row(caller.tenant, params.cursor)
    where = SessionFilter(
        status=params.status,
        intents=_intents(service, params),
        owner=None if params.owner is None else storable(params.owner),
        text=None if params.text is None else storable(params.text),
    )
    journal, before = service.hub.journal, params.cursor
    last = None if is_indexed(where) else await last_searched(journal, caller.tenant, before)
    if last is not None:
        where = msgspec.structs.replace(where, oldest=(last.started_at, last.session_id))
    rows = await journal.sessions(caller.tenant, limit=params.limit + 1, before=before, where=where)
    page = rows[: params.limit]
    following = page[-1] if len(rows) > len(page) else last
    return {
        "sessions": [views.listed_session(ListedSession.of(row)) for row in page],
        "next_cursor": following and following.session_id,
    }


def _intents(service: Service, params: ListSessions) -> tuple[str, ...] | None:
    """Return the intents that a list is limited to; None for all."""
    if params.risk is None:
        return None if params.intent is None else (storable(params.intent),)
    packs = (versions[0] for versions in service.hub.packs.values())
    specs = [each for pack in packs for each in pack.decisions if each.risk_tier is params.risk]
    risky = {name for each in specs for name in (each.id, *each.intents)}
    return tuple(sorted(risky if params.intent is None else risky & {params.intent}))


async def _steered(
    service: Service,
    caller: Caller,
    session: str,
    act: Callable[[Runtime, Actor], Awaitable[RunResult]],
) -> dict[str, Any]:
    """Do something to a session: its owner may, and so may operators."""
    runtime = await service.hub.of_session(caller.tenant, session)
    await _demand_owner(caller, runtime, session)
    return await _moved(service, runtime, await act(runtime, actor_for(caller, runtime)))


async def _demand_owner(caller: Caller, runtime: Runtime, session: str) -> None:
    """Raise `ServiceError` unless the caller owns a session, or has a credential for operators."""
    state = await runtime.state(session)
    if state.start.actor["id"] != actor_for(caller, runtime).id:
        caller.demand("operate")


async def pause_session(service: Service, caller: Caller, params: SessionCommand) -> dict[str, Any]:
    """Pause a session once the calls in progress have ended."""
    return await _steered(
        service,
        caller,
        params.session_id,
        lambda r, a: r.pause(params.session_id, actor=a, note=params.note, key=caller.call_key),
    )


async def resume_session(service: Service, caller: Caller, params: SessionCommand) -> dict[str, Any]:
    """Resume a paused session; one that is running or waits at a gate is returned as it is."""

    async def resume(runtime: Runtime, actor: Actor) -> RunResult:
        state = await runtime.state(params.session_id)
        if state.status != "paused":
            return await RunResult.load(runtime.journal, runtime.tenant, state)
        return await runtime.resume(params.session_id, actor=actor)

    return await _steered(service, caller, params.session_id, resume)


async def cancel_session(service: Service, caller: Caller, params: SessionCommand) -> dict[str, Any]:
    """Cancel a run; its effects are compensated, kept or asked about, as its pack says."""
    return await _steered(
        service,
        caller,
        params.session_id,
        lambda r, a: r.cancel(params.session_id, actor=a, note=params.note, key=caller.call_key),
    )


async def extend_budget(service: Service, caller: Caller, params: ExtendBudget) -> dict[str, Any]:
    """Add to the budget of a run."""
    return await _steered(
        service,
        caller,
        params.session_id,
        lambda r, a: r.extend(params.session_id, params.more, actor=a, key=caller.call_key),
    )


async def migrate_session(service: Service, caller: Caller, params: SessionCommand) -> dict[str, Any]:
    """Move a session to the pack that is served, its newest snapshot and the current rules."""
    return await _steered(
        service, caller, params.session_id, lambda r, a: r.migrate(params.session_id, actor=a)
    )


# --- gates ---


async def list_gates(service: Service, caller: Caller, params: Page) -> dict[str, Any]:
    """Return a page of the open gates of the tenant; only its own sessions are read."""
    journal, after = service.hub.journal, None
    if params.cursor is not None:
        try:
            after = GateCursor.parse(params.cursor)
            await service.hub.find_row(caller.tenant, session_of(after.gate))
        except (UsageError, ServiceError):
            raise not_found("place in the list", params.cursor) from None
    page: list[dict[str, Any]] = []
    last = None
    async for place, state, gate in each_gate(journal, caller.tenant, after):
        if len(page) == params.limit:
            return {"gates": page, "next_cursor": str(last)}
        recent = await recent_calls(journal, caller.tenant, str(state.start.session), gate, service.now())
        page.append(views.gate_view(PendingGate.of(state, gate, recent)))
        last = place
    return {"gates": page, "next_cursor": None}


async def get_gate(service: Service, caller: Caller, params: GateRef) -> dict[str, Any]:
    """Return an open gate with everything that its approver is shown."""
    runtime = await service.hub.of_gate(caller.tenant, params.gate_id)
    return {"gate": views.gate_view(await views.find_gate(runtime, params.gate_id, service.now()))}


async def _answered(
    service: Service, caller: Caller, gate: str, act: Callable[[Runtime, Actor], Awaitable[RunResult]]
) -> dict[str, Any]:
    runtime = await service.hub.of_gate(caller.tenant, gate)
    return await _moved(service, runtime, await act(runtime, actor_for(caller, runtime)))


async def approve_gate(service: Service, caller: Caller, params: ApproveGate) -> dict[str, Any]:
    """Approve the call that a gate shows."""
    gate, note, digest = params.gate_id, params.note, params.digest or ""
    return await _answered(
        service,
        caller,
        gate,
        lambda r, a: r.approve(gate, actor=a, note=note, digest=digest, key=caller.call_key),
    )


async def deny_gate(service: Service, caller: Caller, params: GateAnswer) -> dict[str, Any]:
    """Deny the call: the run ends rejected."""
    gate = params.gate_id
    return await _answered(
        service, caller, gate, lambda r, a: r.deny(gate, actor=a, note=params.note, key=caller.call_key)
    )


async def modify_gate(service: Service, caller: Caller, params: ModifyGate) -> dict[str, Any]:
    """Set values in the call, or send it back to the planner with a note."""
    gate, note, changes = params.gate_id, params.note, params.changes
    return await _answered(
        service,
        caller,
        gate,
        lambda r, a: r.modify(gate, actor=a, note=note, changes=changes, key=caller.call_key),
    )


async def withdraw_approval(service: Service, caller: Caller, params: GateAnswer) -> dict[str, Any]:
    """Withdraw an approval of your own, as long as the call has not begun."""
    gate = params.gate_id
    return await _answered(
        service, caller, gate, lambda r, a: r.withdraw(gate, actor=a, note=params.note, key=caller.call_key)
    )


async def settle_outcome(service: Service, caller: Caller, params: SettleOutcome) -> dict[str, Any]:
    """Settle a call of unknown outcome."""
    gate, note, value = params.gate_id, params.note, params.value
    return await _answered(
        service,
        caller,
        gate,
        lambda r, a: r.settle(
            gate, happened=params.happened, value=value, actor=a, note=note, key=caller.call_key
        ),
    )


async def decide_escalation(service: Service, caller: Caller, params: DecideEscalation) -> dict[str, Any]:
    """Decide how an escalated run goes on, or whether effects are compensated.

    What another method needs a scope for needs it here as well: `extendBudget`, and `cancelSession` for the runs of others.
    """
    gate, said = params.gate_id, {"note": params.note, "value": params.value, "key": caller.call_key}
    if params.decision == "extend":
        caller.demand("operate")
    elif params.decision == "abandon":
        await _demand_owner(caller, await service.hub.of_gate(caller.tenant, gate), session_of(gate))
    return await _answered(
        service, caller, gate, lambda r, a: r.decide(gate, params.decision, actor=a, **said)
    )


async def settle_rollback(service: Service, caller: Caller, params: SettleRollback) -> dict[str, Any]:
    """Record that a person has dealt with an effect that a run without success could not compensate."""
    runtime = await service.hub.of_session(caller.tenant, params.session_id)
    actor = actor_for(caller, runtime)
    settled = await runtime.settle_rollback(
        params.session_id, params.step, actor=actor, note=params.note, key=caller.call_key
    )
    return {"rollback": settled.model_dump(mode="json")}


# --- emergency stops ---


async def list_stops(service: Service, caller: Caller, _: Nothing) -> dict[str, Any]:
    """Return the emergency stops of the tenant that have not been lifted."""
    stops = EmergencyStops(service.hub.journal, caller.tenant, pack="")
    await stops.refresh()
    return {"stops": [views.stop_view(stop) for stop in stops.active()]}


async def emergency_stop(service: Service, caller: Caller, params: StopRef) -> dict[str, Any]:
    """Stop a tool, a pack or the tenant: nothing that it names is called any more."""
    runtime = await service.hub.runtime(caller.tenant, next(iter(service.hub.packs)))
    name = params.name or (caller.tenant if params.kind == "tenant" else "")
    if not name:
        raise ServiceError(
            f"a stop of a {params.kind} needs its name", code="usage", remedy="send name", status=409
        )
    stop = await runtime.halt(params.kind, name, actor=caller.actor, note=params.note, key=caller.call_key)
    return {"stop": views.stop_view(stop)}


async def lift_stop(service: Service, caller: Caller, params: StopRef) -> dict[str, Any]:
    """End an emergency stop, and resume the sessions that stops have paused."""
    runtime = await service.hub.runtime(caller.tenant, next(iter(service.hub.packs)))
    name = params.name or (caller.tenant if params.kind == "tenant" else "")
    stop = await runtime.lift(params.kind, name, actor=caller.actor, note=params.note, key=caller.call_key)
    resumed, not_resumed = await _resume_stopped(service, caller.tenant)
    return {"stop": views.stop_view(stop), "resumed": resumed, "not_resumed": not_resumed}


async def _resume_stopped(service: Service, tenant: str) -> tuple[list[str], list[dict[str, str]]]:
    """Resume the sessions that an emergency stop has paused; return them, and why others could not be resumed."""
    resumed: list[str] = []
    failed: list[dict[str, str]] = []

    async def resume(row: SessionRow) -> None:
        try:
            history = await load_history(service.hub.journal, tenant, row.session_id)
            last = next(
                (each for each in reversed(history.events) if isinstance(each, e.SessionPaused)), None
            )
            # A person's pause came by the inbox, and a process that stopped names no actor.
            if last is not None and last.by and not last.inbox:
                runtime = await service.hub.runtime(tenant, pack_name(row.pack))
                await runtime.resume(row.session_id)
                await _enqueue(service, runtime, row.session_id)
                resumed.append(row.session_id)
        except TercetError as error:  # one session must not leave all others paused
            failed.append({"session_id": row.session_id, "code": error.code, "message": error.message})

    paused = list_rows(service.hub.journal, tenant, status="paused")
    rows = [row async for row in paused if service.hub.serves(row)]
    for first in range(0, len(rows), RESUMED_AT_ONCE):
        await asyncio.gather(*map(resume, rows[first : first + RESUMED_AT_ONCE]))
    return resumed, failed


# --- records ---


async def get_record(service: Service, caller: Caller, params: SessionRef) -> dict[str, Any]:
    """Return the decision record of a session that has ended."""
    runtime = await service.hub.of_session(caller.tenant, params.session_id)
    return {"record": (await runtime.record(params.session_id)).model_dump(mode="json")}


async def replay_run(service: Service, caller: Caller, params: SessionRef) -> dict[str, Any]:
    """Judge a recorded run again; nothing is called and nothing written."""
    runtime = await service.hub.of_session(caller.tenant, params.session_id)
    recording = await load_run(runtime.journal, runtime.tenant, params.session_id)
    rules = RuleSource((runtime.pack,), agents=Agents((), has_installed=True))
    report = await service.hub.work(caller.tenant, lambda: replay_recording(recording, rules))
    return {"replay": report.model_dump(mode="json")}


async def export_bundle(service: Service, caller: Caller, params: SessionRef) -> dict[str, Any]:
    """Return a run as a bundle, in base64."""
    runtime = await service.hub.of_session(caller.tenant, params.session_id)
    free = await service.hub.heavy.take(caller.tenant)
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run.tercet"
            exported = await export_run(runtime.journal, caller.tenant, params.session_id, path)
            data = await asyncio.to_thread(path.read_bytes)
    finally:
        free()
    if len(data) > MOST_BUNDLE:
        raise ServiceError(
            f"the bundle has {len(data):,} bytes, and at most {MOST_BUNDLE:,} are sent",
            code="too_large",
            remedy="export it where the journal is: tercet export",
            status=413,
        )
    return {
        "bundle": base64.b64encode(data).decode(),
        "seal": msgspec.to_builtins(exported.seal),
        "bytes": len(data),
    }


async def verify_plan(service: Service, caller: Caller, params: VerifyPlan) -> dict[str, Any]:
    """Return the critic's verdict on a plan; nothing is run."""
    pack = service.hub.pack(params.pack)
    verdict = await service.hub.work(caller.tenant, lambda: pack.verify(params.plan, request=params.request))
    return {"verdict": verdict.model_dump(mode="json")}


async def read_stored(service: Service, caller: Caller, params: ReadJournal) -> dict[str, Any]:
    """Return events, checkpoints, blobs and rows of the tenant's sessions as they are stored, bytes in base64."""
    return {"found": await read_journal(service.hub.journal, caller.tenant, params)}


async def get_caller(service: Service, caller: Caller, _: Nothing) -> dict[str, Any]:
    """Return who the credential speaks for: tenant, actor and scopes."""
    del service
    actor = caller.actor.model_dump(mode="json", include={"id", "roles", "auth"})
    return {"tenant": caller.tenant, "actor": actor, "scopes": sorted(caller.scopes)}


async def list_audit(service: Service, caller: Caller, params: ListAudit) -> dict[str, Any]:
    """Return a page of the tenant's audit log, oldest first."""
    journal, after = service.hub.journal, params.after
    found, following = await read_audit_page(journal, caller.tenant, after=after, limit=params.limit)
    entries = [views.audit_view(position, entry) for position, entry in found]
    return {"entries": entries, "next_cursor": following}


async def erase_subject(service: Service, caller: Caller, params: EraseSubject) -> dict[str, Any]:
    """Erase the personal values of a subject by destroying its key. This cannot be undone."""
    erased = await erase(
        service.hub.journal,
        caller.tenant,
        params.subject,
        owner=caller.actor.id,
        now_ms=service.now(),
        is_forced=params.force,
    )
    return {"erased": msgspec.to_builtins(erased)}


# --- the table ---


@dataclass(frozen=True)
class Method:
    """A method: its parameters, the function that it calls, the scope that it needs, and whether it changes something."""

    params: type[BaseModel]
    call: Callable[[Service, Caller, Any], Awaitable[dict[str, Any]]]
    scope: Scope
    is_mutating: bool = False


METHODS: dict[str, Method] = {
    "invokeAgent": Method(InvokeAgent, invoke_agent, "run", is_mutating=True),
    "getSession": Method(SessionRef, get_session, "read"),
    "listSessions": Method(ListSessions, list_sessions, "read"),
    "pauseSession": Method(SessionCommand, pause_session, "run", is_mutating=True),
    "resumeSession": Method(SessionCommand, resume_session, "run", is_mutating=True),
    "cancelSession": Method(SessionCommand, cancel_session, "run", is_mutating=True),
    "extendBudget": Method(ExtendBudget, extend_budget, "operate", is_mutating=True),
    "migrateSession": Method(SessionCommand, migrate_session, "operate", is_mutating=True),
    "listGates": Method(Page, list_gates, "read"),
    "getGate": Method(GateRef, get_gate, "read"),
    "approveGate": Method(ApproveGate, approve_gate, "answer", is_mutating=True),
    "denyGate": Method(GateAnswer, deny_gate, "answer", is_mutating=True),
    "modifyGate": Method(ModifyGate, modify_gate, "answer", is_mutating=True),
    "withdrawApproval": Method(GateAnswer, withdraw_approval, "answer", is_mutating=True),
    "settleOutcome": Method(SettleOutcome, settle_outcome, "answer", is_mutating=True),
    "decideEscalation": Method(DecideEscalation, decide_escalation, "answer", is_mutating=True),
    "settleRollback": Method(SettleRollback, settle_rollback, "answer", is_mutating=True),
    "listStops": Method(Nothing, list_stops, "read"),
    "emergencyStop": Method(StopRef, emergency_stop, "operate", is_mutating=True),
    "liftStop": Method(StopRef, lift_stop, "operate", is_mutating=True),
    "getRecord": Method(SessionRef, get_record, "read"),
    "replayRun": Method(SessionRef, replay_run, "read"),
    "exportRun": Method(SessionRef, export_bundle, "read"),
    "verifyPlan": Method(VerifyPlan, verify_plan, "read"),
    "readJournal": Method(ReadJournal, read_stored, "read"),
    "getCaller": Method(Nothing, get_caller, "read"),
    "eraseSubject": Method(EraseSubject, erase_subject, "operate", is_mutating=True),
    "listAudit": Method(ListAudit, list_audit, "operate"),
}
