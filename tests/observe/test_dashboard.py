"""The dashboard: every query names metrics and labels that the endpoint really serves."""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from engine.workshop import Workshop
from tercet.observe import Telemetry, TelemetrySettings
from tercet.observe import instruments as i

from .receiver import read_page

PATH = Path(__file__).parents[2] / "docs" / "grafana" / "tercet.json"
LABELS = {each.prometheus: {*each.labels} for each in (*i.COUNTED, *i.OWN)} | {
    f"{i.SAFE_COMPLETION_SECONDS}_{end}": {*i.SAFE_COMPLETION_LABELS, *more}
    for end, more in {"sum": (), "count": (), "bucket": ("le",)}.items()
}


@pytest.fixture(scope="module")
def board() -> dict[str, Any]:
    """The file."""
    return json.loads(PATH.read_text(encoding="utf-8"))


def queries(board: dict[str, Any]) -> list[str]:
    """Every expression of every panel, and those that fill the lists of choices."""
    panels = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    chosen = [each["query"]["query"] for each in board["templating"]["list"] if each["type"] == "query"]
    return [*panels, *chosen]


def served(workshop: Workshop) -> str:
    """What the endpoint of a process that has done nothing serves."""

    async def main() -> str:
        async with Telemetry(TelemetrySettings(prometheus_port=0)) as telemetry:
            with workshop.clock.hold():
                return read_page(telemetry.metrics_address)

    return workshop.run(main())


@pytest.mark.req("R320")
def test_every_query_names_what_is_served_and_everything_served_is_shown(
    board: dict[str, Any], workshop: Workshop
) -> None:
    """No panel asks for a metric that does not exist, and no metric is forgotten."""
    named = {name for query in queries(board) for name in re.findall(r"tercet_\w+", query)}
    assert named <= LABELS.keys()
    offered = {*re.findall(r"^# TYPE (tercet_\w+)", served(workshop), re.MULTILINE)}
    assert offered == {each.prometheus for each in (*i.COUNTED, *i.OWN)} | {i.SAFE_COMPLETION_SECONDS}
    assert {name for name in LABELS if name not in named} == set()


def test_every_query_tells_metrics_apart_by_labels_that_they_have(board: dict[str, Any]) -> None:
    """Labels in selectors, groups and legends belong to every metric of their query."""
    for panel in board["panels"]:
        for target in panel["targets"]:
            for part in target["expr"].split(" / "):
                (name,) = re.findall(r"tercet_\w+", part)
                used = {*re.findall(r'(\w+)=~?"', part)}
                used |= {
                    label for group in re.findall(r"by \(([^)]*)\)", part) for label in group.split(", ")
                }
                assert used <= LABELS[name], (panel["title"], name)
                assert {*re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])} <= used


def test_panels_have_a_title_a_text_and_room_of_their_own(board: dict[str, Any]) -> None:
    """No two panels overlap or share an id, and each says what it shows."""
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["title"] and panel["description"].endswith(".") for panel in panels)
    cells = [{(x, y) for x in range(p["gridPos"]["x"], p["gridPos"]["x"] + p["gridPos"]["w"])
              for y in range(p["gridPos"]["y"], p["gridPos"]["y"] + p["gridPos"]["h"])} for p in panels]  # fmt: skip
    assert all(one.isdisjoint(other) for one, other in combinations(cells, 2))
    assert all(x < 24 for taken in cells for x, _ in taken)
