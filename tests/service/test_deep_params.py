"""Parameters that nest deeply, and faults of our own: a typed answer, an entry in the audit log, and one traceback."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Any, NoReturn

import pytest

from service.desk import Desk, open_desk
from tercet.engine.streams.audit import read_audit
from tercet.journal.memory import MemoryJournal
from tercet.service import app, calls
from tercet.service.identity import Caller
from tercet.service.methods import METHODS, Service

DEPTHS = (10, 60, 64, 65, 66, 130, 200, 500, 950, 960, 990, 1010, 1019, 1030, 1100)
STOP = """{"jsonrpc": "2.0", "id": 1, "method": "emergencyStop",
    "params": {"kind": "tool", "name": "a.b", "note": %s}}"""
TOOL = """{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
    "params": {"name": "deny", "arguments": {"gate_id": "ses_0.g1", "note": %s}}}"""
MESSAGE = """{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": {"messageId": "m",
    "role": "ROLE_USER", "parts": [{"data": {"intent": "none", "input": {"x": %s}}}]}}}"""
CALLS = {"/rpc": STOP, "/mcp": TOOL, "/a2a": MESSAGE}


async def _post(desk: Desk, path: str, body: str) -> Any:
    headers = {
        "authorization": f"Bearer {desk.running.local_key}",
        "content-type": "application/json",
        "accept": "application/json",
        "mcp-protocol-version": "2025-06-18",
        "a2a-version": "1.0",
    }
    response = await desk.client.post(path, content=body.encode(), headers=headers)
    assert response.status_code == (400 if path == "/mcp" and "not JSON" in response.text else 200)
    return response.json()


@pytest.mark.parametrize("path", [*CALLS])
async def test_what_nests_too_deeply_is_refused(path: str) -> None:
    """At every depth with a code and a remedy, and never as a fault of ours."""
    async with open_desk() as desk:
        for depth in DEPTHS:
            answer = await _post(desk, path, CALLS[path] % ("[" * depth + "]" * depth))
            if depth >= 65:
                error = answer["error"]
                assert error["data"]["code"] in ("invalid_params", "malformed_call"), (depth, answer)
                assert error["data"]["remedy"]
                assert error["code"] == (-32602 if error["data"]["code"] == "invalid_params" else -32700)
                assert answer["id"] == (1 if error["code"] == -32602 else None)
            assert "recursion" not in json.dumps(answer).lower()
            assert "-32603" not in json.dumps(answer)


async def test_what_nests_too_deeply_is_in_the_audit_log_and_loses_no_other_answer() -> None:
    """A deep call in a batch is refused, and the other one is carried out."""
    async with open_desk() as desk:
        for count, depth in enumerate((70, 960, 1000), 1):
            batch = f"[{STOP % ('[' * depth + ']' * depth)}, {STOP % '1'}, {STOP % json.dumps('x')}]"
            deep, wrong, right = await _post(desk, "/rpc", batch)
            assert [each["error"]["data"]["code"] for each in (deep, wrong)] == ["invalid_params"] * 2
            assert right["result"]["stop"]["name"] == "a.b"
            entries = [entry for _, entry in await read_audit(desk.journal, "default")]
            assert [each.outcome for each in entries] == ["invalid_params", "invalid_params", "ok"] * count


async def _fail(*_: object) -> NoReturn:
    raise RuntimeError("a fault of ours")


@pytest.mark.parametrize("place", ["method", "call"])
async def test_a_fault_in_one_call_loses_no_other_answer(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, place: str
) -> None:
    """It becomes the error of its call, also where nothing was expected to fail, and is logged once."""

    async def call(service: Service, caller: Caller, name: str, given: Any) -> Any:
        if name == "listStops":
            await _fail()
        return await calls.call(service, caller, name, given)

    if place == "call":
        monkeypatch.setattr(app, "call", call)
    else:
        monkeypatch.setitem(METHODS, "listStops", replace(METHODS["listStops"], call=_fail))
    sent = [{"jsonrpc": "2.0", "id": n, "method": m} for n, m in enumerate(("listStops", "listGates"))]
    async with open_desk() as desk:
        failed, listed = await _post(desk, "/rpc", json.dumps(sent))
    assert (failed["error"]["code"], failed["error"]["data"]["code"]) == (-32603, "internal")
    assert listed["result"]["gates"] == []
    assert [each.levelno for each in caplog.records if each.exc_info] == [logging.ERROR]


async def test_a_fault_outside_of_calls_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The server is not handed what was logged and answered already."""
    journal = MemoryJournal()
    async with open_desk(journal) as desk:
        monkeypatch.setattr(journal, "change_count", _fail)
        response = await desk.client.get("/readyz")
    assert (response.status_code, response.json()["error"]["code"]) == (500, "internal")
    assert [each.levelno for each in caplog.records if each.exc_info] == [logging.ERROR]
