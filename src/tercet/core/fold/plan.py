"""Folds of plans: a new plan, the steps it keeps from the previous one, its review, agent turns, and proposals of lanes.

Each function folds the event of its name.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import msgspec
from pydantic import ValidationError

from tercet.contracts.errors import PlanError
from tercet.contracts.loop import Phase
from tercet.contracts.plan import Plan
from tercet.contracts.runs.behaviour import Behaviour
from tercet.core import events as e
from tercet.core.budget import add
from tercet.core.fold.base import MODIFIED, Changes, changed, demand, illegal, step_of, with_step
from tercet.core.fold.session import ending, escalated
from tercet.core.fold.step import freed
from tercet.core.modifications import is_replaced
from tercet.core.plans import read_plan
from tercet.core.state import Change, EarlierStep, Learned, SetValue, State, StepState

P = Phase
PROPOSED = "proposed"
"""Why a step of a lane is skipped: it is a proposal."""


def plan_proposed(state: State, event: e.PlanProposed) -> State:
    try:
        plan = read_plan(event.plan)
    except (ValidationError, PlanError) as error:
        raise illegal(state, event, f"its plan cannot be read: {error}") from error
    demand(state, event, is_met=state.asking is None, why="a model is being asked")
    demand(state, event, is_met=not state.is_turn_open, why=f"turn {state.revision} has not been judged")
    order = plan.graph
    ids = [step.id for step in plan.steps]
    # Only an approver who sets values in a call changes a plan whose outputs are accepted, and they set nothing in these.
    accepted = None if state.change is None else state.accepted
    awaiting = frozenset(order.takers) if accepted is None else frozenset[int]()
    kept = _kept_steps(state, plan, event.plan)
    is_change = state.change is not None and not state.change.plan
    is_fitting = bool(event.changed_by) == is_change
    demand(state, event, is_met=is_fitting, why="a plan is changed only by an approver who set values in it")
    exposure = state.exposure or event.exposure
    added = frozenset(ids) if exposure else _added(state, event.plan)
    steps = {
        name: kept.get(name)
        or StepState(
            unmet=len([p for p in order.predecessors[index] if ids[p] not in kept]) + (index in awaiting),
            is_added=name in added,
        )
        for index, name in enumerate(ids)
    }
    change, set_values, steps = _apply_change(state, event.plan, steps)
    needed = frozenset(ids) if event.origin == "planner" else _referenced_steps(plan, state)
    return changed(
        state,
        phase=P.DECOMPOSE,
        plan=event.plan,
        plan_hash=event.hash,
        plan_origin=event.origin,
        exposure=exposure,
        revision=state.revision + 1,
        steps=steps,
        after={ids[index]: tuple([ids[s] for s in after]) for index, after in enumerate(order.successors)},
        frontier=tuple(name for name in ids if name not in kept and not steps[name].unmet),
        unjudged=(),
        gates={},
        approved={},
        entered={name: each for name, each in state.entered.items() if name in kept},
        change=change,
        changed=set_values,
        verdict={},
        replies=(),
        earlier=_earlier_calls(state, kept),
        accepted=accepted,
        proposals=tuple(each for each in state.proposals if each["id"] in kept),
        lane_proposals={name: each for name, each in state.lane_proposals.items() if name in kept},
        # A plan that may still be replaced keeps all results: what the next one refers to is not known yet.
        # So does one that an approver changed: if the critic refuses it, the plan before is followed again.
        needed=needed if change is None else needed | state.needed,
    )


def _apply_change(
    state: State, said: dict[str, Any], steps: dict[str, StepState]
) -> tuple[Change | None, tuple[SetValue, ...], dict[str, StepState]]:
    """Return the change that remains to be reviewed, the values that approvers have set in a new plan, and its steps.

    A value stays set as long as plans say its step in the same words. If the critic has refused a change, the plan before
    comes back, and the step remembers why.
    """
    change = state.change
    if change is None and not state.changed:
        return None, (), steps
    if change is None:
        before = {step["id"]: step for step in state.plan.get("steps", ())}
        same = {step["id"] for step in said.get("steps", ()) if before.get(step["id"]) == step}
        return None, tuple(each for each in state.changed if each.step in same), steps
    if change.refusal:
        reminded = msgspec.structs.replace(steps[change.step], refused_change=change.refusal)
        return change, change.changed, {**steps, change.step: reminded}
    places = [each.place for each in change.values]
    kept = (each for each in state.changed if each.step != change.step or not is_replaced(each, places))
    reviewed = msgspec.structs.replace(change, plan=state.plan, changed=state.changed)
    return reviewed, (*kept, *change.values), steps


def _kept_steps(state: State, plan: Plan, said: dict[str, Any]) -> dict[str, StepState]:
    """Return the successful steps that the new plan contains unchanged: they are not repeated.

    A step whose predecessors are not all kept is none of them: it ran on other results than it would have now.
    """
    kept: dict[str, StepState] = {}
    if not state.plan:
        return kept
    before = {step["id"]: step for step in state.plan.get("steps", ())}
    now = {step["id"]: step for step in said.get("steps", ())}
    for index in plan.graph.order:
        name = plan.steps[index].id
        is_same = name in before and before[name] == now[name]
        is_founded = all(plan.steps[p].id in kept for p in plan.graph.predecessors[index])
        if is_same and is_founded and state.steps[name].status in ("done", "skipped"):
            kept[name] = state.steps[name]
    return kept


def _earlier_calls(state: State, kept: Container[str]) -> tuple[EarlierStep, ...]:
    """Return the calls that the run has made, or may have made, and that are not steps of the new plan."""
    if not state.steps:
        return state.earlier
    places = {name: place for place, name in enumerate(state.done)}
    said = {step["id"]: step for step in state.plan.get("steps", ())}
    left = [
        EarlierStep(
            step=said[name], params=step.params, place=places[name] if step.status == "done" else None
        )
        for name, step in state.steps.items()
        if name not in kept and step.may_have_happened
    ]
    if not left:
        return state.earlier
    by_place = sorted((*state.earlier, *left), key=lambda each: (each.place is None, each.place or 0))
    return tuple(by_place)


def _added(state: State, said: dict[str, Any]) -> frozenset[str]:
    """Return the steps that a re-plan brings, or that one before it brought. The next turn of an agent is not a
    replan, unless the previous one was sent back."""
    if not state.plan or (state.is_stepwise and not _is_objected(state)):
        return frozenset()
    before = {step["id"]: step for step in state.plan.get("steps", ())}
    return frozenset(
        step["id"]
        for step in said.get("steps", ())
        if before.get(step["id"]) != step or state.steps[step["id"]].is_added
    )


def _is_objected(state: State) -> bool:
    """Return whether the last turn of an agent was sent back: by its critics, by the review, or by a person at a gate."""
    is_refused = state.verdict.get("outcome", "ok") != "ok"
    is_sent_back = any(step.code == MODIFIED for step in state.steps.values())
    return bool(state.feedback) or is_refused or is_sent_back


def _referenced_steps(plan: Plan, state: State) -> frozenset[str]:
    """Return the steps whose results something refers to: a delivered document may be rendered from any of them. Under
    earlier rules, compensations were resolved at the end.
    """
    if plan.graph.takers and Behaviour.OUTPUTS_VOUCHED_FOR in state.start.behaviour:
        return frozenset(step.id for step in plan.steps)
    if Behaviour.STRICT_CALLS not in state.start.behaviour:
        return plan.referenced
    return plan.referenced | plan.referenced_by_compensations


def planning_failed(state: State, event: e.PlanningFailed) -> State:
    demand(state, event, is_met=state.asking is None, why="a model is being asked")
    failed = changed(state, replies=(), change=None)
    match event.outcome:
        case "fail":
            return ending(failed, "failed", event.reason)
        case "replan":
            return changed(failed, feedback=(event.reason,), used=add(state.used, replans=1))
        case "escalate":
            return escalated(failed, P.PLAN, event.reason)


def decomposed(state: State, _: e.Decomposed) -> State:
    return changed(state, phase=P.RETRIEVE)


def evidence_retrieved(state: State, event: e.EvidenceRetrieved) -> State:
    facts = (*state.facts, event.facts) if event.facts else state.facts
    if not event.plan:
        return changed(state, phase=P.REVIEW, facts=facts)
    demand(state, event, is_met=state.plan_origin == "planner", why="a caller's plan is never changed")
    names = [step.get("id") for step in event.plan.get("steps", ())]
    demand(state, event, is_met=names == list(state.steps), why="it is about other steps")
    return changed(
        state,
        phase=P.REVIEW,
        plan=event.plan,
        plan_hash=event.hash,
        facts=facts,
        used=add(state.used, tool_calls=event.calls, cost=event.cost) if event.calls else state.used,
    )


def plan_reviewed(state: State, event: e.PlanReviewed) -> State:
    demand(state, event, is_met=event.hash == state.plan_hash, why="it reviews another plan")
    outcome = event.verdict.get("outcome", "")
    reasons = tuple(event.verdict.get("reasons", ()))
    demand(
        state,
        event,
        is_met=outcome in ("ok", "replan", "reject"),
        why=f"{outcome!r} is not an outcome of a review",
    )
    if outcome == "ok":
        # A rehearsal ends here: nothing is called, and there is nothing to score.
        phase = P.COMMIT if state.start.shadow else P.ACT
        return changed(state, phase=phase, verdict=event.verdict, change=None)
    if state.change is not None and not state.change.refusal:
        change = msgspec.structs.replace(state.change, refusal="; ".join(reasons))
        refused = (*state.refused, event.hash)
        return changed(state, phase=P.PLAN, verdict=event.verdict, refused=refused, change=change)
    refused = changed(
        state, verdict=event.verdict, refused=(*state.refused, event.hash), feedback=reasons, change=None
    )
    # Another plan would lose track of a call of unknown outcome, so such a run ends instead.
    is_known = not any(step.is_reserving for step in state.steps.values())
    if outcome == "replan" and is_known:
        blamed = event.verdict.get("step_id")
        setbacks = (*state.setbacks, (blamed,) if blamed else ())
        return changed(refused, phase=P.PLAN, setbacks=setbacks, used=add(state.used, replans=1))
    if event.escalates and is_known:
        return escalated(refused, P.PLAN, "; ".join(reasons))
    return ending(refused, "failed", "; ".join(reasons))


def turn_judged(state: State, event: e.TurnJudged) -> State:
    is_due = state.is_turn_open and event.turn == state.turns + 1
    demand(state, event, is_met=is_due, why=f"turn {event.turn} is not open")
    demand(state, event, is_met=not state.frontier or state.phase is P.PLAN, why="a step has not ended")
    turned = changed(state, turns=event.turn, learned=(*state.learned, *_learned_results(state, event)))
    match event.action:
        case "continue":
            return changed(turned, phase=P.PLAN, feedback=())
        case "retry":
            return changed(
                turned,
                phase=P.PLAN,
                feedback=(event.reason,),
                used=add(state.used, retries=1),
                repeats=_uncounted(state),
            )
        case "replan":
            return changed(turned, phase=P.PLAN, feedback=(event.reason,), used=add(state.used, replans=1))
        case "final":
            demand(state, event, is_met=state.phase is P.ACT, why="its decision was refused")
            return turned
        case "limit" | "end":
            return ending(turned, "failed", event.reason)
        case "stop" | "escalate":
            return escalated(turned, P.PLAN, event.reason)


def _uncounted(state: State) -> dict[str, int]:
    """Return the counts of the loop guard without the steps that a critic discards: those belong to the retry
    budget."""
    discarded = [step.same for step in state.steps.values() if step.same]
    repeats = dict(state.repeats)
    for same in discarded:
        repeats[same] -= 1
    return repeats


def _learned_results(state: State, event: e.TurnJudged) -> tuple[Learned, ...]:
    tools = {step["id"]: step.get("tool") for step in state.plan.get("steps", ())}
    return tuple(
        Learned(step=name, tool=tools[name], value=state.steps[name].value, blob=state.steps[name].blob)
        for name in event.trusted
        if tools.get(name) and state.steps[name].status == "done"
    )


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
    steps = {**_waiting(state, plan, known), **_proposed_steps(state, plan, known)}
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


def _proposed_steps(state: State, plan: Plan, known: int) -> dict[str, StepState]:
    """Return the steps that a lane proposed. None of them is approved by a policy."""
    added: dict[str, StepState] = {}
    for index in range(known, len(plan.steps)):
        before = (plan.steps[place].id for place in plan.graph.predecessors[index])
        open_ones = [
            name for name in before if name in added or state.steps[name].status not in ("done", "skipped")
        ]
        added[plan.steps[index].id] = StepState(unmet=len(open_ones), is_added=True)
    return added
