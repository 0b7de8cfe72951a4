"""Taking effects back: the last one first, once each, whatever ended the run and whatever dies meanwhile."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tercet.contracts.errors import NotDone, UsageError
from tercet.contracts.gate import Gate
from tercet.contracts.plan import Plan
from tercet.contracts.request import Actor
from tercet.contracts.runs.record import FailureReport
from tercet.contracts.runs.saga import RollbackStatus
from tercet.core import events as e
from tercet.engine.values import LARGE
from tercet.executor.breaker import CircuitBreaker
from tercet.journal.protocol import Journal
from tercet.packs.pack import Pack
from tercet.runtime import RunResult, Runtime
from tercet.tools import ToolContext
from tercet.tools.tool import Absent, Happened
from tercet.view.gate import question_text

from .test_limits import failing
from .test_runs import Script
from .workshop import ADA, ASK, BOB, Behave, Death, Workshop, echo, events, plan, step

EVE = Actor(id="eve")
BOSS = Gate(name="BOSS", roles=("boss",), ttl_ms=60_000)
UNDO = {"tool": "undo.it", "params": {"n": {"$from": "self#/n"}}}
WAITS = plan(step("a"), step("b", depends_on=("a",)), step("w", "wipe.it", depends_on=("b",)))


def refusing() -> Behave:
    """A tool that never does what it should, and says so."""

    async def behave(_: ToolContext, __: dict[str, Any]) -> Any:
        raise NotDone("out of order", code="broken")

    return behave


def world(workshop: Workshop, undo: Behave = echo, **declared: Any) -> None:
    """A tool that can be taken back, the tool that does so, and one that nobody calls without a person's word."""
    workshop.tool("do.it", compensate=UNDO, reversibility="compensable")
    given: dict[str, Any] = {"idempotent": True, "no_compensation": "it takes back", **declared}
    workshop.tool("undo.it", undo, **given)
    workshop.tool(
        "wipe.it", mode="destructive", gates=("BOSS",), authority=(), no_compensation="gone is gone"
    )


def saga_pack(workshop: Workshop, on_failure: str = "compensate", **header: Any) -> Pack:
    """A pack whose failed runs are taken back."""
    return workshop.pack(gates=(BOSS,), on_failure=on_failure, **header)


def undone(workshop: Workshop) -> list[str]:
    """The steps that a compensating call was made for, in order."""
    return [name.removeprefix("~") for name, _ in workshop.calls if name.startswith("~")]


async def denied(runtime: Runtime, course: Plan = WAITS) -> RunResult:
    """A run that somebody has denied, not resumed yet."""
    result = await runtime.run(ASK, plan=course, actor=ADA)
    assert result.gate is not None
    return await runtime.deny(result.gate.id, actor=BOB)


async def report_of(runtime: Runtime, session: str) -> FailureReport:
    """What a run that failed has left."""
    report = await runtime.artifact(session)
    assert isinstance(report, FailureReport)
    return report


async def end_by(how: str, workshop: Workshop, runtime: Runtime) -> RunResult:
    """Let a run that has done two steps end without success, in one of the ways there are."""
    result = await runtime.run(ASK, plan=WAITS, actor=ADA)
    assert result.gate is not None
    match how:
        case "deny":
            await runtime.deny(result.gate.id, actor=BOB)
        case "cancel":
            await runtime.cancel(result.session_id, actor=ADA)
        case "cancel paused":
            await runtime.approve(result.gate.id, actor=BOB)
            await runtime.pause(result.session_id, actor=ADA)
            await runtime.cancel(result.session_id, actor=ADA)
        case "gate expires":
            await workshop.clock.sleep(60_000)
        case _:
            await workshop.clock.sleep(100_000)
    return await runtime.resume(result.session_id)


async def test_an_open_circuit_does_not_withhold_a_compensation(workshop: Workshop, url: str) -> None:
    """The tool has failed in other runs: the effects of this one are undone all the same."""
    world(workshop, failing(CircuitBreaker().threshold, OSError("down")))
    async with workshop.journal(url) as journal, workshop.runtime(saga_pack(workshop), journal) as runtime:
        result = await denied(runtime)
        for _ in range(2):
            await runtime.run(ASK, plan=plan(step("u", "undo.it", params={"n": 1})), actor=ADA)
        ended = await runtime.resume(result.session_id)
        found = await events(journal, result.session_id)
        assert (ended.status, undone(workshop)) == ("rejected", ["b", "a"])
        circuits = [
            each.breaker for each in found if isinstance(each, e.Intent) and each.step.startswith("~")
        ]
        assert circuits == ["OPEN", "CLOSED"]


@pytest.mark.req("R233")
@pytest.mark.parametrize(
    ("how", "status"),
    [
        ("deny", "rejected"),
        ("cancel", "cancelled"),
        ("cancel paused", "cancelled"),
        ("gate expires", "expired"),
        ("session expires", "expired"),
    ],
)
async def test_whatever_ends_a_run_its_effects_are_taken_back_in_reverse(
    workshop: Workshop, url: str, how: str, status: str
) -> None:
    """A denial, a cancellation and an expiry each lead to the compensations, the last effect first, and only then end."""
    world(workshop)
    rules = {"ttl_ms": 90_000 if how == "session expires" else 10**9}
    gates = (BOSS.model_copy(update={"ttl_ms": 10**8}),) if how == "session expires" else (BOSS,)
    pack = workshop.pack(gates=gates, on_failure="compensate", session=rules)

    async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
        result = await end_by(how, workshop, runtime)
        assert result.status == status
        report = await report_of(runtime, result.session_id)
        assert report.status == status
        assert report.rollback is not None
        assert [(entry.step_id, str(entry.status)) for entry in report.rollback.log] == [
            ("b", "COMPENSATED"),
            ("a", "COMPENSATED"),
        ]
        assert report.rollback.success
        assert not report.rollback.requires_manual_intervention
    assert undone(workshop) == ["b", "a"]


@pytest.mark.req("R233")
async def test_the_order_is_that_of_completion(workshop: Workshop) -> None:
    """Of two steps side by side the one that ended later is taken back first, wherever they stand in the plan."""
    world(workshop)

    async def slow(_: ToolContext, params: dict[str, Any]) -> Any:
        await workshop.clock.sleep(500)
        return params

    workshop.tool("slow.it", slow, compensate=UNDO, reversibility="compensable")
    course = plan(step("late", "slow.it"), step("early"), step("w", "wipe.it", depends_on=("late", "early")))

    async with workshop.runtime(saga_pack(workshop)) as runtime:
        result = await denied(runtime, course)
        assert (await runtime.resume(result.session_id)).status == "rejected"
    assert undone(workshop) == ["late", "early"]


@pytest.mark.slow
@pytest.mark.req("R233", "R237")
@pytest.mark.parametrize("way", ["idempotent", "reconcile"])
@pytest.mark.parametrize("point", ["before_append", "after_append", "before_call", "after_answer"])
async def test_each_effect_is_taken_back_once_although_the_process_dies(
    workshop: Workshop, url: str, way: str, point: str
) -> None:
    """However often the process dies, at every point of compensating, each compensation takes effect exactly once."""
    taken: Counter[str] = Counter()
    stored: dict[str, Any] = {}

    async def undo(context: ToolContext, params: dict[str, Any]) -> Any:
        if way == "reconcile" or context.idempotency_key not in stored:
            taken[params["n"]] += 1
        stored[context.idempotency_key] = params
        return params

    def look_up(context: ToolContext) -> Any:
        found = stored.get(context.idempotency_key)
        return Absent() if found is None else Happened(found)

    declared = {"idempotent": True} if way == "idempotent" else {"idempotent": False, "reconcile": look_up}
    world(workshop, undo, **declared)
    pack = saga_pack(workshop)

    async def die(journal: Journal, session: str, nth: int) -> bool:
        death = Death(point, nth)

        async def life() -> None:
            async with workshop.runtime(pack, journal, crash=death) as runtime:
                await runtime.resume(session)

        await death.of(life())
        async with workshop.runtime(pack, journal) as runtime:
            return (await runtime.state(session)).is_over

    async with workshop.journal(url) as journal:
        deaths = 0
        for nth in range(1, 12):
            taken.clear()
            stored.clear()
            async with workshop.runtime(pack, journal) as runtime:
                session = (await denied(runtime)).session_id
            # It dies at the nth passing of the point, and then at the very next one as well.
            was_over = await die(journal, session, nth)
            deaths += not was_over
            await die(journal, session, 1)
            async with workshop.runtime(pack, journal) as runtime:
                assert (await runtime.resume(session)).status == "rejected"
                report = await report_of(runtime, session)
            assert report.rollback is not None
            assert report.rollback.success
            assert taken == {"a": 1, "b": 1}
        assert deaths >= 2


@pytest.mark.req("R237")
async def test_a_compensation_that_its_process_left_behind_is_asked_about(
    workshop: Workshop, url: str
) -> None:
    """A tool that declares nothing is never called again by itself: after a crash only a person says what happened."""
    world(workshop, idempotent=False)
    pack = saga_pack(workshop)

    async with workshop.journal(url) as journal:
        death = Death("after_answer")
        async with workshop.runtime(pack, journal) as runtime:
            session = (await denied(runtime)).session_id

        async def life() -> None:
            async with workshop.runtime(pack, journal, crash=death) as runtime:
                await runtime.resume(session)

        assert await death.of(life()) is None
        async with workshop.runtime(pack, journal) as runtime:
            result = await runtime.resume(session)
            assert result.gate is not None
            assert (result.gate.kind, result.gate.step) == ("reconcile", "~b")
            await runtime.settle(result.gate.id, happened=True, value={"n": "b"}, actor=BOB)
            assert (await runtime.resume(session)).status == "rejected"
    assert undone(workshop) == ["b", "a"]


@pytest.mark.req("R234", "R330")
async def test_what_cannot_be_taken_back_is_left_to_an_operator(workshop: Workshop, url: str) -> None:
    """Pure steps are passed over; an irreversible one is listed with its note, and the rollback as a whole has failed."""
    world(workshop)
    workshop.tool("read.it", mode="read_only")
    workshop.tool(
        "mail.it", reversibility="irreversible", no_compensation="a letter is a letter", gates=("BOSS",)
    )
    course = plan(
        step("a"), step("r", "read.it"), step("m", "mail.it", depends_on=("a", "r")), step("w", "wipe.it", depends_on=("m",))
    )  # fmt: skip

    async with (
        workshop.journal(url) as journal,
        workshop.runtime(saga_pack(workshop), journal) as runtime,
    ):
        result = await runtime.run(ASK, plan=course, actor=ADA)
        assert result.gate is not None
        await runtime.approve(result.gate.id, actor=BOB)
        result = await runtime.resume(result.session_id)
        assert result.gate is not None
        await runtime.deny(result.gate.id, actor=BOB)
        result = await runtime.resume(result.session_id)
        report = await report_of(runtime, result.session_id)
        assert report.rollback is not None
        mail, first = report.rollback.log
        assert (mail.step_id, mail.status) == ("m", RollbackStatus.CANNOT_ROLLBACK)
        assert mail.note == "a letter is a letter"
        assert (first.step_id, first.status) == ("a", RollbackStatus.COMPENSATED)
        assert (report.rollback.success, report.rollback.requires_manual_intervention) == (False, True)
        assert f"tercet sessions settle {result.session_id} m" in report.next_commands
    assert undone(workshop) == ["a"]


@pytest.mark.req("R235", "R330")
async def test_a_failing_compensation_is_an_alert_and_no_stop(workshop: Workshop, url: str) -> None:
    """It is tried again as often as any call, then recorded and signalled, and the others are still taken back."""

    async def undo(_: ToolContext, params: dict[str, Any]) -> Any:
        if params["n"] == "b":
            raise NotDone("out of order", code="broken")
        return params

    world(workshop, undo)
    signals: list[tuple[str, dict[str, Any]]] = []

    def signal(name: str, fields: dict[str, Any]) -> None:
        signals.append((name, fields))

    async with (
        workshop.journal(url) as journal,
        workshop.runtime(saga_pack(workshop), journal, signal=signal) as runtime,
    ):
        result = await denied(runtime)
        result = await runtime.resume(result.session_id)
        assert result.status == "rejected"
        report = await report_of(runtime, result.session_id)
        assert report.rollback is not None
        failed, taken = report.rollback.log
        assert (failed.step_id, failed.status) == ("b", RollbackStatus.COMPENSATION_FAILED)
        assert failed.error == "out of order"
        assert (taken.step_id, taken.status) == ("a", RollbackStatus.COMPENSATED)
        assert report.rollback.requires_manual_intervention
    assert undone(workshop) == ["b", "b", "b", "b", "a"]
    assert [fields["error"] for name, fields in signals if name == "compensation_failed"] == ["out of order"]


@pytest.mark.req("R235")
@pytest.mark.parametrize("happened", [True, False])
async def test_whether_a_compensation_happened_is_asked_where_its_tool_cannot_tell(
    workshop: Workshop, url: str, happened: bool
) -> None:
    """A compensation of unknown outcome opens a gate, like any call; it is called again only if it did not happen."""
    lost = [ConnectionError("lost")]

    async def undo(_: ToolContext, params: dict[str, Any]) -> Any:
        if params["n"] == "b" and lost:
            raise lost.pop()
        return params

    world(workshop, undo, idempotent=False)

    async with (
        workshop.journal(url) as journal,
        workshop.runtime(saga_pack(workshop), journal) as runtime,
    ):
        result = await denied(runtime)
        result = await runtime.resume(result.session_id)
        assert result.gate is not None
        assert (result.status, result.gate.kind, result.gate.step) == ("awaiting_gate", "reconcile", "~b")
        assert result.gate.shown["params"] == {"n": "b"}
        asked = question_text((await runtime.state(result.session_id)).gates[result.gate.id])
        assert asked == "did the compensation of b (undo.it) happen?"
        value = {"n": "b"} if happened else None
        await runtime.settle(result.gate.id, happened=happened, value=value, actor=BOB)
        result = await runtime.resume(result.session_id)
        assert result.status == "rejected"
        report = await report_of(runtime, result.session_id)
        assert report.rollback is not None
        assert report.rollback.success
    assert undone(workshop) == (["b", "a"] if happened else ["b", "b", "a"])


@pytest.mark.parametrize(
    ("of_pack", "of_decision", "answer"),
    [("ask", None, "compensate"), ("ask", None, "keep"), ("compensate", "keep", None), ("keep", "ask", "compensate")],
)  # fmt: skip
async def test_the_pack_or_the_decision_says_what_becomes_of_effects(
    workshop: Workshop, url: str, of_pack: str, of_decision: str | None, answer: Any
) -> None:
    """Effects are taken back, kept, or asked about at a gate that lists the way back; a decision's word goes first."""
    world(workshop)
    decision = {} if of_decision is None else {"on_failure": of_decision}
    pack = saga_pack(workshop, of_pack, decision=decision)

    async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
        result = await denied(runtime)
        result = await runtime.resume(result.session_id)
        if answer is not None:
            assert result.gate is not None
            assert result.gate.kind == "compensation"
            assert [way["step"] for way in result.gate.shown["undo"]] == ["b", "a"]
            assert undone(workshop) == []
            await runtime.decide(result.gate.id, answer, actor=BOB)
            result = await runtime.resume(result.session_id)
        assert (result.status, result.gate) == ("rejected", None)
        report = await report_of(runtime, result.session_id)
        assert (report.rollback is not None) == (answer == "compensate")
        if answer != "compensate":
            assert "what it did was left as it is" in report.diagnosis
    assert undone(workshop) == (["b", "a"] if answer == "compensate" else [])


async def test_a_failure_that_a_new_plan_mends_takes_nothing_back(workshop: Workshop) -> None:
    """While a re-plan may help, effects stay; what a given-up plan did is taken back when the run fails after all."""
    world(workshop)
    workshop.tool("break.it", refusing(), no_compensation="it never happens")
    mended = Script(plan(step("a"), step("x", "break.it", depends_on=("a",))), plan(step("c")))
    lost = Script(
        plan(step("a"), step("x", "break.it", depends_on=("a",))),
        plan(step("c"), step("w", "wipe.it", depends_on=("c",))),
    )

    async with workshop.runtime(saga_pack(workshop)) as runtime:
        result = await runtime.run(ASK, planner=mended, actor=ADA)
        assert (result.status, undone(workshop)) == ("completed", [])
        result = await runtime.run(ASK, planner=lost, actor=ADA)
        assert result.gate is not None
        await runtime.deny(result.gate.id, actor=BOB)
        result = await runtime.resume(result.session_id, planner=lost)
        assert result.status == "rejected"
    assert undone(workshop) == ["c", "a"]


@pytest.mark.req("R239")
@pytest.mark.parametrize("how", ["abandon", "give up"])
async def test_a_run_that_is_given_up_is_taken_back(workshop: Workshop, how: str) -> None:
    """A run that a person abandons, and one that runs out of iterations, are failures like the others."""
    world(workshop)
    workshop.tool("break.it", refusing(), no_compensation="it never happens")
    budget = {"max_iterations": 50 if how == "abandon" else 6, "max_replans": 2, "max_step_retries": 0}
    broken = plan(step("a"), step("x", "break.it", depends_on=("a",)))
    given: dict[str, Any] = (
        {"plan": broken} if how == "abandon" else {"planner": Script(broken, plan(step("a"), step("y", "break.it")))}
    )  # fmt: skip

    async with workshop.runtime(saga_pack(workshop, budget=budget)) as runtime:
        result = await runtime.run(ASK, actor=ADA, **given)
        if how == "abandon":
            assert result.gate is not None
            assert result.gate.kind == "escalation"
            await runtime.decide(result.gate.id, "abandon", actor=BOB)
            result = await runtime.resume(result.session_id)
        assert result.status == "failed"
        report = await report_of(runtime, result.session_id)
        assert report.rollback is not None
        assert report.rollback.success
        if how == "give up":
            assert report.reason == "iteration_budget_exceeded"
    assert undone(workshop) == ["a"]


async def test_what_is_kept_back_for_the_way_back_is_there_and_nobody_elses(workshop: Workshop) -> None:
    """A retry that would eat up the calls that are kept back is not made, and the compensations are then affordable."""
    world(workshop)
    workshop.tool("break.it", failing(1), no_compensation="it never happens")
    course = plan(step("a"), step("b", depends_on=("a",)), step("x", "break.it", depends_on=("b",)))

    async with workshop.runtime(saga_pack(workshop, budget={"tool_calls": 5})) as runtime:
        result = await runtime.run(ASK, plan=course, actor=ADA)
        assert result.status == "paused"
        assert result.reason.endswith("1 tool call is needed, 0 are left")
        assert result.gate is not None
        await runtime.decide(result.gate.id, "abandon", actor=BOB)
        result = await runtime.resume(result.session_id)
        state = await runtime.state(result.session_id)
        assert (result.status, state.used.tool_calls, state.used.held_calls) == ("failed", 5, 0)
    assert undone(workshop) == ["b", "a"]


async def test_the_way_back_from_a_large_result_is_found_in_its_blob(workshop: Workshop, url: str) -> None:
    """What a compensation refers to may stand in a result that is stored apart, also for a process that never saw it."""

    async def much(_: ToolContext, params: dict[str, Any]) -> Any:
        return {**params, "padding": "x" * LARGE}

    world(workshop)
    workshop.tool("much.it", much, compensate=UNDO, reversibility="compensable")
    course = plan(step("a", "much.it"), step("w", "wipe.it", depends_on=("a",)))

    async with workshop.journal(url) as journal:
        async with workshop.runtime(saga_pack(workshop), journal) as runtime:
            session = (await denied(runtime, course)).session_id
        async with workshop.runtime(saga_pack(workshop), journal) as runtime:
            assert (await runtime.resume(session)).status == "rejected"
            [begun] = [
                event for event in await events(journal, session) if isinstance(event, e.CompensationBegun)
            ]
            assert [(undo.tool, undo.params) for undo in begun.undo] == [("undo.it", {"n": "a"})]
    assert undone(workshop) == ["a"]


async def test_an_effect_whose_result_was_unusable_is_taken_back_too(workshop: Workshop, url: str) -> None:
    """A call that happened and whose result breaks its schema is a failed step with an effect, and that goes too."""
    world(workshop)
    undo = {"tool": "undo.it", "params": {"n": {"$from": "params#/n"}}}
    schema = {"type": "object", "required": ["receipt"]}
    workshop.tool("odd.it", compensate=undo, reversibility="compensable", result=schema)

    async with (
        workshop.journal(url) as journal,
        workshop.runtime(saga_pack(workshop), journal) as runtime,
    ):
        result = await runtime.run(ASK, plan=plan(step("o", "odd.it")), actor=ADA)
        assert result.status == "paused"
        await runtime.cancel(result.session_id, actor=ADA)
        assert (await runtime.resume(result.session_id)).status == "cancelled"
    assert undone(workshop) == ["o"]


@pytest.mark.parametrize(
    ("declared", "happened"),
    [
        ({"mode": "read_only"}, True),
        ({"reconcile": True}, True),
        ({"reconcile": True}, False),
        ({"idempotent": True}, True),
        ({}, True),
    ],
)
async def test_a_call_that_was_cut_off_is_settled_before_the_way_back(
    workshop: Workshop, url: str, declared: dict[str, Any], happened: bool
) -> None:
    """A run that ends makes no call of its plan again to find out: what can be looked up is, a read is let be, and
    everything else is asked; what happened is taken back."""
    done: list[str] = []

    async def behave(context: ToolContext, params: dict[str, Any]) -> Any:
        done.append(context.idempotency_key)
        return params

    def look_up(context: ToolContext) -> Any:
        return Happened({"n": "x"}) if context.idempotency_key in done else Absent()

    world(workshop)
    is_read = "mode" in declared
    given: dict[str, Any] = {**declared, **({"reconcile": look_up} if "reconcile" in declared else {})}
    back: dict[str, Any] = {} if is_read else {"compensate": UNDO, "reversibility": "compensable"}
    workshop.tool("try.it", behave, **back, **given)
    pack = saga_pack(workshop)
    death = Death("after_answer" if happened else "before_call")

    async with workshop.journal(url) as journal:

        async def life() -> None:
            async with workshop.runtime(pack, journal, crash=death) as runtime:
                await runtime.run(ASK, plan=plan(step("x", "try.it")), actor=ADA)

        assert await death.of(life()) is None
        await workshop.clock.sleep(60_000)
        async with workshop.runtime(pack, journal) as runtime:
            [row] = await runtime.sessions()
            await runtime.cancel(row.session_id, actor=ADA)
            result = await runtime.resume(row.session_id)
            if not is_read and "reconcile" not in declared:
                assert result.gate is not None
                assert result.gate.kind == "reconcile"
                await runtime.settle(result.gate.id, happened=True, value={"n": "x"}, actor=BOB)
                result = await runtime.resume(row.session_id)
            assert result.status == "cancelled"
    assert len(done) == int(happened)
    assert undone(workshop) == (["x"] if happened and not is_read else [])


@pytest.mark.req("R330")
async def test_an_operator_settles_what_is_left(workshop: Workshop, url: str) -> None:
    """Who dealt with an effect that stayed is recorded once, by whoever says so first; anything else is told why not."""
    world(workshop, refusing())

    async with (
        workshop.journal(url) as journal,
        workshop.runtime(saga_pack(workshop), journal) as runtime,
    ):
        result = await denied(runtime)
        session = result.session_id
        with pytest.raises(UsageError) as caught:
            await runtime.settle_rollback(session, "b", actor=BOB)
        assert caught.value.code == "session_not_over"
        await runtime.resume(session)
        settled = await runtime.settle_rollback(session, "b", actor=BOB, note="by hand")
        assert settled.requires_manual_intervention
        for name, code in (
            ("b", "already_settled"),
            ("w", "nothing_to_settle"),
            ("", "nothing_to_settle"),
        ):
            with pytest.raises(UsageError) as caught:
                await runtime.settle_rollback(session, name, actor=BOB)
            assert caught.value.code == code
        with pytest.raises(UsageError) as caught:
            await runtime.settle_rollback(session, "a", actor=ADA)
        assert caught.value.code == "own_gate"
        with pytest.raises(UsageError) as caught:
            await runtime.settle_rollback(session, "a", actor=Actor(id="eve", auth="simulated"))
        assert caught.value.code == "simulation_refused"
        for _ in range(2):  # sent again with its key, it is the same settlement
            await runtime.settle_rollback(session, "a", actor=EVE, key="k")
        report = await report_of(runtime, session)
        assert report.rollback is not None
        assert [(entry.settled_by, entry.note) for entry in report.rollback.log] == [
            ("bob", "by hand"),
            ("eve", ""),
        ]
        assert (report.rollback.success, report.rollback.requires_manual_intervention) == (False, False)
        assert report.next_commands == (f"tercet sessions show {session}",)
