"""Clocks that jump: every run ends as it would have, after the time it really takes, and every effect happens once."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, cast

import pytest

from tercet import Absent
from tercet.contracts.errors import NotDone
from tercet.core import events as e
from tercet.engine.leases import LeaseClient
from tercet.executor.breaker import Circuit, CircuitBreaker
from tercet.executor.clock import Clock
from tercet.journal.errors import LeaseHeld
from tercet.journal.protocol import Journal
from tercet.runtime import Runtime
from tercet.testing.clock import VirtualClock
from tercet.tools import ToolContext

from .workshop import ADA, ASK, BOB, Workshop, events, plan, step

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
LEASE_MS = 10_000
JUMPS = (-DAY_MS, -HOUR_MS, HOUR_MS, DAY_MS)


class JumpingClock(VirtualClock):
    """A clock whose wall time is set once, just before it is read for the nth time."""

    def __init__(self, nth: int, shift_ms: int) -> None:
        super().__init__()
        self.reads = 0
        self._nth = nth
        self._jump_ms = shift_ms

    def now(self) -> int:
        """Return the wall time."""
        self.reads += 1
        if self.reads == self._nth:
            self.shift_wall(self._jump_ms)
        return super().now()


class Shifted:
    """The clock of another machine: the same time passes, and its wall clock says something else."""

    def __init__(self, clock: Clock, ms: int) -> None:
        self._clock = clock
        self.ms = ms

    def now(self) -> int:
        """Return the wall time there."""
        return self._clock.now() + self.ms

    def monotonic(self) -> int:
        """Return the time that has passed."""
        return self._clock.monotonic()

    async def sleep(self, ms: int) -> None:
        """Wait."""
        await self._clock.sleep(ms)


def eventful(workshop: Workshop, effects: list[str]) -> None:
    """Tools that take their time, fail before they succeed, and answer too late to be known to have happened."""

    async def slow(context: ToolContext, params: dict[str, Any]) -> Any:
        await workshop.clock.sleep(25_000)
        effects.append(context.step_id)
        return params

    async def failing(context: ToolContext, params: dict[str, Any]) -> Any:
        if context.attempt < 3:
            raise NotDone("not yet", retry_after_ms=2_000)
        effects.append(context.step_id)
        return params

    async def late(context: ToolContext, params: dict[str, Any]) -> Any:
        if context.attempt == 1:
            await workshop.clock.sleep(60_000)
        effects.append(context.step_id)
        return params

    def look_up(_: ToolContext) -> Absent:
        return Absent()

    workshop.tool("slow.it", slow, idempotent=True, timeout_ms=40_000)
    workshop.tool("fail.it", failing)
    workshop.tool(
        "late.it", late, reconcile=look_up, reconciles=True, timeout_ms=3_000, settle_after_ms=4_000
    )


PLAN = plan(
    step("a", "fail.it"),
    step("b", "late.it", depends_on=("a",)),
    step("c", "slow.it", depends_on=("b",)),
)
BUDGET = {"wall_clock_ms": 120_000, "max_step_retries": 3}


async def run_once(workshop: Workshop, url: str) -> tuple[str, int, int, list[int]]:
    """A run from its beginning to its end: its status, how long it really took, the time it used, and when what happened."""
    async with (
        workshop.journal(url) as journal,
        workshop.runtime(workshop.pack(budget=BUDGET), journal) as runtime,
    ):
        began = workshop.clock.monotonic()
        result = await runtime.run(ASK, plan=PLAN, actor=ADA)
        took = workshop.clock.monotonic() - began
        state = await runtime.state(result.session_id)
        times = [event.at for event in await events(journal, result.session_id)]
        return result.status, took, state.used.wall_clock, times


def jumped(nth: int, shift_ms: int, url: str) -> tuple[tuple[str, int, int, list[str]], JumpingClock]:
    """The same run with a clock that jumps."""
    clock, effects = JumpingClock(nth, shift_ms), list[str]()
    workshop = Workshop(clock=clock)
    eventful(workshop, effects)
    status, took, used, times = workshop.run(run_once(workshop, url))
    assert times == sorted(times)
    return (status, took, used, effects), clock


def test_a_jump_at_any_moment_of_a_run_changes_nothing() -> None:
    """The clock is set back or ahead by an hour or a day, before each time that it is read."""
    calm, clock = jumped(0, 0, "memory:")
    assert calm[0] == "completed"
    assert calm[3] == ["a", "b", "c"]
    for nth in range(1, clock.reads + 1):
        for shift_ms in JUMPS:
            assert jumped(nth, shift_ms, "memory:")[0] == calm, (nth, shift_ms)


@pytest.mark.parametrize("shift_ms", JUMPS)
def test_a_jump_changes_nothing_on_a_durable_journal(shift_ms: int, tmp_path: Any) -> None:
    """The same on SQLite, at some of the moments."""
    calm, clock = jumped(0, 0, f"sqlite:///{tmp_path}/calm.db")
    for nth in range(2, clock.reads + 1, max(1, clock.reads // 4)):
        assert jumped(nth, shift_ms, f"sqlite:///{tmp_path}/{nth}.db")[0] == calm, nth


async def killed(workshop: Workshop, runtime: Runtime, after_ms: int) -> str:
    """Begin a run and kill it after a while; its session."""
    running = asyncio.ensure_future(runtime.run(ASK, plan=PLAN, actor=ADA))
    await workshop.clock.sleep(after_ms)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    [row] = await runtime.sessions()
    return row.session_id


class _Unreleased:
    """A journal of a process that dies: what it holds is not released."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def release(self, _: object) -> None:
        """Nothing is released."""


def unreleased(journal: Journal) -> Journal:
    """The journal of a process that dies."""
    return cast("Journal", _Unreleased(journal))


@pytest.mark.parametrize("shift_ms", JUMPS)
@pytest.mark.parametrize("after_ms", [1, 1_500, 6_000, 20_000])
async def test_a_session_is_resumed_after_the_clock_was_set(
    workshop: Workshop, url: str, shift_ms: int, after_ms: int
) -> None:
    """A process dies, the clock is set, and another one takes over: it waits for no longer than a lease and what was left
    of the delays, and every effect happens once."""
    effects: list[str] = []
    eventful(workshop, effects)
    pack = workshop.pack(budget=BUDGET)

    async with workshop.journal(url) as journal:
        async with workshop.runtime(pack, unreleased(journal), lease_ms=LEASE_MS) as runtime:
            session = await killed(workshop, runtime, after_ms)
        workshop.clock.shift_wall(shift_ms)
        async with workshop.runtime(pack, journal, lease_ms=LEASE_MS) as runtime:
            began = workshop.clock.monotonic()
            assert (await runtime.resume(session)).status == "completed"
            # A lease, the deadline of the slowest call, and the run itself.
            assert workshop.clock.monotonic() - began <= LEASE_MS + 40_000 + 60_000
            assert (await runtime.state(session)).used.wall_clock <= 120_000
        times = [event.at for event in await events(journal, session)]
        assert times == sorted(times)
    assert effects == ["a", "b", "c"]


@pytest.mark.parametrize("shift_ms", [-DAY_MS, -HOUR_MS, -60_000, 0, 60_000, HOUR_MS, DAY_MS])
async def test_a_living_process_keeps_its_session_whatever_another_clock_says(
    workshop: Workshop, url: str, shift_ms: int
) -> None:
    """A process whose clock is far ahead sees that the lease is renewed, and waits; both learn the same end."""
    effects: list[str] = []
    eventful(workshop, effects)
    pack = workshop.pack(budget=BUDGET)

    async with workshop.journal(url) as journal, workshop.journal(url) as theirs:
        # A journal in memory is the same one only where it is the same object.
        other = journal if url == "memory:" else theirs
        waits: list[dict[str, Any]] = []

        def hear(name: str, told: dict[str, Any]) -> None:
            if name == "lease_wait":
                waits.append(told)

        async with (
            workshop.runtime(pack, journal, lease_ms=LEASE_MS) as first,
            workshop.runtime(
                pack, other, clock=Shifted(workshop.clock, shift_ms), lease_ms=LEASE_MS, signal=hear
            ) as second,
        ):
            running = asyncio.ensure_future(first.run(ASK, plan=PLAN, actor=ADA))
            await workshop.clock.sleep(100)
            [row] = await second.sessions()
            resumed = asyncio.ensure_future(second.resume(row.session_id))
            result = await running
            ended = workshop.clock.monotonic()
            assert (await resumed).status == result.status == "completed"
            assert workshop.clock.monotonic() - ended <= 200
            assert waits
            assert all(0 < told["wait_ms"] <= LEASE_MS for told in waits)
        epochs = [
            event.epoch
            for event in await events(journal, row.session_id)
            if isinstance(event, e.SessionResumed)
        ]
        assert epochs == []
    assert effects == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("clock_ms", "waits"),
    [
        (-HOUR_MS, LEASE_MS),  # the lease seems to run for an hour: its whole length is watched
        (0, LEASE_MS),
        (
            LEASE_MS + 1,
            LEASE_MS // 2,
        ),  # it has ended by this clock: its holder would have renewed it meanwhile
        (HOUR_MS, LEASE_MS // 2),
    ],
)
async def test_a_lease_is_replaced_once_it_was_watched_for_long_enough(
    workshop: Workshop, url: str, clock_ms: int, waits: int
) -> None:
    """A lease that nobody renews keeps others out for its length at most, by their own monotonic clock."""

    async with workshop.journal(url) as journal:
        dead = LeaseClient(journal=journal, tenant="default", clock=workshop.clock, lease_ms=LEASE_MS)
        await dead.acquire("ses_1")
        clock = Shifted(workshop.clock, clock_ms)
        leases = LeaseClient(journal=journal, tenant="default", clock=clock, lease_ms=60_000)
        began = workshop.clock.monotonic()
        held_lease = await leases.wait_for("ses_1", lambda _: None)
        assert held_lease is not None
        assert held_lease.lease.epoch == 2
        assert waits <= workshop.clock.monotonic() - began <= waits + 100


async def test_a_lease_that_is_renewed_at_the_last_moment_is_not_replaced(
    workshop: Workshop, url: str
) -> None:
    """The journal hands a stream over only if its lease is still the one that was watched."""

    async with workshop.journal(url) as journal:
        holder = LeaseClient(journal=journal, tenant="default", clock=workshop.clock, lease_ms=LEASE_MS)
        other = LeaseClient(journal=journal, tenant="default", clock=workshop.clock, lease_ms=LEASE_MS)
        held_lease = await holder.acquire("ses_1")
        with pytest.raises(LeaseHeld):
            await other.acquire("ses_1")
        workshop.clock.advance(LEASE_MS)
        assert held_lease.has_ended
        workshop.clock.shift_wall(-HOUR_MS)  # its end is earlier than before, and still another one
        await held_lease.renew()
        assert not held_lease.has_ended
        with pytest.raises(LeaseHeld) as held:
            await other.acquire("ses_1")
        assert held.value.wait_ms == LEASE_MS


async def test_a_watchdog_finds_a_lost_session_although_the_clock_was_set_back(
    workshop: Workshop, url: str
) -> None:
    """Time without a sign of life is measured, and not read from the wall clock."""
    effects: list[str] = []
    eventful(workshop, effects)
    pack = workshop.pack(budget=BUDGET)

    async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as watching:
        async with workshop.runtime(pack, unreleased(journal)) as runtime:
            session = await killed(workshop, runtime, 1_500)
        workshop.clock.shift_wall(-HOUR_MS)
        workshop.clock.advance(90_000)
        assert (await watching.sweep()).paused == (session,)


def test_a_circuit_that_a_fast_clock_opened_does_not_stay_open() -> None:
    """An opening that lies far ahead by this clock counts for no longer than the time it was meant for."""
    opened = Circuit(failures=5, opened_at=HOUR_MS, at=HOUR_MS)
    cooldown = CircuitBreaker().cooldown_ms
    times = (0, HOUR_MS - cooldown + 1, HOUR_MS, HOUR_MS + cooldown)
    states = [opened.state(now, cooldown).value for now in times]
    assert states == ["HALF_OPEN", "OPEN", "OPEN", "HALF_OPEN"]


async def test_a_gate_is_answered_by_a_process_whose_clock_is_behind(workshop: Workshop, url: str) -> None:
    """The answer comes after the gate in the session's own time, and the run goes on at once."""
    workshop.tool("net.it", mode="network", authority=(), no_compensation="it only tells")
    pack = workshop.pack()

    async with workshop.journal(url) as journal:
        async with workshop.runtime(pack, journal, clock=Shifted(workshop.clock, HOUR_MS)) as runtime:
            session = (await runtime.run(ASK, plan=plan(step("a", "net.it")), actor=ADA)).session_id
        async with workshop.runtime(pack, journal) as runtime:
            began = workshop.clock.monotonic()
            [gate] = (await runtime.state(session)).gates
            await runtime.approve(gate, actor=BOB)
            assert (await runtime.resume(session)).status == "completed"
            assert workshop.clock.monotonic() == began
        times = [event.at for event in await events(journal, session)]
        assert times == sorted(times)
