"""What one run may see, and why.

Everything that the pack has is in the ledger: admitted or not, and for which reason. Tools above the run's safety mode
stay in the manifest, so that the critic can say why a step is refused instead of treating the tool as unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Literal

from tercet.contracts.context import (
    USUAL_TIERS,
    CompiledContext,
    EvidenceManifestEntry,
    LedgerEntry,
    Manifests,
    RunContext,
    ToolManifestEntry,
)
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.evidence import Evidence
from tercet.contracts.mode import MODE_RANK, ApprovalMode
from tercet.contracts.request import Request
from tercet.packs.pack import Pack
from tercet.tools.tool import Tool


def compile(  # noqa: A001 - the name that the design gives it
    pack: Pack, request: Request, run_context: RunContext, snapshot: str | None = None
) -> CompiledContext:
    """The context of a run: for the decision that the request asks for, against a snapshot (the newest by default).

    Raises `UsageError` for an intent or a snapshot that the pack does not have.
    """
    decision = pack.decision_for(request.intent)
    chosen = pack.newest_snapshot if snapshot is None else snapshot
    started_at, mode = run_context.started_at, run_context.safety_mode
    # All that the frame is made of, so the same key means the same frame.
    expired = tuple(fact.id for fact in _perishable(pack) if _is_expired(fact, started_at))
    key = (decision.id, chosen, mode, started_at is None, expired)
    frames: dict[Any, CompiledContext] = pack.derived.setdefault("frames", {})
    frame = frames.get(key)
    if frame is None:
        frame = _frame(pack, decision, chosen, mode, started_at)
        if len(frames) >= _MAX_FRAMES:
            frames.pop(next(iter(frames)), None)
        frames[key] = frame
    return frame.answering(request)


_MAX_FRAMES = 32
"""How many contexts of a pack are kept; a pack has a few decisions and modes, and its evidence expires now and then."""


def _perishable(pack: Pack) -> tuple[Evidence, ...]:
    """The evidence that expires at all."""
    if "perishable" not in pack.derived:
        pack.derived["perishable"] = tuple(fact for fact in pack.evidence if fact.expires_at is not None)
    return pack.derived["perishable"]


def _frame(
    pack: Pack,
    decision: DecisionSpec,
    chosen: str | None,
    safety_mode: ApprovalMode,
    started_at: datetime | None,
) -> CompiledContext:
    """The context of a run without its request."""
    facts = pack.evidence_in(chosen) if chosen is not None else ()
    tools = sorted(pack.tools, key=lambda tool: tool.name)
    gates = tuple(sorted(pack.gates, key=lambda gate: gate.name))
    return CompiledContext(
        manifests=Manifests(
            tool_manifest=tuple(
                ToolManifestEntry.of(tool.spec) for tool in tools if _exclusion(decision, tool) is None
            ),
            evidence_manifest=tuple(
                EvidenceManifestEntry.of(fact) for fact in facts if not _is_expired(fact, started_at)
            ),
        ),
        gates=gates,
        policies=tuple(pack.policies),
        decisions=tuple(sorted(pack.decisions, key=lambda spec: spec.id)),
        risk_tiers={**USUAL_TIERS, **pack.risk_tiers},
        pack=pack.ref,
        pack_hash=pack.hash,
        snapshot=chosen or "",
        ledger=(
            *(_tool_entry(tool, decision, safety_mode) for tool in tools),
            *_evidence_entries(pack, chosen, started_at),
            *(_entry("gate", gate.name, "every gate of the pack is known") for gate in gates),
            *(_entry("policy", policy.name, "every policy of the pack applies") for policy in pack.policies),
        ),
    )


def _exclusion(decision: DecisionSpec, tool: Tool) -> str | None:
    """Why a decision may not use a tool; None if it may."""
    if tool.name in decision.prohibited_tools:
        return f"decision {decision.id} prohibits it"
    if decision.tools is not None and tool.name not in decision.tools:
        return f"decision {decision.id} does not list it"
    return None


def _tool_entry(tool: Tool, decision: DecisionSpec, ceiling: ApprovalMode) -> LedgerEntry:
    exclusion = _exclusion(decision, tool)
    if exclusion is not None:
        return _entry("tool", tool.name, exclusion, admitted=False)
    if MODE_RANK[tool.mode] > MODE_RANK[ceiling]:
        return _entry(
            "tool",
            tool.name,
            f"not offered to a planner: its mode {tool.mode} is above the safety mode {ceiling}; "
            "kept so that a step that calls it is refused for this reason",
        )
    return _entry("tool", tool.name, f"decision {decision.id} may use it")


def _evidence_entries(pack: Pack, chosen: str | None, started_at: datetime | None) -> Iterator[LedgerEntry]:
    for fact in sorted(pack.evidence, key=lambda fact: fact.id):
        if fact.snapshot != chosen:
            yield _entry("evidence", fact.id, f"it is not of snapshot {chosen}", admitted=False)
        elif _is_expired(fact, started_at):
            yield _entry(
                "evidence", fact.id, f"it expired at {fact.expires_at:%Y-%m-%dT%H:%M:%S%z}", admitted=False
            )
        elif fact.expires_at is not None and started_at is None:
            yield _entry(
                "evidence", fact.id, f"of snapshot {chosen}; its expiry was not judged, no time is given"
            )
        else:
            yield _entry("evidence", fact.id, f"of snapshot {chosen}")


def _is_expired(fact: Evidence, started_at: datetime | None) -> bool:
    return started_at is not None and fact.expires_at is not None and fact.expires_at <= started_at


def _entry(
    kind: Literal["tool", "evidence", "policy", "gate"], name: str, reason: str, *, admitted: bool = True
) -> LedgerEntry:
    return LedgerEntry(kind=kind, name=name, admitted=admitted, reason=reason)
