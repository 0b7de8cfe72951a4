"""Agents whose `decide` asks language models through the runtime: recorded, paid, and not asked twice."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tercet.contracts.errors import UsageError
from tercet.contracts.question import Message, ModelFault, Question, Reply
from tercet.core import events as e
from tercet.critics import Decision, Engine, Hook, MaxTokens, Moment, Stage, StopReason, critic
from tercet.engine.session_reader import load_history
from tercet.testing.clock import VirtualClock
from tercet.tools import Tool

from .bench import ADA, BOB, State, counted, play


@dataclass
class Parrot:
    """A model that gives the answers that it was taught, in their order."""

    answers: list[Any]
    name: str = "test:parrot"
    asked: list[Question] = field(default_factory=list[Question])

    def price(self, question: Question) -> int:
        """A little."""
        return 5

    async def ask(self, question: Question) -> Reply:
        """The next answer; a fault is raised."""
        self.asked.append(question)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return Reply(text=answer, model=self.name, tokens_in=10, tokens_out=4, cost_microcents=3)


@dataclass
class Asking:
    """Asks a model what to do, and does it."""

    tools: Sequence[Tool] = ()
    system_prompt: str = "Decide."

    def init_state(self, task: Any) -> State:
        """A fresh state."""
        return State(task)

    def decide(self, state: State) -> Generator[Question, Reply, Any]:
        """One question, one decision."""
        told = tuple(Message(text=json.dumps(each)) for each in state.seen)
        reply = yield Question(system=self.system_prompt, messages=(Message(text=str(state.task)), *told))
        return json.loads(reply.text)

    def reduce(self, state: State, decision: Any, results: Any) -> None:
        """Remember the results."""
        state.seen.append(results)


SAY = '{"tool": "desk.say", "args": {"word": "a"}}'
END = '{"final_answer": "b"}'


def test_a_model_decides_and_every_call_is_recorded() -> None:
    """Questions hold the agent's prompt; tokens and money are counted; the steps are as of any agent."""
    clock = VirtualClock()
    model = Parrot([SAY, END])
    engine = Engine(Asking([counted("desk.say")[0]]), models=[model], clock=clock)

    async def story() -> tuple[Any, tuple[e.Event, ...], Any]:
        result = await engine.run("t")
        async with engine.runtime() as runtime:
            events = (await load_history(runtime.journal, "default", result.session_id)).events
            return result, events, (await runtime.state(result.session_id)).used

    result, events, used = play(story(), clock)
    assert (result.final_answer, result.state.seen) == ("b", [[{"word": "a"}], []])
    assert [question.system for question in model.asked] == ["Decide.", "Decide."]
    assert model.asked[1].messages[1].text == '[{"word": "a"}]'
    assert sum(isinstance(event, e.ModelAnswered) for event in events) == 2
    assert (used.tokens, used.cost) == (28, 6)


def test_a_critics_patch_is_in_the_next_question() -> None:
    """The prompt is patched while the agent asks, and its own again afterwards."""

    @critic
    def loud(state: Any, decision: Any, results: Any) -> Any:
        return ("retry", "louder", "Shout.") if decision.final_answer == "b" else "continue"

    clock = VirtualClock()
    model = Parrot([END, '{"final_answer": "B"}'])
    agent = Asking()
    result = play(Engine(agent, [loud], models=[model], clock=clock).run("t"), clock)
    assert result.final_answer == "B"
    assert [question.system for question in model.asked] == ["Decide.", "Decide.\n\nShout."]
    assert agent.system_prompt == "Decide."


def test_prose_is_a_decision_that_failed() -> None:
    """An answer that cannot be read costs a re-plan, and the model is told why."""
    clock = VirtualClock()
    model = Parrot(["I think we should wait.", "{}", END])
    result = play(Engine(Asking(), models=[model], clock=clock).run("t"), clock)
    assert result.final_answer == "b"
    assert "decide raised JSONDecodeError" in model.asked[1].system
    assert "says neither to act nor to end" in model.asked[2].system


def test_a_model_that_does_not_answer_is_followed_by_the_next() -> None:
    """The second model is asked where the first is down; where none answers, the run is paused."""
    clock = VirtualClock()
    down = Parrot([ModelFault("down")] * 9, name="test:down")
    engine = Engine(Asking(), models=[down, Parrot([END])], clock=clock)
    assert play(engine.run("t"), clock).final_answer == "b"
    result = play(Engine(Asking(), models=[down], clock=clock).run("t"), clock)
    assert (result.stop_reason, result.final_answer) == (StopReason.PAUSED, None)
    assert "down" in result.reason


def test_an_agent_may_answer_for_a_model_that_is_down() -> None:
    """The fault is thrown into decide, which may know what to do without a model."""

    class Calm(Asking):
        def decide(self, state: State) -> Generator[Question, Reply, Any]:
            try:
                yield Question(system=self.system_prompt)
            except ModelFault as fault:
                return Decision.final(f"nobody answers: {fault.message}")

    clock = VirtualClock()
    result = play(Engine(Calm(), models=[Parrot([ModelFault("down")])], clock=clock).run("t"), clock)
    assert result.final_answer == "nobody answers: down"


def test_only_questions_are_asked() -> None:
    """Whatever else an agent yields is refused by name."""

    class Odd(Asking):
        def decide(self, state: State) -> Generator[Any, Reply, Any]:
            yield "what now?"

    clock = VirtualClock()
    result = play(Engine(Odd(), models=[Parrot([])], clock=clock).run("t"), clock)
    assert "decide yielded a str, which is not a Question" in result.reason


def test_tokens_of_models_count_for_the_criteria() -> None:
    """MaxTokens sees what the models took."""
    clock = VirtualClock()
    model = Parrot([SAY, SAY.replace("a", "c"), END])
    engine = Engine(Asking([counted("desk.say")[0]]), stop=[MaxTokens(20)], models=[model], clock=clock)
    result = play(engine.run("t"), clock)
    assert (result.stop_reason, len(result.steps)) == (StopReason.MAX_TOKENS, 2)


def test_an_agent_that_asks_needs_a_model() -> None:
    """Without one it is refused when the Engine is made."""
    with pytest.raises(UsageError) as error:
        Engine(Asking())
    assert error.value.code == "model_missing"


def test_a_model_is_not_asked_again_after_a_wait() -> None:
    """What a model decided before an approval stands, in another Engine too."""
    clock = VirtualClock()
    send, sent = counted("desk.send", mode="network")
    first = Parrot([SAY.replace("say", "send")])
    engine = Engine(Asking([send]), models=[first], clock=clock, actor=ADA)

    async def story() -> Any:
        waiting = await engine.run("t")
        async with engine.runtime() as runtime:
            await runtime.approve(waiting.gate.id if waiting.gate else "", actor=BOB)
            other = Engine(
                Asking([send]), models=[Parrot([END])], clock=clock, actor=ADA, journal=runtime.journal
            )
        return await other.resume(waiting.session_id)

    result = play(story(), clock)
    assert (result.final_answer, sent, len(first.asked)) == ("b", ["a"], 1)


def test_async_hooks_of_a_deciding_generator_are_awaited() -> None:
    """They are called in their order, and waited for before the results are taken in."""
    told: list[str] = []

    class Slow(Hook):
        async def before(self, stage: Stage, moment: Moment) -> None:
            told.append(f"before {stage}")

        async def after(self, stage: Stage, moment: Moment) -> None:
            told.append(f"after {stage}")

    clock = VirtualClock()
    play(Engine(Asking(), hooks=[Slow()], models=[Parrot([END])], clock=clock).run("t"), clock)
    stages = ("start", "decide", "act", "reduce", "critic", "check_stop", "end")
    assert told == [f"{when} {stage}" for stage in stages for when in ("before", "after")]
