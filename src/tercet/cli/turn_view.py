"""The turns of an agent that decides step by step, as `sessions show` tells them."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from tercet.cli.event_view import turn_line
from tercet.cli.journals import Story
from tercet.cli.screen import Screen
from tercet.cli.text import json_text, printable
from tercet.contracts.plan import Step
from tercet.contracts.references import LITERAL
from tercet.contracts.shape import as_object
from tercet.core import events as e
from tercet.core.plans import read_plan

SHOWN = 40
"""How many turns are shown, the last ones; `--json` has all of them."""


def show_turns(screen: Screen, story: Story) -> None:
    """Prints what the agent decided in each turn, and what its critics made of that."""
    lines = [line for event in story.events for line in _lines(event)]
    hidden = max(0, len(lines) - 2 * SHOWN)
    if hidden:
        screen.say(f"· {hidden} earlier lines are left out")
    for line in lines[hidden:]:
        screen.put(line, first="")


def _lines(event: e.Event) -> list[Text]:
    match event:
        case e.PlanProposed():
            return [Text(f"▸ {_decided(step)}") for step in read_plan(event.plan).steps]
        case e.PlanReviewed() if event.verdict.get("outcome") != "ok":
            reasons = "; ".join(event.verdict.get("reasons", ()))
            return [Text(f"  ✗ refused: {printable(reasons, 300)}", style="red")]
        case e.TurnJudged():
            return [Text("  ") + turn_line(event)]
        case _:
            return []


def _decided(step: Step) -> str:
    said = {name: _literal(value) for name, value in step.params.items()}
    what, value = ("answers", said.get("final_answer")) if step.tool is None else (step.tool, said)
    return f"{step.id}  {printable(what, 120)} {printable(json_text(value, indent=None), 300)}"


def _literal(value: Any) -> Any:
    fields = as_object(value)
    return value if fields is None else fields.get(LITERAL, value)
