"""What a run tells the outside while it goes on, how often it leaves a checkpoint, and when it gives up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tercet.contracts.errors import UsageError
from tercet.contracts.evidence import Evidence
from tercet.contracts.plan import Plan
from tercet.core.config import RunConfig
from tercet.core.transcript import timestamp
from tercet.engine.checkpoint import read_point
from tercet.journal.errors import JournalFull
from tercet.journal.protocol import Append, Journal, Position

from .test_limits import taking
from .test_runs import Script
from .workshop import ADA, ASK, Workshop, events, names, plan, step


class Signals:
    """Collects what is signalled."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, name: str, fields: dict[str, Any]) -> None:
        self.seen.append((name, fields))

    def of(self, name: str) -> list[dict[str, Any]]:
        """The signals of one name."""
        return [fields for seen, fields in self.seen if seen == name]


@pytest.mark.req("R120", "R149", "R162")
async def test_checkpoints_and_dispatches_are_signalled(workshop: Workshop, url: str) -> None:
    """Each phase and verdict leaves a small checkpoint with budgets and the next step, and each is measured."""
    workshop.tool("do.it")
    signals = Signals()

    async with (
        workshop.journal(url) as journal,
        workshop.runtime(workshop.pack(), journal, signal=signals) as runtime,
    ):
        result = await runtime.run(ASK, plan=plan(step("a"), step("b", depends_on=["a"])))
        stored = await journal.checkpoints("default", result.session_id)
        points = [read_point(each) for each in stored if each.kind == "point"]
        assert [fields["action"] for fields in signals.of("action_dispatched")] == ["a", "b"]
        sizes = {fields["iteration"]: fields["size_bytes"] for fields in signals.of("checkpoint_written")}
        assert sizes == {each.seq: len(each.data) for each in stored}
        assert {point.phase for point in points} >= {"ACT", "COMMIT"}
        assert next(point for point in points if point.verdict == "step").next == ("b",)
        assert points[-1].used.tool_calls == 2
        state = await runtime.state(result.session_id)
        assert points[-1].results.hex() in (await runtime.state(result.session_id)).head
        assert points[-1].results
        assert points[-1].plan.hex() in state.plan_hash
        assert points[-1].results.hex() in state.head
        assert points[-1].results


class Learner:
    """A planner that polls in vain, and does something else once it is told so."""

    name = "learner"

    def __init__(self) -> None:
        self.has_polled = False

    async def propose(self, config: RunConfig, feedback: tuple[str, ...]) -> Plan:
        """The same read three times at first, and one step then."""
        if self.has_polled:
            return plan(step("a"))
        self.has_polled = True
        first = step("p1", "poll.it", params={"id": 1})
        later = [step(f"p{n}", "poll.it", params={"id": 1}, depends_on=(f"p{n - 1}",)) for n in (2, 3)]
        return plan(first, *later)


@pytest.mark.req("R39", "R162")
async def test_a_checkpoint_is_shown_with_all_that_was_known_there(workshop: Workshop, url: str) -> None:
    """After the first of two steps: one completed, one pending, no scores; at the end both completed and scored."""
    workshop.tool("do.it")
    fact = {"id": "kg:rule:r1#snapshot_may", "content": {"limit": 5}, "trust": "trusted"}
    pack = workshop.pack(evidence=(Evidence.model_validate(fact),))
    work = plan(
        step("a", evidence_refs=(fact["id"],)), step("b", depends_on=("a",)), outputs={"x": {"$from": "b#/n"}}
    )
    async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
        session = (await runtime.run(ASK, plan=work)).session_id
        listed = (await runtime.session(session)).checkpoints
        early = await runtime.checkpoint(
            session, next(each.checkpoint_id for each in listed if each.after_step == "a")
        )
        late = await runtime.checkpoint(session)
        with pytest.raises(UsageError, match="has no checkpoint sha256:0"):
            await runtime.checkpoint(session, "sha256:0")
        found = await events(journal, session)
    assert (early.phase, early.plan_id, early.next_step) == ("ACT", "plan_1", "b")
    assert (early.completed_actions, early.pending_actions) == (("a",), ("b",))
    assert early.plan_state["a"] == "done"
    assert early.outputs_so_far == {"a": {"n": "a"}}
    assert (early.evidence_refs, early.step_scores) == ((fact["id"],), ())
    assert early.tool_transcript == tuple(workshop.keys[:1])
    assert early.timestamp == timestamp(found[early.k - 1].at)
    assert late.k == len(found)
    assert late.loop_id == early.loop_id != ""
    assert (late.phase, late.completed_actions, late.pending_actions) == ("COMMIT", ("a", "b"), ())
    assert (late.outputs_so_far, late.used.tool_calls, late.tool_transcript) == (
        {"x": "b"},
        2,
        tuple(workshop.keys),
    )
    assert [score.step_id for score in late.step_scores] == ["a", "b"]


@pytest.mark.req("R147")
async def test_a_new_phase_leaves_a_checkpoint_without_a_verdict(workshop: Workshop) -> None:
    """A run that an operator pauses is halted, which nobody judged; its last checkpoint says so."""
    workshop.tool("do.it", taking(1_000))
    async with workshop.runtime(workshop.pack()) as runtime:
        running = asyncio.ensure_future(runtime.run(ASK, plan=plan(step("a"), step("b", depends_on=("a",)))))
        await workshop.clock.sleep(500)
        runtime.stop()
        session = (await running).session_id
        newest = await runtime.checkpoint(session)
        assert (newest.phase, newest.k) == ("HALT", (await runtime.state(session)).position)


@pytest.mark.req("R232")
async def test_the_published_verdict_counts_trips_and_replans(workshop: Workshop) -> None:
    """The envelope of an accepted run names run, plan and steps, and counts what went wrong on the way."""
    workshop.tool("do.it")
    workshop.tool("poll.it", mode="read_only")

    async with workshop.runtime(workshop.pack()) as runtime:
        result = await runtime.run(ASK, planner=Learner())
        envelope = (await runtime.state(result.session_id)).envelope
        assert envelope["verdict"] == "accept"
        assert envelope["plan_id"] == "plan_1"
        assert [score["step_id"] for score in envelope["step_scores"]] == ["a"]
        assert (envelope["loop_guard_trips"], envelope["replan_attempts"]) == (1, 1)


@pytest.mark.req("R232")
async def test_the_published_verdict_counts_a_trip_and_the_replan_after_it(workshop: Workshop) -> None:
    """A loop guard that trips once and the plan that follows it are both in the envelope."""

    async def same(*_: Any) -> dict[str, int]:
        return {"n": 1}

    workshop.tool("do.it")
    workshop.tool("poll.it", same, mode="read_only")
    looping = plan(*(step(f"p{n}", "poll.it", params={"id": 1}) for n in range(3)))

    async with workshop.runtime(workshop.pack()) as runtime:
        result = await runtime.run(ASK, planner=Script(looping, plan(step("a"))), actor=ADA)
        envelope = (await runtime.state(result.session_id)).envelope
        assert (result.status, envelope["verdict"]) == ("completed", "accept")
        assert (envelope["loop_guard_trips"], envelope["replan_attempts"]) == (1, 1)


class Restless:
    """A planner that always has another plan, each of which fails when it runs."""

    name = "restless"

    def __init__(self) -> None:
        self.count = 0

    async def propose(self, config: RunConfig, feedback: tuple[str, ...]) -> Plan:
        """A plan whose only step nobody has seen before."""
        self.count += 1
        return plan(step(f"s{self.count}", "do.nothing"))


@pytest.mark.req("R55", "R220", "R225")
async def test_a_run_that_goes_round_for_ever_gives_up(workshop: Workshop) -> None:
    """It ends failed within its iterations, whatever the re-plan budget says, and says why."""
    workshop.tool("do.it")
    budget = {"max_iterations": 12, "max_replans": 1_000, "replans_rationale": "to see the bound"}
    planner = Restless()

    async with workshop.runtime(workshop.pack(budget=budget)) as runtime:
        result = await runtime.run(ASK, planner=planner)
        state = await runtime.state(result.session_id)
        assert (result.status, result.reason) == ("failed", "iteration_budget_exceeded")
        assert state.iterations <= 13
        assert "given_up" in names(await events(runtime.journal, result.session_id))
    assert planner.count < 12


class Full:
    """A journal that is full as soon as a verdict comes with its checkpoint."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def append(self, unit: Append) -> Position:
        """Refuses a unit that carries the verdict on a step."""
        if any(b"step_judged" in event for event in unit.events):
            raise JournalFull("disk", "no room")
        return await self._journal.append(unit)


@pytest.mark.req("R154", "R163")
async def test_a_checkpoint_that_cannot_be_written_takes_its_verdict_with_it(workshop: Workshop) -> None:
    """Nothing of the verdict is stored, the failure is signalled and raised, and the run can be resumed."""
    workshop.tool("do.it", idempotent=True)
    signals = Signals()

    async with workshop.journal("memory:") as journal:
        pack = workshop.pack()
        full: Any = Full(journal)
        async with workshop.runtime(pack, full, signal=signals) as runtime:
            with pytest.raises(JournalFull):
                await runtime.run(ASK, plan=plan(step("a")))
        (row,) = await journal.sessions("default")
        assert "step_judged" not in names(await events(journal, row.session_id))
        assert [fields["code"] for fields in signals.of("failed")] == ["journal_full"]
        async with workshop.runtime(pack, journal, signal=signals) as runtime:
            assert (await runtime.resume(row.session_id)).status == "completed"
        found = await events(journal, row.session_id)
        [resumed] = signals.of("loop_resumed")
        assert resumed == {
            "loop_id": (await runtime.state(row.session_id)).start.run,
            "resumed_from_iteration": names(found).index("session_resumed"),
            "phase": "ACT",
            "inflight_actions_recovered": 1,
        }
