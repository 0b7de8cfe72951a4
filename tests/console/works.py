"""A pack whose tools break off, can be undone, fail, or wait for a person, and runs of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from console.desk import ConsoleDesk
from tercet.contracts.decision import DecisionSpec, RiskTier
from tercet.contracts.errors import NotDone
from tercet.contracts.gate import Gate
from tercet.packs.pack import Pack
from tercet.tools import Tool


def _tool(name: str, call: Callable[..., Any], **more: Any) -> Tool:
    shared: dict[str, Any] = {
        "mode": "local_write",
        "gates": [],
        "authority": [],
        "parameters": {"type": "object"},
        "compensate": {"tool": "works.undo", "params": {"id": "1"}},
    }
    return Tool.model_validate({"name": name, "call": call, **shared, **more})


def _work(**_: Any) -> dict[str, Any]:
    return {"id": "1"}


def _break(**_: Any) -> dict[str, Any]:
    raise RuntimeError("the line went dead")


def _refuse(**_: Any) -> dict[str, Any]:
    raise NotDone("no paper", is_retriable=False)


def works_pack() -> Pack:
    """Return a pack with a tool that breaks off, one that can be undone, and one that fails."""
    tools = (
        _tool("works.lost", _break),
        _tool("works.done", _work),
        _tool("works.undo", _work, idempotent=True, compensate=None, no_compensation="it undoes"),
        _tool("works.bad", _refuse),
        _tool("works.read", _work, mode="read_only", compensate=None, trust="untrusted"),
        _tool("works.ask", _work, gates=["lead"]),
    )
    return Pack.model_validate(
        {
            "name": "works",
            "version": "1.0.0",
            "on_failure": "ask",
            "tools": tools,
            "decisions": [DecisionSpec(id="go", risk_tier=RiskTier.LOW)],
            "gates": [Gate(name="lead", roles=("lead",))],
        }
    )


async def run_works(desk: ConsoleDesk, *tools: str) -> str:
    """Start a run that calls these tools one after the other, and return the gate that it waits at."""
    steps: list[dict[str, Any]] = [
        {"id": f"s{n}", "tool": name, "params": {}, "depends_on": [f"s{n - 1}"] if n else []}
        for n, name in enumerate(tools)
    ]
    request: dict[str, Any] = {"intent": "go", "input": {}}
    found = await desk.rpc(
        await desk.key("agt"), "invokeAgent", request=request, pack="works", plan={"steps": steps}
    )
    return found["gates"][0]
