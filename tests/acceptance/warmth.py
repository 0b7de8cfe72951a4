"""Imported by the nursery before it forks: everything that a process of the campaign would else do first.

Drivers are imported, and one small run has built what is built once in a process. It starts no thread.
"""

from __future__ import annotations

import asyncio

from tercet import DecisionSpec, Pack, Plan, Request
from tercet.database import postgres
from tercet.runtime import Runtime

from . import approver, sagas, worker

__all__ = ["approver", "postgres", "worker"]


async def _warm() -> None:
    sagas.saga("denied", "idempotent")
    pack = Pack(name="warmth", version="1.0.0", decisions=[DecisionSpec(id="warm.up")])
    plan = {"intent": "warm.up", "steps": [{"id": "s1", "kind": "note", "params": {"n": 1}}]}
    async with Runtime(pack) as runtime:
        await runtime.run(Request(intent="warm.up"), plan=Plan.model_validate(plan))


asyncio.run(_warm())
