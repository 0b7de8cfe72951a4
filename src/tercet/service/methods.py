"""The methods of the service: a table of names, parameters, functions and scopes.

Each calls a method of `Runtime`, as the command line does, on behalf of the caller that the credential names.
"""

from __future__ import annotations

import asyncio
import base64
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
from pydantic import BaseModel, Field

from tercet.contracts.mode import ApprovalMode
from tercet.contracts.request import SIMULATED, Actor, Request, RequestRuntime
from tercet.contracts.runs.session import SessionStatus
from tercet.contracts.shape import Authored
from tercet.contracts.values.plain import PlainObject
from tercet.core import events as e
from tercet.engine.lists import ListedSession
from tercet.engine.models.planners import PlannerName
from tercet.engine.result import RunResult
from tercet.engine.session_reader import list_rows, load_history
from tercet.engine.streams.api_keys import Scope
from tercet.engine.streams.audit import read_audit
from tercet.engine.streams.stops import EmergencyStops, StopKind
from tercet.replay.agents import Agents
from tercet.replay.bundle.exporting import export_run
from tercet.replay.recording import load_run
from tercet.replay.replay import replay_recording
from tercet.replay.rules import RuleSource
from tercet.runtime import Runtime
from tercet.runtime.runs import LONG_MS
from tercet.service import views
from tercet.service.errors import ServiceError
from tercet.service.hub import Hub, pack_name
from tercet.service.identity import Caller
from tercet.service.worker import Worker

MOST_WAIT_MS = 30_000
"""How long a call may wait for a run."""
MOST_BUNDLE = 20_000_000
"""How large a bundle may be that is sent in an answer."""
_POLL_S = 0.05


@dataclass(frozen=True, kw_only=True)
class Service:
    """What the methods work with."""

    hub: Hub
    worker: Worker
    is_dev: bool = False

    def now(self) -> int:
        """Return the wall time."""
        return self.hub.clock.now()


# --- parameters ---


class Params(Authored):
    """The parameters of a method: an unknown one is an error."""


class Mutation(Params):
    """The parameters of a method that changes something."""

    request_key: str | None = Field(default=None, min_length=1, max_length=200)
    """Sent again with the same key, the call returns what it returned first."""
    note: str = Field(default="", max_length=2_000)


class InvokeAgent(Params):
    """A request for a run. Its owner is the caller."""

    request: Request
    pack: str | None = None
    plan: PlainObject | None = None
    planner: PlannerName | None = None
    mode: Literal["inline", "stream", "batch", "long_running"] = "inline"
    """`inline` waits until the run is over or waits for a person; the others return when it is recorded."""
    runtime: RequestRuntime | None = None
    safety_mode: ApprovalMode | None = None
    shadow: bool = False
    wait_ms: int = Field(default=10_000, ge=0, le=MOST_WAIT_MS)


class Page(Params):
    """A page of a list."""

    cursor: str | None = Field(default=None, max_length=512)
    limit: int = Field(default=50, ge=1, le=200)


class ListSessions(Page):
    """Which sessions to list."""

    status: SessionStatus | None = None


class SessionRef(Params):
    """A session by its id."""

    session_id: str = Field(min_length=1, max_length=512)


class SessionCommand(Mutation):
    """A session by its id, and why it is changed."""

    session_id: str = Field(min_length=1, max_length=512)


class GateRef(Params):
    """A gate by its id."""

    gate_id: str = Field(min_length=1, max_length=512)


class GateAnswer(Mutation):
    """A gate by its id, and why it is answered so."""

    gate_id: str = Field(min_length=1, max_length=512)


class ApproveGate(GateAnswer):
    """An approval, bound to the digest of the call that was looked at."""

    digest: str | None = Field(default=None, min_length=1, max_length=200)
    """Absent, the approval is bound to the call that the gate shows now."""


class ModifyGate(GateAnswer):
    """Changes to a call, by parameter name or JSON Pointer; without them, a note to the planner."""

    changes: PlainObject | None = None


class SettleOutcome(GateAnswer):
    """Whether a call of unknown outcome happened, and what it returned."""

    happened: bool
    value: Any = None


class DecideEscalation(GateAnswer):
    """How an escalated run goes on, or whether the effects of a failed one are compensated."""

    decision: Literal["extend", "replan", "accept_partial", "abandon", "compensate", "keep"]
    value: Any = None


class ExtendBudget(SessionCommand):
    """By how much each dimension is extended."""

    more: dict[str, int]


class StopRef(Mutation):
    """What is stopped: a tool, a pack, or the whole tenant (then `name` may be left out)."""

    kind: StopKind
    name: str = Field(default="", max_length=512)


class VerifyPlan(Params):
    """A plan, and the request that it is for."""

    plan: PlainObject
    request: Request | None = None
    pack: str | None = None


class Nothing(Params):
    """No parameters."""


# --- runs and sessions ---


def _actor(caller: Caller, runtime: Runtime) -> Actor:
    """Return who calls; a simulated actor must be one of the pack's."""
    actor = caller.actor
    if actor.auth != SIMULATED:
        return actor
    held = runtime.roles(actor.id)
    if held is None:
        known = ", ".join(each.id for each in runtime.pack.actors)
        raise ServiceError(
            f"the pack has no actor {actor.id!r}",
            code="unknown_actor",
            remedy=f"act as one of {known}" if known else "list people in the pack's actors.toml",
            status=409,
        )
    return actor.model_copy(update={"roles": held})


async def _view(service: Service, runtime: Runtime, session: str) -> dict[str, Any]:
    return await views.session_view(runtime, session, service.now())


async def _moved(service: Service, runtime: Runtime, result: RunResult) -> dict[str, Any]:
    """Let the worker go on with a session that was answered or resumed, and return the session."""
    row = await runtime.journal.session(runtime.tenant, result.session_id)
    is_ending = row is not None and bool(ListedSession.of(row).ending) and not ListedSession.of(row).gates
    if row is not None and (row.status == "in_progress" or is_ending):
        service.worker.enqueue(row)
    return await _view(service, runtime, result.session_id)


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
    result = await runtime.run(
        params.request,
        plan=params.plan,
        planner=params.planner,
        actor=_actor(caller, runtime),
        safety_mode=params.safety_mode,
        ttl_ms=ttl_ms,
        shadow=params.shadow,
        dev=service.is_dev,
        folder=service.hub.folders.get(runtime.pack.name, ""),
    )
    await _moved(service, runtime, result)
    if params.mode == "inline":
        await _settled(service, runtime, result.session_id, params.wait_ms)
    return await _view(service, runtime, result.session_id)


async def _settled(service: Service, runtime: Runtime, session: str, wait_ms: int) -> None:
    """Wait until a session is over, waits for a person or is paused, but no longer than asked for."""
    try:
        async with asyncio.timeout(wait_ms / 1000):
            while True:
                row = await runtime.journal.session(runtime.tenant, session)
                if row is None or (row.status != "in_progress" and not service.worker.is_carrying(row)):
                    return
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        return  # the caller sees how far it is


async def get_session(service: Service, caller: Caller, params: SessionRef) -> dict[str, Any]:
    """Return a session."""
    runtime = await service.hub.of_session(caller.tenant, params.session_id)
    return await _view(service, runtime, params.session_id)


async def list_sessions(service: Service, caller: Caller, params: ListSessions) -> dict[str, Any]:
    """Return a page of the tenant's sessions, newest first."""
    if params.cursor is not None:
        await service.hub.find_row(caller.tenant, params.cursor)
    rows = await service.hub.journal.sessions(
        caller.tenant, status=params.status, limit=params.limit + 1, before=params.cursor
    )
    page = rows[: params.limit]
    return {
        "sessions": [views.listed_session(ListedSession.of(row)) for row in page],
        "next_cursor": page[-1].session_id if len(rows) > len(page) else None,
    }


async def _steered(
    service: Service,
    caller: Caller,
    session: str,
    act: Callable[[Runtime, Actor], Awaitable[RunResult]],
) -> dict[str, Any]:
    """Do something to a session: its owner may, and so may operators."""
    runtime = await service.hub.of_session(caller.tenant, session)
    actor = _actor(caller, runtime)
    state = await runtime.state(session)
    if state.start.actor["id"] != actor.id:
        caller.demand("operate")
    return await _moved(service, runtime, await act(runtime, actor))


async def pause_session(service: Service, caller: Caller, params: SessionCommand) -> dict[str, Any]:
    """Pause a session once the calls in progress have ended."""
    return await _steered(
        service, caller, params.session_id, lambda r, a: r.pause(params.session_id, actor=a, note=params.note)
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
        lambda r, a: r.cancel(params.session_id, actor=a, note=params.note),
    )


async def extend_budget(service: Service, caller: Caller, params: ExtendBudget) -> dict[str, Any]:
    """Add to the budget of a run."""
    return await _steered(
        service, caller, params.session_id, lambda r, a: r.extend(params.session_id, params.more, actor=a)
    )


async def migrate_session(service: Service, caller: Caller, params: SessionCommand) -> dict[str, Any]:
    """Move a session to the pack that is served, its newest snapshot and the current rules."""
    return await _steered(
        service, caller, params.session_id, lambda r, a: r.migrate(params.session_id, actor=a)
    )


# --- gates ---


async def list_gates(service: Service, caller: Caller, params: Page) -> dict[str, Any]:
    """Return the open gates of the tenant; the cursor is the last gate of the page before."""
    runtime = await service.hub.runtime(caller.tenant, next(iter(service.hub.packs)))
    found = [gate for gate in await runtime.gates(limit=10_000) if gate.owner]
    names = [gate.id for gate in found]
    start = names.index(params.cursor) + 1 if params.cursor in names else 0
    page = found[start : start + params.limit]
    return {
        "gates": [views.gate_view(gate) for gate in page],
        "next_cursor": page[-1].id if len(found) > start + len(page) else None,
    }


async def get_gate(service: Service, caller: Caller, params: GateRef) -> dict[str, Any]:
    """Return an open gate with everything that its approver is shown."""
    runtime = await service.hub.of_gate(caller.tenant, params.gate_id)
    return {"gate": views.gate_view(await views.find_gate(runtime, params.gate_id, service.now()))}


async def _answered(
    service: Service, caller: Caller, gate: str, act: Callable[[Runtime, Actor], Awaitable[RunResult]]
) -> dict[str, Any]:
    runtime = await service.hub.of_gate(caller.tenant, gate)
    return await _moved(service, runtime, await act(runtime, _actor(caller, runtime)))


async def approve_gate(service: Service, caller: Caller, params: ApproveGate) -> dict[str, Any]:
    """Approve the call that a gate shows."""
    gate, note, digest = params.gate_id, params.note, params.digest or ""
    return await _answered(
        service, caller, gate, lambda r, a: r.approve(gate, actor=a, note=note, digest=digest)
    )


async def deny_gate(service: Service, caller: Caller, params: GateAnswer) -> dict[str, Any]:
    """Deny the call: the run ends rejected."""
    gate = params.gate_id
    return await _answered(service, caller, gate, lambda r, a: r.deny(gate, actor=a, note=params.note))


async def modify_gate(service: Service, caller: Caller, params: ModifyGate) -> dict[str, Any]:
    """Set values in the call, or send it back to the planner with a note."""
    gate, note, changes = params.gate_id, params.note, params.changes
    return await _answered(
        service, caller, gate, lambda r, a: r.modify(gate, actor=a, note=note, changes=changes)
    )


async def withdraw_approval(service: Service, caller: Caller, params: GateAnswer) -> dict[str, Any]:
    """Withdraw an approval of your own, as long as the call has not begun."""
    gate = params.gate_id
    return await _answered(service, caller, gate, lambda r, a: r.withdraw(gate, actor=a, note=params.note))


async def settle_outcome(service: Service, caller: Caller, params: SettleOutcome) -> dict[str, Any]:
    """Settle a call of unknown outcome."""
    gate, note, value = params.gate_id, params.note, params.value
    return await _answered(
        service,
        caller,
        gate,
        lambda r, a: r.settle(gate, happened=params.happened, value=value, actor=a, note=note),
    )


async def decide_escalation(service: Service, caller: Caller, params: DecideEscalation) -> dict[str, Any]:
    """Decide how an escalated run goes on, or whether effects are compensated."""
    gate, said = params.gate_id, {"note": params.note, "value": params.value}
    return await _answered(
        service, caller, gate, lambda r, a: r.decide(gate, params.decision, actor=a, **said)
    )


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
    actor = _actor(caller, runtime)
    return {"stop": views.stop_view(await runtime.halt(params.kind, name, actor=actor, note=params.note))}


async def lift_stop(service: Service, caller: Caller, params: StopRef) -> dict[str, Any]:
    """End an emergency stop, and resume the sessions that stops have paused."""
    runtime = await service.hub.runtime(caller.tenant, next(iter(service.hub.packs)))
    name = params.name or (caller.tenant if params.kind == "tenant" else "")
    actor = _actor(caller, runtime)
    stop = await runtime.lift(params.kind, name, actor=actor, note=params.note)
    return {"stop": views.stop_view(stop), "resumed": await _resume_stopped(service, caller.tenant)}


async def _resume_stopped(service: Service, tenant: str) -> list[str]:
    """Resume the sessions that an emergency stop has paused; those that another stop concerns are paused again."""
    resumed: list[str] = []
    async for row in list_rows(service.hub.journal, tenant, status="paused"):
        if not service.hub.serves(row):
            continue
        history = await load_history(service.hub.journal, tenant, row.session_id)
        last = next((each for each in reversed(history.events) if isinstance(each, e.SessionPaused)), None)
        # A person's pause came by the inbox, and a process that stopped names no actor.
        if last is not None and last.by and not last.inbox:
            runtime = await service.hub.runtime(tenant, pack_name(row.pack))
            await _moved(service, runtime, await runtime.resume(row.session_id))
            resumed.append(row.session_id)
    return resumed


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
    # In a thread: a long run would keep this process from renewing its leases.
    report = await asyncio.to_thread(replay_recording, recording, rules)
    return {"replay": report.model_dump(mode="json")}


async def export_bundle(service: Service, caller: Caller, params: SessionRef) -> dict[str, Any]:
    """Return a run as a bundle, in base64."""
    runtime = await service.hub.of_session(caller.tenant, params.session_id)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.tercet"
        exported = await export_run(runtime.journal, caller.tenant, params.session_id, path)
        data = await asyncio.to_thread(path.read_bytes)
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
    del caller
    verdict = service.hub.pack(params.pack).verify(params.plan, request=params.request)
    return {"verdict": verdict.model_dump(mode="json")}


class ListAudit(Params):
    """A page of the audit log, oldest first."""

    after: int = Field(default=0, ge=0)
    limit: int = Field(default=100, ge=1, le=1000)


async def list_audit(service: Service, caller: Caller, params: ListAudit) -> dict[str, Any]:
    """Return entries of the tenant's audit log."""
    found = await read_audit(service.hub.journal, caller.tenant, after=params.after, limit=params.limit)
    return {"entries": [views.audit_view(position, entry) for position, entry in found]}


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
    "listStops": Method(Nothing, list_stops, "read"),
    "emergencyStop": Method(StopRef, emergency_stop, "operate", is_mutating=True),
    "liftStop": Method(StopRef, lift_stop, "operate", is_mutating=True),
    "getRecord": Method(SessionRef, get_record, "read"),
    "replayRun": Method(SessionRef, replay_run, "read"),
    "exportRun": Method(SessionRef, export_bundle, "read"),
    "verifyPlan": Method(VerifyPlan, verify_plan, "read"),
    "listAudit": Method(ListAudit, list_audit, "operate"),
}
