"""What people who know the critic tutorial try next, as they would type it."""

# pyright: basic
# Written without annotations, as in a first script.

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from tercet import Actor, DecisionSpec, Pack, tool
from tercet.contracts.decision import RiskTier
from tercet.contracts.errors import UsageError
from tercet.contracts.runs.behaviour import CURRENT, Behaviour
from tercet.contracts.runs.budget import RunBudget
from tercet.critics import (
    CircuitBreaker,
    CriticResult,
    CriticReturnError,
    Decision,
    Engine,
    Hook,
    MaxSteps,
    ModelAgent,
    Stagnation,
    StopReason,
    critic,
)
from tercet.testing.models import ScriptedModel

from .bench import Scripted, act, actions, broken, counted, last, run


@tool("jobs.status", mode="read_only")
def status(job: str) -> dict:
    """How a job is doing."""
    return {"job": job, "status": "running"}


@tool("jobs.start", mode="network", no_compensation="for the test")
def start(job: str) -> dict:
    """Start a job."""
    return {"job": job, "status": "started"}


@dataclass
class Found:
    """A state that counts what was found."""

    orders: list = field(default_factory=list)
    metadata: dict = field(default_factory=dict)


class Enough:
    """Ends a run that has found what it needs."""

    def check(self, progress):
        return StopReason.FINAL if progress.state.at >= 2 else None


# --- stop criteria ---


@pytest.mark.req("R304")
def test_a_criterion_that_returns_final_ends_the_run():
    """The run is completed, without an answer, after the step at which the criterion was met."""
    say, calls = counted("desk.say")
    result = run(Scripted([act("a"), act("b"), act("c")], [say]), stop=[Enough(), MaxSteps(9)])
    assert (result.stop_reason, result.status, result.final_answer) == (StopReason.FINAL, "completed", None)
    assert (calls, actions(result)) == (["a", "b"], ["continue", "final"])
    assert result.state.stop_reason is StopReason.FINAL


def test_no_criterion_overrules_a_critic_that_wants_a_retry():
    """A step that a critic sends back is not the last one."""

    @critic
    def twice(state, decision, results):
        state.metadata["n"] = state.metadata.get("n", 0) + 1
        return ("retry", "again") if state.metadata["n"] == 2 else "continue"

    say, calls = counted("desk.say")
    result = run(Scripted([act("a"), act("b")], [say]), [twice], stop=[Enough(), MaxSteps(9)])
    assert actions(result) == ["continue", "retry", "final"]
    assert calls == ["a", "b", "b"]


def test_a_refused_decision_is_not_the_last_step():
    """A criterion cannot complete a run by a decision that was refused."""
    result = run(
        Scripted([act("a"), Decision.act("desk.unknown")], [counted("desk.say")[0]]), stop=[Enough()]
    )
    assert result.status != "completed"
    assert actions(result)[:2] == ["continue", "continue"]


def test_stagnation_looks_at_what_the_state_has_gained():
    """With a key, steps that differ but leave the value as it is are no progress."""
    say, _ = counted("desk.say")
    script = [act("a"), act("b"), act("c"), act("d"), act("e"), act("f")]
    agent = Scripted(script, [say])
    result = run(agent, stop=[Stagnation(window=3, key=lambda state: min(state.at, 2))])
    assert (result.stop_reason, len(result.steps)) == (StopReason.STAGNATION, 4)
    result = run(
        Scripted([*script, Decision.final("x")], [say]), stop=[Stagnation(3, key=lambda state: state.at)]
    )
    assert result.final_answer == "x"


# --- the tutorial's signatures ---


class Shop:
    """An agent with the signatures of the tutorial's framework."""

    tools = [status]
    system_prompt = ""

    def init_state(self, task):
        return Found()

    def decide(self, state, observation):
        if observation["action_results"]:
            return Decision.final(observation["action_results"][0]["status"])
        return Decision.act("jobs.status", job="j1")

    def reduce(self, state, observation, decision):
        if decision.mode == "act":
            state.orders.append(observation.action_results[0]["job"])
        return state


def test_decide_and_reduce_may_take_an_observation():
    """`decide` sees the results of the step before, and `reduce` those of this one."""
    result = run(Shop())
    assert (result.final_answer, result.state.orders) == ("running", ["j1"])


def test_an_observation_is_there_after_a_crash():
    """A resumed run decides with the results that were recorded."""

    class Slow(Shop):
        tools = [start]

        def decide(self, state, observation):
            if observation["action_results"]:
                return Decision.final(observation["action_results"][0]["status"])
            return Decision.act("jobs.start", job="j2")

    async def story():
        engine = Engine(Slow())
        waiting = await engine.run({"job": "j2"})
        async with engine.runtime() as runtime:
            assert waiting.gate is not None
            await runtime.approve(waiting.gate.id, actor=Actor(id="mara"))
        other = Engine(Slow(), journal=engine.journal)
        return await other.resume(waiting.session_id)

    assert asyncio.run(story()).final_answer == "started"


def test_a_decide_with_too_many_arguments_is_refused():
    """The message says which signatures are read."""

    class Odd(Shop):
        def decide(self, state, observation, more):
            return Decision.final()

    with pytest.raises(UsageError, match=r"decide\(state\) or decide\(state, observation\)"):
        Engine(Odd())


# --- critics ---


@critic(name="safety")
def never(state, decision, results):
    return "stop", "safety violation detected"


@pytest.mark.req("R288")
def test_a_critics_stop_can_end_the_run():
    """As a setting; otherwise the run is paused, and a person decides."""
    ended = run(Scripted([act("a")], [counted("desk.say")[0]]), [never], on_critic_stop="end")
    assert (ended.stop_reason, ended.status, ended.gate) == (StopReason.CRITIC_STOP, "failed", None)
    assert (actions(ended), last(ended).reason) == (["end"], "safety violation detected")
    assert ended.state.stop_reason is StopReason.CRITIC_STOP
    paused = run(Scripted([act("a")], [counted("desk.say")[0]]), [never])
    assert (paused.stop_reason, paused.status) == (StopReason.CRITIC_STOP, "paused")
    with pytest.raises(UsageError, match="pause or end"):
        Engine(Scripted([]), on_critic_stop="halt")  # pyright: ignore[reportArgumentType]


def test_a_result_is_a_dict_and_back():
    """Everything of it; a dict is checked as one that a critic returns."""
    result = CriticResult("retry", "too long", 0.4, {"n": 1}, "Be brief.", {"hint": "x"})
    told = result.to_dict()
    assert told["action"] == "retry"
    assert set(told) == {
        "action", "reason", "score", "details", "instruction_patch", "state_patch", "modified_prompt"
    }  # fmt: skip
    assert CriticResult.from_dict(told) == result
    assert CriticResult.from_dict({"action": "stop"}).action == "stop"
    told["details"]["n"] = 2
    assert result.details == {"n": 1}
    for wrong in (
        {"action": "halt"},
        {"reason": "x"},
        {"action": "stop", "score": 3},
        {"action": "stop", "x": 1},
    ):
        with pytest.raises(CriticReturnError):
            CriticResult.from_dict(wrong)


# --- tools ---


def test_the_circuit_breaker_is_set():
    """A tool that failed this often in a row is not called for this long."""
    say, calls = counted("desk.say", broken)
    result = run(
        Scripted([act(str(n)) for n in range(4)], [say]),
        stop=[MaxSteps(4)],
        breaker=CircuitBreaker(threshold=2),
    )
    assert (calls, last(result).results[0]["error_type"]) == (["0", "1"], "circuit_open")
    say, calls = counted("desk.say", broken)
    run(
        Scripted([act(str(n)) for n in range(9)], [say]),
        stop=[MaxSteps(9)],
        breaker=CircuitBreaker(threshold=20),
    )
    assert len(calls) == 9
    with pytest.raises(UsageError, match="threshold"):
        CircuitBreaker(threshold=0)


@pytest.mark.req("R304")
def test_a_hook_is_called_around_each_tool():
    """With the tool, its arguments, and what it brought."""
    calls = []

    class Watch(Hook):
        def before(self, stage, moment: Any):
            if stage == "tool":
                calls.append((moment.step, moment.call.tool, moment.call.args, moment.call.result))

        def after(self, stage, moment: Any):
            if stage == "tool":
                calls.append(moment.call.result)

    say, _ = counted("desk.say", lambda word: broken(word) if word == "b" else {"word": word})
    run(Scripted([act("a"), act("b"), Decision.final()], [say]), hooks=[Watch()])
    assert calls[:2] == [(1, "desk.say", {"word": "a"}, None), {"word": "a"}]
    assert calls[2] == (2, "desk.say", {"word": "b"}, None)
    assert "no line for b" in calls[3]["error"]


def test_a_hook_is_called_at_each_recovery():
    """When a decision could not be read and is made again, and when a call is made again."""
    seen = []

    def watch(stage, moment):
        if stage == "recovery":
            seen.append((moment.recovery.kind, moment.recovery.reason))

    run(Scripted([lambda state: "nonsense"], []), hooks=[watch])
    assert seen[0][0] == "decide"
    assert "nonsense" in seen[0][1]
    seen.clear()
    say, calls = counted("desk.say", broken)
    pack = Pack(
        name="desk",
        version="1.0.0",
        tools=[say],
        decisions=[DecisionSpec(id="greet", risk_tier=RiskTier.LOW)],
        budget=RunBudget(max_step_retries=2),
    )
    run(Scripted([act("a")], [say]), pack=pack, stop=[MaxSteps(1)], hooks=[watch])
    assert [kind for kind, _ in seen] == ["retry", "retry"]
    assert len(calls) == 3


def test_polling_is_allowed_where_the_agent_says_so():
    """A read that brings the same each time trips the loop guard, unless it is listed in `polls`."""

    class Waiting(Shop):
        polls = ["jobs.status"]

        def decide(self, state):
            return Decision.act("jobs.status", job="j1") if len(state.orders) < 8 else Decision.final("done")

        def reduce(self, state, decision, results):
            state.orders.extend(results)

    class Nervous(Waiting):
        polls = []

    assert run(Waiting()).final_answer == "done"
    results = [each for step in run(Nervous()).steps for each in step.results]
    assert "loop_guard" in [each.get("error_type") for each in results]


def test_only_reads_are_polled():
    """An effect is never repeated because an agent lists it; with a pack, its decision has the last word."""

    class Pushy(Shop):
        tools = [start]
        polls = ["jobs.start"]

    with pytest.raises(UsageError, match="no read_only tool"):
        Engine(Pushy())

    class Patient(Shop):
        polls = ["jobs.status"]

    decision = DecisionSpec(id="wait", risk_tier=RiskTier.LOW)
    pack = Pack(name="jobs", version="1.0.0", tools=[status], decisions=[decision])
    with pytest.raises(UsageError, match="does not let decision wait repeat"):
        Engine(Patient(), pack=pack)


# --- a model that decides ---


def test_a_model_decides_with_tools_and_history():
    """It is shown the tools, the task, and each step with its results."""
    say, calls = counted("desk.say")
    model = ScriptedModel(
        answers=[
            {"thought": "look", "tool": "desk.say", "args": {"word": "a"}},
            {"thought": "done", "final_answer": "It is a."},
        ]
    )
    agent = ModelAgent(tools=[say], system_prompt="You repeat words.")
    result = run(agent, models=[model], task="Say a.")
    assert (result.final_answer, calls) == ("It is a.", ["a"])
    first, second = model.questions
    assert first.system.startswith("You repeat words.")
    assert "desk.say" in first.system
    assert [message.role for message in second.messages] == ["user", "assistant", "user"]
    assert '"word": "a"' in second.messages[2].text
    assert result.steps[0].decision.rationale == "look"


def test_a_critic_guides_a_model():
    """An instruction is in the system prompt of the next question, and a refused answer is not in the history."""

    @critic
    def brief(state, decision, results):
        is_long = decision.mode == "final" and len(decision.final_answer) > 5
        return ("retry", "too long", "Keep it short.") if is_long else "continue"

    model = ScriptedModel(
        answers=[{"thought": "", "final_answer": "far too long"}, {"thought": "", "final_answer": "ok"}]
    )
    result = run(ModelAgent(), [brief], models=[model])
    assert result.final_answer == "ok"
    assert model.questions[1].system.startswith("Keep it short.")
    assert len(model.questions[1].messages) == 1


def test_several_calls_at_once():
    """A model may ask for several calls in one decision."""
    say, calls = counted("desk.say")
    both = [{"tool": "desk.say", "args": {"word": word}} for word in "ab"]
    model = ScriptedModel(answers=[{"thought": "", "actions": both}, {"thought": "", "final_answer": "x"}])
    assert run(ModelAgent(tools=[say]), models=[model]).final_answer == "x"
    assert sorted(calls) == ["a", "b"]


def test_what_a_model_says_is_read_or_refused():
    """Prose, a list and a cut answer cost a re-plan each, and an optional argument that is null is left out."""
    say, calls = counted("desk.say")
    null = {"thought": "", "decision": {"actions": [{"tool": "desk.say", "args": {"word": None}}]}}
    end = {"thought": "", "decision": {"final_answer": "x"}}
    model = ScriptedModel(answers=["Sure!", "[]", "a" * 5_000, null, end])
    agent = ModelAgent(tools=[say])
    assert run(agent, models=[model]).final_answer == "x"
    assert calls == [""]
    told = [question.system for question in model.questions[1:4]]
    assert ["is not JSON" in told[0], "is not a JSON object" in told[1], "was cut off" in told[2]] == [
        True
    ] * 3
    with pytest.raises(UsageError, match="its parameters are unknown"):
        ModelAgent(tools=["desk.say"])  # pyright: ignore[reportArgumentType]


def test_under_earlier_rules_neither_a_criterion_nor_a_poll_is_heeded(monkeypatch):
    """A session without rule 10 goes on as it began."""
    framed = Pack.run_context
    before = tuple(set(CURRENT) - {Behaviour.LONGER_RUNS})
    monkeypatch.setattr(
        Pack,
        "run_context",
        lambda self, **given: framed(self, **given).model_copy(update={"behaviour": before}),
    )
    say, _ = counted("desk.say")
    result = run(Scripted([act("a"), act("b"), act("c")], [say]), stop=[Enough(), MaxSteps(3)])
    assert result.stop_reason is StopReason.MAX_STEPS

    class Waiting(Shop):
        polls = ["jobs.status"]

        def decide(self, state, observation):
            return Decision.act("jobs.status", job="j1")

    results = [each for step in run(Waiting(), stop=[MaxSteps(5)]).steps for each in step.results]
    assert "loop_guard" in [each.get("error_type") for each in results]
