"""Proposing a plan for a goal, and another one after a setback.

A setback names the steps that failed or were refused. The method that brought such a step into the plan is given up:
the next one of its task takes its place, or, where none is left, the next one of the task above. All other choices
stand, and tasks that are the same become the same steps, under the same ids and in the same words; so what was done
need not be done again. A setback that names no step is one of the whole plan: its last choice gives way.

What was tried is not remembered anywhere: it follows from the setbacks, so a planner that was started anew goes on
where another one was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tercet.contracts.plan import Plan
from tercet.contracts.tasks import Goal
from tercet.planner.binding import bind
from tercet.planner.htn import Decomposition, Node, Site, Tried, leaves
from tercet.planner.knowledge import Case, Knowledge
from tercet.planner.partial_order import lay_out
from tercet.planner.sources import PlanningError

Setback = tuple[str, ...]
"""The ids of the steps that a plan was given up for; empty if it was for the plan as a whole."""


@dataclass(frozen=True, kw_only=True)
class _Draft:
    """A plan, the tree that it came from, and what was given up on the way to it."""

    tree: Node
    plan: Plan
    tried: Tried


def propose(knowledge: Knowledge, goal: Goal, case: Case, setbacks: Sequence[Setback] = ()) -> Plan:
    """The plan for a goal after these setbacks; raises `PlanningError` if there is none, or none any more."""
    draft = _drawn(knowledge, goal, case, {})
    if isinstance(draft, PlanningError):
        raise draft
    seen = {draft.plan.hash}
    for setback in setbacks:
        blamed = set(setback)
        if blamed and not any(step.id in blamed for step in draft.plan.steps):
            continue  # it was about another plan: the pack or the evidence has changed since
        draft = _after(knowledge, goal, case, draft, blamed)
        while draft.plan.hash in seen:  # two methods that come to the same
            draft = _after(knowledge, goal, case, draft, blamed)
        seen.add(draft.plan.hash)
    return draft.plan


def _drawn(knowledge: Knowledge, goal: Goal, case: Case, tried: Tried) -> _Draft | PlanningError:
    site = Site(task=goal.task, args=bind(case.placeholders.fill_ids(dict(goal.args)), {}, {}))
    tree = Decomposition(knowledge, case, tried).expand(site)
    if isinstance(tree, PlanningError):
        return tree
    return _Draft(tree=tree, plan=lay_out(tree, goal, case.placeholders), tried=tried)


def _after(knowledge: Knowledge, goal: Goal, case: Case, draft: _Draft, blamed: set[str]) -> _Draft:
    """The next draft once the part that holds the blamed steps was given up."""
    found: _Draft | PlanningError | None = None
    for key, method in _suspects(draft.tree, blamed):
        tried = {**draft.tried, key: draft.tried.get(key, frozenset()) | {method}}
        found = _drawn(knowledge, goal, case, tried)
        if isinstance(found, _Draft):
            return found
    raise found or PlanningError(
        f"the goal {goal.intent} is one task that can be done in one way, and that was tried",
        code="no_alternative_left",
        remedy="make it an abstract task with more than one method, or hand the case to a person",
    )


def _suspects(tree: Node, blamed: set[str]) -> Iterator[tuple[str, str]]:
    """The choices to give up, one after the other until another plan comes of it."""
    found = [(leaf.site.id, above.site.key, method) for leaf, above, method in leaves(tree)]
    named = [(key, method) for step, key, method in found if step in blamed]
    yield from named[:1] or dict.fromkeys((key, method) for _, key, method in reversed(found))
