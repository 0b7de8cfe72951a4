"""What a run leaves, however it came to rest: a result, a report of its failure, or a point to go on from."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.errors import UsageError
from tercet.contracts.evidence import Evidence
from tercet.contracts.runs.record import AgentResult, FailureReport, HaltRecord
from tercet.contracts.values.canonical import digest

from .test_limits import failing, taking
from .test_sagas import BOSS
from .workshop import ADA, ASK, BOB, Death, Workshop, plan, step


def tools(workshop: Workshop) -> None:
    """One tool that works, one that does not, and one that waits for a person."""
    workshop.tool("do.it", taking(250), cost_microcents=40, no_compensation="none")
    workshop.tool("break.it", failing(99), no_compensation="none")
    workshop.tool("wipe.it", mode="destructive", gates=("BOSS",), authority=(), no_compensation="gone")


@pytest.mark.req("R52", "R219")
def test_commit_leaves_a_result_with_its_provenance_and_audit(workshop: Workshop, url: str) -> None:
    """Output with its hash; plan, evidence, calls and approver; the whole way, its cost, its time and its scores."""
    tools(workshop)
    fact = Evidence.model_validate(
        {
            "id": "kg:order:o1#snapshot_s1",
            "classification": "order",
            "content": {"total": 3},
            "source": "test",
        }
    )
    pack = workshop.pack(gates=(BOSS,), evidence=(fact,))
    course = plan(
        step("a", evidence_refs=(fact.id,)),
        step("w", "wipe.it", depends_on=("a",)),
        outputs={"x": {"$from": "w#/n"}},
    )

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=course, actor=ADA)
            assert result.gate is not None
            await runtime.approve(result.gate.id, actor=BOB)
            result = await runtime.resume(result.session_id)
            left = await runtime.artifact(result.session_id)
            assert isinstance(left, AgentResult)
            assert (left.status, left.output, left.content_hash) == (
                "COMMITTED",
                {"x": "w"},
                digest({"x": "w"}),
            )
            assert left.provenance.plan_hash == course.hash
            assert left.provenance.evidence_refs == (fact.id,)
            assert left.provenance.tool_invocations == tuple(workshop.keys)
            assert left.provenance.approver == "bob"
            assert left.audit.loop_trace == (
                "PLAN",
                "DECOMPOSE",
                "RETRIEVE",
                "REVIEW",
                "ACT",
                "VERIFY",
                "COMMIT",
            )
            assert [entry.call.step_id for entry in left.audit.all_tool_traces] == ["a", "w"]
            assert (left.audit.total_cost_microcents, left.audit.total_latency_ms) == (40, 250)
            assert set(left.audit.final_quality_scores) == {"policy", "utility", "latency", "safety", "cost"}
            stored = await journal.checkpoints("default", result.session_id)
            assert left.audit.all_checkpoints == tuple(each.hash for each in stored if each.kind == "point")

    workshop.run(main())


@pytest.mark.req("R52", "R157", "R219")
def test_fail_leaves_a_report_with_its_reason(workshop: Workshop, url: str) -> None:
    """A refused plan, a run that was abandoned and one that ran out of iterations each say why, and what to type next."""
    tools(workshop)

    async def main() -> None:
        async with workshop.journal(url) as journal:
            async with workshop.runtime(workshop.pack(gates=(BOSS,)), journal) as runtime:
                refused = await runtime.run(ASK, plan=plan(step("a", "no.such")), actor=ADA)
                broken = await runtime.run(ASK, plan=plan(step("a", "break.it")), actor=ADA)
                assert broken.gate is not None
                await runtime.decide(broken.gate.id, "abandon", actor=BOB, note="not worth it")
                await runtime.resume(broken.session_id)
            pack = workshop.pack(gates=(BOSS,), budget={"max_iterations": 2})
            async with workshop.runtime(pack, journal) as runtime:
                endless = await runtime.run(ASK, plan=plan(step("a")), actor=ADA)
                for session, status, reason in (
                    (refused.session_id, "failed", "no.such which is not in the surface"),
                    (broken.session_id, "failed", "abandoned by bob: not worth it"),
                    (endless.session_id, "failed", "iteration_budget_exceeded"),
                ):
                    report = await runtime.artifact(session)
                    assert isinstance(report, FailureReport)
                    assert (report.status, report.rollback) == (status, None)
                    assert reason in report.reason
                    assert report.next_commands == (f"tercet sessions show {session}",)
                    assert report.checkpoint is not None
                report = await runtime.artifact(broken.session_id)
                assert isinstance(report, FailureReport)
                assert report.diagnosis == ("step a: not yet",)

    workshop.run(main())


@pytest.mark.req("R52", "R158", "R219")
def test_halt_leaves_a_checkpoint_that_can_be_resumed(workshop: Workshop, url: str) -> None:
    """At a gate and in a pause there is a record with the newest checkpoint and the gate; resuming goes on from it."""
    tools(workshop)
    pack = workshop.pack(gates=(BOSS,))
    course = plan(step("a"), step("w", "wipe.it", depends_on=("a",)))

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=course, actor=ADA)
            session = result.session_id
            assert result.gate is not None
            waiting = await runtime.artifact(session)
            assert isinstance(waiting, HaltRecord)
            assert waiting.gate == result.gate.id
            stored = {each.hash for each in await journal.checkpoints("default", session)}
            assert waiting.checkpoint in stored
            await runtime.approve(result.gate.id, actor=BOB)
            await runtime.pause(session, actor=BOB, note="lunch")
            paused = await runtime.artifact(session)
            assert isinstance(paused, HaltRecord)
            assert (paused.reason, paused.gate) == ("paused by bob: lunch", None)
            assert (await runtime.resume(session)).status == "completed"
            assert isinstance(await runtime.artifact(session), AgentResult)

    workshop.run(main())
    assert [name for name, _ in workshop.calls] == ["a", "w"]


def test_a_session_on_its_way_has_left_nothing(workshop: Workshop) -> None:
    """While nobody knows how a session ends there is no artifact, and no session has none that says so."""
    tools(workshop)
    death = Death("before_call")

    async def main() -> None:
        async with workshop.journal("memory:") as journal:

            async def life() -> Any:
                async with workshop.runtime(workshop.pack(gates=(BOSS,)), journal, crash=death) as runtime:
                    return await runtime.run(ASK, plan=plan(step("a")), actor=ADA)

            assert await death.of(life()) is None
            async with workshop.runtime(workshop.pack(gates=(BOSS,)), journal) as runtime:
                [row] = await runtime.sessions()
                for session, code in ((row.session_id, "no_artifact"), ("ses_none", "unknown_session")):
                    with pytest.raises(UsageError) as caught:
                        await runtime.artifact(session)
                    assert caught.value.code == code

    workshop.run(main())
