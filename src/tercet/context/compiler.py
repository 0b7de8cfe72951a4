"""Compiles what one run may see, and why.

The ledger lists everything in the pack: admitted or not, and for which reason. Tools above the run's safety mode stay
in the manifest, so that the critic can say why a step is refused instead of treating the tool as unknown; tools that
this owner or tenant may not use do not, since other users should not learn about them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from tercet.context.admission import (
    Packed,
    admit,
    demand_distinct,
    demand_room,
    fill,
    is_expired,
    overflow,
    snapshot_of,
)
from tercet.contracts.buckets import BUCKETS, Bucket, BucketUse, TokenLimits, estimate_tokens
from tercet.contracts.context import (
    USUAL_TIERS,
    CompiledContext,
    LedgerEntry,
    LedgerKind,
    Manifests,
    RunContext,
    ToolManifestEntry,
)
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.evidence import Evidence
from tercet.contracts.gate import Gate
from tercet.contracts.lane import LaneFrame
from tercet.contracts.mode import MODE_RANK
from tercet.contracts.policy import Policy
from tercet.contracts.request import Request
from tercet.contracts.runs.behaviour import Behaviour
from tercet.contracts.text.planner_view import show_evidence, show_instructions, show_request, show_tool
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values.cache import BoundedCache
from tercet.packs.pack import Pack
from tercet.tools.tool import Tool, uncalled


@dataclass(frozen=True, kw_only=True)
class Surface:
    """The tools of a run by name, and why others were not admitted."""

    manifest: tuple[ToolManifestEntry, ...]
    ledger: tuple[LedgerEntry, ...]
    packed: Packed


def surface_of(
    tools: Sequence[Tool], decision: DecisionSpec, run_context: RunContext, limit: int | None
) -> Surface:
    """Return the surface of a run; raise `UsageError` if the limit leaves none of its tools."""
    ordered = sorted(tools, key=lambda tool: tool.name)
    barred = {tool.name: reason for tool in ordered if (reason := _bar(tool, decision, run_context))}
    offered = [tool for tool in ordered if tool.name not in barred and _is_within(tool, run_context)]
    packed = fill("tools", limit, _sizes(offered, decision, limit))
    if offered and len(packed.left_out) == len(offered):
        raise overflow(
            "tools", f"none of the tools of decision {decision.id} fits into {limit:,} tokens", "describe them in fewer words"
        )  # fmt: skip
    excluded = {**barred, **packed.left_out}
    return Surface(
        manifest=tuple(ToolManifestEntry.of(tool.spec) for tool in ordered if tool.name not in excluded),
        ledger=tuple(_entries(ordered, excluded, decision, run_context)),
        packed=packed,
    )


def _bar(tool: Tool, decision: DecisionSpec, run_context: RunContext) -> str | None:
    """Return why a tool is not part of a run's surface; None if it may be.

    A reason never names a person or a tenant: frames are shared by all runs with equal inputs, and one tenant's context
    reveals nothing about another.
    """
    lane = run_context.lane
    if lane is not None and tool.name not in lane.tools:
        return f"lane {lane.name} does not have it"
    if tool.name in decision.prohibited_tools:
        return f"decision {decision.id} prohibits it"
    if decision.tools is not None and tool.name not in decision.tools:
        return f"decision {decision.id} does not list it"
    if not tool.serves(run_context.tenant):
        return "it is not for the tenant of this run"
    if not tool.is_open_to(run_context.actor.roles):
        return f"the actor holds none of the roles {', '.join(tool.roles)}"
    return None


def _is_within(tool: Tool, run_context: RunContext) -> bool:
    return MODE_RANK[tool.mode] <= MODE_RANK[run_context.safety_mode]


def _sizes(offered: Sequence[Tool], decision: DecisionSpec, limit: int | None) -> dict[str, int]:
    """Return the tokens of each tool, in the order in which the decision lists them, else by name.

    Tools above the safety mode are never shown, and take no room.
    """
    if limit is None:
        return {}
    listed = {name: place for place, name in enumerate(decision.tools or ())}
    ordered = sorted(offered, key=lambda tool: (listed.get(tool.name, len(listed)), tool.name))
    return {tool.name: estimate_tokens(show_tool(tool)) for tool in ordered}


def _entries(
    tools: Sequence[Tool], excluded: dict[str, str], decision: DecisionSpec, run_context: RunContext
) -> Iterator[LedgerEntry]:
    for tool in tools:
        reason = excluded.get(tool.name)
        if reason is not None:
            yield LedgerEntry(kind="tool", name=tool.name, admitted=False, reason=reason)
        elif _is_within(tool, run_context):
            yield LedgerEntry(
                kind="tool", name=tool.name, admitted=True, reason=f"decision {decision.id} may use it"
            )
        else:
            yield LedgerEntry(
                kind="tool",
                name=tool.name,
                admitted=True,
                reason=f"not offered to a planner: its mode {tool.mode} is above the safety mode "
                f"{run_context.safety_mode}; kept so that a step that calls it is refused for this reason",
            )


def compile(  # noqa: A001 - the name that the design gives it
    pack: Pack,
    request: Request,
    run_context: RunContext,
    snapshot: str | None = None,
    *,
    evidence: Sequence[Evidence] | None = None,
    library: Sequence[Evidence] = (),
    left_out: Mapping[str, int] | None = None,
    is_shared: bool = False,
) -> CompiledContext:
    """Return the context of a run: for the decision of the request, against a snapshot (the newest by default).

    `evidence` replaces the pack's own facts; the snapshot is then theirs. Those of a `library` are admitted in
    addition, whatever their snapshot; `left_out` counts its other facts of each class. Raises `UsageError` for an
    unknown intent or snapshot, and if the pack's token limits leave no room for what must be in the context. With
    `is_shared` the same object may be returned for equal requests: then only the runtime may use it, and must not
    change it.
    """
    decision = pack.decision_for(request.intent)
    # If the decision declares relations, the admitted facts depend on the request.
    is_plain = pack.context.tokens.evidence is None or not decision.bind
    is_kept = evidence is None and not library and is_plain
    if is_kept:
        frame = _kept_frame(pack, decision, request, run_context, snapshot)
    else:
        facts = pack.evidence if evidence is None else evidence
        demand_distinct((*facts, *library))
        chosen = snapshot
        if chosen is None:
            chosen = pack.newest_snapshot if evidence is None else snapshot_of(evidence)
        if chosen is not None and evidence is None:
            pack.evidence_in(chosen)  # raises for an unknown snapshot
        frame = _frame(pack, decision, request, run_context, chosen, facts, library)
    if left_out:
        frame = _with_left_out(frame, left_out)
    limit = pack.context.tokens.request
    if limit is not None:
        demand_room("request", "the request", estimate_tokens(show_request(request)), limit)
    if is_shared and is_kept and not left_out:
        return _answered(pack, frame, request)
    return frame.answering(request)


_MAX_FRAMES = 32
"""The number of cached contexts of a pack, which has a few decisions and modes, and evidence that expires."""


_MAX_ANSWERED = 64
"""The number of cached contexts with their requests."""
_MAX_SHARED_BYTES = 16_384
"""The largest request to cache: larger ones are rarely repeated."""


_Answered: TypeAlias = BoundedCache[tuple[int, bytes], tuple[CompiledContext, CompiledContext]]
"""Contexts by the `id` of their frame and their request, with that frame."""


def _answered(pack: Pack, frame: CompiledContext, request: Request) -> CompiledContext:
    """Return the frame with a copy of the request, which its sender cannot change; the same for equal requests."""
    data = msgspec.json.encode(request.model_dump(mode="json", exclude_defaults=True))
    if len(data) > _MAX_SHARED_BYTES:
        return frame.answering(request)
    if "answered" not in pack.derived:
        pack.derived["answered"] = _Answered(_MAX_ANSWERED)
    answered: _Answered = pack.derived["answered"]
    known = answered.get((id(frame), data))
    if known is None:
        own = frame.answering(Request.model_validate(msgspec.json.decode(data)))
        known = answered.keep((id(frame), data), (own, frame))
    return known[0]


def _with_left_out(frame: CompiledContext, left_out: Mapping[str, int]) -> CompiledContext:
    """Return the context with the omitted facts of a library, by class, also in its ledger."""
    entries = tuple(
        _entry(
            "evidence",
            name,
            f"{count:,} facts of this class in the store of evidence were left out; a plan may pin or search them",
            admitted=False,
        )
        for name, count in sorted(left_out.items())
    )
    update = {"left_out": dict(sorted(left_out.items())), "ledger": (*frame.ledger, *entries)}
    return frame.model_copy(update=update)


def _kept_frame(
    pack: Pack, decision: DecisionSpec, request: Request, run_context: RunContext, snapshot: str | None
) -> CompiledContext:
    """Return the frame on the pack's own evidence, cached for all runs with the same inputs."""
    chosen = pack.newest_snapshot if snapshot is None else snapshot
    started_at = run_context.started_at
    # All inputs of the frame, so that equal keys mean equal frames.
    expired = tuple(fact.id for fact in _perishable(pack) if is_expired(fact, started_at))
    key = (
        request.intent,
        chosen,
        run_context.safety_mode,
        started_at is None,
        run_context.goes_by(Behaviour.STRICT_CALLS),
        expired,
        run_context.lane,
        *_relevant_owner(pack, run_context),
    )
    frames: dict[Any, CompiledContext] = pack.derived.setdefault("frames", {})
    frame = frames.get(key)
    if frame is None:
        if chosen is not None:
            pack.evidence_in(chosen)  # raises for an unknown snapshot
        frame = _frame(pack, decision, request, run_context, chosen, pack.evidence)
        if len(frames) >= _MAX_FRAMES:
            frames.pop(next(iter(frames)), None)
        frames[key] = frame
    return frame


def _perishable(pack: Pack) -> tuple[Evidence, ...]:
    """Return the evidence with an expiry."""
    if "perishable" not in pack.derived:
        pack.derived["perishable"] = tuple(fact for fact in pack.evidence if fact.expires_at is not None)
    return pack.derived["perishable"]


def _relevant_owner(pack: Pack, run_context: RunContext) -> tuple[Any, Any]:
    """Return the relevant part of a run's owner: the roles and the tenant as far as some tool names them."""
    if "named" not in pack.derived:
        roles = frozenset(role for tool in pack.tools for role in tool.roles)
        tenants = frozenset(tenant for tool in pack.tools for tenant in tool.tenants)
        pack.derived["named"] = roles, tenants
    roles, tenants = pack.derived["named"]
    held = roles.intersection(run_context.actor.roles) if roles else roles
    return held, run_context.tenant if run_context.tenant in tenants else None


def _frame(
    pack: Pack,
    decision: DecisionSpec,
    request: Request,
    run_context: RunContext,
    chosen: str | None,
    facts: Sequence[Evidence],
    library: Sequence[Evidence] = (),
) -> CompiledContext:
    """Return the context of a run without its request."""
    limits = pack.context.tokens
    gates = tuple(sorted(pack.gates, key=lambda gate: gate.name))
    _demand_instructions(decision, gates, pack.policies, limits.instructions)
    tools = (*pack.tools, *map(_as_tool, pack.lane_tools)) if pack.lanes else pack.tools
    surface = surface_of(tools, decision, _within_lane(pack, run_context), limits.tools)
    admission = admit(
        facts,
        chosen,
        decision,
        run_context.started_at,
        limits.evidence,
        library,
        request=request.input,
        keeps_all=run_context.goes_by(Behaviour.STRICT_CALLS),
    )
    decisions = tuple(sorted(pack.decisions, key=lambda spec: spec.id))
    surfaced = {f"{entry.adapter_id}.{entry.capability_id}" for entry in surface.manifest}
    return CompiledContext(
        manifests=Manifests(tool_manifest=surface.manifest, evidence_manifest=admission.manifest),
        gates=gates,
        policies=tuple(pack.policies),
        decisions=decisions,
        lanes=tuple(
            lane for lane in sorted(pack.lanes, key=lambda lane: lane.name) if lane.tool_name in surfaced
        ),
        risk_tiers={**USUAL_TIERS, **pack.risk_tiers},
        pack=pack.ref,
        pack_hash=pack.hash,
        snapshot=chosen or "",
        safety_mode=run_context.safety_mode,
        ledger=(
            *_decision_entries(decisions, decision, request.intent),
            *surface.ledger,
            *admission.ledger,
            *(_entry("gate", gate.name, "every gate of the pack is known") for gate in gates),
            *(_entry("policy", policy.name, _application(policy)) for policy in pack.policies),
        ),
        truncation=(*surface.packed.report(), *admission.packed.report()),
    )


def _as_tool(spec: ToolSpec) -> Tool:
    """A lane as a tool. Nothing is called by it: a runtime has the code that starts the lane."""
    return Tool(**{name: getattr(spec, name) for name in spec.model_fields_set}, call=uncalled)


def _within_lane(pack: Pack, run_context: RunContext) -> RunContext:
    """The frame of a lane with no more tools than the pack declares for it, whatever the frame says."""
    frame = run_context.lane
    if frame is None:
        return run_context
    declared = next((lane.tools for lane in pack.lanes if lane.name == frame.name), ())
    kept = tuple(name for name in frame.tools if name in declared)
    return run_context.model_copy(update={"lane": LaneFrame(name=frame.name, tools=kept)})


def _demand_instructions(
    decision: DecisionSpec, gates: Sequence[Gate], policies: Sequence[Policy], limit: int | None
) -> None:
    if limit is not None:
        needed = estimate_tokens(show_instructions(decision, gates, policies))
        what = f"what a planner must be told of decision {decision.id}"
        demand_room("instructions", what, needed, limit)


def _decision_entries(
    decisions: Sequence[DecisionSpec], chosen: DecisionSpec, intent: str
) -> Iterator[LedgerEntry]:
    """Return which decision answers the intent, and why; the others are for checkpoints only."""
    for spec in decisions:
        if spec.id != chosen.id:
            reason = f"it does not answer {intent}; a checkpoint may name it"
            yield _entry("decision", spec.id, reason, admitted=False)
        elif intent == spec.id:
            yield _entry("decision", spec.id, "the intent is its id")
        else:
            yield _entry("decision", spec.id, f"it lists the intent {intent}")


def _application(policy: Policy) -> str:
    """Return how a policy applies. No policy is limited to a decision or a tool except by its own condition."""
    match policy.effect:
        case "deny":
            what = "a plan" if policy.scope == "plan" else "a plan with a step"
            how = f"it refuses {what} that does not meet it"
        case "gate":
            what = "a plan" if policy.scope == "plan" else "a step"
            how = f"it lets {what} that does not meet it wait for {policy.gate}"
        case "grant":
            how = "it approves network and delegated steps that meet it"
    return f"{how}; every policy of the pack applies"


def _entry(kind: LedgerKind, name: str, reason: str, *, admitted: bool = True) -> LedgerEntry:
    return LedgerEntry(kind=kind, name=name, admitted=admitted, reason=reason)


def measure(compiled: CompiledContext, decision: DecisionSpec, limits: TokenLimits) -> tuple[BucketUse, ...]:
    """Return how many tokens each part of a context takes, and its limit."""
    return tuple(
        BucketUse(bucket=bucket, used=_used(bucket, compiled, decision), limit=limits.of(bucket))
        for bucket in BUCKETS
    )


def _used(bucket: Bucket, compiled: CompiledContext, decision: DecisionSpec) -> int:
    match bucket:
        case "instructions":
            return estimate_tokens(show_instructions(decision, compiled.gates, compiled.policies))
        case "tools":
            return sum(estimate_tokens(show_tool(tool)) for tool in compiled.offered.values())
        case "evidence":
            return sum(
                estimate_tokens(show_evidence(fact)) for fact in compiled.evidence.values() if fact.is_shown
            )
        case "request":
            return 0 if compiled.request is None else estimate_tokens(show_request(compiled.request))
