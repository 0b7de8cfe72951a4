"""Sessions that Temporal schedules and that wait at gates: what they cost two workers in memory, and what they cost elsewhere.

Ten thousand sessions are started a thousand at a time. Each time all of them have come to their gates, and the workers have
had nothing to do for as long as it takes them to tidy up, their memory is what the operating system counts for them. The
first thousand fill caches; the target is what each of the others has added.

    WAITING=3000 PYTHONPATH=tests python -m bench cluster_waiting
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import time
from pathlib import Path

from plugins.postgres import running_server
from plugins.temporal import TemporalServer, running_temporal
from tercet.cluster.process import TIDY_S
from tercet.contracts.request import Request

from . import waiting
from .cluster import open_front, stored, workers
from .measurement import Target, show_targets
from .servers import make_database

WAITING, STAGES = 10_000, 10
MOST_BYTES = 1024.0
"""What a waiting session may cost all workers together, measured from the first tenth on."""
IDLE_S = 5


async def wait_at_gates(server: TemporalServer, journal: str, number: int, *, rest_s: float) -> list[Target]:
    """Start so many sessions and print what they cost; return the target."""
    part = number // STAGES
    async with open_front(waiting.pack_of(), server.address, journal) as front:
        with workers("waiting", 2, server.address, journal) as crew:
            held: list[int] = []
            before, kept = dict[str, int](), 0
            for stage in range(1, STAGES + 1):
                began = time.perf_counter()
                accounts = [f"acc_{each}" for each in range((stage - 1) * part, stage * part)]
                await front.start(
                    [
                        (Request(intent="bench.pay", input={"account": each}), waiting.plan_of(each))
                        for each in accounts
                    ]
                )
                await front.until("awaiting_gate", stage * part)
                rate = part / (time.perf_counter() - began)
                await asyncio.sleep(rest_s)
                sizes = [memory_of(process) for process in crew]
                held.append(sum(sizes))
                shown = " + ".join(f"{size / 1024**2:.1f}" for size in sizes)
                print(
                    f"{stage * part:>6,} wait: {shown} MB; {rate:.1f} a second came to their gate", flush=True
                )
                if stage == 1:
                    before, kept = await front.costs(), stored(server)
            after = await front.costs()
            began = time.perf_counter()
            await asyncio.sleep(IDLE_S)
            idle = ((await front.costs())["commits"] - after["commits"]) / (time.perf_counter() - began)
    more = number - part
    print(
        f"each {(after['stored'] - before['stored']) / more:,.0f} bytes in the journal and "
        f"{(stored(server) - kept) / more:,.0f} in Temporal's database"
    )
    print(f"{(after['commits'] - before['commits']) / more:.1f} transactions until it waits; ", end="")
    print(f"all together {idle:.1f} a second while waiting")
    grown = max(0, held[-1] - held[0]) / more
    return [Target(name="bytes of memory of all workers for each", found=grown, most=MOST_BYTES)]


def memory_of(process: subprocess.Popen[str]) -> int:
    """Return the memory that a worker holds, as the operating system counts it."""
    words = ["ps", "-o", "rss=", "-p", str(process.pid)]
    return 1024 * int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def run(*, is_smoke: bool = False) -> list[str]:
    """Measure and print; return the targets that were missed."""
    number = 40 if is_smoke else int(os.environ.get("WAITING", WAITING))
    with (
        tempfile.TemporaryDirectory() as folder,
        running_temporal(Path(folder)) as server,
        running_server(is_synced=True) as postgres,
    ):
        journal = asyncio.run(make_database(postgres.url, "waiting"))
        print(f"\n{number:,} sessions waiting at gates, two workers")
        rest_s = 0 if is_smoke else TIDY_S + 1
        return show_targets(asyncio.run(wait_at_gates(server, journal, number, rest_s=rest_s)))
