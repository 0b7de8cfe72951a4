"""Steps that may not run, and the plans that a plan may turn out to be.

A step is uncertain until it has completed if it is optional, if its `when` is not decided yet, if it refers to a step that
may not run, or if such a step before it establishes a condition that it needs. A step that only waits for another by `depends_on`
runs whether or not that one does. Any other step counts as certain: if it fails, so does its plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

from tercet.contracts.conditions import effects_in
from tercet.contracts.graph import referenced_steps
from tercet.contracts.plan import Plan
from tercet.contracts.tool import ToolSpec

MAX_COMBINED = 4
"""With up to this many uncertain steps every combination of them is tried; with more, all of them and none."""


def find_uncertain(
    plan: Plan,
    surface: Mapping[str, ToolSpec],
    *,
    completed: frozenset[str] = frozenset(),
    chosen: frozenset[str] = frozenset(),
    left_out: frozenset[str] = frozenset(),
) -> frozenset[str]:
    """Return the ids of the steps that may not run.

    `completed` are the steps whose calls have happened, `chosen` those whose `when` is known to be true, and `left_out`
    those that will not run.
    """
    if not left_out and not any(step.optional or step.when is not None for step in plan.steps):
        return frozenset()
    effects = effects_in(plan, surface)
    found: set[str] = set()
    missing = set(left_out)
    for position in plan.graph.order:
        step = plan.steps[position]
        if step.id in completed or step.id in left_out:
            continue
        is_open = step.optional or (step.when is not None and step.id not in chosen)
        if (
            is_open
            or not missing.isdisjoint(referenced_steps(step))
            or any(
                plan.steps[before].id in missing
                and not effects[before].establishes.isdisjoint(effects[position].needs)
                for before in (plan.graph.ancestors(position) if effects[position].needs else ())
            )
        ):
            found.add(step.id)
            missing.add(step.id)
    return frozenset(found)


def possible_absences(plan: Plan, uncertain: frozenset[int]) -> Iterator[frozenset[int]]:
    """Yield the sets of steps, by position, that may turn out not to run; smaller ones first, and never the empty one.

    A step never runs without one that it refers to. Beyond `MAX_COMBINED` steps only the set of all of them is returned.
    """
    if len(uncertain) > MAX_COMBINED:
        yield uncertain
        return
    position = {plan.steps[index].id: index for index in uncertain}
    needs = {
        index: {position[name] for name in referenced_steps(plan.steps[index]) if name in position}
        for index in uncertain
    }
    for size in range(1, len(uncertain) + 1):
        for chosen in combinations(sorted(uncertain), size):
            absent = frozenset(chosen)
            if all(needs[index].isdisjoint(absent) for index in uncertain - absent):
                yield absent
