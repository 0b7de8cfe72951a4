"""The graph of a plan as SVG shapes: boxes with the state of each step, and lines between them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tercet.view.html.graph_layout import Line, Size, arrange
from tercet.view.html.safe_text import SafeText
from tercet.view.plan import PlanView, StepView
from tercet.view.text import count
from tercet.view.vocabulary import JUDGED, Tone

MOST = 60
"""The number of steps that are drawn."""

MARGIN = 6.0
_SIZE = Size(width=248, height=74, gap=28, rise=46, bend=18)
_GATE = 20.0
"""The extra height of the boxes if a step has waited for people."""
_ARROW = 7.0
_WIDEST = 1_450.0
_WIDEST_ID, _WIDEST_TOOL, _WIDEST_HOW, _WIDEST_GATE = 24, 30, 34, 34


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A step in the graph."""

    x: float
    y: float
    width: float
    height: float
    anchor: str
    id: str
    tool: str
    how: str
    gate: str
    mark: str
    tone: Tone
    title: str


class Edge(msgspec.Struct, frozen=True, kw_only=True):
    """A line between two steps: a path, and its arrow head."""

    path: str
    head: str
    is_back: bool = False
    """Whether it closes a cycle."""


class Drawing(msgspec.Struct, frozen=True, kw_only=True):
    """The graph of a plan."""

    width: float
    height: float
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    summary: str
    """The graph in words."""
    is_wide: bool = False
    """Whether it is too wide to be legible when scaled to the page."""
    left_out: str = ""


def step_anchor(plan: PlanView, number: int) -> str:
    """Return the anchor of a step's details, by its position from 1."""
    return f"plan-{plan.number}-step-{number}"


def draw_plan(plan: PlanView, safe: SafeText) -> Drawing | None:
    """Return the graph of a plan; None if it has no steps."""
    shown, total = plan.steps[:MOST], len(plan.steps)
    if not shown:
        return None
    height = _SIZE.height + (_GATE if any(_gate_text(step) for step in shown) else 0)
    size = Size(width=_SIZE.width, height=height, gap=_SIZE.gap, rise=_SIZE.rise, bend=_SIZE.bend)
    drawn = [[p for p in step.predecessors if p < len(shown)] for step in shown]
    layout = arrange(drawn, size)
    nodes = tuple(
        _node(step, step_anchor(plan, number), (x + MARGIN, y + MARGIN), size, safe)
        for number, (step, (x, y)) in enumerate(zip(shown, layout.corners, strict=True), start=1)
    )
    return Drawing(
        width=round(layout.width + 2 * MARGIN, 1),
        height=round(layout.height + 2 * MARGIN, 1),
        nodes=nodes,
        edges=tuple(_edge(line) for line in layout.lines),
        summary=_summary(shown, drawn, safe),
        is_wide=layout.width > _WIDEST,
        left_out=f"The first {MOST} of {total:,} steps are drawn." if total > MOST else "",
    )


def _gate_text(step: StepView) -> str:
    if step.waits_for:
        return f"waits for {', '.join(step.waits_for)}"
    return step.people[-1] if step.people else ""


def _node(step: StepView, anchor: str, corner: tuple[float, float], size: Size, safe: SafeText) -> Node:
    bad = next((chip.text for chip in step.verdicts if chip.tone == "bad"), "")
    name, tool = safe.text(step.id, 80), safe.text(step.tool, 200)
    return Node(
        x=round(corner[0], 1),
        y=round(corner[1], 1),
        width=size.width,
        height=size.height,
        anchor=anchor,
        id=_fit(name, _WIDEST_ID),
        tool=_fit(tool, _WIDEST_TOOL),
        how=_fit(safe.text(bad) if bad else _how(step), _WIDEST_HOW),
        gate=_fit(safe.text(_gate_text(step), 200), _WIDEST_GATE),
        mark="✗" if bad else step.mark,
        tone="bad" if bad else step.tone,
        title=f"{name}: {tool}, {step.progress}",
    )


def _how(step: StepView) -> str:
    is_accepted = any(chip.text == JUDGED["accept"].word for chip in step.verdicts)
    word, *rest = step.progress.split(" · ")
    return " · ".join(("accepted" if is_accepted else word, *rest))


def _fit(text: str, letters: int) -> str:
    """Return a text cut to the width of a number of small letters; capitals count for more, since no font is measured."""
    line, room = " ".join(text.split()), float(letters)
    for number, letter in enumerate(line):
        room -= 1.0 if letter.islower() or letter in "_.,:; ·-" or letter.isdigit() else 1.35
        if room < 0:
            return f"{line[: max(1, number - 1)]}…"
    return line


def _edge(line: Line) -> Edge:
    """Return a smooth line over its points, straight down where it passes a layer."""
    (x, y), *rest = [(px + MARGIN, py + MARGIN) for px, py in line.points]
    end_x, end_y = rest[-1]
    rest[-1] = (end_x, end_y - _ARROW)
    path = [f"M{x:.1f} {y:.1f}"]
    for number, (to_x, to_y) in enumerate(rest):
        if number % 2 and to_x == x:
            path.append(f"L{to_x:.1f} {to_y:.1f}")
        else:
            middle = (y + to_y) / 2
            path.append(f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}")
        x, y = to_x, to_y
    head = f"{end_x - 4.5:.1f},{end_y - _ARROW:.1f} {end_x + 4.5:.1f},{end_y - _ARROW:.1f} {end_x:.1f},{end_y:.1f}"
    return Edge(path=" ".join(path), head=head, is_back=line.is_back)


def _summary(steps: Sequence[StepView], predecessors: Sequence[Sequence[int]], safe: SafeText) -> str:
    """Return the graph in words: each step with the steps before it."""
    names = [safe.text(step.id, 80) for step in steps]
    listed = [
        f"{name} ({step.progress}){f' after {join_names}' if (join_names := ' and '.join(names[each] for each in before)) else ''}"
        for name, step, before in list(zip(names, steps, predecessors, strict=True))[:12]
    ]
    more = f"; and {count(len(steps) - 12, 'more step')}" if len(steps) > 12 else ""
    return f"A graph of {count(len(steps), 'step')}: {'; '.join(listed)}{more}."
