"""What a worker process does: opens the journal, starts or resumes one session, and says in JSON how it ended.

It says `ready` once the journal is open. `TERCET_CRASH` says where it dies.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tercet import Actor, TercetError
from tercet.runtime import Runtime, RuntimeOptions
from tercet.testing.crash_points import plant

from .acting import Scene, crash_plan, run_of
from .clocks import worker_clock
from .scenes import scene
from .witness import witness

Say: TypeAlias = Callable[[str], None]
"""How a worker tells the campaign something."""
ALERT = "compensation_failed"
"""What an operator is alerted of."""


async def work(journal: str, tenant: str, chosen: Scene, lease_ms: int, say: Say) -> dict[str, Any]:
    """Carry the tenant's session as far as it goes; start one if there is none."""
    alerts: list[str] = []

    def hear(name: str, fields: dict[str, Any]) -> None:
        if name == ALERT:
            alerts.append(fields["action"])

    async with Runtime(
        chosen.pack,
        journal,
        tenant=tenant,
        options=RuntimeOptions(clock=worker_clock(), lease_ms=lease_ms, crash=crash_plan(), signal=hear),
    ) as runtime:
        say("ready")
        witness().journal = runtime.journal
        found = run_of(await runtime.sessions())
        result = (
            await runtime.resume(found.session_id)
            if found
            else await runtime.run(chosen.request, plan=chosen.plan, actor=Actor(id="agt_campaign"))
        )
        return {"status": result.status, "reason": result.reason, "alerts": alerts}


def main(words: Sequence[str], say: Say) -> None:
    """Work on a journal, for a tenant, in a scene, with a lease of so many milliseconds."""
    journal, tenant, name, lease_ms = words
    plant(crash_plan())
    said: list[str] = []

    def tell(line: str) -> None:
        said.append(line)
        say(line)

    try:
        ended = asyncio.run(work(journal, tenant, scene(name), int(lease_ms), tell))
    except TercetError as error:
        ended = {"error": error.code, "reason": str(error), "opened": bool(said)}
    say(json.dumps(ended))
