"""Packs with lanes for tests: a parent that buys, a lane that looks things up, and plans that use both."""

from __future__ import annotations

from typing import Any

from engine.workshop import ADA, Workshop, plan, step
from tercet.contracts.plan import Plan
from tercet.contracts.request import Actor, Request
from tercet.core.state import State
from tercet.journal.protocol import Journal
from tercet.packs.pack import Pack
from tercet.runtime import Runtime

__all__ = ["ADA", "ASK", "RESEARCH", "children", "lane_step", "pack_with_lanes", "plan", "step", "template"]

ASK = Request(
    intent="work",
    input={"item": "desk", "supplier": "birch", "suppliers": [f"birch {n:03}" for n in range(100)]},
)

TEXT = {"type": "string"}
RESEARCH: dict[str, Any] = {
    "name": "research",
    "description": "Look a supplier up.",
    "intent": "research",
    "tools": ("look.up",),
    "params": {"type": "object", "properties": {"supplier": TEXT}, "required": ["supplier"]},
    "budget": {"tool_calls": 2},
    "max_fan_out": 4,
}


def template(*steps: dict[str, Any], intent: str = "research", **fields: Any) -> Plan:
    """A template for the decision that a lane takes."""
    return Plan.model_validate({"intent": intent, "steps": steps, **fields})


LOOK_UP = template(
    {"id": "a", "tool": "look.up", "params": {"supplier": {"$from": "request#/supplier"}}},
    outputs={"price": {"$from": "a#/price"}},
)


def pack_with_lanes(
    workshop: Workshop,
    *,
    lanes: tuple[dict[str, Any], ...] = (RESEARCH,),
    templates: tuple[Plan, ...] = (LOOK_UP,),
    decision: dict[str, Any] | None = None,
    more: tuple[dict[str, Any], ...] = (),
    **header: Any,
) -> Pack:
    """A pack with a decision that works, one that researches, and lanes."""
    decisions = (
        {"id": "work", "risk_tier": "low", **(decision or {})},
        {"id": "research", "risk_tier": "low"},
        *more,
    )
    fields = {"name": "workshop", "version": "1.0.0", "safety_mode": "destructive", **header}
    tools = tuple(workshop.tools)
    return Pack.model_validate(
        {**fields, "tools": tools, "decisions": decisions, "lanes": lanes, "templates": templates}
    )


def lane_step(step_id: str, supplier: Any = 0, lane: str = "research", **fields: Any) -> Any:
    """A step that starts a lane."""
    params = {
        "supplier": {"$from": f"request#/suppliers/{supplier}"} if isinstance(supplier, int) else supplier
    }
    return step(step_id, f"lane.{lane}", kind="lane", **{"params": params, **fields})


async def children(runtime: Runtime, journal: Journal | None = None) -> list[State]:
    """The sessions that are lanes, oldest first."""
    del journal
    states = [await runtime.state(row.session_id) for row in await runtime.sessions(limit=500)]
    return sorted((s for s in states if s.start.lane), key=lambda s: (s.start.at, s.start.session))


def owner() -> Actor:
    """Who asks."""
    return ADA
