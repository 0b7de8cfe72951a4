"""The client: the same methods synchronous and asynchronous, typed results, and the refusals of the service as errors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest

from service.desk import HOST, REFUND, REFUNDS, Desk, open_desk, refunds
from tercet import AsyncClient, Client, TercetError
from tercet.service import app
from tercet.service.methods import METHODS


def client_of(desk: Desk, key: str) -> AsyncClient:
    """A client that calls the service in this process."""
    return AsyncClient(HOST, key, transport=httpx2.ASGITransport(app=cast("Any", desk.running.app)))


async def test_a_refund_by_the_asynchronous_client(shop: Path) -> None:
    """Sessions, gates, records and verdicts come typed; refusals are raised with their code and remedy."""
    async with open_desk() as desk:
        finance_key = await desk.key("user_finance_lead", roles=("finance_lead",))
        async with (
            client_of(desk, await desk.key("agt_support")) as agent,
            client_of(desk, finance_key) as finance,
        ):
            waiting = await agent.invoke(REFUND)
            assert (waiting.status, waiting.progress.awaiting_gate) == ("awaiting_gate", waiting.gates[0])
            with pytest.raises(TercetError) as refused:
                await agent.approve(waiting.gates[0])
            assert (refused.value.code, bool(refused.value.remedy)) == ("own_gate", True)
            shown = await finance.gate(waiting.gates[0])
            assert (shown.owner, shown.roles, shown.params["amount_inr"]) == (
                "agt_support",
                ("finance_lead",),
                24500,
            )
            listing = await finance.gates()
            assert [each.digest for each in listing.gates] == [shown.digest]
            assert listing.next_cursor is None
            rows = await agent.sessions(status="awaiting_gate", limit=1)
            assert [(row.session_id, row.gates) for row in rows.sessions] == [(waiting.id, waiting.gates)]
            assert rows.sessions[0].started_at.tzinfo is not None
            await finance.approve(waiting.gates[0], digest=shown.digest)
            envelopes = [each async for each in agent.watch(waiting.id)]
            assert envelopes[-1].completed_step_count == envelopes[-1].total_step_count
            assert [
                each async for each in agent.watch(waiting.id, last_event_id=envelopes[-1].progress_id)
            ] == []
            done = await agent.session(waiting.id)
            assert done.status == "completed"
            assert done.verdict is not None
            assert done.verdict.verdict == "accept"
            assert (await agent.record(waiting.id)).approvals[0].approver == "user_finance_lead"
            assert (await agent.replay(waiting.id)).is_equal
            plan = json.loads((REFUNDS / "plans" / "plan_a.json").read_text())
            assert (await agent.verify(plan)).outcome != "ok"
            with pytest.raises(TercetError, match="there is no session"):
                await agent.session("ses_ffff")
            with pytest.raises(TercetError, match="there is no session"):
                [each async for each in agent.watch("ses_ffff")]
    assert len(refunds(shop)) == 1


async def test_watching_does_not_end_before_the_session(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that ends early is followed by another, behind the last event; if the service stops, that is an error."""
    async with open_desk() as desk:
        finance = await desk.key("user_finance_lead", roles=("finance_lead",))
        async with client_of(desk, await desk.key("agt_support")) as agent:
            waiting = await agent.invoke(REFUND)
            streams = 0

            async def until_one(*_: Any) -> AsyncIterator[Any]:
                nonlocal streams
                streams += 1
                yield (await agent.session(waiting.id)).progress
                if streams == 1:
                    await desk.rpc(finance, "approveGate", gate_id=waiting.gates[0])
                    await desk.until(finance, waiting.id)

            with monkeypatch.context() as patched:
                patched.setattr(app, "until_closing", until_one)
                envelopes = [each async for each in agent.watch(waiting.id)]
            assert [each.completed_step_count for each in envelopes] == [2, 3]
            other = await agent.invoke({**REFUND, "input": {"order_id": "ord_882", "window_id": "rw_882"}})

            async def until_stopped(*_: Any) -> AsyncIterator[Any]:
                yield (await agent.session(other.id)).progress
                desk.running.http.is_closing.set()

            monkeypatch.setattr(app, "until_closing", until_stopped)
            with pytest.raises(TercetError, match="stopping"):
                [each async for each in agent.watch(other.id)]


class Sent(Client):
    """A client that checks and notes what it would send."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:1", "tck_0_0")
        self.methods: list[str] = []

    def _send(self, method: str, params: dict[str, Any], read: Callable[[dict[str, Any]], Any]) -> Any:
        del read
        asked = METHODS[method].params.model_validate(params)
        if method != "invokeAgent":
            assert getattr(asked, "request_key", None) == ("k" if METHODS[method].is_mutating else None)
        self.methods.append(method)


def test_every_call_has_a_method() -> None:
    """What the client sends is what the service takes, and every call that changes something can carry a request_key."""
    with Sent() as client:
        client.invoke(REFUND)
        client.session("s")
        client.sessions()
        client.gates()
        client.gate("s.g1")
        client.record("s")
        client.replay("s")
        client.verify({"steps": []})
        client.approve("s.g1", request_key="k")
        client.deny("s.g1", request_key="k")
        client.modify("s.g1", note="less", request_key="k")
        client.withdraw("s.g1", request_key="k")
        client.settle("s.g1", happened=False, request_key="k")
        client.decide("s.g1", "abandon", request_key="k")
        client.pause("s", request_key="k")
        client.resume("s", request_key="k")
        client.cancel("s", request_key="k")
        client.extend("s", {"tool_calls": 1}, request_key="k")
        client.migrate("s", request_key="k")
        client.settle_rollback("s", "a", request_key="k")
        client.stops()
        client.stop("tenant", request_key="k")
        client.lift("tool", "a.b", request_key="k")
        client.export("s")
        client.erase("ada", request_key="k")
        client.audit()
    assert METHODS.keys() - client.methods == {"getCaller", "readJournal"}


def test_a_service_that_is_not_there_is_an_error() -> None:
    """A connection that is refused names the problem and the fix."""
    with Client("http://127.0.0.1:1", "tck_0_0") as client, pytest.raises(TercetError) as refused:
        client.sessions()
    assert refused.value.code == "service_unavailable"


@contextmanager
def serving(folder: Path) -> Generator[tuple[str, str]]:
    """A real service in a process of its own: its address and the key that it prints. It is stopped by SIGTERM."""
    command = [sys.executable, "-m", "tercet", "serve", str(REFUNDS), "--port", "0", "--json"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            yield ready["url"], ready["api_key"]
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) == 0


def tercet(folder: Path, *words: str, **environment: str) -> tuple[int, Any]:
    """Run a command, and return its exit code and its JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "tercet", *words, "--json"],
        cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    return done.returncode, json.loads(done.stdout)


@pytest.mark.slow
def test_the_refund_story_with_real_processes(shop: Path) -> None:
    """Keys by the command line, calls over a socket, a service that is stopped at the gate, and another that pays once."""
    _, agent = tercet(shop, "api-keys", "create", "agt_support")
    _, finance = tercet(shop, "api-keys", "create", "user_finance_lead", "--role", "finance_lead")
    asked = json.dumps({"request": {**REFUND, "request_key": "order-881"}})
    with serving(shop) as (url, _):
        code, started = tercet(
            shop, "call", "invokeAgent", asked, "--server", url, TERCET_API_KEY=agent["api_key"]
        )
        assert (code, started["session"]["status"]) == (4, "awaiting_gate")
        wrong = json.dumps({"request": REFUND, "plan": {"steps": []}})
        code, refused = tercet(
            shop, "call", "invokeAgent", wrong, "--server", url, TERCET_API_KEY=agent["api_key"]
        )
        assert (code, refused["standing"]) == (3, "refused")
    with serving(shop) as (url, _), Client(url, finance["api_key"]) as client:
        approval = json.dumps({"gate_id": started["gates"][0]})
        code, refused = tercet(
            shop, "call", "approveGate", approval, "--server", url, TERCET_API_KEY=agent["api_key"]
        )
        assert (code, refused["error"]["code"]) == (2, "own_gate")
        client.approve(started["gates"][0])
        envelopes = list(client.watch(started["session"]["session_id"]))
        assert envelopes[-1].awaiting_gate is None
        assert client.session(started["session"]["session_id"]).status == "completed"
        tercet(shop, "api-keys", "revoke", finance["id"])
        with pytest.raises(TercetError, match="no valid credential"):
            client.sessions()
    assert len(refunds(shop)) == 1
    assert tercet(shop, "journal", "check")[0] == 0


@pytest.mark.slow
def test_an_open_address_without_keys_is_refused(tmp_path: Path) -> None:
    """`tercet serve --host 0.0.0.0` exits with 2 where nobody could be recognised."""
    code, refused = tercet(tmp_path, "serve", str(REFUNDS), "--host", "0.0.0.0", "--port", "0")  # noqa: S104 - refused
    assert (code, refused["error"]["code"]) == (2, "authentication_missing")


@pytest.mark.slow
def test_a_worker_without_api_finishes_what_was_approved(shop: Path) -> None:
    """`tercet worker` carries on a session that was started and approved by the command line, and stops at SIGTERM."""
    _, started = tercet(shop, "run", str(REFUNDS), "--input", json.dumps(REFUND["input"]), "--dev")
    gate = started["gates"][0]["id"]
    code, _ = tercet(shop, "gates", "approve", gate, "--dev", "--as", "user_finance_lead")
    assert code == 0
    command = [sys.executable, "-m", "tercet", "worker", str(REFUNDS), "--json"]
    with subprocess.Popen(command, cwd=shop, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["packs"] == ["refunds@1.0.0"]
            _, lines = tercet_lines(shop, "sessions", "watch", started["session_id"])
            assert lines
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) == 0
    _, shown = tercet(shop, "sessions", "show", started["session_id"])
    assert shown["status"] == "completed"
    assert len(refunds(shop)) == 1


def tercet_lines(folder: Path, *words: str) -> tuple[int, list[str]]:
    """Run a command that prints one JSON object for each event, and return its exit code and its lines."""
    done = subprocess.run(
        [sys.executable, "-m", "tercet", *words, "--json"],
        cwd=folder, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    return done.returncode, done.stdout.splitlines()
