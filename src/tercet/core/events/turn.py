"""What became of one turn of an agent that decides step by step."""

from __future__ import annotations

from typing import Any, Literal

from tercet.core.events.fact import Fact

TurnAction = Literal["continue", "retry", "replan", "stop", "escalate", "final", "limit"]
"""Go on; undo the turn and decide again; keep it and decide otherwise; stop for a person; stop because a critic broke;
take the answer; stop because a limit is reached."""


class TurnJudged(Fact, frozen=True, kw_only=True, tag="turn_judged"):
    """The results of a turn were taken in, the critics judged it, and the criteria to stop were looked at."""

    turn: int
    action: TurnAction
    reason: str = ""
    critic: str = ""
    """The critic that decided."""
    score: float = 1.0
    trace: tuple[dict[str, Any], ...] = ()
    """Everyone that was asked, in order, with what they said."""
    stop: str = ""
    """Why the run ends, where it does."""
    prompt: str | None = None
    """The system prompt of the next turn where it is not the agent's own."""
    patch: dict[str, Any] = {}
    """What is set on the state of the agent before the next turn."""
    metadata: dict[str, Any] = {}
    """What the state's metadata hold after the critics."""
    left_out: tuple[str, ...] = ()
    """What of the patch and the metadata is no JSON and was not recorded: no other process can go on with such a run."""
    trusted: tuple[str, ...] = ()
    """The steps of this turn whose results are trusted."""
