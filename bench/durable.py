"""Durable steps per second, beside LangGraph, DBOS and the journal's own append.

Every candidate makes runs of twelve no-op steps, one run at a time and fifty at once. Tercet's are whole runs with
default settings: review, INTENT durable before the call and COMPLETE after it, budget, verdict, checkpoint, chain,
score, record. It is measured twice: with one plan that is repeated, and with another plan and input in every run. The floor is a bare loop over the same journal: two durable events a step, the second after the first;
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
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from plugins.postgres import running_server

from . import workload
from .durable_process import CONCURRENT, ONE_CONNECTION, OTHER_PLANS
from .measurement import ROOT, Target, measure_in_process, show_targets
from .servers import make_database

ROUNDS = 5
RUNS = {"tercet": (40, 400), "floor": (40, 400), "LangGraph": (10, 100), "DBOS": (10, 100)}
"""How many runs of each kind of candidate are timed, one at a time and fifty at once."""
CANDIDATES = {
    "SQLite": ("tercet", OTHER_PLANS, "floor", "floor, joined", "LangGraph", "DBOS"),
    "PostgreSQL": ("tercet", OTHER_PLANS, "floor", "floor, joined", "LangGraph", ONE_CONNECTION, "DBOS"),
}
PEERS = ROOT / ".venv" / "bench" / "bin" / "python"
"""The interpreter that has the peers; `make bench` installs them."""
Sample: TypeAlias = dict[str, Any]

WANTED: dict[tuple[str, str, str, str], float] = {
    ("SQLite", "at once", "tercet", "LangGraph"): 10,
    ("SQLite", "at once", "tercet", "DBOS"): 12,
    ("SQLite", "at once", "tercet", "floor"): 0.20,
    ("SQLite", "at once", OTHER_PLANS, "LangGraph"): 8,
    ("SQLite", "one by one", "tercet", "LangGraph"): 2.3,
    ("SQLite", "one by one", "tercet", "DBOS"): 1.5,
    ("SQLite", "one by one", "tercet", "floor"): 0.7,
    ("PostgreSQL", "at once", "tercet", "LangGraph"): 11,
    ("PostgreSQL", "at once", "tercet", "DBOS"): 16,
}
"""The least that the median of Tercet's rate over the other's may be."""
MOST_CPU_US = 200
"""The most CPU time of a step on SQLite, with fifty runs at once."""


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


def ratio(found: dict[str, list[Sample]], mode: str, mine: str, other: str) -> list[float]:
    """The rate of one candidate over that of another in each round, in order of size."""
    pairs = zip(found[mine], found[other], strict=True)
    return sorted(one[mode]["rate"] / two[mode]["rate"] for one, two in pairs)


def targets(place: str, found: dict[str, list[Sample]]) -> Iterator[Target]:
    """The targets of one store whose candidates were measured."""
    for (store, mode, mine, other), least in WANTED.items():
        if store == place and other in found:
            middle = statistics.median(ratio(found, mode, mine, other))
            yield Target(name=f"{place}, {mode}: {mine} / {other}", found=middle, least=least)
    if place == "SQLite":
        for name in ("tercet", OTHER_PLANS):
            used = median(found[name], "at once", "cpu")
            yield Target(name=f"{place}, at once: CPU us of {name}", found=used, most=MOST_CPU_US)


def show(place: str, found: dict[str, list[Sample]]) -> list[str]:
    """Print the table of one store; the targets that were missed."""
    for mode, label in (("one by one", "one run at a time"), ("at once", f"{CONCURRENT} runs at once")):
        print(f"\n{place}, {label}")
        print(
            f"{'':<25} {'steps/s':>8} {'wall us':>8} {'CPU us':>7}   tercet / it: min median max   other plans / it"
        )
        for name, samples in found.items():
            same, other = (ratio(found, mode, mine, name) for mine in ("tercet", OTHER_PLANS))
            shown = f"{same[0]:>16.2f} {statistics.median(same):>6.2f} {same[-1]:>6.2f} {statistics.median(other):>18.2f}"
            print(
                f"{name:<25} {median(samples, mode, 'rate'):>8,.0f} {median(samples, mode, 'wall'):>8,.0f}"
                f" {median(samples, mode, 'cpu'):>7,.0f}   {'' if name.startswith('tercet') else shown}"
            )
    print()
    missed = show_targets(targets(place, found))
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
