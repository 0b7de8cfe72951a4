"""The picture of the phases on the page is the one that the code draws."""

from __future__ import annotations

from pathlib import Path

from tercet.core.table import ANYWHERE, draw_diagram, list_moves

PAGE = Path(__file__).parents[2] / "docs" / "runtime.md"


def test_the_page_shows_the_diagram_of_the_code() -> None:
    """If this fails, put the output of `draw_diagram()` into the page."""
    assert f"```mermaid\n{draw_diagram()}\n```" in PAGE.read_text(encoding="utf-8")


def test_the_drawing_leaves_out_only_repetitions() -> None:
    """Every move is a line, but for those that are possible anywhere: they are drawn for ACT."""
    drawn = draw_diagram().splitlines()
    missing = {
        event for before, event, after in list_moves() if f"    {before} --> {after}: {event}" not in drawn
    }
    assert missing == set(ANYWHERE)
    assert len(drawn) == len(set(drawn))
