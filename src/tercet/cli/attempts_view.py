"""What a run tried before it was handed to a person: plans, what the critic said of them, and what models answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from rich.text import Text

from tercet.cli.gate_view import Row
from tercet.cli.quality_view import attempt_line, defect_line, details, headline
from tercet.cli.text import count, printable
from tercet.cli.values import name_text
from tercet.contracts.outputs.quality import CritiqueDiagnosis, RepairEntry
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.core import events as e
from tercet.view.judging import Judged

_PHASES: dict[str, type[Judged]] = {
    "sampled": e.SamplesDrawn,
    "tested": e.TestsRun,
    "verified": e.OutputsVerified,
    "attacked": e.OutputsAttacked,
}
"""What is told of an attempt as it is told of the event that it was."""
_LONGEST = 300
"""How much of an answer is shown; the packet has all of it."""


def attempt_rows(attempts: Sequence[JsonObject]) -> Iterator[Row]:
    """One row for each thing that was tried, in its order."""
    told = [line for attempt in attempts for line in _lines(attempt)]
    for number, line in enumerate(told):
        yield "" if number else "tried", line


def _lines(attempt: Mapping[str, Any]) -> Iterator[Text | str]:
    what = str(attempt.get("what"))
    match what:
        case _ if (kind := _PHASES.get(what)) is not None:
            fields = {name: value for name, value in attempt.items() if name in kind.__struct_fields__}
            event = msgspec.convert({"type": kind.__struct_config__.tag, "number": 0, **fields}, kind)
            yield headline(event)
            yield from (Text("  ") + line for line in details(event))
        case "critiqued":
            found = CritiqueDiagnosis.model_validate(attempt["diagnosis"])
            yield f"the outputs were judged: {count(len(found.defects), 'defect')}"
            yield from (Text("  ") + defect_line(defect) for defect in found.defects)
        case "repaired":
            yield f"they were repaired: {count(len(attempt['log']), 'attempt')}"
            for entry in attempt["log"]:
                yield Text("  ") + attempt_line(RepairEntry.model_validate(entry))
        case _:
            if (line := _line(attempt)) is not None:
                yield line


def _line(attempt: Mapping[str, Any]) -> Text | str | None:
    match attempt.get("what"):
        case "asked":
            return f"asked {attempt.get('model')}"
        case "answered" if attempt.get("code"):
            return Text.assemble(("✗ ", "red"), printable(f"no answer: {_because(attempt, 'error')}"))
        case "answered":
            return f"  it answered {_answer(attempt)}"
        case "no_plan":
            return Text.assemble(("✗ ", "red"), printable(f"no plan: {_because(attempt, 'reason')}"))
        case "plan":
            return f"  a plan: {_plan(as_object(attempt.get('plan')) or {})}"
        case "verdict":
            return _verdict(attempt)
        case "step":
            return Text.assemble(
                ("✗ ", "red"), printable(f"step {attempt.get('step')}: {attempt.get('reason')}")
            )
        case "turn":
            return f"turn: {attempt.get('action')} {attempt.get('critic', '')} {attempt.get('reason', '')}".rstrip()
        case _:
            return None


def _because(attempt: Mapping[str, Any], field: str) -> str:
    return f"{attempt.get('code')}: {attempt.get(field)}"


def _answer(attempt: Mapping[str, Any]) -> str:
    if attempt.get("blob"):
        return f"at length, see {attempt['blob']}"
    text = " ".join(str(attempt.get("answer", "")).split())
    more = count(len(text) - _LONGEST, "more character")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({more})"


def _plan(plan: Mapping[str, Any]) -> str:
    steps = [as_object(step) or {} for step in as_list(plan.get("steps")) or ()]
    shown = [
        f"{name_text(str(step.get('id')))} {name_text(str(step.get('tool') or 'note'))}"
        for step in steps[:12]
    ]
    more = [f"and {len(steps) - 12} more"] if len(steps) > 12 else []
    return ", ".join((*shown, *more)) or "no steps"


def _verdict(verdict: Mapping[str, Any]) -> Text:
    if verdict.get("outcome") == "ok":
        return Text.assemble(("✓ ", "green"), "the critic let it through")
    word = verdict.get("code") or verdict.get("kind") or verdict.get("outcome")
    reasons = "; ".join(map(str, as_list(verdict.get("reasons")) or ()))
    return Text.assemble(("✗ ", "red"), printable(f"the critic refused it: {word}: {reasons}"))
