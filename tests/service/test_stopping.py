"""A service that stops answers the calls under way, writes them into the audit log, and ends within its time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from tercet.engine.streams.audit import read_audit
from tercet.engine.streams.credentials import SCOPES
from tercet.packs.pack import Pack
from tercet.service import app, methods, worker
from tercet.tools import tool

from .desk import Desk, open_desk

PLAN = {"steps": [{"id": "a", "tool": "shop.wait"}]}


@asynccontextmanager
async def waiting_desk() -> AsyncGenerator[tuple[Desk, asyncio.Event]]:
    """A service with a tool that does not end, and an event that says that it has begun."""
    begun = asyncio.Event()

    @tool("shop.wait", mode="read_only", timeout_ms=600_000)
    async def wait() -> str:
        begun.set()
        await asyncio.Event().wait()
        return "done"

    decisions = [{"id": "work", "risk_tier": "low"}]
    pack = Pack.model_validate({"name": "shop", "version": "1.0.0", "tools": (wait,), "decisions": decisions})
    async with open_desk(None, pack) as desk:
        yield desk, begun


async def test_a_service_that_cannot_work_is_alive_and_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the journal does not answer, and once the service stops, `/readyz` says so with 503; `/healthz` goes on."""
    async with open_desk() as desk:
        assert (await desk.client.get("/readyz")).status_code == 200

        async def never(*_: Any) -> None:
            await asyncio.Event().wait()

        with monkeypatch.context() as patched:
            patched.setattr(desk.journal, "change_count", never)
            patched.setattr(app, "READY_S", 0.01)
            silent = await desk.client.get("/readyz")
        desk.running.http.is_closing.set()
        stopping = await desk.client.get("/readyz")
        found = [(each.status_code, each.json()["error"]["code"]) for each in (silent, stopping)]
        assert found == [(503, "journal_unavailable"), (503, "stopping")]
        assert "retry-after" in silent.headers
        assert (await desk.client.get("/healthz")).status_code == 200


async def test_an_inline_call_returns_how_far_its_run_is() -> None:
    async with waiting_desk() as (desk, begun):
        key = await desk.key("ann")
        asked: dict[str, Any] = {"request": {"intent": "work"}, "plan": PLAN, "wait_ms": 30_000}
        calling = asyncio.ensure_future(desk.rpc(key, "invokeAgent", **asked))
        await begun.wait()
        desk.running.http.is_closing.set()
        async with asyncio.timeout(300):
            assert (await calling)["session"]["status"] == "in_progress"
        assert [entry.outcome for _, entry in await read_audit(desk.journal, "default")] == ["ok"]


async def test_a_call_that_is_cut_off_gets_an_error_and_an_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut off by the server, a call is answered in the usual shape with the usual headers, and is in the audit log."""
    begun = asyncio.Event()

    async def never(*_: Any, **__: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(methods, "wait_for_rest", never)
    async with waiting_desk() as (desk, _):
        key = await desk.key("ann", scopes=SCOPES)
        params = {"request": {"intent": "work"}, "plan": PLAN}
        body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "invokeAgent", "params": params})
        headers = [(b"host", b"127.0.0.1:8700"), (b"authorization", f"Bearer {key}".encode())]
        scope = {"type": "http", "method": "POST", "path": "/rpc", "query_string": b"", "headers": headers}
        sent: list[MutableMapping[str, Any]] = []

        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        serving = asyncio.ensure_future(desk.running.app(scope, receive, send))
        await begun.wait()
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        assert sent[0]["status"] == 503
        assert dict(sent[0]["headers"])[b"x-content-type-options"] == b"nosniff"
        assert orjson.loads(sent[1]["body"])["error"]["code"] == "stopping"
        assert [entry.outcome for _, entry in await read_audit(desk.journal, "default")] == ["stopping"]


async def test_a_review_that_does_not_end_does_not_keep_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that does not come to rest in time is left as if the process had died."""
    begun, end = threading.Event(), threading.Event()
    monkeypatch.setattr(worker, "STOP_S", 0.3)
    async with waiting_desk() as (desk, at_work):
        key = await desk.key("ann")
        found = await desk.rpc(
            key, "invokeAgent", request={"intent": "work"}, plan=PLAN, mode="batch", wait_ms=0
        )
        await at_work.wait()
        runtime = next(iter(desk.running.http.service.hub))
        driver = runtime._pool.get(found["session"]["session_id"])  # pyright: ignore[reportPrivateUsage]
        assert driver is not None

        async def stuck(*_: Any) -> None:
            def work() -> None:
                begun.set()
                end.wait(600)

            await driver.values.work(work)

        monkeypatch.setattr(driver, "_wait_for_calls", stuck)
        try:
            async with asyncio.timeout(300):
                await desk.running.worker.stop()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
            assert begun.is_set()
        finally:
            end.set()
