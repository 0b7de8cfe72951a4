"""Sessions: paused, cancelled, extended, resumed and rehearsed, from this process and from others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tercet.contracts.errors import UsageError
from tercet.contracts.gate import Gate
from tercet.contracts.plan import Plan
from tercet.contracts.request import InvokeRequest
from tercet.core import events as e
from tercet.core.config import RunConfig
from tercet.journal.protocol import Journal
from tercet.packs.pack import Pack
from tercet.runtime import RunResult, Runtime
from tercet.tools import ToolContext

from .test_limits import failing, taking
from .test_runs import Script
from .workshop import ADA, ASK, BOB, Death, Workshop, events, names, plan, step

BOSS = Gate(name="BOSS", roles=("boss",))
ROW = plan(step("a"), step("b", depends_on=("a",)), step("c", depends_on=("b",)))


@asynccontextmanager
async def pair(
    workshop: Workshop, pack: Pack, file: str, **more: Any
) -> AsyncGenerator[tuple[Runtime, Runtime], None]:
    """Two runtimes with a journal of their own each, on one file, as two processes have it."""
    async with (
        workshop.journal(file) as first,
        workshop.journal(file) as second,
        workshop.runtime(pack, first, **more) as one,
        workshop.runtime(pack, second, **more) as two,
    ):
        yield one, two


async def session_under_way(workshop: Workshop, runtime: Runtime) -> str:
    """The session that somebody has just begun."""
    await workshop.clock.sleep(100)
    [row] = await runtime.sessions(limit=1)
    return row.session_id


@pytest.mark.req("R248")
def test_a_session_is_there_before_anybody_works_for_it(workshop: Workshop, url: str) -> None:
    """When the planner is asked, the row with its pins and its owner is durable already."""
    workshop.tool("do.it")
    seen: list[tuple[str, str]] = []

    class Looking(Script):
        """A planner that looks into the journal first."""

        journal: Journal

        async def propose(self, config: RunConfig, feedback: tuple[str, ...]) -> Plan:
            [row] = await self.journal.sessions("default")
            seen.append((row.owner, row.pack_hash))
            assert (config.ctx.tenant, config.ctx.actor.id) == ("default", "ada")
            return await super().propose(config, feedback)

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(workshop.pack(), journal) as runtime:
            planner = Looking(ROW)
            planner.journal = journal
            assert (await runtime.run(ASK, planner=planner, actor=ADA)).status == "completed"

    workshop.run(main())
    assert seen == [("ada", workshop.pack().hash)]


@pytest.mark.req("R248")
@pytest.mark.parametrize("by", ["template", "caller"])
def test_no_tool_is_asked_before_the_session_is_durable(workshop: Workshop, url: str, by: str) -> None:
    """A template is planned once the row is there; a caller's plan comes with the row, before any tool is called."""
    asking = step(
        "a", requires_evidence=("order",), evidence_queries=({"classification": "order", "tool": "shop.order", "params": {}},)
    )  # fmt: skip
    appended: list[list[str]] = []
    appends_at_calls: list[int] = []

    async def count(*_: Any) -> dict[str, int]:
        appends_at_calls.append(len(appended))
        return {"n": 1}

    workshop.tool("do.it", count)
    workshop.tool("shop.order", count, attests=("order",), mode="read_only")
    pack = workshop.pack(templates=(plan(asking),), decision={"untrusted_evidence": ("order",)})

    async def main() -> None:
        async with workshop.journal(url) as journal:

            async def note(point: str) -> None:
                if point == "after_append":
                    [row] = await journal.sessions("default")
                    appended.append(names(await events(journal, row.session_id)))

            async with workshop.runtime(pack, journal, crash=note) as runtime:
                await runtime.run(ASK, plan=plan(step("a")) if by == "caller" else None, actor=ADA)

    workshop.run(main())
    assert appended[0][:2] == ["session_started", "plan_proposed"][: 1 if by == "template" else 2]
    assert (len(appended[0]) == 1) is (by == "template")
    assert len(appends_at_calls) == (2 if by == "template" else 1)
    assert all(appends_at_calls)


# --- pause ---


@pytest.mark.req("R159", "R262")
@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_a_pause_waits_for_the_call_and_loses_nothing(workshop: Workshop, file: str, where: str) -> None:
    """The call under way ends, nothing more begins, and a process of another day goes on with the next step."""
    workshop.tool("do.it", taking(3_000))
    pack = workshop.pack()

    async def main() -> None:
        async with pair(workshop, pack, file) as (one, two):
            running = asyncio.ensure_future(one.run(ASK, plan=ROW, actor=ADA))
            session = await session_under_way(workshop, two)
            speaker = one if where == "here" else two
            said = await speaker.pause(session, actor=BOB, note="look at this")
            result = await running
            assert (result.status, result.reason) == ("paused", "paused by bob: look at this")
            assert said.status == "paused"
            assert workshop.calls == [("a", 1)]
        async with workshop.journal(file) as journal, workshop.runtime(pack, journal) as runtime:
            assert (await runtime.resume(session)).status == "completed"
            found = await events(journal, session)
            assert sum(isinstance(event, e.SessionPaused) for event in found) == 1

    workshop.run(main())
    assert workshop.calls == [("a", 1), ("b", 1), ("c", 1)]


def test_what_does_not_run_cannot_be_paused(workshop: Workshop) -> None:
    """A session that waits, one that is paused and one that is over are each told apart."""
    workshop.tool("do.it")
    workshop.tool("wipe.it", mode="destructive", gates=("BOSS",), authority=(), no_compensation="gone")

    async def main() -> None:
        async with workshop.runtime(workshop.pack(gates=(BOSS,))) as runtime:
            waiting = (await runtime.run(ASK, plan=plan(step("w", "wipe.it")), actor=ADA)).session_id
            over = (await runtime.run(ASK, plan=plan(step("a")), actor=ADA)).session_id
            for session, code in ((waiting, "not_running"), (over, "session_over"), ("x", "unknown_session")):
                with pytest.raises(UsageError) as caught:
                    await runtime.pause(session, actor=BOB)
                assert caught.value.code == code

    workshop.run(main())


# --- cancel ---


@pytest.mark.parametrize(
    "state", ["in_progress here", "in_progress elsewhere", "dead", "awaiting_gate", "paused"]
)
def test_a_session_can_be_cancelled_in_every_state(workshop: Workshop, file: str, state: str) -> None:
    """Whatever it does, a cancelled session begins nothing more and ends cancelled, with the name of who did it."""
    workshop.tool("do.it", taking(3_000), idempotent=True, no_compensation="it stays")
    workshop.tool("wipe.it", mode="destructive", gates=("BOSS",), authority=(), no_compensation="gone")
    pack = workshop.pack(gates=(BOSS,))
    waits = plan(step("w", "wipe.it"), step("b", depends_on=("w",)))

    async def die(death: Death, journal: Journal) -> None:
        async with workshop.runtime(pack, journal, crash=death) as dying:
            await dying.run(ASK, plan=ROW, actor=ADA)

    async def bring_about(one: Runtime) -> asyncio.Future[RunResult]:
        """The state that is to be tried."""
        if state == "dead":
            death = Death("before_call")
            async with workshop.journal(file) as journal:
                assert await death.of(die(death, journal)) is None
            await workshop.clock.sleep(20_000)
            return asyncio.get_running_loop().create_future()
        running = asyncio.ensure_future(
            one.run(ASK, plan=waits if state == "awaiting_gate" else ROW, actor=ADA)
        )
        await workshop.clock.sleep(100)
        if state == "paused":
            await one.pause(await session_under_way(workshop, one), actor=BOB)
        return running

    async def main() -> None:
        async with pair(workshop, pack, file) as (one, two):
            running = await bring_about(one)
            session = await session_under_way(workshop, two)
            speaker = one if state == "in_progress here" else two
            await speaker.cancel(session, actor=BOB, note="not any more")
            result = await running if state.startswith("in_progress") else await two.resume(session)
            if result.gate is not None:  # whether a call that its process left behind happened is asked first
                assert result.gate.kind == "reconcile"
                await two.settle(result.gate.id, happened=False, actor=BOB)
                result = await two.resume(session)
            assert (result.status, result.reason) == ("cancelled", "bob cancelled it: not any more")
            with pytest.raises(UsageError) as caught:
                await two.cancel(session, actor=BOB)
            assert caught.value.code == "session_over"

    workshop.run(main())
    assert "b" not in {name for name, _ in workshop.calls}


def test_a_second_cancellation_is_told_that_it_is_ending(workshop: Workshop) -> None:
    """Between the cancellation and the end, another one changes nothing, and says what brings it to its end."""
    workshop.tool("wipe.it", mode="destructive", gates=("BOSS",), authority=(), no_compensation="gone")

    async def main() -> None:
        async with workshop.runtime(workshop.pack(gates=(BOSS,))) as runtime:
            result = await runtime.run(ASK, plan=plan(step("w", "wipe.it")), actor=ADA)
            await runtime.cancel(result.session_id, actor=ADA)
            with pytest.raises(UsageError) as caught:
                await runtime.cancel(result.session_id, actor=BOB)
            assert caught.value.code == "session_ending"
            assert result.gate is not None
            with pytest.raises(UsageError) as caught:
                await runtime.approve(result.gate.id, actor=BOB)
            assert caught.value.code == "session_ending"
            assert (await runtime.resume(result.session_id)).status == "cancelled"

    workshop.run(main())
    assert workshop.calls == []


# --- budgets ---


@pytest.mark.req("R159", "R254", "R255", "R260", "R328")
@pytest.mark.parametrize("how", ["resume", "gate"])
def test_an_extension_goes_on_exactly_where_it_stood(workshop: Workshop, file: str, how: str) -> None:
    """A run that is short of calls is handed over; extended, another process makes exactly the calls that were left."""
    workshop.tool("do.it", failing(2), no_compensation="it stays")
    pack = workshop.pack(budget={"tool_calls": 3, "max_step_retries": 5})

    async def main() -> None:
        async with workshop.journal(file) as journal, workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=ROW, actor=ADA)
            assert (result.status, result.steps_done) == ("paused", 1)
            assert result.gate is not None
            before = (await runtime.state(result.session_id)).used
            assert before.tool_calls == 3
        async with workshop.journal(file) as journal, workshop.runtime(pack, journal) as runtime:
            session = result.session_id
            for wrong in (
                {"tokens": -5},
                {"tool_calls": 0},
                {"days": 3},
                {},
                {"tokens": 1.5},
                {"tokens": True},
            ):
                with pytest.raises(UsageError) as caught:
                    await runtime.extend(session, wrong, actor=BOB)  # type: ignore[arg-type]
                assert caught.value.code == "wrong_extension"
            assert (await runtime.state(session)).used == before
            if how == "gate":
                await runtime.decide(result.gate.id, "extend", value={"tool_calls": 2}, actor=BOB)
                result = await runtime.resume(session)
            else:
                result = await runtime.resume(session, extend={"tool_calls": 2}, actor=BOB)
            state = await runtime.state(session)
            assert (result.status, state.used.tool_calls, state.extended) == (
                "completed", 5, {"tool_calls": 2}
            )  # fmt: skip

    workshop.run(main())
    assert [name for name, _ in workshop.calls] == ["a", "a", "a", "b", "c"]


@pytest.mark.req("R159", "R254", "R255")
def test_budgets_are_restored_to_the_unit(workshop: Workshop, file: str) -> None:
    """What a process that died had used is used for the next one; the time in between costs nothing."""
    workshop.tool("do.it", taking(1_000), idempotent=True, cost_microcents=7, no_compensation="it stays")
    pack = workshop.pack(
        budget={"tool_calls": 4, "cost_microcents": 28, "tokens": 60, "wall_clock_ms": 20_000}
    )
    course = plan(
        step("a", estimated_tokens=20),
        step("b", depends_on=("a",), estimated_tokens=20),
        step("c", depends_on=("b",), estimated_tokens=20),
    )
    death = Death("before_call", 2)

    async def main() -> None:
        async with workshop.journal(file) as journal:

            async def life() -> None:
                async with workshop.runtime(pack, journal, crash=death) as runtime:
                    await runtime.run(ASK, plan=course, actor=ADA)

            assert await death.of(life()) is None
        await workshop.clock.sleep(10**7)
        async with workshop.journal(file) as journal, workshop.runtime(pack, journal) as runtime:
            [row] = await runtime.sessions()
            result = await runtime.resume(row.session_id)
            used = (await runtime.state(row.session_id)).used
            assert result.status == "completed"
            # The call that the dead process was about to make counts as made.
            assert (used.tool_calls, used.tokens, used.cost, used.wall_clock) == (4, 60, 21, 3_000)

    workshop.run(main())


@pytest.mark.req("R113", "R159", "R260")
def test_a_run_that_is_out_of_time_waits_for_more(workshop: Workshop, file: str) -> None:
    """A tool that hangs uses up the wall clock and ends at a person; with more time the same step is tried again."""
    patience = [taking(10_000), taking(1_000)]

    async def behave(context: ToolContext, params: dict[str, Any]) -> Any:
        return await patience.pop(0)(context, params)

    workshop.tool("read.it", behave, mode="read_only")
    pack = workshop.pack(budget={"wall_clock_ms": 3_000})

    async def main() -> None:
        async with workshop.journal(file) as journal, workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=plan(step("r", "read.it")), actor=ADA)
            assert result.status == "paused"
            assert result.gate is not None
            assert result.gate.kind == "escalation"
            await workshop.clock.sleep(50_000)
            result = await runtime.resume(result.session_id, extend={"wall_clock_ms": 5_000}, actor=BOB)
            assert result.status == "completed"
            assert (await runtime.state(result.session_id)).used.wall_clock == 4_000

    workshop.run(main())
    assert [name for name, _ in workshop.calls] == ["r", "r"]


# --- rehearsal, time to live, roles ---


def test_a_rehearsal_calls_nothing(workshop: Workshop, url: str) -> None:
    """With shadow the plan is proposed and reviewed, and the session is over without a single call or gate."""
    workshop.tool("do.it")
    workshop.tool("wipe.it", mode="destructive", gates=("BOSS",), authority=(), no_compensation="gone")
    pack = workshop.pack(gates=(BOSS,))

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            good = await runtime.run(ASK, plan=plan(step("a"), step("w", "wipe.it")), actor=ADA, shadow=True)
            assert good.verdict is not None
            assert (good.status, good.verdict.outcome, good.gate) == ("completed", "ok", None)
            record = await runtime.record(good.session_id)
            assert (record.report.status, record.transcript) == ("partial", ())
            bad = await runtime.run(ASK, plan=plan(step("a", "no.such")), actor=ADA, shadow=True)
            assert bad.verdict is not None
            assert (bad.status, bad.verdict.code) == ("failed", "tool_not_surfaced")
            assert "INTENT" not in names(await events(journal, good.session_id))

    workshop.run(main())
    assert workshop.calls == []


@pytest.mark.req("R259")
def test_a_run_expires_in_the_middle_of_a_call(workshop: Workshop, url: str) -> None:
    """A session whose time ends while it works begins nothing more, and ends expired once the call has ended."""
    workshop.tool("do.it", taking(4_000), no_compensation="it stays")

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(workshop.pack(), journal) as runtime:
            result = await runtime.run(ASK, plan=ROW, actor=ADA, ttl_ms=6_000)
            assert (result.status, result.reason) == ("expired", "Session expired")

    workshop.run(main())
    assert [name for name, _ in workshop.calls] == ["a", "b"]


def test_a_planner_that_is_not_there_is_named(workshop: Workshop, url: str) -> None:
    """A session that must be planned anew by a planner that nobody has brought pauses, and goes on with that planner."""
    workshop.tool("do.it")
    workshop.tool("break.it", failing(9), no_compensation="none")
    workshop.tool("wipe.it", mode="destructive", gates=("BOSS",), authority=(), no_compensation="gone")
    pack = workshop.pack(gates=(BOSS,), budget={"max_step_retries": 0})
    planner = Script(plan(step("w", "wipe.it"), step("x", "break.it", depends_on=("w",))), plan(step("a")))

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, planner=planner, actor=ADA)
            assert result.gate is not None
            await runtime.approve(result.gate.id, actor=BOB)
            result = await runtime.resume(result.session_id)
            assert result.status == "paused"
            assert "script" in result.reason
            with pytest.raises(UsageError) as caught:
                await runtime.resume(result.session_id)
            assert caught.value.code == "planner_missing"
            assert (await runtime.resume(result.session_id, planner=planner)).status == "completed"

    workshop.run(main())


@pytest.mark.req("R131")
def test_each_role_has_its_own_time(workshop: Workshop) -> None:
    """A planner that thinks too long fails the planning; a call is cut off at the executor's limit, not its tool's."""

    class Slow(Script):
        """A planner that takes its time."""

        async def propose(self, config: RunConfig, feedback: tuple[str, ...]) -> Plan:
            await workshop.clock.sleep(5_000)
            return await super().propose(config, feedback)

    deadlines: list[float] = []

    async def note_deadline(context: ToolContext, params: dict[str, Any]) -> Any:
        assert context.deadline is not None
        deadlines.append(context.deadline.timestamp() * 1_000 - workshop.clock.now())
        return params

    workshop.tool("do.it", note_deadline, timeout_ms=60_000)
    workshop.tool("hang.it", taking(50_000), timeout_ms=60_000, mode="read_only")
    limits = {"planner": {"timeout_ms": 4_000}, "executor": {"timeout_ms": 2_000}}
    pack = workshop.pack(limits=limits, budget={"max_step_retries": 0})

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, planner=Slow(ROW), actor=ADA)
            assert result.status == "failed"
            assert "took longer than 4,000 ms" in result.reason
            began = workshop.clock.now()
            result = await runtime.run(ASK, plan=plan(step("a"), step("h", "hang.it")), actor=ADA)
            assert result.status == "paused"
            assert "within 2,000 ms" in result.reason
            assert workshop.clock.now() - began < 50_000

    workshop.run(main())
    assert deadlines == [2_000]


@pytest.mark.req("R131", "R221", "R260")
def test_the_executor_has_tokens_of_its_own(workshop: Workshop) -> None:
    """Steps use no more than the executor may, though the run has more; an operator may add to it."""
    workshop.tool("do.it")
    pack = workshop.pack(limits={"executor": {"tokens": 150}}, budget={"tokens": 1_000})
    both = plan(step("a", estimated_tokens=100), step("b", depends_on=("a",), estimated_tokens=100))

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=both, actor=ADA)
            assert result.status == "paused"
            assert "100 tokens of the executor are needed, 50 are left" in result.reason
            assert workshop.calls == [("a", 1)]
            result = await runtime.resume(result.session_id, extend={"tokens": 50}, actor=BOB)
            assert result.status == "completed"

    workshop.run(main())
    assert workshop.calls == [("a", 1), ("b", 1)]


@pytest.mark.req("R262")
def test_resuming_what_is_being_carried_is_refused_here_and_waits_elsewhere(
    workshop: Workshop, file: str
) -> None:
    """One session is carried by one process: here the second caller is told, elsewhere it gets the same result."""
    workshop.tool("do.it", taking(3_000))

    async def main() -> None:
        async with pair(workshop, workshop.pack(), file) as (one, two):
            running = asyncio.ensure_future(one.run(ASK, plan=ROW, actor=ADA))
            session = await session_under_way(workshop, two)
            with pytest.raises(UsageError) as caught:
                await one.resume(session)
            assert caught.value.code == "session_busy"
            waited = await two.resume(session)
            assert waited == await running
            assert waited.status == "completed"

    workshop.run(main())
    assert len(workshop.calls) == 3


@pytest.mark.req("R56", "R247")
def test_an_envelope_starts_a_session_that_may_live_as_long_as_it_says(workshop: Workshop) -> None:
    """A long-running one must be meant to; one for another tenant is not ours."""
    workshop.tool("do.it", idempotent=True)

    async def main() -> None:
        async with workshop.runtime(workshop.pack()) as runtime:

            def envelope(ms: int, tenant: str = "default", mode: str = "long_running") -> InvokeRequest:
                fields = {"request": ASK, "tenant": tenant, "actor": ADA, "mode": mode}
                return InvokeRequest.model_validate({**fields, "runtime": {"max_session_duration_ms": ms}})

            for code, wrong in (
                ("too_short", envelope(3_599_999)),
                ("wrong_tenant", envelope(3_600_000, "other")),
            ):
                with pytest.raises(UsageError) as caught:
                    await runtime.invoke(wrong, plan=plan(step("a")))
                assert caught.value.code == code
            assert await runtime.sessions() == []
            for told in (envelope(3_600_000), envelope(5, mode="inline")):
                began = workshop.clock.now()
                result = await runtime.invoke(told, plan=plan(step("a")))
                start = (await runtime.state(result.session_id)).start
                assert start.expires - began == told.runtime.max_session_duration_ms
                assert start.actor["id"] == ADA.id

    workshop.run(main())


@pytest.mark.parametrize("ttl_ms", [0, -1])
def test_a_session_must_live_for_a_while(ttl_ms: int) -> None:
    """A time to live that is none is wrong use, and starts nothing."""
    workshop = Workshop()
    workshop.tool("do.it")

    async def main() -> None:
        async with workshop.runtime(workshop.pack()) as runtime:
            with pytest.raises(UsageError) as caught:
                await runtime.run(ASK, plan=plan(step("a")), ttl_ms=ttl_ms)
            assert caught.value.code == "wrong_ttl"
            assert await runtime.sessions() == []

    workshop.run(main())
