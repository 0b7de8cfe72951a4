"""Preconditions of steps: which step establishes a condition, and which step could revoke it before it is needed.

A condition that a step needs must hold at the start, or be established by a step before it. A step that revokes it is a
threat if it may run before the step that needs it, and no step that must run between the two establishes it again. This
is exact: without a threat the condition holds in every order that the plan allows, and for each threat there is an
order in which it does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tercet.contracts.steps.graph import Graph

if TYPE_CHECKING:
    from tercet.contracts.plan import Plan, Step
    from tercet.contracts.tool import ToolSpec


class Effects(NamedTuple):
    """The conditions that a step needs, establishes and revokes."""

    needs: tuple[str, ...]
    establishes: frozenset[str]
    revokes: frozenset[str]


class Exposure(NamedTuple):
    """A threat, by the positions of its steps: `threat` may revoke what `producer` establishes for `consumer`."""

    threat: int
    condition: str
    producer: int | None
    """None if the condition holds from the start."""
    consumer: int


def effects_of(step: Step, tool: ToolSpec | None) -> Effects:
    """Return the conditions of a step and of the tool that it calls."""
    needs = needs_of(step, tool)
    if tool is None:
        return Effects(needs, frozenset(), frozenset())
    return Effects(needs, frozenset(tool.establishes), frozenset(tool.revokes))


def needs_of(step: Step, tool: ToolSpec | None) -> tuple[str, ...]:
    """Return the conditions that a step and the tool that it calls need."""
    own = step.preconditions
    if tool is None or not tool.preconditions:
        return own
    return tuple(dict.fromkeys((*own, *tool.preconditions)))


def effects_in(plan: Plan, surface: Mapping[str, ToolSpec]) -> list[Effects]:
    """Return the conditions of each step of a plan."""
    return [effects_of(step, surface.get(step.tool or "")) for step in plan.steps]


def conditions_after(
    at_start: Iterable[str], calls: Iterable[tuple[ToolSpec | None, bool]]
) -> frozenset[str]:
    """Return the conditions that hold after these calls, in this order; each comes with whether it has completed.

    A call that has not completed may still have happened, at any time: it establishes nothing and revokes for good.
    """
    held, lost = set(at_start), set[str]()
    for tool, is_completed in calls:
        if tool is not None and is_completed:
            held = held.difference(tool.revokes).union(tool.establishes)
        elif tool is not None:
            lost.update(tool.revokes)
    return frozenset(held - lost)


def exposures(graph: Graph, effects: Sequence[Effects], held: frozenset[str]) -> Iterator[Exposure]:
    """Return the threats in an acyclic plan that starts with these conditions, ordered by the threatening step.

    A condition that no step establishes is missing, not threatened.
    """
    contested = _find_contested(effects)
    exposed = {condition: _find_exposed(graph, effects, condition, held) for condition in contested}
    for threat, does in enumerate(effects):
        for condition in sorted(does.revokes & contested):
            for consumer in exposed[condition].get(threat, ()):
                producer = _find_producer(graph, effects, condition, consumer)
                yield Exposure(threat, condition, producer, consumer)


def _find_contested(effects: Sequence[Effects]) -> frozenset[str]:
    """Return the conditions that one step needs and another revokes."""
    revoked = {condition for does in effects for condition in does.revokes}
    return frozenset(need for does in effects for need in does.needs if need in revoked)


def _find_exposed(
    graph: Graph, effects: Sequence[Effects], condition: str, held: frozenset[str]
) -> dict[int, list[int]]:
    """Return the threats to one condition, in plan order of the consumers. Sets of steps are bit masks."""
    bits = [0] * len(effects)
    revoking = [index for index, does in enumerate(effects) if condition in does.revokes]
    for number, index in enumerate(revoking):
        bits[index] = 1 << number
    is_met, repaired = _scan_backward(graph, effects, condition, bits)
    later = _scan_forward(graph, bits)
    found: dict[int, list[int]] = {}
    for consumer, does in enumerate(effects):
        if condition in does.needs and (condition in held or is_met[consumer]):
            harmless = later[consumer] | repaired[consumer] | bits[consumer]
            for threat in revoking:
                if not bits[threat] & harmless:
                    found.setdefault(threat, []).append(consumer)
    return found


def _scan_backward(
    graph: Graph, effects: Sequence[Effects], condition: str, bits: Sequence[int]
) -> tuple[list[bool], list[int]]:
    """Return for each step whether an earlier step establishes a condition, and which revoking steps come
    before that one.
    """
    is_met, repaired, before = [False] * len(bits), [0] * len(bits), [0] * len(bits)
    for step in graph.order:
        for earlier in graph.predecessors[step]:
            before[step] |= before[earlier] | bits[earlier]
            is_met[step] |= is_met[earlier]
            repaired[step] |= repaired[earlier]
            if condition in effects[earlier].establishes:
                is_met[step] = True
                repaired[step] |= before[earlier] | bits[earlier]
    return is_met, repaired


def _scan_forward(graph: Graph, bits: Sequence[int]) -> list[int]:
    """Return for each step which of the marked steps come after it."""
    after = [0] * len(bits)
    for step in reversed(graph.order):
        for later in graph.successors[step]:
            after[step] |= after[later] | bits[later]
    return after


def _find_producer(graph: Graph, effects: Sequence[Effects], condition: str, consumer: int) -> int | None:
    """Return the last step before another that establishes its condition; None if only the start does."""
    before = graph.ancestors(consumer)
    return next(
        (s for s in reversed(graph.order) if s in before and condition in effects[s].establishes), None
    )
