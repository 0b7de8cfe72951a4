"""One step on the screen: what it calls, with which values, and what it waits for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from rich.text import Text

from tercet.cli.text import listed, printable
from tercet.contracts import references
from tercet.contracts.context import CompiledContext
from tercet.contracts.effective import effective
from tercet.contracts.evidence import parse_ref
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.plan import Step
from tercet.contracts.shape import as_object

MODE_STYLES = {
    ApprovalMode.READ_ONLY: "green",
    ApprovalMode.LOCAL_WRITE: "cyan",
    ApprovalMode.NETWORK: "yellow",
    ApprovalMode.DELEGATED: "yellow",
    ApprovalMode.DESTRUCTIVE: "red",
}
LONGEST_VALUE = 72
ONE_LINE = 56
"""Parameters that are longer together get a line each."""
MOST_PARAMETERS = 6


def headline(index: int, step: Step, compiled: CompiledContext) -> Text:
    """Position, id unless it only repeats the position, tool and effective mode."""
    line = Text.assemble((f"{index}  ", "dim"), ("" if step.id == f"s{index}" else f"{step.id}  ", "bold"))
    if step.tool is None:
        return line.append(step.kind, style="dim")
    line.append(printable(step.tool, 80), style="bold")
    spec = compiled.surface.get(step.tool)
    if spec is None:
        return line.append("  not on the surface", style="red")
    mode = effective(index, step, spec).mode
    return line.append(f"  {mode}", style=MODE_STYLES[mode])


def details(
    index: int, step: Step, compiled: CompiledContext, *, beside: Sequence[str], gates: Sequence[str] | None
) -> Iterator[tuple[str, str]]:
    """What else is worth knowing, as pairs of a word and a text.

    `beside` are the steps it also waits for; `gates` are those that the critic demands, None if it did not get so far.
    """
    spec = compiled.surface.get(step.tool or "")
    call = effective(index, step, spec) if spec is not None else None
    params = step.params if call is None else call.params
    if params:
        yield "with", _parameters(params)
    if step.when is not None:
        yield "when", printable(step.when, 200)
    if beside:
        yield "after", listed(beside)
    if gates is None:
        gates = (step.gates or ()) if call is None else call.gates
    if gates:
        yield "gate", listed(gates)
    if step.evidence_refs:
        yield "pinned", listed(step.evidence_refs)


def _parameters(params: dict[str, Any]) -> str:
    pairs = [_parameter(name, value) for name, value in list(params.items())[:MOST_PARAMETERS]]
    if len(params) > MOST_PARAMETERS:
        pairs.append(f"… {len(params) - MOST_PARAMETERS} more")
    line = ", ".join(pairs)
    return line if len(line) <= ONE_LINE else "\n".join(pairs)


def _parameter(name: str, value: Any) -> str:
    shown = printable(name, 40)
    reference = references.as_reference(members) if (members := as_object(value)) else None
    if reference is None:
        return f"{shown} = {printable(json.dumps(value, ensure_ascii=False), LONGEST_VALUE)}"
    if reference.kind == "evidence" and (ref := parse_ref(reference.target)):
        return f"{shown} ← {printable(f'{ref.classification}:{ref.key}#{reference.pointer}', LONGEST_VALUE)}"
    return f"{shown} ← {printable(reference.text, LONGEST_VALUE)}"
