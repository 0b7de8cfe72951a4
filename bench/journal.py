"""How fast the journal appends durably, as ratios to what could be written without it.

An append is two events of 300 bytes, one claimed key, and a checkpoint of 300 bytes, fenced by a lease; the caller waits
until it is durable before it sends the next. Two floors stand beside it on SQLite: `commit each` opens a transaction for
every append, as one would first write it, and `bare group` puts two rows a step through a group commit without chain,
position, lease, claim or checkpoint. On PostgreSQL `commit each` is one transaction an append on a pool of ten.

Candidates alternate inside each round, so that a noisy machine is noisy for all of them. The pragmas and the rows are
read back. Nothing here says anything about power loss: that depends on the disk.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias, cast

from plugins.postgres import running_server
from tercet.journal.opening import open_journal
from tercet.journal.protocol import Append, NewCheckpoint

ROUNDS = 5
APPENDS = {1: 500, 10: 4_000, 50: 10_000}
"""How many appends are timed, by the number of streams that they go to."""
FEW_APPENDS = {1: 5, 10: 20}
EVENT = b"x" * 300

Step: TypeAlias = Callable[[int, int], Awaitable[None]]
"""Append two events to a stream, as its turn of this number."""
Candidate: TypeAlias = Callable[[Path, int], AbstractAsyncContextManager[Step]]


@asynccontextmanager
async def tercet(url: str, streams: int) -> AsyncGenerator[Step]:
    """The journal as it is."""
    async with open_journal(url) as journal:
        tenant = f"bench-{time.monotonic_ns()}"
        leases = [
            await journal.acquire(tenant, f"ses_{number}", owner="bench", now_ms=0, ttl_ms=1_000)
            for number in range(streams)
        ]

        async def step(stream: int, turn: int) -> None:
            await journal.append(
                Append(
                    tenant=tenant,
                    stream=f"ses_{stream}",
                    expected=2 * turn,
                    epoch=leases[stream].epoch,
                    events=(EVENT, EVENT),
                    claims=(f"{stream}:{turn}",),
                    checkpoints=(NewCheckpoint(kind="point", seq=2 * turn + 2, data=EVENT),),
                )
            )

        yield step


def tercet_sqlite(folder: Path, streams: int) -> AbstractAsyncContextManager[Step]:
    """The journal in a SQLite file."""
    return tercet(f"sqlite:///{folder / 'tercet.db'}", streams)


def bare_connection(path: Path) -> sqlite3.Connection:
    """A connection with the journal's pragmas and one plain table."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS events (stream INTEGER, seq INTEGER, data BLOB, UNIQUE (stream, seq))"
    )
    return connection


def rows_of(stream: int, turn: int) -> list[tuple[int, int, bytes]]:
    """Two rows for one step."""
    return [(stream, 2 * turn + 1, EVENT), (stream, 2 * turn + 2, EVENT)]


INSERT = "INSERT INTO events (stream, seq, data) VALUES (?, ?, ?)"


@asynccontextmanager
async def commit_each(folder: Path, streams: int) -> AsyncGenerator[Step]:
    """A transaction for every append, in a thread."""
    del streams
    connection = bare_connection(folder / "each.db")
    connection.execute("DELETE FROM events")

    def write(stream: int, turn: int) -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(INSERT, rows_of(stream, turn))
        connection.execute("COMMIT")

    with ThreadPoolExecutor(1) as thread:
        loop = asyncio.get_running_loop()

        async def step(stream: int, turn: int) -> None:
            await loop.run_in_executor(thread, write, stream, turn)

        yield step
    connection.close()


@asynccontextmanager
async def bare_group(folder: Path, streams: int) -> AsyncGenerator[Step]:
    """Group commit and nothing else."""
    del streams
    connection = bare_connection(folder / "group.db")
    connection.execute("DELETE FROM events")
    loop = asyncio.get_running_loop()
    waiting: queue.SimpleQueue[tuple[int, int, asyncio.Future[None]] | None] = queue.SimpleQueue()

    def settle(futures: list[asyncio.Future[None]]) -> None:
        for future in futures:
            future.set_result(None)

    def serve() -> None:
        item = waiting.get()
        while item is not None:
            taken = [item]
            while not waiting.empty() and (item := waiting.get()) is not None:
                taken.append(item)
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                INSERT, [row for stream, turn, _ in taken for row in rows_of(stream, turn)]
            )
            connection.execute("COMMIT")
            loop.call_soon_threadsafe(settle, [future for _, _, future in taken])
            item = waiting.get()

    thread = threading.Thread(target=serve)
    thread.start()

    async def step(stream: int, turn: int) -> None:
        future: asyncio.Future[None] = loop.create_future()
        waiting.put((stream, turn, future))
        await future

    yield step
    waiting.put(None)
    thread.join()
    connection.close()


def postgres_candidates(url: str) -> dict[str, Candidate]:
    """The journal on a server, and a transaction for every append."""

    @asynccontextmanager
    async def each(folder: Path, streams: int) -> AsyncGenerator[Step]:
        del folder, streams
        import asyncpg  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs] - an optional dependency

        pool = await cast("Any", asyncpg).create_pool(url, min_size=10, max_size=10)
        await pool.execute(
            "CREATE TABLE IF NOT EXISTS bare (stream bigint, seq bigint, data bytea, PRIMARY KEY (stream, seq))"
        )
        await pool.execute("TRUNCATE bare")

        async def step(stream: int, turn: int) -> None:
            async with pool.acquire() as connection, connection.transaction():
                await connection.executemany("INSERT INTO bare VALUES ($1, $2, $3)", rows_of(stream, turn))

        yield step
        await pool.close()

    return {"tercet": lambda _, streams: tercet(url, streams), "commit each": each}


async def measure(candidate: Candidate, folder: Path, streams: int, turns: int) -> tuple[float, float]:
    """Appends per second, and microseconds of process time per append."""
    async with candidate(folder, streams) as step:

        async def run(stream: int) -> None:
            for turn in range(turns):
                await step(stream, turn)

        clock, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(run(stream) for stream in range(streams)))
        elapsed, used = time.perf_counter() - clock, time.process_time() - cpu
    return streams * turns / elapsed, 1e6 * used / (streams * turns)


def compare(title: str, candidates: dict[str, Candidate], appends: dict[int, int], rounds: int) -> None:
    """Print one table: rates, process time, and the ratios of the journal to the others."""
    print(f"\n{title:<12} {'streams':>7} {'appends/s':>10} {'CPU us':>7}   tercet / it: min median max")
    for streams, total in appends.items():
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in candidates}
        for _ in range(rounds):
            for name, candidate in candidates.items():
                with tempfile.TemporaryDirectory() as folder:
                    measured = asyncio.run(measure(candidate, Path(folder), streams, total // streams))
                    check(Path(folder), total)
                found[name].append(measured)
        ours = [rate for rate, _ in found["tercet"]]
        for name, results in found.items():
            ratios = sorted(mine / rate for mine, (rate, _) in zip(ours, results, strict=True))
            middle = statistics.median(ratios)
            shown = f"{ratios[0]:.2f} {middle:.2f} {ratios[-1]:.2f}" if name != "tercet" else ""
            rate = statistics.median(rate for rate, _ in results)
            cpu = statistics.median(cpu for _, cpu in results)
            print(f"{name:<12} {streams:>7} {rate:>10,.0f} {cpu:>7.0f}   {shown}")


def check(folder: Path, appends: int) -> None:
    """Whatever SQLite file there is holds every event, in write-ahead mode."""
    for path in folder.glob("*.db"):
        connection = sqlite3.connect(path)
        # A row of ours holds an append, with a link of 32 bytes for each event.
        counted = "sum(length(chain)) / 32" if path.stem == "tercet" else "count(*)"
        (count,) = connection.execute(f"SELECT {counted} FROM events").fetchone()  # noqa: S608 - our own words
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        connection.close()
        assert (count, mode) == (2 * appends, "wal"), (path, count, mode)


def run(*, is_smoke: bool = False) -> list[str]:
    """Measure both durable backends and print the tables; they have no targets."""
    appends, rounds = (FEW_APPENDS, 1) if is_smoke else (APPENDS, ROUNDS)
    ours = {"tercet": tercet_sqlite, "commit each": commit_each, "bare group": bare_group}
    compare("SQLite", ours, appends, rounds)
    with running_server(is_synced=True) as server:
        compare("PostgreSQL", postgres_candidates(server.url), appends, rounds)
    return []
