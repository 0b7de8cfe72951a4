"""Durable steps per second, beside LangGraph, DBOS and the journal's own append.

Every candidate makes runs of twelve no-op steps, one run at a time and fifty at once. Tercet's are whole runs with
default settings: review, INTENT durable before the call and COMPLETE after it, budget, verdict, checkpoint, chain,
score, record. The floor is a bare loop over the same journal: two durable events a step, the second after the first;
`floor, joined` puts both into one append, which no step that waits for its INTENT could do.

Each measurement is a process of its own, and candidates alternate within each round: a noisy machine is noisy for all
of them. Ratios are what counts; rates and times belong to the machine. Settings, rows and effects are read back from
what each candidate left behind. Nothing here says anything about power loss: that depends on the disk.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any, TypeAlias

from plugins.postgres import running_server

from . import workload
from .durable_process import CONCURRENT, ONE_CONNECTION
from .measurement import ROOT, measure_in_process
from .servers import make_database

ROUNDS = 5
RUNS = {"tercet": (40, 400), "floor": (40, 400), "LangGraph": (10, 100), "DBOS": (10, 100)}
"""How many runs of each kind of candidate are timed, one at a time and fifty at once."""
CANDIDATES = {
    "SQLite": ("tercet", "floor", "floor, joined", "LangGraph", "DBOS"),
    "PostgreSQL": ("tercet", "floor", "floor, joined", "LangGraph", ONE_CONNECTION, "DBOS"),
}
PEERS = ROOT / ".venv" / "bench" / "bin" / "python"
"""The interpreter that has the peers; `make bench` installs them."""
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


# --- rounds ---


def rounds(place: str, server: str, *, is_smoke: bool) -> dict[str, list[Sample]]:
    """All candidates, one after the other, as often as there are rounds; a smoke round is without the peers."""
    names = [name for name in CANDIDATES[place] if not is_smoke or name.startswith(("tercet", "floor"))]
    python = sys.executable if is_smoke else str(PEERS)
    count = 1 if is_smoke else ROUNDS
    found: dict[str, list[Sample]] = {name: [] for name in names}
    for number in range(count):
        for position, name in enumerate(names):
            tell(f"{place}: round {number + 1} of {count}, {name}")
            few, many = (1, 4) if is_smoke else RUNS[name.partition(",")[0]]
            with tempfile.TemporaryDirectory() as folder:
                store = str(Path(folder) / "bench.db")
                if place == "PostgreSQL":
                    store = asyncio.run(make_database(server, f"bench_{number}_{position}"))
                found[name].append(
                    measure_in_process("bench.durable_process", place, name, store, few, many, python=python)
                )
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


def run(*, is_smoke: bool = False) -> list[str]:
    """Measure on both stores and print; return the targets that were missed."""
    if not is_smoke and not PEERS.exists():
        raise RuntimeError(f"the peers are not installed in {PEERS.parents[1]}: run make bench")
    print(f"{workload.STEPS} no-op steps a run")
    print(
        'LangGraph: durability="sync", last-value reducer; DBOS: async steps, SQLite in WAL mode.'
        " Tercet is measured with its defaults."
    )
    missed = show("SQLite", rounds("SQLite", "", is_smoke=is_smoke))
    with running_server(is_synced=True) as server:
        return missed + show("PostgreSQL", rounds("PostgreSQL", server.url, is_smoke=is_smoke))
