"""The conformance suite that every model passes: providers', the local one, scripted ones, and yours.

A case is a coroutine function that takes a `Subject` and raises `ConformanceError` if the model fails it. No case
depends on the content of an answer. With pytest:

    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
    def test_conformance(case: Case) -> None:
        asyncio.run(case(Subject(open=open_mine)))
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeAlias

from tercet.contracts.question import Message, ModelFault, Question, Reply
from tercet.models.model import Model
from tercet.testing.expectation import ConformanceError, expect

__all__ = ["CASES", "Case", "ConformanceError", "Subject"]

_PATIENCE_S = 120.0


@dataclass(frozen=True, kw_only=True)
class Subject:
    """How to open the model. It must be able to answer a dozen questions."""

    open: Callable[[], Model]


Case: TypeAlias = Callable[[Subject], Coroutine[Any, Any, None]]
"""One test of the suite; it raises `ConformanceError` where a model falls short."""

_SCHEMA = {
    "type": "object",
    "properties": {"color": {"enum": ["red", "green"]}},
    "required": ["color"],
    "additionalProperties": False,
}


def _question(text: str = "Name a color.", **parts: Any) -> Question:
    fields: dict[str, Any] = {"max_tokens": 32, "seed": 1, **parts}
    return Question(messages=(Message(text=text),), **fields)


async def _settle(call: Awaitable[Reply]) -> Reply | ModelFault:
    """Return a reply or a fault; anything else, or a late answer, is an error."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            return await call
    except ModelFault as fault:
        return fault
    except Exception as error:
        raise ConformanceError(
            f"{type(error).__name__} was raised, which is not a ModelFault: {error}"
        ) from error


def _check(model: Model, settled: Reply | ModelFault) -> None:
    if isinstance(settled, ModelFault):
        return
    expect("the reply's model", settled.model, model.name)
    counts = (settled.tokens_in, settled.tokens_out, settled.cost_microcents)
    expect("counts below zero", [count for count in counts if count < 0], [])
    if not settled.text.strip():
        raise ConformanceError("a reply without text, where a fault was due")
    settled.text.encode()


async def a_question_is_answered(subject: Subject) -> None:
    """A plain question and one with a schema each get a reply whose counts are in order."""
    model = subject.open()
    for question in (_question(system="You are brief."), _question(answer_schema=_SCHEMA)):
        settled = await _settle(model.ask(question))
        if isinstance(settled, ModelFault):
            raise ConformanceError(f"no reply, but {settled.code}: {settled}")
        _check(model, settled)


async def a_conversation_is_taken(subject: Subject) -> None:
    """Turns of both sides, and several of one side in a row, are accepted."""
    model = subject.open()
    turns = (
        Message(text="Name a color."),
        Message(role="assistant", text="Blue."),
        Message(text="Not that one."),
        Message(text="Another."),
    )
    _check(model, await _settle(model.ask(Question(system="Be brief.", messages=turns, max_tokens=16))))


async def unusual_questions_are_answered_or_refused(subject: Subject) -> None:
    """No message at all, other alphabets, one token of answer: a reply or a `ModelFault`, and nothing else."""
    model = subject.open()
    unusual = (
        Question(system="Say something.", max_tokens=8),
        _question("Добрый день 🙂 \0 \x1b[0m", max_tokens=8),
        _question(max_tokens=1),
        _question(temperature=1.5, seed=None, max_tokens=8),
    )
    for question in unusual:
        _check(model, await _settle(model.ask(question)))


async def two_may_ask_at_once(subject: Subject) -> None:
    """Two questions asked at once are both answered."""
    model = subject.open()
    settled = await asyncio.gather(*(_settle(model.ask(_question(max_tokens=8))) for _ in range(2)))
    for each in settled:
        _check(model, each)
    faults = [each.code for each in settled if isinstance(each, ModelFault)]
    expect("faults of two who asked at once", faults, [])


async def a_cancelled_question_leaves_the_model_usable(subject: Subject) -> None:
    """Cancelling, at once or on the way, is not turned into a fault, and the next question is answered."""
    model = subject.open()
    for delay_s in (0.0, 0.3):
        task = asyncio.ensure_future(_settle(model.ask(_question("Tell a long story.", max_tokens=2_000))))
        await asyncio.wait([task], timeout=delay_s)
        task.cancel()
        await asyncio.wait([task], timeout=_PATIENCE_S)
        if not task.done():
            raise ConformanceError("a cancelled question did not end")
        if not task.cancelled() and isinstance(task.result(), ModelFault):
            raise ConformanceError(f"cancelling became a fault: {task.result()}")
    again = await _settle(model.ask(_question(max_tokens=8)))
    if isinstance(again, ModelFault):
        raise ConformanceError(f"after a cancelled question: {again.code}: {again}")


async def a_price_is_an_upper_bound(subject: Subject) -> None:
    """The reserved price is at least the charged one, and computing a price makes no call."""
    model = subject.open()
    question = _question(answer_schema=_SCHEMA)
    bound = model.price(question)
    expect(
        "whether the price is a whole number of micro-cents, and none below zero",
        (type(bound), bound >= 0),
        (int, True),
    )
    settled = await _settle(model.ask(question))
    if isinstance(settled, Reply) and settled.cost_microcents > bound:
        raise ConformanceError(f"it cost {settled.cost_microcents} micro-cents, where {bound} were the most")


CASES: tuple[Case, ...] = (
    a_question_is_answered,
    a_conversation_is_taken,
    unusual_questions_are_answered_or_refused,
    two_may_ask_at_once,
    a_cancelled_question_leaves_the_model_usable,
    a_price_is_an_upper_bound,
)
"""Every test of the suite."""
