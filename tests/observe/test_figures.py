"""Figures: counted from events, the same from the journal, at the collector and at the Prometheus server."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine.oracle import GOOD, ORDER, planner, scripted, shop
from engine.test_machine import wander
from engine.workshop import ADA, ASK, BOB, Workshop, plan, step
from tercet.contracts.errors import NotDone
from tercet.core import events as e
from tercet.engine.session_reader import load_history, read_checkpoints
from tercet.journal.protocol import Journal
from tercet.observe import Figures, Recorded, Sampling, Telemetry, TelemetrySettings, figures
from tercet.observe import instruments as i
from tercet.runtime import Runtime
from tercet.tools import ToolContext

from .receiver import Receiver, read_page
from .shop import PLAN, pack_of

SETTINGS = TelemetrySettings(otlp=True, prometheus_port=0, sampling=Sampling(0.0), flush_ms=20_000)
LOOP = plan(
    *(step(f"s{n}", "shop.look", params={"n": 1}, depends_on=[f"s{n - 1}"] if n else []) for n in range(4))
)


async def recorded(journal: Journal) -> Figures:
    """The figures of every session of a journal."""
    rows = await journal.sessions("default", limit=1000)
    found: list[Recorded] = []
    for row in rows:
        stored = await read_checkpoints(journal, "default", row.session_id)
        events = (await load_history(journal, "default", row.session_id)).events
        found.append(Recorded(events=events, checkpoints=[(each.kind, len(each.data)) for each in stored]))
    return figures(found)


async def busy_day(workshop: Workshop, runtime: Runtime) -> None:
    """Runs of every kind: approved, denied, refused, looping, escalated, and one whose optional step fails."""
    first = await runtime.run(ASK, plan=PLAN, actor=ADA)
    assert first.gate is not None
    await runtime.approve(first.gate.id, actor=BOB)
    assert (await runtime.resume(first.session_id)).status == "completed"
    second = await runtime.run(ASK, plan=PLAN, actor=ADA)
    assert second.gate is not None
    await runtime.deny(second.gate.id, actor=BOB)
    assert (await runtime.resume(second.session_id)).status == "rejected"
    nowhere = plan(step("a", "shop.nowhere"))
    assert (await runtime.run(ASK, plan=nowhere, actor=ADA)).status == "failed"
    assert (await runtime.run(ASK, plan=LOOP, actor=ADA)).status == "paused"
    optional = plan(step("never", "shop.never", optional=True), step("look", "shop.look"))
    assert (await runtime.run(ASK, plan=optional, actor=ADA)).status == "completed"
    assert (await runtime.run(ASK, plan=PLAN, actor=ADA, shadow=True)).status == "completed"


def desk(workshop: Workshop) -> Any:
    """The pack of that day."""

    async def never(_: ToolContext, __: dict[str, Any]) -> Any:
        raise NotDone("no", code="no")

    workshop.tool("shop.never", never, no_compensation="nothing is done")
    return pack_of(workshop, decision={"risk_tier": "high"})


def scraped(address: str) -> dict[str, float]:
    """What a Prometheus server would read, summed over all labels."""
    text = read_page(address)
    found: dict[str, float] = {}
    for name, value in re.findall(r"^(\w+)(?:\{.*\})? ([0-9.e+-]+)$", text, re.MULTILINE):
        found[name] = found.get(name, 0) + float(value)
    return found


@pytest.mark.req("R316", "R320", "R321")
def test_all_three_ways_tell_the_same_figures(workshop: Workshop, receiver: Receiver, tmp_path: Path) -> None:
    """What a process counted while it ran is what anybody counts from the journal; collector and endpoint agree."""
    pack = desk(workshop)
    told: dict[str, float] = {}

    async def main() -> tuple[Figures, Figures]:
        async with (
            Telemetry(SETTINGS) as telemetry,
            workshop.journal(f"sqlite:///{tmp_path / 'runs.db'}") as journal,
        ):
            async with workshop.runtime(pack, journal, observers=[telemetry]) as runtime:
                await busy_day(workshop, runtime)
            with workshop.clock.hold():
                told.update(scraped(telemetry.metrics_address))
            return telemetry.figures, await recorded(journal)

    live, stored = workshop.run(main())
    assert live == stored
    assert live.runs == 5
    assert live.ended["completed"] == live.commits == 2
    assert (live.plans_reviewed, live.plans_passed) == (5, 4)
    assert live.plans_refused == {"violates_decision_spec": 1}
    assert live.plan_pass_rate == 0.8
    assert live.retries == 2 + 3
    assert (live.steps_recovered, live.steps_lost) == (2, 1)
    assert live.loop_guard_trips == 1
    assert live.escalations == {"high": 1}
    assert live.escalation_rate == {"high": 0.2}
    assert live.gates_opened == {"approval": 2, "escalation": 1}
    assert live.gate_failures == {"denied": 1}
    assert live.loops_resumed == 2
    assert live.mean_time_to_safe_completion_ms is not None
    assert live.cost_microcents == {"ACT": 7 * 6 + 5 * 2 + 11}
    assert live.checkpoints_written > live.runs
    for instrument, number in (
        (i.COMMIT, live.commits),
        (i.ACTION_DISPATCHED, sum(live.actions_dispatched.values())),
        (i.CHECKPOINT_WRITTEN, live.checkpoints_written),
        (i.LOOP_RESUMED, live.loops_resumed),
        (i.GATE_FAILURE, 1),
        (i.COST, sum(live.cost_microcents.values())),
        (i.ESCALATION, 1),
    ):
        assert told[instrument.prometheus] == number, instrument.name
        assert sum(receiver.sums(instrument.otlp).values()) == number, instrument.name
    (point,) = receiver.metrics[i.SAFE_COMPLETION].histogram.data_points
    assert (point.count, sum(point.bucket_counts)) == (2, 2)
    assert point.sum == pytest.approx(told[f"{i.SAFE_COMPLETION_SECONDS}_sum"])
    assert round(1000 * point.sum / 2, 6) == live.mean_time_to_safe_completion_ms
    assert receiver.sums(i.ESCALATION.otlp, "risk_tier") == {("high",): 1}


@pytest.mark.req("R321")
def test_money_is_told_by_the_phase_that_spent_it(workshop: Workshop) -> None:
    """What a planner's model costs belongs to PLAN, what the tools cost to ACT; together it is what the run used."""
    pack = shop(workshop)
    telemetry = Telemetry()

    async def main() -> tuple[int, int]:
        async with workshop.runtime(pack, observers=[telemetry]) as runtime:
            result = await runtime.run(ORDER, planner=planner(scripted(GOOD)), actor=ADA)
            used = (await runtime.state(result.session_id)).used
            assert await recorded(runtime.journal) == telemetry.figures
            return used.cost, used.tokens

    cost, tokens = workshop.run(main())
    assert telemetry.figures.cost_microcents["PLAN"] > 0
    assert sum(telemetry.figures.cost_microcents.values()) == cost
    assert sum(telemetry.figures.tokens.values()) == tokens


def test_figures_of_any_history_are_sums() -> None:
    """Whatever happens, figures of two halves of the runs add up, and no rate leaves its bounds."""

    draw = random.Random(5)  # noqa: S311 - no secret: the same ways every time
    runs = [Recorded(events=[event for _, event, _ in wander(draw, 60)]) for _ in range(600)]
    whole, halves = figures(runs), (figures(runs[:300]), figures(runs[300:]))
    for name in (
        "runs",
        "commits",
        "plans_reviewed",
        "retries",
        "replans",
        "loop_guard_trips",
        "loops_resumed",
    ):
        assert getattr(whole, name) == sum(getattr(half, name) for half in halves)
    for rate in (whole.plan_pass_rate, whole.step_completion_rate, whole.retry_rate, whole.recovery_rate):
        assert rate is not None
        assert 0 <= rate <= 1


def test_no_run_means_no_rate() -> None:
    """Where there is nothing to divide by, a rate is None and not zero."""
    empty = figures([Recorded(events=[])])
    assert (empty.runs, empty.plan_pass_rate, empty.mean_time_to_safe_completion_ms) == (0, None, None)


@pytest.mark.parametrize(("planner", "expected"), [("template", 0), ("scripted", 1)])
def test_a_template_is_not_planned_anew(planner: str, expected: int) -> None:
    """A verdict that asks for another plan counts where there is a planner that may have one."""
    draw = random.Random(5)  # noqa: S311 - no secret: the same way every time
    start = next(event for _, event, _ in wander(draw, 3) if isinstance(event, e.SessionStarted))
    refused = e.PlanReviewed(at=start.at, hash="h", verdict={"outcome": "replan", "kind": "loop_guard"})
    run = Recorded(events=[msgspec.structs.replace(start, planner=planner, shadow=False), refused])
    assert figures([run]).replans == expected
