"""Whole runs through the service, beside the same runs in one process on the same store.

Fifty clients, each with an API key and a connection of its own, call `invokeAgent` in the mode inline until all runs are
over. The service is a process of its own with default settings; the clients are in this one, and share the machine with it.
Beside it the same number of runs is made by `Runtime` in one process, fifty at once. Both alternate within each round.
The times of calls that are only accepted (mode batch) are taken by one client on the otherwise idle service.
`service_worker` measures what waiting sessions and a flooding tenant cost, and a soak.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from plugins.postgres import running_server

from . import workload
from .durable_process import CONCURRENT
from .measurement import Target, measure_in_process, show_targets
from .servers import make_database
from .service_clients import Client, serving
from .service_worker import measure_worker

ROUNDS = 3
RUNS = 200
ACCEPTED = 100
LEAST = 0.5


# --- its clients ---


async def drive(port: int, keys: list[str], runs: int, accepted: int) -> dict[str, float]:
    """Make the runs; return steps per second, and the times of accepted calls in milliseconds."""
    left = iter(range(runs))

    async def work(key: str) -> None:
        async with Client(port, key) as client:
            for _ in left:
                status = await client.invoke("inline")
                assert status == "completed", status

    async with Client(port, keys[0]) as client:
        await client.invoke("inline")
        began = time.perf_counter()
        await asyncio.gather(*(work(key) for key in keys))
        rate = runs * workload.STEPS / (time.perf_counter() - began)
    times: list[float] = []
    async with Client(port, keys[0]) as client:  # a connection that is idle for ten seconds is closed
        for _ in range(accepted):
            began = time.perf_counter()
            await client.invoke("batch")
            times.append(1000 * (time.perf_counter() - began))
            await asyncio.sleep(0.02)
    times.sort()
    return {"rate": rate, "p50": statistics.median(times), "p99": times[int(0.99 * (len(times) - 1))]}


def through_service(url: str, clients: int, runs: int, accepted: int) -> dict[str, float]:
    """Start a service on a store, make the runs through it, and stop it."""
    with serving(url, clients) as told:
        return asyncio.run(drive(told.port, told.keys, runs, accepted))


# --- rounds ---


def run(*, is_smoke: bool = False) -> list[str]:
    """Measure on both stores and print; return the targets that were missed."""
    # A smoke round is without what differs from the others only in the store.
    missed = [] if is_smoke else measure("SQLite", "", is_smoke=is_smoke)
    with running_server(is_synced=True) as server:
        missed += measure("PostgreSQL", server.url, is_smoke=is_smoke)
    return missed + measure_worker(is_smoke=is_smoke)


def measure(place: str, server: str, *, is_smoke: bool) -> list[str]:
    """Measure on one store and print; return the targets that were missed."""
    clients, runs, accepted, rounds = (2, 4, 4, 1) if is_smoke else (CONCURRENT, RUNS, ACCEPTED, ROUNDS)
    own: list[float] = []
    served: list[dict[str, float]] = []
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            stores = [str(Path(folder) / f"{name}.db") for name in ("own", "served")]
            if server:
                stores = [
                    asyncio.run(make_database(server, f"{name}_{number}")) for name in ("own", "served")
                ]
            found = measure_in_process("bench.durable_process", place, "tercet", stores[0], 1, runs)
            own.append(found["at once"]["rate"])
            url = stores[1] if server else f"sqlite:///{stores[1]}"
            served.append(through_service(url, clients, runs, accepted))
    print(f"\n{place}, {clients} clients, {runs} runs of {workload.STEPS} steps")
    middle = {name: statistics.median(each[name] for each in served) for name in ("rate", "p50", "p99")}
    print(
        f"in one process {statistics.median(own):,.0f} steps/s, through the service {middle['rate']:,.0f} steps/s"
    )
    print(f"a call that is accepted: {middle['p50']:.1f} ms in the median, p99 {middle['p99']:.1f} ms")
    ratio = statistics.median(each["rate"] / alone for each, alone in zip(served, own, strict=True))
    return show_targets([Target(name=f"{place}: service / in process", found=ratio, least=LEAST)])
