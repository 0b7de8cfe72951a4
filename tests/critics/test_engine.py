"""One step after the other: decide, act, reduce, critic, check_stop; what a retry undoes, and how a run ends."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from tercet.contracts.errors import NotDone, UsageError
from tercet.critics import (
    Action,
    CriticResult,
    Decision,
    Engine,
    MaxSteps,
    PassThroughCritic,
    Progress,
    SelfReflectionCritic,
    Stagnation,
    StopReason,
    critic,
)
from tercet.testing.clock import VirtualClock
from tercet.tools import tool

from .bench import Scripted, State, act, actions, broken, counted, last, play, run

DONE = Decision.final("done")


@pytest.mark.req("R286")
def test_a_run_goes_from_decision_to_answer() -> None:
    """The results of each decision reach the reducer, and the answer ends the run."""
    say, calls = counted("desk.say")
    result = run(Scripted([act("a"), act("b"), DONE], [say]))
    assert (result.final_answer, result.stop_reason, result.status) == ("done", StopReason.FINAL, "completed")
    assert (calls, actions(result)) == (["a", "b"], ["continue", "continue", "final"])
    assert result.state.seen == [[{"word": "a"}], [{"word": "b"}], []]
    assert (result.state.stop_reason, result.outputs) == (StopReason.FINAL, {"final_answer": "done"})
    assert [step.number for step in result.steps] == [1, 2, 3]
    assert result.gate is None
    assert result.record


def test_a_decision_may_hold_several_calls() -> None:
    """Each action is a call of its own, in no order, and the results come in the order of the actions."""
    say, calls = counted("desk.say")
    both = Decision.act(Action("desk.say", {"word": "a"}), Action("desk.say", {"word": "b"})).because("two")
    result = run(Scripted([both, DONE], [say]))
    assert (sorted(calls), result.state.seen[0]) == (["a", "b"], [{"word": "a"}, {"word": "b"}])
    assert result.steps[0].decision.rationale == "two"


def test_a_result_that_is_no_object_is_wrapped() -> None:
    """Critics and reducers get dicts, whatever a tool returns."""
    say, _ = counted("desk.say", len)
    assert run(Scripted([act("four"), DONE], [say])).state.seen[0] == [{"result": 4}]


def test_a_call_that_returns_an_empty_object_counts_as_done() -> None:
    """Reducer and critics get the empty result of a call that ran, not an error saying that it did not run."""
    shown: list[Any] = []

    @critic
    def watch(state: Any, decision: Any, results: Any) -> Any:
        shown.append(results)
        return "continue"

    say, calls = counted("desk.say", lambda _: {}, mode="local_write", no_compensation="stays")
    result = run(Scripted([act("a"), DONE], [say]), critics=[watch])
    assert (calls, result.state.seen[0], shown[0]) == (["a"], [{}], [{}])
    assert result.steps[0].results == ({},)


@pytest.mark.req("R289", "R292", "R301")
def test_a_retry_undoes_the_step_and_keeps_what_critics_wrote() -> None:
    """The state is the one before the step; the critic's metadata and its patch are there when deciding again."""

    @critic
    def once(state: Any, decision: Any, results: Any) -> Any:
        tries = state.metadata.get("tries", 0)
        state.metadata["tries"] = tries + 1
        if tries == 0:
            return CriticResult(
                "retry", "again", state_patch={"task": "patched", "metadata": {"by": "patch"}}
            )
        return "continue"

    @dataclass
    class Forgetful(Scripted):
        def reduce(self, state: State, decision: Any, results: Any) -> None:
            state.metadata["reduced"] = True
            super().reduce(state, decision, results)

    agent = Forgetful([act("a"), DONE], [counted("desk.say")[0]])
    result = run(agent, [once])
    first, again, _ = agent.met
    assert (first.at, first.metadata, first.task) == (0, {}, "a task")
    assert (again.at, again.metadata, again.task) == (0, {"tries": 1, "by": "patch"}, "patched")
    assert [(step.action, step.attempt) for step in result.steps][:2] == [("retry", 1), ("continue", 2)]
    assert result.state.metadata == {"tries": 3, "by": "patch", "reduced": True}


@pytest.mark.req("R290", "R291")
def test_a_prompt_patch_lasts_until_a_step_is_accepted() -> None:
    """A replaced prompt stays through retries without one, is replaced by the next, and ends with an accepted step."""
    answers: list[Any] = [
        CriticResult("retry", "r1", modified_prompt="Other."),
        ("retry", "r2"),
        CriticResult("retry", "r3", instruction_patch="Brief."),
        "continue",
    ]

    @critic
    def listed(state: Any, decision: Any, results: Any) -> Any:
        state.metadata["n"] = state.metadata.get("n", 0) + 1
        return answers[min(state.metadata["n"] - 1, 3)]

    agent = Scripted([lambda s: act(str(s.metadata.get("n"))), DONE], [counted("desk.say")[0]])
    run(agent, [listed])
    own = "You are a clerk."
    assert agent.prompts == [own, "Other.", "Other.", f"{own}\n\nBrief.", own]


def test_a_prompt_of_the_class_is_the_classes_again() -> None:
    """A patched prompt leaves nothing behind on an agent whose prompt is its class's."""

    class Classy(Scripted):
        system_prompt = "Ours."  # pyright: ignore[reportIncompatibleVariableOverride]

    agent = Classy([DONE])
    del agent.__dict__["system_prompt"]

    @critic
    def twice(state: Any, decision: Any, results: Any) -> Any:
        state.metadata["n"] = state.metadata.get("n", 0) + 1
        return ("retry", "once more", "Now.") if state.metadata["n"] < 2 else "continue"

    run(agent, [twice])
    assert agent.prompts == ["Ours.", "Ours.\n\nNow."]
    assert "system_prompt" not in vars(agent)


@pytest.mark.req("R288")
def test_a_stop_halts_at_once() -> None:
    """No critic, no criterion and no decision comes after a stop; the state says why."""
    asked: list[str] = []

    @critic
    def never(state: Any, decision: Any, results: Any) -> Any:
        asked.append("never")
        return "continue"

    @critic
    def halt(state: Any, decision: Any, results: Any) -> Any:
        return "stop", "enough"

    agent = Scripted([act("a"), DONE], [counted("desk.say")[0]])
    result = run(agent, [halt, never], stop=[MaxSteps(1)])
    assert (result.stop_reason, result.state.stop_reason) == (StopReason.CRITIC_STOP, StopReason.CRITIC_STOP)
    assert (asked, len(agent.met), last(result).reason) == ([], 1, "enough")
    assert (result.final_answer, result.status) == (None, "paused")


def test_a_critic_that_raises_hands_the_run_over_with_its_name() -> None:
    """A broken critic has judged nothing: the step is not passed, and a person is told who broke."""

    @critic(name="auditor")
    def auditor(state: Any, decision: Any, results: Any) -> Any:
        raise LookupError("no ledger")

    result = run(Scripted([DONE]), [PassThroughCritic(), auditor])
    assert (result.stop_reason, result.final_answer) == (StopReason.CRITIC_ESCALATE, None)
    assert (last(result).action, last(result).critics[-1].critic) == ("escalate", "auditor")
    assert result.gate is not None
    assert result.gate.kind == "escalation"
    assert result.gate.shown["reason"] == "auditor raised LookupError: no ledger"


@pytest.mark.req("R297")
@pytest.mark.parametrize("retries", [0, 1, 3])
def test_a_tool_that_always_raises_is_stopped_after_the_retries(retries: int) -> None:
    """SelfReflectionCritic stops a run whose read fails each time: one call, and one for each retry."""
    say, calls = counted("desk.say", broken)
    result = run(Scripted([act("a")], [say]), [SelfReflectionCritic(max_retries=retries)])
    assert (result.stop_reason, len(calls)) == (StopReason.CRITIC_STOP, retries + 1)
    assert actions(result) == ["retry"] * retries + ["stop"]
    (error,) = last(result).results
    assert error == {"error": "desk.say raised ConnectionError: no line for a", "error_type": "raised"}


def test_an_effect_is_not_repeated_by_a_retry() -> None:
    """A critic cannot undo the world: the step stays, the agent decides again, and the same action is refused."""
    write, calls = counted("desk.write", mode="local_write")

    @critic
    def unhappy(state: Any, decision: Any, results: Any) -> Any:
        state.metadata["n"] = state.metadata.get("n", 0) + 1
        return ("retry", "do it better") if state.metadata["n"] == 1 else "continue"

    same = act("a", "desk.write")
    result = run(Scripted([same, same, DONE], [write]), [unhappy])
    assert (calls, actions(result)) == (["a"], ["replan", "continue", "final"])
    assert result.state.at == 3  # the step with the effect was not undone
    (refused,) = result.steps[1].results
    assert refused["error_type"] == "duplicate_action"


def test_an_effect_that_did_not_happen_may_be_tried_again() -> None:
    """A tool that knows that nothing happened says so, and the same action is called again."""
    tries: list[str] = []

    def flaky(word: str) -> Any:
        tries.append(word)
        if len(tries) == 1:
            raise NotDone("the pen is dry")
        return {"written": word}

    write, _ = counted("desk.write", flaky, mode="local_write")
    result = run(Scripted([act("a", "desk.write"), DONE], [write]), [SelfReflectionCritic()])
    assert (tries, actions(result)) == (["a", "a"], ["retry", "continue", "final"])


@pytest.mark.req("R304")
def test_no_retry_is_left_behind_the_budget_of_the_run() -> None:
    """A critic that never counts is stopped by the run's own budget of retries, and a person is asked."""

    @critic
    def stubborn(state: Any, decision: Any, results: Any) -> Any:
        return "retry", "not yet"

    result = run(Scripted([DONE]), [stubborn], stop=[MaxSteps(1_000)])
    assert (result.stop_reason, result.final_answer) == (StopReason.RETRIES_EXHAUSTED, None)
    assert actions(result) == ["retry"] * 50 + ["escalate"]
    assert last(result).reason == "not yet; and no retry is left"


@pytest.mark.req("R304")
def test_criteria_end_a_run_that_goes_on() -> None:
    """An agent without end is stopped by MaxSteps, and a retried step counts like any other."""
    say, calls = counted("desk.say")
    endless = Scripted([lambda s: act(str(s.at))], [say])
    result = run(endless, stop=[MaxSteps(4)])
    assert (result.stop_reason, result.status, len(calls)) == (StopReason.MAX_STEPS, "failed", 4)
    assert (actions(result)[-1], result.state.stop_reason) == ("limit", StopReason.MAX_STEPS)

    @critic
    def stubborn(state: Any, decision: Any, results: Any) -> Any:
        return "retry", "not yet"

    result = run(Scripted([DONE]), [stubborn], stop=[MaxSteps(3)])
    assert (actions(result), result.final_answer) == (["retry", "retry", "limit"], None)


def test_an_agent_without_end_has_a_limit_by_itself() -> None:
    """Where nobody gives criteria, fifty steps are enough."""
    say, calls = counted("desk.say")
    result = run(Scripted([lambda s: act(str(s.at))], [say]))
    assert (result.stop_reason, len(calls)) == (StopReason.MAX_STEPS, 50)


def test_an_answer_at_the_limit_is_an_answer() -> None:
    """A criterion does not take away what the critics let pass."""
    assert run(Scripted([DONE]), stop=[MaxSteps(1)]).final_answer == "done"


def test_stagnation_is_seen() -> None:
    """The same decision with the same result twice is no progress."""
    result = run(Scripted([act("a")], [counted("desk.say")[0]]), stop=[Stagnation(window=2)])
    assert (result.stop_reason, len(result.steps)) == (StopReason.STAGNATION, 2)


def test_a_criterion_that_raises_hands_the_run_over() -> None:
    """A broken criterion neither ends a run nor lets it go on."""

    class Odd:
        def check(self, progress: Progress) -> StopReason | None:
            return StopReason("because")

    result = run(Scripted([act("a")], [counted("desk.say")[0]]), stop=[Odd()])
    assert (result.stop_reason, actions(result)) == (StopReason.ESCALATED, ["escalate"])
    assert "the stop criterion Odd raised ValueError" in result.reason


def test_the_same_call_with_the_same_result_trips_the_loop_guard() -> None:
    """The third time, the agent is told so instead of a result."""
    say, _ = counted("desk.say")
    result = run(Scripted([act("a"), act("a"), act("a"), DONE], [say]))
    (told,) = result.steps[2].results
    assert (told["error_type"], result.final_answer) == ("loop_guard", "done")


def test_a_step_that_a_critic_discards_does_not_count_for_the_loop_guard() -> None:
    """Such steps belong to the budget of retries: the same read may be tried again and again, as long as that lasts."""
    say, calls = counted("desk.say")

    @critic
    def patient(state: Any, decision: Any, results: Any) -> Any:
        state.metadata["n"] = state.metadata.get("n", 0) + 1
        return ("retry", "look again") if state.metadata["n"] < 6 else "continue"

    result = run(Scripted([act("a"), DONE], [say]), [patient])
    assert (len(calls), result.final_answer) == (6, "done")
    assert [each.results for each in result.steps[:6]] == [({"word": "a"},)] * 6


def test_a_refused_decision_is_told_to_the_agent() -> None:
    """What the review refuses comes back as a result with its code and what to do, and nothing was called."""
    say, calls = counted("desk.say")
    result = run(Scripted([act("a", "desk.sya"), act("b"), DONE], [say]))
    (told,) = result.steps[0].results
    assert (told["error_type"], result.final_answer, calls) == ("tool_not_surfaced", "done", ["b"])
    assert told["error"] == "plan step 0 calls desk.sya which is not in the surface"
    assert told["remedy"] == "substitute a tool of this run: desk.say"


def test_a_decision_that_is_refused_again_and_again_goes_to_a_person() -> None:
    """When the re-plans are used up, the run is handed over with the whole story."""
    result = run(Scripted([act("a", "desk.sya")], [counted("desk.say")[0]]))
    assert (result.stop_reason, len(result.steps), last(result).action) == (StopReason.REFUSED, 6, "open")
    assert result.gate is not None
    assert result.gate.kind == "escalation"


def test_an_agent_whose_reducer_raises_is_handed_over() -> None:
    """What cannot be taken in is a person's matter, named, and the state is the one before."""

    @dataclass
    class Clumsy(Scripted):
        def reduce(self, state: State, decision: Any, results: Any) -> None:
            state.at = 99
            raise KeyError("page")

    result = run(Clumsy([act("a")], [counted("desk.say")[0]]))
    assert (result.stop_reason, result.state.at) == (StopReason.AGENT_RAISED, 0)
    assert last(result).reason == "reduce raised KeyError: 'page'"


def test_a_patch_that_cannot_be_applied_is_the_critics_fault() -> None:
    """A state that takes no such attribute ends in an escalation that names the critic."""

    @dataclass(slots=True)
    class Tight:
        metadata: dict[str, Any] = field(default_factory=dict[str, Any])

    @dataclass
    class Slotted(Scripted):
        def init_state(self, task: Any) -> Any:
            return Tight()

        def decide(self, state: Any) -> Any:
            return DONE

        def reduce(self, state: Any, decision: Any, results: Any) -> None:
            pass

    @critic(name="patcher")
    def patcher(state: Any, decision: Any, results: Any) -> Any:
        return CriticResult("retry", "patch", state_patch={"hint": 1})

    result = run(Slotted([]), [patcher])
    assert result.stop_reason is StopReason.CRITIC_ESCALATE
    assert last(result).reason.startswith(
        "what patcher asks for cannot be done: state_patch cannot set 'hint'"
    )


def test_a_prompt_that_cannot_be_set_is_told_when_a_critic_wants_it() -> None:
    """An agent with a fixed prompt runs, and a critic that patches it is named."""

    class Fixed:
        tools = ()

        @property
        def system_prompt(self) -> str:
            return "Fixed."

        def init_state(self, task: Any) -> State:
            return State()

        def decide(self, state: State) -> Decision:
            return DONE

        def reduce(self, state: State, decision: Any, results: Any) -> None:
            pass

    @critic(name="teacher")
    def teacher(state: Any, decision: Any, results: Any) -> Any:
        return "retry", "louder", "Speak up."

    assert run(Fixed()).final_answer == "done"
    result = run(Fixed(), [teacher])
    assert result.stop_reason is StopReason.CRITIC_ESCALATE
    assert "the system prompt of Fixed cannot be set" in last(result).reason


def test_everything_may_be_async_and_states_may_be_returned() -> None:
    """Each method of an agent may be awaited, and a reducer may bring a new state."""
    say, _ = counted("desk.say")

    class Awaited:
        tools = (say,)
        system_prompt = ""

        async def init_state(self, task: Any) -> Any:
            return SimpleNamespace(n=0, task=task)

        async def decide(self, state: Any) -> Any:
            return act("a") if state.n == 0 else DONE

        async def reduce(self, state: Any, decision: Any, results: Any) -> Any:
            return SimpleNamespace(n=state.n + 1, task=state.task)

    @critic
    async def calm(state: Any, decision: Any, results: Any) -> Any:
        return "continue"

    result = run(Awaited(), [calm, SelfReflectionCritic()], task={"order": "o1"})
    assert (result.final_answer, result.state.n, result.state.task) == ("done", 2, {"order": "o1"})


def test_what_is_done_to_results_does_not_change_the_record() -> None:
    """A reducer that takes results apart takes a copy apart, and critics see them whole."""
    seen: list[Any] = []

    @dataclass
    class Greedy(Scripted):
        def reduce(self, state: State, decision: Any, results: Any) -> None:
            super().reduce(state, decision, results.pop() if results else None)

    @critic
    def looking(state: Any, decision: Any, results: Any) -> Any:
        seen.append(list(results))
        return "continue"

    result = run(Greedy([act("a"), DONE], [counted("desk.say")[0]]), [looking])
    assert seen[0] == [{"word": "a"}]
    assert result.steps[0].results == ({"word": "a"},)


def test_an_agent_works_for_one_run_at_a_time() -> None:
    """A second run of the same agent object is refused while the first is at work, and possible afterwards."""
    clock = VirtualClock()
    agent = Scripted([act("a"), DONE], [])
    refused: list[UsageError] = []

    async def busy(word: str) -> Any:
        with pytest.raises(UsageError) as error:
            await Engine(agent, clock=clock).run("another")
        refused.append(error.value)
        return {}

    agent.tools = [tool("desk.say", mode="read_only")(busy)]
    engine = Engine(agent, clock=clock)
    assert play(engine.run("one"), clock).final_answer == "done"
    assert [error.code for error in refused] == ["agent_busy"]
    assert play(engine.run("two"), clock).final_answer == "done"


def test_engines_with_agents_of_their_own_run_side_by_side() -> None:
    """Two agents on one journal do not meet."""
    clock = VirtualClock()
    one, two = (Scripted([act(name), Decision.final(name)], [counted("desk.say")[0]]) for name in "ab")

    async def both() -> list[Any]:
        engines = [Engine(agent, clock=clock) for agent in (one, two)]
        return await asyncio.gather(*(engine.run("t") for engine in engines))

    assert [result.final_answer for result in play(both(), clock)] == ["a", "b"]
