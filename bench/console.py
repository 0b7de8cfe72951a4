"""The console: what the inbox costs with few and with many gates, the list of sessions with few and with many, and a session's page for a short and a long run."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from console.desk import Browser, open_console
from console.many_gates import copy_waiting, pack_of_two_roles, wait_for
from console.shop import HeldShop
from plugins.postgres import running_server
from tercet.console.session import TABS
from tercet.contracts.request import Actor, Request
from tercet.core.messages import session_of
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
FEW_GATES, MANY_GATES = 100, 10_000
MOST_INBOX_GROWTH = 20.0
"""How much more the inbox may cost with many gates: a gate behind those of others is found by their rows."""
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


# --- the inbox ---


async def _measure_inbox(kind: str, urls: tuple[str, str], gates: int, rounds: int) -> list[Target]:
    """Measure the inbox with few and with many gates, for a person whose only gate is the newest, and for one with all others."""
    sizes, found = (min(FEW_GATES, gates // 2), gates), list[Target]()
    costs: dict[str, list[float]] = {}
    for url, size in zip(urls, sizes, strict=True):
        async with open_journal(url) as journal, open_console(journal, pack_of_two_roles()) as desk:
            await copy_waiting(journal, session_of(await wait_for(desk, "clerk")), size - 1, later_ms=-1)
            gate = await wait_for(desk, "lead")
            for role in ("lead", "clerk"):
                browser = await desk.person(role, roles=(role,))
                page = await browser.get("/console")
                assert (gate in page.text.partition("Waiting for others")[0]) == (role == "lead")
                costs.setdefault(f"page of the {role}", []).append(
                    await _cost_ms(browser, "/console", rounds)
                )
                known = {"if-none-match": page.headers["etag"]}
                costs.setdefault(f"unchanged for the {role}", []).append(
                    await _unchanged_ms(browser, known, rounds)
                )
    for name, (few, many) in costs.items():
        print(f"{kind} inbox, {name:<24} {sizes[0]:,}: {few:7.1f} ms, {gates:,}: {many:7.1f} ms", flush=True)
        found.append(
            Target(name=f"{kind} inbox, {name}: {gates:,} gates", found=many / few, most=MOST_INBOX_GROWTH)
        )
    return found


async def _unchanged_ms(browser: Browser, known: dict[str, str], rounds: int) -> float:
    best = float("inf")
    for _ in range(rounds):
        begun = time.perf_counter()
        answer = await browser.client.get("/console", headers=known)
        best = min(best, time.perf_counter() - begun)
        assert (answer.status_code, answer.content) == (304, b"")
    return 1_000 * best


def _inboxes(gates: int, rounds: int) -> list[Target]:
    with tempfile.TemporaryDirectory() as folder:
        files = (f"sqlite:///{Path(folder, 'few.db')}", f"sqlite:///{Path(folder, 'many.db')}")
        found = asyncio.run(_measure_inbox("SQLite", files, gates, rounds))
    with running_server() as few, running_server() as plenty:
        found += asyncio.run(_measure_inbox("PostgreSQL", (few.url, plenty.url), gates, rounds))
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
    inboxes = _inboxes(120 if is_smoke else MANY_GATES, rounds)
    return show_targets([*inboxes, *_lists(200 if is_smoke else MANY, rounds), *sessions])
