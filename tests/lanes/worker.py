"""A worker process that runs a parent with many lanes, and dies where `TERCET_CRASH` says.

python -m lanes.worker JOURNAL TENANT FILE LANES BUDGET
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from tercet import Actor, Pack, Plan, Request, ToolContext, tool
from tercet.runtime import Runtime, RuntimeOptions
from tercet.testing.crash_points import CrashPlan, plant

CALLS = "LANES_CALLS"
"""The variable that names the file in which calls are counted."""
TEXT = {"type": "string"}


@tool("look.up", mode="read_only")
async def look_up(context: ToolContext, supplier: str) -> dict[str, Any]:
    """Look a supplier up, and write down that it was done."""
    line = f"{context.session_id} {context.idempotency_key}\n".encode()
    await asyncio.to_thread(_write, line)
    return {"price": len(supplier)}


def _write(line: bytes) -> None:
    file = os.open(os.environ[CALLS], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, line)
    finally:
        os.close(file)


def pack_of(lanes: int, budget: int) -> Pack:
    """A pack whose runs may start so many lanes, and pay for fewer."""
    return Pack.model_validate(
        {
            "name": "crowd",
            "version": "1.0.0",
            "tools": (look_up,),
            "decisions": ({"id": "work", "risk_tier": "low"}, {"id": "research", "risk_tier": "low"}),
            "budget": {"tool_calls": budget, "max_steps": lanes, "max_global_iterations": 20 * lanes + 100},
            "lanes": (
                {
                    "name": "research",
                    "intent": "research",
                    "tools": ("look.up",),
                    "params": {"type": "object", "properties": {"supplier": TEXT}, "required": ["supplier"]},
                    "budget": {"tool_calls": 1},
                    "max_fan_out": lanes,
                },
            ),
            "templates": (
                {
                    "intent": "research",
                    "steps": (
                        {
                            "id": "a",
                            "tool": "look.up",
                            "params": {"supplier": {"$from": "request#/supplier"}},
                        },
                    ),
                    "outputs": {"price": {"$from": "a#/price"}},
                },
            ),
        }
    )


def plan_of(lanes: int) -> Plan:
    """A plan of so many lanes, none of which the run depends on."""
    steps = [
        {
            "id": f"s{n:03}",
            "kind": "lane",
            "tool": "lane.research",
            "params": {"supplier": {"$from": f"request#/suppliers/{n}"}},
            "optional": True,
        }
        for n in range(lanes)
    ]
    return Plan.model_validate({"intent": "work", "steps": steps})


async def work(journal: str, tenant: str, lanes: int, budget: int) -> str:
    """Start the run, or carry it on; return how it ended."""
    options = RuntimeOptions(lease_ms=500, crash=CrashPlan.read())
    async with Runtime(
        pack_of(lanes, budget), journal, tenant=tenant, watchdog_ms=None, options=options
    ) as runtime:
        rows = await runtime.sessions(limit=1_000)
        roots = [row.session_id for row in rows if not (await runtime.state(row.session_id)).start.root]
        if roots:
            return (await runtime.resume(roots[0])).status
        names = {"suppliers": [f"supplier {n:03}" for n in range(lanes)]}
        request = Request(intent="work", input=names)
        return (await runtime.run(request, plan=plan_of(lanes), actor=Actor(id="ada"))).status


def main(words: list[str]) -> None:
    """Run one worker."""
    journal, tenant, file, lanes, budget = words
    os.environ[CALLS] = file
    plant(CrashPlan.read())
    print(asyncio.run(work(journal, tenant, int(lanes), int(budget))))  # noqa: T201 - it is a program


if __name__ == "__main__":
    main(sys.argv[1:])
