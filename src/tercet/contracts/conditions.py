"""What must hold when a step begins: who brings it about, and who could take it away before it is needed.

A condition that a step presupposes holds at the start, or a step before it establishes it. A step that revokes it is a
threat if it may come before the one that needs it, and nothing that must come between the two establishes it again.
This is exact: without a threat the condition holds in every order that the plan allows, and each threat is one of some
order in which it does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tercet.contracts.graph import Graph

if TYPE_CHECKING:
    from tercet.contracts.plan import Plan, Step
    from tercet.contracts.tool import ToolSpec


class Effects(NamedTuple):
    """The conditions that a step presupposes, brings about and takes away."""

    needs: tuple[str, ...]
    establishes: frozenset[str]
    revokes: frozenset[str]


class Exposure(NamedTuple):
    """A threat, by the positions of its steps: what the producer brings about, the threat may take from the consumer."""

    threat: int
    condition: str
    producer: int | None
    """None if the condition holds at the start."""
    consumer: int


def effects_of(step: Step, tool: ToolSpec | None) -> Effects:
    """The conditions of a step and of the tool that it calls; without one it changes none."""
    needs = needs_of(step, tool)
    if tool is None:
        return Effects(needs, frozenset(), frozenset())
    return Effects(needs, frozenset(tool.establishes), frozenset(tool.revokes))


def needs_of(step: Step, tool: ToolSpec | None) -> tuple[str, ...]:
    """The conditions that a step and the tool that it calls presuppose."""
    own = step.preconditions
    if tool is None or not tool.preconditions:
        return own
    return tuple(dict.fromkeys((*own, *tool.preconditions)))


def effects_in(plan: Plan, surface: Mapping[str, ToolSpec]) -> list[Effects]:
    """The conditions of each step of a plan."""
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
    """The threats in an acyclic plan whose start holds these conditions, by the position of who threatens.

    A condition that nothing brings about is not threatened: it is missing.
    """
    contested = _contested(effects)
    exposed = {condition: _exposed(graph, effects, condition, held) for condition in contested}
    for threat, does in enumerate(effects):
        for condition in sorted(does.revokes & contested):
            for consumer in exposed[condition].get(threat, ()):
                producer = _producer(graph, effects, condition, consumer)
                yield Exposure(threat, condition, producer, consumer)


def _contested(effects: Sequence[Effects]) -> frozenset[str]:
    """The conditions that one step needs and one revokes."""
    revoked = {condition for does in effects for condition in does.revokes}
    return frozenset(need for does in effects for need in does.needs if need in revoked)


def _exposed(
    graph: Graph, effects: Sequence[Effects], condition: str, held: frozenset[str]
) -> dict[int, list[int]]:
    """Who may take a condition from whom, the latter in the plan's order. Sets of steps are numbers, a bit for each."""
    bits = [0] * len(effects)
    revoking = [index for index, does in enumerate(effects) if condition in does.revokes]
    for number, index in enumerate(revoking):
        bits[index] = 1 << number
    is_met, mended = _looked_back(graph, effects, condition, bits)
    later = _looked_ahead(graph, bits)
    found: dict[int, list[int]] = {}
    for consumer, does in enumerate(effects):
        if condition in does.needs and (condition in held or is_met[consumer]):
            harmless = later[consumer] | mended[consumer] | bits[consumer]
            for threat in revoking:
                if not bits[threat] & harmless:
                    found.setdefault(threat, []).append(consumer)
    return found


def _looked_back(
    graph: Graph, effects: Sequence[Effects], condition: str, bits: Sequence[int]
) -> tuple[list[bool], list[int]]:
    """For each step, whether one before it establishes a condition, and after which revoking ones that is so."""
    is_met, mended, before = [False] * len(bits), [0] * len(bits), [0] * len(bits)
    for step in graph.order:
        for earlier in graph.predecessors[step]:
            before[step] |= before[earlier] | bits[earlier]
            is_met[step] |= is_met[earlier]
            mended[step] |= mended[earlier]
            if condition in effects[earlier].establishes:
                is_met[step] = True
                mended[step] |= before[earlier] | bits[earlier]
    return is_met, mended


def _looked_ahead(graph: Graph, bits: Sequence[int]) -> list[int]:
    """For each step, which of the marked ones come after it."""
    after = [0] * len(bits)
    for step in reversed(graph.order):
        for later in graph.successors[step]:
            after[step] |= after[later] | bits[later]
    return after


def _producer(graph: Graph, effects: Sequence[Effects], condition: str, consumer: int) -> int | None:
    """The last step before another one that establishes its condition; None if only the start does."""
    before = graph.ancestors(consumer)
    return next(
        (s for s in reversed(graph.order) if s in before and condition in effects[s].establishes), None
    )
