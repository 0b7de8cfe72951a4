"""What bounds a run: retries, deadlines, four budgets, slots, the loop guard and the circuit breaker."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tercet.contracts.errors import NotDone
from tercet.contracts.plan import Step
from tercet.core import events as e
from tercet.core.state import Used
from tercet.executor.breaker import CircuitBreaker
from tercet.planner.schedule import schedule
from tercet.tools import ToolContext

from .workshop import ASK, Behave, Workshop, events, names, plan, step


def failing(times: int, error: Exception | None = None) -> Behave:
    """A tool that does not do it so many times, and then does."""
    left = [error or NotDone("not yet", code="later")] * times

    async def behave(_: ToolContext, params: dict[str, Any]) -> Any:
        if left:
            raise left.pop()
        return params

    return behave


def taking(ms: int) -> Behave:
    """A tool that takes its time."""

    async def behave(_: ToolContext, params: dict[str, Any]) -> Any:
        await asyncio.sleep(ms / 1000)
        return params

    return behave


@pytest.mark.req("R110", "R121", "R125", "R127", "R128", "R129")
async def test_a_retry_is_recorded_before_anybody_waits(workshop: Workshop, url: str) -> None:
    """Each attempt has its ABORT, its verdict and the time of the next one, doubled and with jitter, under one key."""
    workshop.tool("do.it", failing(3))
    seen: list[tuple[str, int]] = []

    async with workshop.journal(url) as journal:
        began = workshop.clock.now()

        def tell(_: Any, event: e.Event) -> None:
            if isinstance(event, e.RetryScheduled):
                seen.append((event.step, workshop.clock.now() - began))

        async with workshop.runtime(workshop.pack(), journal, tell=tell) as runtime:
            result = await runtime.run(ASK, plan=plan(step("a")))
            assert result.status == "completed"
            found = await events(journal, result.session_id)
            assert names(found)[5:18] == [
                *["INTENT", "ABORT", "step_judged", "retry_scheduled"] * 3,
                "INTENT",
            ]
            due = [event.not_before - event.at for event in found if isinstance(event, e.RetryScheduled)]
            assert due == [100 + 50, 200 + 50, 400 + 50]
            aborts = [event for event in found if isinstance(event, e.Abort)]
            assert {(event.outcome, event.code, event.error) for event in aborts} == {
                ("not_done", "later", "not yet")
            }
            assert workshop.clock.now() - began >= sum(due)
    assert workshop.calls == [("a", 1), ("a", 2), ("a", 3), ("a", 4)]
    assert len(set(workshop.keys)) == 1
    assert [at for _, at in seen] == [0, 150, 400]


@pytest.mark.req("R112")
@pytest.mark.parametrize(
    ("budget", "attempts"),
    [({}, 4), ({"max_step_retries": 1}, 2), ({"max_step_retries": 0}, 1), ({"max_retries": 2}, 3)],
    ids=["the usual three", "one a step", "none", "two a run"],
)
async def test_retries_are_bounded_by_step_and_by_run(
    workshop: Workshop, budget: dict[str, int], attempts: int
) -> None:
    """A step that never gets done is tried as often as both budgets allow."""
    workshop.tool("do.it", failing(100))

    async with workshop.runtime(workshop.pack(budget=budget)) as runtime:
        assert (await runtime.run(ASK, plan=plan(step("a")))).status == "paused"
    assert len(workshop.calls) == attempts


@pytest.mark.req("R112")
@pytest.mark.parametrize(("budget", "attempts"), [({}, 4), ({"max_retries": 1}, 2)])
async def test_running_an_unknown_outcome_again_is_a_retry(
    workshop: Workshop, budget: dict[str, int], attempts: int
) -> None:
    """An idempotent tool that keeps failing without a word is not called for ever: then a person is asked."""
    workshop.tool("do.it", failing(100, ConnectionError("lost")), idempotent=True)

    async with workshop.runtime(workshop.pack(budget=budget)) as runtime:
        result = await runtime.run(ASK, plan=plan(step("a")))
        assert (result.status, result.gate and result.gate.kind) == ("awaiting_gate", "reconcile")
    assert len(workshop.calls) == attempts
    assert len(set(workshop.keys)) == 1


@pytest.mark.req("R124")
async def test_what_is_not_retriable_is_not_retried(workshop: Workshop) -> None:
    """A refused call and a result against its schema are judged at once."""
    workshop.tool("do.it", failing(0), result={"type": "string"})

    async with workshop.runtime(workshop.pack()) as runtime:
        result = await runtime.run(ASK, plan=plan(step("a")))
        found = await events(runtime.journal, result.session_id)
        assert "retry_scheduled" not in names(found)
    assert workshop.calls == [("a", 1)]


@pytest.mark.req("R109", "R126")
async def test_a_timeout_is_the_tools_own(workshop: Workshop) -> None:
    """A call ends when its tool's time is up, and its latency is recorded; deadline and key went along."""
    given: list[ToolContext] = []

    async def hang(context: ToolContext, params: dict[str, Any]) -> Any:
        given.append(context)
        await asyncio.sleep(3600)

    workshop.tool("slow.read", hang, mode="read_only", timeout_ms=1_234)

    async with workshop.runtime(workshop.pack(budget={"max_retries": 0})) as runtime:
        result = await runtime.run(ASK, plan=plan(step("a", "slow.read")))
        found = await events(runtime.journal, result.session_id)
        [intent] = [event for event in found if isinstance(event, e.Intent)]
        [abort] = [event for event in found if isinstance(event, e.Abort)]
        assert (abort.outcome, abort.code, abort.latency) == ("not_done", "timeout", 1_234)
        assert intent.deadline == intent.at + 1_234
        assert given[0].deadline is not None
        assert given[0].deadline.timestamp() * 1000 == intent.deadline
        assert (given[0].idempotency_key, given[0].fencing_token) == (intent.key, intent.epoch)


@pytest.mark.req("R318")
async def test_the_wall_clock_of_a_run_ends_its_calls(workshop: Workshop) -> None:
    """A call gets what is left of the run's time, a retry that would come too late is refused, and the run escalates."""
    workshop.tool("do.it", taking(400))
    workshop.tool("hang.up", taking(10**6), mode="read_only", timeout_ms=60_000)

    pack = workshop.pack(budget={"wall_clock_ms": 1_000})
    async with workshop.runtime(pack) as runtime:
        began = workshop.clock.now()
        result = await runtime.run(
            ASK,
            plan=plan(step("a"), step("b", "hang.up", depends_on=("a",)), step("c", depends_on=("b",))),
        )
        assert result.status == "paused"
        assert "wall clock" in result.reason
        assert workshop.clock.now() - began == 1_000
        found = await events(runtime.journal, result.session_id)
        assert [event.deadline - began for event in found if isinstance(event, e.Intent)] == [
            1_000,
            1_000,
        ]
    assert workshop.calls == [("a", 1), ("b", 1)]


@pytest.mark.req("R318")
async def test_a_retry_beyond_the_wall_clock_is_not_waited_for(workshop: Workshop) -> None:
    """If the back-off alone would use up the run's time, nobody sits it out."""
    workshop.tool("do.it", failing(9))

    async with workshop.runtime(workshop.pack(budget={"wall_clock_ms": 200})) as runtime:
        began = workshop.clock.now()
        result = await runtime.run(ASK, plan=plan(step("a")))
        assert "0 are left" in result.reason
        assert workshop.clock.now() - began == 150
    assert workshop.calls == [("a", 1), ("a", 2)]


async def test_attempts_use_up_the_budget_of_calls(workshop: Workshop) -> None:
    """A plan that fitted the budget may not fit it any more after a retry: the call that is too much is not made."""
    workshop.tool("do.it", failing(1))

    async with workshop.runtime(workshop.pack(budget={"tool_calls": 2})) as runtime:
        result = await runtime.run(ASK, plan=plan(step("a"), step("b", depends_on=("a",))))
        assert (result.status, result.reason) == (
            "paused",
            "escalated: step b was not done and has no retries left: 1 tool call is needed, 0 are left",
        )
    assert workshop.calls == [("a", 1), ("a", 2)]


async def test_a_budget_for_one_of_two_ready_steps_starts_one(workshop: Workshop) -> None:
    """What a call in flight has reserved is not there for another one; once it is spent for good, the other is refused."""
    workshop.tool("do.it", taking(50))
    workshop.tool("flaky.it", failing(1))

    pack = workshop.pack(budget={"tool_calls": 3})
    async with workshop.runtime(pack) as runtime:
        result = await runtime.run(
            ASK,
            plan=plan(step("f", "flaky.it"), step("a", depends_on=("f",)), step("b", depends_on=("f",))),
        )
        assert result.status == "paused"
        state = await runtime.state(result.session_id)
        assert (state.used.tool_calls, state.used.reserved_calls) == (3, 0)
        assert [state.steps[name].status for name in "fab"] == ["done", "done", "failed"]
    assert workshop.calls == [("f", 1), ("f", 2), ("a", 1)]


async def test_all_that_was_used_is_booked(workshop: Workshop) -> None:
    """Calls, tokens, cost, steps, retries and time come out exactly, and nothing stays reserved."""
    workshop.tool("do.it", taking(30), cost_microcents=5)
    workshop.tool("flaky.it", failing(1), cost_microcents=2)

    async with workshop.runtime(workshop.pack()) as runtime:
        result = await runtime.run(
            ASK,
            plan=plan(
                step("a", estimated_tokens=10),
                step("b", "flaky.it", estimated_tokens=7, depends_on=("a",)),
            ),
        )
        assert (await runtime.state(result.session_id)).used == Used(
            steps=2, tool_calls=3, tokens=17, cost=7, retries=1, wall_clock=30 + 150
        )


@pytest.mark.req("R114", "R119")
async def test_at_most_so_many_calls_run_at_once(workshop: Workshop) -> None:
    """Eight slots unless the budget says otherwise; the rest of a wide plan waits for them."""
    busy: list[int] = [0, 0]

    async def count(_: ToolContext, params: dict[str, Any]) -> Any:
        busy[0] += 1
        busy[1] = max(busy)
        await asyncio.sleep(1)
        busy[0] -= 1
        return params

    workshop.tool("do.it", count)
    wide = plan(*(step(f"s{number}") for number in range(12)))

    for budget, most, seconds in (({}, 8, 2), ({"max_parallel": 3}, 3, 4), ({"max_parallel": 12}, 12, 1)):
        busy[:] = [0, 0]
        began = workshop.clock.now()
        async with workshop.runtime(workshop.pack(budget=budget)) as runtime:
            assert (await runtime.run(ASK, plan=wide)).status == "completed"
        assert (busy[1], workshop.clock.now() - began) == (most, seconds * 1_000)


@pytest.mark.req("R69", "R70")
async def test_a_run_takes_as_long_as_its_critical_path(workshop: Workshop) -> None:
    """What is beside the critical path runs meanwhile; with one slot all steps run one after the other."""

    async def behave(_: ToolContext, params: dict[str, Any]) -> Any:
        await asyncio.sleep(params["ms"] / 1_000)
        return params

    workshop.tool("do.it", behave)

    def waiting(name: str, ms: int, *before: str) -> Step:
        return step(name, params={"n": name, "ms": ms}, estimated_ms=ms, depends_on=before)

    diamond = plan(
        waiting("a", 100),
        waiting("long", 500, "a"),
        waiting("short", 200, "a"),
        waiting("end", 50, "long", "short"),
    )
    timed = schedule(diamond, {})
    assert timed.critical_path == ("a", "long", "end")

    async def main() -> list[int]:
        took: list[int] = []
        for budget in ({}, {"max_parallel": 1}):
            began = workshop.clock.now()
            async with workshop.runtime(workshop.pack(budget=budget)) as runtime:
                assert (await runtime.run(ASK, plan=diamond)).status == "completed"
            took.append(workshop.clock.now() - began)
        return took

    assert (await main()) == [timed.total_ms, timed.sequential_ms]


@pytest.mark.req("R118", "R119")
async def test_ready_steps_go_out_by_priority_and_by_what_waits_on_them(workshop: Workshop) -> None:
    """Priority first, then how much waits, then the plan's own order; and never before what they wait for."""
    workshop.tool("do.it")
    mixed = plan(
        step("last"),
        step("waited", priority=0),
        step("x", depends_on=("waited",)),
        step("y", depends_on=("x",)),
        step("first", priority=5),
        step("also"),
    )

    async with workshop.runtime(workshop.pack(budget={"max_parallel": 1})) as runtime:
        assert (await runtime.run(ASK, plan=mixed)).status == "completed"
    assert [name for name, _ in workshop.calls] == ["first", "waited", "x", "last", "y", "also"]


@pytest.mark.req("R228", "R229", "R327")
async def test_the_loop_guard_trips_at_the_third_same_answer(workshop: Workshop, url: str) -> None:
    """The same read with the same answer is honest twice; the third time is an event, a reason, and a verdict."""

    async def same(_: ToolContext, params: dict[str, Any]) -> Any:
        return {"state": "pending"}

    workshop.tool("poll.it", same, mode="read_only")
    polls = [step("p1", "poll.it", params={"id": 1})] + [
        step(f"p{n}", "poll.it", params={"id": 1}, depends_on=(f"p{n - 1}",)) for n in (2, 3, 4)
    ]

    async with workshop.journal(url) as journal, workshop.runtime(workshop.pack(), journal) as runtime:
        result = await runtime.run(ASK, plan=plan(*polls))
        assert result.status == "paused"
        assert "the same call brought the same result 3 times" in result.reason
        found = await events(journal, result.session_id)
        [trip] = [event for event in found if isinstance(event, e.LoopGuardTripped)]
        assert (trip.step, trip.count) == ("p3", 3)
        assert (await runtime.state(result.session_id)).trips == 1
    assert [name for name, _ in workshop.calls] == ["p1", "p2", "p3"]


async def test_other_answers_do_not_trip_the_loop_guard(workshop: Workshop) -> None:
    """A poll whose answer changes makes progress, however often it is asked."""
    answers = iter(range(10))

    async def other(_: ToolContext, params: dict[str, Any]) -> Any:
        return {"progress": next(answers)}

    workshop.tool("poll.it", other, mode="read_only")
    polls = [step(f"p{n}", "poll.it", params={"id": 1}) for n in range(6)]

    async with workshop.runtime(workshop.pack()) as runtime:
        assert (await runtime.run(ASK, plan=plan(*polls))).status == "completed"


async def test_the_loop_guard_waits_for_calls_in_flight(workshop: Workshop) -> None:
    """A trip beside a slow call is judged after that call has ended: no call is left behind."""

    async def same(_: ToolContext, params: dict[str, Any]) -> Any:
        return {}

    workshop.tool("poll.it", same, mode="read_only")
    workshop.tool("slow.it", taking(5_000))
    polls = [step(f"p{n}", "poll.it", params={"id": 1}) for n in range(3)]

    async with workshop.runtime(workshop.pack()) as runtime:
        result = await runtime.run(ASK, plan=plan(step("slow", "slow.it"), *polls))
        state = await runtime.state(result.session_id)
        assert (result.status, state.trips, state.steps["slow"].status) == ("paused", 1, "done")
        assert (await runtime.resume(result.session_id)).status == "completed"


@pytest.mark.req("R38", "R123", "R129")
async def test_an_open_circuit_refuses_without_a_call(workshop: Workshop, url: str) -> None:
    """After five failures in a row no run calls the tool, until the cooldown is over and one call goes well."""
    workshop.tool("read.it", failing(CircuitBreaker().threshold, OSError("down")), mode="read_only")
    alone = plan(step("a", "read.it"))

    async with workshop.journal(url) as journal:
        async with workshop.runtime(workshop.pack(), journal) as runtime:
            await runtime.run(ASK, plan=alone)
            second = await runtime.run(ASK, plan=alone)
            assert len(workshop.calls) == CircuitBreaker().threshold
            assert "circuit of read.it is open" in second.reason
            assert (await runtime.state(second.session_id)).steps["a"].code == "circuit_open"
        async with workshop.runtime(workshop.pack(), journal) as runtime:
            assert (await runtime.run(ASK, plan=alone)).status == "paused"
            assert len(workshop.calls) == CircuitBreaker().threshold
            workshop.clock.advance(30_000)
            third = await runtime.run(ASK, plan=alone)
            assert third.status == "completed"
            found = await events(journal, third.session_id)
            assert [event.breaker for event in found if isinstance(event, e.Intent)] == ["HALF_OPEN"]
            again = await runtime.run(ASK, plan=alone)
            found = await events(journal, again.session_id)
            assert [event.breaker for event in found if isinstance(event, e.Intent)] == ["CLOSED"]
