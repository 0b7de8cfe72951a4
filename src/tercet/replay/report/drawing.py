"""A plan as a graph: its steps laid out, each with its verdict in a few words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tercet.contracts.steps.graph import Graph
from tercet.replay.report.layout import Line, Size, arrange
from tercet.replay.report.page import Drawing, Edge, Node, StepCard
from tercet.replay.report.wording import count

MOST = 60
"""How many steps are drawn; a plan of more is not read in a picture."""

MARGIN = 6.0
_SIZE = Size(width=248, height=74, gap=28, rise=46, bend=18)
_GATE = 20.0
"""How much higher the boxes are where a step has waited for people."""
_ARROW = 7.0
_WIDEST = 1_450.0
_WIDEST_ID, _WIDEST_TOOL, _WIDEST_HOW, _WIDEST_GATE = 24, 30, 34, 34


def draw(graph: Graph, cards: Sequence[StepCard], gates: Mapping[str, str]) -> Drawing | None:
    """The drawing of a plan with these steps; `gates` says what became of the gates by the anchors of steps."""
    shown, total = cards[:MOST], len(graph.predecessors)
    if not shown:
        return None
    height = _SIZE.height + (_GATE if any(card.anchor in gates for card in shown) else 0)
    size = Size(width=_SIZE.width, height=height, gap=_SIZE.gap, rise=_SIZE.rise, bend=_SIZE.bend)
    drawn = [[p for p in before if p < len(shown)] for before in graph.predecessors[: len(shown)]]
    layout = arrange(drawn, size)
    nodes = tuple(
        _node(card, x + MARGIN, y + MARGIN, size, gates.get(card.anchor, ""))
        for card, (x, y) in zip(shown, layout.corners, strict=True)
    )
    return Drawing(
        width=round(layout.width + 2 * MARGIN, 1),
        height=round(layout.height + 2 * MARGIN, 1),
        nodes=nodes,
        edges=tuple(_edge(line) for line in layout.lines),
        summary=_summary(shown, drawn),
        is_wide=layout.width > _WIDEST,
        left_out=f"The first {MOST} of {total:,} steps are drawn." if total > MOST else "",
    )


def _node(card: StepCard, x: float, y: float, size: Size, gate: str) -> Node:
    bad = next((chip.text for chip in card.chips if chip.tone == "bad"), "")
    return Node(
        x=round(x, 1),
        y=round(y, 1),
        width=size.width,
        height=size.height,
        anchor=card.anchor,
        id=_fit(card.id, _WIDEST_ID),
        tool=_fit(card.tool, _WIDEST_TOOL),
        how=_fit(bad or _how(card), _WIDEST_HOW),
        gate=_fit(gate, _WIDEST_GATE),
        mark="✗" if bad else card.mark,
        tone="bad" if bad else card.tone,
        title=f"{card.id}: {card.tool}, {card.how}",
    )


def _how(card: StepCard) -> str:
    is_accepted = any(chip.text == "accepted by the critic" for chip in card.chips)
    done, *rest = card.how.split(" · ")
    return " · ".join(("accepted" if is_accepted else done, *rest))


def _fit(text: str, letters: int) -> str:
    """As much of a text as fits where so many small letters do; no font is measured, so capitals count for more."""
    line, room = " ".join(text.split()), float(letters)
    for number, letter in enumerate(line):
        room -= 1.0 if letter.islower() or letter in "_.,:; ·-" or letter.isdigit() else 1.35
        if room < 0:
            return f"{line[: max(1, number - 1)]}…"
    return line


def _edge(line: Line) -> Edge:
    """A smooth line over its points, straight down where it passes a layer."""
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


def _summary(cards: Sequence[StepCard], predecessors: Sequence[Sequence[int]]) -> str:
    """The graph in words: which step comes after which."""
    told = [
        f"{card.id} ({card.how}){_after(cards, before)}"
        for card, before in zip(cards[:12], predecessors, strict=False)
    ]
    more = f"; and {count(len(cards) - 12, 'more step')}" if len(cards) > 12 else ""
    return f"A graph of {count(len(cards), 'step')}: {'; '.join(told)}{more}."


def _after(cards: Sequence[StepCard], before: Sequence[int]) -> str:
    return f" after {' and '.join(cards[each].id for each in before)}" if before else ""
