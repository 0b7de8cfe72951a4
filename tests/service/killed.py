"""A worker that dies at the n-th crash point that it comes to: `python -m service.killed PACK JOURNAL N`."""

from __future__ import annotations

import asyncio
import os
import sys
from itertools import count

from tercet.journal.opening import open_journal
from tercet.packs.pack import Pack
from tercet.runtime import RuntimeOptions
from tercet.service.hub import Hub
from tercet.service.server import running_worker
from tercet.service.worker import Worker


async def main(pack: str, url: str, last: int) -> None:
    """Carry sessions on until the crash, or until there is nothing to do."""
    numbers = count(1)

    def crash(_: str) -> None:
        if next(numbers) == last:
            os._exit(9)

    async with open_journal(url) as journal:
        options = RuntimeOptions(crash=crash, lease_ms=1_000)
        hub = Hub((Pack.load(pack),), journal, options=options, watchdog_ms=None)
        worker = Worker(hub, poll_ms=10)
        async with running_worker(hub, worker, {"default"}):
            while not worker.carried:  # noqa: ASYNC110 - the worker has no event for tests
                await asyncio.sleep(0.01)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
