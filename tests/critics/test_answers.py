"""A final answer that a critic rejected is never returned, whatever critics and agents do."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.critics import CriticResult, Decision, Engine, MaxSteps, StopReason, critic
from tercet.journal.memory import MemoryJournal
from tercet.testing.clock import VirtualClock

from .bench import Scripted, State, act, counted, play, run

WORDS = ("continue", "continue", "retry", "patched", "stop", "raise", "nonsense")


def moody(name: str, moods: list[str]) -> Any:
    """A critic that goes through its moods, one for each time that it is asked, and then is content."""
    turns = iter(moods)

    @critic(name=name)
    def judge(state: Any, decision: Any, results: Any) -> Any:
        match next(turns, "continue"):
            case "raise":
                raise RuntimeError("in a mood")
            case "nonsense":
                return {"verdict": "fine"}
            case "patched":
                return CriticResult("retry", "again", instruction_patch="Please.", state_patch={"task": "x"})
            case word:
                return word if word == "continue" else (word, "in a mood")

    return judge


@dataclass
class Varied(Scripted):
    """Acts or answers as drawn; no two of its answers are the same."""

    moves: str = ""

    def __post_init__(self) -> None:
        self.numbers = count()

    def decide(self, state: State) -> Any:
        """The next move."""
        n = next(self.numbers)
        is_act = n < len(self.moves) and self.moves[n] != "f"
        name = "desk.write" if is_act and self.moves[n] == "w" else "desk.say"
        return act(f"word {n}", name) if is_act else Decision.final(f"answer {n}")


RUNS = {
    "moods": st.lists(st.lists(st.sampled_from(WORDS), max_size=6), max_size=3),
    "moves": st.text("fsw", max_size=6),
    "limit": st.integers(1, 8),
}


@given(**RUNS)
@pytest.mark.req("R300")
def test_a_rejected_answer_is_never_returned(moods: list[list[str]], moves: str, limit: int) -> None:
    """There is an answer if and only if the last step is an answer that every critic let pass."""
    say, _ = counted("desk.say")
    write, written = counted("desk.write", mode="local_write")
    agent = Varied([], [say, write], moves=moves)
    critics = [moody(f"critic {n}", each) for n, each in enumerate(moods)]
    result = run(agent, critics, stop=[MaxSteps(limit)])
    last = result.steps[-1]
    is_passed = last.decision.mode == "final" and all(each.action == "continue" for each in last.critics)
    assert (result.stop_reason is StopReason.FINAL) == is_passed
    assert result.final_answer == (last.decision.final_answer if is_passed else None)
    for step in result.steps[:-1]:
        assert step.decision.mode == "act" or any(each.action != "continue" for each in step.critics)
    assert len(written) == len(set(written))
    assert len(result.steps) <= limit
    assert agent.system_prompt == "You are a clerk."


@given(**RUNS)
@pytest.mark.req("R289", "R301")
def test_a_rebuilt_state_is_the_state(moods: list[list[str]], moves: str, limit: int) -> None:
    """Whatever happened in a run, another Engine that reads its journal comes to the same state and steps."""
    clock = VirtualClock()
    journal = MemoryJournal()

    def engine() -> Engine:
        tools = [counted("desk.say")[0], counted("desk.write", mode="local_write")[0]]
        critics = [moody(f"critic {n}", each) for n, each in enumerate(moods)]
        return Engine(
            Varied([], tools, moves=moves), critics, [MaxSteps(limit)], journal=journal, clock=clock
        )

    result = play(engine().run("t"), clock)
    if result.status == "paused":  # looking at it would carry it on
        return
    again = play(engine().resume(result.session_id), clock)
    assert (again.state, again.steps) == (result.state, result.steps)
    assert (again.stop_reason, again.final_answer) == (result.stop_reason, result.final_answer)
