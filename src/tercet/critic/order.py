"""The order of a plan's steps as policies see it, and the steps that may not run.

A step runs before another if the other one waits for it: by `depends_on`, by a reference, or through steps between
them. The order of the list is irrelevant. Calls of earlier plans ran before every step of this one.

Sets of steps are bit masks, so that the order of a long plan is computed quickly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from tercet.contracts.plan import Plan, Step
from tercet.contracts.steps.conditions import effects_in
from tercet.contracts.steps.graph import read_steps
from tercet.contracts.tool import ToolSpec
from tercet.critic.review import Review
from tercet.policy.expressions import ORDER_FIELDS

MAX_LISTED = 500
"""In longer plans `before` and `after` are missing: these lists grow quadratically."""


class _Node(NamedTuple):
    """A step of the plan, or an earlier call; `number` is the `index` that policies read."""

    id: str
    number: int
    tool: str


class Order:
    """Which steps run before and after each step of a plan under review."""

    def __init__(self, review: Review) -> None:
        graph, earlier = review.graph, review.ctx.earlier
        nodes = [_Node(step.id, index, step.tool or "") for index, step in enumerate(review.plan.steps)]
        nodes += [
            _Node(earlier_id(made.step, index), index, made.step.tool or "")
            for index, made in enumerate(earlier, -len(earlier))
        ]
        # Sorted by id, so that no list that a policy reads depends on the order in which the plan lists its steps.
        self._nodes = sorted(nodes)
        self._bit = {node.number: 1 << place for place, node in enumerate(self._nodes)}
        self._tool_bits: dict[str, int] = {}
        for node in self._nodes:
            if node.tool:
                self._tool_bits[node.tool] = self._tool_bits.get(node.tool, 0) | self._bit[node.number]
        self._before = dict.fromkeys(self._bit, 0)
        self._after = dict.fromkeys(self._bit, 0)
        done = 0
        for index, made in enumerate(earlier, -len(earlier)):
            self._before[index] = done
            if made.place is not None:
                done |= self._bit[index]
        for index in graph.order:
            self._before[index] = done
            for before in graph.predecessors[index]:
                self._before[index] |= self._before[before] | self._bit[before]
        for index in reversed(graph.order):
            for after in graph.successors[index]:
                self._after[index] |= self._after[after] | self._bit[after]
        later = sum(self._bit[index] for index in range(len(review.plan.steps)))
        for index, made in zip(range(-1, -len(earlier) - 1, -1), reversed(earlier), strict=True):
            self._after[index] = later if made.place is not None else 0
            later |= self._bit[index]

    def fields(self, index: int, names: frozenset[str], absent: frozenset[int]) -> dict[str, Any]:
        """Return the requested order fields of a step, ignoring the steps that are absent."""
        out = sum(self._bit[each] for each in absent)
        sets = {"before": self._before[index] & ~out, "after": self._after[index] & ~out}
        found: dict[str, Any] = {}
        for name in names & ORDER_FIELDS:
            way, _, tools = name.partition("_")
            if tools:
                found[name] = sorted(tool for tool, bits in self._tool_bits.items() if bits & sets[way])
            elif len(self._nodes) <= MAX_LISTED:
                found[name] = [node.id for node in self._nodes if sets[way] & self._bit[node.number]]
        return found


def earlier_id(step: Step, index: int) -> str:
    """Return the id of an earlier call in policies: a step of the current plan may have the id of its step."""
    return f"{step.id}@{index}"


def keep_order(plan: Plan, steps: Sequence[Step]) -> tuple[Step, ...]:
    """Return steps derived from those of a plan, each waiting for the others as in the plan.

    A resolved step no longer refers to the steps that its values came from, and a step between two others may be
    omitted.
    """
    kept = {step.id for step in steps}
    nearest: dict[str, dict[str, None]] = {}
    for position in plan.graph.order:
        found: dict[str, None] = {}
        for before in (plan.steps[index].id for index in plan.graph.predecessors[position]):
            found |= {before: None} if before in kept else nearest[before]
        nearest[plan.steps[position].id] = found
    return tuple(step.waiting_for(tuple(nearest[step.id])) if step.id in nearest else step for step in steps)


MAX_COMBINED = 4
"""Up to this many uncertain steps, every combination of them is tried; beyond it, only all of them and none."""


def find_uncertain(
    plan: Plan,
    surface: Mapping[str, ToolSpec],
    *,
    completed: frozenset[str] = frozenset(),
    chosen: frozenset[str] = frozenset(),
    left_out: frozenset[str] = frozenset(),
    may_not_deliver: bool = False,
) -> frozenset[str]:
    """Return the ids of the steps that may not run.

    A step is uncertain until it has completed if it is optional, if its `when` is not decided yet, if it refers to a step
    that may not run, or if such a step before it establishes a condition that it needs. A step that only waits for another
    by `depends_on` runs whether or not that one does. Any other step counts as certain: if it fails, so does its plan.
    `completed` are the steps whose calls have happened, `chosen` those whose `when` is known to be true, and `left_out`
    those that will not run. With `may_not_deliver`, deliveries are uncertain: outputs may not be accepted.
    """
    delivery = plan.graph.delivery if may_not_deliver else frozenset[int]()
    if (
        not left_out
        and not delivery
        and not any(step.optional or step.when is not None for step in plan.steps)
    ):
        return frozenset()
    effects = effects_in(plan, surface)
    found: set[str] = set()
    missing = set(left_out)
    for position in plan.graph.order:
        step = plan.steps[position]
        if step.id in completed or step.id in left_out:
            continue
        is_open = position in delivery or step.optional or (step.when is not None and step.id not in chosen)
        if (
            is_open
            or not missing.isdisjoint(read_steps(plan, position))
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
        index: {position[name] for name in read_steps(plan, index) if name in position} for index in uncertain
    }
    for size in range(1, len(uncertain) + 1):
        for chosen in combinations(sorted(uncertain), size):
            absent = frozenset(chosen)
            if all(needs[index].isdisjoint(absent) for index in uncertain - absent):
                yield absent
