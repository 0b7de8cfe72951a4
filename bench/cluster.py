"""Sessions that Temporal schedules, beside the same sessions in one process, on PostgreSQL that waits for its disk.

The same runs are made by `Runtime` in one process, fifty at once, and by two and by four workers of a cluster, whose sessions
a service would have started: recorded in the journal, then woken through Temporal. All share the machine with PostgreSQL and
with Temporal's development server, which keeps its data in SQLite. The candidates alternate within each round.

Then it counts what one session costs: commits, bytes of the write-ahead log and bytes in the database, connections of a
process, and events and bytes in Temporal.
"""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from plugins.postgres import running_server
from plugins.temporal import TemporalServer, running_temporal
from tercet.cluster.connection import TemporalSettings, connect
from tercet.cluster.dispatch import Dispatcher
from tercet.cluster.process import open_worker
from tercet.cluster.worker import WorkerSettings
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
PATIENCE_S = 1_800
LEAST = 0.1
"""Of the steps per second in one process. A workflow, two workflow tasks and an activity are Temporal's part of a session."""


# --- a worker, in a process of its own ---


async def work(kind: str, temporal: str, journal: str) -> None:
    """Run sessions of the writes or of the waiting sessions until SIGTERM."""
    pack = workload.pack_of() if kind == "writes" else waiting.pack_of()
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with open_journal(journal) as opened:

        def open_hub(each: Pack) -> Hub:
            return Hub((each,), opened, watchdog_ms=None)

        settings = TemporalSettings(address=temporal)
        async with open_worker(settings, opened, open_hub, (pack,), WorkerSettings()):
            print("works", flush=True)
            os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nobody reads what Temporal's client warns of
            await stopped.wait()


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


def run(*, is_smoke: bool = False) -> list[str]:
    """Measure and print; return the targets that were missed."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running_temporal(Path(folder)) as server,
        running_server(is_synced=True) as postgres,
    ):
        return measure(server, postgres.url, is_smoke=is_smoke)


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
