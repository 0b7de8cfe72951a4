"""One measurement of one candidate, in a process of its own, which may have the peers installed."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from . import durable_peers as peers
from . import durable_tercet as ours
from . import workload
from .workload import Facts, Run

CONCURRENT = 50
ONE_CONNECTION = "LangGraph, one connection"
OTHER_PLANS = "tercet, other plans"
"""Tercet with another plan and input in every run."""


def opened(place: str, name: str, store: str, facts: Facts) -> AbstractAsyncContextManager[Run]:
    """A candidate on a store: the path of a SQLite file, or the address of a database."""
    url = f"sqlite:///{store}" if place == "SQLite" else store
    makers: dict[str, Callable[[], AbstractAsyncContextManager[Run]]] = {
        "tercet": lambda: ours.tercet(url),
        OTHER_PLANS: lambda: ours.tercet(url, is_varied=True),
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


async def measure(place: str, name: str, store: str, few: int, many: int) -> dict[str, Any]:
    """One run to warm up, then both measurements, then what was left behind."""
    facts: Facts = {}
    async with opened(place, name, store, facts) as run:
        await run()
        found: dict[str, Any] = {
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


if __name__ == "__main__":
    _place, _name, _store, _few, _many = sys.argv[1:]
    print(json.dumps(asyncio.run(measure(_place, _name, _store, int(_few), int(_many)))))
