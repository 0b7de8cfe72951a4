"""Ids of another tenant are answered like ids that do not exist, whichever protocol brings them."""

from __future__ import annotations

import asyncio
import json
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from service.desk import REFUND, Desk, open_desk
from tercet.engine.streams.credentials import SCOPES
from tercet.packs.pack import Pack
from tercet.service.boundary import Limits
from tercet.service.mcp import TOOLS
from tercet.service.methods import METHODS
from tercet.tools import Tool

UNKNOWN = "ses_ffffffffffffffff"
PATHS = ("/v1/sessions/SES", "/v1/sessions/SES/record", "/v1/sessions/SES/progress", "/v1/sessions?cursor=SES", "/v1/gates/SES.g1")  # fmt: skip
A2A = ("GetTask", "CancelTask", "SubscribeToTask")


async def start(desk: Desk) -> tuple[str, str]:
    """Start a refund of one tenant; return its session, and a key of another tenant that may do everything."""
    started = await desk.rpc(await desk.key("agt_support"), "invokeAgent", request=REFUND)
    other = await desk.key("user_finance_lead", roles=("finance_lead",), tenant="other", scopes=SCOPES)
    assert started["gates"] == [f"{started['session']['session_id']}.g1"]
    return started["session"]["session_id"], other


async def post(desk: Desk, key: str, path: str, method: str, params: Any) -> tuple[int, str]:
    """Send JSON-RPC to /mcp or /a2a; return the status and the text of the answer."""
    headers = {
        "authorization": f"Bearer {key}",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2025-06-18",
        "a2a-version": "1.0",
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    response = await desk.client.post(path, json=body, headers=headers)
    return response.status_code, response.text


@pytest.mark.parametrize("path", PATHS)
async def test_paths_do_not_tell_tenants_apart(shop: Path, path: str) -> None:
    """Status, headers and body are the same but for the id."""
    async with open_desk() as desk:
        session, other = await start(desk)
        headers = {"authorization": f"Bearer {other}"}
        theirs = await desk.client.get(path.replace("SES", session), headers=headers)
        unknown = await desk.client.get(path.replace("SES", UNKNOWN), headers=headers)
        assert (theirs.status_code, theirs.json()["error"]["code"]) == (404, "not_found")
        assert theirs.text.replace(session, UNKNOWN) == unknown.text
        assert theirs.headers == unknown.headers


@pytest.mark.parametrize("method", sorted(METHODS))
async def test_no_text_of_any_method_finds_what_another_tenant_has(shop: Path, method: str) -> None:
    """Every field that takes a text, with every id and name of another tenant: the answer is that to an unknown one."""
    needed: dict[str, Any] = {
        "request": {"intent": "none"}, "plan": {"steps": []}, "more": {"tokens": 1}, "happened": True, "decision": "keep",
        "step": "s1", "kind": "tool", "what": "events", "subject": "cus_7", "session_id": UNKNOWN, "gate_id": f"{UNKNOWN}.g1",
    }  # fmt: skip
    async with open_desk() as desk:
        session, other = await start(desk)
        found = METHODS[method].params
        texts = [name for name, each in found.model_fields.items() if "str" in str(each.annotation)]
        given = {name: needed[name] for name, each in found.model_fields.items() if each.is_required()}
        for name in texts:
            for real in (
                session,
                f"{session}.g1",
                f"inbox:{session}",
                f"awaiting_gate:{session}.g1",
                "agt_support",
            ):
                theirs = await desk.rpc(other, method, **{**given, name: real})
                unknown = real.replace(session, UNKNOWN).replace("agt_support", "agt_nobody")
                nobodys = await desk.rpc(other, method, **{**given, name: unknown})
                assert theirs.get("code") == nobodys.get("code"), (name, real)
                text = json.dumps(theirs).replace(real, "")
                assert not any(each in text for each in (session, "agt_support", "ord_881")), (name, real)


@pytest.mark.parametrize("tool", sorted(TOOLS))
async def test_mcp_tools_do_not_tell_tenants_apart(shop: Path, tool: str) -> None:
    """A tool with another tenant's id returns the error of an unknown one, and lists are empty."""
    async with open_desk() as desk:
        session, other = await start(desk)
        given = {
            "status": {"session_id": session},
            "list_gates": {},
            "invoke": {"request": {**REFUND, "request_key": "same"}},
        }
        params = {"name": tool, "arguments": given.get(tool, {"gate_id": f"{session}.g1"})}
        status, text = await post(desk, other, "/mcp", "tools/call", params)
        assert status == 200, text
        if tool in ("status", "get_gate", "approve", "deny"):
            asked = json.loads(json.dumps(params).replace(session, UNKNOWN))
            assert "not_found" in text
            assert (status, text.replace(session, UNKNOWN)) == await post(
                desk, other, "/mcp", "tools/call", asked
            )
        else:
            assert session not in text


@pytest.mark.parametrize("method", A2A)
async def test_a2a_tasks_do_not_tell_tenants_apart(shop: Path, method: str) -> None:
    """A task of another tenant is an unknown task."""
    async with open_desk() as desk:
        session, other = await start(desk)
        theirs = await post(desk, other, "/a2a", method, {"id": session})
        unknown = await post(desk, other, "/a2a", method, {"id": UNKNOWN})
        assert "not_found" in theirs[1]
        assert (theirs[0], theirs[1].replace(session, UNKNOWN)) == unknown
        assert session not in (await post(desk, other, "/a2a", "ListTasks", {}))[1]


@pytest.mark.parametrize("path", ["/rpc", "/mcp", "/a2a"])
async def test_every_protocol_limits_bodies(path: str) -> None:
    """A body over the limit is refused with 413, and one that does not come with 408."""
    async with open_desk(limits=Limits(body_bytes=1000, body_s=0.05)) as desk:

        async def half() -> AsyncIterator[bytes]:
            yield b"{"
            await asyncio.Event().wait()

        headers = {"authorization": f"Bearer {desk.running.local_key}"}
        large = await desk.client.post(path, content=b"x" * 1001, headers=headers)
        assert (large.status_code, large.json()["error"]["code"]) == (413, "too_large")
        late = await desk.client.post(path, content=half(), headers=headers)
        assert (late.status_code, late.json()["error"]["code"]) == (408, "timeout")


SHOP = """\
name = "shop"
version = "1.0.0"

[budget]
tool_calls = 10

[session.tenants.small]
ttl_ms = 60_000
budget = { tool_calls = 1 }
"""


async def test_a_tenant_has_its_own_budget_and_time_to_live() -> None:
    """The pack gives one tenant less of both; a plan that needs more is refused for it, and runs for others."""
    look = Tool.model_validate({"name": "shop.look", "mode": "read_only", "call": lambda: "seen"})
    declared = {**tomllib.loads(SHOP), "tools": (look,), "decisions": ({"id": "look"},)}
    plan = {"steps": [{"id": f"s{n}", "tool": "shop.look"} for n in range(2)]}
    found: dict[str, Any] = {}
    async with open_desk(None, Pack.model_validate(declared)) as desk:
        for tenant in ("small", "large"):
            key = await desk.key("ann", tenant=tenant)
            asked: dict[str, Any] = {"request": {"intent": "look"}, "plan": plan}
            found[tenant] = await desk.rpc(key, "invokeAgent", **asked)
    assert found["small"]["session"]["heartbeat"]["ttl_ms"] == 60_000
    assert [found[tenant]["session"]["status"] for tenant in ("small", "large")] == ["failed", "completed"]
    assert "budget_exceeded" in json.dumps(found["small"])


@pytest.mark.usefixtures("shop")
async def test_figures_of_all_tenants_are_for_operators_of_the_service() -> None:
    """Those of another tenant see how many calls they have made themselves, and nothing of the process."""
    async with open_desk() as desk:
        keys = [await desk.key("olga", scopes=SCOPES, tenant=tenant) for tenant in ("default", "other")]
        for key in (keys[0], keys[0], keys[1]):
            await desk.rpc(key, "listStops")
        own, theirs = [
            (await desk.client.get("/metrics", headers={"authorization": f"Bearer {key}"})).text
            for key in keys
        ]
    counted = 'tercet_calls_total{method="listStops",outcome="ok"}'
    assert f"{counted} 3\n" in own
    assert "tercet_sessions_running 0" in own
    assert theirs == f"# TYPE tercet_calls_total counter\n{counted} 1\n"
