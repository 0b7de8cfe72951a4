"""From a task that was broken down to a plan: primitive tasks become steps, and order attaches to them alone.

Where one subtask comes after another, the first steps of the one wait for the last steps of the other, whatever the two
became. A task that became nothing hands on what it waited for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from tercet.contracts.errors import PlanError
from tercet.contracts.plan import MAX_STEPS, Plan
from tercet.contracts.tasks import Goal
from tercet.planner.binding import bind, express
from tercet.planner.htn import Node
from tercet.planner.placeholders import Placeholders, PlanningError
from tercet.policy.expressions import MAX_PLANNER_LENGTH

Ids = tuple[str, ...]


def lay_out(root: Node, goal: Goal, placeholders: Placeholders) -> Plan:
    """The plan of a goal whose task was broken down, with the placeholders in its evidence ids replaced."""
    network = _Network(root, placeholders)
    if len(network.placed) > MAX_STEPS:
        raise PlanningError(
            f"the task {root.task.name} comes to {len(network.placed):,} steps, over {MAX_STEPS:,}",
            code="too_many_tasks",
            remedy="split the goal",
        )
    document = {
        "intent": goal.intent,
        "steps": [network.step(node, before) for node, before in network.placed],
        "outputs": bind(
            placeholders.fill_ids(dict(goal.outputs)),
            {},
            {goal.task: network.result.get(root.site.id, root.site.id)},
        ),
        "declared_outputs": goal.declared_outputs,
    }
    if placeholders.untrusted_refs:
        document["untrusted_refs"] = sorted(placeholders.untrusted_refs)
    try:
        return Plan.model_validate(document)
    except (ValidationError, PlanError) as error:
        raise PlanningError(
            f"the methods for {goal.intent} make no plan: {_first(error)}",
            code="library_invalid",
            remedy="correct the task that this step came from",
        ) from error


def _first(error: ValidationError | PlanError) -> str:
    if isinstance(error, PlanError):
        return error.problems[0].line()
    detail = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{detail['msg']} at {'/'.join(map(str, detail['loc']))}"


class _Network:
    """The steps of a tree with what each waits for, and the step whose result is that of each abstract node."""

    def __init__(self, root: Node, placeholders: Placeholders) -> None:
        self._placeholders = placeholders
        self.placed: list[tuple[Node, Ids]] = []
        self.result: dict[str, str] = {}
        self._place(root, ())

    def _place(self, node: Node, before: Ids) -> Ids:
        """Places what a node became after these steps; the last steps of it."""
        if node.task.is_primitive:
            self.placed.append((node, before))
            return (node.site.id,)
        return _union([self._place_branch(node, position, before) for position in range(len(node.branches))])

    def _place_branch(self, node: Node, position: int, before: Ids) -> Ids:
        branch = node.branches[position]
        ends: list[Ids] = [()] * len(branch.children)
        for index in branch.way.order:
            waits = branch.way.before[index]
            needed = _union(ends[earlier] for earlier in waits) if waits else before
            ends[index] = self._place(branch.children[index], needed)
        for subtask, child in zip(branch.way.method.subtasks, branch.children, strict=True):
            if subtask.label == branch.way.method.result:
                self.result[node.site.id] = self.result.get(child.site.id, child.site.id)
        return _union(ends[index] for index in branch.way.last) if branch.children else before

    def step(self, node: Node, before: Ids) -> dict[str, Any]:
        """The step of a primitive node, as a plan writes it."""
        task, site, fill_ids = node.task, node.site, self._placeholders.fill_ids
        params = bind(bind(fill_ids(dict(task.params)), site.args, {}), {}, self.result)
        written: dict[str, Any] = {**task.step_fields, "id": site.id, "params": params, "depends_on": before}
        if task.evidence_refs:
            written["evidence_refs"] = self._placeholders.fill_refs(task.evidence_refs)
        if site.guards:
            written["when"] = self._condition(node)
        if task.compensate is not None:
            way_back = bind(fill_ids(dict(task.compensate.params)), site.args, {})
            written["compensate"] = {"tool": task.compensate.tool, "params": bind(way_back, {}, self.result)}
        return written

    def _condition(self, node: Node) -> str:
        guards = node.site.guards
        together = guards[0] if len(guards) == 1 else " && ".join(f"({guard})" for guard in guards)
        text = express(together, {}, self.result)
        if len(text) > MAX_PLANNER_LENGTH:
            raise PlanningError(
                f"the conditions around the task {node.task.name} come to {len(text):,} characters, "
                f"over {MAX_PLANNER_LENGTH:,}",
                code="branch_depth",
                remedy="decide less at run time, or let a tool judge and look at its result",
            )
        return text


def _union(parts: Iterable[Ids]) -> Ids:
    found = list(parts)
    return found[0] if len(found) == 1 else tuple(dict.fromkeys(name for part in found for name in part))
