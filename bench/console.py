"""The console: what the list of sessions costs with few and with many sessions, and a session's page for a short and a long run."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from console.desk import Browser, open_console
from console.shop import HeldShop
from plugins.postgres import running_server
from tercet.console.session import TABS
from tercet.contracts.request import Actor, Request
from tercet.journal.memory import MemoryJournal
from tercet.journal.opening import open_journal
from tercet.journal.protocol import Append, Journal, SessionRow
from tercet.runtime import Runtime

from .measurement import Target, show_targets

SHORT, LONG = 12, 1_000
MOST_GROWTH = 30.0
"""How much more a page of the long run may cost than one of the short run, which has one step for every 83."""
FEW, MANY = 1_000, 100_000
MOST_LIST_GROWTH = 3.0
"""How much more a list with many sessions may cost than one with few."""
LISTS = {
    "newest": "",
    "in the middle": "?cursor={middle}",
    "waiting": "?status=awaiting_gate",
    "one intent": "?intent=intent.3",
    "one risk tier": "?risk=low",
    "one owner": "?owner=agt_7",
    "search, a word of many": "?text=gt_7",
    "search, one id": "?text={middle}",
    "search, nothing": "?text=no+such+run",
    "two filters, nothing": "?owner=agt_7&status=failed",
}
_AT_ONCE = 500
_BUDGET = {"tool_calls": 5_000, "max_steps": 5_000, "wall_clock_ms": 10**9, "max_iterations": 10**6}


async def _record(held: HeldShop, journal: Journal, steps: int) -> str:
    held.let_go(steps)
    plan = [
        {
            "id": f"s{n}",
            "tool": "shop.work",
            "params": {"n": n},
            "depends_on": [f"s{n - 1}"] if n % 10 else [],
        }
        for n in range(steps)
    ]
    async with Runtime(held.pack, journal, watchdog_ms=None) as runtime:
        request = Request(intent="work", input={"steps": steps})
        done = await runtime.run(request, plan={"steps": plan}, actor=Actor(id="ada"))
    assert (done.status, done.steps_done) == ("completed", steps), done
    return done.session_id


async def _cost_ms(browser: Browser, path: str, rounds: int) -> float:
    best = float("inf")
    for _ in range(rounds):
        begun = time.perf_counter()
        page = await browser.get(path)
        best = min(best, time.perf_counter() - begun)
        assert page.status_code == 200, page.text
    return 1_000 * best


async def _measure(long: int, rounds: int) -> list[Target]:
    held, journal = HeldShop(budget=_BUDGET), MemoryJournal()
    short_run, long_run = await _record(held, journal, SHORT), await _record(held, journal, long)
    found: list[Target] = []
    async with open_console(journal, held.pack) as desk:
        reader = await desk.person("reader", scopes=("read",))
        for tab in TABS:
            short_ms, long_ms = [
                await _cost_ms(reader, f"/console/sessions/{run}?tab={tab}", rounds)
                for run in (short_run, long_run)
            ]
            print(f"{tab:<12} {SHORT} steps {short_ms:7.1f} ms, {long:,} steps {long_ms:7.1f} ms", flush=True)
            name = f"session page, {tab}: {long:,} steps over {SHORT}"
            found.append(Target(name=name, found=long_ms / short_ms, most=MOST_GROWTH))
    return found


# --- the list of sessions ---


def _row(place: int) -> SessionRow:
    """A session; every tenth waits, and every tenth has the same owner and intent, so that each list has a full page."""
    return SessionRow(
        session_id=f"ses_{place:016x}",
        tenant="default",
        status="awaiting_gate" if place % 10 == 0 else "completed",
        pack="shop@1.0.0",
        pack_hash="sha256:00",
        snapshot="",
        intent="work" if place % 7 == 0 else f"intent.{place % 10}",
        owner=f"agt_{place % 10}",
        started_at=1_700_000_000_000 + place,
        updated_at=1_700_000_000_000 + place,
    )


async def _fill(journal: Journal, number: int) -> None:
    for first in range(0, number, _AT_ONCE):
        rows = [_row(place) for place in range(first, min(first + _AT_ONCE, number))]
        appends = (
            journal.append(
                Append(tenant="default", stream=row.session_id, expected=0, events=(b"{}",), row=row)
            )
            for row in rows
        )
        await asyncio.gather(*appends)


@asynccontextmanager
async def _reader(url: str, number: int) -> AsyncGenerator[Browser]:
    async with open_journal(url) as journal:
        await _fill(journal, number)
        async with open_console(journal, HeldShop().pack) as desk:
            yield await desk.person("reader", scopes=("read",))


async def _measure_lists(kind: str, urls: tuple[str, str], many: int, rounds: int) -> list[Target]:
    """Measure the same lists of a journal with few sessions and of one with many, in turn."""
    sizes, found = (min(FEW, many // 2), many), list[Target]()
    async with AsyncExitStack() as stack:
        readers = [
            await stack.enter_async_context(_reader(url, size)) for url, size in zip(urls, sizes, strict=True)
        ]
        for name, query in LISTS.items():
            best = [float("inf"), float("inf")]
            for _ in range(rounds):
                for place, (reader, size) in enumerate(zip(readers, sizes, strict=True)):
                    path = f"/console/sessions{query.format(middle=_row(size // 2).session_id)}"
                    best[place] = min(best[place], await _cost_ms(reader, path, 1))
            print(
                f"{kind}, {name:<22} {sizes[0]:,}: {best[0]:7.1f} ms, {many:,}: {best[1]:7.1f} ms", flush=True
            )
            title = f"{kind} list, {name}: {many:,} over {sizes[0]:,}"
            found.append(Target(name=title, found=best[1] / best[0], most=MOST_LIST_GROWTH))
    return found


def _lists(many: int, rounds: int) -> list[Target]:
    with tempfile.TemporaryDirectory() as folder:
        files = (f"sqlite:///{Path(folder, 'few.db')}", f"sqlite:///{Path(folder, 'many.db')}")
        found = asyncio.run(_measure_lists("SQLite", files, many, rounds))
    with running_server() as few, running_server() as plenty:
        found += asyncio.run(_measure_lists("PostgreSQL", (few.url, plenty.url), many, rounds))
    return found


def run(*, is_smoke: bool) -> list[str]:
    """Measure the pages; return the targets that were missed."""
    rounds = 1 if is_smoke else 5
    sessions = asyncio.run(_measure(50 if is_smoke else LONG, rounds))
    return show_targets([*_lists(200 if is_smoke else MANY, rounds), *sessions])
