"""Time that nobody spends, clocks that disagree, and two who want the same session at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any

from tercet.contracts.errors import UsageError
from tercet.contracts.plan import Plan
from tercet.core import codec
from tercet.core import events as e
from tercet.core.config import RunConfig
from tercet.engine.leases import LEASE_MS
from tercet.executor.clock import Clock
from tercet.journal.errors import LeaseLost
from tercet.journal.protocol import Append, Journal, Lease, Position
from tercet.runtime import RunResult, Runtime
from tercet.tools import ToolContext

from .faults import WRITES, Through
from .workshop import ADA, ASK, BOB, Workshop, plan, step

HOUR_MS = 3_600_000
MINUTE = {"wall_clock_ms": 60_000}
BOTH = plan(step("a", "net.it"), step("b", "net.it"))


def networked(workshop: Workshop) -> None:
    """A tool that nobody calls without a person's word."""
    workshop.tool("net.it", mode="network", authority=(), no_compensation="it only tells")


def slow(workshop: Workshop, ms: int, effects: list[str]) -> None:
    """An idempotent tool whose effect comes at the end of its time."""

    async def behave(context: ToolContext, params: dict[str, Any]) -> Any:
        await workshop.clock.sleep(ms)
        effects.append(context.step_id)
        return params

    workshop.tool("do.it", behave, idempotent=True)


async def killed(workshop: Workshop, runtime: Runtime, proposed: Plan) -> str:
    """Begin a run and kill it a moment later; its session."""
    running = asyncio.ensure_future(runtime.run(ASK, plan=proposed, actor=ADA))
    await workshop.clock.sleep(10)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    [row] = await runtime.sessions()
    return row.session_id


async def ending(running: Awaitable[RunResult]) -> str:
    """The status that something comes to, or the code of its refusal."""
    try:
        return (await running).status
    except UsageError as error:
        return error.code


class Thoughtful:
    """A planner that takes a while."""

    name = "thoughtful"

    def __init__(self, workshop: Workshop) -> None:
        self._clock = workshop.clock

    async def propose(self, config: RunConfig, feedback: tuple[str, ...]) -> Plan:
        """A plan of one step, after some time."""
        await self._clock.sleep(100)
        return plan(step("a"))


class Ahead:
    """The clock of a machine that is ahead of the others."""

    def __init__(self, clock: Clock, ms: int) -> None:
        self._clock = clock
        self._ms = ms

    def now(self) -> int:
        """The time there."""
        return self._clock.now() + self._ms

    def monotonic(self) -> int:
        """The time that has passed, which is the same everywhere."""
        return self._clock.monotonic()

    async def sleep(self, ms: int) -> None:
        """Wait."""
        await self._clock.sleep(ms)


async def test_two_answers_an_hour_apart_cost_no_wall_clock(workshop: Workshop, url: str) -> None:
    """Between the answer to one gate and the answer to the next nobody has the session, so nothing is spent."""
    networked(workshop)

    async with (
        workshop.journal(url) as journal,
        workshop.runtime(workshop.pack(budget=MINUTE), journal) as runtime,
    ):
        session = (await runtime.run(ASK, plan=BOTH, actor=ADA)).session_id
        first, second = (await runtime.state(session)).gates
        await runtime.approve(first, actor=BOB)
        workshop.clock.advance(HOUR_MS)
        await runtime.approve(second, actor=BOB)
        workshop.clock.advance(HOUR_MS)
        assert (await runtime.resume(session)).status == "completed"
        assert (await runtime.state(session)).used.wall_clock == 0


async def test_the_hour_after_a_crash_costs_no_wall_clock(workshop: Workshop, url: str) -> None:
    """An answer that comes long after the process has died does not charge the time in between."""
    effects: list[str] = []
    slow(workshop, 5_000, effects)
    networked(workshop)
    mixed = plan(step("a"), step("b", "net.it"))

    async with (
        workshop.journal(url) as journal,
        workshop.runtime(workshop.pack(budget=MINUTE), journal) as runtime,
    ):
        session = await killed(workshop, runtime, mixed)
        workshop.clock.advance(HOUR_MS)
        [gate] = (await runtime.state(session)).gates
        await runtime.approve(gate, actor=BOB)
        workshop.clock.advance(HOUR_MS)
        assert (await runtime.resume(session)).status == "completed"
        assert (await runtime.state(session)).used.wall_clock == 5_000
    assert effects == ["a"]


async def test_pauses_are_no_iterations(workshop: Workshop) -> None:
    """A run that is paused at every step goes through as many phases as one that is left alone."""
    slow(workshop, 100, [])
    chain = plan(*(step(f"s{n}", depends_on=(f"s{n - 1}",) if n else ()) for n in range(8)))

    async with workshop.runtime(workshop.pack(budget={"max_iterations": 8})) as runtime:
        alone = await runtime.run(ASK, plan=chain, actor=ADA)
        running = asyncio.ensure_future(runtime.run(ASK, plan=chain, actor=ADA))
        pauses = 0
        while True:
            await workshop.clock.sleep(50)
            runtime.stop()
            result = await running
            if result.status != "paused":
                break
            pauses += 1
            running = asyncio.ensure_future(runtime.resume(result.session_id))
        assert (alone.status, result.status, pauses >= 6) == ("completed", "completed", True)
        undisturbed = await runtime.state(alone.session_id)
        assert (await runtime.state(result.session_id)).iterations == undisturbed.iterations


async def test_a_clock_that_is_ahead_withholds_no_call_for_ever(workshop: Workshop, url: str) -> None:
    """What a machine with a fast clock has written is carried on by one with the right time, under a lease of its own."""
    workshop.tool("do.it")
    pack = workshop.pack(budget={"max_step_retries": 0})

    async with workshop.journal(url) as journal:
        planner = Thoughtful(workshop)
        async with workshop.runtime(pack, journal, clock=Ahead(workshop.clock, 60_000)) as runtime:
            running = asyncio.ensure_future(runtime.run(ASK, planner=planner, actor=ADA))
            await workshop.clock.sleep(10)
            runtime.stop()
            result = await running
            assert (result.status, workshop.calls) == ("paused", [])
        async with workshop.runtime(pack, journal) as runtime:
            assert workshop.clock.now() < (await runtime.state(result.session_id)).at
            result = await runtime.resume(result.session_id, planner=planner)
            assert result.status == "completed"
    assert workshop.calls == [("a", 1)]


async def test_two_resumes_at_once_carry_a_session_once(workshop: Workshop, url: str) -> None:
    """One has the session; the other is told so or waits for its end, and the effect happens once."""
    effects: list[str] = []
    slow(workshop, 3_000, effects)

    async with workshop.journal(url) as journal, workshop.runtime(workshop.pack(), journal) as runtime:
        session = await killed(workshop, runtime, plan(step("a")))
        ends = await asyncio.gather(ending(runtime.resume(session)), ending(runtime.resume(session)))
        assert sorted(ends) in (["completed", "completed"], ["completed", "session_busy"])
        assert (await runtime.state(session)).status == "completed"
    assert (effects, workshop.calls) == (["a"], [("a", 1), ("a", 2)])


async def test_two_answers_and_a_resume_at_once_all_count(workshop: Workshop, url: str) -> None:
    """Whoever comes first, both approvals are taken, and each call is made once."""
    networked(workshop)

    async with workshop.journal(url) as journal, workshop.runtime(workshop.pack(), journal) as runtime:
        session = (await runtime.run(ASK, plan=BOTH, actor=ADA)).session_id
        first, second = (await runtime.state(session)).gates
        await asyncio.gather(
            runtime.resume(session),
            runtime.approve(first, actor=BOB),
            runtime.approve(second, actor=BOB),
        )
        answers = (await runtime.state(session)).answers
        assert sorted(answer.gate for answer in answers) == [first, second]
        assert (await runtime.resume(session)).status == "completed"
    assert sorted(workshop.calls) == [("a", 1), ("b", 1)]


class SlowStart(Through):
    """A journal whose first append takes a while; it keeps the names of what it was asked to write."""

    def __init__(self, journal: Journal, workshop: Workshop, ms: int) -> None:
        super().__init__(journal)
        self._clock = workshop.clock
        self._ms = ms
        self.writes: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name in WRITES:
            self.writes.append(name)
        return getattr(self.inner, name)

    async def append(self, unit: Append) -> Position:
        """Wait before the first one."""
        self.writes.append("append")
        if self.writes == ["append"]:
            await self._clock.sleep(self._ms)
        return await self.inner.append(unit)


async def test_the_first_append_of_a_session_acquires_its_lease(workshop: Workshop, url: str) -> None:
    """However long it takes, the lease is neither asked for before nor counted as lost meanwhile, and fences then."""
    effects: list[str] = []
    slow(workshop, 100, effects)

    async with workshop.journal(url) as journal:
        watched = SlowStart(journal, workshop, ms=60_000)
        async with workshop.runtime(workshop.pack(), watched.itself) as runtime:
            running = asyncio.ensure_future(runtime.run(ASK, plan=plan(step("a")), actor=ADA))
            await workshop.clock.sleep(50_000)
            assert (watched.writes, await runtime.sessions(), effects) == (["append"], [], [])
            await workshop.clock.sleep(10_050)
            [row] = await runtime.sessions()
            lease = await journal.lease(runtime.tenant, row.session_id)
            assert lease is not None
            assert (lease.epoch, lease.until > workshop.clock.now()) == (1, True)
            assert (await running).status == "completed"
    assert (effects, "acquire" in watched.writes) == (["a"], False)


async def test_a_call_is_not_made_once_another_process_has_the_lease(workshop: Workshop, url: str) -> None:
    """A process that was stopped between an INTENT and its call looks at its lease first: its time is over, and another
    process has it. The deadline of the call is still ahead."""
    workshop.tool("do.it", timeout_ms=HOUR_MS)
    taken: list[Lease] = []

    async with workshop.journal(url) as journal:

        async def freeze(point: str) -> None:
            if point != "after_append" or taken:
                return
            (row,) = await journal.sessions("default")
            found = [codec.decode(stored.data) for stored in await journal.read("default", row.session_id)]
            if any(isinstance(event, e.Intent) for event in found):
                workshop.clock.advance(LEASE_MS)
                now = workshop.clock.now()
                taken.append(
                    await journal.acquire(
                        "default", row.session_id, owner="other", now_ms=now, ttl_ms=LEASE_MS
                    )
                )

        async with workshop.runtime(workshop.pack(), journal, crash=freeze) as runtime:
            with suppress(LeaseLost):
                await runtime.run(ASK, plan=plan(step("a")), actor=ADA)
    assert taken
    assert workshop.calls == []
