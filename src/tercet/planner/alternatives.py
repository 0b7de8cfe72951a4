"""Proposes a plan for a goal, and another one after a setback.

A setback names the steps that failed or were refused. The method that produced such a step is abandoned: the next
method of its task replaces it, or, if none is left, the next one of the parent task. All other choices remain, and
equal tasks become equal steps with the same ids; so completed work need not be repeated. A setback that names no step
concerns the whole plan: its last choice is abandoned.

No state is kept: everything that was tried follows from the setbacks, so a restarted planner continues where another
one stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tercet.contracts.plan import Plan
from tercet.contracts.tasks import Goal
from tercet.planner.htn import Decomposition, Node, Site, Tried, leaves
from tercet.planner.knowledge import Case, Knowledge
from tercet.planner.partial_order import lay_out
from tercet.planner.sources import PlanningError
from tercet.planner.template import bind

Setback = tuple[str, ...]
"""The ids of the steps for which a plan was abandoned; empty for the plan as a whole."""


@dataclass(frozen=True, kw_only=True)
class _Draft:
    """A plan, the tree that it came from, and the choices abandoned on the way to it."""

    tree: Node
    plan: Plan
    tried: Tried


def propose(knowledge: Knowledge, goal: Goal, case: Case, setbacks: Sequence[Setback] = ()) -> Plan:
    """Return the plan for a goal after these setbacks; raise `PlanningError` if there is none, or none is left."""
    draft = _drawn(knowledge, goal, case, {})
    if isinstance(draft, PlanningError):
        raise draft
    seen = {draft.plan.hash}
    for setback in setbacks:
        blamed = set(setback)
        if blamed and not any(step.id in blamed for step in draft.plan.steps):
            continue  # the setback is about another plan: the pack or the evidence has changed since
        draft = _after_setback(knowledge, goal, case, draft, blamed)
        while draft.plan.hash in seen:  # two methods with the same result
            draft = _after_setback(knowledge, goal, case, draft, blamed)
        seen.add(draft.plan.hash)
    return draft.plan


def _drawn(knowledge: Knowledge, goal: Goal, case: Case, tried: Tried) -> _Draft | PlanningError:
    site = Site(task=goal.task, args=bind(case.placeholders.fill_ids(dict(goal.args)), {}, {}))
    tree = Decomposition(knowledge, case, tried).expand(site)
    if isinstance(tree, PlanningError):
        return tree
    return _Draft(tree=tree, plan=lay_out(tree, goal, case.placeholders), tried=tried)


def _after_setback(knowledge: Knowledge, goal: Goal, case: Case, draft: _Draft, blamed: set[str]) -> _Draft:
    """Return the next draft after abandoning the part with the blamed steps."""
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
    """Yield the choices to abandon, one after the other until another plan results."""
    found = [(leaf.site.id, above.site.key, method) for leaf, above, method in leaves(tree)]
    named = [(key, method) for step, key, method in found if step in blamed]
    yield from named[:1] or dict.fromkeys((key, method) for _, key, method in reversed(found))
