"""The official MCP client drives a refund to its gate, through it and to its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from service.desk import HOST, REFUND, Desk, open_desk, refunds
from tercet.contracts.errors import UsageError
from tercet.service.mcp import TOOLS


@asynccontextmanager
async def connect(desk: Desk, key: str) -> AsyncGenerator[ClientSession]:
    """An MCP client of the service with this key."""
    transport = httpx2.ASGITransport(app=cast("Any", desk.running.app))
    headers = {"authorization": f"Bearer {key}"}
    async with (
        httpx2.AsyncClient(transport=transport, base_url=HOST, headers=headers) as http,
        streamable_http_client(f"{HOST}/mcp", http_client=http) as streams,
        ClientSession(streams[0], streams[1]) as session,
    ):
        await session.initialize()
        yield session


async def use(session: ClientSession, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return what a tool answers, refusals too."""
    answer = await session.call_tool(tool, arguments)
    return cast("dict[str, Any]", answer.structured_content)


async def test_an_mcp_client_drives_a_refund(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each client has the authority of its key: the agent cannot approve its own run, finance can."""
    monkeypatch.setenv("TERCET_REFUNDS_DB", str(tmp_path / "refunds.db"))
    async with open_desk() as desk:
        agent_key = await desk.key("agt_support")
        finance_key = await desk.key("user_finance_lead", roles=("finance_lead",))
        async with connect(desk, agent_key) as agent:
            assert {tool.name for tool in (await agent.list_tools()).tools} == set(TOOLS)
            started = await use(agent, "invoke", request=REFUND)
            (gate,) = started["gates"]
            refused = await agent.call_tool("approve", {"gate_id": gate})
            assert refused.is_error
            assert cast("dict[str, Any]", refused.structured_content)["code"] == "own_gate"
            async with connect(desk, finance_key) as finance:
                (listed,) = (await use(finance, "list_gates"))["gates"]
                shown = (await use(finance, "get_gate", gate_id=gate))["gate"]
                assert gate in str(listed)
                await use(finance, "approve", gate_id=gate, digest=shown["digest"])
            session = started["session"]["session_id"]
            await desk.until(agent_key, session)
            found = await use(agent, "status", session_id=session)
            assert found["verdict"]["verdict"] == "accept"
    assert len(refunds(tmp_path)) == 1


async def test_bad_calls_get_a_typed_answer() -> None:
    """An unknown tool and wrong arguments are answered with code and remedy."""
    async with open_desk() as desk:
        key = await desk.key("agt_support")
        async with connect(desk, key) as agent:
            assert (await use(agent, "unheard_of"))["code"] == "unknown_method"
            assert (await use(agent, "status", session_id=7))["code"] == "invalid_params"
            assert (await use(agent, "status", session_id="ses_0"))["code"] == "not_found"


async def test_mcp_demands_a_credential() -> None:
    """A request without a valid key is refused with 401 before MCP sees it."""
    async with open_desk() as desk:
        for headers in ({}, {"authorization": "Bearer tck_wrong"}):
            refused = await desk.client.post("/mcp", json={}, headers=headers)
            assert (refused.status_code, refused.json()["error"]["code"]) == (401, "unauthenticated")
            assert refused.headers["www-authenticate"] == "Bearer"
            assert "content-security-policy" in refused.headers


async def test_no_stream_is_held_open_that_would_say_nothing() -> None:
    """Requests are answered one by one, so there is nothing to GET."""
    async with open_desk() as desk, asyncio.timeout(300):
        headers = {"authorization": f"Bearer {await desk.key('agt')}", "accept": "text/event-stream"}
        assert (await desk.client.get("/mcp", headers=headers)).status_code == 405


async def test_an_error_while_the_service_is_open_arrives_as_it_is() -> None:
    """What ends the service, such as an error of its journal, is not wrapped into a group."""
    failed = UsageError("the disk is full", code="journal_full", remedy="make room")
    with pytest.raises(UsageError) as caught:
        async with open_desk():
            raise failed
    assert caught.value is failed
