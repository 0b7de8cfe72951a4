"""People's answers: a call waits for an approval, an unknown outcome for somebody who knows."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tercet.contracts.errors import NotDone, UsageError
from tercet.contracts.gate import Gate
from tercet.contracts.policy import Policy
from tercet.core import events as e
from tercet.runtime import RunResult
from tercet.tools import ToolContext
from tercet.tools.tool import Absent, Happened

from .test_limits import failing, taking
from .test_runs import Script
from .workshop import ADA, ASK, BOB, Workshop, events, names, plan, step

BOSS = Gate(name="BOSS", roles=("boss",))


def gate_of(result: RunResult) -> str:
    """The id of the gate that a result waits at."""
    assert result.gate is not None
    assert result.status == "awaiting_gate"
    return result.gate.id


def dangerous(workshop: Workshop, **declared: Any) -> None:
    """A tool that nobody calls without a person's word."""
    workshop.tool("wipe.it", mode="destructive", gates=("BOSS",), authority=(), **declared)


def test_a_call_waits_for_its_approval(workshop: Workshop, url: str) -> None:
    """A destructive step opens a gate that shows the resolved call; once approved, exactly that call is made."""
    workshop.tool("do.it")
    dangerous(workshop)
    pack = workshop.pack(gates=(BOSS,))
    wiped = plan(
        step("a"),
        step("w", "wipe.it", params={"what": {"$from": "a#/n"}}),
        outputs={"x": {"$from": "w#/what"}},
    )

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=wiped, actor=ADA)
            gate = gate_of(result)
            assert result.gate is not None
            assert (result.gate.kind, result.gate.names, result.gate.step) == ("approval", ("BOSS",), "w")
            assert result.gate.shown["params"] == {"what": "a"}
            assert workshop.calls == [("a", 1)]
            assert (await runtime.resume(result.session_id)).status == "awaiting_gate"
            assert (await runtime.approve(gate, actor=BOB, note="fine")).status == "in_progress"
            result = await runtime.resume(result.session_id)
            assert (result.status, result.outputs) == ("completed", {"x": "a"})
            [approval] = (await runtime.record(result.session_id)).approvals
            assert (approval.gate, approval.approver, approval.note) == ("BOSS", "bob", "fine")

    workshop.run(main())
    assert workshop.calls == [("a", 1), ("w", 1)]


def test_a_denied_call_is_never_made(workshop: Workshop, url: str) -> None:
    """One no ends the run as rejected, with the one who said it in the reason and in the record."""
    dangerous(workshop)
    pack = workshop.pack(gates=(BOSS,))

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=plan(step("w", "wipe.it")), actor=ADA)
            await runtime.deny(gate_of(result), actor=BOB, note="no way")
            result = await runtime.resume(result.session_id)
            assert (result.status, result.reason, result.gate) == ("rejected", "bob denied w: no way", None)
            [approval] = (await runtime.record(result.session_id)).approvals
            assert approval.decision == "deny"

    workshop.run(main())
    assert workshop.calls == []


def test_wrong_answers_change_nothing(workshop: Workshop) -> None:
    """An unknown gate, the wrong kind of answer, the wrong person and a second answer are each told what is wrong."""
    dangerous(workshop)
    pack = workshop.pack(gates=(BOSS,))

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=plan(step("w", "wipe.it")), actor=ADA)
            gate = gate_of(result)
            before = await runtime.state(result.session_id)
            for code, answer in (
                ("unknown_gate", runtime.approve("gate", actor=BOB)),
                ("unknown_session", runtime.approve("ses_none.g1", actor=BOB)),
                ("gate_not_open", runtime.approve(f"{result.session_id}.g9", actor=BOB)),
                ("wrong_answer", runtime.settle(gate, happened=True, actor=BOB)),
                ("own_gate", runtime.approve(gate, actor=ADA)),
            ):
                with pytest.raises(UsageError) as caught:
                    await answer
                assert caught.value.code == code
            assert await runtime.state(result.session_id) == before
            await runtime.approve(gate, actor=BOB)
            with pytest.raises(UsageError) as caught:
                await runtime.deny(gate, actor=BOB)
            assert caught.value.code == "gate_not_open"
            assert (await runtime.resume(result.session_id)).status == "completed"

    workshop.run(main())


def test_the_owner_cannot_approve_an_unnamed_gate_either(workshop: Workshop) -> None:
    """A call that waits for a person by its mode alone waits for another person than the one who asked for it."""
    workshop.tool("net.it", mode="network", authority=(), no_compensation="it only tells")

    async def main() -> None:
        async with workshop.runtime(workshop.pack()) as runtime:
            result = await runtime.run(ASK, plan=plan(step("a", "net.it")), actor=ADA)
            gate = gate_of(result)
            assert result.gate is not None
            assert result.gate.names == ()
            with pytest.raises(UsageError) as caught:
                await runtime.approve(gate, actor=ADA)
            assert caught.value.code == "own_gate"
            assert (await runtime.resume(result.session_id)).status == "awaiting_gate"
            assert workshop.calls == []
            await runtime.approve(gate, actor=BOB)
            assert (await runtime.resume(result.session_id)).status == "completed"

    workshop.run(main())


def test_a_gate_of_the_decision_or_of_a_policy_is_asked_for_too(workshop: Workshop) -> None:
    """Whoever demands the gate, no effect comes before its answer; a condition is decided on the resolved call."""
    workshop.tool("read.it", mode="read_only")
    workshop.tool("do.it")
    steps = (
        step("r", "read.it", params={"n": 900}),
        step("small", params={"sum": 5}),
        step("big", params={"sum": {"$from": "r#/n"}}),
    )
    much = Gate(name="MUCH", roles=("boss",), when="args.sum > 100")
    policy = Policy(
        name="much",
        scope="step",
        expression="!has(step.params.sum) || int(step.params.sum) <= 100",
        effect="gate",
        gate="BOSS",
    )
    cases: list[tuple[dict[str, Any], dict[str, Any], set[tuple[str, str]]]] = [
        ({"gates": ("BOSS",)}, {"gates": (BOSS,)}, {("small", "BOSS"), ("big", "BOSS")}),
        ({"gates": ("MUCH",)}, {"gates": (much,)}, {("big", "MUCH")}),
        ({}, {"gates": (BOSS,), "policies": (policy,)}, {("big", "BOSS")}),
    ]

    async def main() -> None:
        for decision, header, demanded in cases:
            workshop.calls.clear()
            async with workshop.runtime(workshop.pack(decision=decision, **header)) as runtime:
                result = await runtime.run(ASK, plan=plan(*steps), actor=ADA)
                state = await runtime.state(result.session_id)
                assert {(gate.step, name) for gate in state.gates.values() for name in gate.names} == demanded
                assert {name for name, _ in workshop.calls} == {"r", "small"} - {one for one, _ in demanded}
                for gate in state.gates:
                    await runtime.approve(gate, actor=BOB)
                assert (await runtime.resume(result.session_id)).status == "completed"

    workshop.run(main())


def test_an_answer_reaches_a_session_that_is_being_driven(workshop: Workshop, url: str) -> None:
    """While another branch runs, the session is in progress; an approval is durable when it returns, and counts once."""
    workshop.tool("slow.it", taking(10_000))
    dangerous(workshop)
    pack = workshop.pack(gates=(BOSS,))

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            running = asyncio.ensure_future(
                runtime.run(ASK, plan=plan(step("w", "wipe.it"), step("s", "slow.it")), actor=ADA)
            )
            await workshop.clock.sleep(1_000)
            [row] = await runtime.sessions()
            assert row.status == "in_progress"
            gate = f"{row.session_id}.g1"
            answers = [runtime.approve(gate, actor=BOB), runtime.approve(gate, actor=BOB)]
            both = await asyncio.gather(*answers, return_exceptions=True)
            [heard] = [answer for answer in both if isinstance(answer, RunResult)]
            [late] = [answer for answer in both if isinstance(answer, UsageError)]
            assert (heard.session_id, late.code) == (row.session_id, "gate_not_open")
            assert "gate_answered" in names(await events(journal, row.session_id))
            with pytest.raises(UsageError, match="already running in this process"):
                await runtime.resume(row.session_id)
            assert (await running).status == "completed"

    workshop.run(main())
    assert workshop.calls == [("s", 1), ("w", 1)]


def test_a_denial_waits_for_the_calls_in_flight(workshop: Workshop) -> None:
    """What has begun is seen to its end and recorded, and nothing new begins; then the run ends."""
    workshop.tool("slow.it", taking(10_000))
    dangerous(workshop)
    pack = workshop.pack(gates=(BOSS,))

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            proposed = plan(
                step("w", "wipe.it"), step("s", "slow.it"), step("t", "slow.it", depends_on=("s",))
            )
            running = asyncio.ensure_future(runtime.run(ASK, plan=proposed, actor=ADA))
            await workshop.clock.sleep(1_000)
            [row] = await runtime.sessions()
            await runtime.deny(f"{row.session_id}.g1", actor=BOB)
            result = await running
            assert result.status == "rejected"
            [entry] = (await runtime.record(result.session_id)).transcript
            assert (entry.call.step_id, entry.result.outcome) == ("s", "done")

    workshop.run(main())
    assert workshop.calls == [("s", 1)]


def test_a_retry_beside_an_open_gate_is_progress(workshop: Workshop) -> None:
    """A session whose other branch backs off is not waiting for a person, and its wall clock runs."""
    workshop.tool("flaky.it", failing(2))
    dangerous(workshop)
    pack = workshop.pack(gates=(BOSS,))
    seen: list[tuple[str, str]] = []

    async def main() -> None:
        def tell(state: Any, event: e.Event) -> None:
            seen.append((names([event])[0], state.status))

        async with workshop.runtime(pack, tell=tell) as runtime:
            result = await runtime.run(ASK, plan=plan(step("w", "wipe.it"), step("f", "flaky.it")), actor=ADA)
            assert result.status == "awaiting_gate"
            assert (await runtime.state(result.session_id)).used.wall_clock == 150 + 250

    workshop.run(main())
    assert {status for name, status in seen if name == "retry_scheduled"} == {"in_progress"}


def test_waiting_for_a_person_costs_no_wall_clock(workshop: Workshop) -> None:
    """A night at a gate, and a night in which no process had the session, use up nothing."""
    dangerous(workshop)
    workshop.tool("do.it", taking(100))
    patient = BOSS.model_copy(update={"ttl_ms": 10**9})
    pack = workshop.pack(gates=(patient,), budget={"wall_clock_ms": 1_000})

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(
                ASK, plan=plan(step("a"), step("w", "wipe.it", depends_on=("a",))), actor=ADA
            )
            workshop.clock.advance(10**8)
            await runtime.approve(gate_of(result), actor=BOB)
            workshop.clock.advance(10**8)
            assert (await runtime.resume(result.session_id)).status == "completed"
            assert (await runtime.state(result.session_id)).used.wall_clock == 100

    workshop.run(main())


def test_a_replan_voids_open_gates(workshop: Workshop) -> None:
    """An approval of a call that its plan no longer makes is refused, and no later gate has its id."""
    workshop.tool("fail.it", failing(99))
    dangerous(workshop)
    first = plan(step("w", "wipe.it", params={"n": 1}), step("f", "fail.it"))
    planner = Script(first, plan(step("w", "wipe.it", params={"n": 2})))
    pack = workshop.pack(gates=(BOSS,), budget={"max_step_retries": 0})

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, planner=planner, actor=ADA)
            assert result.gate is not None
            assert result.gate.shown["params"] == {"n": 2}
            assert gate_of(result) == f"{result.session_id}.g2"
            with pytest.raises(UsageError, match="is not open"):
                await runtime.approve(f"{result.session_id}.g1", actor=BOB)
            await runtime.approve(gate_of(result), actor=BOB)
            assert (await runtime.resume(result.session_id)).status == "completed"

    workshop.run(main())


# --- unknown outcomes ---


def lost(workshop: Workshop, **declared: Any) -> list[str]:
    """A tool that takes effect and then loses its answer, once; the list says under which keys it took effect."""
    effects: list[str] = []

    async def behave(context: ToolContext, params: dict[str, Any]) -> Any:
        is_first = not effects
        if not (declared.get("idempotent") and context.idempotency_key in effects):
            effects.append(context.idempotency_key)
        if is_first:
            raise ConnectionResetError("gone")
        return {"n": 7}

    workshop.tool("pay.it", behave, cost_microcents=3, **declared)
    return effects


PAID = plan(step("p", "pay.it"), outputs={"n": {"$from": "p#/n"}})


@pytest.mark.req("R133")
@pytest.mark.parametrize("mode", ["read_only", "local_write"])
def test_low_modes_run_inline(workshop: Workshop, mode: str) -> None:
    """A read_only or local_write step is called without a gate, a grant or an approval of any kind."""
    workshop.tool("do.it", mode=mode, no_compensation="nothing to undo")

    async def main() -> None:
        async with workshop.runtime(workshop.pack()) as runtime:
            result = await runtime.run(ASK, plan=plan(step("a")), actor=ADA)
            assert result.status == "completed"
            found = names(await events(runtime.journal, result.session_id))
            assert not {"gate_opened", "gate_answered", "approval_granted"} & set(found)

    workshop.run(main())
    assert workshop.calls == [("a", 1)]


@pytest.mark.req("R110", "R111", "R323")
def test_an_idempotent_tool_is_called_again_under_its_key(workshop: Workshop, url: str) -> None:
    """The second call carries the same key, and the effect happened once."""
    effects = lost(workshop, idempotent=True)

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(workshop.pack(), journal) as runtime:
            result = await runtime.run(ASK, plan=PAID)
            assert (result.status, result.outputs) == ("completed", {"n": 7})

    workshop.run(main())
    assert (workshop.calls, len(effects)) == ([("p", 1), ("p", 2)], 1)


@pytest.mark.req("R110", "R153", "R323")
def test_a_tool_that_can_look_a_key_up_is_asked(workshop: Workshop) -> None:
    """Found is taken with its cost, and the call is not made again."""
    effects: list[str] = []

    async def look(context: ToolContext) -> Any:
        return Happened({"n": 8}) if context.idempotency_key in effects else Absent()

    effects = lost(workshop, reconcile=look)

    async def main() -> None:
        async with workshop.runtime(workshop.pack()) as runtime:
            result = await runtime.run(ASK, plan=PAID)
            assert (result.status, result.outputs) == ("completed", {"n": 8})
            used = (await runtime.state(result.session_id)).used
            assert (used.tool_calls, used.cost, used.steps) == (1, 3, 1)

    workshop.run(main())
    assert (workshop.calls, len(effects)) == ([("p", 1)], 1)


def test_an_absent_key_is_believed_only_after_its_time(workshop: Workshop) -> None:
    """Nothing found is asked about again until `settle_after_ms` has passed, and only then is the call repeated."""
    asked: list[int] = []

    async def look(context: ToolContext) -> Any:
        asked.append(workshop.clock.now())
        return Absent()

    workshop.tool("pay.it", failing(1, OSError("lost")), reconcile=look, settle_after_ms=5_000)

    async def main() -> None:
        began = workshop.clock.now()
        async with workshop.runtime(workshop.pack()) as runtime:
            result = await runtime.run(ASK, plan=plan(step("p", "pay.it")))
            assert result.status == "completed"
            assert [at - began for at in asked] == [0, 5_000]
            found = await events(runtime.journal, result.session_id)
            assert [event.how for event in found if isinstance(event, e.Settled)] == ["ask_again", "absent"]

    workshop.run(main())
    assert workshop.calls == [("p", 1), ("p", 2)]


@pytest.mark.parametrize(
    ("raises", "why"),
    [
        (True, "lost; the look-up of pay.it raised OSError: the ledger is down"),
        (
            False,
            "lost; the look-up of pay.it returned None: return Happened(value), Absent() or Unknown(reason)",
        ),
    ],
)
def test_a_look_up_that_keeps_failing_ends_at_a_person(workshop: Workshop, raises: bool, why: str) -> None:
    """Three look-ups without an answer, each later than the one before; then a gate that says why."""

    async def look(context: ToolContext) -> Any:
        if raises:
            raise OSError("the ledger is down")

    workshop.tool("pay.it", failing(1, OSError("lost")), reconcile=look)

    async def main() -> None:
        async with workshop.runtime(workshop.pack()) as runtime:
            result = await runtime.run(ASK, plan=plan(step("p", "pay.it")))
            assert result.gate is not None
            assert (result.gate.kind, result.gate.step) == ("reconcile", "p")
            assert str(result.gate.shown["why"]).endswith(why)
            await runtime.settle(gate_of(result), happened=True, value={"n": 1}, actor=BOB)
            assert (await runtime.resume(result.session_id)).status == "completed"

    workshop.run(main())
    assert workshop.calls == [("p", 1)]


@pytest.mark.req("R110", "R156")
@pytest.mark.parametrize("happened", [True, False])
def test_a_tool_that_declares_nothing_is_never_repeated_blindly(
    workshop: Workshop, url: str, happened: bool
) -> None:
    """Only a person says whether it happened: then its result is taken as told, or the call is made again."""
    lost(workshop)

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(workshop.pack(), journal) as runtime:
            result = await runtime.run(ASK, plan=PAID, actor=ADA)
            assert result.gate is not None
            assert result.gate.kind == "reconcile"
            assert result.gate.shown["tool"] == "pay.it"
            assert workshop.calls == [("p", 1)]
            with pytest.raises(UsageError, match="takes happened or did-not-happen, not approve"):
                await runtime.approve(gate_of(result), actor=BOB)
            with pytest.raises(UsageError, match="no JSON"):
                await runtime.settle(gate_of(result), happened=True, value=float("nan"), actor=BOB)
            value = {"n": 9} if happened else None
            await runtime.settle(gate_of(result), happened=happened, value=value, actor=BOB)
            result = await runtime.resume(result.session_id)
            assert (result.status, result.outputs) == ("completed", {"n": 9 if happened else 7})
            used = (await runtime.state(result.session_id)).used
            assert (used.tool_calls, used.cost) == (1 if happened else 2, 3)

    workshop.run(main())
    assert workshop.calls == [("p", 1)] if happened else [("p", 1), ("p", 2)]


@pytest.mark.req("R110")
def test_no_plan_is_left_with_an_unknown_outcome(workshop: Workshop) -> None:
    """A failure beside an unknown outcome is judged after a person has settled it: a new plan repeats nothing blindly."""
    lost(workshop)

    async def fail(_: ToolContext, params: dict[str, Any]) -> Any:
        await asyncio.sleep(1)
        raise NotDone("no")

    workshop.tool("fail.it", fail)
    first = plan(step("p", "pay.it"), step("f", "fail.it"))
    planner = Script(first, plan(step("p", "pay.it"), step("g", None)))
    pack = workshop.pack(budget={"max_step_retries": 0})

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, planner=planner, actor=ADA)
            assert len(planner.told) == 1
            await runtime.settle(gate_of(result), happened=True, value={"n": 1}, actor=BOB)
            result = await runtime.resume(result.session_id, planner=planner)
            assert result.status == "completed"

    workshop.run(main())
    assert workshop.calls == [("p", 1), ("f", 1)]
