"""Sessions of step-by-step agents on the command line."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tercet import tool
from tercet.critics import Decision, Engine, critic

from .harness import REFUNDS, Tercet


@tool("shop.find", mode="read_only")
def find(order: str) -> dict[str, str]:
    """Find an order."""
    return {"order": order}


@critic(name="exact")
def is_exact(state: Any, decision: Any, results: Any) -> Any:
    """Send back what is not a number."""
    is_vague = decision.mode == "final" and decision.final_answer == "some"
    return ("retry", "be exact") if is_vague and not state.metadata.get("told") else "continue"


@dataclass
class Seen:
    """What the agent has seen."""

    count: int = 0
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])


class Counter:
    """Looks once, then answers, vaguely at first."""

    tools = (find,)
    system_prompt = "count"

    def __init__(self) -> None:
        self._answers = ["some", "3"]

    def init_state(self, task: Any) -> Seen:
        """Begin."""
        del task
        return Seen()

    def decide(self, state: Seen) -> Decision:
        """Look, then answer."""
        return (
            Decision.act("shop.find", order="o1") if not state.count else Decision.final(self._answers.pop(0))
        )

    def reduce(self, state: Seen, decision: Any, results: Any) -> Seen:
        """Count what was seen."""
        del decision
        state.count += len(results)
        return state


def test_a_session_of_an_agent_shows_its_turns(tercet: Tercet, tmp_path: Path) -> None:
    """What was decided in each turn, and what the critics made of it, in order; no other pack continues it."""
    journal = f"sqlite:///{tmp_path}/agent.db"
    result = asyncio.run(Engine(Counter(), critics=[is_exact], journal=journal).run("count"))
    assert result.final_answer == "3"
    shown = tercet("sessions", "show", result.session_id, "--journal", journal).out
    places = [
        shown.index(text)
        for text in ('shop.find {"order": "o1"}', 'answers "some"', "be exact", 'answers "3"')
    ]
    assert places == sorted(places)
    assert tercet("sessions", "resume", result.session_id, "--pack", REFUNDS, "--journal", journal).code == 0
