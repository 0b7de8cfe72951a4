"""Whole runs: a plan comes in, the critic lets it through or not, steps are carried out, a record is left."""

from __future__ import annotations

import asyncio
import gc
import json
from typing import Any

import pytest

from tercet.contracts.errors import NotDone, PackError, UsageError
from tercet.contracts.plan import Plan
from tercet.contracts.request import Request
from tercet.contracts.verdict import VerifyRefused
from tercet.core import events as e
from tercet.core.config import RunConfig
from tercet.core.transcript import transcript
from tercet.engine.checkpoint import read_point
from tercet.executor.collector import YOUNG
from tercet.planner.sources import PlanningError
from tercet.tools import ToolContext

from .workshop import ADA, ASK, Workshop, events, names, plan, step


class Script:
    """A planner that proposes these plans, one after the other, and remembers what it was told."""

    name = "script"

    def __init__(self, *plans: Plan) -> None:
        self.plans = list(plans)
        self.told: list[tuple[str, ...]] = []

    async def propose(self, config: RunConfig, feedback: tuple[str, ...]) -> Plan:
        """The next plan."""
        self.told.append(feedback)
        if not self.plans:
            raise PlanningError("I have run out of ideas")
        return self.plans.pop(0)


def refused(number: int) -> Plan:
    """A plan that the critic refuses, since nobody has its tool; each number makes another one."""
    return plan(step(f"s{number}", "no.such"))


@pytest.mark.req("R23", "R106", "R108", "R130", "R146")
def test_a_run_goes_through_its_phases(workshop: Workshop, url: str) -> None:
    """Plan, review, execute, score, consolidate, finalize: each leaves its event, in this order."""
    workshop.tool("do.it")

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(workshop.pack(), journal) as runtime:
            result = await runtime.run(
                ASK,
                plan=plan(step("a"), step("b", depends_on=("a",)), outputs={"x": {"$from": "b#/n"}}),
                actor=ADA,
            )
            assert (result.status, result.outputs, result.steps_done) == ("completed", {"x": "b"}, 2)
            assert result.report is not None
            assert result.report.status == "completed"
            assert names(await events(journal, result.session_id)) == [
                "session_started", "plan_proposed", "decomposed", "evidence_retrieved", "plan_reviewed",
                "INTENT", "COMPLETE", "step_judged", "INTENT", "COMPLETE", "step_judged",
                "outputs_produced", "run_reported", "session_ended",
            ]  # fmt: skip
            record = await runtime.record(result.session_id)
            assert [entry.call.step_id for entry in record.transcript] == ["a", "b"]
            assert record.outputs == {"x": "b"}
            [row] = await runtime.sessions()
            assert (row.session_id, row.status, row.owner) == (result.session_id, "completed", "ada")

    workshop.run(main())
    assert workshop.calls == [("a", 1), ("b", 1)]


@pytest.mark.req("R27", "R194")
async def test_plan_transcript_and_verdict_are_left_separately(workshop: Workshop, url: str) -> None:
    """The record holds the review and the verdict on the run with the scores of its steps; plan, calls and verdicts are
    events of their own, and what is stored of the record repeats none of them."""
    workshop.tool("do.it")
    async with workshop.journal(url) as journal, workshop.runtime(workshop.pack(), journal) as runtime:
        result = await runtime.run(ASK, plan=plan(step("a"), step("b")))
        record = await runtime.record(result.session_id)
        found = await events(journal, result.session_id)
        stored = json.loads(await journal.blob("default", (await runtime.state(result.session_id)).kept))
    assert [(verdict.stage, verdict.outcome) for verdict in record.verdicts] == [("review", "ok")]
    assert record.run_verdict is not None
    assert (record.run_verdict.verdict, record.run_verdict.plan_id) == ("accept", "plan_1")
    assert {each.step_id: each.scores for each in record.run_verdict.step_scores} == {
        "a": {"policy": 1.0, "utility": 1.0},
        "b": {"policy": 1.0, "utility": 1.0},
    }
    [proposed] = [event for event in found if isinstance(event, e.PlanProposed)]
    assert Plan.model_validate(proposed.plan).hash == proposed.hash == record.plan_hash
    assert [entry.call.step_id for entry in transcript(found, {})] == ["a", "b"]
    [reviewed] = [event for event in found if isinstance(event, e.PlanReviewed)]
    assert reviewed.verdict["outcome"] == "ok"
    assert {"transcript", "run_verdict"}.isdisjoint(stored)


@pytest.mark.req("R106")
def test_a_refused_plan_calls_nothing(workshop: Workshop, url: str) -> None:
    """A caller's plan that the critic refuses ends the run at once, with a record and without a single call."""
    workshop.tool("do.it")

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(workshop.pack(), journal) as runtime:
            result = await runtime.run(ASK, plan=plan(step("a"), step("b", "no.such")), actor=ADA)
            assert result.verdict is not None
            assert (result.status, result.verdict.code) == ("failed", "tool_not_surfaced")
            record = await runtime.record(result.session_id)
            assert record.report.status == "refused_by_critic"
            assert record.transcript == ()

    workshop.run(main())
    assert workshop.calls == []


def test_a_note_yields_its_parameters_and_calls_nothing(workshop: Workshop) -> None:
    """A note's result is its resolved parameters; it costs a step and no tool call, and breaks no floor."""
    workshop.tool("do.it")

    async def main() -> None:
        async with workshop.runtime(workshop.pack()) as runtime:
            result = await runtime.run(
                ASK,
                plan=plan(
                    step("a"),
                    step("n", None, params={"sum": {"$cel": "request.count + 1"}, "of": {"$from": "a#/n"}}),
                    outputs={"sum": {"$from": "n#/sum"}},
                ),
            )
            assert (result.status, result.outputs) == ("completed", {"sum": 3})
            state = await runtime.state(result.session_id)
            assert (state.used.steps, state.used.tool_calls) == (2, 1)

    workshop.run(main())


def test_a_template_is_filled_and_run(workshop: Workshop) -> None:
    """Without a plan the pack's template for the intent is proposed, filled from the request."""
    workshop.tool("do.it")
    template = plan(step("a", params={"order": "${input.order}", "n": "${input.count}"}))
    pack = workshop.pack(templates=(template,))

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK)
            assert result.status == "completed"
            [intent] = [
                event
                for event in await events(runtime.journal, result.session_id)
                if isinstance(event, e.Intent)
            ]
            assert intent.params == {"order": "o1", "n": 2}

    workshop.run(main())


def test_a_request_that_nobody_can_plan_starts_no_session(workshop: Workshop) -> None:
    """A missing template and a missing input are answered with what to give, and leave nothing in the journal."""
    workshop.tool("do.it")
    template = plan(step("a", params={"x": "${input.missing}"}))

    async def main() -> None:
        async with workshop.runtime(workshop.pack()) as runtime:
            with pytest.raises(PlanningError, match="no template"):
                await runtime.run(ASK)
            assert await runtime.sessions() == []
        async with workshop.runtime(workshop.pack(templates=(template,))) as runtime:
            with pytest.raises(PlanningError, match="needs missing, which"):
                await runtime.run(ASK)
            with pytest.raises(UsageError, match="could answer the intent 'other'"):
                await runtime.run(Request(intent="other"))
            assert await runtime.sessions() == []

    workshop.run(main())


def test_a_refused_template_ends_the_run_with_a_record(workshop: Workshop) -> None:
    """A template cannot learn: it is not proposed a second time, and the record says why it was refused."""
    workshop.tool("do.it")
    pack = workshop.pack(templates=(refused(1),))

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK)
            assert (result.status, workshop.calls) == ("failed", [])
            assert "the template knows no other plan" in result.reason
            record = await runtime.record(result.session_id)
            assert isinstance(record.report.verify, VerifyRefused)
            assert record.report.verify.kind == "violates_decision_spec"

    workshop.run(main())


class Broken:
    """A planner with a bug."""

    name = "broken"

    async def propose(self, config: RunConfig, feedback: tuple[str, ...]) -> Plan:
        """Raises what nobody expects."""
        raise KeyError("steps")


def test_a_planner_that_raises_ends_the_run(workshop: Workshop, url: str) -> None:
    """A bug in a planner is planning that failed, with its words as the reason, and not the end of the process."""
    workshop.tool("do.it")

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(workshop.pack(), journal) as runtime:
            result = await runtime.run(ASK, planner=Broken())
            assert result.status == "failed"
            assert "the planner raised KeyError" in result.reason
            found = await events(journal, result.session_id)
            [failed] = [event for event in found if isinstance(event, e.PlanningFailed)]
            assert failed.code == "planner_raised"
            assert (await runtime.record(result.session_id)).report.status == "refused_by_critic"

    workshop.run(main())


def test_an_error_that_is_no_unicode_does_not_wedge_a_session(workshop: Workshop, url: str) -> None:
    """A text with lone surrogates, as file names bring them, is recorded with a stand-in, and a resume goes on."""
    errors = [OSError("bad \udcff name")]

    async def once(_: ToolContext, params: dict[str, Any]) -> Any:
        if errors:
            raise errors.pop()
        return params

    workshop.tool("read.it", once, mode="read_only")
    pack = workshop.pack(budget={"max_step_retries": 0})

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=plan(step("a", "read.it")), actor=ADA)
            assert result.status == "paused"
            [aborted] = [
                event for event in await events(journal, result.session_id) if isinstance(event, e.Abort)
            ]
            assert "bad ? name" in aborted.error
            assert (await runtime.resume(result.session_id)).status == "completed"

    workshop.run(main())
    assert workshop.calls == [("a", 1), ("a", 2)]


def test_a_planner_without_any_plan_ends_the_run_with_a_record(workshop: Workshop, url: str) -> None:
    """Planning that fails before there is a plan is a failed run, not a run that passed review."""
    workshop.tool("do.it")

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(workshop.pack(), journal) as runtime:
            result = await runtime.run(ASK, planner=Script())
            assert (result.status, result.reason) == ("failed", "I have run out of ideas")
            record = await runtime.record(result.session_id)
            assert record.report.verify.ok is False
            assert record.report.status == "refused_by_critic"
            assert (await runtime.resume(result.session_id)).status == "failed"

    workshop.run(main())


@pytest.mark.req("R230")
@pytest.mark.parametrize("budget", [{"max_replans": 3}, {"max_replans": 9, "replans_rationale": "  "}])
async def test_more_replans_than_usual_need_a_rationale(workshop: Workshop, budget: dict[str, Any]) -> None:
    """A pack that allows more than two re-plans and does not say why starts no run."""
    workshop.tool("do.it")
    planner = Script(*map(refused, range(10)))
    async with workshop.runtime(workshop.pack(budget=budget)) as runtime:
        with pytest.raises(PackError, match="re-plans are allowed, over the usual 2") as refusal:
            await runtime.run(ASK, planner=planner)
        assert [problem.code for problem in refusal.value.problems] == ["replans_unexplained"]
        assert await runtime.sessions() == []
    assert planner.told == []


@pytest.mark.req("R230", "R332")
@pytest.mark.parametrize(("allowed", "proposals"), [(None, 3), (0, 1), (1, 2)])
def test_replans_are_bounded(workshop: Workshop, allowed: int | None, proposals: int) -> None:
    """A planner whose plans are refused may try again twice, or as often as the pack says; then the run fails."""
    workshop.tool("do.it")
    planner = Script(*map(refused, range(10)))
    pack = workshop.pack(budget={} if allowed is None else {"max_replans": allowed})

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, planner=planner)
            assert result.verdict is not None
            assert (result.status, result.verdict.outcome) == ("failed", "reject")
            assert (await runtime.state(result.session_id)).used.replans == proposals - 1

    workshop.run(main())
    assert len(planner.told) == proposals
    assert planner.told[0] == ()
    assert all("no.such" in feedback[0] for feedback in planner.told[1:])


@pytest.mark.req("R228")
def test_the_same_plan_again_is_rejected(workshop: Workshop) -> None:
    """A planner that proposes a refused plan once more makes no progress: loop_guard, while re-plans are left."""
    workshop.tool("do.it")
    planner = Script(refused(1), refused(1), plan(step("a")))

    async def main() -> None:
        async with workshop.runtime(workshop.pack()) as runtime:
            result = await runtime.run(ASK, planner=planner)
            assert result.verdict is not None
            assert (result.status, result.verdict.kind) == ("failed", "loop_guard")
            assert result.reason == "this plan was refused before"
            record = await runtime.record(result.session_id)
            assert record.report.status == "refused_by_critic"

    workshop.run(main())
    assert len(planner.told) == 2


@pytest.mark.req("R107", "R115")
def test_a_failed_step_goes_back_to_the_planner(workshop: Workshop, url: str) -> None:
    """The planner hears why a step failed; steps that its next plan keeps are not done again, the others are."""

    async def fail(_: ToolContext, params: dict[str, Any]) -> Any:
        raise NotDone("out of paper")

    workshop.tool("do.it")
    workshop.tool("print.it", fail)
    first = plan(step("a"), step("b", params={"n": "old"}), step("c", "print.it", depends_on=("a", "b")))
    second = plan(
        step("a"),
        step("b", params={"n": "new"}),
        step("d", params={"m": {"$from": "a#/n"}}),
        outputs={"x": {"$from": "d#/m"}},
    )
    planner = Script(first, second)

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(workshop.pack(), journal) as runtime:
            result = await runtime.run(ASK, planner=planner)
            assert (result.status, result.outputs) == ("completed", {"x": "a"})
            record = await runtime.record(result.session_id)
            done = [entry.call.step_id for entry in record.transcript if entry.result.outcome == "done"]
            assert done == ["a", "b", "b", "d"]

    workshop.run(main())
    assert [name for name, _ in workshop.calls] == ["a", "b", "c", "c", "c", "c", "b", "d"]
    assert "out of paper" in planner.told[1][0]


@pytest.mark.req("R107")
def test_a_callers_plan_is_never_planned_anew(workshop: Workshop) -> None:
    """Where a caller's step fails for good, the run escalates and can be resumed; nobody invents another plan."""
    answers: list[Any] = [NotDone("no")] * 4

    async def fail(_: ToolContext, params: dict[str, Any]) -> Any:
        if answers:
            raise answers.pop()
        return {}

    workshop.tool("do.it", fail)

    async def main() -> None:
        async with workshop.runtime(workshop.pack()) as runtime:
            result = await runtime.run(ASK, plan=plan(step("a")))
            assert (result.status, result.reason[:10]) == ("paused", "escalated:")
            assert workshop.calls == [("a", 1), ("a", 2), ("a", 3), ("a", 4)]
            assert (await runtime.resume(result.session_id)).status == "completed"

    workshop.run(main())


def test_steps_may_be_skipped(workshop: Workshop) -> None:
    """A false condition and an optional failure skip a step; what only waits for it goes on, also beside calls."""

    async def fail(_: ToolContext, params: dict[str, Any]) -> Any:
        raise NotDone("no", code="gone")

    async def slow(_: ToolContext, params: dict[str, Any]) -> Any:
        await asyncio.sleep(60)
        return params

    workshop.tool("do.it")
    workshop.tool("fail.it", fail)
    workshop.tool("read.it", mode="read_only")
    workshop.tool("wait.it", slow, timeout_ms=90_000)
    pack = workshop.pack(budget={"max_step_retries": 0})

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(
                ASK,
                plan=plan(
                    step("slow", "wait.it"),
                    step("no", when="request.count > 5"),
                    step("yes", when="request.count == 2", depends_on=("no",)),
                    step("maybe", "fail.it", optional=True),
                    step("after", depends_on=("maybe",)),
                    step("needs", "read.it", params={"n": {"$from": "maybe#/n"}}, optional=True),
                ),
            )
            assert result.status == "completed"
            state = await runtime.state(result.session_id)
            assert {name: each.status for name, each in state.steps.items()} == {
                "slow": "done", "no": "skipped", "yes": "done", "maybe": "skipped", "after": "done", "needs": "skipped",
            }  # fmt: skip
            assert state.done == ("yes", "after", "slow")

    workshop.run(main())


def test_a_result_that_breaks_its_schema_is_never_retried(workshop: Workshop) -> None:
    """The effect happened: the step has failed, also when it is optional, and a person decides."""

    async def wrong(_: ToolContext, params: dict[str, Any]) -> Any:
        return "not an object"

    workshop.tool("do.it", wrong, result={"type": "object"})

    async def main() -> None:
        async with workshop.runtime(workshop.pack()) as runtime:
            result = await runtime.run(ASK, plan=plan(step("a", optional=True)))
            assert result.status == "paused"
            assert "breaks its schema" in result.reason
            assert (await runtime.resume(result.session_id)).status == "paused"

    workshop.run(main())
    assert workshop.calls == [("a", 1)]


def test_a_reference_that_leads_nowhere_stops_the_step(workshop: Workshop) -> None:
    """A result without the field that the next step needs: that step is refused, and not called with something else."""
    workshop.tool("do.it")

    async def main() -> None:
        async with workshop.runtime(workshop.pack()) as runtime:
            result = await runtime.run(
                ASK, plan=plan(step("a"), step("b", params={"x": {"$from": "a#/gone"}}))
            )
            assert (result.status, workshop.calls) == ("paused", [("a", 1)])
            found = await events(runtime.journal, result.session_id)
            [refusal] = [event for event in found if isinstance(event, e.StepRefused)]
            assert (refusal.step, refusal.code) == ("b", "unresolved")

    workshop.run(main())


@pytest.mark.req("R160")
def test_the_last_checkpoint_says_how_it_ended(workshop: Workshop) -> None:
    """The end of a run is a checkpoint, with what was used and the head of the results."""
    workshop.tool("do.it", cost_microcents=7)

    async def main() -> None:
        async with workshop.runtime(workshop.pack()) as runtime:
            result = await runtime.run(ASK, plan=plan(step("a")))
            state = await runtime.state(result.session_id)
            stored = await runtime.journal.newest("default", result.session_id, "point")
            assert stored is not None
            assert stored.seq == state.position
            point = read_point(stored)
            assert point.verdict == "completed"
            assert point.used.cost == 7
            assert point.results.hex() in state.head

    workshop.run(main())


def test_the_collector_looks_less_often_while_runs_are_under_way(workshop: Workshop, url: str) -> None:
    """It has nothing to find in them; the program's thresholds are back when they have ended."""
    seen: list[int] = []

    async def look(_: ToolContext, __: dict[str, Any]) -> None:
        seen.append(gc.get_threshold()[0])

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(workshop.pack(), journal) as runtime:
            await runtime.run(ASK, plan=plan(step("a")))

    workshop.tool("do.it", look)
    before = gc.get_threshold()
    workshop.run(main())
    assert (seen, gc.get_threshold()) == ([YOUNG], before)


def test_a_run_leaves_nothing_to_the_garbage_collector(workshop: Workshop, url: str) -> None:
    """What a run has made, completed or refused, is freed when nothing refers to it any more: there are no cycles."""
    workshop.tool("do.it")
    left: list[str] = []

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(workshop.pack(), journal) as runtime:
            gc.collect()  # what other tests left
            gc.disable()
            gc.set_debug(gc.DEBUG_SAVEALL)
            try:
                for tool, status in (("do.it", "completed"), ("no.such", "failed")):
                    result = await runtime.run(ASK, plan=plan(step("a"), step("b", tool, depends_on=("a",))))
                    assert result.status == status
                gc.collect()
                left.extend(
                    type(each).__name__ for each in gc.garbage if type(each).__module__.startswith("tercet")
                )
            finally:
                gc.set_debug(0)
                gc.garbage.clear()
                gc.enable()

    workshop.run(main())
    assert not left
