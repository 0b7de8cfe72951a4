"""What the steps of a plan presuppose: that somebody brings it about, and that nobody takes it away in between."""

from __future__ import annotations

from collections.abc import Callable

from tercet.contracts.conditions import Exposure, conditions_after, effects_in, exposures
from tercet.contracts.plan import Step
from tercet.contracts.verdict import Code, Refusal
from tercet.critic.review import Refusals, Review


def preconditions_are_met(review: Review) -> Refusals:
    """What a step presupposes holds at the start, or a step before it brings it about."""
    presupposed = {
        index: conditions
        for index, step in enumerate(review.plan.steps)
        if (
            conditions := (
                *step.preconditions,
                *(call.tool.preconditions if (call := review.call_at.get(index)) else ()),
            )
        )
    }
    if not presupposed:
        return
    before = _established_before(review, lambda _: True)
    certain = before
    if review.is_strict and any(step.optional or step.when is not None for step in review.plan.steps):
        certain = _established_before(review, lambda step: not step.optional and step.when is None)
    for index, conditions in presupposed.items():
        for condition in conditions:
            if condition in before[index]:
                if condition not in certain[index]:
                    review.deferred.append(f"precondition {condition} at step {index}")
            else:
                yield review.refuse(
                    Code.UNMET_PRECONDITION,
                    f"{review.label(index)} presupposes {condition}, which nothing before it establishes",
                    _establish(review, condition),
                    step=index,
                    place="/preconditions",
                )


def _established_before(review: Review, counts: Callable[[Step], bool]) -> dict[int, frozenset[str]]:
    """Return, for each step, the conditions that hold at the start or that a step before it which counts establishes."""
    graph, at_start = review.graph, start_conditions(review)
    before: dict[int, frozenset[str]] = {}
    after: dict[int, frozenset[str]] = {}
    for index in graph.order:
        held = at_start
        for predecessor in graph.predecessors[index]:
            held |= after[predecessor]
        call = review.call_at.get(index)
        new = call.tool.establishes if call is not None and counts(call.step) else ()
        before[index], after[index] = held, held.union(new) if new else held
    return before


def start_conditions(review: Review) -> frozenset[str]:
    """Return the conditions that hold when the plan starts: those of the decision, changed by what the run did before."""
    surface = review.compiled.surface
    earlier = ((surface.get(made.step.tool or ""), made.place is not None) for made in review.ctx.earlier)
    return conditions_after(review.spec.conditions, earlier)


def _establish(review: Review, condition: str) -> str:
    able = [tool.name for tool in review.compiled.surface.values() if condition in tool.establishes]
    if able:
        return f"reorder, or add a step before it that calls {' or '.join(able[:3])}"
    return "no tool of this run establishes it: hand the case to a person"


def conditions_are_kept(review: Review) -> Refusals:
    """What a step presupposes still holds when it begins, in whatever order the plan may be carried out."""
    if not any(call.tool.revokes for call in review.calls):
        return
    effects = effects_in(review.plan, review.compiled.surface)
    for exposure in exposures(review.graph, effects, start_conditions(review)):
        yield _threatened(review, exposure)


def _threatened(review: Review, exposure: Exposure) -> Refusal:
    threat, condition, producer, consumer = exposure
    source, where = (
        ("holds at the start", "before it")
        if producer is None
        else (f"step {producer} establishes", "between the two")
    )
    return review.refuse(
        Code.THREATENED_CONDITION,
        f"step {threat} revokes {condition}, which {source} and step {consumer} presupposes, and may come {where}",
        _part(review, exposure),
        step=threat,
        place="/depends_on",
    )


def _part(review: Review, exposure: Exposure) -> str:
    """The orders that would keep a threat away."""
    threat, condition, producer, consumer = exposure
    name, user = review.plan.steps[threat].id, review.plan.steps[consumer].id
    ways: list[str] = []
    if threat not in review.graph.ancestors(consumer):
        ways.append(f"add depends_on {user} to {name}")
    if producer is not None and producer not in review.graph.ancestors(threat):
        ways.append(f"add depends_on {name} to {review.plan.steps[producer].id}")
    if ways:
        return " or ".join(ways)
    able = [tool.name for tool in review.compiled.surface.values() if condition in tool.establishes]
    again = f"let {user} wait for a step after {name} that calls {' or '.join(able[:3])}" if able else ""
    return " or ".join(filter(None, [f"do not let {user} wait for {name}", again]))
