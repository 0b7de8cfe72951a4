"""Planning again only what was refused or failed: what of a plan stays, and how the rest takes its place.

What is done stays, since its effects do. Where a setback names steps, those and everything behind them are given up, and
the others stay in the same words, so that the run goes on with them. Where it names none, only what is done stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tercet.contracts import references
from tercet.contracts.plan import Plan, Step
from tercet.contracts.references import RESERVED_IDS, Reference
from tercet.planner.assignment import Assignment


def find_kept(plan: Plan, ended: Collection[str], blamed: Collection[str]) -> tuple[str, ...]:
    """The steps of a plan that stay, once some were blamed; `ended` are those that were done, or rightly skipped."""
    gone = _behind(plan, blamed) if blamed else {step.id for step in plan.steps}
    return tuple(step.id for step in plan.steps if step.id in ended or step.id not in gone)


def find_kept_outputs(plan: Plan, kept: Collection[str]) -> tuple[str, ...]:
    """The outputs that come from nothing but what stays."""
    return tuple(name for name, value in plan.outputs.items() if _named([value]) <= {*kept})


def merge(assignment: Assignment, part: Plan) -> Plan:
    """The plan that a part comes to, together with what stays: a revision of the one before, if there was one."""
    before, request = assignment.before, assignment.compiled.request
    if before is None:
        return part.model_copy(update={"intent": request.intent if request else None})
    kept = [step for step in before.steps if step.id in assignment.kept]
    steps = (*kept, *_joined(assignment, before, part.steps))
    outputs = {name: before.outputs[name] for name in assignment.outputs_kept}
    return before.revise(
        steps=steps,
        outputs={**outputs, **part.outputs},
        declared_outputs=tuple(name for name in part.declared_outputs if name not in outputs),
        decision_checkpoints=(
            *(point for point in before.decision_checkpoints if point.after_step in assignment.kept),
            *part.decision_checkpoints,
        ),
    )


def _behind(plan: Plan, blamed: Collection[str]) -> set[str]:
    """These steps, and all that wait for them."""
    position = {step.id: index for index, step in enumerate(plan.steps)}
    stack = [position[name] for name in blamed if name in position]
    found = {*stack}
    while stack:
        for after in plan.graph.successors[stack.pop()]:
            if after not in found:
                found.add(after)
                stack.append(after)
    return {plan.steps[index].id for index in found}


def _joined(assignment: Assignment, before: Plan, steps: tuple[Step, ...]) -> Iterable[Step]:
    """The new steps; the first of them waits for what the steps that it takes the place of had waited for."""
    if not steps or "depends_on" in steps[0].model_fields_set:
        return steps
    gone = [index for index, step in enumerate(before.steps) if step.id not in assignment.kept]
    waited = {before.steps[p].id for index in gone for p in before.graph.predecessors[index]}
    needed = tuple(name for name in assignment.kept if name in waited)
    return (steps[0].model_copy(update={"depends_on": needed}), *steps[1:]) if needed else steps


def _named(values: list[object]) -> set[str]:
    found = references.scan(values)
    names = {name for item in found if isinstance(item, Reference) for name in item.names}
    return names - RESERVED_IDS
