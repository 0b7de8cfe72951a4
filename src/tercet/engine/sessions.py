"""Starting sessions, and resuming them with the pack and the evidence that they are pinned to."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

import msgspec

from tercet.context import compile as compile_context
from tercet.contracts.context import RunContext
from tercet.contracts.errors import PackError, UsageError
from tercet.contracts.evidence import Evidence
from tercet.contracts.lane import LaneFrame
from tercet.contracts.loop import Phase
from tercet.contracts.plan import Plan
from tercet.contracts.request import SIMULATED, Actor, Request
from tercet.contracts.runs.behaviour import CURRENT, demand_known, is_outdated
from tercet.contracts.shape import JsonObject
from tercet.contracts.values.canonical import digest, hash_bytes
from tercet.contracts.values.plain import storable
from tercet.core import events as e
from tercet.core.config import RunConfig
from tercet.core.outputs.edge_cases import demand_maker
from tercet.core.state import State
from tercet.core.transcript import moment
from tercet.engine.evidence.library import NO_LIBRARY_EVIDENCE, LibraryEvidence
from tercet.engine.planning import PLANNER_MISSING, AnyPlanner
from tercet.engine.session_reader import load_state
from tercet.engine.streams.nesting import ALONE, Place
from tercet.journal.protocol import Journal
from tercet.packs.checks.decisions import replans_have_a_reason
from tercet.packs.pack import Pack
from tercet.packs.people import people_of

_SHELVED = "library"
"""The key that marks a stored fact as one of the library."""


def build_run_config(
    pack: Pack,
    ctx: RunContext,
    request: Request,
    snapshot: str | None,
    library_evidence: LibraryEvidence = NO_LIBRARY_EVIDENCE,
    *,
    is_shared: bool = False,
) -> RunConfig:
    """Return the configuration of a run of a pack with a library's evidence; with `is_shared`, runs with equal requests may share
    one compiled context."""
    compiled = compile_context(
        pack,
        request,
        ctx,
        snapshot,
        library=library_evidence.facts,
        left_out=library_evidence.left_out,
        is_shared=is_shared and pack.decision_for(request.intent).quality is None,
    )
    known = compiled.evidence
    expiry = {
        fact.id: int(fact.expires_at.timestamp() * 1000)
        for fact in (*pack.evidence, *library_evidence.facts)
        if fact.expires_at is not None and fact.id in known
    }
    spec = pack.decision_for(request.intent)
    return RunConfig(
        ctx=ctx,
        compiled=compiled,
        spec=spec,
        control=pack.control_for(spec.quality.task_class) if spec.quality else None,
        expiry=expiry,
        executor_tokens=pack.limit_for("executor").tokens,
        library_snapshot=library_evidence.snapshot,
        library_hash=library_evidence.hash,
    )


def demand_development(pack: Pack, owner: Actor, *, is_dev: bool) -> None:
    """Raise `UsageError` for a development session of a pack that forbids them, and for a simulated owner elsewhere."""
    if is_dev and not pack.session.simulated_people:
        raise UsageError(
            f"{pack.ref} takes no development sessions: simulated_people is false in its pack.toml",
            code="simulation_refused",
            remedy="start the run without --dev, and let each person answer from their own login",
        )
    if owner.auth == SIMULATED and not is_dev:
        raise UsageError(
            f"only in a development session can another person start a run as {owner.id}",
            code="simulation_refused",
            remedy="start it with --dev, or from their own login",
        )


def demand_explained_replans(pack: Pack) -> None:
    """Raise `PackError` if a pack allows more re-plans than usual without giving a reason."""
    if problems := tuple(replans_have_a_reason(pack.parts)):
        raise PackError(problems)


def demand_extras(config: RunConfig) -> None:
    """Raise `UsageError` if the run needs an optional dependency that is not installed."""
    if config.spec.quality is not None and config.spec.quality.attacks:
        demand_maker()


def _pins(pack: Pack, config: RunConfig, frozen: bytes) -> dict[str, Any]:
    """Return the pins of a session as fields of its events."""
    return {
        "pack": pack.ref,
        "pack_hash": pack.hash,
        "snapshot": config.compiled.snapshot,
        "context": config.compiled.hash,
        "library": config.library_snapshot,
        "library_hash": config.library_hash,
        "left_out": config.compiled.left_out,
        "evidence": hash_bytes(frozen) if frozen else "",
        "behaviour": config.ctx.behaviour,
    }


def make_start_event(
    pack: Pack,
    config: RunConfig,
    request: Request,
    session: str,
    now: int,
    *,
    planner: str = "",
    models: tuple[str, ...] = (),
    is_fallible: bool = False,
    is_stepwise: bool = False,
    ttl_ms: int | None = None,
    is_shadow: bool = False,
    body: str = "",
    place: Place = ALONE,
    parent_owners: tuple[Actor, ...] = (),
    frozen: bytes = b"",
    traceparent: str = "",
    is_dev: bool = False,
    folder: str = "",
    lane: JsonObject | None = None,
    personal: str = "",
) -> e.SessionStarted:
    """Return the first event of a session."""
    ctx, rules = config.ctx, pack.session.for_tenant(config.ctx.tenant)
    return e.SessionStarted(
        at=now,
        session=session,
        run=ctx.run_id,
        trace=ctx.trace_id,
        tenant=ctx.tenant,
        actor=ctx.actor.model_dump(mode="json"),
        request=request.model_dump(mode="json", exclude_defaults=True),
        decision=config.spec.id,
        safety_mode=str(ctx.safety_mode),
        budget=ctx.run_budget.model_dump(mode="json", exclude_none=True),
        planner=planner,
        models=models,
        fallible=is_fallible,
        stepwise=is_stepwise,
        expires=now + (rules.ttl_ms if ttl_ms is None else ttl_ms),
        heartbeat=rules.heartbeat_interval_ms,
        on_failure=config.spec.on_failure or pack.on_failure,
        shadow=is_shadow,
        body=body,
        root=place.root,
        depth=place.depth,
        parent_owners=tuple(owner.model_dump(mode="json") for owner in parent_owners),
        risk_tier=str(config.spec.risk_tier),
        traceparent=traceparent,
        people=people_of(pack.actors),
        dev=is_dev,
        folder=storable(folder),
        lane=lane or {},
        personal=personal,
        **_pins(pack, config, frozen),
    )


def freeze(pack: Pack, snapshot: str, library_evidence: LibraryEvidence) -> bytes:
    """Return the evidence of a session as bytes, stored with it so that later changes of the files do not matter.

    Facts of the library are marked, since its snapshot may have the same name as the pack's. This is not canonical
    JSON, which writes 129.0 as 129: a rule may distinguish a float from an integer.
    """
    own = [fact.model_dump(mode="json") for fact in (pack.evidence_in(snapshot) if snapshot else ())]
    shelved = [{**fact.model_dump(mode="json"), _SHELVED: True} for fact in library_evidence.facts]

    return msgspec.json.encode([*own, *shelved], order="sorted") if snapshot or shelved else b""


def start_blobs(pack: Pack, frozen: bytes) -> tuple[bytes, ...]:
    """Return the blobs stored with a session's first event: the pack's declaration and the frozen evidence."""
    return (pack.content, frozen) if frozen else (pack.content,)


async def load_library_evidence(journal: Journal, state: State) -> LibraryEvidence:
    """Return the library evidence that a session started with, from its own stored copy."""
    frozen = await _read_frozen(journal, state.start) if state.start.library else b""
    return library_evidence_of(state.start, frozen)


def library_evidence_of(start: e.SessionStarted, frozen: bytes) -> LibraryEvidence:
    """Return the library evidence that a session started with, out of its frozen evidence."""
    if not start.library:
        return NO_LIBRARY_EVIDENCE
    return LibraryEvidence(
        snapshot=start.library,
        hash=start.library_hash,
        facts=decode_evidence(frozen, is_from_library=True),
        left_out=start.left_out,
    )


async def _read_frozen(journal: Journal, start: e.SessionStarted) -> bytes:
    return await journal.blob(start.tenant, start.evidence) if start.evidence else b""


def decode_evidence(frozen: bytes, *, is_from_library: bool) -> tuple[Evidence, ...]:
    """Decode frozen evidence, either the library's or the pack's; none was frozen if there are no bytes."""
    facts = msgspec.json.decode(frozen) if frozen else ()
    wanted = [fact for fact in facts if bool(fact.pop(_SHELVED, False)) is is_from_library]
    return tuple(map(Evidence.model_validate, wanted))


async def restore_evidence(journal: Journal, pack: Pack, state: State) -> Pack:
    """Return the pack with the evidence stored with a session instead of that in its files."""
    pinned = state.start.snapshot
    kept = decode_evidence(await _read_frozen(journal, state.start), is_from_library=False)
    others = tuple(fact for fact in pack.evidence if fact.snapshot != pinned)
    return with_evidence(pack, (*others, *kept))


def with_evidence(pack: Pack, evidence: tuple[Evidence, ...]) -> Pack:
    """Return the pack with other evidence, and without values derived from its own evidence."""
    copy = pack.model_copy(update={"evidence": evidence})
    if pack.personal.evidence:
        vars(copy).pop("derived", None)
    return copy


def body_of(request: Request, plan: Plan | None) -> str:
    """Return the hash of a request with a key, to detect the same key with another body; empty without a key."""
    if request.request_key is None:
        return ""
    return digest([request.model_dump(mode="json"), plan.hash if plan else None])


def claims_of(request: Request, pack: Pack, owner: Actor) -> tuple[str, ...]:
    """Return the claims by which only one session is started for the same request of the same owner to the same pack.

    The version of the pack does not count: a request that is sent again after an upgrade is the same request.
    """
    if request.request_key is None:
        return ()
    return (request_claim(pack.name, owner.id, request.request_key),)


def request_claim(pack: str, owner: str, key: str) -> str:
    """Return the claim on the request key of an owner for a pack."""
    return f"request_of:{digest([pack, owner, key])}"


async def find_session(
    journal: Journal, tenant: str, request: Request, pack: Pack, owner: Actor
) -> str | None:
    """Return the session that the same request of this owner to this pack began, or None.

    Older versions claimed the key alone: such a session is found as well, if it is this owner's and this pack's.
    """
    for claim in claims_of(request, pack, owner):
        if (holder := await journal.claim(tenant, claim)) is not None:
            return holder.stream
    older = await journal.claim(tenant, f"request:{request.request_key}")
    if older is None:
        return None
    start = (await load_state(journal, tenant, older.stream)).start
    is_same = start.pack.partition("@")[0] == pack.name and start.actor["id"] == owner.id
    return older.stream if is_same else None


def demand_same(request: Request, state: State, body: str) -> None:
    """Raise `UsageError` if the request key was used for another request."""
    if state.start.body != body:
        raise UsageError(
            f"the request key {request.request_key!r} was used for another request, in session {state.start.session}",
            code="request_key_reused",
            remedy="send the same request, or use another key",
        )


def planner_of(state: State, given: AnyPlanner | None, usual: AnyPlanner) -> AnyPlanner:
    """Return the planner for resuming a session: the one that it was started with, or an `AbsentPlanner`.

    Raises `UsageError` if the planner is missing and the session is planning.
    """
    wanted, planner = state.start.planner or usual.name, given or usual
    if planner.name == wanted:
        return planner
    absent = AbsentPlanner(state.start.session, wanted, planner.name)
    if Phase.PLAN in (state.phase, state.halted_from):
        raise absent.error
    return absent


class AbsentPlanner:
    """Takes the place of a planner that a session was started with and that the caller did not provide."""

    def __init__(self, session: str, wanted: str, given: str) -> None:
        self.name = wanted
        self.error = UsageError(
            f"session {session} was started with the planner {wanted}, not with {given}",
            code=PLANNER_MISSING,
            remedy=f"resume it with the planner {wanted}",
        )

    async def propose(self, config: RunConfig, feedback: tuple[str, ...]) -> Plan:
        """Always raises: another planner must not be used without the caller's choice."""
        del config, feedback
        raise self.error


def demand_moved(pack: Pack, config: RunConfig, state: State) -> None:
    """Raise `UsageError` if a session already has this pack, snapshot and rules: migrating would only void approvals."""
    start = state.start
    is_here = (pack.hash, config.compiled.hash) == (start.pack_hash, start.context)
    if is_here and not is_outdated(start.behaviour):
        raise UsageError(
            f"session {start.session} is at {pack.ref} and snapshot {start.snapshot or 'none'} already",
            code="nothing_to_move",
            remedy=f"go on with it: tercet sessions resume {start.session}",
        )


def demand_movable(pack: Pack, state: State) -> None:
    """Raise `UsageError` for a session that is compensating, since its calls were resolved in its own pack, and for one
    that is delivering outputs, since they were judged by the rules of its own pack.

    A session with outdated rules cannot continue there, so it may move to a pack that has the tools of those calls.
    """
    if state.accepted is not None and state.phase not in (Phase.COMMIT, Phase.FAIL):
        raise UsageError(
            f"session {state.start.session} is delivering outputs that were accepted in {state.start.pack}",
            code="outputs_accepted",
            remedy=f"resume it with the pack that it was started with, or end it: tercet sessions cancel {state.start.session}",
        )
    if state.saga != "undoing":
        return
    session, tools = state.start.session, {tool.name for tool in pack.tools}
    if not is_outdated(state.start.behaviour):
        raise UsageError(
            f"session {session} is compensating in {state.start.pack}",
            code="session_ending",
            remedy="resume it with the pack that it was started with",
        )
    if missing := sorted({undo.tool for undo in state.undo if undo.tool} - tools):
        raise UsageError(
            f"session {session} is compensating with {', '.join(missing)}, which {pack.ref} does not have",
            code="session_ending",
            remedy="add the tool to the pack, or move the session to a pack that has it",
        )


def under_current_rules(ctx: RunContext) -> RunContext:
    """Return the context of a session that adopts the rules of this version."""
    return ctx.model_copy(update={"behaviour": CURRENT})


def make_migration_event(
    pack: Pack, config: RunConfig, state: State, by: str, frozen: bytes
) -> e.SessionMigrated:
    """Return the event that moves a session to another pack or snapshot."""
    return e.SessionMigrated(
        at=state.at,
        by=by,
        **_pins(pack, config, frozen),
    )


def snapshot_of(pack: Pack, state: State) -> str | None:
    """Return the snapshot that a session is pinned to; raises `UsageError` if the pack no longer has it."""
    pinned = state.start.snapshot or None
    if pinned is not None and pinned not in pack.snapshots and pack.hash == state.start.pack_hash:
        raise _snapshot_mismatch(pack, state, "is gone")
    return pinned


def lane_frame(started: Mapping[str, Any]) -> LaneFrame:
    """Return the lane's frame from its recorded form."""
    return LaneFrame(name=started["name"], tools=tuple(started["tools"]))


def frame_of(state: State) -> tuple[RunContext, Request]:
    """Return the context and the request that a session was started with."""
    start = state.start
    ctx = RunContext.model_validate(
        {
            "trace_id": start.trace,
            "run_id": start.run,
            "tenant": start.tenant,
            "actor": start.actor,
            "safety_mode": start.safety_mode,
            "run_budget": start.budget,
            "started_at": moment(start.at),
            "behaviour": demand_known(start.behaviour, start.session),
            "depth": start.depth,
            "lane": lane_frame(start.lane) if start.lane else None,
        }
    )
    return ctx, Request.model_validate(start.request)


def demand_pack(pack: Pack, state: State) -> None:
    """Raise `UsageError` if the pack is not the one that the session was started with.

    Checked first, since another pack may not even know the intent of the session.
    """
    start = state.start
    if pack.hash != start.pack_hash and state.is_stepwise:
        raise UsageError(
            f"session {start.session} belongs to the agent {start.planner}, which decides step by step",
            code="pack_version_mismatch",
            remedy=f"move it to the agent's current tools in Python: await engine.migrate({start.session!r}){_or_cancel(state)}",
        )
    if pack.hash != start.pack_hash:
        raise UsageError(
            f"session {start.session} is pinned to {start.pack} with hash {start.pack_hash[:20]}…, and this pack is {pack.ref} with {pack.hash[:20]}…",
            code="pack_version_mismatch",
            remedy=f"{_ending_words(state)}resume it with the pack that it was started with; or move it to this one: {_migrate(pack, start.session)}{_or_cancel(state)}",
        )


def _ending_words(state: State) -> str:
    """Return that a run is ending already, as the beginning of a remedy; empty if it is not."""
    return f"it is {state.ending} already, and has only to end: " if state.ending else ""


def _or_cancel(state: State) -> str:
    """Return that a run can be cancelled, as the end of a remedy; empty for one that is ending already."""
    return "" if state.ending else f"; or end it: tercet sessions cancel {state.start.session}"


def _migrate(pack: Pack, session: str) -> str:
    """Return the command that moves a session to a pack; for a pack built in Python, the call."""
    if not pack.folder:
        return f"await runtime.migrate({session!r})"
    return f"tercet sessions migrate {session} --pack {shlex.quote(pack.folder)}"


def demand_pins(pack: Pack, state: State, config: RunConfig) -> None:
    """Raise `UsageError` if the pack or the snapshot is not the one that the session was started with."""
    demand_pack(pack, state)
    if config.compiled.hash != state.start.context:
        raise _snapshot_mismatch(pack, state, "has other content now")


def _snapshot_mismatch(pack: Pack, state: State, what: str) -> UsageError:
    start = state.start
    return UsageError(
        f"session {start.session} is pinned to snapshot {start.snapshot}, which {what}",
        code="snapshot_version_mismatch",
        remedy=f"{_ending_words(state)}restore the evidence files of that snapshot; or move it to the evidence of this pack: {_migrate(pack, start.session)}{_or_cancel(state)}",
    )
