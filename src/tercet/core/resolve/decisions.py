"""Decision checkpoints: the decisions that a plan takes on the way, each after one of its steps."""

from __future__ import annotations

from collections.abc import Iterator

from tercet.contracts.loop import Phase
from tercet.contracts.runs.behaviour import Behaviour
from tercet.core import events as e
from tercet.core.config import RunConfig
from tercet.core.run import Run
from tercet.core.state import State
from tercet.critic.checks.feasibility import find_decision, missing_evidence


def take_decisions(run: Run, name: str, at: int, otherwise: str) -> tuple[e.DecisionTaken, ...]:
    """Return the decisions that the plan takes after a completed step.

    A decision rests on the evidence that the step and those before it pinned, as far as they ran and it has not
    expired. Where a class that the decision requires is missing, its outcome is `otherwise`.
    """
    return tuple(_taken(run, name, at, otherwise)) if _is_due(run.state, run.config) else ()


def _is_due(state: State, config: RunConfig) -> bool:
    return state.phase is Phase.ACT and config.ctx.goes_by(Behaviour.DECISIONS_TAKEN)


def _taken(run: Run, name: str, at: int, otherwise: str) -> Iterator[e.DecisionTaken]:
    plan, config = run.followed.plan, run.config
    points = [point for point in plan.decision_checkpoints if point.after_step == name]
    if not points:
        return
    review = config.review(plan)
    step = review.position[name]
    ran = [
        index
        for index in (*sorted(review.graph.ancestors(step)), step)
        if run.state.steps[plan.steps[index].id].status == "done"
    ]
    pinned = dict.fromkeys(ref for index in ran for ref in review.pinned[index])
    refs = tuple(ref for ref in pinned if config.expiry.get(ref, at + 1) > at)
    for point in points:
        decision = find_decision(review, point)
        missing = () if decision is None else missing_evidence(review, decision, refs)
        yield e.DecisionTaken(
            at=at,
            decision=point.decision_id,
            step=name,
            outcome=otherwise if missing else "accept",
            evidence=refs,
            reason=f"evidence is missing or has expired: {', '.join(missing)}" if missing else "",
        )
