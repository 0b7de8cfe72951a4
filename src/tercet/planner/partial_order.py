"""Partial-order plans: causal links, threats to them, and the orderings that resolve a threat.

A *causal link* says that one step establishes a condition that another needs. A step that revokes the condition is a
*threat* to the link if it could run between the two. It is resolved by running the threat before the step that
establishes the condition (demotion), or after the one that needs it (promotion). A condition that holds from the start
has no establishing step, so its threats can only be promoted.

Threats with one possible resolution are resolved first; then one resolution of another threat is tried, with
backtracking if a threat is left without any. The search is bounded; unresolved threats are reported.

This module also turns a decomposed task into a plan: primitive tasks become steps, and only they are ordered. If one
subtask comes after another, the first steps of the one wait for the last steps of the other. A task without steps
passes on what it waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import ValidationError

from tercet.contracts.errors import PlanError
from tercet.contracts.plan import MAX_STEPS, Plan, Step
from tercet.contracts.steps.conditions import effects_in
from tercet.contracts.tasks import Goal
from tercet.contracts.tool import ToolSpec
from tercet.planner.htn import Node
from tercet.planner.sources import Placeholders, PlanningError
from tercet.planner.template import bind, express
from tercet.policy.expressions import MAX_PLANNER_LENGTH

MAX_TRIES = 10_000
"""The maximum number of partial orders tried for one plan."""


class Link(NamedTuple):
    """A condition that a step establishes for another; `producer` is None if it holds from the start."""

    producer: str | None
    condition: str
    consumer: str


class Threat(NamedTuple):
    """A step that could run between the two steps of a link, and revokes its condition."""

    step: str
    link: Link


class Ordering(NamedTuple):
    """One step before another, and why."""

    before: str
    after: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Arrangement:
    """A plan with the orderings that its conditions need, and what could not be resolved."""

    plan: Plan
    links: tuple[Link, ...] = ()
    added: tuple[Ordering, ...] = ()
    unresolved: tuple[Threat, ...] = ()
    open: tuple[tuple[str, str], ...] = ()
    """Steps with a condition that neither holds from the start nor is established by a step that could come before."""


def arrange(plan: Plan, surface: Mapping[str, ToolSpec], held: frozenset[str] = frozenset()) -> Arrangement:
    """Return the plan with its causal links as orderings, and their threats resolved where possible."""
    if not plan.graph.is_acyclic or not _presupposes(plan, surface):
        return Arrangement(plan=plan)
    return _Arranging(plan, surface, held).arranged()


def _presupposes(plan: Plan, surface: Mapping[str, ToolSpec]) -> bool:
    demanding = {name for name, tool in surface.items() if tool.preconditions}
    return any(step.preconditions or step.tool in demanding for step in plan.steps)


class _Link(NamedTuple):
    producer: int | None
    condition: str
    consumer: int


class _Threat(NamedTuple):
    step: int
    link: _Link


class _Edge(NamedTuple):
    first: int
    second: int
    why: str


class _Order:
    """The partial order as one bit mask per step, and the edges added to the plan's own."""

    def __init__(self, before: list[int], added: list[_Edge]) -> None:
        self.before = before
        self.added = added

    @classmethod
    def of(cls, plan: Plan) -> _Order:
        before = [0] * len(plan.steps)
        for index in plan.graph.order:
            for earlier in plan.graph.predecessors[index]:
                before[index] |= before[earlier] | 1 << earlier
        return cls(before, [])

    def copy(self) -> _Order:
        return _Order(list(self.before), list(self.added))

    def has(self, first: int, second: int) -> bool:
        """Return whether the first comes before the second."""
        return bool(self.before[second] >> first & 1)

    def put(self, edge: _Edge) -> None:
        """Put one step before another that does not come before it."""
        self.added.append(edge)
        more = self.before[edge.first] | 1 << edge.first
        for index, before in enumerate(self.before):
            if index == edge.second or before >> edge.second & 1:
                self.before[index] |= more

    def latest(self, steps: list[int]) -> int:
        """Return the first of these that none of the others comes after."""
        return next(step for step in steps if not any(self.has(step, other) for other in steps))


class _Arranging:
    """The computation for one plan."""

    def __init__(self, plan: Plan, surface: Mapping[str, ToolSpec], held: frozenset[str]) -> None:
        self._plan = plan
        self._held = held
        self._ids = [step.id for step in plan.steps]
        self._effects = effects_in(plan, surface)
        self._order = _Order.of(plan)
        self._links: list[_Link] = []
        self._open: list[tuple[str, str]] = []

    def arranged(self) -> Arrangement:
        """Return the complete result."""
        for index in self._plan.graph.order:
            for condition in self._effects[index].needs:
                self._link(index, condition)
        threats = self._threats()
        resolved = _resolve(self._order, threats)
        order = resolved or self._order
        unresolved = () if resolved else tuple(t for t in threats if _ways_out(order, t) is not None)
        return Arrangement(
            plan=self._reordered(order.added),
            links=tuple(map(self._named, self._links)),
            added=tuple(Ordering(self._ids[e.first], self._ids[e.second], e.why) for e in order.added),
            unresolved=tuple(Threat(self._ids[t.step], self._named(t.link)) for t in unresolved),
            open=tuple(self._open),
        )

    def _link(self, consumer: int, condition: str) -> None:
        """Find the step that establishes a condition: the last of those before, the start, or one that could come
        before.
        """
        able = [i for i, e in enumerate(self._effects) if condition in e.establishes and i != consumer]
        earlier = [index for index in able if self._order.has(index, consumer)]
        if earlier:
            self._links.append(_Link(self._order.latest(earlier), condition, consumer))
        elif condition in self._held:
            self._links.append(_Link(None, condition, consumer))
        elif possible := [index for index in able if not self._order.has(consumer, index)]:
            self._links.append(_Link(possible[0], condition, consumer))
            self._order.put(_Edge(possible[0], consumer, f"it brings about {condition}"))
        else:
            self._open.append((self._ids[consumer], condition))

    def _threats(self) -> list[_Threat]:
        return [
            _Threat(step, link)
            for link in self._links
            for step, effects in enumerate(self._effects)
            if link.condition in effects.revokes and step not in (link.producer, link.consumer)
        ]

    def _named(self, link: _Link) -> Link:
        producer = None if link.producer is None else self._ids[link.producer]
        return Link(producer, link.condition, self._ids[link.consumer])

    def _reordered(self, added: list[_Edge]) -> Plan:
        if not added:
            return self._plan
        more: dict[int, list[str]] = {}
        for edge in added:
            more.setdefault(edge.second, []).append(self._ids[edge.first])
        steps = [
            step if index not in more else _after(step, more[index])
            for index, step in enumerate(self._plan.steps)
        ]
        return self._plan.model_copy(update={"steps": tuple(steps)})


def _resolve(start: _Order, threats: list[_Threat]) -> _Order | None:
    """Return an order that resolves all threats; None if there is none, or none was found within the limit."""
    stack = [(start.copy(), threats)]
    for _ in range(MAX_TRIES):
        if not stack:
            break
        order, pending = stack.pop()
        left = _settle(order, pending)
        if left is None:
            continue
        if not left:
            return order
        for way in reversed(_ways_out(order, left[0]) or []):  # last in, first out
            other = order.copy()
            other.put(way)
            stack.append((other, left[1:]))
    return None


def _settle(order: _Order, pending: list[_Threat]) -> list[_Threat] | None:
    """Resolve every threat with only one resolution; return the others, or None if one has no resolution."""
    is_settled = False
    while not is_settled:
        is_settled = True
        left: list[_Threat] = []
        for threat in pending:
            ways = _ways_out(order, threat)
            if ways is None:
                continue
            if not ways:
                return None
            if len(ways) == 1:
                order.put(ways[0])
                is_settled = False
            else:
                left.append(threat)
        pending = left
    return pending


def _ways_out(order: _Order, threat: _Threat) -> list[_Edge] | None:
    """Return the orderings that would resolve a threat; None if it is not a threat."""
    step, (producer, condition, consumer) = threat
    if order.has(consumer, step) or (producer is not None and order.has(step, producer)):
        return None
    ways: list[_Edge] = []
    if not order.has(step, consumer):  # promotion
        ways.append(_Edge(consumer, step, f"it needs {condition}, which is revoked"))
    if producer is not None and not order.has(producer, step):  # demotion
        ways.append(_Edge(step, producer, f"it revokes {condition}, which is brought about again"))
    return ways


def _after(step: Step, more: list[str]) -> Step:
    return step.model_copy(update={"depends_on": tuple(dict.fromkeys((*step.depends_on, *more)))})


Ids = tuple[str, ...]


def lay_out(root: Node, goal: Goal, placeholders: Placeholders) -> Plan:
    """Return the plan of a goal whose task was decomposed, with the placeholders in its evidence ids replaced."""
    network = _Network(root, placeholders)
    if len(network.placed) > MAX_STEPS:
        raise PlanningError(
            f"the task {root.task.name} comes to {len(network.placed):,} steps, over {MAX_STEPS:,}",
            code="too_many_tasks",
            remedy="split the goal",
        )
    result = {goal.task: network.result.get(root.site.id, root.site.id)}
    document = {
        "intent": goal.intent,
        "steps": [network.step(node, before) for node, before in network.placed],
        "outputs": bind(placeholders.fill_ids(dict(goal.outputs)), {}, result),
        "declared_outputs": goal.declared_outputs,
        "memory": bind(placeholders.fill_ids(dict(goal.memory)), {}, result),
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
    """The steps of a tree with their dependencies, and the step that produces the result of each abstract node."""

    def __init__(self, root: Node, placeholders: Placeholders) -> None:
        self._placeholders = placeholders
        self.placed: list[tuple[Node, Ids]] = []
        self.result: dict[str, str] = {}
        self._place(root, ())

    def _place(self, node: Node, before: Ids) -> Ids:
        """Place the steps of a node after these steps; return its last steps."""
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
        """Return the step of a primitive node, in plan format."""
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
