"""Sessions that Temporal schedules, beside the same sessions in one process, on PostgreSQL that waits for its disk.

The same runs are made by `Runtime` in one process, fifty at once, and by two and by four workers of a cluster, whose sessions
a service would have started: recorded in the journal, then woken through Temporal. All share the machine with PostgreSQL and
with Temporal's development server, which keeps its data in SQLite. The candidates alternate within each round.

Then it counts what one session costs: commits, bytes of the write-ahead log and bytes in the database, connections of a
process, and events and bytes in Temporal. Last, sessions that wait at gates: what they cost two workers in memory.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from plugins.postgres import running_server
from plugins.temporal import TemporalServer, running_temporal
from tercet.cluster.connection import TemporalSettings, connect
from tercet.cluster.dispatch import Dispatcher
from tercet.cluster.worker import WorkerSettings, running_worker
from tercet.contracts.plan import Plan
from tercet.contracts.request import Request
from tercet.journal.opening import open_journal
from tercet.packs import Pack
from tercet.runtime import Runtime, RuntimeOptions
from tercet.service.hub import Hub

from . import waiting, workload
from .durable_process import CONCURRENT
from .measurement import ROOT, Target, measure_in_process, show_targets
from .servers import make_database

ROUNDS = 3
RUNS = 200
WAITING, WARM = 10_000, 1_000
MOST_BYTES = 1024.0
"""What a waiting session may cost a worker, measured from the first thousand on."""
PATIENCE_S = 1_800
IDLE_S = 5
LEAST = 0.1
"""Of the steps per second in one process. A workflow, two workflow tasks and an activity are Temporal's part of a session."""


# --- a worker, in a process of its own ---


async def work(kind: str, temporal: str, journal: str) -> None:
    """Run sessions of the writes or of the waiting sessions until SIGTERM."""
    pack = workload.pack_of() if kind == "writes" else waiting.pack_of()
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, return_memory)
    async with open_journal(journal) as opened:

        def open_hub(each: Pack) -> Hub:
            return Hub((each,), opened, watchdog_ms=None)

        client = await connect(TemporalSettings(address=temporal))
        async with running_worker(client, opened, open_hub, (pack,), WorkerSettings()):
            print("works", flush=True)
            await stopped.wait()


def return_memory() -> None:
    """Return what is free to the operating system, where its C library can: an allocator keeps some for what comes next, and
    how much depends on what ran at once, not on what waits."""
    gc.collect()
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
    print("returned", flush=True)


@contextmanager
def workers(kind: str, number: int, temporal: str, journal: str) -> Generator[list[subprocess.Popen[str]]]:
    """So many workers, which work."""
    words = [sys.executable, "-m", "bench.cluster", kind, temporal, journal]
    with ExitStack() as stack:
        found = [
            stack.enter_context(subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True))
            for _ in range(number)
        ]
        try:
            for process in found:
                assert process.stdout is not None
                assert process.stdout.readline() == "works\n"
            yield found
        finally:
            for process in found:
                process.terminate()


# --- what starts sessions ---


@dataclass(frozen=True, kw_only=True)
class Front:
    """Starts sessions and runs none, as a service does."""

    runtime: Runtime
    dispatcher: Dispatcher
    database: Any
    own: list[int] = field(default_factory=list[int])
    """One for each query of the benchmark itself, which counts as a transaction too."""

    async def start(self, runs: Sequence[tuple[Request, Plan]]) -> list[str]:
        """Record sessions and wake them, fifty at a time; return their ids."""
        left, found = iter(runs), list[str]()

        async def begin() -> None:
            for request, plan in left:
                session = (await self.runtime.run(request, plan=plan, actor=waiting.OWNER)).session_id
                row = await self.runtime.journal.session(self.runtime.tenant, session)
                assert row is not None
                await self.dispatcher.wake(row)  # one that Temporal did not take in time is left to the sweep
                found.append(session)

        await asyncio.gather(*(begin() for _ in range(CONCURRENT)))
        return found

    async def until(self, status: str, number: int) -> None:
        """Wait until so many sessions have a status."""
        query = "SELECT count(*) FROM tercet.sessions WHERE status = $1"
        async with asyncio.timeout(PATIENCE_S):
            while await self.database.fetchval(query, status) < number:
                self.own.append(1)
                await asyncio.sleep(0.1)

    async def costs(self) -> dict[str, int]:
        """Return what PostgreSQL has counted for this database."""
        await asyncio.sleep(1.5)  # its processes report their counts about once a second
        row = await self.database.fetchrow(
            "SELECT xact_commit AS commits, pg_database_size(current_database()) AS stored,"
            " pg_current_wal_lsn() - '0/0'::pg_lsn AS logged,"
            " (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()) AS connections"
            " FROM pg_stat_database WHERE datname = current_database()"
        )
        found = {name: int(value) for name, value in row.items()}
        return found | {"commits": found["commits"] - len(self.own)}


@asynccontextmanager
async def open_front(pack: Pack, temporal: str, journal: str) -> AsyncGenerator[Front]:
    """What starts sessions of a pack."""
    import asyncpg  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs] - an optional dependency

    dispatcher = Dispatcher(await connect(TemporalSettings(address=temporal)))
    database = await cast("Any", asyncpg).connect(journal)
    options = RuntimeOptions(is_front=True)
    try:
        async with Runtime(pack, journal, watchdog_ms=None, options=options) as runtime:
            yield Front(runtime=runtime, dispatcher=dispatcher, database=database)
    finally:
        await database.close()


# --- throughput, and what a session costs ---


async def through_cluster(server: TemporalServer, journal: str, number: int, runs: int) -> dict[str, float]:
    """Make the runs with so many workers; return steps per second, and what one session cost."""
    async with open_front(workload.pack_of(), server.address, journal) as front:
        asked = (workload.request(), workload.plan_of())
        with workers("writes", number, server.address, journal):
            await front.start([asked] * number)
            await front.until("completed", number)  # every worker has opened its connections
            before, kept = await front.costs(), stored(server)
            began = time.perf_counter()
            sessions = await front.start([asked] * runs)
            await front.until("completed", number + runs)
            elapsed = time.perf_counter() - began
            after = await front.costs()
            found = {name: (after[name] - before[name]) / runs for name in ("commits", "stored", "logged")}
            found |= {
                "rate": runs * workload.STEPS / elapsed,
                "connections": (after["connections"] - 1) / (number + 1),
                "temporal": (stored(server) - kept) / runs,
            }
        handle = (await connect(TemporalSettings(address=server.address))).get_workflow_handle(
            f"{front.runtime.tenant}/{sessions[0]}"
        )
        described = (await handle.describe()).raw_description.workflow_execution_info
        return found | {"events": described.history_length, "history": described.history_size_bytes}


def stored(server: TemporalServer) -> int:
    """Return the bytes that Temporal's development server keeps."""
    return sum(path.stat().st_size for path in server.folder.glob("temporal.db*"))


def measure(server: TemporalServer, postgres: str, *, is_smoke: bool) -> list[str]:
    """Measure the throughput and print; return the targets that were missed."""
    runs, rounds = (4, 1) if is_smoke else (RUNS, ROUNDS)
    crews = (2,) if is_smoke else (2, 4)
    own: list[float] = []
    found: dict[int, list[dict[str, float]]] = {number: [] for number in crews}
    for turn in range(rounds):
        store = asyncio.run(make_database(postgres, f"own_{turn}"))
        alone = measure_in_process("bench.durable_process", "PostgreSQL", "tercet", store, 1, runs)
        own.append(alone["at once"]["rate"])
        for number in crews:
            store = asyncio.run(make_database(postgres, f"crew_{number}_{turn}"))
            found[number].append(asyncio.run(through_cluster(server, store, number, runs)))
    print(f"\n{runs} sessions of {workload.STEPS} steps, {os.cpu_count()} cores")
    print(f"in one process {statistics.median(own):,.0f} steps/s")
    for number, its in found.items():
        rate = statistics.median(each["rate"] for each in its)
        print(f"{number} workers       {rate:,.0f} steps/s, {rate / workload.STEPS:,.1f} sessions/s")
    last = found[2][-1]
    print(
        f"a session of {workload.STEPS} steps: {last['commits']:.1f} transactions with reads, {last['logged']:,.0f} bytes of log,"
    )
    print(
        f"{last['stored']:,.0f} bytes in the journal; {last['connections']:.1f} connections for each process;"
    )
    print(f"in Temporal {last['events']:.0f} events, {last['history']:,.0f} bytes of history, ", end="")
    print(f"{last['temporal']:,.0f} bytes in its database")
    extra = [
        1 / (each["rate"] / workload.STEPS) - 1 / (alone / workload.STEPS)
        for each, alone in zip(found[2], own, strict=True)
    ]
    print(f"Temporal adds {1000 * statistics.median(extra):.0f} ms of this machine to a session")
    ratios = {
        f"{number} workers / in one process": statistics.median(
            each["rate"] / alone for each, alone in zip(its, own, strict=True)
        )
        for number, its in found.items()
    }
    return show_targets([Target(name=name, found=ratio, least=LEAST) for name, ratio in ratios.items()])


# --- sessions that wait ---


async def wait_at_gates(server: TemporalServer, journal: str, number: int) -> dict[str, float]:
    """Return the bytes of memory that a waiting session costs a worker, and what it costs elsewhere."""
    first = min(WARM, number // 2)
    async with open_front(waiting.pack_of(), server.address, journal) as front:
        with workers("waiting", 2, server.address, journal) as crew:

            async def start(numbers: range) -> float:
                accounts = [f"acc_{each}" for each in numbers]
                began = time.perf_counter()
                await front.start(
                    [
                        (Request(intent="bench.pay", input={"account": each}), waiting.plan_of(each))
                        for each in accounts
                    ]
                )
                await front.until("awaiting_gate", numbers.stop)
                return len(accounts) / (time.perf_counter() - began)

            await start(range(first))
            before, kept = await front.costs(), stored(server)
            warm = sum(memory_of(process) for process in crew)
            rate = await start(range(first, number))
            after = await front.costs()
            grown = sum(memory_of(process) for process in crew) - warm
            began = time.perf_counter()
            settled = await front.costs()
            await asyncio.sleep(IDLE_S)
            idle = ((await front.costs())["commits"] - settled["commits"]) / (time.perf_counter() - began)
    more = number - first
    return {
        "memory": grown / more, "rate": rate, "stored": (after["stored"] - before["stored"]) / more,
        "temporal": (stored(server) - kept) / more, "commits": (after["commits"] - before["commits"]) / more,
        "idle": idle,
    }  # fmt: skip


def memory_of(process: subprocess.Popen[str]) -> int:
    """Return the memory that a worker holds, as the operating system counts it once it has returned what is free."""
    process.send_signal(signal.SIGUSR1)
    assert process.stdout is not None
    assert process.stdout.readline() == "returned\n"
    words = ["ps", "-o", "rss=", "-p", str(process.pid)]
    return 1024 * int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def run(*, is_smoke: bool = False) -> list[str]:
    """Measure and print; return the targets that were missed."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running_temporal(Path(folder)) as server,
        running_server(is_synced=True) as postgres,
    ):
        missed = measure(server, postgres.url, is_smoke=is_smoke)
        number = 40 if is_smoke else int(os.environ.get("WAITING", WAITING))
        store = asyncio.run(make_database(postgres.url, "waiting"))
        found = asyncio.run(wait_at_gates(server, store, number))
    print(
        f"\n{number:,} sessions waiting at gates, two workers; {found['rate']:,.0f} a second came to their gate"
    )
    print(
        f"each {found['stored']:,.0f} bytes in the journal and {found['temporal']:,.0f} in Temporal's database"
    )
    print(
        f"{found['commits']:.1f} transactions until it waits; all together {found['idle']:.1f} a second while waiting"
    )
    memory = Target(
        name="bytes of memory of all workers for each", found=max(0, found["memory"]), most=MOST_BYTES
    )
    return missed + show_targets([memory])


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
