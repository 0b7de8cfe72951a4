"""Checks steps that take outputs of the run: what they may refer to, and what must not depend on them."""

from __future__ import annotations

from tercet.contracts.plan import find_late_outputs, find_unknown_outputs
from tercet.contracts.runs.behaviour import Behaviour
from tercet.contracts.steps.graph import MAX_TAKERS
from tercet.contracts.values import pointer, references
from tercet.contracts.values.references import OUTPUTS, Reference
from tercet.contracts.verdict import Code
from tercet.critic.review import Refusals, Review


def may_take_outputs(review: Review) -> bool:
    """Return whether the name `outputs` refers to the outputs of the run."""
    return review.ctx.goes_by(Behaviour.DELIVERY) and OUTPUTS not in review.position


def deliveries_are_possible(review: Review) -> Refusals:
    """Steps take only outputs that the run has, and no output depends on such a step."""
    graph = review.graph
    if not review.ctx.goes_by(Behaviour.DELIVERY):
        return
    if (index := review.position.get(OUTPUTS)) is not None:
        reason = f"step {index} has the id {OUTPUTS!r}, which stands for the outputs of the run"
        remedy = "give the step another id"
        yield review.refuse(Code.UNRESOLVED_REFERENCE, reason, remedy, step=index, place="/id")
    elif len(graph.takers) > MAX_TAKERS:
        reason = f"{len(graph.takers)} steps take outputs, and at most {MAX_TAKERS} may"
        remedy = "let one step deliver to several recipients"
        yield review.refuse(Code.TOO_MANY_STEPS, reason, remedy, place="/steps")
    else:
        yield from _unknown_outputs(review)
        yield from _early_compensations(review)
        yield from _late_outputs(review)


def _unknown_outputs(review: Review) -> Refusals:
    required = {*review.spec.required_outputs, *review.spec.rendered_outputs}
    names = ", ".join(sorted({*review.plan.output_names, *required})) or "none"
    for found in find_unknown_outputs(review.plan, required):
        lacks = f"there is no output {found.name!r}" if found.name else "it names none of them"
        yield review.refuse(
            Code.UNRESOLVED_REFERENCE,
            f"step {found.step} refers to the outputs of the run, but {lacks}",
            f"refer to one of them as {OUTPUTS}#/NAME ({names}), or declare it",
            step=found.step,
            place=pointer.join(found.place),
        )


def _early_compensations(review: Review) -> Refusals:
    """Refuse a compensation that takes an output although its step runs before there is one."""
    for index, step in enumerate(review.plan.steps):
        if step.compensate is None or index in review.graph.delivery:
            continue
        for item in references.scan(step.compensate.params):
            if type(item) is Reference and OUTPUTS in item.names:
                yield review.refuse(
                    Code.UNRESOLVED_REFERENCE,
                    f"the compensation of step {index} takes an output, and the step runs before there is one",
                    "take an output only to compensate a step that takes one, or that waits for such a step",
                    step=index,
                    place=pointer.join(("compensate", "params", *item.place)),
                )


def _late_outputs(review: Review) -> Refusals:
    for found in find_late_outputs(review.plan):
        place = pointer.join(found.place)
        source = f"step {found.step}, which waits for accepted outputs" if found.step else "the outputs"
        yield review.refuse(
            Code.CYCLIC_DEPENDENCY,
            f"{place} comes from {source}",
            "take it from a step that neither takes an output nor waits for a step that does",
            place=place,
        )
