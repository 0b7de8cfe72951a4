"""Steps that take outputs of the run: what they may refer to, and what must not depend on them.

Outputs are judged when every other step has ended, so nothing that they are made of may wait for a step that takes one.
"""

from __future__ import annotations

from collections.abc import Iterator

from tercet.contracts import pointer, references
from tercet.contracts.behaviour import Behaviour
from tercet.contracts.graph import MAX_TAKERS
from tercet.contracts.references import OUTPUTS, Place, Reference
from tercet.contracts.verdict import Code, Refusal
from tercet.critic.review import Refusals, Review


def may_take_outputs(review: Review) -> bool:
    """Whether the name `outputs` stands for the outputs of the run."""
    return review.ctx.goes_by(Behaviour.DELIVERY) and OUTPUTS not in review.position


def deliveries_are_possible(review: Review) -> Refusals:
    """Steps take outputs that the run has, and no output waits for such a step."""
    if not review.ctx.goes_by(Behaviour.DELIVERY):
        return
    if (index := review.position.get(OUTPUTS)) is not None:
        reason = f"step {index} has the id {OUTPUTS!r}, which stands for the outputs of the run"
        yield review.refuse(
            Code.UNRESOLVED_REFERENCE, reason, "give the step another id", step=index, place="/id"
        )
        return
    if len(review.graph.takers) > MAX_TAKERS:
        reason = f"{len(review.graph.takers)} steps take outputs, of {MAX_TAKERS} that may"
        yield review.refuse(Code.TOO_MANY_STEPS, reason, "let one step deliver to several recipients")
        return
    for index in sorted(review.graph.delivery):
        yield from _known_outputs(review, index)
    for index, step in enumerate(review.plan.steps):
        if step.compensate is not None and index not in review.graph.delivery:
            yield from _early_compensation(review, index, step.compensate.params)
    yield from _late_sources(review, "outputs", review.plan.outputs)
    yield from _late_sources(review, "memory", review.plan.memory)


def _known_outputs(review: Review, index: int) -> Refusals:
    """Refuse references to outputs that the run does not have."""
    known = {*review.plan.output_names, *review.spec.required_outputs}
    step = review.plan.steps[index]
    held = [(("params", *item.place), item) for item in step.found if type(item) is Reference]
    if index in review.conditions:
        held.append((("when",), review.conditions[index]))
    for item in references.scan(step.compensate.params) if step.compensate else ():
        if type(item) is Reference:
            held.append((("compensate", "params", *item.place), item))
    for place, item in held:
        for read in references.reads_of(item):
            name = read.place[0] if read.place else None
            if read.name == OUTPUTS and name not in known:
                has = "nothing is named" if name is None else f"there is no output {name!r}"
                names = ", ".join(sorted(known)) or "none"
                yield review.refuse(
                    Code.UNRESOLVED_REFERENCE,
                    f"step {index} refers to the outputs of the run, but {has}",
                    f"refer to one of them as {OUTPUTS}#/NAME ({names}), or declare it",
                    step=index,
                    place=pointer.join(place),
                )


def _early_compensation(review: Review, index: int, params: object) -> Refusals:
    """Refuse a compensation that takes an output although its step runs before there is one."""
    for item in _taking(params):
        yield review.refuse(
            Code.UNRESOLVED_REFERENCE,
            f"the compensation of step {index} takes an output, and the step runs before outputs are accepted",
            "only a step that takes an output itself, or waits for such a step, may be compensated with one",
            step=index,
            place=pointer.join(("compensate", "params", *item.place)),
        )


def _taking(value: object) -> Iterator[Reference]:
    found = references.scan(value)
    return (item for item in found if type(item) is Reference and OUTPUTS in item.names)


def _late_sources(review: Review, field: str, values: object) -> Iterator[Refusal]:
    """Refuse outputs, and what is to be remembered, that depend on a step which runs after outputs are accepted."""
    for item in references.scan(values):
        if type(item) is not Reference:
            continue
        late = next((name for name in item.names if review.position.get(name, -1) in review.graph.delivery), "")
        if not late and OUTPUTS not in item.names:
            continue
        where: Place = (field, *item.place)
        source = f"step {late}, which runs after outputs are accepted" if late else "the outputs themselves"
        yield review.refuse(
            Code.CYCLIC_DEPENDENCY,
            f"{pointer.join(where)} comes from {source}",
            "take it from a step that neither takes an output nor waits for one that does",
            step=review.position[late] if late else None,
            place="" if late else pointer.join(where),
        )
