"""Values that an approver sets in a call: they are trusted for that call alone, reviewed, and approved by another person."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tercet.contracts.errors import NotDone
from tercet.contracts.gate import Gate
from tercet.contracts.request import Actor, Request
from tercet.core import events as e
from tercet.packs.pack import Pack
from tercet.runtime import Runtime

from .test_gate_rules import refused
from .test_gates import gate_of
from .test_runs import Script
from .workshop import ADA, BOB, CLEO, DAN, LEA, Death, Workshop, echo, events, plan, step

BOSS = Gate(name="BOSS", roles=("boss",))
DIRECTOR = Gate(name="DIRECTOR", roles=("director",))
DORA = Actor(id="dora", roles=("director",))
SCHEMA = {
    "type": "object",
    "properties": {
        "account": {"type": "string"},
        "cents": {"type": "integer", "minimum": 0},
        "memo": {"type": "string", "default": "thanks"},
        "lines": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"sku": {"type": "string"}, "cents": {"type": "integer"}},
            },
        },
    },
    "required": ["account", "cents"],
    "additionalProperties": False,
}
PAY = Request(intent="work", input={"account": "acc_1", "cents": 500})
PARAMS = {"account": {"$from": "request#/account"}, "cents": {"$from": "request#/cents"}}
PAYMENT = plan(step("pay", "bank.pay", params=PARAMS))


def bank(workshop: Workshop, *gates: Gate, **fields: Any) -> Pack:
    """A pack with a payment that a boss approves; account and amount carry authority."""
    workshop.tool(
        "bank.pay",
        mode="network",
        parameters=SCHEMA,
        authority=("account", "cents", "lines"),
        gates=["BOSS"],
        no_compensation="paid is paid",
    )
    return workshop.pack(gates=(BOSS, *gates), **fields)


async def shown(runtime: Runtime, gate: str) -> dict[str, Any]:
    session = gate.rpartition(".")[0]
    return (await runtime.state(session)).gates[gate].shown


@pytest.mark.parametrize("planner", [True, False])
async def test_a_set_value_is_what_the_approved_call_is_made_with(
    workshop: Workshop, url: str, planner: bool
) -> None:
    """The changed call has a digest of its own, earlier approvals are void, and another person approves it."""
    made: list[dict[str, Any]] = []

    async def pay(_: Any, params: dict[str, Any]) -> Any:
        made.append(params)

    two = Gate(name="BOSS", roles=("boss",), quorum=2)
    workshop.tool(
        "bank.pay", pay, mode="network", parameters=SCHEMA, authority=("account", "cents"), gates=["BOSS"],
        no_compensation="paid is paid",
    )  # fmt: skip
    pack = workshop.pack(gates=(two,))
    max_ = Actor(id="max", roles=("boss",))
    brought: dict[str, Any] = {"planner": Script(PAYMENT)} if planner else {"plan": PAYMENT}

    async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
        result = await runtime.run(PAY, actor=ADA, **brought)
        first = gate_of(result)
        before = (await runtime.state(result.session_id)).gates[first].digest
        await runtime.approve(first, actor=BOB)
        await runtime.modify(first, actor=CLEO, note="the discount", changes={"cents": 450})
        brought.pop("plan", None)
        result = await runtime.resume(result.session_id, **brought)
        second = gate_of(result)
        assert result.gate is not None
        assert (second != first, result.gate.approvals) == (True, ())
        assert result.gate.digest != before
        assert result.gate.shown["params"] == {"account": "acc_1", "cents": 450, "memo": "thanks"}
        assert result.gate.shown["sources"]["cents"] == "changed by cleo"
        assert "request#/account" in result.gate.shown["sources"]["account"]
        assert await refused(runtime.approve(second, actor=CLEO)) == "own_change"
        assert await refused(runtime.approve(second, actor=ADA)) == "own_gate"
        await runtime.approve(second, actor=BOB)
        await runtime.approve(second, actor=max_)
        assert (await runtime.resume(result.session_id, **brought)).status == "completed"
        told = await events(journal, result.session_id)
        answered = [each for each in told if isinstance(each, e.GateAnswered) and each.changes]
        assert [(each.actor, each.changes) for each in answered] == [("cleo", {"/cents": 450})]
        assert [each.changed_by for each in told if isinstance(each, e.PlanProposed)] == ["", "cleo"]
    assert made == [{"account": "acc_1", "cents": 450}]


MISTAKES: list[tuple[str, Actor, dict[str, Any]]] = [
    ("unknown_parameter", BOB, {"amount": 5}),
    ("unknown_parameter", BOB, {"/lines/0/cents": 5}),
    ("unknown_parameter", BOB, {"/": 5}),
    ("wrong_value", BOB, {"cents": "many"}),
    ("wrong_value", BOB, {"cents": -1}),
    ("wrong_value", BOB, {"cents": {"$from": "request#/cents"}}),
    ("nothing_changed", BOB, {"cents": 500}),
    ("not_json", BOB, {"cents": float("nan")}),
    ("own_gate", ADA, {"cents": 450}),
    ("own_gate", Actor(id="ada", roles=("boss",)), {"cents": 450}),
    ("role_missing", DAN, {"cents": 450}),
    ("role_missing", LEA, {"cents": 450}),
]


@pytest.mark.parametrize(("code", "actor", "changes"), MISTAKES)
async def test_a_value_that_cannot_be_set_is_a_typed_answer_and_changes_nothing(
    workshop: Workshop, code: str, actor: Actor, changes: dict[str, Any]
) -> None:
    """Only parameters that the gate shows can be set, to values of the tool's schema, by those whom the gate names."""
    pack = bank(workshop)

    async with workshop.runtime(pack) as runtime:
        gate = gate_of(await runtime.run(PAY, plan=PAYMENT, actor=ADA))
        before = await runtime.state(gate.rpartition(".")[0])
        assert await refused(runtime.modify(gate, actor=actor, note="less", changes=changes)) == code
        assert await refused(runtime.modify(gate, actor=BOB, note="", changes={"cents": 1})) == "note_missing"
        assert await runtime.state(gate.rpartition(".")[0]) == before
    assert workshop.calls == []


async def test_no_values_are_set_where_the_gate_names_no_role(workshop: Workshop) -> None:
    """Whoever may be anybody is not trusted with a value."""
    workshop.tool("bank.pay", mode="network", authority=(), no_compensation="paid is paid")
    pack = workshop.pack()

    async with workshop.runtime(pack) as runtime:
        gate = gate_of(await runtime.run(PAY, plan=PAYMENT, actor=ADA))
        answer = runtime.modify(gate, actor=BOB, note="less", changes={"cents": 450})
        assert await refused(answer) == "not_settable"


CAP = {"name": "cap", "scope": "step", "expression": "step.params.cents <= 1000", "message": "at most 1000"}


async def test_a_change_that_the_critic_refuses_opens_the_gate_again_as_it_was(
    workshop: Workshop, url: str
) -> None:
    """The run goes on with the call as it was shown before, and the gate tells why the change was refused."""
    pack = bank(workshop, policies=(CAP,))

    async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
        result = await runtime.run(PAY, plan=PAYMENT, actor=ADA)
        before = (await runtime.state(result.session_id)).gates[gate_of(result)].digest
        await runtime.modify(gate_of(result), actor=BOB, note="more", changes={"cents": 5000})
        result = await runtime.resume(result.session_id)
        assert result.gate is not None
        assert result.gate.digest == before
        assert "at most 1000" in result.gate.shown["refused_change"]
        assert result.gate.shown["params"]["cents"] == 500
        await runtime.approve(gate_of(result), actor=BOB)
        assert (await runtime.resume(result.session_id)).status == "completed"
    assert workshop.calls == [("pay", 1)]


async def test_a_changed_amount_waits_for_every_gate_that_it_needs(workshop: Workshop) -> None:
    """A larger amount opens the director's gate as well; a smaller one still waits where it was changed."""
    large = {
        "name": "large",
        "scope": "step",
        "effect": "gate",
        "gate": "DIRECTOR",
        "expression": "step.params.cents <= 1000",
    }
    pack = bank(workshop, DIRECTOR, policies=(large,))

    async with workshop.runtime(pack) as runtime:
        result = await runtime.run(PAY, plan=PAYMENT, actor=ADA)
        await runtime.modify(gate_of(result), actor=BOB, note="more", changes={"cents": 5000})
        result = await runtime.resume(result.session_id)
        assert result.gate is not None
        assert set(result.gate.needs) == {"BOSS", "DIRECTOR"}
        await runtime.modify(gate_of(result), actor=DORA, note="less", changes={"cents": 400})
        result = await runtime.resume(result.session_id)
        assert result.gate is not None
        assert set(result.gate.needs) == {"BOSS", "DIRECTOR"}
        await runtime.approve(gate_of(result), actor=CLEO)
        assert (await runtime.resume(result.session_id)).status == "awaiting_gate"
        other = Actor(id="max", roles=("director",))
        await runtime.approve(gate_of(result), actor=other)
        assert (await runtime.resume(result.session_id)).status == "completed"
    assert workshop.calls == [("pay", 1)]


async def test_a_part_of_a_value_is_set_and_the_rest_keeps_its_source(workshop: Workshop) -> None:
    """The other lines still come from the look-up, on which the payment still depends."""
    order = {"lines": [{"sku": "a", "cents": 1}, {"sku": "b", "cents": 2}]}

    async def look_up(_: Any, __: dict[str, Any]) -> Any:
        return order

    workshop.tool("shop.order", look_up, mode="read_only", trust="trusted")
    pack = bank(workshop)
    lines = {**PARAMS, "lines": {"$from": "look#/lines"}}
    looked = plan(
        step("look", "shop.order", params={"account": {"$from": "request#/account"}}),
        step("pay", "bank.pay", params=lines),
    )

    async with workshop.runtime(pack) as runtime:
        result = await runtime.run(PAY, plan=looked, actor=ADA)
        changes = {"/lines/0/cents": 5, "memo": "sorry"}
        await runtime.modify(gate_of(result), actor=BOB, note="one is broken", changes=changes)
        result = await runtime.resume(result.session_id)
        assert result.gate is not None
        assert result.gate.shown["params"]["lines"] == [
            {"sku": "a", "cents": 5},
            {"sku": "b", "cents": 2},
        ]
        assert result.gate.shown["params"]["memo"] == "sorry"
        assert "changed by bob at /0/cents" in result.gate.shown["sources"]["lines"]
        assert "look" in result.gate.shown["results"]
        state = await runtime.state(result.session_id)
        [_, pay] = state.plan["steps"]
        assert pay["params"]["lines"][1] == {"$from": "look#/lines/1"}
        whole: dict[str, Any] = {"lines": [], "account": "acc_1", "cents": 7}
        answer = runtime.modify(gate_of(result), actor=CLEO, note="none", changes={**whole, "/lines/0": {}})
        assert await refused(answer) == "not_settable"
        await runtime.modify(gate_of(result), actor=CLEO, note="none", changes=whole)
        result = await runtime.resume(result.session_id)
        state = await runtime.state(result.session_id)
        [_, pay] = state.plan["steps"]
        assert pay["depends_on"] == ["look"]
        assert await refused(runtime.approve(gate_of(result), actor=BOB)) == "own_change"
        await runtime.approve(gate_of(result), actor=Actor(id="max", roles=("boss",)))
        assert (await runtime.resume(result.session_id)).status == "completed"
    assert workshop.calls == [("look", 1), ("pay", 1)]


@pytest.mark.parametrize("other", [("more", {}), ("pay", {"memo": "x"})])
async def test_a_set_value_vouches_for_no_other_call(
    workshop: Workshop, other: tuple[str, dict[str, str]]
) -> None:
    """A later plan that uses the value in another step, or in the same step with other values beside it, is refused."""
    pack = bank(workshop)
    name, more = other
    script = Script(PAYMENT, plan(step(name, "bank.pay", params={**PARAMS, "cents": 450, **more})))

    async with workshop.runtime(pack) as runtime:
        result = await runtime.run(PAY, planner=script, actor=ADA)
        await runtime.modify(gate_of(result), actor=BOB, note="less", changes={"cents": 450})
        result = await runtime.resume(result.session_id, planner=script)
        await runtime.modify(gate_of(result), actor=BOB, note="pay twice")
        result = await runtime.resume(result.session_id, planner=script)
        state = await runtime.state(result.session_id)
        assert [each["code"] for each in state.verdict["refusals"]] == ["unbound_argument"]
        assert state.changed == ()
    assert workshop.calls == []


POINTS = ("before_append", "after_append")


@pytest.mark.parametrize("nth", range(1, 9))
@pytest.mark.parametrize("point", POINTS)
async def test_a_crash_while_a_change_is_reviewed_pays_once_and_as_approved(
    workshop: Workshop, tmp_path: Any, point: str, nth: int
) -> None:
    """Wherever the process dies between the change and the payment, the next one makes the changed call, once."""
    made: list[dict[str, Any]] = []

    async def pay(context: Any, params: dict[str, Any]) -> Any:
        made.append(params)
        return await echo(context, params)

    workshop.tool(
        "bank.pay", pay, mode="network", parameters=SCHEMA, authority=("account", "cents"), gates=["BOSS"],
        no_compensation="paid is paid", idempotent=True,
    )  # fmt: skip
    pack = workshop.pack(gates=(BOSS,))
    url = f"sqlite:///{tmp_path}/crash.db"

    async def life(runtime: Runtime, session: str) -> None:
        state = await runtime.state(session)
        for gate in state.gates:
            if state.gates[gate].shown["params"]["cents"] == 500:
                await runtime.modify(gate, actor=BOB, note="less", changes={"cents": 450})
        result = await runtime.resume(session)
        if result.gate is not None:
            await runtime.approve(result.gate.id, actor=CLEO)
            await runtime.resume(session)

    async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
        session = (await runtime.run(PAY, plan=PAYMENT, actor=ADA)).session_id
    death = Death(point, nth)
    async with workshop.journal(url) as journal:
        mortal = workshop.runtime(pack, journal, crash=death)
        await mortal.__aenter__()
        await death.of(life(mortal, session))
    async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
        await workshop.clock.sleep(600_000)
        await life(runtime, session)
        assert (await runtime.state(session)).status == "completed"
    assert {each["cents"] for each in made} == {450}
    assert len(set(workshop.keys)) == 1


async def test_a_change_waits_for_calls_under_way_and_repeats_none(workshop: Workshop, url: str) -> None:
    """What runs beside the gate ends first and stays done; no re-plan is used up."""

    async def slow(_: Any, params: dict[str, Any]) -> Any:
        await workshop.clock.sleep(5_000)
        return params

    workshop.tool("slow.it", slow)
    pack = bank(workshop, budget={"max_replans": 0, "tool_calls": 2})
    beside = plan(step("pay", "bank.pay", params=PARAMS), step("slow", "slow.it"))

    async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
        running = asyncio.ensure_future(runtime.run(PAY, plan=beside, actor=ADA))
        await workshop.clock.sleep(1_000)
        [row] = await runtime.sessions()
        [gate] = (await runtime.state(row.session_id)).gates
        await runtime.modify(gate, actor=BOB, note="less", changes={"cents": 450})
        assert (await runtime.state(row.session_id)).steps["slow"].status == "in_flight"
        result = await running
        state = await runtime.state(row.session_id)
        assert (result.gate is not None, state.steps["slow"].status) == (True, "done")
        assert state.used.replans == 0
        await runtime.approve(gate_of(result), actor=CLEO)
        assert (await runtime.resume(row.session_id)).status == "completed"
    assert sorted(workshop.calls) == [("pay", 1), ("slow", 1)]


async def test_one_call_of_a_sequence_is_changed_and_all_are_asked_about_again(workshop: Workshop) -> None:
    """The gate that covers the sequence opens again with the changed call, and its author approves none of it."""
    both = Gate(name="BOSS", roles=("boss",), covers="sequence")
    workshop.tool(
        "bank.pay", mode="network", parameters=SCHEMA, authority=("account",), gates=["BOSS"],
        no_compensation="paid is paid",
    )  # fmt: skip
    pack = workshop.pack(gates=(both,))
    twice = plan(
        step("pay", "bank.pay", params=PARAMS),
        step("tip", "bank.pay", params={"account": "acc_1", "cents": 7}, depends_on=("pay",)),
        step("other", "bank.pay", params={"account": "acc_1", "cents": 9}, depends_on=("tip",)),
    )
    spec = {"repeatable": ["bank.pay"]}
    pack = workshop.pack(gates=(both,), decision=spec)

    async with workshop.runtime(pack) as runtime:
        result = await runtime.run(PAY, plan=twice, actor=ADA)
        assert result.gate is not None
        before = set(result.gate.calls)
        await runtime.modify(gate_of(result), actor=BOB, note="less", changes={"cents": 450})
        result = await runtime.resume(result.session_id)
        assert result.gate is not None
        assert set(result.gate.calls) == before
        assert await refused(runtime.approve(gate_of(result), actor=BOB)) == "own_change"
        while result.status == "awaiting_gate":
            await runtime.approve(gate_of(result), actor=CLEO)
            result = await runtime.resume(result.session_id)
        assert result.status == "completed"
    assert workshop.calls == [("pay", 1), ("tip", 1), ("other", 1)]


async def test_a_later_plan_keeps_nothing_of_a_change_that_it_does_not_repeat(workshop: Workshop) -> None:
    """Sent back after a change, the planner's own call is asked about as it wrote it."""
    pack = bank(workshop)
    script = Script(PAYMENT, plan(step("pay", "bank.pay", params={**PARAMS, "memo": "again"})))

    async with workshop.runtime(pack) as runtime:
        result = await runtime.run(PAY, planner=script, actor=ADA)
        await runtime.modify(gate_of(result), actor=BOB, note="less", changes={"cents": 450})
        result = await runtime.resume(result.session_id, planner=script)
        await runtime.modify(gate_of(result), actor=BOB, note="with a memo")
        result = await runtime.resume(result.session_id, planner=script)
        assert result.gate is not None
        assert result.gate.shown["params"] == {"account": "acc_1", "cents": 500, "memo": "again"}
        assert "changed_by" not in result.gate.shown
        await runtime.approve(gate_of(result), actor=BOB)
        assert (await runtime.resume(result.session_id, planner=script)).status == "completed"


async def test_a_part_of_a_computed_value_is_not_set(workshop: Workshop) -> None:
    """Only the whole of it can be."""
    workshop.tool("bank.pay", mode="network", authority=(), gates=["BOSS"], no_compensation="paid is paid")
    pack = workshop.pack(gates=(BOSS,))
    computed = plan(step("pay", "bank.pay", params={"to": {"$cel": "{'account': request.account}"}}))

    async with workshop.runtime(pack) as runtime:
        result = await runtime.run(PAY, plan=computed, actor=ADA)
        part = runtime.modify(gate_of(result), actor=BOB, note="x", changes={"/to/account": "acc_2"})
        assert await refused(part) == "not_settable"
        whole = {"to": {"account": "acc_2", "$from": "request"}}
        await runtime.modify(gate_of(result), actor=BOB, note="x", changes=whole)
        result = await runtime.resume(result.session_id)
        assert result.gate is not None
        assert result.gate.shown["params"] == whole
        await runtime.approve(gate_of(result), actor=CLEO)
        assert (await runtime.resume(result.session_id)).status == "completed"


async def test_a_gate_for_anybody_lets_nobody_set_values_without_a_role_of_another(
    workshop: Workshop,
) -> None:
    """Who may answer one of two gates because it names no role is not trusted with a value."""
    anybody = Gate(name="ANYBODY", roles=())
    workshop.tool(
        "bank.pay", mode="network", authority=(), gates=["BOSS", "ANYBODY"], no_compensation="paid is paid"
    )
    pack = workshop.pack(gates=(BOSS, anybody))

    async with workshop.runtime(pack) as runtime:
        gate = gate_of(await runtime.run(PAY, plan=PAYMENT, actor=ADA))
        change = {"cents": 450}
        assert await refused(runtime.modify(gate, actor=DAN, note="less", changes=change)) == "role_missing"
        await runtime.modify(gate, actor=BOB, note="less", changes=change)


async def test_one_change_is_carried_out_at_a_time(workshop: Workshop) -> None:
    """While one call is being changed, another is not: its gate opens again with the plan that follows."""
    pack = bank(workshop, decision={"repeatable": ["bank.pay"]})
    twice = plan(
        step("pay", "bank.pay", params=PARAMS), step("tip", "bank.pay", params={**PARAMS, "memo": "tip"})
    )

    async with workshop.runtime(pack) as runtime:
        result = await runtime.run(PAY, plan=twice, actor=ADA)
        first, second = (await runtime.state(result.session_id)).gates
        await runtime.modify(first, actor=BOB, note="less", changes={"cents": 450})
        for changes in (None, {"cents": 7}):
            answer = runtime.modify(second, actor=CLEO, note="less", changes=changes)
            assert await refused(answer) == "change_pending"
        result = await runtime.resume(result.session_id)
        for gate in (await runtime.state(result.session_id)).gates:
            await runtime.approve(gate, actor=CLEO)
        assert (await runtime.resume(result.session_id)).status == "completed"
    assert len(workshop.calls) == 2


async def test_a_change_is_dropped_with_the_plan_that_it_belongs_to(workshop: Workshop) -> None:
    """If another step fails for good meanwhile, the planner makes the next plan, and its call is asked about as it is."""

    async def slow(_: Any, __: dict[str, Any]) -> Any:
        await workshop.clock.sleep(5_000)
        raise NotDone("no", code="later")

    workshop.tool("slow.it", slow)
    pack = bank(workshop, budget={"max_step_retries": 0})
    beside = plan(step("slow", "slow.it"), step("pay", "bank.pay", params=PARAMS))
    script = Script(beside, PAYMENT)

    async with workshop.runtime(pack) as runtime:
        running = asyncio.ensure_future(runtime.run(PAY, planner=script, actor=ADA))
        await workshop.clock.sleep(1_000)
        [row] = await runtime.sessions()
        [gate] = (await runtime.state(row.session_id)).gates
        await runtime.modify(gate, actor=BOB, note="less", changes={"cents": 450})
        result = await running
        assert result.gate is not None
        state = await runtime.state(row.session_id)
        assert state.change is None
        assert (result.gate.shown["params"]["cents"], state.changed) == (500, ())
