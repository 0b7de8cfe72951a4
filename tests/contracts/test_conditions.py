"""Threats to conditions: found exactly where some order of the plan breaks one."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.contracts.plan import Plan, Step
from tercet.contracts.steps.conditions import Effects, Exposure, exposures

LETTERS = ("p", "q")


def plan_of(before: list[set[int]]) -> Plan:
    """A plan of notes in this order."""
    return Plan(
        steps=tuple(
            Step(id=f"s{index}", kind="note", depends_on=tuple(f"s{earlier}" for earlier in sorted(waits)))
            for index, waits in enumerate(before)
        )
    )


@st.composite
def puzzles(draw: st.DrawFn) -> tuple[Plan, list[Effects], frozenset[str]]:
    """Up to five steps in some order, each with conditions, and what holds at the start."""
    some = st.frozensets(st.sampled_from(LETTERS), max_size=1)
    count = draw(st.integers(1, 5))
    effects = [Effects(tuple(draw(some)), draw(some), frozenset()) for _ in range(count)]
    effects = [does._replace(revokes=draw(some) - does.establishes) for does in effects]
    before = [{earlier for earlier in range(index) if draw(st.booleans())} for index in range(count)]
    return plan_of(before), effects, draw(some)


def broken(plan: Plan, effects: list[Effects], held: frozenset[str]) -> set[tuple[int, str, int]]:
    """Brute force: who revoked a condition that was not there again when somebody needed it, in any order of the plan."""
    found: set[tuple[int, str, int]] = set()
    waits = plan.graph.predecessors
    for order in permutations(range(len(effects))):
        if any(order.index(earlier) > order.index(step) for step in order for earlier in waits[step]):
            continue
        gone: set[tuple[str, int]] = set()
        for step in order:
            found |= {(who, need, step) for need, who in gone if need in effects[step].needs}
            gone = {(letter, who) for letter, who in gone if letter not in effects[step].establishes}
            gone |= {(letter, step) for letter in effects[step].revokes}
    return {(who, need, step) for who, need, step in found if _is_met(plan, effects, held, need, step)}


def _is_met(plan: Plan, effects: list[Effects], held: frozenset[str], need: str, step: int) -> bool:
    return need in held or any(need in effects[e].establishes for e in plan.graph.ancestors(step))


@pytest.mark.req("R72")
@given(puzzles())
@settings(max_examples=300)
def test_a_threat_is_found_exactly_where_an_order_breaks_a_condition(
    puzzle: tuple[Plan, list[Effects], frozenset[str]],
) -> None:
    """Every order of the plan was tried: whoever took a condition away in one of them is found, and nobody else."""
    plan, effects, held = puzzle
    found = list(exposures(plan.graph, effects, held))
    assert {(each.threat, each.condition, each.consumer) for each in found} == broken(plan, effects, held)
    assert found == sorted(found, key=lambda each: (each.threat, each.condition, each.consumer))
    for each in found:
        assert each.producer in {None, *plan.graph.ancestors(each.consumer)}


def test_the_last_step_that_establishes_a_condition_is_named() -> None:
    """Of two steps that bring it about one after the other, the later one is what the threat comes after."""
    effects = [
        Effects((), frozenset("p"), frozenset()),
        Effects((), frozenset("p"), frozenset()),
        Effects((), frozenset(), frozenset("p")),
        Effects(("p",), frozenset(), frozenset()),
    ]
    found = exposures(plan_of([set(), {0}, set(), {1}]).graph, effects, frozenset())
    assert list(found) == [Exposure(threat=2, condition="p", producer=1, consumer=3)]


def test_two_thousand_steps_are_no_trouble() -> None:
    """A long chain in which every second step revokes what the one before it made has no threat, and an open one all."""
    make, use = Effects((), frozenset("p"), frozenset()), Effects(("p",), frozenset(), frozenset("p"))
    chain = plan_of([{index - 1} if index else set() for index in range(2_000)])
    assert list(exposures(chain.graph, [make, use] * 1_000, frozenset())) == []
    loose = plan_of([{index - 1} if index % 2 else set() for index in range(400)])
    found = list(exposures(loose.graph, [make, use] * 200, frozenset()))
    assert len(found) == 200 * 199
