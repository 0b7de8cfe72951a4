"""What a plan delivers: references to the outputs of the run, and outputs that come too late for it.

Outputs are judged when every step has ended that takes none of them, so nothing that they are made of may wait for a step
that does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from tercet.contracts.plan import Plan, Step
from tercet.contracts.values import references
from tercet.contracts.values.references import OUTPUTS, Found, Place, Reference


class UnknownOutput(NamedTuple):
    """A reference to an output that a run does not have."""

    step: int
    place: Place
    """Where it stands in the step."""
    name: str
    """Empty where the reference names no output."""


class LateOutput(NamedTuple):
    """An output, or something to remember, that comes from a step which runs after outputs are accepted."""

    place: Place
    """Where it stands in the plan."""
    step: str
    """Empty where it comes from the outputs themselves."""


def find_unknown_outputs(plan: Plan, required: Collection[str]) -> Iterator[UnknownOutput]:
    """Yield the references to outputs that neither the plan declares nor its decision requires or renders."""
    known = {*plan.output_names, *required}
    for index in sorted(plan.graph.delivery):
        for place, item in _held(plan.steps[index]):
            for read in references.reads_of(item):
                name = str(read.place[0]) if read.place else ""
                if read.name == OUTPUTS and name not in known:
                    yield UnknownOutput(index, place, name)


def _held(step: Step) -> Iterator[tuple[Place, Reference]]:
    """The references of a step, with their places in it."""
    parts: list[tuple[Place, list[Found]]] = [(("params",), step.found)]
    if step.when is not None:
        parts.append((("when",), [references.parse("cel", step.when)]))
    if step.compensate is not None:
        parts.append((("compensate", "params"), references.scan(step.compensate.params)))
    for place, found in parts:
        yield from (((*place, *item.place), item) for item in found if type(item) is Reference)


def find_late_outputs(plan: Plan) -> Iterator[LateOutput]:
    """Yield the outputs, and what is to be remembered, that wait for outputs to be accepted."""
    late = {plan.steps[index].id for index in plan.graph.delivery}
    for field, values in (("outputs", plan.outputs), ("memory", plan.memory)):
        for item in references.scan(values):
            if type(item) is not Reference:
                continue
            source = next((name for name in item.names if name in late), None)
            if source is not None or OUTPUTS in item.names:
                yield LateOutput((field, *item.place), source or "")
