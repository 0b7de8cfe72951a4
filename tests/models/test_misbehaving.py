"""Whatever a provider's server does, a typed fault or a reply comes out, and nothing secret with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tercet.contracts.question import Message, ModelFault, Question, Reply
from tercet.models.hosted import ProviderModel

from .misbehaving import KEY, WAYS, Misbehaving, misbehaving

QUESTION = Question(
    system="You plan.", messages=(Message(text="Name a color."),), answer_schema={"type": "object"}, seed=3
)

FAULTS = {
    "model_unavailable": [
        "error_500", "error_503", "error_in_words", "half_json", "no_json", "a_list", "null", "another_shape",
        "plain_text", "no_utf8", "deep", "ten_megabytes", "closes_at_once", "closes_in_the_middle", "never_ends", "no_http",
        "no_choices", "null_choices", "no_numbers",
    ],
    "model_quota": ["error_429", "quota", "error_402"],
    "model_refused": [
        "error_401", "error_403", "error_404", "error_400", "error_418", "too_long_for_it", "llama_too_long", "filtered",
        "refusal", "redirect", "not_modified",
    ],
    "model_timeout": ["error_408", "drips", "hangs"],
    "model_empty": ["empty_text", "null_text", "blank_text", "thinks_only"],
}  # fmt: skip
REPLIES = ["well", "prose", "cut", "bad_usage", "no_usage", "surrogate", "wrong_type"]


def run(test: Callable[[Misbehaving], Awaitable[None]]) -> None:
    """Run a test beside the server; one that hangs is ended."""

    async def beside() -> None:
        async with asyncio.timeout(600), misbehaving() as server:
            await test(server)

    asyncio.run(beside())


def open_at(server: Misbehaving, way: str, **parts: Any) -> ProviderModel:
    """A model whose server misbehaves in this way."""
    return ProviderModel(f"openai-compatible:m@{server.url(way)}", api_key=KEY, **parts)


def whole_text(fault: ModelFault) -> str:
    """All that a fault could show anybody, its traceback's causes included."""
    assert fault.__cause__ is None
    assert fault.__suppress_context__
    return f"{fault} {fault.message} {fault.remedy} {fault.args}"


def test_every_way_is_expected_to_end_somehow() -> None:
    """Each way of the server is tried below."""
    assert sorted([*(way for ways in FAULTS.values() for way in ways), *REPLIES]) == sorted([*WAYS, "hangs"])


async def fault_of(model: ProviderModel) -> ModelFault:
    """Ask a model that fails; return how."""
    with pytest.raises(ModelFault) as caught:
        await model.ask(QUESTION)
    return caught.value


@pytest.mark.parametrize(("code", "way"), [(code, way) for code, ways in FAULTS.items() for way in ways])
def test_a_broken_answer_is_a_typed_fault(code: str, way: str) -> None:
    """Each way to fail has its code, one request was made, and neither key nor header is in the text."""

    async def ask(server: Misbehaving) -> None:
        timeouts_s = iter((0.5, 5, 50) if way in ("drips", "hangs") else (600,))
        caught = await fault_of(open_at(server, way, timeout_s=next(timeouts_s)))
        while not server.heads:  # on a busy machine the time may be over before the request has arrived
            caught = await fault_of(open_at(server, way, timeout_s=next(timeouts_s)))
        assert caught.code == code
        assert caught.is_retriable == (code != "model_refused")
        text = whole_text(caught)
        assert KEY not in text
        assert KEY[3:] not in text
        assert "example.invalid" not in text
        assert len(text) < 1_000
        assert len(server.heads) == 1

    run(ask)


@pytest.mark.filterwarnings("ignore::pydantic_ai.exceptions.UsageExtractionFailedWarning")
@pytest.mark.parametrize("way", REPLIES)
def test_a_whole_answer_is_a_reply_whatever_it_says(way: str) -> None:
    """Prose, half a document and strange counts are replies; what they are worth is for others to judge."""

    async def ask(server: Misbehaving) -> None:
        reply = await open_at(server, way).ask(QUESTION)
        assert isinstance(reply, Reply)
        assert reply.text.encode()
        assert reply.is_cut == (way == "cut")
        assert (reply.tokens_in > 0, reply.tokens_out > 0, reply.cost_microcents) == (True, True, 0)

    run(ask)


def test_the_provider_is_told_what_the_question_says() -> None:
    """System, messages, schema, seed, temperature and length go along, once, with the key as bearer."""

    async def ask(server: Misbehaving) -> None:
        reply = await open_at(server, "well").ask(QUESTION)
        assert (reply.tokens_in, reply.tokens_out) == (11, 7)
        (sent,) = server.bodies
        assert [message["role"] for message in sent["messages"]] == ["system", "user"]
        assert (sent["model"], sent["seed"], sent["temperature"]) == ("m", 3, 0)
        assert sent["max_completion_tokens"] == QUESTION.max_tokens
        assert sent["response_format"]["json_schema"]["schema"] == {"type": "object"}
        assert f"Bearer {KEY}".lower() in server.heads[0].lower()

    run(ask)


def test_a_schema_goes_into_the_prompt_where_it_is_asked_for() -> None:
    """For a server that cannot constrain, the schema is written at the end of the instructions."""

    async def ask(server: Misbehaving) -> None:
        await open_at(server, "well", is_schema_prompted=True).ask(QUESTION)
        (sent,) = server.bodies
        assert sent.get("response_format", {}).get("type") != "json_schema"
        assert '"type": "object"' in str(sent["messages"]) or '{"type":"object"}' in str(sent["messages"])

    run(ask)


@pytest.mark.parametrize("provider", ["openai", "openai-chat"])
@pytest.mark.parametrize(
    ("way", "code"),
    [
        ("error_500", "model_unavailable"),
        ("error_429", "model_quota"),
        ("error_401", "model_refused"),
        ("redirect", "model_refused"),
        ("half_json", "model_unavailable"),
        ("never_ends", "model_unavailable"),
        ("closes_in_the_middle", "model_unavailable"),
    ],
)
def test_a_provider_by_its_name_is_held_to_the_same(
    provider: str, way: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenAI's own interfaces, one of which has another shape, are bounded, asked once and read in the same way."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    async def ask(server: Misbehaving) -> None:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url(way))
        with pytest.raises(ModelFault) as caught:
            await ProviderModel(f"{provider}:gpt-4o", timeout_s=20).ask(QUESTION)
        assert caught.value.code == code
        assert KEY not in whole_text(caught.value)
        assert len(server.heads) == 1
        assert f"Bearer {KEY}" in server.heads[0]

    run(ask)


def test_openai_s_own_key_is_never_sent_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server named by its address gets the key that is meant for it, and no other from the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    async def ask(server: Misbehaving) -> None:
        name = f"openai-compatible:m@{server.url('well')}"
        await ProviderModel(name).ask(QUESTION)
        monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", "its-own")
        await ProviderModel(name).ask(QUESTION)
        assert KEY not in server.heads[0]
        assert "Bearer its-own" in server.heads[1]

    run(ask)


def test_a_proxy_of_the_environment_is_not_asked_for_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server on this machine is asked directly."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")

    async def ask(server: Misbehaving) -> None:
        assert (await open_at(server, "well").ask(QUESTION)).text == '{"color": "red"}'

    run(ask)


def test_a_cancelled_question_hangs_up() -> None:
    """Cancelling closes the connection, so that the server can stop working on an answer nobody waits for."""

    async def ask(server: Misbehaving) -> None:
        task = asyncio.ensure_future(open_at(server, "hangs").ask(QUESTION))
        await server.waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.hung_up.wait()

    run(ask)


async def test_nobody_listening_is_a_fault() -> None:
    """A server that is not there is not available, and asking it again may help."""

    async with misbehaving() as server:
        port = server.port
    with pytest.raises(ModelFault) as caught:
        await ProviderModel(f"openai-compatible:m@http://127.0.0.1:{port}/v1").ask(QUESTION)
    assert caught.value.code == "model_unavailable"
    assert caught.value.is_retriable


def test_waiting_times_and_remedies_are_said() -> None:
    """What the provider asks for and what a person can do is in the remedy."""

    async def ask(server: Misbehaving) -> None:
        remedies: dict[str, str] = {}
        for way in ("error_429", "error_401", "llama_too_long", "thinks_only"):
            with pytest.raises(ModelFault) as caught:
                await open_at(server, way).ask(QUESTION)
            remedies[way] = caught.value.remedy or ""
        assert "7 s" in remedies["error_429"]
        assert "key" in remedies["error_401"]
        assert "less" in remedies["llama_too_long"]
        assert "longer answer" in remedies["thinks_only"]

    run(ask)
