"""Pins: a session goes on in the pack and with the evidence that it was started with, or an operator moves it."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.errors import UsageError
from tercet.contracts.evidence import Evidence
from tercet.contracts.runs.record import FailureReport
from tercet.core import events as e
from tercet.packs.pack import Pack

from .test_runs import Script
from .test_sagas import BOSS, undone, world
from .test_unsettled import lost
from .workshop import ADA, ASK, BOB, Workshop, events, names, plan, step

WAITS = plan(step("a"), step("w", "wipe.it", depends_on=("a",)))


def fact(total: int) -> Evidence:
    """What is known of an order."""
    return Evidence.model_validate(
        {
            "id": "kg:order:o1#snapshot_s1",
            "classification": "order",
            "content": {"total": total},
            "source": "t",
        }
    )


def pack_of(workshop: Workshop, version: str = "1.0.0", **header: Any) -> Pack:
    """A version of a pack."""
    return workshop.pack(gates=(BOSS,), version=version, on_failure="compensate", **header)


@pytest.mark.req("R253", "R264", "R326", "R328")
def test_a_moved_pack_is_refused_and_an_operator_chooses(workshop: Workshop, url: str) -> None:
    """Under another version nothing goes on by itself; migrated, the plan is reviewed anew, what was approved is void,
    and what was done stays done."""
    world(workshop)
    old, new = pack_of(workshop), pack_of(workshop, "1.1.0")

    async def main() -> None:
        async with workshop.journal(url) as journal:
            async with workshop.runtime(old, journal) as runtime:
                result = await runtime.run(ASK, plan=WAITS, actor=ADA)
                session = result.session_id
                assert result.gate is not None
                await runtime.approve(result.gate.id, actor=BOB)
            async with workshop.runtime(new, journal) as runtime:
                before = await runtime.state(session)
                with pytest.raises(UsageError) as caught:
                    await runtime.resume(session)
                assert caught.value.code == "pack_version_mismatch"
                assert "migrate" in (caught.value.remedy or "")
                assert await runtime.state(session) == before
                moved = await runtime.migrate(session, actor=BOB)
                assert moved.status == "awaiting_gate"
                assert moved.gate is not None
                assert moved.gate.id != result.gate.id
                with pytest.raises(UsageError) as caught:
                    await runtime.approve(result.gate.id, actor=BOB)
                assert caught.value.code == "gate_not_open"
                row = await runtime.session(session)
                assert row.pack_pin == "workshop@1.1.0"
                found = await events(journal, session)
                [migrated] = [event for event in found if isinstance(event, e.SessionMigrated)]
                assert (migrated.by, migrated.pack_hash) == ("bob", new.hash)
                assert names(found)[names(found).index("session_migrated") :].count("plan_reviewed") == 1
                await runtime.approve(moved.gate.id, actor=BOB)
                assert (await runtime.resume(session)).status == "completed"

    workshop.run(main())
    assert [name for name, _ in workshop.calls] == ["a", "w"]


@pytest.mark.req("R264")
@pytest.mark.parametrize("by", ["old", "new", "without the tool"])
def test_the_operator_may_also_end_it(workshop: Workshop, url: str, by: str) -> None:
    """A session of a pack that has moved on is cancelled without its pack. Its effects are taken back by whoever has
    that, or in the new pack once it was moved there; what the new pack does not know is left to an operator."""
    world(workshop)
    old = pack_of(workshop)
    if by == "without the tool":
        workshop.tools = [tool for tool in workshop.tools if tool.name != "do.it"]
    new = pack_of(workshop, "1.1.0")

    async def main() -> None:
        async with workshop.journal(url) as journal:
            async with workshop.runtime(old, journal) as runtime:
                session = (await runtime.run(ASK, plan=WAITS, actor=ADA)).session_id
            async with workshop.runtime(new, journal) as runtime:
                await runtime.cancel(session, actor=BOB)
                assert (await runtime.state(session)).ending == "cancelled"
                with pytest.raises(UsageError) as caught:
                    await runtime.resume(session)
                assert caught.value.code == "pack_version_mismatch"
            async with workshop.runtime(old if by == "old" else new, journal) as runtime:
                ended = await (
                    runtime.resume(session) if by == "old" else runtime.migrate(session, actor=BOB)
                )
                assert ended.status == "cancelled"
                report = await runtime.artifact(session)
                assert isinstance(report, FailureReport)
                assert report.rollback is not None
                assert report.rollback.success == (by != "without the tool")

    workshop.run(main())
    assert undone(workshop) == ([] if by == "without the tool" else ["a"])


@pytest.mark.req("R253", "R328")
def test_changed_evidence_is_refused_and_can_be_moved_to(workshop: Workshop, url: str) -> None:
    """The same snapshot with other content is another one: nothing goes on with it until somebody says so."""
    world(workshop)
    course = plan(step("a"), step("w", "wipe.it", depends_on=("a",), evidence_refs=(fact(1).id,)))

    async def main() -> None:
        async with workshop.journal(url) as journal:
            async with workshop.runtime(pack_of(workshop, evidence=(fact(1),)), journal) as runtime:
                result = await runtime.run(ASK, plan=course, actor=ADA)
                session = result.session_id
            async with workshop.runtime(pack_of(workshop, evidence=()), journal) as runtime:
                with pytest.raises(UsageError) as caught:
                    await runtime.resume(session)
                assert caught.value.code == "snapshot_version_mismatch"
            async with workshop.runtime(pack_of(workshop, evidence=(fact(2),)), journal) as runtime:
                with pytest.raises(UsageError) as caught:
                    await runtime.resume(session)
                assert caught.value.code == "snapshot_version_mismatch"
                moved = await runtime.migrate(session, actor=BOB)
                assert moved.gate is not None
                assert moved.gate.shown["evidence"][0]["content"] == {"total": 2}

    workshop.run(main())


@pytest.mark.req("R252", "R253")
@pytest.mark.parametrize("resume", ["same", "pinned"])
def test_a_pack_that_is_still_installed_goes_on_where_that_is_allowed(
    workshop: Workshop, url: str, resume: str
) -> None:
    """With `resume = "pinned"` a runtime of the new version that also has the old one goes on under the old one."""
    world(workshop)
    old, new = pack_of(workshop), pack_of(workshop, "2.0.0", session={"resume": resume})

    async def main() -> None:
        async with workshop.journal(url) as journal:
            async with workshop.runtime(old, journal) as runtime:
                result = await runtime.run(ASK, plan=WAITS, actor=ADA)
                assert result.gate is not None
                await runtime.approve(result.gate.id, actor=BOB)
            async with workshop.runtime(new, journal, packs=[old]) as runtime:
                if resume == "same":
                    with pytest.raises(UsageError) as caught:
                        await runtime.resume(result.session_id)
                    assert caught.value.code == "pack_version_mismatch"
                    return
                assert (await runtime.resume(result.session_id)).status == "completed"
                assert (await runtime.session(result.session_id)).pack_pin == "workshop@1.0.0"
                fresh = await runtime.run(ASK, plan=plan(step("a")), actor=ADA)
                assert (await runtime.session(fresh.session_id)).pack_pin == "workshop@2.0.0"

    workshop.run(main())


def test_a_plan_that_the_new_pack_does_not_allow_is_refused(workshop: Workshop, url: str) -> None:
    """A session moved to a pack without the tool of its plan fails at review, and nothing that was approved is called."""
    world(workshop)
    old = pack_of(workshop)
    workshop.tools = [tool for tool in workshop.tools if tool.name != "wipe.it"]
    new = pack_of(workshop, "2.0.0")

    async def main() -> None:
        async with workshop.journal(url) as journal:
            async with workshop.runtime(old, journal) as runtime:
                result = await runtime.run(ASK, plan=WAITS, actor=ADA)
                assert result.gate is not None
                await runtime.approve(result.gate.id, actor=BOB)
            async with workshop.runtime(new, journal) as runtime:
                moved = await runtime.migrate(result.session_id, actor=BOB)
                assert moved.verdict is not None
                assert (moved.status, moved.verdict.code) == ("failed", "tool_not_surfaced")

    workshop.run(main())
    assert [name for name, _ in workshop.calls] == ["a", "~a"]


def test_what_happened_and_failed_is_not_called_again_elsewhere(workshop: Workshop, url: str) -> None:
    """A call whose result was unusable took effect: under another pack it is handed to a person again, not made again."""
    workshop.tool("do.it", result={"type": "object", "required": ["refund"]})

    async def main() -> None:
        async with workshop.journal(url) as journal:
            async with workshop.runtime(workshop.pack(), journal) as runtime:
                session = (await runtime.run(ASK, plan=plan(step("a")), actor=ADA)).session_id
            async with workshop.runtime(workshop.pack(version="1.1.0"), journal) as runtime:
                moved = await runtime.migrate(session, actor=BOB)
                assert (moved.status, moved.gate and moved.gate.kind) == ("paused", "escalation")
                assert "step a is done, but failed" in moved.reason

    workshop.run(main())
    assert workshop.calls == [("a", 1)]


@pytest.mark.parametrize("happened", [True, False])
@pytest.mark.parametrize("by", ["caller", "planner"])
def test_a_lost_call_is_not_forgotten_elsewhere(
    workshop: Workshop, url: str, by: str, happened: bool
) -> None:
    """Moved to a pack that does not know the tool of a call which may have happened, a session plans nothing anew: it
    asks whether it did, and ends; what happened is left to an operator."""
    workshop.tool("do.it", lost, reversibility="compensable", no_compensation="done is done")
    workshop.tool("other.it", mode="read_only")
    old, course = pack_of(workshop), plan(step("a"), step("b", "other.it"))
    workshop.tools = workshop.tools[1:]
    new, other = pack_of(workshop, "1.1.0"), Script(plan(step("b", "other.it")))
    started: dict[str, Any] = {"plan": course} if by == "caller" else {"planner": Script(course)}

    async def main() -> None:
        async with workshop.journal(url) as journal:
            async with workshop.runtime(old, journal) as runtime:
                session = (await runtime.run(ASK, actor=ADA, **started)).session_id
            async with workshop.runtime(new, journal) as runtime:
                moved = await runtime.migrate(session, actor=BOB, planner=other)
                assert moved.gate is not None
                assert (moved.gate.kind, moved.gate.step) == ("reconcile", "a")
                assert (moved.gate.shown["tool"], moved.gate.shown["params"]) == ("do.it", {"n": "a"})
                await runtime.settle(
                    moved.gate.id, happened=happened, value=1 if happened else None, actor=BOB
                )
                assert (await runtime.resume(session, planner=other)).status == "failed"
                report = await runtime.artifact(session)
                assert isinstance(report, FailureReport)
                left = report.rollback.log if report.rollback is not None else ()
                assert [entry.step_id for entry in left if entry.note] == (["a"] if happened else [])

    workshop.run(main())
    assert [name for name, _ in workshop.calls] == ["a", "b"]


def test_what_was_accepted_is_brought_to_its_end_elsewhere(workshop: Workshop, url: str) -> None:
    """A session that a person accepted as it was, and whose pack is gone before it ended, ends completed in the new one."""
    workshop.tool("do.it", result={"type": "object", "required": ["refund"]})

    async def main() -> None:
        async with workshop.journal(url) as journal:
            async with workshop.runtime(workshop.pack(), journal) as runtime:
                result = await runtime.run(ASK, plan=plan(step("a")), actor=ADA)
                assert result.gate is not None
                await runtime.decide(result.gate.id, "accept_partial", actor=BOB)
            async with workshop.runtime(workshop.pack(version="1.1.0"), journal) as runtime:
                moved = await runtime.migrate(result.session_id, actor=BOB)
                assert (moved.status, moved.reason) == ("completed", "accepted as partial by bob")

    workshop.run(main())
    assert workshop.calls == [("a", 1)]


@pytest.mark.req("R252", "R253")
@pytest.mark.parametrize("snapshot", ["s1", "s2"])
def test_a_moved_session_keeps_the_evidence_that_it_was_moved_to(
    workshop: Workshop, url: str, snapshot: str
) -> None:
    """Where sessions go on pinned, one that was moved is resumed with the facts of the move, whatever the files say later."""
    world(workshop)

    def pinned(version: str, ref: str, total: int) -> Pack:
        evidence = fact(total).model_copy(update={"id": ref})
        return pack_of(workshop, version, evidence=(evidence,), session={"resume": "pinned"})

    ref = f"kg:order:o1#snapshot_{snapshot}"

    async def main() -> None:
        async with workshop.journal(url) as journal:
            async with workshop.runtime(pinned("1.0.0", fact(1).id, 1), journal) as runtime:
                session = (await runtime.run(ASK, plan=WAITS, actor=ADA)).session_id
            async with workshop.runtime(pinned("1.1.0", ref, 2), journal) as runtime:
                moved = await runtime.migrate(session, actor=BOB)
                assert moved.gate is not None
                await runtime.approve(moved.gate.id, actor=BOB)
            async with workshop.runtime(pinned("1.1.0", ref, 3), journal) as runtime:
                assert (await runtime.resume(session)).status == "completed"

    workshop.run(main())


def test_what_is_over_is_not_moved(workshop: Workshop) -> None:
    """A session that is over, and one that is not there, cannot be moved."""
    workshop.tool("do.it")

    async def main() -> None:
        async with workshop.runtime(workshop.pack()) as runtime:
            result = await runtime.run(ASK, plan=plan(step("a")), actor=ADA)
            for session, code in ((result.session_id, "session_over"), ("ses_none", "unknown_session")):
                with pytest.raises(UsageError) as caught:
                    await runtime.migrate(session, actor=BOB)
                assert caught.value.code == code

    workshop.run(main())
