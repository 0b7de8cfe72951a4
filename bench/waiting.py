"""Sessions that wait at gates: what ten thousand of them cost the process that started them, and how soon one goes on.

Each is started through the runtime on a small pack whose first step waits for an approval. Memory is what the operating
system says that the process holds: once when caches are filled, after the first thousand, and once when all wait. One
of them in the middle is then approved and carried to its end, by the process that started it and by one that has just
opened the journal.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, cast

from plugins.postgres import running_server
from tercet import Actor, DecisionSpec, Gate, Pack, Plan, Request, Tool
from tercet.runtime import Runtime

from .growth import truncated_size
from .measurement import Target, measure_in_process, show_targets
from .servers import make_database

COUNT = 10_000
AT_ONCE = 50
WARM = 1_000
"""So many sessions fill the caches of the process: memory is counted from there."""
RESUMED = 5
MOST_BYTES, MOST_MS = 1024.0, 1000.0
OWNER, APPROVER = Actor(id="agt_bench"), Actor(id="user_lead", roles=("lead",))


def pack_of() -> Pack:
    """A pack with one tool, which somebody has to approve."""

    async def pay(account: str) -> dict[str, str]:
        return {"paid": account}

    made = {
        "name": "bench.pay",
        "call": pay,
        "mode": "destructive",
        "reversibility": "irreversible",
        "no_compensation": "what is paid is paid",
        "gates": ("GATE_BENCH",),
        "idempotent": True,
    }
    return Pack.model_validate(
        {
            "name": "waiting",
            "version": "1.0.0",
            "safety_mode": "destructive",
            "tools": (Tool.model_validate(made),),
            "gates": (Gate(name="GATE_BENCH", roles=("lead",)),),
            "decisions": (DecisionSpec(id="bench.pay"),),
        }
    )


def plan_of(account: str) -> Plan:
    """A plan whose first step waits for an approval."""
    step = {"id": "s1", "tool": "bench.pay", "params": {"account": account}, "gates": ["GATE_BENCH"]}
    return Plan.model_validate({"intent": "bench.pay", "steps": [step]})


def held_bytes() -> int:
    """The memory that this process holds, as the operating system counts it."""
    gc.collect()
    told = subprocess.run(
        ["ps", "-o", "rss=", "-p", str(os.getpid())],  # noqa: S607 - the system's own
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return 1024 * int(told.stdout)


async def start(runtime: Runtime, numbers: range) -> list[str]:
    """Start so many sessions, fifty at a time, each of which comes to its gate; their gates."""
    left = iter(numbers)
    gates: list[str] = []

    async def work() -> None:
        for number in left:
            account = f"acc_{number}"
            request = Request(intent="bench.pay", input={"account": account})
            result = await runtime.run(request, plan=plan_of(account), actor=OWNER)
            assert result.status == "awaiting_gate", result
            assert result.gate is not None
            if (number - numbers.start) % (len(numbers) // (2 * RESUMED)) == 0:
                gates.append(result.gate.id)  # only a few: a list of all would be counted as well

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return gates


async def go_on(runtime: Runtime, gate: str) -> float:
    """Milliseconds from an approval to the end of the session."""
    began = time.perf_counter()
    answered = await runtime.approve(gate, actor=APPROVER)
    ended = await runtime.resume(answered.session_id)
    assert ended.status == "completed", ended
    return 1000 * (time.perf_counter() - began)


async def measure(url: str, number: int) -> dict[str, Any]:
    """The memory and the times of so many waiting sessions."""
    pack = pack_of()
    async with Runtime(pack, url) as runtime:
        before = held_bytes()
        await start(runtime, range(min(WARM, number // 2)))
        warm = held_bytes()
        began = time.perf_counter()
        gates = await start(runtime, range(min(WARM, number // 2), number))
        elapsed = time.perf_counter() - began
        after = held_bytes()
        found = await runtime.sessions(status="awaiting_gate", limit=number + 1)
        assert len(found) == number, len(found)
        own = [await go_on(runtime, gate) for gate in gates[:RESUMED]]
    fresh: list[float] = []
    for gate in gates[RESUMED : 2 * RESUMED]:
        began = time.perf_counter()
        async with Runtime(pack, url) as runtime:
            await go_on(runtime, gate)
        fresh.append(1000 * (time.perf_counter() - began))
    return {
        "before": before,
        "warm": warm,
        "after": after,
        "each": (after - warm) / (number - min(WARM, number // 2)),
        "rate": (number - min(WARM, number // 2)) / elapsed,
        "own": statistics.median(own),
        "fresh": statistics.median(fresh),
    }


async def database_size(url: str) -> int:
    """The bytes of a PostgreSQL database."""
    import asyncpg  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs] - an optional dependency

    connection = await cast("Any", asyncpg).connect(url)
    try:
        return await connection.fetchval("SELECT pg_database_size(current_database())")
    finally:
        await connection.close()


def on_sqlite(number: int) -> dict[str, Any]:
    """The figures on SQLite, with the bytes that a session leaves."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "waiting.db"
        found = measure_in_process("bench.waiting", f"sqlite:///{path}", number)
        return {**found, "stored": truncated_size(path) / number}


def on_postgres(server: str, number: int) -> dict[str, Any]:
    """The figures on PostgreSQL, with the bytes that a session leaves."""
    url = asyncio.run(make_database(server, "waiting"))
    before = asyncio.run(database_size(url))
    found = measure_in_process("bench.waiting", url, number)
    return {**found, "stored": (asyncio.run(database_size(url)) - before) / number}


def run(*, is_smoke: bool = False) -> list[str]:
    """Print the figures on both stores; return the targets that were missed."""
    number = 40 if is_smoke else COUNT
    missed = show("SQLite", number, on_sqlite(number))
    with running_server(is_synced=True) as server:
        found = on_postgres(server.url, number)
    return missed + show("PostgreSQL", number, found)


def show(place: str, number: int, found: dict[str, Any]) -> list[str]:
    """Print the figures of one store; return the targets that were missed."""
    print(f"\n{number:,} sessions waiting at gates, {place}")
    before, warm, after = (found[name] / 1024**2 for name in ("before", "warm", "after"))
    print(
        f"memory: {before:.1f} MB at first, {warm:.1f} MB once caches are filled, {after:.1f} MB when all wait"
    )
    print(f"started {found['rate']:,.0f} a second; {found['stored']:,.0f} bytes in the database for each")
    return show_targets(
        [
            Target(name=f"{place}: bytes of memory for each", found=found["each"], most=MOST_BYTES),
            Target(name=f"{place}: ms from approval to end", found=found["own"], most=MOST_MS),
            Target(name=f"{place}: ms the same, just opened", found=found["fresh"], most=MOST_MS),
        ]
    )


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(sys.argv[1], int(sys.argv[2])))))
