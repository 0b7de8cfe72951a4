"""A run with lanes: three suppliers are looked up at the same time, one of them only once somebody has approved it, and then
something is ordered, in the way to recover that the scene names."""

from __future__ import annotations

from typing import Any

from tercet import Absent, Happened, Pack, Plan, Request, Tool, ToolContext
from tercet.contracts.mode import ApprovalMode

from . import effects
from .acting import IN_A_LANE, TIMEOUT_MS, Scene, act

SUPPLIERS = ("birch", "cedar", "elm")
GATED = "cedar"
"""The supplier that only somebody with the role may look up: its lane waits while the others go on."""
TEXT = {"type": "string"}
SUPPLIER = {"type": "object", "properties": {"supplier": TEXT}, "required": ["supplier"]}


def value_of(step: str) -> dict[str, Any]:
    """What the order brings: the same at every attempt, so that an operator can say it too."""
    return {"receipt": f"receipt of {step}"}


async def _look(ctx: ToolContext, supplier: str) -> dict[str, Any]:
    await act(ctx, "desk.price", effects.do_once)
    return {"price": len(supplier)}


async def _order_once(ctx: ToolContext, **_: Any) -> dict[str, Any]:
    await act(ctx, "desk.order", effects.do_once)
    return value_of(ctx.step_id)


async def _order(ctx: ToolContext, **_: Any) -> dict[str, Any]:
    await act(ctx, "desk.order", effects.do)
    return value_of(ctx.step_id)


def _look_up(ctx: ToolContext) -> Happened | Absent:
    return Happened(value_of(ctx.step_id)) if effects.has_happened(ctx.idempotency_key) else Absent()


def lanes(declaration: str) -> Scene:
    """The scene, with an order that recovers so."""
    is_found = declaration == "reconcile"
    common: dict[str, Any] = {"timeout_ms": TIMEOUT_MS}
    tools = (
        Tool(name="desk.price", call=_look, mode=ApprovalMode.READ_ONLY, parameters=SUPPLIER, **common),
        Tool(
            name="desk.order",
            call=_order_once if declaration == "idempotent" else _order,
            mode=ApprovalMode.LOCAL_WRITE,
            parameters={"type": "object"},
            idempotent=declaration == "idempotent",
            reconcile=_look_up if is_found else None,
            reconciles=is_found,
            no_compensation="the campaign counts, and takes nothing back",
            **common,
        ),
    )
    intent = f"{IN_A_LANE}price"
    looked = {"id": "a", "tool": "desk.price", "params": {"supplier": {"$from": "request#/supplier"}}}
    found = {"price": {"$from": "a#/price"}}
    pack = Pack.model_validate(
        {
            "name": "lanes",
            "version": "1.0.0",
            "tools": tools,
            "gates": ({"name": "GATE_SUPPLIER", "roles": ("finance_lead",)},),
            "policies": (
                {
                    "name": "SUPPLIER_NEEDS_APPROVAL",
                    "scope": "step",
                    "expression": f"step.tool != 'desk.price' || step.params.supplier != '{GATED}'",
                    "effect": "gate",
                    "gate": "GATE_SUPPLIER",
                },
            ),
            "decisions": ({"id": "desk.buy", "risk_tier": "low"}, {"id": intent, "risk_tier": "low"}),
            "lanes": (
                {
                    "name": "price", "intent": intent, "tools": ("desk.price",), "params": SUPPLIER,
                    "budget": {"tool_calls": 20}, "max_fan_out": len(SUPPLIERS),
                },
            ),
            "templates": ({"intent": intent, "steps": (looked,), "outputs": found},),
            "session": {"on_heartbeat_loss": "resume"},
        }
    )  # fmt: skip
    steps: list[dict[str, Any]] = [
        {
            "id": f"s{place + 1}",
            "kind": "lane",
            "tool": "lane.price",
            "params": {"supplier": {"$from": f"request#/suppliers/{place}"}},
        }
        for place in range(len(SUPPLIERS))
    ]
    prices = {f"price_{step['id']}": {"$from": f"{step['id']}#/outputs/price"} for step in steps}
    order = {"id": "s9", "tool": "desk.order", "params": prices, "depends_on": [step["id"] for step in steps]}
    plan = {"intent": "desk.buy", "steps": [*steps, order]}
    request = Request(intent="desk.buy", input={"suppliers": list(SUPPLIERS)})
    return Scene(pack=pack, request=request, plan=Plan.model_validate(plan))
