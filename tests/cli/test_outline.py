"""The outline of a plan: a tree for short ones, a list for long ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tercet.cli.run.case_view import FIRST, MOST, Entry, outline
from tercet.contracts.plan import Plan, Step
from tercet.contracts.steps import graph
from tercet.contracts.steps.graph import Graph


def graph_of(*needs: tuple[int, ...]) -> Graph:
    """The graph of a plan in which each step waits for these."""
    steps = [
        Step(id=f"n{index}", kind="note", depends_on=tuple(f"n{before}" for before in needed))
        for index, needed in enumerate(needs)
    ]
    return graph.build(Plan(steps=tuple(steps)))


def drawn(*needs: tuple[int, ...]) -> list[str]:
    """The outline as lines of text."""
    return [f"{entry.first}{entry.step}" for entry in outline(graph_of(*needs), None)]


def test_a_step_hangs_under_the_one_it_waits_for() -> None:
    """Chains go down, branches fan out, and independent steps stand at the left."""
    assert drawn((), (0,), (1,), (0,), ()) == ["0", "├─ 1", "│  └─ 2", "└─ 3", "4"]


def test_a_join_hangs_under_its_longest_way() -> None:
    """A step that waits for several hangs under the one with the longest way, and names the others."""
    entries = list(outline(graph_of((), (), (1,), (0, 2)), None))
    assert [f"{entry.first}{entry.step}" for entry in entries] == ["0", "1", "└─ 2", "   └─ 3"]
    assert entries[-1].beside == (0,)


def test_steps_on_a_cycle_stand_at_the_left() -> None:
    """A plan that cannot be ordered is still shown whole."""
    assert drawn((1,), (0,), ()) == ["0", "1", "2"]


def test_a_deep_chain_stops_growing_to_the_right() -> None:
    """The last steps of a long chain stand below each other, so that they still have room."""
    deepest = max(len(line) for line in drawn((), *((index,) for index in range(MOST - 1))))
    assert deepest < 40


def test_a_long_plan_shows_its_beginning_and_the_offending_step() -> None:
    """Of a thousand steps the first and the offending one are shown, and the others are counted."""
    entries = list(outline(graph_of(*[()] * 1_000), 700))
    assert [entry.step for entry in entries if entry.step is not None] == [*range(FIRST), 700]
    assert [entry.skipped for entry in entries if entry.step is None] == [700 - FIRST, 299]


@given(st.lists(st.lists(st.integers(0, 50), max_size=4), max_size=50), st.data())
def test_every_step_is_shown_or_counted_once(needs: list[list[int]], data: st.DataObject) -> None:
    """Whatever the graph, cycles included, no step is lost and none stands there twice."""
    graph = graph_of(*[tuple(n for n in needed if n < len(needs)) for needed in needs])
    offending = data.draw(st.none() | st.integers(0, len(needs) - 1)) if needs else None
    entries: list[Entry] = list(outline(graph, offending))
    shown = [entry.step for entry in entries if entry.step is not None]
    assert len(shown) == len(set(shown))
    assert len(shown) + sum(entry.skipped for entry in entries) == len(needs)
    assert offending is None or offending in shown
