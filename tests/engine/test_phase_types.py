"""What passes between the phases of a real run: a typed command, a typed answer, and the events that come of them."""

from __future__ import annotations

from typing import Any, get_type_hints

import pytest

from tercet.core import commands as c
from tercet.core.answers import Answer, Made
from tercet.core.resolve import RESOLVERS, resolve
from tercet.core.run import Run
from tercet.engine import driver

from .quality_desk import LEAKY, carry, desk
from .workshop import Workshop

CONTRACTS = {
    "PLAN": "Propose Planned plan_proposed",
    "DECOMPOSE": "Decompose Now decomposed",
    "RETRIEVE": "Retrieve Retrieved evidence_retrieved",
    "REVIEW": "Review ToolChanges plan_reviewed",
    "ACT": "Dispatch Ready INTENT, Await CallEnded COMPLETE, Judge Drawn step_judged, Finish Now outputs_produced",
    "VERIFY": "VerifyOutputs Observed outputs_verified, Score History run_reported",
    "CRITIQUE": "Critique Observed outputs_critiqued",
    "REPAIR": "Repair Observed outputs_repaired",
    "COMMIT": "End History session_ended",
}


@pytest.mark.req("R32")
def test_each_phase_has_a_typed_contract(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose output is repaired once goes through every phase, each with its command, answer and event."""
    seen: dict[str, list[str]] = {}

    def spy(run: Run, command: c.Command, answer: Answer) -> Made:
        phase = str(run.state.phase)
        made = resolve(run, command, answer)
        tags = " ".join(str(type(event).__struct_config__.tag) for event in made.events)
        seen.setdefault(phase, []).append(f"{type(command).__name__} {type(answer).__name__} {tags}")
        return made

    monkeypatch.setattr(driver, "resolve", spy)
    done = carry(workshop, desk(workshop, {"letter": LEAKY}))
    assert done.result.status == "completed"
    for phase, rows in CONTRACTS.items():
        assert set(rows.split(", ")) <= set(seen.get(phase, [])), (phase, seen.get(phase))


@pytest.mark.req("R32")
def test_every_command_has_a_resolver_of_its_type() -> None:
    """There is one function for each command, which names the command and the answers that it takes."""
    kinds = {kind for kind in vars(c).values() if isinstance(kind, type) and issubclass(kind, c.Command)}
    assert set(RESOLVERS) == kinds - {c.Command}
    for kind, function in RESOLVERS.items():
        hints: dict[str, Any] = get_type_hints(function)
        given = hints["answer"]
        assert issubclass(kind, getattr(hints["command"], "__args__", hints["command"]))
        assert all(issubclass(each, Answer) for each in getattr(given, "__args__", (given,)))
