"""A refund that two people approve, each with a token of their company's issuer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from service.desk import Desk, open_desk
from service.issuer import AUDIENCE, Issuer, serving
from tercet import DecisionSpec, Gate, Pack, tool
from tercet.contracts.mode import ApprovalMode
from tercet.executor.clock import SystemClock
from tercet.service.oidc import OidcSettings


@tool("bank.transfer", mode="destructive", authority=["cents"], gates=["TWO"], no_compensation="final")
def transfer(cents: int) -> str:
    """Send money."""
    return f"sent {cents}"


PACK = Pack(
    name="treasury",
    version="1.0.0",
    safety_mode=ApprovalMode.DESTRUCTIVE,
    tools=[transfer],
    decisions=[DecisionSpec(id="pay.invoice")],
    gates=[Gate(name="TWO", roles=("cfo",), quorum=2)],
)
REQUEST = {"intent": "pay.invoice", "input": {"cents": 9_900}}
PLAN = {"steps": [{"id": "s1", "tool": "bank.transfer", "params": {"cents": 9_900}}]}


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with serving(Issuer()) as running:
        yield running


def token(issuer: Issuer, subject: str, *roles: str, **claims: Any) -> str:
    """A token for somebody, valid now."""
    return issuer.token(now_s=SystemClock().now() // 1000, sub=subject, roles=list(roles), **claims)


def desk(issuer: Issuer, **more: Any) -> Any:
    """A service that accepts tokens of the issuer."""
    return open_desk(None, PACK, oidc=OidcSettings(issuer=issuer.url, audience=AUDIENCE, **more))


async def start(service: Desk, agent: str) -> tuple[str, str]:
    """Start the transfer; return its session and its gate."""
    started = await service.rpc(agent, "invokeAgent", request=REQUEST, plan=PLAN)
    return started["session"]["session_id"], started["gates"][0]


async def test_two_people_approve_with_tokens(issuer: Issuer) -> None:
    """One person counts once, a role that the token does not give counts for nothing, and the record names both."""
    async with desk(issuer) as service:
        agent, rosa, carl = (token(issuer, name, "cfo") for name in ("agent", "rosa", "carl"))
        session, gate = await start(service, agent)
        assert (await service.rpc(agent, "approveGate", gate_id=gate))["code"] == "own_gate"
        intern = token(issuer, "ines", "intern")
        assert (await service.rpc(intern, "approveGate", gate_id=gate))["code"] == "role_missing"
        await service.rpc(rosa, "approveGate", gate_id=gate)
        assert (await service.rpc(rosa, "approveGate", gate_id=gate))["code"] == "already_approved"
        assert (await service.rpc(rosa, "getSession", session_id=session))["session"][
            "status"
        ] == "awaiting_gate"
        await service.rpc(carl, "approveGate", gate_id=gate)
        assert (await service.until(agent, session))["session"]["status"] == "completed"
        record = (await service.rpc(agent, "getRecord", session_id=session))["record"]
    assert {each["approver"] for each in record["approvals"]} == {"rosa", "carl"}


async def test_a_token_does_not_operate_unless_its_role_says_so(issuer: Issuer) -> None:
    """Emergency stops need the role that the operator of the service has named."""
    stop = {"kind": "tool", "name": "bank.transfer"}
    async with desk(issuer, operator_role="sre") as service:
        refused = await service.rpc(token(issuer, "rosa", "cfo"), "emergencyStop", **stop)
        assert refused["code"] == "scope_missing"
        assert refused["remedy"] == "ask an administrator for the role 'sre', and sign in again"
        assert "stop" in await service.rpc(token(issuer, "sam", "sre"), "emergencyStop", **stop)


async def test_the_tenant_of_a_token_separates(issuer: Issuer) -> None:
    """A token of another tenant does not find the session."""
    async with desk(issuer, tenant_claim="org") as service:
        session, gate = await start(service, token(issuer, "agent", org="acme"))
        other = token(issuer, "rosa", "cfo", org="globex")
        assert (await service.rpc(other, "getSession", session_id=session))["code"] == "not_found"
        assert (await service.rpc(other, "approveGate", gate_id=gate))["code"] == "not_found"


async def test_a_refused_token_gets_a_typed_answer(issuer: Issuer) -> None:
    """An expired token is refused with 401; an issuer that is down is named, with 503."""
    async with desk(issuer) as service:
        expired = token(issuer, "rosa", "cfo", exp=1)
        body = {"jsonrpc": "2.0", "id": 1, "method": "listGates"}
        refused = await service.post(expired, body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (401, "token_refused")
        assert refused.headers["www-authenticate"] == "Bearer"
    issuer.is_down = True
    async with desk(issuer) as service:
        refused = await service.post(token(issuer, "rosa"), body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "issuer_unavailable")


async def test_a_stream_ends_with_its_token(issuer: Issuer) -> None:
    """After its token has expired, an open progress stream sends nothing more, though the session moves."""
    async with desk(issuer, leeway_s=0) as service, asyncio.timeout(300):
        session, gate = await start(service, token(issuer, "agent"))
        now_s = SystemClock().now() // 1000
        short = issuer.token(now_s=now_s, sub="ines", roles=[], exp=now_s + 3)
        path, sent = f"/v1/sessions/{session}/progress", {"authorization": f"Bearer {short}"}
        following = asyncio.create_task(service.client.get(path, headers=sent))
        while "code" not in await service.rpc(short, "listStops"):  # noqa: ASYNC110 - until it has expired
            await asyncio.sleep(0.05)
        for name in ("rosa", "carl"):
            await service.rpc(token(issuer, name, "cfo"), "approveGate", gate_id=gate)
        assert (await following).text.count("event: progress") == 1
