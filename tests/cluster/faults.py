"""The fault campaign: `make faults`.

Sessions with lanes, gates and effects are started and answered through the service, while workers, the service, Temporal and
PostgreSQL are killed in turn at random instants, one or two at a time. In the middle of it the cluster is upgraded to
another pack version. Then: every session has ended as it had to, each effect is in an independent database exactly once and
was made by the version that its session is pinned to, no request was lost or started twice, no workflow is left, every
run replays byte for byte, and nothing in the journal is damaged.

    PYTHONPATH=tests python -m cluster.faults [--sessions N] [--seed N] [--minutes N]

The seed draws what becomes of each session, the order in which parts are killed, and all pauses.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table

from acceptance import effects
from cluster.crew import client_of
from cluster.machine import SERVICE, Machine, open_machine
from cluster.orders import AGENT, FAILING_PLAN, LEAD, OFFER_PLAN, PLAN, SELL, make_pack
from tercet.cluster.connection import queue_of
from tercet.cluster.drain import count_remaining
from tercet.contracts.errors import TercetError
from tercet.core.state import TERMINAL
from tercet.engine.streams.credentials import SCOPES, ApiKeys, NewKey
from tercet.executor.clock import SystemClock
from tercet.journal.opening import open_journal
from tercet.journal.protocol import SessionRow
from tercet.replay.replay import replay
from tercet.service.client import AsyncClient, RemoteError, SessionView

T = TypeVar("T")
TENANT = "default"
OLD, NEW = "1.0.0", "2.0.0"
AT_ONCE = 24
"""How many sessions are under way at the same time."""
AT_ONCE_DOWN = 2
"""How many parts are down at the same time."""
POLL_S = 0.7
RETRY_S = 0.4
LISTED = 10_000
CALM_S = 120
"""How long sessions may take to end once the faults are over."""
ANSWERED = ("gate_not_open", "already_approved", "session_over", "gate_expired")
"""The codes that say that an answer, sent again after its service died, had been taken before."""


@dataclass(frozen=True, kw_only=True)
class Fate:
    """What becomes of a session: its plan, what people do, and what has happened at the end."""

    plan: dict[str, Any]
    status: str
    happened: Counter[str]
    weight: int


TAKEN_BACK = Counter({"s1": 1, "~s1": 1})
FATES = {
    "approved": Fate(plan=PLAN, status="completed", happened=Counter(s1=1, s2=1), weight=5),
    "denied": Fate(plan=PLAN, status="rejected", happened=TAKEN_BACK, weight=2),
    "cancelled": Fate(plan=PLAN, status="cancelled", happened=TAKEN_BACK, weight=1),
    "unanswered": Fate(plan=OFFER_PLAN, status="expired", happened=TAKEN_BACK, weight=1),
    "abandoned": Fate(
        plan=FAILING_PLAN, status="failed", happened=Counter({"s1": 1, "s2": 1, "~s2": 1, "~s1": 1}), weight=2
    ),
}


@dataclass(kw_only=True)
class Order:
    """One session of the campaign."""

    number: int
    fate: str
    session: str = ""
    seconds: float = 0.0
    """How long it took from the request to its end, as its caller saw it."""


@dataclass(kw_only=True)
class Campaign:
    """A round: orders that are made and answered, faults, and an upgrade."""

    machine: Machine
    orders: Sequence[Order]
    draw: random.Random
    owner: AsyncClient
    lead: AsyncClient
    retried: Counter[str] = field(default_factory=Counter[str])
    """How often a call was sent again, by the code of its error."""
    steps: list[str] = field(default_factory=list[str])
    """What was done to the cluster, and when."""
    began: float = field(default_factory=time.monotonic)
    is_calm: bool = False
    """Whether no more parts are killed."""

    def note(self, text: str) -> None:
        """Print and keep what is done."""
        ended = sum(order.seconds > 0 for order in self.orders)
        line = f"{time.monotonic() - self.began:7.1f} s  {ended:4} of {len(self.orders)} ended  {text}"
        self.steps.append(line)
        print(line, file=sys.stderr, flush=True)  # noqa: T201 - progress of a campaign

    # --- callers ---

    async def call(self, make: Callable[[], Awaitable[T]], *taken: str) -> T | None:
        """Make a call until the service answers it; None if it says that it was taken before."""
        while True:
            try:
                return await make()
            except RemoteError as error:
                if error.code in taken:
                    return None
                self.retried[error.code] += 1
                await asyncio.sleep(RETRY_S)

    async def until(self, session: str, *statuses: str) -> SessionView:
        """Return a session once it has one of these statuses."""
        while True:
            found = await self.call(lambda: self.owner.session(session))
            assert found is not None
            if found.status in statuses:
                return found
            await asyncio.sleep(POLL_S)

    async def sell(self, order: Order) -> None:
        """Make an order, answer its gate as its fate says, and wait for its end."""
        began = time.monotonic()
        asked = {"intent": SELL.intent, "input": SELL.input, "request_key": f"order-{order.number}"}
        fate = FATES[order.fate]
        started = await self.call(lambda: self.owner.invoke(asked, plan=fate.plan, mode="batch"))
        assert started is not None
        order.session = started.id
        if order.fate != "unanswered":
            at_gate = await self.until(order.session, "awaiting_gate", "paused", *TERMINAL)
            if at_gate.gates:
                await self._answer(order, at_gate.gates[0])
        await self.until(order.session, *TERMINAL)
        order.seconds = time.monotonic() - began

    async def _answer(self, order: Order, gate: str) -> None:
        key = f"answer-{order.number}"
        match order.fate:
            case "approved":
                await self.call(lambda: self.lead.approve(gate, request_key=key), *ANSWERED)
            case "denied":
                await self.call(lambda: self.lead.deny(gate, request_key=key), *ANSWERED)
            case "abandoned":
                decided = {"gate_id": gate, "decision": "abandon", "request_key": key}
                await self.call(lambda: self.lead.call("decideEscalation", decided), *ANSWERED)
            case _:
                await self.call(lambda: self.owner.cancel(order.session), *ANSWERED)

    async def sell_all(self) -> None:
        """Make all orders, so many at once; the cluster is upgraded in the middle."""
        slots = asyncio.Semaphore(AT_ONCE)

        async def sell(order: Order) -> None:
            try:
                await self.sell(order)
            finally:
                slots.release()

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.upgrade())
            for order in self.orders:
                await slots.acquire()
                tasks.create_task(sell(order))

    # --- what happens to the cluster ---

    async def upgrade(self) -> None:
        """Once half of the sessions have started, serve a new pack version, give one worker to it, drain the old version, and give it the other worker as well."""
        while sum(bool(order.session) for order in self.orders) < len(self.orders) // 2:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        await self.machine.replace(SERVICE, OLD, NEW)
        await self.machine.replace("worker2", NEW)
        self.note(f"upgrade: the service starts sessions of {NEW}, and a worker of {NEW} has joined")
        old = queue_of(make_pack(OLD).ref, make_pack(OLD).hash)
        while not await self._is_drained(old):  # noqa: ASYNC110 - Temporal is asked
            await asyncio.sleep(2)
        await self.machine.replace("worker1", NEW)
        self.note(f"upgrade: {OLD} is drained, and its last worker has stopped")

    async def _is_drained(self, queue: str) -> bool:
        """Whether no session is left on a queue; also by the callers, since Temporal's lists may lag behind a start."""
        first = self.orders[: len(self.orders) // 2 + AT_ONCE]
        try:
            if not all(order.seconds for order in first):
                return False
            client = await client_of(self.machine.temporal)
            async with open_journal(self.machine.postgres.url) as journal:
                return (await count_remaining(client, journal, queue)).is_drained
        except Exception as error:  # noqa: BLE001 - Temporal is down; asked again
            self.retried[f"drain: {type(error).__name__}"] += 1
            return False

    async def attack(self) -> None:
        """Kill parts, each once before any is killed again, so that up to two are down at a time."""
        slots = asyncio.Semaphore(AT_ONCE_DOWN)
        longest_s = 0.0

        async def kill(name: str, pause_s: float) -> None:
            nonlocal longest_s
            began = time.monotonic()
            try:
                await self.machine.kill(name, pause_s, self.note)
            finally:
                longest_s = max(0.8 * longest_s, time.monotonic() - began)
                slots.release()

        async with asyncio.TaskGroup() as kills:
            while not self.is_calm:
                names = sorted(self.machine.names)
                self.draw.shuffle(names)
                for name in names:
                    wait_s, pause_s = self.draw.uniform(0.5, 4), self.draw.uniform(0, 3)
                    # A busy machine takes long to start a part again: what runs has half of that time to get on.
                    await asyncio.sleep(max(wait_s, longest_s / 2))
                    await slots.acquire()
                    if self.is_calm:
                        return
                    kills.create_task(kill(name, pause_s))

    async def run(self, minutes: float) -> list[str]:
        """Do all of it; return what did not end in time."""
        attacking = asyncio.create_task(self.attack())
        selling = asyncio.create_task(self.sell_all())
        try:
            await asyncio.wait(
                (selling, attacking), timeout=60 * minutes, return_when=asyncio.FIRST_COMPLETED
            )
            self.is_calm = True
            await attacking  # parts that are down are started again
            if not selling.done():
                self.note("the time is up: no more faults")
                await asyncio.wait((selling,), timeout=CALM_S)
            self.note("the orders are over" if selling.done() else "sessions are left")
            if selling.done():
                selling.result()
                return []
            left = [
                f"order {each.number} ({each.fate}) did not end" for each in self.orders if not each.seconds
            ]
            return left or [f"{OLD} was not drained although every session on it has ended"]
        finally:
            selling.cancel()
            attacking.cancel()
            await asyncio.gather(selling, attacking, return_exceptions=True)


# --- what is left ---


async def look(campaign: Campaign, effects_path: Path) -> list[str]:
    """Return what breaks a promise."""
    machine, wrong = campaign.machine, list[str]()
    for name, count in machine.ended.items():
        wrong.append(f"{name} ended {count} times by itself")
    async with open_journal(machine.postgres.url) as journal:
        rows = {
            row.session_id: row
            for row in await journal.sessions(TENANT, limit=LISTED)
            if row.intent == SELL.intent
        }
        known = {order.session: order for order in campaign.orders if order.session}
        wrong += [f"session {each} belongs to no order" for each in rows.keys() - known.keys()]
        wrong += [f"the session of order {known[each].number} is lost" for each in known.keys() - rows.keys()]
        happened: dict[str, list[effects.Effect]] = {}
        for effect in effects.read(effects_path):
            if not effect.tool.startswith(
                "order.look"
            ):  # a lane's call: it is read_only, and may be repeated
                happened.setdefault(effect.warrant, []).append(effect)
        for session in known.keys() & rows.keys():
            wrong += judge(known[session], rows[session], happened.pop(session, []))
            report = await replay(journal, session, tenant=TENANT)
            if report.difference is not None:
                wrong.append(f"session {session} does not replay: {report.difference}")
        wrong += [f"effects of an unknown session {each}" for each in happened]
    wrong += await look_at_workflows(machine)
    check = [sys.executable, "-m", "tercet", "journal", "check", "--journal", machine.postgres.url]
    done = await asyncio.to_thread(subprocess.run, check, capture_output=True, text=True, check=False)
    if done.returncode:
        wrong.append(f"journal check: {done.stdout}{done.stderr}")
    return wrong


def judge(order: Order, row: SessionRow, happened: Sequence[effects.Effect]) -> list[str]:
    """Return what is wrong with one session."""
    fate, wrong = FATES[order.fate], list[str]()
    named = f"order {order.number} ({order.fate}, {order.session})"
    if row.status != fate.status:
        wrong.append(f"{named} is {row.status}, and not {fate.status}")
    found = Counter(each.step for each in happened)
    if found != fate.happened:
        wrong.append(f"{named} had the effects {dict(found)}, and not {dict(fate.happened)}")
    if made := {each.tool.partition("@")[2] for each in happened} - {row.pack.partition("@")[2]}:
        wrong.append(f"{named} is pinned to {row.pack}, and met the code of {', '.join(sorted(made))}")
    return wrong


async def look_at_workflows(machine: Machine) -> list[str]:
    """Return the workflows that still run once Temporal's lists had time to catch up."""
    client = await client_of(machine.temporal)
    found: list[str] = []
    for _ in range(60):
        found = [each.id async for each in client.list_workflows('ExecutionStatus = "Running"')]
        if not found:
            return []
        await asyncio.sleep(1)
    return [f"workflow {each} still runs" for each in found]


# --- one round ---


@dataclass(frozen=True, kw_only=True)
class Round:
    """What a round did and found."""

    campaign: Campaign
    wrong: list[str]
    pinned: Counter[str]
    seconds: float

    def show(self, console: Console) -> None:
        """Print the tables."""
        orders, machine = self.campaign.orders, self.campaign.machine
        table = Table("fate", "sessions", "ended as", "median s", "longest s")
        for name, fate in FATES.items():
            its = sorted(each.seconds for each in orders if each.fate == name)
            if its:
                table.add_row(name, str(len(its)), fate.status, f"{its[len(its) // 2]:.1f}", f"{its[-1]:.1f}")
        console.print(table)
        kills = ", ".join(f"{name} {count}" for name, count in sorted(machine.kills.items()))
        console.print(f"{sum(machine.kills.values())} kills: {kills}")
        console.print(f"pinned: {dict(sorted(self.pinned.items()))}")
        console.print(f"calls sent again: {dict(self.campaign.retried.most_common())}")
        console.print(f"starts refused while something was down: {dict(machine.refused)}")
        for line in self.wrong:
            console.print(f"VIOLATION: {line}", style="red", highlight=False)
        console.print(f"{len(self.wrong)} violations, {len(orders)} sessions, {self.seconds:.0f} s")


def draw_orders(draw: random.Random, sessions: int) -> list[Order]:
    """Return so many orders, at least one of each fate."""
    names = list(FATES)
    fates = draw.choices(names, [FATES[name].weight for name in names], k=max(0, sessions - len(names)))
    return [Order(number=number, fate=fate) for number, fate in enumerate((*names, *fates), start=1)]


async def run_round(folder: Path, *, sessions: int, seed: int, minutes: float) -> Round:
    """Run one round in a folder."""
    draw, began = random.Random(seed), time.monotonic()  # noqa: S311 - instants, not secrets
    orders = draw_orders(draw, sessions)
    effects_path = folder / "effects.db"
    os.environ[effects.VARIABLE] = str(effects_path)  # inherited by the workers
    effects.create(effects_path)
    async with open_machine(folder, ("worker1", "worker2"), (OLD,)) as machine:
        async with open_journal(machine.postgres.url) as journal:
            keys = ApiKeys(journal)

            async def key(actor: Any) -> str:
                wanted = NewKey(
                    tenant=TENANT, actor=actor.id, roles=actor.roles, scopes=SCOPES, by="campaign"
                )
                return (await keys.create(wanted, SystemClock().now()))[1]

            owner, lead = await key(AGENT), await key(LEAD)
        async with AsyncClient(machine.url, owner) as first, AsyncClient(machine.url, lead) as second:
            campaign = Campaign(machine=machine, orders=orders, draw=draw, owner=first, lead=second)
            wrong = await campaign.run(minutes)
            wrong += await look(campaign, effects_path)
        async with open_journal(machine.postgres.url) as journal:
            rows = await journal.sessions(TENANT, limit=LISTED)
        pinned = Counter(row.pack for row in rows if row.intent == SELL.intent)
        wrong += [
            f"no session was pinned to {each}: the upgrade met none"
            for each in (make_pack(OLD).ref, make_pack(NEW).ref)
            if not pinned[each]
        ]
        wrong += [f"{each} was never killed" for each in machine.names if not machine.kills[each]]
        return Round(campaign=campaign, wrong=wrong, pinned=pinned, seconds=time.monotonic() - began)


def main() -> int:
    """Run one round, print what it found, and say whether every promise was kept."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=25, help="how long faults may go on")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, _end)  # ended by a signal, it still stops what it has started
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(f"seed {given.seed}, {given.sessions} sessions")
    with tempfile.TemporaryDirectory(prefix="tercet-faults-", ignore_cleanup_errors=True) as folder:
        try:
            found = asyncio.run(
                run_round(Path(folder), sessions=given.sessions, seed=given.seed, minutes=given.minutes)
            )
        except TercetError as error:
            console.print(f"the campaign could not run: {error}")
            return 1
        found.show(console)
    return 1 if found.wrong else 0


def _end(number: int, _: object) -> None:
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
