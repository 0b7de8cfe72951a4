"""What sessions that wait and tenants that flood cost others, and whether a service that works for long keeps its memory.

- Idle: a worker in a process of its own, on a store with ten sessions that wait at gates and on one with ten thousand. Its
  CPU time is counted, and on PostgreSQL that of the server too, in turns.
- Flood: fifty clients of one tenant start runs as fast as they can, while a client of another tenant makes one at a time.
  Then eight have large plans reviewed instead (verifyPlan with 850 kB of expressions).
- Soak: clients make whole runs for ten minutes (TERCET_SOAK_S); the memory that the service holds is read throughout.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psutil

from plugins.postgres import PostgresServer, running_server
from tercet.journal.opening import open_journal
from tercet.runtime import Runtime
from tercet.service.hub import Hub
from tercet.service.server import running_worker
from tercet.service.worker import Worker

from . import waiting
from .measurement import ROOT, Target, show_targets
from .servers import make_database
from .service_clients import Client, serving

FEW, MANY = 10, 10_000
IDLE_S, IDLE_ROUNDS = 10.0, 5
MOST_IDLE = 1.25
LEAST_IDLE = 0.001
"""Less of a core than this is noise."""
FLOODERS, FLOOD_S = 50, 20.0
VERIFIERS = 8
MOST_WAIT_MS = 1_000.0
SOAKERS, SOAK_S = 10, float(os.environ.get("TERCET_SOAK_S", "600"))
SAMPLES = 60
MOST_GROWTH = 1.05


# --- an idle worker ---


async def work(url: str) -> None:
    """Carry sessions on until standard input ends."""
    async with open_journal(url) as journal:
        hub = Hub((waiting.pack_of(),), journal)
        async with running_worker(hub, Worker(hub), {"default"}):
            print("working", flush=True)
            await asyncio.to_thread(sys.stdin.read)


@contextmanager
def working(url: str) -> Generator[psutil.Process]:
    """A worker in a process of its own."""
    words = [sys.executable, "-m", "bench.service_worker", url]
    with subprocess.Popen(
        words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "working\n"
        try:
            yield psutil.Process(process.pid)
        finally:
            process.stdin.close()
            process.wait(60)


def cpu_of(process: psutil.Process) -> float:
    """The CPU time of a process and of its children so far; those that end in between are not counted."""
    total = 0.0
    for each in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError):
            tasks = [*Path(f"/proc/{each.pid}/task").glob("*/schedstat")]
            if tasks:  # nanoseconds, where the system counts them
                total += sum(int(task.read_text().split()[0]) for task in tasks) / 1e9
            else:
                total += sum(each.cpu_times()[:2])
    return total


def idle(place: str, server: PostgresServer | None, *, is_smoke: bool) -> list[str]:
    """Measure idle workers on one store; return the targets that were missed."""
    many, seconds, rounds = (40, 0.5, 1) if is_smoke else (MANY, IDLE_S, IDLE_ROUNDS)
    used: dict[int, list[float]] = {FEW: [], many: []}
    with tempfile.TemporaryDirectory() as folder:
        urls: dict[int, str] = {}
        for number in used:
            urls[number] = f"sqlite:///{Path(folder) / f'{number}.db'}"
            if server is not None:
                urls[number] = asyncio.run(make_database(server.url, f"idle_{number}"))
            asyncio.run(fill(urls[number], number))
        for _ in range(rounds):
            for number, url in urls.items():
                with working(url) as worker:
                    time.sleep(1)
                    counted = [worker]
                    if server is not None:
                        first = (server.data / "postmaster.pid").read_text(encoding="utf-8").split()[0]
                        counted.append(psutil.Process(int(first)))
                    before = sum(map(cpu_of, counted))
                    time.sleep(seconds)
                    used[number].append((sum(map(cpu_of, counted)) - before) / seconds)
    few, most = (statistics.median(used[number]) for number in (FEW, many))
    print(f"\n{place}: an idle worker uses {100 * few:.2f} % of a core with {FEW} sessions that wait,")
    print(
        f"{100 * most:.2f} % with {many:,}; between {100 * min(used[FEW]):.2f} and {100 * max(used[FEW]):.2f} % for {FEW}"
    )
    return show_targets(
        [
            Target(
                name=f"{place}: idle CPU, {many:,} / {FEW}", found=most / max(few, LEAST_IDLE), most=MOST_IDLE
            )
        ]
    )


async def fill(url: str, number: int) -> None:
    """Start so many sessions, each of which waits at its gate."""
    async with Runtime(waiting.pack_of(), url) as runtime:
        await waiting.start(runtime, range(max(number, 2 * waiting.RESUMED)))


# --- a tenant that floods ---


def flood(*, is_smoke: bool) -> list[str]:
    """Measure the wait of a quiet tenant beside both floods; return the targets that were missed."""
    clients, verifiers, seconds = (2, 2, 0.5) if is_smoke else (FLOODERS, VERIFIERS, FLOOD_S)
    return flood_with("invokeAgent", clients, seconds) + flood_with("verifyPlan", verifiers, seconds)


def flood_with(method: str, clients: int, seconds: float) -> list[str]:
    """Measure the wait of a quiet tenant beside one flood; return the targets that were missed."""
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(f"sqlite:///{Path(folder) / 'flood.db'}", clients, 1) as told,
    ):
        keys, quiet = told.keys[:-1], told.keys[-1]
        alone, flooded, calls = asyncio.run(contend(told.port, keys, quiet, seconds, method))
    print(f"\na tenant that floods: {calls:,} calls of {method} by {clients} clients in {seconds:g} s")
    print(
        f"another's run of one step: alone {statistics.median(alone):.1f} ms in the median,"
        f" beside the flood {statistics.median(flooded):.1f} ms, at most {max(flooded):.1f} ms"
    )
    worst = statistics.quantiles(flooded, n=20)[-1] if len(flooded) > 1 else flooded[0]
    return show_targets(
        [Target(name=f"quiet tenant beside {method}: p95 in ms", found=worst, most=MOST_WAIT_MS)]
    )


async def contend(
    port: int, flooders: list[str], quiet: str, seconds: float, method: str
) -> tuple[list[float], list[float], int]:
    """Return the times of a quiet tenant's runs alone and beside the flood, and how many calls the flood made."""
    calls = 0

    async def pour(key: str) -> None:
        nonlocal calls
        async with Client(port, key) as client:
            while time.monotonic() < until:
                made = client.invoke("batch") if method == "invokeAgent" else client.verify()
                if await made is None:
                    await asyncio.sleep(0.1)  # its rate is limited
                else:
                    calls += 1

    async def ask(client: Client) -> float:
        began = time.perf_counter()
        assert await client.invoke("inline", steps=1) == "completed"
        return 1000 * (time.perf_counter() - began)

    async with Client(port, quiet) as client:
        alone = [await ask(client) for _ in range(10)]
        until = time.monotonic() + seconds
        async with asyncio.TaskGroup() as pouring:
            for key in flooders:
                pouring.create_task(pour(key))
            flooded: list[float] = []
            while time.monotonic() < until:
                flooded.append(await ask(client))
                await asyncio.sleep(0.05)
    return alone, flooded, calls


# --- a service that works for long ---


def soak(*, is_smoke: bool) -> list[str]:
    """Measure the memory of a service at work; return the targets that were missed."""
    clients, seconds, samples = (2, 1.0, 6) if is_smoke else (SOAKERS, SOAK_S, SAMPLES)
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(f"sqlite:///{Path(folder) / 'soak.db'}", clients, 0) as told,
    ):
        held, runs = asyncio.run(press(told.port, told.keys, psutil.Process(told.pid), seconds, samples))
    third = len(held) // 3
    first, middle, last = (statistics.median(held[n * third : (n + 1) * third]) / 1024**2 for n in range(3))
    print(f"\n{seconds:g} s of whole runs by {clients} clients: {runs:,} runs")
    print(
        f"memory of the service: {held[0] / 1024**2:.1f} MB at first, {first:.1f}, {middle:.1f} and {last:.1f} MB in its thirds"
    )
    return show_targets(
        [Target(name="soak: memory, last third / middle third", found=last / middle, most=MOST_GROWTH)]
    )


async def press(
    port: int, keys: list[str], service: psutil.Process, seconds: float, samples: int
) -> tuple[list[int], int]:
    """Make runs for so long; return the memory of the service at equal intervals, and how many runs there were."""
    runs, until = 0, time.monotonic() + seconds

    async def run(key: str) -> None:
        nonlocal runs
        async with Client(port, key) as client:
            while time.monotonic() < until:
                assert await client.invoke("inline") == "completed"
                runs += 1

    held: list[int] = []
    async with asyncio.TaskGroup() as pressing:
        for key in keys:
            pressing.create_task(run(key))
        for _ in range(samples):
            await asyncio.sleep(seconds / samples)
            held.append(service.memory_info().rss)
    return held, runs


def measure_worker(*, is_smoke: bool) -> list[str]:
    """Measure all three; return the targets that were missed."""
    missed = idle("SQLite", None, is_smoke=is_smoke)
    if not is_smoke:
        with running_server(is_synced=True) as server:
            missed += idle("PostgreSQL", server, is_smoke=is_smoke)
    return missed + flood(is_smoke=is_smoke) + soak(is_smoke=is_smoke)


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1]))
