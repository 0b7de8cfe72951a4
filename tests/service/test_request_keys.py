"""The same call sent at the same moment is made once, in one service and in two that share a journal."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from journal.servers import own_journal
from service.desk import REFUND, Desk, open_desk
from service.streams import Stream
from tercet.contracts.values.canonical import canonical, hash_bytes
from tercet.engine.checks.journal import check_journal
from tercet.engine.leases import LeaseClient
from tercet.engine.session_reader import load_state
from tercet.engine.streams import audit
from tercet.engine.streams.audit import forget_results
from tercet.engine.streams.credentials import SCOPES
from tercet.engine.streams.stops import STREAM
from tercet.executor.clock import SystemClock
from tercet.journal.database import DatabaseJournal
from tercet.journal.errors import JournalUnavailable
from tercet.journal.opening import open_journal
from tercet.packs.pack import Pack
from tercet.service.methods import METHODS
from tercet.tools import tool

MORE = {"tool_calls": 1}


@asynccontextmanager
async def two_desks(kind: str, folder: Path, request: pytest.FixtureRequest) -> AsyncGenerator[list[Desk]]:
    """Two services, each with its own connection to one journal."""
    async with (
        own_journal(kind, folder, request) as url,
        open_journal(url) as one,
        open_journal(url) as two,
        open_desk(one) as first,
        open_desk(two) as second,
    ):
        yield [first, second]


async def started(desk: Desk, tenant: str) -> tuple[str, str, str]:
    """Return an operator's key, a session that waits at a gate, and the gate."""
    operator = await desk.key(f"ops_{tenant}", tenant=tenant, scopes=SCOPES)
    found = await desk.rpc(operator, "invokeAgent", request=REFUND)
    return operator, found["session"]["session_id"], found["gates"][0]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_the_same_call_at_the_same_moment_is_made_once(
    shop: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    """Twelve calls of two services with one key extend a budget once, and all return the same."""
    tenant = f"t_{os.urandom(4).hex()}"
    async with two_desks(kind, shop, request) as desks:
        key, session, gate = await started(desks[0], tenant)
        asked: dict[str, Any] = {"session_id": session, "more": MORE, "request_key": "k"}
        results = await asyncio.gather(*(desks[n % 2].rpc(key, "extendBudget", **asked) for n in range(12)))
        state = await load_state(desks[1].journal, tenant, session)
        assert state.extended == MORE
        assert {result["session"]["session_id"] for result in results} == {session}
        assert all(result == results[0] for result in results)
        lead = await desks[0].key("user_finance_lead", tenant=tenant, roles=("finance_lead",))
        answers = await asyncio.gather(
            *(desks[n % 2].rpc(lead, "approveGate", gate_id=gate, request_key="a") for n in range(6))
        )
        assert all(answer == answers[0] and "session" in answer for answer in answers)
        entries = await audit.read_audit(desks[0].journal, tenant)
    assert [entry.outcome for _, entry in entries if entry.method == "extendBudget"] == ["ok"]
    assert [entry.outcome for _, entry in entries if entry.method == "approveGate"] == ["ok"]


@pytest.mark.usefixtures("shop")
async def test_the_same_request_at_the_same_moment_starts_one_run(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A run's own request key holds across two services too, and a request id that is sent again starts nothing."""
    async with two_desks("sqlite", tmp_path, request) as desks:
        key = await desks[0].key("agt_support")
        asked = {**REFUND, "request_key": "order-881"}
        results = await asyncio.gather(
            *(desks[n % 2].rpc(key, "invokeAgent", request=asked) for n in range(6))
        )
        assert len({result["session"]["session_id"] for result in results}) == 1
        assert len((await desks[1].rpc(key, "listSessions"))["sessions"]) == 1
        body = {"jsonrpc": "2.0", "id": 7, "method": "invokeAgent", "params": {"request": asked}}
        again = [(await desk.post(key, body)).json()["result"] for desk in desks]
        assert {each["session"]["session_id"] for each in again} == {results[0]["session"]["session_id"]}


@pytest.mark.usefixtures("shop")
async def test_a_call_waits_for_the_one_that_another_process_makes() -> None:
    """It returns the other's result, and is not made itself."""
    async with open_desk() as desk:
        key, session, _ = await started(desk, "acme")
        stream = audit.call_stream("ops_acme", "extendBudget", "k")
        other = LeaseClient(journal=desk.journal, tenant="acme", clock=SystemClock())
        held = await other.acquire(stream)
        asked: dict[str, Any] = {"session_id": session, "more": MORE, "request_key": "k"}
        waiting = asyncio.ensure_future(desk.rpc(key, "extendBudget", **asked))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        params = METHODS["extendBudget"].params.model_validate(asked).model_dump(mode="json")
        hashed, epoch = hash_bytes(canonical(params)), held.lease.epoch
        await audit.keep_result(desk.journal, "acme", stream, hashed, b'{"made": "there"}', epoch=epoch, at=1)
        assert await waiting == {"made": "there"}
        assert (await load_state(desk.journal, "acme", session)).extended == {}


@pytest.mark.usefixtures("shop")
async def test_the_call_of_a_process_that_died_is_made_by_the_next() -> None:
    """Its lease is not renewed: once it can only be dead, the call is made, and then kept."""
    async with open_desk() as desk:
        key, session, _ = await started(desk, "acme")
        stream = audit.call_stream("ops_acme", "extendBudget", "k")
        now = SystemClock().now()
        await desk.journal.acquire("acme", stream, owner="gone:1:1:50ms", now_ms=now, ttl_ms=50)
        asked: dict[str, Any] = {"session_id": session, "more": MORE, "request_key": "k"}
        first = await desk.rpc(key, "extendBudget", **asked)
        assert first["session"]["session_id"] == session
        assert await desk.rpc(key, "extendBudget", **asked) == first
        assert (await load_state(desk.journal, "acme", session)).extended == MORE
        lease = await desk.journal.lease("acme", stream)
        assert lease is None


CALLS: dict[str, dict[str, Any]] = {
    "extendBudget": {"more": MORE},
    "cancelSession": {},
    "approveGate": {},
    "denyGate": {},
    "emergencyStop": {"kind": "tool", "name": "adp_payments.issue_refund"},
    "liftStop": {"kind": "tool", "name": "adp_payments.issue_refund"},
}


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("method", CALLS)
async def test_a_call_whose_result_was_not_kept_takes_effect_once(
    monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """The process died between the effect and the kept result: the call that is sent again returns, and nothing is doubled."""
    async with open_desk() as desk:
        agent, session, gate = await started(desk, "acme")
        lead = await desk.key("user_finance_lead", tenant="acme", roles=("finance_lead",), scopes=SCOPES)
        key = lead if method.endswith("Gate") else agent
        if method == "liftStop":
            await desk.rpc(key, "emergencyStop", **CALLS[method])
        asked = {**CALLS[method], "request_key": "k"}
        asked |= {"gate_id": gate} if method.endswith("Gate") else {}
        asked |= {} if "kind" in asked or "gate_id" in asked else {"session_id": session}

        async def lose(*_: Any, **__: Any) -> None:
            raise JournalUnavailable("the journal", "it is gone for a moment")

        with monkeypatch.context() as patched:
            patched.setattr(audit, "keep_result", lose)
            assert (await desk.rpc(key, method, **asked))["code"] == "journal_unavailable"
        again = await desk.rpc(key, method, **asked)
        assert again.keys() & {"session", "stop"}, again
        assert await desk.rpc(key, method, **asked) == again
        inbox = await desk.journal.head("acme", f"inbox:{session}")
        stops = await desk.journal.head("acme", STREAM)
        state = await load_state(desk.journal, "acme", session)
    assert (inbox.seq, stops.seq) == {"emergencyStop": (0, 1), "liftStop": (0, 2)}.get(method, (1, 0))
    assert state.extended == (MORE if method == "extendBudget" else {})


async def test_a_pause_whose_result_was_not_kept_is_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sent again after the session was resumed, the call returns, and the session goes on."""
    begun, may_end = asyncio.Event(), asyncio.Event()

    @tool("shop.wait", mode="read_only")
    async def wait() -> str:
        begun.set()
        await may_end.wait()
        return "done"

    decisions = [{"id": "work", "risk_tier": "low"}]
    pack = Pack.model_validate({"name": "shop", "version": "1.0.0", "tools": (wait,), "decisions": decisions})
    plan = {
        "steps": [{"id": "a", "tool": "shop.wait"}, {"id": "b", "tool": "shop.wait", "depends_on": ["a"]}]
    }
    async with open_desk(None, pack) as desk:
        key = await desk.key("ops", scopes=SCOPES)
        found = await desk.rpc(key, "invokeAgent", request={"intent": "work"}, plan=plan, mode="batch")
        asked = {"session_id": found["session"]["session_id"], "request_key": "k"}
        await begun.wait()

        async def lose(*_: Any, **__: Any) -> None:
            raise JournalUnavailable("the journal", "it is gone for a moment")

        with monkeypatch.context() as patched:
            patched.setattr(audit, "keep_result", lose)
            pausing = asyncio.ensure_future(desk.rpc(key, "pauseSession", **asked))
            while True:
                if (await desk.journal.head("default", f"inbox:{asked['session_id']}")).seq:
                    break
                await asyncio.sleep(0.001)
            may_end.set()
            assert (await pausing)["code"] == "journal_unavailable"
        assert (await desk.until(key, asked["session_id"], "paused"))["session"]["status"] == "paused"
        await desk.rpc(key, "resumeSession", session_id=asked["session_id"])
        assert "session" in await desk.rpc(key, "pauseSession", **asked)
        assert (await desk.until(key, asked["session_id"]))["session"]["status"] == "completed"


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("how", ["revoked", "expired"])
async def test_a_stream_ends_with_its_key(
    tmp_path: Path, request: pytest.FixtureRequest, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After its key was revoked through another service, or has expired, an open progress stream sends nothing more."""
    async with two_desks("sqlite", tmp_path, request) as desks:
        agent = await desks[0].key("agt_support")
        found = await desks[0].rpc(agent, "invokeAgent", request=REFUND)
        session, gate = found["session"]["session_id"], found["gates"][0]
        expires = SystemClock().now() + 600_000 if how == "expired" else None
        reader = await desks[0].key("ann", scopes=("read",), expires=expires)
        following = Stream(desks[0], reader, f"/v1/sessions/{session}/progress")
        await following.has_begun.wait()
        if how == "revoked":
            await desks[1].running.keys.revoke(reader.split("_")[1], by="test", now=SystemClock().now())
        else:
            later_ns = time.time_ns() + 600_000_000_000
            monkeypatch.setattr(time, "time_ns", lambda: later_ns)
        assert (await desks[1].rpc(reader, "getSession", session_id=session))["code"] == "unauthenticated"
        lead = await desks[1].key("user_finance_lead", roles=("finance_lead",))
        await desks[1].rpc(lead, "approveGate", gate_id=gate)
        lines = await following.end()
    assert len([line for line in lines if line.startswith("event: progress")]) == 1


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_results_are_kept_for_a_time(shop: Path, kind: str, request: pytest.FixtureRequest) -> None:
    """Old ones go, and a check of the journal finds nothing wrong; the call that is sent again returns, and is not made again."""
    tenant = f"t_{os.urandom(4).hex()}"
    async with two_desks(kind, shop, request) as (desk, _):
        middle, (key, session, _gate) = 0, await started(desk, tenant)
        for number in range(3):
            asked: dict[str, Any] = {"session_id": session, "more": MORE, "request_key": f"k{number}"}
            await desk.rpc(key, "extendBudget", **asked)
            if number == 1:
                await asyncio.sleep(0.01)
                middle = SystemClock().now()
        leases = LeaseClient(journal=desk.journal, tenant=tenant, clock=SystemClock())
        assert await forget_results(leases, middle) == 2
        assert await forget_results(leases, middle) == 0
        found = await check_journal(cast("DatabaseJournal", desk.journal), None, progress=lambda _: None)
        assert [each for each in found.problems if each.tenant == tenant] == []
        asked = {"session_id": session, "more": MORE, "request_key": "k0"}
        await desk.rpc(key, "extendBudget", **asked)
        assert (await load_state(desk.journal, tenant, session)).extended == {"tool_calls": 3}
