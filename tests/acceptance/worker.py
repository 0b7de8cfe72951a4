"""A worker process: opens the journal, starts or resumes one session, and says in one line of JSON how it ended.

    python -m acceptance.worker JOURNAL TENANT SCENE LEASE_MS

It prints `ready` once the journal is open. `TERCET_CRASH` says where it dies.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from tercet import Actor, TercetError
from tercet.runtime.runtime import RunResult, Runtime
from tercet.testing.crash_points import plant

from .scenes import Scene, crash_plan, scene


async def work(journal: str, tenant: str, chosen: Scene, lease_ms: int) -> dict[str, Any]:
    """Carry the tenant's session as far as it goes; start one if there is none."""
    async with Runtime(chosen.pack, journal, tenant=tenant, lease_ms=lease_ms, crash=crash_plan()) as runtime:
        say("ready")
        found = await runtime.sessions()
        return told(
            await runtime.resume(found[0].session_id)
            if found
            else await runtime.run(chosen.request, plan=chosen.plan, actor=Actor(id="agt_campaign"))
        )


def told(result: RunResult) -> dict[str, Any]:
    """What the campaign wants to know."""
    return {"status": result.status, "session": result.session_id, "reason": result.reason}


def say(line: str) -> None:
    """Tell the campaign something."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Read the command line, and work."""
    journal, tenant, name, lease_ms = sys.argv[1:]
    plant(crash_plan())
    try:
        ended = asyncio.run(work(journal, tenant, scene(name), int(lease_ms)))
    except TercetError as error:
        ended = {"error": error.code, "reason": str(error)}
    say(json.dumps(ended))


if __name__ == "__main__":
    main()
