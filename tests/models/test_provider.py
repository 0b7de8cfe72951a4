"""A model of any provider: what it is told, what comes back, and what it costs."""

from __future__ import annotations

import asyncio
import json
import sys
from decimal import Decimal
from typing import Any

import pytest
from pydantic_ai.exceptions import ContentFilterError, ModelHTTPError, UnexpectedModelBehavior, UserError
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ThinkingPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage

from tercet.contracts.errors import UsageError
from tercet.contracts.prices import TokenPrices
from tercet.contracts.question import Message, ModelFault, Question
from tercet.models.hosted import ProviderModel
from tercet.models.opening import open_model

QUESTION = Question(system="Plan.", messages=(Message(text="Refund order 7."),), max_tokens=100)
PRICES = TokenPrices(input=Decimal(3), output=Decimal(15))


def answering(*parts: TextPart | ThinkingPart, **fields: Any) -> FunctionModel:
    """A backend that always answers so."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=list(parts), **fields)

    return FunctionModel(answer)


def ask(backend: FunctionModel | TestModel, question: Question = QUESTION, **parts: Any) -> Any:
    """Ask a model that stands on this backend."""
    return asyncio.run(ProviderModel("function:model", backend=backend, **parts).ask(question))


def test_the_reply_carries_text_tokens_and_the_model_s_name() -> None:
    """Thoughts are left out; counts are the provider's."""
    usage = RequestUsage(input_tokens=20, output_tokens=5)
    reply = ask(answering(ThinkingPart("hm"), TextPart("a"), TextPart("b"), usage=usage))
    assert (reply.text, reply.model, reply.tokens_in, reply.tokens_out) == ("ab", "function:model", 20, 5)


def test_given_prices_decide_what_it_costs() -> None:
    """Three dollars a million in and fifteen out are 300 and 1,500 micro-cents a token."""
    usage = RequestUsage(input_tokens=20, output_tokens=5)
    reply = ask(answering(TextPart("ab"), usage=usage), prices=PRICES)
    assert reply.cost_microcents == 20 * 300 + 5 * 1_500


async def test_an_unknown_price_is_nothing() -> None:
    """A model that no list knows costs 0 and reserves 0."""
    model = ProviderModel("function:model", backend=answering(TextPart("x")))
    assert model.price(QUESTION) == 0
    assert (await model.ask(QUESTION)).cost_microcents == 0


def test_a_listed_price_is_known_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The price of a well-known model needs no network, and a longer answer may cost more."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    model = open_model("openai:gpt-4o")
    assert model.name == "openai:gpt-4o"
    assert 0 < model.price(QUESTION) < model.price(QUESTION.model_copy(update={"max_tokens": 200}))


def test_a_server_of_one_s_own_is_not_priced_as_the_model_it_is_named_after() -> None:
    """An address makes it another provider, even where the model's name is a well-known one."""
    model = ProviderModel("openai-compatible:gpt-4o@http://127.0.0.1:9/v1")
    assert model.price(QUESTION) == 0


def test_the_schema_counts_for_the_price() -> None:
    """Providers put the schema into the prompt, so it is reserved for."""
    model = ProviderModel("function:model", backend=answering(TextPart("x")), prices=PRICES)
    longer = QUESTION.model_copy(update={"answer_schema": {"enum": ["x" * 1_000]}})
    assert model.price(longer) >= model.price(QUESTION) + 500 * 300


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (ModelHTTPError(status_code=429, model_name="m"), "model_quota"),
        (ModelHTTPError(status_code=500, model_name="m"), "model_unavailable"),
        (ContentFilterError("no"), "model_refused"),
        (UnexpectedModelBehavior("odd"), "model_unavailable"),
        (UserError("wrong"), "model_refused"),
        (TimeoutError(), "model_timeout"),
        (ConnectionResetError("gone"), "model_unavailable"),
        (RecursionError("deep"), "model_unavailable"),
        (KeyError("choices"), "model_unavailable"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_whatever_a_library_raises_is_a_fault(raised: Exception, code: str) -> None:
    """No exception of a library's comes out as it is."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        raise raised

    with pytest.raises(ModelFault) as caught:
        ask(FunctionModel(answer))
    assert caught.value.code == code


def test_too_long_an_answer_is_not_handed_on() -> None:
    """The limit holds for backends whose bytes nobody counted."""
    with pytest.raises(ModelFault) as caught:
        ask(answering(TextPart("x" * 2_000)), max_answer_bytes=1_000)
    assert caught.value.code == "model_unavailable"


def test_turns_keep_their_order_and_sides() -> None:
    """Messages of one side in a row become one turn; the system's words are instructions."""
    seen: list[ModelMessage] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.extend(messages)
        return ModelResponse(parts=[TextPart("ok")])

    turns = (Message(text="a"), Message(text="b"), Message(role="assistant", text="c"), Message(text="d"))
    ask(FunctionModel(answer), Question(system="S", messages=turns))
    told = [(type(turn).__name__, [getattr(part, "content", None) for part in turn.parts]) for turn in seen]
    assert told == [("ModelRequest", ["a", "b"]), ("ModelResponse", ["c"]), ("ModelRequest", ["d"])]
    assert {turn.instructions for turn in seen if isinstance(turn, ModelRequest)} == {"S"}


def test_asking_with_a_schema_takes_the_backend_s_way() -> None:
    """Where a backend takes a schema it is handed over whole, else it is told in words; the question stays as it was."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    question = QUESTION.model_copy(update={"answer_schema": schema})
    before = question.hash
    told: list[str] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        told.append(f"{info.model_request_parameters.output_mode} {info.instructions}")
        return ModelResponse(parts=[TextPart('{"n": 1}')])

    ask(FunctionModel(answer, profile={"supports_json_schema_output": True}), question)
    ask(FunctionModel(answer, profile={"supports_json_schema_output": False}), question)
    assert told[0].startswith("native")
    assert told[1].startswith("prompted")
    assert '"integer"' in told[1]
    assert json.loads(ask(FunctionModel(answer), question).text) == {"n": 1}
    assert question.model_copy().hash == before


def test_pydantic_ai_s_test_model_can_be_asked() -> None:
    """Any model of pydantic-ai's can stand behind a name."""
    assert ask(TestModel(custom_output_text="hello")).text == "hello"


@pytest.mark.parametrize(
    ("name", "code", "remedy"),
    [
        ("", "unknown_model", "local"),
        ("gpt-5", "unknown_model", "openai:gpt-5"),
        (":", "unknown_model", "local"),
        ("openai:", "unknown_model", "openai:gpt-5"),
        ("nobody:gpt-5", "unknown_model", "openai-compatible"),
        ("local:gpt-5", "unknown_model", "local"),
        ("openai:gpt-5", "model_not_configured", "OPENAI_API_KEY"),
        ("deepseek:deepseek-chat", "model_not_configured", "DEEPSEEK_API_KEY"),
        ("openai-compatible:m", "unknown_model", "@http"),
        ("openai-compatible:m@", "unknown_model", "http://HOST"),
        ("openai-compatible:@http://127.0.0.1/v1", "unknown_model", "@http"),
        ("openai-compatible:m@ftp://127.0.0.1/v1", "unknown_model", "http://HOST"),
        ("openai-compatible:m@http://127.0.0.1:99999/v1", "unknown_model", "http://HOST"),
        ("openai-compatible:m@http://[::1/v1", "unknown_model", "http://HOST"),
        ("openai-compatible:m@http://h/v1?key=abc", "unknown_model", "OPENAI_COMPATIBLE_API_KEY"),
    ],
)
def test_a_wrong_name_is_answered_with_what_to_do(
    name: str, code: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that cannot be opened is wrong use, told when it is opened and not when it is asked."""
    for variable in ("OPENAI_API_KEY", "DEEPSEEK_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(UsageError) as caught:
        open_model(name)
    assert caught.value.code == code
    assert remedy in (caught.value.remedy or "")


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    """Names are recorded, so none may hold a secret."""
    with pytest.raises(UsageError) as caught:
        open_model("openai-compatible:m@http://ann:hunter2@h/v1")
    assert "hunter2" not in str(caught.value)


def test_a_provider_whose_library_is_missing_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    """The remedy is the command that installs it."""
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(UsageError) as caught:
        open_model("anthropic:claude-sonnet-4-5")
    assert caught.value.code == "extra_missing"
    assert caught.value.remedy == "pip install 'pydantic-ai-slim[anthropic]'"


async def test_a_key_that_vanished_is_a_fault_when_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking raises nothing but faults, also where the environment changed since the model was opened."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    model = open_model("openai:gpt-4o")
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(ModelFault) as caught:
        await model.ask(QUESTION)
    assert caught.value.code == "model_refused"
