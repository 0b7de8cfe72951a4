"""What the tests of the Engine share: an agent that follows a script, tools that count, and time that jumps."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tercet.contracts.request import Actor
from tercet.critics import Decision, Engine, EngineResult, StepRecord
from tercet.replay.replay import replay
from tercet.testing.clock import VirtualClock
from tercet.tools import Tool, tool

_T = TypeVar("_T")

ADA = Actor(id="ada")
"""Who asks."""
BOB = Actor(id="bob")
"""Who answers."""


@dataclass
class State:
    """The state of a scripted agent: how far it is, and what it was told."""

    task: Any = None
    at: int = 0
    seen: list[Any] = field(default_factory=list[Any])
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    stop_reason: Any = None


Line = Callable[[State], Any] | object
"""A decision, or a function of the state that brings one."""


@dataclass
class Scripted:
    """Decides what its script says, line by line; the last line is repeated."""

    script: Sequence[Line]
    tools: Sequence[Tool] = ()
    system_prompt: str = "You are a clerk."
    prompts: list[str] = field(default_factory=list[str])
    """The prompt of each decision, as it was when it was made."""
    met: list[State] = field(default_factory=list[State])
    """What the state was when each decision was made: where it stood, and its metadata."""

    def init_state(self, task: Any) -> State:
        """A fresh state."""
        return State(task)

    def decide(self, state: State) -> Any:
        """The line at which the state stands."""
        self.prompts.append(self.system_prompt)
        self.met.append(State(state.task, state.at, list(state.seen), dict(state.metadata)))
        line = self.script[min(state.at, len(self.script) - 1)]
        return line(state) if callable(line) else line

    def reduce(self, state: State, decision: Any, results: Any) -> None:
        """Go on to the next line."""
        state.at += 1
        state.seen.append(results)


def counted(
    name: str,
    behave: Callable[[str], Any] = lambda word: {"word": word},
    mode: str = "read_only",
    **declared: Any,
) -> tuple[Tool, list[str]]:
    """A tool that takes a word and behaves so, and the words that reached it."""
    calls: list[str] = []

    async def call(word: str = "") -> Any:
        """Take a word."""
        calls.append(word)
        return behave(word)

    decorated: Any = tool(name, mode=mode, **declared)  # pyright: ignore[reportArgumentType] - any mode, on purpose
    return decorated(call), calls


def broken(word: str) -> Any:
    """A tool that never works."""
    raise ConnectionError(f"no line for {word}")


def play(main: Coroutine[Any, Any, _T], clock: VirtualClock | None = None) -> _T:
    """Run a coroutine in virtual time."""
    return (clock or VirtualClock()).run(main)


def run(agent: Any, critics: Sequence[Any] = (), task: Any = "a task", **more: Any) -> EngineResult:
    """One run of an agent, as far as it goes; what was recorded of it comes out the same when it is judged again, by its critics
    too where they are pure."""
    clock = VirtualClock()
    engine = Engine(agent, critics, clock=clock, **more)

    async def looking_back() -> EngineResult:
        result = await engine.run(task)
        async with engine.runtime() as runtime:
            report = await replay(runtime.journal, result.session_id, agents=[engine])
            assert report.difference is None, report.difference
        return result

    return play(looking_back(), clock)


def act(word: str = "", name: str = "desk.say") -> Decision:
    """A decision to call the usual tool."""
    return Decision.act(name, word=word)


def actions(result: EngineResult) -> list[str]:
    """What followed from each step."""
    return [step.action for step in result.steps]


def last(result: EngineResult) -> StepRecord:
    """The last step."""
    return result.steps[-1]
