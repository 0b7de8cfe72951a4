"""What an agent may return, what is refused, and what bad agents, tools and tasks are told."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from types import SimpleNamespace
from typing import Any

import pytest

from tercet.contracts.errors import UsageError
from tercet.core import events as e
from tercet.critics import Action, Decision, DecisionError, Engine, StopReason, critic
from tercet.critics.decision import read_decision
from tercet.engine.session_reader import load_history
from tercet.testing.clock import VirtualClock
from tercet.tools import Tool

from .bench import Scripted, State, act, actions, broken, counted, last, play, run

FIND = Decision.act("shop.find", order="o1")


class Word(Enum):
    """A mode that is no string."""

    ACT = "act"


@pytest.mark.parametrize(
    ("returned", "decision"),
    [
        (FIND, FIND),
        ({"mode": "act", "actions": [{"tool": "shop.find", "args": {"order": "o1"}}]}, FIND),
        ({"mode": "act", "actions": [{"name": "shop.find", "arguments": {"order": "o1"}}]}, FIND),
        ({"mode": "act", "actions": {"name": "shop.find", "params": {"order": "o1"}}}, FIND),
        ({"mode": "act", "tool": "shop.find", "params": {"order": "o1"}}, FIND),
        ({"tool": "shop.find", "args": {"order": "o1"}}, FIND),
        (SimpleNamespace(mode="act", tool="shop.find", args={"order": "o1"}), FIND),
        (SimpleNamespace(mode=Word.ACT, actions=(Action("shop.find", {"order": "o1"}),)), FIND),
        ({"mode": "act", "actions": ["shop.find"]}, Decision.act("shop.find")),
        (
            {"tool": "shop.find", "evidence_refs": ["kg:a:1#snapshot_s"], "thought": "why"},
            Decision("act", (Action("shop.find", {}, ("kg:a:1#snapshot_s",)),), rationale="why"),
        ),
        ({"mode": "final", "final_answer": [1]}, Decision.final([1])),
        ({"final_answer": "yes"}, Decision.final("yes")),
        ({"mode": "final"}, Decision.final(None)),
        (
            SimpleNamespace(mode="final", final_answer="yes", rationale="so"),
            Decision.final("yes").because("so"),
        ),
    ],
)
def test_a_decision_is_read_by_its_fields(returned: Any, decision: Decision) -> None:
    """Our type, a dict or any object: what counts is what its fields say."""
    assert read_decision(returned) == decision


UNREADABLE: list[tuple[Any, str]] = [
    (None, "None of type NoneType, which says neither to act nor to end"),
    ("shop.find", "'shop.find' of type str, which says neither"),
    ({}, "{} of type dict, which says neither"),
    ({"tool": "a.b", "final_answer": 1}, "which says neither to act nor to end"),
    ({"mode": "wait"}, "the mode 'wait', which is neither act nor final"),
    ({"mode": "act", "actions": []}, "a decision to act without an action"),
    ({"mode": "act", "actions": "a.b"}, "'a.b' for actions"),
    ({"mode": "act", "actions": [{"args": {}}]}, "as an action, which names no tool"),
    ({"mode": "act", "actions": [7]}, "7 of type int as an action, which names no tool"),
    ({"tool": "a.b", "args": [1]}, "[1] as the arguments of a.b, which are no dict"),
    ({"tool": "a.b", "evidence_refs": "x"}, "as evidence_refs, which is not a list of ids"),
    ({"tool": "a.b", "evidence_refs": [1]}, "as evidence_refs, which is not a list of ids"),
    (Decision("act"), "a decision to act without an action"),
    (Decision("later", final_answer=1), "the mode 'later'"),  # pyright: ignore[reportArgumentType]
]


@pytest.mark.parametrize(("returned", "told"), UNREADABLE)
def test_what_is_no_decision_is_refused_by_name(returned: Any, told: str) -> None:
    """The error says what was returned, and what to return instead."""
    with pytest.raises(DecisionError) as error:
        read_decision(returned)
    assert told in error.value.message
    assert error.value.code == "decision_invalid"
    assert "Decision.act" in (error.value.remedy or "")


def test_arguments_are_given_once() -> None:
    """An action that has its arguments takes no others."""
    with pytest.raises(DecisionError, match="has its arguments already"):
        Decision.act(Action("a.b"), word="x")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (42, "decide returned 42 of type int"),
        (Decision.final(object()), "the final answer is not a JSON value: a object is no JSON value"),
        (Decision.final(float("nan")), "the final answer is not a JSON value"),
        (Decision.act("nowhere"), "write the tool as adapter.capability"),
        (Decision.act("desk.say", word={1, 2}), "a set is no JSON value"),
        (Decision.act("desk.say", word={"$ref": "x"}), "'$ref' is no reference"),
    ],
)
def test_a_bad_decision_is_planning_that_failed(line: Any, told: str) -> None:
    """The run goes on to decide again, with the reason in the prompt, and ends at a person when no try is left."""
    agent = Scripted([line], [counted("desk.say")[0]])
    result = run(agent)
    assert (result.stop_reason, result.steps) == (StopReason.ESCALATED, ())
    assert told in result.reason
    assert len(agent.prompts) == 6
    assert told in agent.prompts[1]
    assert agent.system_prompt == "You are a clerk."


def test_a_decide_that_raises_is_tried_again_and_then_handed_over() -> None:
    """Each failure is recorded with its code; what decide had changed is undone; the budget of re-plans ends it."""

    def fail(state: State) -> Any:
        state.at = 7
        raise ZeroDivisionError("no idea")

    clock = VirtualClock()
    engine = Engine(Scripted([fail]), clock=clock)

    async def story() -> tuple[Any, tuple[e.Event, ...]]:
        result = await engine.run("t")
        async with engine.runtime() as runtime:
            return result, (await load_history(runtime.journal, "default", result.session_id)).events

    result, events = play(story(), clock)
    failed = [event for event in events if isinstance(event, e.PlanningFailed)]
    assert [event.outcome for event in failed] == ["replan"] * 5 + ["escalate"]
    assert {(event.code, event.reason) for event in failed} == {
        ("decide_raised", "decide raised ZeroDivisionError: no idea")
    }
    assert (result.stop_reason, result.state.at) == (StopReason.ESCALATED, 0)


def test_an_agent_that_recovers_goes_on() -> None:
    """One bad decision costs a re-plan and nothing else."""
    agent = Scripted([])
    agent.script = [lambda _: 1 / 0 if not agent.prompts[1:] else Decision.final("sorry")]
    result = run(agent)
    assert (result.final_answer, actions(result)) == ("sorry", ["final"])


@pytest.mark.req("R303")
def test_critics_and_reducers_get_what_they_can_read() -> None:
    """The reducer gets the agent's own object back; critics get it where it has mode and answer, and else ours."""

    @dataclass
    class Own:
        mode: str
        final_answer: Any = None
        tool: str = ""

    shown: list[Any] = []
    reduced: list[Any] = []

    @critic
    def looking(state: Any, decision: Any, results: Any) -> Any:
        assert decision.mode in ("act", "final")
        shown.append((type(decision).__name__, decision.final_answer))
        return "continue"

    @dataclass
    class Keen(Scripted):
        def reduce(self, state: State, decision: Any, results: Any) -> None:
            reduced.append(decision)
            super().reduce(state, decision, results)

    script = [Own("act", tool="desk.say"), {"tool": "desk.say", "args": {"word": "b"}}, Own("final", "end")]
    assert run(Keen(script, [counted("desk.say")[0]]), [looking]).final_answer == "end"
    assert shown == [("Own", None), ("Decision", None), ("Own", "end")]
    assert reduced == script


class _Bare:
    tools = ()
    system_prompt = ""

    def init_state(self, task: Any) -> State:
        return State()

    def decide(self, state: Any) -> Any:
        return Decision.final()

    def reduce(self, state: Any, decision: Any, results: Any) -> None:
        pass


class _Streaming(_Bare):
    async def decide(self, state: Any) -> Any:
        yield 1


@pytest.mark.parametrize(
    ("agent", "told"),
    [
        (_Bare, "_Bare is a class, not an agent"),
        (object(), "object has no method init_state"),
        (type("Undecided", (_Bare,), {"decide": None})(), "Undecided has no method decide"),
        (type("Silent", (_Bare,), {"system_prompt": None})(), "Silent has no system_prompt"),
        (type("Bare", (_Bare,), {"tools": None})(), "Bare has no list of tools"),
        (_Streaming(), "_Streaming.decide is an async generator"),
    ],
)
def test_what_is_no_agent_is_refused_at_once(agent: Any, told: str) -> None:
    """An object that cannot be driven is refused before anything begins, and told what is missing."""
    with pytest.raises(UsageError) as error:
        Engine(agent)
    assert (error.value.code, error.value.message) == ("agent_invalid", told)
    assert error.value.remedy


def plain(word: str) -> str:
    """A function that nobody declared."""
    return word


@pytest.mark.parametrize(
    ("tool", "code", "remedy"),
    [
        (plain, "tool_undeclared", '@tool("adapter.plain", mode="read_only")'),
        (SimpleNamespace(name="a.b"), "tool_undeclared", "declare it with @tool"),
        ("shop.find", "tool_undeclared", "give the Engine a pack="),
        (
            counted("shop.pay", mode="destructive", gates=["GATE_FINANCE"])[0],
            "gate_undeclared",
            "a pack= that declares the gate",
        ),
    ],
)
def test_a_tool_without_a_mode_is_refused(tool: Any, code: str, remedy: str) -> None:
    """Nobody knows what an undeclared tool may touch, or who may approve one that waits for a gate of its own."""
    with pytest.raises(UsageError) as error:
        Engine(Scripted([], [tool]))
    assert error.value.code == code
    assert remedy in (error.value.remedy or "")


@pytest.mark.parametrize("task", [None, 7, ["a"], {"a": object()}, {1: "a"}])
def test_a_task_is_text_or_an_object(task: Any) -> None:
    """Anything else is refused, and nothing is started."""
    with pytest.raises(UsageError) as error:
        run(Scripted([Decision.final()]), task=task)
    assert error.value.code == "task_invalid"


def test_an_agent_that_cannot_begin_starts_nothing() -> None:
    """What init_state raises is told to the caller, and so is a state that cannot be gone back to."""

    @dataclass
    class Unable(Scripted):
        def init_state(self, task: Any) -> State:
            raise OSError("no desk")

    @dataclass
    class Stuck(Scripted):
        def init_state(self, task: Any) -> State:
            return State(task=(line for line in ()))

    with pytest.raises(UsageError, match="init_state raised OSError: no desk"):
        run(Unable([]))
    with pytest.raises(UsageError, match="the state State cannot be copied"):
        run(Stuck([]))


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"critics": [object()]}, "critic_invalid"),
        ({"stop": [object()]}, "criterion_invalid"),
        ({"hooks": [object()]}, "hook_invalid"),
        ({"journal": "paper:"}, "unknown_journal"),
    ],
)
def test_other_parts_are_looked_at_too(more: dict[str, Any], code: str) -> None:
    """A critic, a criterion, a hook or a journal that is none is refused by its code."""
    with pytest.raises(UsageError) as error:
        run(Scripted([Decision.final()]), **more)
    assert error.value.code == code


def test_a_tool_that_is_no_tool_of_the_agent_is_not_on_its_surface() -> None:
    """The pack that the Engine makes has the agent's tools and no others."""
    say, _ = counted("desk.say", broken)
    engine = Engine(Scripted([], [say]))
    assert [tool.name for tool in engine.pack.tools] == ["desk.say"]
    assert isinstance(engine.pack.tools[0], Tool)
    assert last(run(Scripted([act("a", "desk.pay"), Decision.final()], [say]))).action == "final"
