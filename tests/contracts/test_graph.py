"""The dependency graph, against what a slow and obvious reading of the same edges gives."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.contracts.plan import Compensation, Plan, Step
from tercet.contracts.steps import graph
from tercet.contracts.steps.graph import Graph

Edges = list[set[int]]
"""For each step, the steps that it waits for."""

any_edges = st.integers(0, 7).flatmap(
    lambda n: st.lists(st.sets(st.integers(0, max(0, n - 1)), max_size=3), min_size=n, max_size=n)
)
"""Graphs in which anything may wait for anything, itself included."""


@st.composite
def acyclic_edges(draw: st.DrawFn) -> Edges:
    """Graphs without a cycle, whose steps stand in any order."""
    count = draw(st.integers(0, 7))
    order = draw(st.permutations(range(count)))
    edges: Edges = [set() for _ in range(count)]
    for position, step in enumerate(order):
        if position:
            edges[step] = draw(st.sets(st.sampled_from(order[:position]), max_size=3))
    return edges


durations_of = st.lists(st.integers(0, 5), min_size=7, max_size=7)


def built(edges: Edges) -> Graph:
    """The graph of a plan with these edges."""
    steps = [
        Step(id=f"n{index}", kind="note", depends_on=tuple(f"n{before}" for before in sorted(needed)))
        for index, needed in enumerate(edges)
    ]
    return graph.build(Plan(steps=tuple(steps)))


def closure(edges: Edges) -> list[set[int]]:
    """For each step, all that it waits for, found by adding edges until nothing changes."""
    reach = [set(needed) for needed in edges]
    for _ in edges:
        for step in range(len(edges)):
            for before in list(reach[step]):
                reach[step] |= reach[before]
    return reach


def paths(edges: Edges) -> list[list[int]]:
    """Every chain of steps that wait for each other, first to last, in a graph without a cycle."""
    found: list[list[int]] = [[step] for step in range(len(edges))]
    for path in found:
        found.extend([before, *path] for before in edges[path[0]])
    return found


def test_edges_come_from_declarations_references_and_conditions() -> None:
    """A step waits for what it depends on, refers to, computes with or decides by; each once."""
    plan = Plan(
        steps=(
            Step(id="a", kind="note"),
            Step(id="b", kind="note", params={"x": {"$from": "a#/x"}}, depends_on=("a",)),
            Step(
                id="c",
                tool="x.y",
                params={"x": [{"$cel": "b.n + a.n + request.n"}]},
                when="a.ok && evidence['e'].ok",
            ),
            Step(id="d", tool="x.y", params={"x": {"$evidence": "kg:a:b#snapshot_c"}}),
        )
    )
    found = graph.build(plan)
    assert found.predecessors == ((), (0,), (1, 0), ())
    assert found.successors == ((1, 2), (2,), (), ())
    assert found.unknown == ()
    assert found.order == (0, 3, 1, 2)


def test_names_that_no_step_has_are_kept_apart() -> None:
    """An unknown name makes no edge; it is listed with the step that uses it, for the critic to refuse."""
    plan = Plan(
        steps=(Step(id="a", kind="note", depends_on=("z",), params={"x": {"$from": "y"}}, when="w.ok"),)
    )
    assert graph.build(plan).unknown == ((0, "z"), (0, "y"), (0, "w"))
    assert graph.build(plan).is_acyclic


def test_a_compensation_adds_no_edge() -> None:
    """What takes an effect back runs after everything, and its `self` is the step's own result."""
    own = Compensation(tool="x.undo", params={"id": {"$from": "self#/id"}, "n": {"$from": "params#/n"}})
    plan = Plan(steps=(Step(id="a", tool="x.do", compensate=own),))
    assert graph.build(plan).predecessors == ((),)
    assert graph.build(plan).unknown == ()


@settings(deadline=None, max_examples=150)
@given(any_edges)
def test_the_order_puts_every_step_behind_what_it_waits_for(edges: Edges) -> None:
    """The order holds exactly the steps that can ever start, each after all that it waits for."""
    found = built(edges)
    reach = closure(edges)
    startable = {
        step
        for step in range(len(edges))
        if not any(before in reach[before] for before in {step, *reach[step]})
    }
    assert set(found.order) == startable
    assert len(found.order) == len(startable)
    place = {step: position for position, step in enumerate(found.order)}
    assert all(place[before] < place[step] for step in startable for before in edges[step])
    assert found.is_acyclic == (not any(step in reach[step] for step in range(len(edges))))


@settings(deadline=None, max_examples=150)
@given(any_edges)
def test_a_cycle_is_a_real_one(edges: Edges) -> None:
    """If there is a cycle, the one that is named exists: each step waits for the one before it, the first for the last."""
    cycle = built(edges).cycle()
    assert bool(cycle) == any(step in needed for step, needed in enumerate(closure(edges)))
    assert len(set(cycle)) == len(cycle)
    for before, step in zip(cycle, (*cycle[1:], *cycle[:1]), strict=True):
        assert before in edges[step]


@settings(deadline=None, max_examples=100)
@given(any_edges)
def test_ancestors_are_all_that_must_complete_before(edges: Edges) -> None:
    """Also on a cycle, where a step is its own ancestor."""
    found = built(edges)
    assert [set(found.ancestors(step)) for step in range(len(edges))] == closure(edges)


@pytest.mark.req("R69")
@settings(deadline=None, max_examples=100)
@given(acyclic_edges(), durations_of)
def test_the_critical_path_is_the_longest_chain(edges: Edges, durations: list[int]) -> None:
    """No chain of steps takes longer, and it is a chain: each step waits for the one before it."""
    durations = durations[: len(edges)]
    found = built(edges)
    path = found.critical_path(durations)
    longest = max((sum(durations[step] for step in chain) for chain in paths(edges)), default=0)
    assert sum(durations[step] for step in path) == longest
    assert max(found.finish_times(durations), default=0) == longest
    assert bool(path) == bool(edges)
    assert all(before in edges[step] for before, step in pairwise(path))


@settings(deadline=None, max_examples=100)
@given(acyclic_edges(), durations_of)
def test_the_width_is_the_most_that_is_active_at_once(edges: Edges, durations: list[int]) -> None:
    """At no moment are more steps active, if each starts as early as it can."""
    durations = durations[: len(edges)]
    found = built(edges)
    ends = found.finish_times(durations)
    for step, needed in enumerate(edges):
        assert ends[step] == durations[step] + max((ends[before] for before in needed), default=0)
    spans = [(end - duration, end) for end, duration in zip(ends, durations, strict=True)]
    moments = range(max(ends, default=0) + 1)
    assert found.width(durations) == max(
        (sum(start <= moment < end for start, end in spans) for moment in moments), default=0
    )


@settings(deadline=None, max_examples=60)
@given(any_edges, durations_of)
def test_a_cycle_hangs_nothing(edges: Edges, durations: list[int]) -> None:
    """Every question about a graph with cycles is answered, for the steps that are on none and behind none."""
    durations = durations[: len(edges)]
    found = built(edges)
    assert set(found.critical_path(durations)) <= set(found.order)
    assert 0 <= found.width(durations) <= len(edges)
    assert all(
        found.finish_times(durations)[step] == 0 for step in range(len(edges)) if step not in found.order
    )


def test_steps_of_one_diamond_run_together() -> None:
    """Two steps that wait for the same one run at once, and the last waits for both."""
    diamond = built([set(), {0}, {0}, {1, 2}])
    assert diamond.width([1, 1, 1, 1]) == 2
    assert diamond.finish_times([1, 5, 2, 1]) == [1, 6, 3, 7]
    assert diamond.critical_path([1, 5, 2, 1]) == (0, 1, 3)
    assert all(diamond.ancestors(3) >= set(pair) for pair in combinations((0, 1, 2), 2))


def test_a_long_chain_needs_no_recursion() -> None:
    """Ten thousand steps in a row are ordered, timed and walked."""
    chain = built([set(), *({index} for index in range(9_999))])
    assert chain.order == tuple(range(10_000))
    assert len(chain.ancestors(9_999)) == 9_999
    assert len(chain.critical_path([1] * 10_000)) == 10_000
    ring = built([{9_999}, *({index} for index in range(9_999))])
    assert len(ring.cycle()) == 10_000
