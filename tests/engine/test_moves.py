"""The table of the phases on the page is the one that the code makes."""

from __future__ import annotations

from pathlib import Path

from tercet.core.table import ANYWHERE, draw_moves, list_moves

PAGE = Path(__file__).parents[2] / "docs" / "runtime.md"


def test_the_page_shows_the_moves_of_the_code() -> None:
    """If this fails, put the output of `draw_moves()` into the page."""
    assert f"\n\n{draw_moves()}\n\n" in PAGE.read_text(encoding="utf-8")


def test_the_table_leaves_out_only_repetitions() -> None:
    """Every move is in a row, but for those that are possible anywhere: they are shown for ACT."""
    rows = [tuple(line.strip("| ").split(" | ")) for line in draw_moves().splitlines()[2:]]
    shown = {
        (before, event.strip("`"), after) for before, after, events in rows for event in events.split(", ")
    }
    assert {event for before, event, after in list_moves() if (before, event, after) not in shown} == set(
        ANYWHERE
    )
    assert len(rows) == len({row[:2] for row in rows})
