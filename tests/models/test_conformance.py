"""Every model but the local one passes the shipped suite; the local one has a module of its own."""

from __future__ import annotations

from decimal import Decimal

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tercet.contracts.prices import TokenPrices
from tercet.contracts.question import ModelFault, Question, Reply
from tercet.models.hosted import ProviderModel
from tercet.models.model import Model
from tercet.testing.model_suite import CASES, Case, ConformanceError, Subject, a_question_is_answered
from tercet.testing.models import ScriptedModel

PRICES = TokenPrices(input=Decimal(3), output=Decimal(15))


def _answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    return ModelResponse(parts=[TextPart('{"color": "red"}')])


def _open_scripted() -> Model:
    return ScriptedModel(answers=[{"color": "red"}] * 12, prices=PRICES)


def _open_function() -> Model:
    return ProviderModel("function:model", backend=FunctionModel(_answer), prices=PRICES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("open_one", [_open_scripted, _open_function], ids=["scripted", "function"])
async def test_conformance(open_one: type[Model], case: Case) -> None:
    """The model passes the case."""
    await case(Subject(open=open_one))


class Broken:
    """A model that breaks its promises in one way or another."""

    name = "broken"

    def __init__(self, reply: Reply | Exception) -> None:
        self._reply = reply

    def price(self, question: Question) -> int:
        """Nothing."""
        return 0

    async def ask(self, question: Question) -> Reply:
        """Break a promise."""
        if isinstance(self._reply, Exception):
            raise self._reply
        return self._reply


@pytest.mark.parametrize(
    "reply",
    [
        ValueError("not a fault"),
        ModelFault("never answers"),
        Reply(text="x", model="another"),
        Reply(text="x", model="broken", tokens_in=-1),
        Reply(text=" ", model="broken"),
    ],
    ids=["raises", "never answers", "another name", "counts below zero", "nothing"],
)
async def test_the_suite_finds_a_model_that_breaks_its_promises(reply: Reply | Exception) -> None:
    """The suite can fail."""
    with pytest.raises(ConformanceError):
        await a_question_is_answered(Subject(open=lambda: Broken(reply)))


async def test_a_script_is_followed_and_kept() -> None:
    """Texts, objects, faults and functions come in their order; after the last there is no answer."""
    fault = ModelFault("down", code="model_quota")
    model = ScriptedModel(answers=["a", {"b": 1}, fault, lambda question: question.purpose, ""])
    question = Question(purpose="plan")

    async def ask() -> list[str]:
        told: list[str] = []
        for _ in range(6):
            try:
                told.append((await model.ask(question)).text)
            except ModelFault as error:
                told.append(error.code)
        return told

    expected = ["a", '{"b":1}', "model_quota", "plan", "model_empty", "model_unavailable"]
    assert (await ask()) == expected
    assert (model.calls, model.questions) == (6, [question] * 6)


async def test_a_script_respects_the_longest_answer() -> None:
    """An answer that is too long is cut, and says so."""
    reply = await ScriptedModel(answers=["x" * 100]).ask(Question(max_tokens=2))
    assert (reply.text, reply.is_cut, reply.tokens_out) == ("x" * 8, True, 2)
