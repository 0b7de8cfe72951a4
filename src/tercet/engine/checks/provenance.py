"""Provenance and audit records of runs, derived from their events and stored nowhere else.

The events, checkpoints and stored evidence are read; pure functions derive the rest. So the provenance of a run is the
same from its journal and from a bundle, at any time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, get_args

import msgspec

from tercet.contracts.errors import ReplayError
from tercet.contracts.evidence import Citation
from tercet.contracts.loop import Phase
from tercet.contracts.outputs.quality import RepairLog
from tercet.contracts.runs.record import AuditRecord, CheckpointLink, CostPhase, PhaseCost, Provenance
from tercet.contracts.values.canonical import digest
from tercet.contracts.verdict import CriticReport
from tercet.core import events as e
from tercet.core.state import State, Used
from tercet.core.transcript import moment, transcript
from tercet.engine import checkpoint
from tercet.engine.session_reader import History, load_history
from tercet.engine.streams.experience import settled_logs
from tercet.journal.protocol import Journal, StoredCheckpoint

_ACCEPTING = ("approve", "grant", "accept_partial")
"""The answers that count as acceptance."""
_PURPOSES: dict[Phase, CostPhase] = {
    Phase.PLAN: "planning",
    Phase.DECOMPOSE: "planning",
    Phase.RETRIEVE: "retrieval",
    Phase.REVIEW: "verification",
    Phase.ACT: "execution",
    Phase.VERIFY: "verification",
    Phase.CRITIQUE: "critique",
    Phase.REPAIR: "repair",
    Phase.COMMIT: "execution",
    Phase.FAIL: "execution",
    Phase.HALT: "execution",
}
"""The area to which the cost of each phase is attributed; FAIL is compensation."""


@dataclass(frozen=True, kw_only=True)
class Trail(History):
    """The history of a run with its citations: the input of its provenance."""

    citations: Mapping[str, Citation]
    """The source of each stored fact, by its id."""


async def read_trail(journal: Journal, tenant: str, session: str) -> Trail:
    """Return the history of a run in a journal or a bundle, with its citations."""
    history = await load_history(journal, tenant, session, has_checkpoints=True)
    citations: dict[str, Citation] = {}
    for event in history.events:
        match event:
            case e.SessionStarted() | e.SessionMigrated() if event.evidence:
                citations |= _read_frozen(await journal.blob(tenant, event.evidence))
            case e.EvidenceRetrieved() | e.EvidenceFetched() if event.facts:
                citations |= _read_found(await journal.blob(tenant, event.facts))
            case _:
                pass
    return Trail(session=session, stored=history.stored, checkpoints=history.checkpoints, citations=citations)


def _read_frozen(data: bytes) -> dict[str, Citation]:
    """Return citations of the facts that a session was started with."""
    facts: list[dict[str, Any]] = msgspec.json.decode(data)
    return {
        fact["id"]: Citation(
            evidence=fact["id"], content_hash=digest(fact["content"]), document=fact.get("source", "")
        )
        for fact in facts
    }


def _read_found(data: bytes) -> dict[str, Citation]:
    """Return citations of the facts that a plan queried."""
    kept: list[dict[str, Any]] = msgspec.json.decode(data)
    return {each["evidence"]["id"]: Citation.model_validate(each["citation"]) for each in kept}


# --- provenance ---


def provenance_of(trail: Trail) -> Provenance:
    """Return the provenance of a run's outputs."""
    state = trail.state
    models = tuple(
        dict.fromkeys(each.model for each in trail.events if isinstance(each, e.ModelAnswered) and each.model)
    )
    accepting = [answer for answer in state.answers if answer.answer in _ACCEPTING]
    approvers = tuple(dict.fromkeys(answer.actor for answer in accepting))
    refs = tuple(_pinned_evidence(trail.events))
    return Provenance(
        task_id=state.start.run,
        plan_hash=state.plan_hash,
        evidence_refs=refs,
        tool_invocations=tuple(
            dict.fromkeys(entry.call.idempotency_key for entry in transcript(trail.events, {}))
        ),
        repair_history=RepairLog(
            entries=tuple(entry for log in settled_logs(trail.events) for entry in log.entries)
        ),
        verification_scores=scores_of(state) | _verification_scores(state),
        model_id=models[-1] if models else None,
        timestamp=moment(state.at),
        approver=", ".join(approvers) or None,
        sources=tuple(trail.citations[ref] for ref in refs if ref in trail.citations),
        models=models,
        approvers=approvers,
        logins={answer.actor: answer.login for answer in accepting if answer.login} or None,
    )


def _pinned_evidence(events: Sequence[e.Event]) -> Iterator[str]:
    """Yield the evidence ids that the last plan was pinned to."""
    found = [event for event in events if isinstance(event, e.EvidenceRetrieved)]
    yield from found[-1].evidence if found else ()


def scores_of(state: State) -> dict[str, float]:
    """Return the critic's scores by evaluator."""
    scored = CriticReport.model_validate(state.report).score if state.report else None
    return (
        {} if scored is None else {str(name): found.score for name, found in scored.scorecard.scores.items()}
    )


def _verification_scores(state: State) -> dict[str, float]:
    """Return the scores of VERIFY by level, and their total."""
    found = {
        "verify": state.quality.verdict.get("score"),
        "semantic": state.quality.verdict.get("semantic"),
        "factual": state.quality.verdict.get("factual"),
    }
    return {name: score for name, score in found.items() if score is not None}


def _quality_scores(state: State) -> dict[str, float]:
    """Return the rubric's scores and the confidence; of two scores with the same name the lower counts."""
    scores = scores_of(state)
    found: dict[str, float] = dict(state.quality.diagnosis.get("scores", {}))
    if (value := state.quality.confidence.get("value")) is not None:
        found["confidence"] = value
    return {name: min(score, scores.get(name, score)) for name, score in found.items()}


# --- audit ---


def audit_of(trail: Trail) -> AuditRecord:
    """Return the audit record of a run: its phases, checkpoints, calls, and cost by purpose."""
    state = trail.state
    return AuditRecord(
        loop_trace=tuple(_phases(trail.states)),
        all_checkpoints=tuple(point.hash for point in trail.checkpoints if point.kind == "point"),
        all_tool_traces=transcript(trail.events, {}),
        total_cost_microcents=state.used.cost,
        total_latency_ms=state.used.wall_clock,
        all_repair_logs=tuple(settled_logs(trail.events)),
        final_quality_scores=scores_of(state) | _quality_scores(state),
        cost_by_phase=cost_by_phase(trail.states),
        checkpoint_chain=checkpoint_chain(trail),
    )


def _phases(states: Sequence[State]) -> Iterator[str]:
    """Yield the phases of a run in order."""
    for number, state in enumerate(states):
        if not number or state.phase is not states[number - 1].phase:
            yield str(state.phase)


_Counted = Literal["cost", "tokens", "tool_calls", "wall_clock"]
_NAMES: dict[str, _Counted] = {
    "cost_microcents": "cost",
    "tokens": "tokens",
    "tool_calls": "tool_calls",
    "latency_ms": "wall_clock",
}


def cost_by_phase(states: Sequence[State]) -> dict[CostPhase, PhaseCost]:
    """Return the cost of each purpose: every event counts for the phase in which it happened, so the sum is the total."""
    spent: dict[CostPhase, dict[str, int]] = {
        purpose: dict.fromkeys(_NAMES, 0) for purpose in get_args(CostPhase)
    }
    for before, after in pairwise(states):
        if before.used != after.used:
            _add(spent[_PURPOSES[before.halted_from or before.phase]], before.used, after.used)
    return {purpose: PhaseCost.model_validate(amounts) for purpose, amounts in spent.items()}


def _add(amounts: dict[str, int], before: Used, after: Used) -> None:
    for name, counted in _NAMES.items():
        amounts[name] += getattr(after, counted) - getattr(before, counted)


def checkpoint_chain(trail: Trail) -> tuple[CheckpointLink, ...]:
    """Return every checkpoint in order, each compared with the state that the events give at its position.

    Raises `ReplayError` at the first one that was taken of another state.
    """
    beginning = trail.states[0]
    chain = [
        CheckpointLink(
            k=0,
            position=0,
            phase=str(beginning.phase),
            status=beginning.status,
            summary=_hex(checkpoint.summary(beginning)),
        )
    ]
    for stored in trail.checkpoints:
        if stored.kind == "point":
            chain.append(_link(trail, stored, chain[-1]))
    return tuple(chain)


def _link(trail: Trail, stored: StoredCheckpoint, before: CheckpointLink) -> CheckpointLink:
    taken = checkpoint.read_point(stored)
    if stored.seq >= len(trail.states):
        raise ReplayError(
            recorded=f"a point at position {stored.seq}",
            expected=f"at most {len(trail.events)} events",
            check="the journal was cut off behind this point",
        )
    if taken.position != stored.seq:
        raise ReplayError(
            recorded=f"a point of position {taken.position}",
            expected=f"one of position {stored.seq}, where it is stored",
            check="the checkpoints of the journal were changed",
        )
    checkpoint.compare(trail.states[stored.seq], stored)
    return CheckpointLink(
        k=before.k + 1,
        position=stored.seq,
        phase=taken.phase,
        status=taken.status,
        verdict=taken.verdict,
        summary=_hex(taken.summary),
        checkpoint=stored.hash,
        previous=before.hash,
    )


def _hex(summary: bytes) -> str:
    return f"sha256:{summary.hex()}"
