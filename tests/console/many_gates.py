"""A pack whose calls wait for one of two roles, and many copies of a session that waits."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from console.desk import ConsoleDesk
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.gate import Gate
from tercet.contracts.mode import ApprovalMode
from tercet.journal.protocol import Append, Journal
from tercet.packs.pack import Pack
from tercet.tools import Tool

TENANT = "default"
_AT_ONCE = 500


def _send(**_: Any) -> dict[str, Any]:
    return {}


def _tool(role: str) -> Tool:
    return Tool.model_validate(
        {
            "name": f"post.for_{role}",
            "mode": "network",
            "call": _send,
            "gates": [role],
            "authority": [],
            "no_compensation": "a letter cannot be called back",
            "parameters": {"type": "object", "additionalProperties": True},
        }
    )


def pack_of_two_roles() -> Pack:
    """Return a pack with a tool for the gate of each role: lead and clerk."""
    roles = ("lead", "clerk")
    return Pack(
        name="post",
        version="1.0.0",
        safety_mode=ApprovalMode.NETWORK,
        tools=tuple(_tool(role) for role in roles),
        gates=tuple(Gate(name=role, roles=(role,)) for role in roles),
        decisions=(DecisionSpec(id="send"),),
    )


async def wait_for(desk: ConsoleDesk, role: str) -> str:
    """Start a run that waits for a role, and return its gate."""
    plan = {"steps": [{"id": "a", "tool": f"post.for_{role}", "params": {"to": role}}]}
    request: dict[str, Any] = {"intent": "send", "input": {}}
    found = await desk.rpc(await desk.key("agt"), "invokeAgent", request=request, plan=plan)
    return found["gates"][0]


async def copy_waiting(journal: Journal, session: str, number: int, *, later_ms: int = 1) -> list[str]:
    """Store copies of a session that waits, each opened a moment after the one before; return their ids."""
    row = await journal.session(TENANT, session)
    stored = await journal.read(TENANT, session)
    assert row is not None
    assert row.waits_since is not None
    names = [f"ses_{place:0{len(session) - 4}x}" for place in range(1, number + 1)]
    units: list[Append] = []
    for place, name in enumerate(names, 1):
        old, new = session.encode(), name.encode()
        copied = msgspec.structs.replace(
            row,
            session_id=name,
            details=row.details.replace(old, new),
            started_at=row.started_at + place * later_ms,
            waits_since=row.waits_since + place * later_ms,
        )
        events = tuple(each.data.replace(old, new) for each in stored)
        units.append(Append(tenant=TENANT, stream=name, expected=0, events=events, row=copied))
    for first in range(0, number, _AT_ONCE):
        await asyncio.gather(*(journal.append(unit) for unit in units[first : first + _AT_ONCE]))
    return names
