"""Folds of lanes: proposed steps, and proposals that become steps of the parent's plan.

Each function folds the event of its name.
"""

from __future__ import annotations

import msgspec
from pydantic import ValidationError

from tercet.contracts.errors import PlanError
from tercet.contracts.plan import Plan
from tercet.core import events as e
from tercet.core.fold.base import Changes, demand, illegal, step_of, with_step
from tercet.core.fold.step import freed
from tercet.core.plans import read_plan
from tercet.core.state import State, StepState

PROPOSED = "proposed"
"""Why a step of a lane is skipped: it is a proposal."""


def step_proposed(state: State, event: e.StepProposed) -> Changes:
    step = step_of(state, event.step, event)
    demand(state, event, is_met=bool(state.start.lane), why="it is not a lane")
    demand(state, event, is_met=step.status == "pending", why=f"step {event.step} is {step.status}")
    steps = with_step(state, event.step, status="skipped", error=PROPOSED)
    return {
        "steps": steps,
        "frontier": freed(state, event.step, steps),
        "proposals": (*state.proposals, event.proposal),
    }


def proposals_reviewed(state: State, event: e.ProposalsReviewed) -> Changes:
    demand(state, event, is_met=event.step in state.lane_proposals, why=f"{event.step} has proposed nothing")
    left = {name: each for name, each in state.lane_proposals.items() if name != event.step}
    if event.verdict.get("outcome") != "ok":
        return {"lane_proposals": left, "refused": (*state.refused, event.hash)}
    try:
        plan = read_plan(event.plan)
    except (ValidationError, PlanError) as error:
        raise illegal(state, event, f"its plan cannot be read: {error}") from error
    ids = [step.id for step in plan.steps]
    known = len(state.plan.get("steps", ()))
    is_longer = event.plan.get("steps", [])[:known] == state.plan.get("steps")
    demand(state, event, is_met=is_longer, why="it changes steps that were there before")
    steps = {**_waiting(state, plan, known), **_added(state, plan, known)}
    return {
        "plan": event.plan,
        "plan_hash": event.hash,
        "verdict": event.verdict,
        "steps": steps,
        "after": {ids[at]: tuple(ids[s] for s in after) for at, after in enumerate(plan.graph.successors)},
        "frontier": (
            *(name for name in state.frontier if steps[name].status != "pending" or not steps[name].unmet),
            *(name for name in ids[known:] if not steps[name].unmet),
        ),
        "needed": state.needed | plan.referenced | plan.referenced_by_compensations,
        "lane_proposals": left,
    }


def _waiting(state: State, plan: Plan, known: int) -> dict[str, StepState]:
    """Return the steps of the previous plan. Those that deliver its outputs also wait for the proposed steps."""
    steps = dict(state.steps)
    for index in plan.graph.takers:
        more = sum(place >= known for place in plan.graph.predecessors[index])
        if index < known and more:
            name = plan.steps[index].id
            steps[name] = msgspec.structs.replace(steps[name], unmet=steps[name].unmet + more)
    return steps


def _added(state: State, plan: Plan, known: int) -> dict[str, StepState]:
    """Return the steps that a lane proposed. None of them is approved by a policy."""
    added: dict[str, StepState] = {}
    for index in range(known, len(plan.steps)):
        before = (plan.steps[place].id for place in plan.graph.predecessors[index])
        open_ones = [
            name for name in before if name in added or state.steps[name].status not in ("done", "skipped")
        ]
        added[plan.steps[index].id] = StepState(unmet=len(open_ones), is_added=True)
    return added
