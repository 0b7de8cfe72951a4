"""A notifier that dies between a delivery and its record: `python -m service.killed_notifier JOURNAL HOOK`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

from tercet.journal.opening import open_journal
from tercet.service import notifier
from tercet.service.targets import NotificationSettings


async def main(url: str, hook: str) -> None:
    """Deliver until the first attempt has ended, and die before it is recorded."""
    record: Any = notifier.record

    async def die(journal: Any, lease: Any, notice: Any, *events: Any, **more: Any) -> None:
        if any(isinstance(event, notifier.Attempted) for event in events):
            os.kill(os.getpid(), signal.SIGKILL)
        await record(journal, lease, notice, *events, **more)

    notifier.record = die
    target = {"kind": "webhook", "url": hook, "secret_env": "HOOK_SECRET"}
    settings = NotificationSettings.model_validate({"targets": {"ops": target}})
    async with open_journal(url) as journal:
        await notifier.Notifier(journal, settings, timing=notifier.Timing(poll_ms=10, lease_ms=500)).run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
