"""A pack for clusters: a lane looks a price up, an item is reserved, and its buyer is charged once a person agrees.

Two further plans wait at a gate that expires soon, or ship the item and then fail, which takes everything back. What happened
is counted in a database of its own, `acceptance.effects`, with the pack version whose code did it.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from acceptance import effects
from acceptance.effects import Effect
from tercet import Absent, Actor, Happened, NotDone, Pack, Request, Tool, ToolContext

HOLD = "ORDERS_HOLD"
"""The variable that names a folder: while it has a file named like a tool, a call that has happened does not return."""
CALL_MS = 3_000
"""How long a charge may take: the call of a lost worker counts as running until then."""
SOON_MS = 6_000
"""How long the gate of a trial offer is open."""
SELL = Request(intent="order.sell", input={"item": "desk", "supplier": "birch"})
DEAR = "oak"
"""The supplier whose price is only looked up after an approval."""
LEAD = Actor(id="lea", roles=("finance_lead",))
AGENT = Actor(id="agent")
TEXT = {"type": "string"}
ITEM: dict[str, Any] = {"type": "object", "properties": {"item": TEXT}, "required": ["item"]}
SUPPLIER: dict[str, Any] = {"type": "object", "properties": {"supplier": TEXT}, "required": ["supplier"]}


def _plan(*calls: tuple[str, str]) -> dict[str, Any]:
    """Return a plan that looks a price up in a lane, reserves an item, and then makes these calls behind these gates."""
    price = {"supplier": {"$from": "request#/supplier"}}
    steps: list[dict[str, Any]] = [{"id": "p1", "tool": "lane.price", "kind": "lane", "params": price}]
    for number, (tool, gate) in enumerate((("order.reserve", ""), *calls), start=1):
        step = {"id": f"s{number}", "tool": tool, "params": {"item": {"$from": "request#/item"}}}
        steps.append({**step, "depends_on": [steps[-1]["id"]], **({"gates": [gate]} if gate else {})})
    return {"intent": "order.sell", "steps": steps}


PLAN = _plan(("order.charge", "GATE_MONEY"))
OFFER_PLAN = _plan(("order.offer", "GATE_SOON"))
"""Nobody answers its gate, which soon expires."""
FAILING_PLAN = _plan(("order.ship", ""), ("order.label", ""))
"""Its last step fails; a person abandons it, so the item comes back and is released."""


def _note(ctx: ToolContext, name: str, version: str) -> None:
    do = effects.do if name in LOOKED_UP else effects.do_once
    do(Effect(ctx.idempotency_key, ctx.step_id, f"{name}@{version}", os.getpid(), warrant=ctx.session_id))


LOOKED_UP = ("order.charge", "order.ship", "order.return")
"""The tools that act again whenever they are called: what they did is looked up."""


def _acting(name: str, version: str) -> Any:
    async def call(ctx: ToolContext, **params: Any) -> dict[str, Any]:
        if name == "order.label":
            raise NotDone("the printer has no paper", is_retriable=False)
        await asyncio.to_thread(_note, ctx, name, version)
        hold = Path(os.environ.get(HOLD, "/nonexistent"), name)
        while hold.exists():  # noqa: ASYNC110, ASYNC240 - another process removes it
            await asyncio.sleep(0.02)
        return {"done": name, **params}

    return call


def _look_up(ctx: ToolContext) -> Happened | Absent:
    return Happened({"done": "it was"}) if effects.has_happened(ctx.idempotency_key) else Absent()


def _tools(version: str) -> tuple[Tool, ...]:
    def made(name: str, parameters: dict[str, Any], **declared: Any) -> Tool:
        fields = {"name": name, "call": _acting(name, version), "parameters": parameters}
        if name in LOOKED_UP:
            fields |= {"reconcile": _look_up, "reconciles": True, "timeout_ms": CALL_MS}
        return Tool.model_validate({**fields, **declared})

    def undone_by(name: str) -> dict[str, Any]:
        return {"compensate": {"tool": name, "params": {"item": {"$from": "params#/item"}}}}

    last = {"no_compensation": "a person repays"}
    return (
        made("order.look", SUPPLIER, mode="read_only"),
        made("order.reserve", ITEM, mode="local_write", idempotent=True, **undone_by("order.release")),
        made("order.charge", ITEM, mode="destructive", gates=("GATE_MONEY",), **last),
        made("order.offer", ITEM, mode="destructive", gates=("GATE_SOON",), idempotent=True, **last),
        made("order.ship", ITEM, mode="local_write", **undone_by("order.return")),
        made("order.label", ITEM, mode="local_write", idempotent=True, **last),
        made("order.release", ITEM, mode="local_write", idempotent=True, **last),
        made("order.return", ITEM, mode="local_write", **last),
    )


def make_pack(version: str = "1.0.0", *, gate_ttl_ms: int = 86_400_000) -> Pack:
    """Return the pack in a version."""
    lane = {"name": "price", "intent": "order.price", "tools": ("order.look",), "params": SUPPLIER}
    looked = {"id": "a", "tool": "order.look", "params": {"supplier": {"$from": "request#/supplier"}}}
    return Pack.model_validate(
        {
            "name": "orders",
            "version": version,
            "safety_mode": "destructive",
            "on_failure": "compensate",
            "session": {"on_heartbeat_loss": "resume"},
            "tools": _tools(version),
            "gates": (
                {"name": "GATE_MONEY", "roles": ("finance_lead",), "ttl_ms": gate_ttl_ms},
                {"name": "GATE_SOON", "roles": ("finance_lead",), "ttl_ms": SOON_MS},
            ),
            "decisions": ({"id": "order.sell", "risk_tier": "medium"}, {"id": "order.price", "risk_tier": "low"}),
            "lanes": ({**lane, "budget": {"tool_calls": 2}},),
            "policies": (
                {
                    "name": "DEAR_SUPPLIER",
                    "scope": "step",
                    "expression": f"step.tool != 'order.look' || step.params.supplier != '{DEAR}'",
                    "effect": "gate",
                    "gate": "GATE_MONEY",
                },
            ),
            "templates": ({"intent": "order.price", "steps": (looked,)},),
        }
    )  # fmt: skip
