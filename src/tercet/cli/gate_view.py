"""A gate on the screen: the call that waits, whole. An approver sees every value that will be used."""

from __future__ import annotations

import json
from typing import Any

from rich.text import Text

from tercet.cli.screen import Screen
from tercet.cli.text import listed, printable
from tercet.contracts.shape import as_object
from tercet.runtime.state import OpenGate

WHOLE = 1_000_000
"""Values at a gate are not shortened."""


def show_gate(screen: Screen, gate: OpenGate, *, owner: str) -> None:
    """Prints what a gate asks, about which call, and who may not answer: the owner of the run."""
    if gate.kind == "approval":
        question = f"may {gate.step} be called? ({listed(gate.names) or 'this call needs an approval'})"
    else:
        question = f"did {gate.step} happen?"
    screen.put(Text.assemble(("? ", "yellow"), (printable(question), "bold")), rest="  ")
    for label, text in _rows(gate, owner):
        screen.put(printable(text, WHOLE), first=f"  {label:<8}")


def _rows(gate: OpenGate, owner: str) -> list[tuple[str, str]]:
    shown = gate.shown
    nature = [str(shown[name]) for name in ("mode", "reversibility") if name in shown]
    rows = [("gate", gate.id), ("call", ", ".join([str(shown.get("tool", "?")), *nature]))]
    params = as_object(shown.get("params")) or {}
    rows += [
        ("" if row else "with", f"{name} = {_json(value)}")
        for row, (name, value) in enumerate(params.items())
    ]
    rows += (
        [("undo", f"there is no way back: {shown['no_compensation']}")]
        if shown.get("no_compensation")
        else []
    )
    rows += [("by", f"somebody other than {owner}, who started the run")] if gate.kind == "approval" else []
    rows += [("why", str(shown["why"]))] if shown.get("why") else []
    rows += [("key", str(shown["key"]))] if shown.get("key") else []
    return rows


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
