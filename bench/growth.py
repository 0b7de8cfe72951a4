"""How runs grow: the bytes that a step leaves behind, how long it takes to come back to a long run, and what a step of a
plan with many parallel steps costs."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from tercet.contracts.values.canonical import canonical
from tercet.runtime import Runtime, RuntimeOptions

from . import workload
from .measurement import Target, show_targets

KILOBYTE = 1024
SHORT, LONG = 12, 1_000
SHORT_RUNS = 83
"""As many short runs as have about the steps of a long one, so that neither pays more for tables and half-empty pages."""
RESUMED_SHORT, RESUMED_LONG = 10, 1_000
ROUNDS = 5
NARROW, WIDE = 12, 400
MOST_GROWTH, MOST_STORED, MOST_RESUME, MOST_WIDTH = 1.2, 3.0, 15.0, 1.5


def result_of(size: int) -> str:
    """So many characters that do not repeat themselves within a result."""
    text = "".join(hashlib.sha256(bytes([n])).hexdigest() for n in range(size // 64 + 1))
    return text[:size]


def truncated_size(path: Path) -> int:
    """The bytes of a SQLite file once its write-ahead log is empty."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))


async def stored(folder: Path, steps: int, runs: int) -> tuple[float, float]:
    """Bytes per step, and bytes in total over the payload."""
    path = folder / f"bytes_{steps}.db"
    url = f"sqlite:///{path}"
    result = result_of(KILOBYTE)
    plan = workload.plan_of(steps)
    async with Runtime(workload.pack_of(steps=steps, result=result), url) as runtime:
        for _ in range(runs):
            done = await runtime.run(workload.request(), plan=plan)
            assert (done.status, done.steps_done) == ("completed", steps), done
    payload = runs * sum(len(canonical(step.params)) + len(canonical(result)) for step in plan.steps)
    size = truncated_size(path)
    return size / (runs * steps), size / payload


async def used_by_width(folder: Path, wide: int, rounds: int) -> tuple[float, float]:
    """Microseconds of CPU time a step of plans with few and with many parallel steps, about as many steps of each."""
    found: dict[int, list[float]] = {NARROW: [], wide: []}
    async with Runtime(workload.pack_of(steps=wide), f"sqlite:///{folder / 'width.db'}") as runtime:
        for _ in range(rounds):
            for width, times in found.items():
                plan, runs = workload.plan_of(width, is_parallel=True), -(-wide // width)
                began = time.process_time()
                for _ in range(runs):
                    done = await runtime.run(workload.request(), plan=plan)
                    assert (done.status, done.steps_done) == ("completed", width), done
                times.append(1e6 * (time.process_time() - began) / (runs * width))
    return statistics.median(found[NARROW]), statistics.median(found[wide])


class Stop(Exception):  # noqa: N818 - nothing went wrong: the run has come far enough
    """Raised out of the benchmark's crash point."""


async def interrupted(url: str, pack: Any, steps: int) -> str:
    """A session whose process went away after so many completed steps."""
    begun = 0

    def crash(point: str) -> None:
        nonlocal begun
        begun += point == "before_append"
        if begun > steps + 1:  # the first append holds the plan and the first INTENT
            raise Stop

    # A short lease, since whoever resumes the session first waits until it has run out.
    async with Runtime(pack, url, options=RuntimeOptions(crash=crash, lease_ms=1_000)) as runtime:
        with contextlib.suppress(Stop):
            await runtime.run(workload.request(), plan=workload.plan_of(steps + 1))
        (row,) = await runtime.sessions()
        return row.session_id


async def resumed(folder: Path, steps: int, rounds: int) -> float:
    """Milliseconds from opening the journal to the first command of a session with so many completed steps."""
    url = f"sqlite:///{folder / f'resume_{steps}.db'}"
    pack = workload.pack_of(steps=steps + 1, result=result_of(KILOBYTE))
    session = await interrupted(url, pack, steps)
    first: list[float] = []

    def crash(point: str) -> None:
        if point == "before_append" and not first:
            first.append(time.perf_counter())
            raise Stop

    times: list[float] = []
    for _ in range(rounds):
        first.clear()
        began = time.perf_counter()
        async with Runtime(pack, url, options=RuntimeOptions(crash=crash)) as runtime:
            with contextlib.suppress(Stop):
                await runtime.resume(session)
        times.append(1000 * (first[0] - began))
        async with Runtime(pack, url) as runtime:
            done = len((await runtime.state(session)).done)
            assert done == steps, (done, steps)
    return statistics.median(times)


def run(*, is_smoke: bool = False) -> list[str]:
    """Print the figures; return the targets that were missed."""
    short_runs, long, resumed_long, wide, rounds = (
        (2, 24, 20, 24, 1) if is_smoke else (SHORT_RUNS, LONG, RESUMED_LONG, WIDE, ROUNDS)
    )
    with tempfile.TemporaryDirectory() as folder:
        small, small_total = asyncio.run(stored(Path(folder), SHORT, short_runs))
        large, large_total = asyncio.run(stored(Path(folder), long, 1))
        soon = asyncio.run(resumed(Path(folder), RESUMED_SHORT, rounds))
        late = asyncio.run(resumed(Path(folder), resumed_long, rounds))
        narrow_us, wide_us = asyncio.run(used_by_width(Path(folder), wide, rounds))
    print("Growth, SQLite, results of 1 KB")
    for steps, runs, size, total in ((SHORT, short_runs, small, small_total), (long, 1, large, large_total)):
        print(f"{steps:>6} steps, {runs:>2} runs: {size:>8,.0f} bytes a step, {total:.2f} times the payload")
    print(f"{RESUMED_SHORT:>6} completed steps: resumed in {soon:>7.1f} ms")
    print(f"{resumed_long:>6} completed steps: resumed in {late:>7.1f} ms")
    for steps, used in ((NARROW, narrow_us), (wide, wide_us)):
        print(f"{steps:>6} parallel steps: {used:>8,.0f} us of CPU time a step")
    return show_targets(
        [
            Target(name="bytes a step, long over short", found=large / small, most=MOST_GROWTH),
            Target(name="bytes over payload, long run", found=large_total, most=MOST_STORED),
            Target(name="resume, long over short", found=late / soon, most=MOST_RESUME),
            Target(name="CPU a step, wide plan over narrow", found=wide_us / narrow_us, most=MOST_WIDTH),
        ]
    )
