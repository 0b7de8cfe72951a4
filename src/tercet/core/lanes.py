"""Lanes: which steps a lane may execute, what it proposes, and how its parent adopts the proposals.

A lane executes only steps without side effects. Every other step of its plan, and every step that depends on one,
becomes a proposal. The parent's critic reviews the parent's plan with the proposals at its end: accepted, they are steps
of a new revision, each with its gates; rejected, nothing of them runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from tercet.contracts.errors import PlanError
from tercet.contracts.lane import LaneEnvelope, LaneProposal, LaneUse
from tercet.contracts.plan import Plan, Step
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.values import references
from tercet.core import budget
from tercet.core import events as e
from tercet.core.config import ExecutionPlan, RunConfig
from tercet.core.dependencies import Results
from tercet.core.plans import read_plan
from tercet.core.state import State
from tercet.critic.reading import pinned
from tercet.policy.resolution import ResolutionError, resolve

NOT_PROPOSABLE = "not_proposable"
"""The code of a step of a lane that can be neither executed nor proposed."""
TIMEOUT = "lane_timeout"
"""The code of a lane that ran out of time."""
NEEDS_PERSON = "lane_needs_person"
"""The code of a lane that would have to ask a person."""


# --- in a lane ---


def is_withheld(state: State, course: ExecutionPlan, name: str) -> bool:
    """Return whether a lane proposes a step instead of executing it, for itself or for a step it depends on."""
    call = course.calls.get(name)
    if call is not None and not call.runs_in_lane:
        return True
    proposed = {each["id"] for each in state.proposals}
    return bool(proposed) and not proposed.isdisjoint(_before(course.plan, name))


def _before(plan: Plan, name: str) -> set[str]:
    """Return the steps that a step waits for."""
    index = next(place for place, step in enumerate(plan.steps) if step.id == name)
    return {plan.steps[place].id for place in plan.graph.predecessors[index]}


def propose_step(
    state: State, config: RunConfig, course: ExecutionPlan, name: str, results: Results
) -> LaneProposal:
    """Return a step as a proposal, with known values filled in.

    Raises `ResolutionError` for one that computes with the result of another proposal.
    """
    step, call = course.steps[name], course.calls.get(name)
    if call is None:
        raise ResolutionError(
            f"note {name} depends on a step that the lane only proposes", code=NOT_PROPOSABLE
        )
    others = {each["id"] for each in state.proposals}
    params = {key: _carry_over(value, others, results, config.evidence) for key, value in call.params.items()}
    return LaneProposal(
        id=name,
        tool=call.tool.name,
        params=params,
        depends_on=tuple(sorted(others & _before(course.plan, name))),
        evidence_refs=pinned(step),
        approval_mode=step.approval_mode,
        gates=step.gates or (),
        reversibility=step.reversibility,
    )


def _carry_over(value: Any, proposed: set[str], results: Results, evidence: dict[str, Any]) -> Any:
    """Return a parameter with known values filled in; references to proposals stay."""
    members = as_object(value)
    if members is not None:
        reference = references.as_reference(members)
        if reference is None:
            if references.LITERAL in members:
                return value
            return {key: _carry_over(each, proposed, results, evidence) for key, each in members.items()}
        if proposed.isdisjoint(reference.names):
            return _as_literal(resolve({"value": value}, results, evidence)["value"])
        if reference.kind != "from":
            raise ResolutionError(
                f"{reference.text} computes with the result of a step that the lane only proposes",
                code=NOT_PROPOSABLE,
            )
        return value
    items = as_list(value)
    return value if items is None else [_carry_over(each, proposed, results, evidence) for each in items]


def _as_literal(value: Any) -> Any:
    """Return a value as a plan writes it."""
    is_nested = as_object(value) is not None or as_list(value) is not None
    return {references.LITERAL: value} if is_nested else value


def envelope_of(state: State, *, code: str = "") -> LaneEnvelope:
    """Return the envelope of a lane for its parent. A failed lane has no outputs and no proposals."""
    used = budget.budget_use(state.used)
    is_completed = state.status == "completed"
    if not is_completed and not code:
        is_late = used.wall_clock_ms >= state.start.budget.get("wall_clock_ms", used.wall_clock_ms + 1)
        code = TIMEOUT if is_late else f"lane_{state.status}"
    return LaneEnvelope(
        lane=str(state.start.lane.get("name", "")),
        session_id=state.start.session,
        status=state.status,
        verdict=state.envelope.get("verdict", ""),
        code="" if is_completed else code,
        reason="" if is_completed else state.reason[:500],
        outputs=state.outputs if is_completed else {},
        proposals=tuple(map(LaneProposal.model_validate, state.proposals)) if is_completed else (),
        used=LaneUse(
            tool_calls=used.tool_calls,
            tokens=used.tokens,
            cost_microcents=used.cost_microcents,
            wall_clock_ms=used.wall_clock_ms,
        ),
        evidence_refs=tuple(dict.fromkeys(ref for step in _steps(state) for ref in pinned(step))),
    )


def _steps(state: State) -> Sequence[Step]:
    return read_plan(state.plan).steps if state.plan else ()


def dump_envelope(envelope: LaneEnvelope) -> JsonObject:
    """Return an envelope as the result of the call that started the lane."""
    proposals = [each.model_dump(mode="json", exclude_defaults=True) for each in envelope.proposals]
    return envelope.model_dump(mode="json") | {"proposals": proposals}


# --- in the parent ---


def lane_results(events: Iterable[e.Event], blobs: Mapping[str, Any]) -> Iterator[JsonObject]:
    """Yield the envelopes of the lanes that a run has started, in the order in which they ended."""
    for event in events:
        if isinstance(event, e.Complete) and event.lane:
            value = blobs.get(event.blob) if event.blob else event.value
            if (envelope := as_object(value)) is not None:
                yield envelope


def envelope_fields(value: Any) -> budget.Fields:
    """Return the fields of a lane's COMPLETE that follow from its envelope: its usage and its proposals."""
    envelope = as_object(value) or {}
    fields = budget.amounts_of_lane(LaneUse.model_validate(envelope.get("used") or {}))
    fields["lane"] = str(envelope.get("session_id", ""))
    proposals = as_list(envelope.get("proposals"))
    return {**fields, "proposals": tuple(proposals)} if proposals else fields


def extended_plan(plan: Plan, step_id: str, proposals: Sequence[JsonObject]) -> Plan:
    """Return the next revision of a plan, with the proposals of the lane that a step started at its end.

    Raises `PlanError` for proposals that no plan can hold.
    """
    given = [LaneProposal.model_validate(each) for each in proposals]
    ids = {each.id: f"{step_id}.p{number}" for number, each in enumerate(given, 1)}
    added = tuple(_as_step(each, step_id, ids) for each in given)
    try:
        return plan.revise(steps=(*plan.steps, *added))
    except ValidationError as error:
        raise PlanError([]) from error


def _as_step(proposal: LaneProposal, step_id: str, ids: dict[str, str]) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "id": ids[proposal.id],
        "tool": proposal.tool,
        "params": {key: _rename_references(value, ids) for key, value in proposal.params.items()},
        "depends_on": (step_id, *(ids[name] for name in proposal.depends_on)),
        "evidence_refs": proposal.evidence_refs,
        "approval_mode": None if proposal.approval_mode is None else str(proposal.approval_mode),
        "reversibility": None if proposal.reversibility is None else str(proposal.reversibility),
    }
    return {**fields, "gates": proposal.gates} if proposal.gates else fields


def _rename_references(value: Any, ids: dict[str, str]) -> Any:
    """Return a parameter with references to proposals renamed to the parent's step ids."""
    members = as_object(value)
    if members is not None:
        if references.LITERAL in members:
            return value
        reference = references.as_reference(members)
        if reference is None:
            return {key: _rename_references(each, ids) for key, each in members.items()}
        return {"$from": ids[reference.target] + reference.text[len(reference.target) :]}
    items = as_list(value)
    return value if items is None else [_rename_references(each, ids) for each in items]
