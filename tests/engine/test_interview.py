"""Planners that ask language models: what is kept, booked, recorded, tried again and never asked twice."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from tercet.contracts.plan import Plan
from tercet.contracts.question import Inquiry, Message, ModelFault, Question, Reply
from tercet.core import codec
from tercet.core import events as e
from tercet.core.config import RunConfig
from tercet.core.state import State
from tercet.engine.result import RunResult
from tercet.journal.opening import open_journal
from tercet.planner.sources import PlanningError
from tercet.runtime import Runtime

from .workshop import ADA, ASK, BOB, Death, Workshop

Answer = str | ModelFault | Callable[[Question], Any]

GOOD = json.dumps({"steps": [{"id": "a", "tool": "do.it", "params": {"n": 1}}]})
UNKNOWN = json.dumps({"steps": [{"id": "a", "tool": "do.not"}]})


class Scripted:
    """A model that answers what it was told to, one thing after the other."""

    def __init__(self, *answers: Answer, name: str = "test:one", price: int = 40) -> None:
        self.name = name
        self.answers = list(answers)
        self.questions: list[Question] = []
        self._price = price

    def price(self, question: Question) -> int:
        """What is kept for a question."""
        del question
        return self._price

    async def ask(self, question: Question) -> Reply:
        """The next answer."""
        self.questions.append(question)
        answer = self.answers.pop(0)
        if isinstance(answer, ModelFault):
            raise answer
        text = answer if isinstance(answer, str) else await answer(question)
        return Reply(text=text, model=self.name, tokens_in=20, tokens_out=10, cost_microcents=30)


class Thinker:
    """A planner that asks once and takes what it is given for a plan."""

    name = "thinker"

    def __init__(self, *models: Scripted, questions: int = 1) -> None:
        self.models = models
        self._questions = questions

    def inquire(self, config: RunConfig, state: State) -> Inquiry[Plan]:
        """Ask so many questions; the last answer is the plan."""
        del config
        text = ""
        for number in range(self._questions):
            told = Message(text=f"{number} {'; '.join(state.feedback)}")
            reply = yield Question(purpose="plan", system="plan", messages=(told,), max_tokens=50)
            text = reply.text
        try:
            return Plan.model_validate(json.loads(text))
        except ValueError as error:
            raise PlanningError(f"no plan: {error}", code="answer_not_a_plan") from error


def at_work(**header: Any) -> tuple[Workshop, Any]:
    """A workshop with one tool."""
    workshop = Workshop()
    workshop.tool("do.it", mode="read_only")
    return workshop, workshop.pack(**header)


async def events_of(runtime: Runtime, result: RunResult) -> list[e.Event]:
    """All that was recorded of a run."""
    stored = await runtime.journal.read("default", result.session_id)
    return [codec.decode(each.data) for each in stored]


@pytest.mark.req("R274")
def test_a_call_of_a_model_is_two_facts_and_is_paid_for() -> None:
    """What is asked lies beside the events under its hash, and what it took is in the budget."""
    workshop, pack = at_work()
    model = Scripted(GOOD)

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, planner=Thinker(model), actor=ADA)
            assert result.status == "completed"
            found = await events_of(runtime, result)
            [asked] = [event for event in found if isinstance(event, e.ModelAsked)]
            [answered] = [event for event in found if isinstance(event, e.ModelAnswered)]
            assert (asked.model, asked.purpose, asked.cost) == ("test:one", "plan", 40)
            assert answered.answer == GOOD
            kept = await runtime.journal.blob("default", asked.prompt)
            assert Question.model_validate_json(kept) == model.questions[0]
            used = (await runtime.state(result.session_id)).used
            assert (used.tokens, used.model_tokens, used.cost) == (30, 30, 30)
            assert (used.reserved_tokens, used.reserved_cost) == (0, 0)

    workshop.run(main())


@pytest.mark.req("R128", "R129")
def test_a_model_that_is_down_is_asked_again_and_then_another_one() -> None:
    """Each attempt is recorded, waits longer than the one before, and counts as a retry of the run."""
    workshop, pack = at_work(budget={"max_step_retries": 2})
    down = Scripted(*(ModelFault("no route") for _ in range(3)), name="test:down")
    spare = Scripted(GOOD, name="test:spare")

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, planner=Thinker(down, spare), actor=ADA)
            assert result.status == "completed"
            found = await events_of(runtime, result)
            asked = [event for event in found if isinstance(event, e.ModelAsked)]
            assert [event.model for event in asked] == ["test:down"] * 3 + ["test:spare"]
            assert [event.attempt for event in asked] == [1, 2, 3, 4]
            first, second = (asked[n + 1].at - asked[n].at for n in (0, 1))
            assert 0 < first < second
            assert (await runtime.state(result.session_id)).used.retries == 3

    workshop.run(main())


@pytest.mark.req("R129")
@pytest.mark.parametrize(
    ("fault", "calls"),
    [
        (ModelFault("wrong key", code="model_refused"), 1),
        (ModelFault("too late", code="model_timeout"), 1),
        (ModelFault("slow down", code="model_quota", wait_ms=7_000), 2),
        (ModelFault("come back tomorrow", code="model_quota", wait_ms=86_400_000), 1),
    ],
)
def test_what_another_call_would_not_mend_is_not_asked_again(fault: ModelFault, calls: int) -> None:
    """A model that refuses or is too late is left for the next one at once."""
    workshop, pack = at_work(budget={"max_step_retries": 1})
    first = Scripted(fault, fault, name="test:first")

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            spare = Scripted(GOOD, name="test:spare")
            assert (await runtime.run(ASK, planner=Thinker(first, spare), actor=ADA)).status == "completed"

    workshop.run(main())
    assert len(first.questions) == calls


def test_a_planner_that_gets_no_plan_tries_again_and_then_a_person_takes_over() -> None:
    """Prose, then a plan that the critic refuses, then prose again: the packet tells all of it."""
    workshop, pack = at_work(budget={"max_replans": 2})
    model = Scripted("I would rather not.", UNKNOWN, "Sorry.")

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, planner=Thinker(model), actor=ADA)
            assert (result.status, workshop.calls) == ("paused", [])
            assert result.gate is not None
            assert result.gate.kind == "escalation"
            packet = json.loads(await runtime.journal.blob("default", result.gate.shown["packet"]))
            told = [attempt["what"] for attempt in packet["attempts"]]
            assert told == [
                *("asked", "answered", "no_plan"),
                *("asked", "answered", "plan", "verdict"),
                *("asked", "answered", "no_plan"),
            ]
            assert packet["attempts"][1]["answer"] == "I would rather not."
            assert model.questions[2].messages[0].text.endswith("is not in the surface")

    workshop.run(main())


def test_a_person_may_let_the_planner_try_again() -> None:
    """After the hand-over a re-plan asks the model anew, with what the person said."""
    workshop, pack = at_work(budget={"max_replans": 0})
    model = Scripted(UNKNOWN, GOOD)

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            planner = Thinker(model)
            result = await runtime.run(ASK, planner=planner, actor=ADA)
            assert result.gate is not None
            await runtime.decide(result.gate.id, "replan", actor=BOB, note="take do.it")
            result = await runtime.resume(result.session_id, planner=planner)
            assert result.status == "completed"
            assert model.questions[1].messages[0].text == "0 take do.it"

    workshop.run(main())


@pytest.mark.parametrize(
    "header",
    [
        {"budget": {"tokens": 60}},
        {"budget": {"cost_microcents": 39}},
        {"limits": {"planner": {"tokens": 60}}},
    ],
)
def test_no_call_starts_that_the_budget_could_not_pay(header: dict[str, Any]) -> None:
    """The model is not asked, nothing is reserved, and a person is told what is short."""
    workshop, pack = at_work(**header)
    model = Scripted(GOOD, GOOD)

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, planner=Thinker(model, questions=2), actor=ADA)
            assert result.status == "paused"
            assert "are needed" in result.reason
            used = (await runtime.state(result.session_id)).used
            assert (used.reserved_tokens, used.reserved_cost) == (0, 0)
            budget = pack.budget
            assert used.tokens <= (budget.tokens or 60)
            assert used.cost <= (budget.cost_microcents or 10**9)

    workshop.run(main())
    assert len(model.questions) <= 1


async def test_a_model_that_is_too_late_is_given_up_and_counted() -> None:
    """Its call is cancelled, the reason is typed, and whoever resumes the session asks again."""
    _, pack = at_work(limits={"planner": {"timeout_ms": 20}}, budget={"max_replans": 1})
    was_cancelled = asyncio.Event()

    async def never(_: Question) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            was_cancelled.set()
        return ""

    async with Runtime(pack) as runtime:
        asking = Thinker(Scripted(never, GOOD))
        result = await runtime.run(ASK, planner=asking, actor=ADA)
        assert (result.status, result.code) == ("paused", "model_unavailable")
        result = await runtime.resume(result.session_id, planner=asking)
        assert result.status == "completed"
        codes = [
            event.code for event in await events_of(runtime, result) if isinstance(event, e.ModelAnswered)
        ]
        assert codes == ["model_timeout", ""]
    assert was_cancelled.is_set()


async def books_of(*answers: Any, **header: Any) -> tuple[int, int, list[str]]:
    """The tokens and the money that a run has used whose model answers so, and what became of each call."""
    workshop, pack = at_work(**{"budget": {"max_replans": 1}, **header})
    async with Runtime(pack, watchdog_ms=None) as runtime:
        asking = Thinker(Scripted(*answers))
        result = await runtime.run(ASK, planner=asking, actor=ADA)
        if result.code == "model_unavailable":
            result = await runtime.resume(result.session_id, planner=asking)
        assert (result.status, len(workshop.calls)) == ("completed", 1)
        used = (await runtime.state(result.session_id)).used
        assert (used.reserved_tokens, used.reserved_cost) == (0, 0)
        found = [event for event in await events_of(runtime, result) if isinstance(event, e.ModelAnswered)]
        return used.tokens, used.cost, [event.code for event in found]


async def test_an_answer_that_is_none_is_paid_for() -> None:
    """What the model says that it took is booked, also where there is nothing to read."""
    assert (await books_of(" ", GOOD)) == (60, 60, ["model_empty", ""])


async def test_a_call_that_is_too_late_counts_as_paid() -> None:
    """The provider may have worked for it: all that was kept for it is used up."""

    async def never(_: Question) -> str:
        await asyncio.Event().wait()
        return ""

    tokens, cost, codes = await books_of(never, GOOD, limits={"planner": {"timeout_ms": 20}})
    assert codes == ["model_timeout", ""]
    assert (tokens > 30 + 50, cost) == (True, 40 + 30)


async def test_what_a_model_reports_never_adds_to_a_budget() -> None:
    """A count below nothing is nothing."""

    class Generous(Scripted):
        async def ask(self, question: Question) -> Reply:
            reply = await super().ask(question)
            return reply.model_copy(update={"tokens_in": -9_000, "tokens_out": 5, "cost_microcents": -1})

    _, pack = at_work()

    async with Runtime(pack) as runtime:
        result = await runtime.run(ASK, planner=Thinker(Generous(GOOD)), actor=ADA)
        used = (await runtime.state(result.session_id)).used
        assert (result.status, used.tokens, used.cost) == ("completed", 5, 0)


async def test_a_model_that_cancels_itself_is_one_that_does_not_answer() -> None:
    """The run is not cancelled with it."""

    async def cancelled(_: Question) -> str:
        raise asyncio.CancelledError

    assert (await books_of(cancelled, GOOD)) == (30, 30, ["model_unavailable", ""])


def test_a_model_that_cannot_be_cancelled_is_left_behind() -> None:
    """The session does not wait for it for longer than it may."""
    is_over = asyncio.Event()

    async def deaf(_: Question) -> str:
        while not is_over.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await is_over.wait()
        return ""

    workshop, pack = at_work(limits={"planner": {"timeout_ms": 20}}, budget={"max_replans": 1})

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            asking = Thinker(Scripted(deaf, GOOD))
            result = await runtime.run(ASK, planner=asking, actor=ADA)
            assert result.code == "model_unavailable"
            result = await runtime.resume(result.session_id, planner=asking)
            assert result.status == "completed"
        is_over.set()

    workshop.run(main())


async def test_stopping_during_a_call_loses_nothing() -> None:
    """The session is paused at once, the call counts as paid, and a resume asks again."""
    _, pack = at_work()

    async with Runtime(pack) as runtime:

        async def stop(_: Question) -> str:
            runtime.stop()
            await asyncio.Event().wait()
            return ""

        planner = Thinker(Scripted(stop, GOOD))
        result = await runtime.run(ASK, planner=planner, actor=ADA)
        assert result.status == "paused"
        state = await runtime.state(result.session_id)
        assert state.used.reserved_tokens == 0
        assert state.used.tokens == planner.models[0].questions[0].reserved_tokens
        assert (await runtime.resume(result.session_id, planner=planner)).status == "completed"


@pytest.mark.parametrize("point", ["before_append", "after_append"])
@pytest.mark.parametrize("nth", range(1, 9))
def test_an_answer_that_was_recorded_is_never_asked_for_again(point: str, nth: int) -> None:
    """Whenever the process dies on the way to a plan of two questions, no recorded answer is paid for twice."""
    workshop, pack = at_work()
    model = Scripted(*([GOOD] * 4))
    planner = Thinker(model, questions=2)

    async def main() -> None:
        async with workshop.journal("memory:") as journal:
            death = Death(point, nth)
            async with workshop.runtime(pack, journal, crash=death) as first:
                await death.of(first.run(ASK, planner=planner, actor=ADA))
            async with workshop.runtime(pack, journal) as runtime:
                for row in await runtime.sessions():
                    await is_completed(runtime, row.session_id, planner)

    workshop.run(main())


async def is_completed(runtime: Runtime, session: str, planner: Thinker) -> None:
    """The session ends well, and everything that was asked is booked once."""
    result = await runtime.resume(session, planner=planner)
    assert result.status == "completed"
    found = await events_of(runtime, result)
    asked = [event for event in found if isinstance(event, e.ModelAsked)]
    answered = [event for event in found if isinstance(event, e.ModelAnswered)]
    assert len(answered) == 2
    assert len(planner.models[0].questions) <= len(asked) <= 3
    used = (await runtime.state(session)).used
    assert used.reserved_tokens == 0
    assert used.tokens == 60 + (len(asked) - len(answered)) * asked[0].tokens


@pytest.mark.parametrize("wish", ["pause", "cancel"])
async def test_a_wish_to_pause_or_end_does_not_wait_for_a_model(wish: str) -> None:
    """Another process says it while the model thinks: the call is given up, and the session does as it was told."""
    _, pack = at_work()

    async with (
        open_journal("memory:") as journal,
        Runtime(pack, journal) as carrying,
        Runtime(pack, journal) as other,
    ):
        is_asked = asyncio.Event()

        async def never(_: Question) -> str:
            is_asked.set()
            await asyncio.Event().wait()
            return ""

        run = asyncio.ensure_future(carrying.run(ASK, planner=Thinker(Scripted(never)), actor=ADA))
        await is_asked.wait()
        [row] = await other.sessions()
        speak = other.pause if wish == "pause" else other.cancel
        async with asyncio.timeout(600):
            await speak(row.session_id, actor=ADA)
            result = await run
        assert result.status == ("paused" if wish == "pause" else "cancelled")
        state = await other.state(row.session_id)
        assert (state.asking, state.used.reserved_tokens) == (None, 0)
