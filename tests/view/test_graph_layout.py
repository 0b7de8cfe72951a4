"""Where the steps of a plan stand when it is drawn."""

from __future__ import annotations

from itertools import combinations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tercet.view.html.graph import Layout, Size, arrange

SIZE = Size(width=100, height=40, gap=20, rise=30, bend=10)


def depths(layout: Layout) -> list[int]:
    """The layer of every step."""
    return [round(top / (SIZE.height + SIZE.rise)) for _, top in layout.corners]


def test_a_diamond_has_three_layers_and_stands_straight() -> None:
    """Steps stand below what they wait for; what two lead to stands in the middle of them."""
    layout = arrange([(), (0,), (0,), (1, 2)], SIZE)
    assert depths(layout) == [0, 1, 1, 2]
    (top, _), (left, _), (right, _), (bottom, _) = layout.corners
    assert abs(top - (left + right) / 2) < 1
    assert abs(bottom - top) < 1


def test_lines_that_need_not_cross_do_not() -> None:
    """Two pairs that were named crosswise are drawn side by side."""
    layout = arrange([(), (), (1,), (0,)], SIZE)
    first, second, below_second, below_first = (x for x, _ in layout.corners)
    assert (first < second) == (below_first < below_second)


def test_a_long_line_runs_beside_the_boxes_that_it_passes() -> None:
    """A line over several layers bends around what stands between."""
    layout = arrange([(), (0,), (1,), (0, 2)], SIZE)
    long = next(line for line in layout.lines if (line.start, line.end) == (0, 3))
    for x, y in long.points[1:-1]:
        assert all(not (cx < x < cx + SIZE.width and cy < y < cy + SIZE.height) for cx, cy in layout.corners)


def test_circles_are_cut_and_marked() -> None:
    """A plan that goes round in circles, or waits for itself, can be drawn: one line of each circle is marked."""
    layout = arrange([(2,), (0,), (1,), (3,)], SIZE)
    assert sum(line.is_back for line in layout.lines) == 2
    assert all(line.is_back for line in layout.lines if line.start == line.end == 3)
    assert len(layout.lines) == 4


def test_a_chain_of_thousands_does_not_exhaust_the_stack() -> None:
    """However long a chain is, it is laid out."""
    chain = [(), *((number,) for number in range(3_000))]
    assert max(depths(arrange(chain, SIZE))) == 3_000


@st.composite
def graphs(draw: st.DrawFn) -> list[tuple[int, ...]]:
    """Steps that wait for any others, circles included."""
    size = draw(st.integers(min_value=0, max_value=14))
    some = st.lists(st.integers(min_value=0, max_value=max(0, size - 1)), max_size=4)
    return [tuple(draw(some)) for _ in range(size)]


@settings(suppress_health_check=[HealthCheck.too_slow])  # drawing graphs is slow on a busy machine
@given(graphs())
def test_boxes_never_overlap_and_lines_lead_down(predecessors: list[tuple[int, ...]]) -> None:
    """Whatever waits for whatever: no two boxes touch, all are inside, every line leads down unless it closes a circle."""
    layout = arrange(predecessors, SIZE)
    assert layout == arrange(predecessors, SIZE)
    for (ax, ay), (bx, by) in combinations(layout.corners, 2):
        assert ay != by or abs(ax - bx) >= SIZE.width + SIZE.gap - 0.01
    assert all(x >= -0.01 and x + SIZE.width <= layout.width + 0.01 for x, _ in layout.corners)
    for line in layout.lines:
        start, end = layout.corners[line.start], layout.corners[line.end]
        assert line.is_back or start[1] < end[1]
    wanted = {(before, step) for step, needed in enumerate(predecessors) for before in needed}
    assert {(line.start, line.end) for line in layout.lines} == wanted
