"""A run that only a person can help on: what they are handed, and where each of their answers leads."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import pytest

from tercet.contracts.errors import NotDone, UsageError
from tercet.contracts.gate import Gate, HandOff
from tercet.contracts.runs.record import AgentResult, FailureReport
from tercet.core import events as e
from tercet.packs.pack import Pack
from tercet.runtime import RunResult, Runtime
from tercet.tools import ToolContext

from .test_limits import failing
from .test_runs import Script
from .workshop import ADA, ASK, BOB, Workshop, events, plan, step

BROKEN = plan(step("a"), step("f", "fail.it", depends_on=("a",)), outputs={"x": {"$from": "f#/n"}})
ONCE = {"max_step_retries": 0}


def broken(workshop: Workshop, times: int = 1, **header: Any) -> Pack:
    """A pack with a tool that fails at first, and no retries."""
    workshop.tool("do.it", no_compensation="done is done")
    workshop.tool("fail.it", failing(times))
    return workshop.pack(**{"budget": ONCE, **header})


async def escalated(runtime: Runtime, **given: Any) -> RunResult:
    """A run that was handed to a person."""
    result = await runtime.run(ASK, actor=ADA, **given)
    assert result.status == "paused"
    assert result.reason.startswith("escalated: ")
    assert result.gate is not None
    assert result.gate.kind == "escalation"
    return result


async def packet(runtime: Runtime, result: RunResult) -> HandOff:
    """What the person is given: the result has it, and the journal has it by the digest that the gate shows."""
    assert result.gate is not None
    data = await runtime.journal.blob("default", result.gate.shown["packet"])
    assert result.gate.digest == result.gate.shown["packet"]
    found = HandOff.model_validate(msgspec.json.decode(data))
    assert result.escalation == found
    return found


@pytest.mark.req("R113", "R117")
@pytest.mark.parametrize("is_callers", [True, False])
def test_a_person_is_handed_all_there_is(workshop: Workshop, url: str, is_callers: bool) -> None:
    """Plan, transcript, verdicts, the reason, what is left of the budget and what can be chosen: by its digest."""
    pack = broken(workshop, budget={"max_replans": 0, "max_step_retries": 0, "tool_calls": 7})
    given: dict[str, Any] = {"plan": BROKEN} if is_callers else {"planner": Script(BROKEN)}

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            result = await escalated(runtime, **given)
            handed = await packet(runtime, result)
            assert handed.plan["steps"] == BROKEN.model_dump(mode="json", exclude_defaults=True)["steps"]
            calls = [(each["call"]["step_id"], each["result"]["outcome"]) for each in handed.transcript]
            assert calls == [("a", "done"), ("f", "not_done")]
            assert [each["stage"] for each in handed.verdicts] == ["review", "step"]
            assert handed.reason in result.reason
            assert handed.budget_remaining["tool_calls"] == 5
            options = {"extend", "accept_partial", "abandon"}
            assert set(handed.options) == (options if is_callers else options | {"replan"})

    workshop.run(main())


@pytest.mark.req("R260")
@pytest.mark.parametrize(
    ("budget", "more", "unit"),
    [
        ({"tool_calls": 3}, {"tool_calls": 1}, "1 tool call is"),
        ({"wall_clock_ms": 600}, {"wall_clock_ms": 500}, "1 ms of wall clock is"),
    ],
)
@pytest.mark.parametrize("by", ["gate", "resume"])
def test_more_budget_lets_it_go_on(
    workshop: Workshop, url: str, budget: dict[str, int], more: dict[str, int], unit: str, by: str
) -> None:
    """A run that ran short is escalated; with more it goes on where it stood, and repeats nothing."""
    tries = iter(range(9))

    async def slow(_: ToolContext, params: dict[str, Any]) -> Any:
        await workshop.clock.sleep(100)
        if next(tries) in (0, 1):
            raise NotDone("not yet")
        return params

    workshop.tool("slow.it", slow, timeout_ms=100_000)
    both = plan(
        step("a", "slow.it"), step("b", "slow.it", depends_on=("a",)), outputs={"x": {"$from": "b#/n"}}
    )
    pack = workshop.pack(budget=budget)

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            result = await escalated(runtime, plan=both)
            assert f"{unit} needed, 0 are left" in result.reason
            assert result.gate is not None
            if by == "gate":
                assert (await runtime.decide(result.gate.id, "extend", actor=BOB, value=more)).gate is None
                result = await runtime.resume(result.session_id)
            else:
                result = await runtime.resume(result.session_id, extend=more, actor=BOB)
            assert (result.status, result.outputs) == ("completed", {"x": "b"})
            state = await runtime.state(result.session_id)
            assert state.extended == more
            assert state.used.tool_calls == len(workshop.calls) == 4

    workshop.run(main())
    assert workshop.calls == [("a", 1), ("a", 2), ("a", 3), ("b", 1)]


@pytest.mark.parametrize(
    "more", [None, {}, {"tokens": -1}, {"tokens": 0}, {"luck": 5}, {"tokens": "5"}, {"tokens": True}, [1]]
)
def test_what_is_no_extension_is_refused(workshop: Workshop, more: Any) -> None:
    """A negative, empty, unknown or untyped extension is told what one looks like, and changes nothing."""
    pack = broken(workshop)

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await escalated(runtime, plan=BROKEN)
            assert result.gate is not None
            before = await runtime.state(result.session_id)
            for answer in (
                runtime.decide(result.gate.id, "extend", actor=BOB, value=more),
                runtime.extend(result.session_id, more, actor=BOB),
            ):
                with pytest.raises(UsageError) as caught:
                    await answer
                assert caught.value.code == "wrong_extension"
            assert await runtime.state(result.session_id) == before

    workshop.run(main())


@pytest.mark.req("R159")
def test_a_person_may_ask_for_another_plan(workshop: Workshop) -> None:
    """The planner is told what the person says, its plan is reviewed, and what was done is not done again."""
    pack = broken(workshop, budget={"max_replans": 0, **ONCE})
    planner = Script(BROKEN, plan(step("a"), step("g", None), outputs={"x": {"$from": "a#/n"}}))

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await escalated(runtime, planner=planner)
            assert result.gate is not None
            answered = await runtime.decide(result.gate.id, "replan", actor=BOB, note="leave f out")
            assert (answered.status, answered.gate) == ("in_progress", None)
            result = await runtime.resume(result.session_id, planner=planner)
            assert (result.status, result.outputs) == ("completed", {"x": "a"})
            assert planner.told == [(), ("leave f out",)]

    workshop.run(main())
    assert workshop.calls == [("a", 1), ("f", 1)]


@pytest.mark.req("R159")
def test_what_there_is_may_be_accepted(workshop: Workshop) -> None:
    """Somebody else than the owner accepts: the session is completed, the report says partial and by whom."""
    pack = broken(workshop)

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await escalated(runtime, plan=BROKEN)
            assert result.gate is not None
            with pytest.raises(UsageError) as caught:
                await runtime.decide(result.gate.id, "accept_partial", actor=ADA)
            assert caught.value.code == "own_gate"
            await runtime.decide(result.gate.id, "accept_partial", actor=BOB, note="good enough")
            result = await runtime.resume(result.session_id)
            assert (result.status, result.reason) == ("completed", "accepted as partial by bob: good enough")
            record = await runtime.record(result.session_id)
            assert record.report.status == "partial"

    workshop.run(main())
    assert workshop.calls == [("a", 1), ("f", 1)]


@pytest.mark.parametrize("on_failure", ["keep", "compensate"])
def test_a_run_may_be_abandoned(workshop: Workshop, on_failure: str) -> None:
    """It ends failed, with who gave it up and why in its reason, and what it did is kept or taken back."""
    workshop.tool("undo.it")
    workshop.tool("do.it", compensate={"tool": "undo.it", "params": {"n": {"$from": "self#/n"}}})
    workshop.tool("fail.it", failing(1))
    pack = workshop.pack(budget=ONCE, on_failure=on_failure)

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await escalated(runtime, plan=BROKEN)
            assert result.gate is not None
            await runtime.decide(result.gate.id, "abandon", actor=ADA, note="too late")
            result = await runtime.resume(result.session_id)
            assert (result.status, result.reason) == ("failed", "abandoned by ada: too late")

    workshop.run(main())
    undone = [("~a", 1)] if on_failure == "compensate" else []
    assert workshop.calls == [("a", 1), ("f", 1), *undone]


def test_resuming_without_a_word_tries_again(workshop: Workshop, url: str) -> None:
    """Whoever resumes an escalated run lets what failed be tried afresh; if it fails again, another gate opens."""
    pack = broken(workshop, times=2)

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            first = await escalated(runtime, plan=BROKEN)
            second = await runtime.resume(first.session_id)
            assert second.status == "paused"
            assert first.gate is not None
            assert second.gate is not None
            assert second.gate.id != first.gate.id
            with pytest.raises(UsageError) as caught:
                await runtime.decide(first.gate.id, "abandon", actor=BOB)
            assert caught.value.code == "gate_not_open"
            assert (await runtime.resume(first.session_id)).status == "completed"

    workshop.run(main())
    assert workshop.calls == [("a", 1), ("f", 1), ("f", 2), ("f", 3)]


def test_a_callers_plan_is_not_planned_anew(workshop: Workshop) -> None:
    """Asked for another plan, a run with its caller's own says that it has no planner."""
    pack = broken(workshop)

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await escalated(runtime, plan=BROKEN)
            assert result.gate is not None
            with pytest.raises(UsageError) as caught:
                await runtime.decide(result.gate.id, "replan", actor=BOB)
            assert caught.value.code == "callers_plan"

    workshop.run(main())


def test_an_escalation_beside_an_open_gate_is_handed_over(workshop: Workshop, url: str) -> None:
    """A branch that fails while another waits for an approval: both questions are open, and each can be answered."""
    workshop.tool("fail.it", failing(1))
    workshop.tool("wipe.it", mode="destructive", authority=(), gates=("BOSS",), no_compensation="gone")
    pack = workshop.pack(budget=ONCE, gates=(Gate(name="BOSS", roles=("boss",)),))
    both = plan(step("w", "wipe.it"), step("f", "fail.it"))

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=both, actor=ADA)
            assert result.status == "paused"
            state = await runtime.state(result.session_id)
            assert {gate.kind for gate in state.gates.values()} == {"approval", "escalation"}
            [approval] = [gate.id for gate in state.gates.values() if gate.kind == "approval"]
            await runtime.approve(approval, actor=BOB)
            assert (await runtime.resume(result.session_id)).status == "completed"

    workshop.run(main())
    assert sorted(workshop.calls) == [("f", 1), ("f", 2), ("w", 1)]


def test_an_escalated_run_expires_like_any_other(workshop: Workshop) -> None:
    """Nobody takes it over before its time to live is over: it ends expired, and its gate answers nothing any more."""
    pack = broken(workshop, on_failure="keep")

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await escalated(runtime, plan=BROKEN, ttl_ms=10_000)
            assert result.gate is not None
            workshop.clock.advance(10_000)
            with pytest.raises(UsageError) as caught:
                await runtime.decide(result.gate.id, "accept_partial", actor=BOB)
            assert caught.value.code == "gate_expired"
            assert (await runtime.resume(result.session_id)).status == "expired"

    workshop.run(main())


@pytest.mark.req("R142", "R145", "R244")
@pytest.mark.parametrize("answer", ["approve", "deny"])
def test_what_a_person_must_accept_is_not_committed_before(
    workshop: Workshop, url: str, answer: Literal["approve", "deny"]
) -> None:
    """The critic has no objection, and still another person than the owner decides: committed with their name, or rejected."""
    workshop.tool("do.it", no_compensation="done is done")
    pack = workshop.pack(decision={"requires_human_approval": True}, on_failure="keep")

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=plan(step("a")), actor=ADA)
            gate = result.gate
            assert result.status == "awaiting_gate"
            assert gate is not None
            assert gate.kind == "output"
            assert gate.shown["recommended"]
            with pytest.raises(UsageError) as caught:
                await runtime.approve(gate.id, actor=ADA)
            assert caught.value.code == "own_gate"
            again = await runtime.resume(result.session_id)
            assert (again.status, again.steps_done, again.gate) == ("awaiting_gate", 1, gate)
            said = runtime.approve if answer == "approve" else runtime.deny
            await said(gate.id, actor=BOB, note="seen")
            done = await runtime.resume(result.session_id)
            left = await runtime.artifact(result.session_id)
            if answer == "approve":
                record = await runtime.record(result.session_id)
                assert done.report is not None
                assert (done.status, done.report.status) == ("completed", "completed")
                assert isinstance(left, AgentResult)
                assert left.provenance.approver == BOB.id
                assert [approval.approver for approval in record.approvals] == [BOB.id]
            else:
                assert (done.status, done.reason) == ("rejected", "bob denied the outputs: seen")
                assert isinstance(left, FailureReport)

    workshop.run(main())
    assert workshop.calls == [("a", 1)]


@pytest.mark.req("R145", "R244")
def test_outputs_that_a_person_wants_changed_go_into_repair(workshop: Workshop, url: str) -> None:
    """What they say is the first defect of REPAIR; what comes of it is verified and shown to them again."""
    workshop.tool("do.it", no_compensation="done is done")
    pack = workshop.pack(decision={"requires_human_approval": True})

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=plan(step("a"), declared_outputs=("n",)), actor=ADA)
            assert result.gate is not None
            await runtime.modify(result.gate.id, actor=BOB, note="say it in French")
            again = await runtime.resume(result.session_id)
            assert again.status in ("awaiting_gate", "paused")
            assert again.gate is not None
            assert again.gate.id != result.gate.id
            found = await events(runtime.journal, result.session_id)
            (repaired,) = [event for event in found if isinstance(event, e.OutputsRepaired)]
            (left,) = repaired.escalation["left"]
            assert left["defect"]["description"] == "say it in French"

    workshop.run(main())
