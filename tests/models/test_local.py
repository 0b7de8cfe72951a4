"""The real model, offline. What it says is its own affair: the tests hold whatever that is.

All of it is in one short module, so that few workers start a server.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal
from urllib.error import HTTPError
from urllib.parse import urlsplit

import jsonschema_rs
import pytest

from tercet.contracts.question import Message, ModelFault, Question, Reply
from tercet.critics import Engine, MaxSteps, ModelAgent, StopReason
from tercet.models.local import LocalModel
from tercet.models.local.model import CONTEXT_TOKENS, SERVER, LocalServer, find_weights
from tercet.testing.model_suite import CASES, Case, Subject
from tercet.tools import tool

pytestmark = pytest.mark.slow
STEP: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "pattern": "^s[1-3]$"},
        "tool": {"enum": ["orders.find", "payments.refund", 'a "quoted" tool']},
        "params": {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {"amount": {"type": "integer", "minimum": 1, "maximum": 40}},
                    "required": ["amount"],
                    "additionalProperties": False,
                },
                {"const": {"order": ["ord_881", 7, None]}},
            ]
        },
    },
    "required": ["id", "tool", "params"],
    "additionalProperties": False,
}
PLAN: dict[str, Any] = {
    "type": "object",
    "properties": {
        "intent": {"const": "support.refund"},
        "steps": {"type": "array", "minItems": 1, "maxItems": 1, "items": {"$ref": "#/$defs/step"}},
        "ranks": {"type": "array", "minItems": 2, "maxItems": 2, "items": {"enum": [1, 2]}},
        "note": {"type": ["string", "null"], "maxLength": 6},
    },
    "required": ["intent", "steps", "ranks", "note"],
    "additionalProperties": False,
    "$defs": {"step": STEP},
}


@pytest.fixture(scope="module")
def model() -> Iterator[LocalModel]:
    """The local model, whose server runs for the whole module."""
    opened = LocalModel(timeout_s=100)
    yield opened
    asyncio.run(opened.aclose())


def question(text: str = "Plan a refund.", **parts: Any) -> Question:
    """A short question."""
    fields: dict[str, Any] = {"max_tokens": 16, "seed": 1, **parts}
    return Question(messages=(Message(text=text),), **fields)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
async def test_conformance(model: LocalModel, case: Case) -> None:
    """The local model passes the shipped suite."""
    await case(Subject(open=lambda: model))


async def test_the_schema_holds_whatever_it_writes(model: LocalModel) -> None:
    """Enums, constants, unions, references, patterns and bounds: a whole answer fits, a cut one says so."""
    reply = await model.ask(question(answer_schema=PLAN, max_tokens=250))
    assert reply.text.lstrip().startswith("{")
    if not reply.is_cut:
        jsonschema_rs.validate(PLAN, json.loads(reply.text))
    assert (reply.cost_microcents, reply.tokens_out > 0, reply.tokens_in > 0) == (0, True, True)
    assert reply.logprob is not None
    assert reply.logprob < 0


async def test_an_answer_is_no_longer_than_allowed(model: LocalModel) -> None:
    """The length is the question's, and what was cut says so."""
    reply = await model.ask(question("Count from 1 to 100.", max_tokens=5))
    assert reply.tokens_out <= 5


async def test_a_prompt_beyond_the_context_is_refused(model: LocalModel) -> None:
    """It is no use to ask again: the remedy is to ask with less."""
    with pytest.raises(ModelFault) as caught:
        await model.ask(question("word " * (CONTEXT_TOKENS + 100)))
    assert caught.value.code == "model_refused"
    assert not caught.value.is_retriable
    assert "less" in (caught.value.remedy or "")


LONG = {"type": "array", "items": {"type": "integer"}, "minItems": 300}
"""What takes the model seconds to write, however quickly it would rather end."""


async def test_a_question_that_takes_too_long_is_dropped(model: LocalModel) -> None:
    """A timeout is a fault, the server drops the question, and the next one is answered before it would have ended."""
    hasty = LocalModel(timeout_s=0.2)

    async def ask() -> Reply:
        with pytest.raises(ModelFault) as caught:
            await hasty.ask(
                question(
                    "Tell a very long story.",
                    max_tokens=8_000,
                    answer_schema=LONG,
                )
            )
        assert caught.value.code == "model_timeout"
        await hasty.aclose()
        return await model.ask(question(max_tokens=4))

    assert (await ask()).tokens_out <= 4


def test_threads_and_loops_share_one_server(model: LocalModel) -> None:
    """Models asked from several event loops at once all reach the same server."""
    settled: list[Reply] = []

    def ask() -> None:
        settled.append(asyncio.run(model.ask(question(max_tokens=2))))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(settled) == 3


def test_the_server_is_for_this_process_alone(model: LocalModel) -> None:
    """It listens on loopback, and answers nobody without the key that this process drew."""
    running = SERVER.join(model).result(timeout=600)
    assert running.base_url.startswith("http://127.0.0.1:")
    body = json.dumps({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}).encode()
    request = urllib.request.Request(  # noqa: S310 - our own server on loopback
        f"{running.base_url}/chat/completions", body, {"content-type": "application/json"}
    )
    with pytest.raises(HTTPError) as caught:
        urllib.request.urlopen(request, timeout=600)  # noqa: S310 - see above
    assert caught.value.code == 401
    caught.value.close()


def test_the_last_to_leave_stops_the_server() -> None:
    """Users share a server; when all of them left, nobody listens any more."""
    server, ann, bob = LocalServer(), object(), object()
    address = server.join(ann).result(timeout=600).base_url
    assert server.join(bob).result(timeout=600).base_url == address
    where = urlsplit(address)
    server.leave(ann)
    socket.create_connection((where.hostname, where.port), timeout=600).close()
    server.leave(bob)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((where.hostname, where.port), timeout=600).close()


async def test_a_start_that_failed_is_a_fault_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights that are damaged are a fault; once they are mended, the next question is answered."""
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(b"GGUF" + b"x" * 1_000)
    weights = [find_weights(), damaged]
    monkeypatch.setattr("tercet.models.local.model.find_weights", lambda: weights[-1])
    monkeypatch.setattr("tercet.models.local.model.SERVER", LocalServer())
    model = LocalModel()

    async def ask() -> Reply:
        with pytest.raises(ModelFault) as caught:
            await model.ask(question())
        assert caught.value.code == "model_unavailable"
        assert str(damaged) not in str(caught.value)
        weights.remove(damaged)
        try:
            return await model.ask(question(max_tokens=2))
        finally:
            await model.aclose()

    assert (await ask()).tokens_out <= 2


def test_a_process_ends_cleanly_and_quietly_with_the_server_up() -> None:
    """Nobody has to close anything: a process that asked, and gave one question up, exits with 0 and prints nothing else."""
    script = (
        "import asyncio\n"
        "from tercet.contracts.question import Question\n"
        "from tercet.models.opening import open_model\n"
        "async def main():\n"
        "    model = open_model('local')\n"
        "    await model.ask(Question(system='Hi', max_tokens=2))\n"
        "    long = asyncio.ensure_future(model.ask(Question(system='Tell a story', max_tokens=4000)))\n"
        "    await asyncio.wait([long], timeout=0.3)\n"
        "asyncio.run(main())\n"
        "print('done')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


async def test_it_decides_for_an_agent(model: LocalModel) -> None:
    """The local model can only call the agent's tools with their parameters, or answer: every decision can be read."""
    calls: list[str] = []

    @tool("library.find", mode="read_only")
    def find(title: Literal["tides", "knots"]) -> dict[str, Any]:
        """Find the shelf of a book."""
        calls.append(title)
        return {"title": title, "shelf": "C4"}

    agent = ModelAgent([find], "You find books.", answer={"type": "string", "maxLength": 40}, max_tokens=400)
    result = await Engine(agent, stop=[MaxSteps(3)], models=[model]).run("Where is the book about tides?")
    assert result.stop_reason in (StopReason.FINAL, StopReason.MAX_STEPS), result.reason
    assert len(result.state.history) == len(result.steps) >= 1
    assert set(calls) <= {"tides", "knots"}
    errors = {each.get("error_type") for step in result.steps for each in step.results} - {None}
    assert errors <= {"loop_guard"}, "every call is one that its tool takes"
