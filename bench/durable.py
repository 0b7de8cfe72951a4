"""Durable steps per second, beside LangGraph, DBOS and the journal's own append; then how runs grow, and wait.

Every candidate makes runs of twelve no-op steps, one run at a time and fifty at once. Tercet's are whole runs with
default settings: review, INTENT durable before the call and COMPLETE after it, budget, verdict, checkpoint, chain,
score, record. The floor is a bare loop over the same journal: two durable events a step, the second after the first;
`floor, joined` puts both into one append, which no step that waits for its INTENT could do.

Each measurement is a process of its own, and candidates alternate within each round: a noisy machine is noisy for all
of them. Ratios are what counts; rates and times belong to the machine. Settings, rows and effects are read back from
what each candidate left behind. Nothing here says anything about power loss: that depends on the disk.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeAlias

import durable_peers as peers
import durable_tercet as ours
import growth
import waiting
import workload
from candidate import Facts, Run
from servers import make_database, postgres

CONCURRENT = 50
RUNS = {"tercet": (40, 400), "floor": (40, 400), "LangGraph": (10, 100), "DBOS": (10, 100)}
"""How many runs of each kind of candidate are timed, one at a time and fifty at once."""
PLACES = ("SQLite", "PostgreSQL")
ONE_CONNECTION = "LangGraph, one connection"
CANDIDATES = {
    "SQLite": ("tercet", "floor", "floor, joined", "LangGraph", "DBOS"),
    "PostgreSQL": ("tercet", "floor", "floor, joined", "LangGraph", ONE_CONNECTION, "DBOS"),
}
Sample: TypeAlias = dict[str, Any]

WANTED: dict[tuple[str, str, str], tuple[float, float]] = {
    ("SQLite", "at once", "LangGraph"): (8, 12),
    ("SQLite", "at once", "DBOS"): (8, 12),
    ("SQLite", "at once", "floor"): (0.18, 0.28),
    ("SQLite", "one by one", "LangGraph"): (1.5, 2.5),
    ("SQLite", "one by one", "DBOS"): (1.5, 2.5),
    ("SQLite", "one by one", "floor"): (0.7, 1.0),
    ("PostgreSQL", "at once", "LangGraph"): (15, 25),
    ("PostgreSQL", "at once", "DBOS"): (15, 25),
}
"""Tercet's rate over the other's: what is required of the median, and what is aimed at."""


# --- one measurement, in a process of its own ---


def opened(place: str, name: str, store: str, facts: Facts) -> AbstractAsyncContextManager[Run]:
    """A candidate on a store: the path of a SQLite file, or the address of a database."""
    url = f"sqlite:///{store}" if place == "SQLite" else store
    makers: dict[str, Callable[[], AbstractAsyncContextManager[Run]]] = {
        "tercet": lambda: ours.tercet(url),
        "floor": lambda: ours.floor(url),
        "floor, joined": lambda: ours.floor(url, is_joined=True),
        "LangGraph": lambda: (
            peers.langgraph_sqlite(Path(store), facts)
            if place == "SQLite"
            else peers.langgraph_postgres(store)
        ),
        ONE_CONNECTION: lambda: peers.langgraph_one_connection(store),
        "DBOS": lambda: peers.dbos(url, facts),
    }
    return makers[name]()


async def timed(run: Run, runs: int, workers: int) -> dict[str, float]:
    """Steps per second, and microseconds of wall and process time per step."""
    left = iter(range(runs))

    async def work() -> None:
        for _ in left:
            await run()

    clock, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(work() for _ in range(workers)))
    elapsed, used = time.perf_counter() - clock, time.process_time() - cpu
    steps = runs * workload.STEPS
    return {"rate": steps / elapsed, "wall": 1e6 * elapsed / steps, "cpu": 1e6 * used / steps}


async def measure(place: str, name: str, store: str) -> Sample:
    """One run to warm up, then both measurements, then what was left behind."""
    facts: Facts = {}
    few, many = RUNS[name.partition(",")[0]]
    async with opened(place, name, store, facts) as run:
        await run()
        found: Sample = {
            "one by one": await timed(run, few, 1),
            "at once": await timed(run, many, CONCURRENT),
        }
    runs = 1 + few + many
    assert workload.effects == runs * workload.STEPS, (workload.effects, runs)
    found["runs"], found["effects"] = runs, workload.effects
    if place == "SQLite" and name.startswith(("tercet", "floor")):
        facts |= ours.own_pragmas(Path(store))
    found["facts"] = facts | (
        ours.sqlite_facts(Path(store)) if place == "SQLite" else await ours.postgres_facts(store)
    )
    return found


# --- rounds ---


def sample(place: str, name: str, store: str) -> Sample:
    """A measurement in a fresh process."""
    done = subprocess.run(
        [sys.executable, __file__, "--measure", place, name, store],
        check=False, capture_output=True, text=True, env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"{name} on {place} failed:\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def rounds(place: str, count: int, server: str) -> dict[str, list[Sample]]:
    """All candidates, one after the other, as often as there are rounds."""
    found: dict[str, list[Sample]] = {name: [] for name in CANDIDATES[place]}
    for number in range(count):
        for position, name in enumerate(CANDIDATES[place]):
            tell(f"{place}: round {number + 1} of {count}, {name}")
            with tempfile.TemporaryDirectory() as folder:
                store = str(Path(folder) / "bench.db")
                if place == "PostgreSQL":
                    store = asyncio.run(make_database(server, f"bench_{number}_{position}"))
                found[name].append(sample(place, name, store))
    tell("")
    return found


def tell(line: str) -> None:
    """Show how far the work is, where somebody looks on."""
    if sys.stderr.isatty():
        print(f"\r{line:<60}\r", end="", file=sys.stderr, flush=True)


# --- the table ---


def median(samples: list[Sample], mode: str, key: str) -> float:
    """The middle of a figure over the rounds."""
    return statistics.median(one[mode][key] for one in samples)


def show(place: str, found: dict[str, list[Sample]]) -> list[str]:
    """Print the table of one store; the targets that were missed."""
    missed: list[str] = []
    for mode, label in (("one by one", "one run at a time"), ("at once", f"{CONCURRENT} runs at once")):
        print(f"\n{place}, {label}")
        print(f"{'':<25} {'steps/s':>8} {'wall us':>8} {'CPU us':>7}   tercet / it: min median max    wanted")
        for name, samples in found.items():
            ratios = sorted(
                mine[mode]["rate"] / other[mode]["rate"]
                for mine, other in zip(found["tercet"], samples, strict=True)
            )
            middle = statistics.median(ratios)
            shown = "" if name == "tercet" else f"{ratios[0]:>16.2f} {middle:>6.2f} {ratios[-1]:>6.2f}"
            wanted = WANTED.get((place, mode, name))
            note = ""
            if wanted is not None:
                verdict = (
                    "missed" if middle < wanted[0] else "reached" if middle < wanted[1] else "aim reached"
                )
                note = f"   >= {wanted[0]:g}, aim {wanted[1]:g}: {verdict}"
                if middle < wanted[0]:
                    missed.append(f"{place}, {label}: {middle:.2f} times {name}, wanted {wanted[0]:g}")
            print(
                f"{name:<25} {median(samples, mode, 'rate'):>8,.0f} {median(samples, mode, 'wall'):>8,.0f}"
                f" {median(samples, mode, 'cpu'):>7,.0f}   {shown}{note}"
            )
    print(f"\n{place}, read back from the last round")
    for name, samples in found.items():
        last = samples[-1]
        settings = [f"{key}={value}" for key, value in last["facts"].items() if key != "rows"]
        rows = ", ".join(f"{table} {n:,}" for table, n in last["facts"]["rows"].items())
        print(
            f"{name:<25} {last['runs']} runs, {last['effects']:,} effects; {' '.join(settings)}; rows: {rows}"
        )
    return missed


def main() -> None:
    """Measure, print, and end with 1 if a target was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--waiting", type=int, help="how many sessions wait, instead of ten thousand")
    parser.add_argument("--measure", nargs=3, metavar=("PLACE", "NAME", "STORE"), help=argparse.SUPPRESS)
    parser.add_argument("--only", choices=(*PLACES, "growth", "waiting"), help="leave the rest out")
    chosen = parser.parse_args()
    if chosen.measure:
        print(json.dumps(asyncio.run(measure(*chosen.measure))))
        return
    missed: list[str] = []
    if chosen.only in (None, *PLACES):
        print(f"{workload.STEPS} no-op steps a run, {chosen.rounds} rounds")
        print(
            'LangGraph: durability="sync", last-value reducer; DBOS: async steps, SQLite in WAL mode.'
            " Tercet is measured with its defaults."
        )
    if chosen.only in (None, "SQLite"):
        missed += show("SQLite", rounds("SQLite", chosen.rounds, ""))
    if chosen.only in (None, "PostgreSQL"):
        with postgres() as server:
            missed += show("PostgreSQL", rounds("PostgreSQL", chosen.rounds, server))
    if chosen.only in (None, "growth"):
        missed += growth.show()
    if chosen.only in (None, "waiting"):
        missed += waiting.show(chosen.waiting)
    for line in missed:
        print(f"missed: {line}")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
