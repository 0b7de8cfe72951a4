"""What an approver's process does: answers every open gate of a tenant's session, truthfully, and says how many.

Truth comes from the database of effects; whether something may happen, from the scene: all is approved, except that the
last gate of a scene that is to be denied is denied, and that of one that is to expire is answered too late. The process
may be killed at points of its own: around what it puts into the inbox, and around the event that comes of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any

from tercet import Actor, TercetError
from tercet.core.state import OpenGate
from tercet.journal.opening import open_journal
from tercet.runtime import Runtime, RuntimeOptions
from tercet.testing.crash_points import doom, plant

from . import effects
from .acting import crash_plan, run_of
from .clocks import worker_clock
from .scenes import scene, truth_of
from .worker import Say

OPERATOR = Actor(id="user_finance_lead", roles=("finance_lead",))
BESIDE = ("gate_not_open", "gate_expired", "session_over", "session_ending")
"""What somebody is told whose answer came after another one, or too late."""


async def answer(journal: str, tenant: str, name: str, lease_ms: int, say: Say) -> dict[str, Any]:
    """Answer every gate that is open."""
    answered, beside = 0, 0
    async with open_journal(journal) as opened:
        plan = crash_plan()
        async with Runtime(
            scene(name).pack,
            doom(opened, plan),
            tenant=tenant,
            options=RuntimeOptions(clock=worker_clock(), lease_ms=lease_ms),
        ) as runtime:
            say("ready")
            row = run_of(await runtime.sessions())
            assert row is not None
            for gate in (await runtime.state(row.session_id)).gates.values():
                try:
                    await _reply(runtime, name, gate)
                    answered += 1
                except TercetError as error:
                    if error.code not in BESIDE:
                        raise
                    beside += 1
    return {"answered": answered, "beside": beside}


async def _reply(runtime: Runtime, name: str, gate: OpenGate) -> None:
    scenes_pack = name.partition(":")[0]
    match gate.kind:
        case "approval" if "GATE_SHIPPING" in gate.names and scenes_pack == "denied":
            await runtime.deny(gate.id, actor=OPERATOR, note="not this one")
        case "approval" if "GATE_SHIPPING" in gate.names and scenes_pack == "expired":
            await asyncio.sleep(max(0, gate.expires / 1000 - time.time()))
            await runtime.approve(gate.id, actor=OPERATOR)
        case "approval":
            await runtime.approve(gate.id, actor=OPERATOR)
        case "reconcile":
            await _settle(runtime, name, gate)
        case "escalation":
            await runtime.decide(gate.id, "abandon", actor=OPERATOR)
        case "compensation":
            await runtime.decide(gate.id, "compensate", actor=OPERATOR)
        case "output":
            await runtime.approve(gate.id, actor=OPERATOR)


def _settle(runtime: Runtime, name: str, gate: OpenGate) -> Awaitable[Any]:
    """Say whether a call happened, from the database in which everything is that did."""
    if effects.has_happened(gate.shown["key"], Path(os.environ[effects.VARIABLE])):
        return runtime.settle(gate.id, happened=True, value=truth_of(name, gate.step), actor=OPERATOR)
    return runtime.settle(gate.id, happened=False, actor=OPERATOR)


def main(words: Sequence[str], say: Say) -> None:
    """Answer in a journal, for a tenant, in a scene, with a lease of so many milliseconds."""
    journal, tenant, name, lease_ms = words
    plant(crash_plan())
    try:
        told = asyncio.run(answer(journal, tenant, name, int(lease_ms), say))
    except TercetError as error:
        told = {"error": error.code, "reason": str(error)}
    say(json.dumps(told))
