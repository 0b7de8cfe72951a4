"""HTTP services in whole runs: each way of leading a call astray is stopped with its reason, and no effect is made twice."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tercet.contracts.plan import Plan
from tercet.contracts.request import Actor, Request
from tercet.core import codec
from tercet.core import events as e
from tercet.engine.result import RunResult
from tercet.packs.pack import Pack
from tercet.runtime import Runtime, RuntimeOptions
from tercet.tools import Tool
from tercet.tools.http.service import World
from tools.loopback import Behave, Heard, Loopback, respond, saying, serving

Answer = tuple[RunResult, list[e.Event]]


def pack_of(tool: Tool) -> Pack:
    """A pack with this tool and one decision."""
    fields = {"name": "things", "version": "1.0.0", "safety_mode": "destructive", "tools": [tool]}
    return Pack.model_validate({**fields, "decisions": [{"id": "look", "risk_tier": "low"}]})


async def carry(tool: Tool, params: Mapping[str, Any], journal: Path) -> Answer:
    """How a run of one call ends, and its events."""
    step = {"id": "a", "tool": tool.name, "params": dict(params)}
    plan = Plan.model_validate({"plan_id": "p", "intent": "look", "steps": [step]})
    async with Runtime(
        pack_of(tool), f"sqlite:///{journal}/journal.db", options=RuntimeOptions(draw=lambda: 0.0)
    ) as runtime:
        result = await runtime.run(Request(intent="look", input={}), plan=plan, actor=Actor(id="ada"))
        stored = await runtime.journal.read("default", result.session_id)
        return result, [codec.decode(each.data) for each in stored]


async def to_loopback(_: str, __: int) -> Sequence[str]:
    """A resolver that was talked into a private address."""
    return ["93.184.215.14", "127.0.0.1"]


async def endless(_: Heard, writer: asyncio.StreamWriter) -> None:
    """An answer without an end."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n[")
    while True:
        writer.write(b"1," * 2_000)
        await writer.drain()


ELSEWHERE = respond(status="302 Found", headers={"location": "http://evil.example.test/"}, body=b"")


@pytest.mark.parametrize(
    ("behave", "changes", "code"),
    [
        (saying(respond()), {"is_listed": False}, "private_address"),
        (saying(respond()), {"is_listed": False, "host": "localhost"}, "private_address"),
        (saying(respond()), {"is_listed": False, "host": "api.example.test", "world": World(resolve=to_loopback)}, "private_address"),
        (saying(ELSEWHERE), {}, "redirect_refused"),
        (endless, {"max_answer_bytes": 10_000}, "answer_too_large"),
        (saying(respond(headers={"content-length": "99999"})), {}, "connection_lost"),
        (saying(respond({"id": 12345}, headers={"content-length": "7"})), {}, "answer_not_json"),
    ],
    ids=["private", "private by a real name", "private by DNS", "other host", "endless", "shorter than it says", "longer than it says"],
)  # fmt: skip
def test_a_call_that_is_led_astray_is_stopped_with_its_reason(
    tmp_path: Path, behave: Behave, changes: dict[str, Any], code: str
) -> None:
    """The run does not succeed, and the journal holds the reason as a code and as a sentence."""

    async def main() -> Answer:
        async with serving(behave) as service:
            return await carry(service.tools(**changes)["getThing"], {"id": "1"}, tmp_path)

    result, found = asyncio.run(main())
    aborted = [event for event in found if isinstance(event, e.Abort)]
    assert result.status != "completed"
    assert {event.code for event in aborted} == {code}
    assert all(event.error for event in aborted)


def making(service: Loopback, **declared: Any) -> Tool:
    """A tool with an effect that nobody has to approve."""
    said = {"operation": "makeThing", "mode": "local_write", "no_compensation": "none", **declared}
    return service.tools(operations=[said])["makeThing"]


async def lose_the_first(heard: Heard, writer: asyncio.StreamWriter) -> None:
    """A service that does its work and hangs up, and answers whoever asks again."""
    if heard.headers["idempotency-key"] in SEEN:
        writer.write(respond(status="201 Created"))
    SEEN.append(heard.headers["idempotency-key"])


SEEN: list[str] = []


@pytest.mark.req("R110")
def test_an_idempotent_call_that_was_lost_is_made_again_with_its_key(tmp_path: Path) -> None:
    """The service sees one key twice, and so can do its work once."""
    SEEN.clear()

    async def main() -> Answer:
        async with serving(lose_the_first) as service:
            return await carry(making(service, idempotent=True), {"note": "a"}, tmp_path)

    result, found = asyncio.run(main())
    assert result.status == "completed"
    assert (len(SEEN), len(set(SEEN))) == (2, 1)
    assert [event.how for event in found if isinstance(event, e.Settled)] == ["run_again"]


@pytest.mark.req("R110")
def test_a_call_that_was_lost_and_says_nothing_of_itself_waits_for_a_person(tmp_path: Path) -> None:
    """It is not made again; a gate asks whether it happened."""
    SEEN.clear()

    async def main() -> Answer:
        async with serving(lose_the_first) as service:
            tool = making(service, timeout_ms=300_000)
            return await carry(tool, {"note": "a"}, tmp_path)

    result, found = asyncio.run(main())
    assert (result.status, len(SEEN)) == ("awaiting_gate", 1)
    assert [event.kind for event in found if isinstance(event, e.GateOpened)] == ["reconcile"]


@pytest.mark.req("R110")
def test_a_second_refusal_does_not_unsay_a_first_call(tmp_path: Path) -> None:
    """The first POST was heard and its answer lost; the 409 for the second one is no proof that nothing happened."""
    heard: list[int] = []

    async def behave(_: Heard, writer: asyncio.StreamWriter) -> None:
        heard.append(1)
        if len(heard) > 1:
            writer.write(respond(status="409 Conflict"))

    async def main() -> Answer:
        async with serving(behave) as service:
            return await carry(making(service, idempotent=True, timeout_ms=300_000), {"note": "a"}, tmp_path)

    result, found = asyncio.run(main())
    assert result.status == "awaiting_gate"
    assert [event.kind for event in found if isinstance(event, e.GateOpened)] == ["reconcile"]
    assert {event.code for event in found if isinstance(event, e.Abort)} == {"connection_lost", "http_409"}
