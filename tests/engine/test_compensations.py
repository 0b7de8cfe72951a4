"""Compensations that a plan proposes: bound with their step, and made only with the approvals that any call needs."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.errors import UsageError
from tercet.contracts.gate import Gate, Policy
from tercet.contracts.plan import Plan
from tercet.contracts.request import Actor
from tercet.contracts.runs.record import RollbackStatus
from tercet.core import events as e
from tercet.packs.pack import Pack
from tercet.runtime import RunResult, Runtime
from tercet.tools import ToolContext

from .test_runs import Script
from .test_sagas import refusing, report_of
from .workshop import ADA, ASK, BOB, CLEO, DAN, LEA, Workshop, events, plan, step

BOSS = Gate(name="BOSS", roles=("boss",), quorum=2, ttl_ms=60_000)
LAW = Gate(name="LAW", roles=("law",))
PAY = {"tool": "pay.it", "params": {"n": 7}}
"""A compensation that people have to approve."""


class House:
    """A run that pays back what it did, and what it has paid."""

    def __init__(self, workshop: Workshop, **pay: Any) -> None:
        self.workshop = workshop
        self.paid: list[dict[str, Any]] = []

        async def note_payment(_: ToolContext, params: dict[str, Any]) -> Any:
            self.paid.append(params)
            return params

        declared: dict[str, Any] = {"gates": ("BOSS",), "authority": (), "no_compensation": "paid is paid"}
        workshop.tool("pay.it", note_payment, **{"mode": "destructive", **declared, **pay})
        workshop.tool("do.it", no_compensation="it stays")
        workshop.tool("break.it", refusing(), no_compensation="it never happens")

    def pack(self, **header: Any) -> Pack:
        """A pack whose failed runs are compensated."""
        fields: dict[str, Any] = {"gates": (BOSS, LAW), "on_failure": "compensate"}
        return self.workshop.pack(**{**fields, **header})

    def failing(self, compensate: dict[str, Any] = PAY, **fields: Any) -> Plan:
        """A plan that does one thing, and then fails."""
        return plan(step("a", compensate=compensate, **fields), step("x", "break.it", depends_on=("a",)))


async def fail(runtime: Runtime, course: Plan) -> RunResult:
    """Run a plan that fails, and give it up."""
    result = await runtime.run(ASK, plan=course, actor=ADA)
    while result.gate is not None and result.gate.kind == "approval":
        gate = result.gate
        asked = {role for need in gate.needs.values() for role in need.roles}
        for actor in (BOB, CLEO, LEA):
            if not asked.isdisjoint(actor.roles):
                await runtime.approve(gate.id, actor=actor)
        result = await runtime.resume(result.session_id)
    assert result.gate is not None
    assert result.gate.kind == "escalation"
    await runtime.decide(result.gate.id, "abandon", actor=BOB)
    return await runtime.resume(result.session_id)


def test_a_proposed_compensation_waits_for_its_own_gates(workshop: Workshop, url: str) -> None:
    """All its gates, with their roles and quorum; whoever started the run cannot approve it."""
    house = House(workshop)

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(house.pack(), journal) as runtime:
            result = await fail(runtime, house.failing())
            assert result.gate is not None
            assert (result.status, result.gate.kind, result.gate.step) == ("awaiting_gate", "approval", "~a")
            assert (result.gate.names, result.gate.needs["BOSS"].quorum) == (("BOSS",), 2)
            assert result.gate.shown["compensates"] == "a"
            assert result.gate.shown["params"] == {"n": 7}
            assert result.gate.shown["sources"] == {"n": "a literal of the plan, untrusted: 7 equals nothing in the trusted request fields, evidence and results"}  # fmt: skip
            for actor, code in ((ADA, "own_gate"), (DAN, "role_missing")):
                with pytest.raises(UsageError) as caught:
                    await runtime.approve(result.gate.id, actor=actor)
                assert caught.value.code == code
            await runtime.approve(result.gate.id, actor=BOB)
            result = await runtime.resume(result.session_id)
            assert (result.status, house.paid) == ("awaiting_gate", [])
            assert result.gate is not None
            await workshop.clock.sleep(100_000)  # the gate of a compensation has no time to live
            await runtime.approve(result.gate.id, actor=CLEO)
            result = await runtime.resume(result.session_id)
            assert result.status == "failed"
            report = await report_of(runtime, result.session_id)
            assert report.rollback is not None
            assert report.rollback.success

    workshop.run(main())
    assert house.paid == [{"n": 7}]


def test_the_owner_does_not_answer_for_a_compensation_that_others_approve(workshop: Workshop) -> None:
    """Where a pack asks what becomes of effects, the owner's yes begins the rollback and approves no call of it."""
    house = House(workshop)

    async def main() -> None:
        async with workshop.runtime(house.pack(on_failure="ask")) as runtime:
            result = await fail(runtime, house.failing())
            assert result.gate is not None
            assert result.gate.kind == "compensation"
            await runtime.decide(result.gate.id, "compensate", actor=ADA)
            result = await runtime.resume(result.session_id)
            assert result.gate is not None
            assert (result.gate.kind, result.gate.step, house.paid) == ("approval", "~a", [])

    workshop.run(main())


@pytest.mark.parametrize(
    ("gates", "params", "is_covered"),
    [
        (("BOSS",), {"n": 7}, True),
        (("BOSS",), {"n": {"$from": "params#/n"}}, True),
        (("BOSS", "LAW"), {"n": 7}, True),
        (("LAW",), {"n": 7}, False),
        (("BOSS",), {"n": {"$from": "self#/n"}}, False),
        (None, {"n": 7}, False),
    ],
    ids=["same gate", "its parameters", "more gates", "a weaker gate", "its result", "no gate"],
)
def test_an_approval_covers_a_compensation_that_it_showed_to_the_last_value(
    workshop: Workshop, gates: tuple[str, ...] | None, params: dict[str, Any], is_covered: bool
) -> None:
    """The approval of the step counts if it was given at every gate of the compensation, and about exactly that call."""
    house = House(workshop)

    async def main() -> None:
        async with workshop.runtime(house.pack()) as runtime:
            course = house.failing({"tool": "pay.it", "params": params}, gates=gates)
            result = await fail(runtime, course)
            assert (result.gate is None, bool(house.paid)) == (is_covered, is_covered)

    workshop.run(main())


def test_a_compensation_that_is_denied_is_not_made_and_stops_no_other(workshop: Workshop, url: str) -> None:
    """The effect is listed for an operator, and what else was done is compensated."""
    house = House(workshop)
    workshop.tool("undo.it", idempotent=True, no_compensation="it takes back")
    workshop.tool("back.it", compensate={"tool": "undo.it", "params": {}}, reversibility="compensable")
    course = plan(
        step("b", "back.it"),
        step("a", depends_on=("b",), compensate=PAY),
        step("x", "break.it", depends_on=("a",)),
    )

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(house.pack(), journal) as runtime:
            result = await fail(runtime, course)
            assert result.gate is not None
            with pytest.raises(UsageError) as caught:
                await runtime.modify(result.gate.id, actor=BOB, note="less")
            assert caught.value.code == "compensation_fixed"
            await runtime.deny(result.gate.id, actor=BOB, note="not today")
            result = await runtime.resume(result.session_id)
            assert result.status == "failed"
            report = await report_of(runtime, result.session_id)
            assert report.rollback is not None
            assert [(entry.step_id, entry.status, entry.error) for entry in report.rollback.log] == [
                ("a", RollbackStatus.COMPENSATION_FAILED, "bob denied it: not today"),
                ("b", RollbackStatus.COMPENSATED, None),
            ]

    workshop.run(main())
    assert house.paid == []


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        ({"limits": ({"expression": "args.n != 'a'"},)}, "argument_not_permitted"),
        ({"parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}, "argument_invalid"),
        ({"policy": "step.tool != 'pay.it' || step.params.n != 'a'"}, "policy_invariant"),
    ],
    ids=["limits", "schema", "policy"],
)
def test_a_compensation_is_checked_again_when_its_values_are_known(
    workshop: Workshop, rules: dict[str, Any], code: str
) -> None:
    """What only the result of its step says was left open at review, and is decided before it is called."""
    expression = rules.pop("policy", None)
    house = House(workshop, **rules)
    policies = () if expression is None else (Policy(name="NEVER", scope="step", expression=expression),)

    async def main() -> None:
        async with (
            workshop.journal("memory:") as journal,
            workshop.runtime(house.pack(policies=policies), journal) as runtime,
        ):
            own = {"tool": "pay.it", "params": {"n": {"$from": "self#/n"}}}
            result = await fail(runtime, house.failing(own))
            assert (result.status, result.gate) == ("failed", None)
            found = await events(journal, result.session_id)
            [refused] = [each for each in found if isinstance(each, e.StepRefused) and each.step == "~a"]
            assert refused.code == code
            assert "the compensation of step 0" in refused.reason

    workshop.run(main())
    assert house.paid == []


def test_a_compensation_with_a_value_that_no_plan_could_hold_is_refused(workshop: Workshop) -> None:
    """Values that together nest too deeply for a parameter end nothing but this compensation."""
    deep: Any = {}
    own: dict[str, Any] = {"$from": "self"}
    for _ in range(40):
        deep, own = {"n": deep}, {"n": own}

    async def nest(_: ToolContext, __: dict[str, Any]) -> Any:
        return deep

    house = House(workshop)
    workshop.tool("nest.it", nest, no_compensation="it stays")
    compensate = {"tool": "pay.it", "params": own}
    course = plan(step("a", "nest.it", compensate=compensate), step("x", "break.it", depends_on=("a",)))

    async def main() -> None:
        async with workshop.runtime(house.pack()) as runtime:
            result = await fail(runtime, course)
            assert (result.status, result.gate) == ("failed", None)
            report = await report_of(runtime, result.session_id)
            assert report.rollback is not None
            assert report.rollback.requires_manual_intervention

    workshop.run(main())
    assert house.paid == []


def test_a_policy_may_ask_for_a_gate_before_a_compensation(workshop: Workshop) -> None:
    """A rule that is broken by what the compensation turns out to do adds its gate to those of the tool."""
    house = House(workshop, mode="local_write", gates=())
    rule = Policy(
        name="LARGE", scope="step", expression="step.tool != 'pay.it' || step.params.n != 'a'", effect="gate", gate="LAW"
    )  # fmt: skip

    async def main() -> None:
        async with workshop.runtime(house.pack(policies=(rule,))) as runtime:
            own = {"tool": "pay.it", "params": {"n": {"$from": "self#/n"}}}
            result = await fail(runtime, house.failing(own))
            assert result.gate is not None
            assert (result.gate.step, result.gate.names) == ("~a", ("LAW",))
            await runtime.approve(result.gate.id, actor=LEA)
            assert (await runtime.resume(result.session_id)).status == "failed"

    workshop.run(main())
    assert house.paid == [{"n": "a"}]


def test_a_compensation_with_an_untrusted_value_waits_for_the_gate_of_such_values(workshop: Workshop) -> None:
    """Also if its step waited there: what the step's result would say was not known then."""
    house = House(workshop, authority=("n",))
    workshop.tool("mail.it", no_compensation="it stays", trust="untrusted")
    own = {"tool": "pay.it", "params": {"n": {"$from": "self#/n"}}}
    course = plan(step("a", "mail.it", compensate=own), step("x", "break.it", depends_on=("a",)))

    async def main() -> None:
        async with workshop.runtime(house.pack(decision={"unbound_gate": "LAW"})) as runtime:
            result = await fail(runtime, course)
            assert result.gate is not None
            assert (result.gate.step, set(result.gate.names)) == ("~a", {"BOSS", "LAW"})
            assert "untrusted" in result.gate.shown["sources"]["n"]

    workshop.run(main())
    assert house.paid == []


def test_no_policy_grants_a_compensation(workshop: Workshop) -> None:
    """A grant stands for the approval of a step, and never for that of what the plan proposes as its compensation."""
    house = House(workshop, mode="network", gates=())
    workshop.tool("net.it", mode="network", authority=(), no_compensation="it stays")
    grant = Policy(name="ANY", scope="step", expression="true", effect="grant")
    course = plan(step("a", "net.it", compensate=PAY), step("x", "break.it", depends_on=("a",)))

    async def main() -> None:
        async with workshop.runtime(house.pack(policies=(grant,))) as runtime:
            result = await fail(runtime, course)
            assert result.gate is not None
            assert (result.gate.kind, result.gate.step) == ("approval", "~a")
            with pytest.raises(UsageError) as caught:
                await runtime.approve(result.gate.id, actor=ADA)
            assert caught.value.code == "own_gate"

    workshop.run(main())
    assert ("a", 1) in workshop.calls
    assert house.paid == []


def test_a_compensation_repeats_no_action_of_the_run(workshop: Workshop) -> None:
    """Two compensations that turn out to be one action are made once, and neither repeats what a step did."""
    house = House(workshop, mode="local_write", gates=())
    workshop.tool("say.it", same, no_compensation="it stays")
    own = {"tool": "pay.it", "params": {"n": {"$from": "self#/n"}}}
    course = plan(
        step("p", "pay.it", params={"n": "other"}),
        step("a", "say.it", compensate=own, depends_on=("p",)),
        step("b", "say.it", compensate=own, depends_on=("a",)),
        step("c", compensate=own, params={"n": "other"}, depends_on=("b",)),
        step("x", "break.it", depends_on=("c",)),
    )

    async def main() -> None:
        async with workshop.journal("memory:") as journal, workshop.runtime(house.pack(), journal) as runtime:
            result = await fail(runtime, course)
            assert result.status == "failed"
            found = await events(journal, result.session_id)
            assert [(each.step, each.code) for each in found if isinstance(each, e.StepRefused)] == [
                ("~c", "duplicate_action"),
                ("~a", "duplicate_action"),
            ]

    workshop.run(main())
    assert house.paid == [{"n": "other"}, {"n": "same"}]


async def same(_: ToolContext, __: dict[str, Any]) -> Any:
    """A tool that always brings the same."""
    return {"n": "same"}


# --- binding ---


def test_a_new_plan_does_not_change_what_a_compensation_refers_to(workshop: Workshop, url: str) -> None:
    """The compensation of an approved call pays whom its approvers saw, whatever a later plan calls by the same id."""
    house = House(workshop, authority=("to",))
    accounts = ["customer", "attacker"]

    async def look_up(_: ToolContext, __: dict[str, Any]) -> Any:
        return {"to": accounts.pop(0)}

    workshop.tool("look.up", look_up, "read_only", trust="trusted")
    own = {"tool": "pay.it", "params": {"to": {"$from": "look#/to"}}}
    acting = step("a", depends_on=("look",), compensate=own, gates=("BOSS",))
    broken = step("x", "break.it", depends_on=("a",))
    planner = Script(
        plan(step("look", "look.up", params={}), acting, broken),
        plan(step("look", "look.up", params={"again": True}), step("y", "break.it", depends_on=("look",))),
    )

    async def main() -> None:
        async with workshop.journal(url) as journal:
            pack = house.pack(budget={"max_replans": 1, "max_step_retries": 0})
            async with workshop.runtime(pack, journal) as runtime:
                result = await runtime.run(ASK, planner=planner, actor=ADA)
                assert result.gate is not None
                assert result.gate.shown["compensation"] == {
                    "tool": "pay.it",
                    "params": {"to": "customer"},
                    "proposed": True,
                    "sources": {"to": "look#/to, trusted"},
                }
                for actor in (BOB, CLEO):
                    await runtime.approve(result.gate.id, actor=actor)
                result = await runtime.resume(result.session_id, planner=planner)
                assert accounts == []
                assert result.gate is not None
                await runtime.decide(result.gate.id, "abandon", actor=BOB)
                result = await runtime.resume(result.session_id, planner=planner)
                assert (result.status, result.gate) == ("failed", None)
                found = await events(journal, result.session_id)
                [intent] = [each for each in found if isinstance(each, e.Intent) and each.step == "a"]
                assert intent.compensation is not None
                assert intent.compensation.params == {"to": {"$literal": "customer"}}
                assert intent.compensation.approved == ("BOSS",)

    workshop.run(main())
    assert house.paid == [{"to": "customer"}]


def test_another_compensation_is_asked_about_again(workshop: Workshop) -> None:
    """The digest holds the compensation as it would run: with another value the approval is none."""
    house = House(workshop)
    asked: list[str] = []

    async def main() -> None:
        async with workshop.runtime(house.pack()) as runtime:
            for order in ("o1", "o2"):
                request = ASK.model_copy(update={"input": {"order": order}})
                own = {"tool": "pay.it", "params": {"n": {"$from": "request#/order"}}}
                result = await runtime.run(request, plan=house.failing(own, gates=("LAW",)), actor=ADA)
                assert result.gate is not None
                assert result.gate.shown["compensation"]["params"] == {"n": order}
                asked.append(result.gate.digest)

    workshop.run(main())
    assert asked[0] != asked[1]


def test_a_compensation_that_cannot_be_resolved_keeps_its_step_from_being_called(workshop: Workshop) -> None:
    """A step that would leave something its plan cannot undo as it says is refused before it is called."""
    house = House(workshop)
    own = {"tool": "pay.it", "params": {"n": {"$from": "s#/n"}}}
    course = plan(step("s", when="request.count == 3"), step("a", depends_on=("s",), compensate=own))

    async def main() -> None:
        async with workshop.runtime(house.pack()) as runtime:
            result = await runtime.run(ASK, plan=course, actor=ADA)
            assert result.status == "paused"
            assert "s#/n points at s, which is not there" in result.reason

    workshop.run(main())
    assert workshop.calls == []


@pytest.mark.parametrize("is_proposed", [True, False])
def test_an_alias_works_in_a_compensation(workshop: Workshop, is_proposed: bool) -> None:
    """It is called by the proper name, whoever named the compensation."""
    schema = {
        "type": "object",
        "properties": {"amount": {"type": "integer"}},
        "required": ["amount"],
        "additionalProperties": False,
    }
    house = House(workshop, mode="local_write", gates=(), parameters=schema, aliases={"sum": "amount"})
    own = {"tool": "pay.it", "params": {"sum": 2}}
    workshop.tool("back.it", compensate=own, reversibility="compensable")
    first = step("a", compensate=own) if is_proposed else step("a", "back.it")

    async def main() -> None:
        async with workshop.runtime(house.pack()) as runtime:
            result = await fail(runtime, plan(first, step("x", "break.it", depends_on=("a",))))
            report = await report_of(runtime, result.session_id)
            assert report.rollback is not None
            assert report.rollback.success

    workshop.run(main())
    assert house.paid == [{"amount": 2}]


def test_only_approvers_say_whether_an_approved_compensation_happened(workshop: Workshop) -> None:
    """A compensation of unknown outcome is asked about; the owner of the run does not answer that either."""
    house = House(workshop)

    async def lose(_: ToolContext, __: dict[str, Any]) -> Any:
        raise ConnectionError("lost")

    workshop.tools = [each for each in workshop.tools if each.name != "pay.it"]
    workshop.tool("pay.it", lose, "destructive", gates=("BOSS",), authority=(), no_compensation="paid")

    async def main() -> None:
        async with workshop.runtime(house.pack()) as runtime:
            result = await fail(runtime, house.failing())
            assert result.gate is not None
            for actor in (BOB, CLEO):
                await runtime.approve(result.gate.id, actor=actor)
            result = await runtime.resume(result.session_id)
            assert result.gate is not None
            assert (result.gate.kind, result.gate.step) == ("reconcile", "~a")
            with pytest.raises(UsageError) as caught:
                await runtime.settle(result.gate.id, happened=True, actor=ADA)
            assert caught.value.code == "own_gate"
            await runtime.settle(result.gate.id, happened=True, actor=BOB)
            assert (await runtime.resume(result.session_id)).status == "failed"

    workshop.run(main())


def test_a_step_that_did_not_run_does_not_satisfy_a_policy_for_a_compensation(workshop: Workshop) -> None:
    """The policy lets a compensation be made only beside a record; the optional record failed."""
    house = House(workshop, mode="local_write", gates=())
    workshop.tool("record.it", refusing(), no_compensation="it never happens")
    recorded = Policy(
        name="recorded",
        expression='!plan.steps.exists(s, s.id == "~a") || plan.steps.exists(s, s.tool == "record.it")',
    )
    course = plan(
        step("r", "record.it", optional=True),
        step("a", compensate=PAY, depends_on=("r",)),
        step("x", "break.it", depends_on=("a",)),
    )

    async def main() -> None:
        async with workshop.runtime(house.pack(policies=(recorded,))) as runtime:
            result = await fail(runtime, course)
            found = await events(runtime.journal, result.session_id)
            refused = [(event.step, event.code) for event in found if isinstance(event, e.StepRefused)]
            assert refused[-1] == ("~a", "policy_invariant")

    workshop.run(main())
    assert house.paid == []


@pytest.mark.parametrize(
    ("pay", "header"),
    [
        ({}, {}),
        ({"gates": ("NEVER",), "mode": "local_write"}, {}),
        ({"gates": (), "mode": "local_write"}, {"decision": {"gates": ("BOSS",)}}),
    ],
    ids=["its tool", "a condition", "the decision"],
)
def test_only_approvers_say_whether_a_declared_compensation_happened(
    workshop: Workshop, url: str, pay: dict[str, Any], header: dict[str, Any]
) -> None:
    """The gates of the compensating call decide who settles it, although the approval of its step covers it."""
    house = House(workshop)
    calls: list[dict[str, Any]] = []

    async def lose(_: ToolContext, params: dict[str, Any]) -> Any:
        calls.append(params)
        raise ConnectionError("lost")

    workshop.tools = [each for each in workshop.tools if each.name not in ("pay.it", "do.it")]
    declared: dict[str, Any] = {"mode": "destructive", "gates": ("BOSS",), "authority": ()}
    workshop.tool("pay.it", lose, **{**declared, "no_compensation": "paid", **pay})
    workshop.tool("do.it", compensate=PAY)
    never = Gate(name="NEVER", roles=("boss",), when="args.n == 0")

    async def main() -> None:
        pack = house.pack(gates=(BOSS, LAW, never), **header)
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            course = plan(step("a"), step("x", "break.it", depends_on=("a",)))
            result = await fail(runtime, course)
            assert result.gate is not None
            assert (result.gate.kind, result.gate.step) == ("reconcile", "~a")
            for actor, code in ((ADA, "own_gate"), (DAN, "role_missing")):
                for happened in (True, False):
                    with pytest.raises(UsageError) as caught:
                        await runtime.settle(result.gate.id, happened=happened, actor=actor)
                    assert caught.value.code == code
            await runtime.settle(result.gate.id, happened=True, actor=BOB)
            assert (await runtime.resume(result.session_id)).status == "failed"

    workshop.run(main())
    assert calls == [{"n": 7}]


def test_the_owner_does_not_settle_a_call_that_another_person_approved(workshop: Workshop) -> None:
    """Also where the approval asked for no role."""

    async def lose(_: ToolContext, __: dict[str, Any]) -> Any:
        raise ConnectionError("lost")

    workshop.tool("send.it", lose, "network", authority=(), no_compensation="it is sent")

    async def main() -> None:
        async with workshop.runtime(workshop.pack()) as runtime:
            result = await runtime.run(ASK, plan=plan(step("s", "send.it")), actor=ADA)
            assert result.gate is not None
            await runtime.approve(result.gate.id, actor=DAN)
            result = await runtime.resume(result.session_id)
            assert result.gate is not None
            assert result.gate.kind == "reconcile"
            with pytest.raises(UsageError) as caught:
                await runtime.settle(result.gate.id, happened=False, actor=ADA)
            assert caught.value.code == "own_gate"
            await runtime.settle(result.gate.id, happened=True, actor=DAN)
            assert (await runtime.resume(result.session_id)).status == "completed"

    workshop.run(main())


def test_an_approver_who_lost_the_role_covers_no_compensation(workshop: Workshop, url: str) -> None:
    """The approvals of the step are looked at again before its compensation is made; then its own gate opens."""
    house = House(workshop)
    one = BOSS.model_copy(update={"quorum": 1})
    steps = (
        step("a", compensate=PAY, gates=("BOSS",)),
        step("g", gates=("LAW",), depends_on=("a",)),
    )

    async def main() -> None:
        async with workshop.journal(url) as journal:
            first = house.pack(gates=(one, LAW), actors=(BOB, CLEO, LEA))
            async with workshop.runtime(first, journal) as runtime:
                result = await runtime.run(ASK, plan=plan(*steps), actor=ADA)
                assert result.gate is not None
                await runtime.approve(result.gate.id, actor=BOB)
                result = await runtime.resume(result.session_id)
                assert result.gate is not None
                assert result.gate.names == ("LAW",)
            second = house.pack(gates=(one, LAW), actors=(Actor(id="bob"), CLEO, LEA))
            async with workshop.runtime(second, journal) as later:
                await later.deny(result.gate.id, actor=LEA)
                result = await later.resume(result.session_id)
                assert result.gate is not None
                assert (result.gate.kind, result.gate.step, house.paid) == ("approval", "~a", [])
                await later.approve(result.gate.id, actor=CLEO)
                result = await later.resume(result.session_id)
                report = await report_of(later, result.session_id)
                assert report.rollback is not None
                assert report.rollback.success

    workshop.run(main())
    assert house.paid == [{"n": 7}]
