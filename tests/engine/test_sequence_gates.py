"""One gate over a whole sequence of calls: what it shows, what it binds, and what it does not let through."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from tercet.contracts.gate import Gate
from tercet.core import commands as c
from tercet.core import events as e
from tercet.packs.pack import Pack

from .test_deciding import Case
from .test_gates import gate_of
from .test_limits import taking
from .workshop import ADA, ASK, BOB, CLEO, Workshop, events, plan, step

BOSS = Gate(name="BOSS", roles=("boss",), covers="sequence")
THREE = (
    step("a", "wipe.it", params={"what": "a"}),
    step("b", "wipe.it", params={"what": "b"}, depends_on=("a",)),
    step("c", "wipe.it", params={"what": "c"}, depends_on=("b",)),
)


def wiping(workshop: Workshop, **header: Any) -> Pack:
    """A pack whose tool waits for a gate over sequences."""
    workshop.tool(
        "wipe.it", mode="destructive", authority=(), gates=("BOSS",), no_compensation="gone is gone"
    )
    return workshop.pack(gates=(BOSS,), **header)


@pytest.mark.req("R137")
async def test_one_approval_lets_the_whole_sequence_through(workshop: Workshop, url: str) -> None:
    """The gate shows and binds every resolved call, and none of them is asked about again."""
    pack = wiping(workshop)

    async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
        result = await runtime.run(ASK, plan=plan(*THREE), actor=ADA)
        gate = result.gate
        assert gate is not None
        assert (gate.step, set(gate.covers)) == ("a", {"b", "c"})
        shown = {each["step"]: each["params"] for each in gate.shown["sequence"]}
        assert shown == {"b": {"what": "b"}, "c": {"what": "c"}}
        assert len({gate.digest, *gate.covers.values()}) == 3
        await runtime.approve(gate_of(result), actor=BOB)
        assert (await runtime.resume(result.session_id)).status == "completed"
        found = await events(runtime.journal, result.session_id)
        assert sum(isinstance(each, e.GateOpened) for each in found) == 1
        approvals = (await runtime.record(result.session_id))["approvals"]
        assert {each["step_id"]: each["digest"] for each in approvals} == gate.calls
    assert [name for name, _ in workshop.calls] == ["a", "b", "c"]


async def test_what_is_not_known_yet_is_asked_about_later(workshop: Workshop) -> None:
    """A call whose parameters another step brings, and one under a condition, are not part of what is approved."""
    pack = wiping(workshop)
    partly = plan(
        step("a", "wipe.it", params={"what": "a"}),
        step("b", "wipe.it", params={"what": {"$from": "a#/what"}, "n": 2}),
        step("c", "wipe.it", params={"what": "c"}, when="request.count == 2"),
        step("d", "wipe.it", params={"what": "d"}),
    )

    async with workshop.runtime(pack) as runtime:
        result = await runtime.run(ASK, plan=partly, actor=ADA)
        assert result.gate is not None
        assert (result.gate.step, set(result.gate.covers)) == ("a", {"d"})
        await runtime.approve(gate_of(result), actor=BOB)
        result = await runtime.resume(result.session_id)
        state = await runtime.state(result.session_id)
        assert {name for gate in state.gates.values() for name in gate.calls} == {"b", "c"}
        assert {name for name, _ in workshop.calls} == {"a", "d"}
        for gate in state.gates:
            await runtime.approve(gate, actor=BOB)
        assert (await runtime.resume(result.session_id)).status == "completed"


@pytest.mark.req("R136")
def test_a_changed_call_of_the_sequence_is_asked_about_again(workshop: Workshop) -> None:
    """What was approved is one digest for each call: a call that is another one by now is not let through with them."""
    wiping(workshop)
    case = Case(workshop, plan(*THREE), gates=(BOSS,))
    [asked] = case.due()
    assert isinstance(asked, c.Ask)
    case.happen(
        e.GateOpened(at=1_000, gate="g", kind="approval", step="a", digest=asked.digest, covers=asked.covers, needs=asked.needs, names=asked.names),
        e.GateAnswered(at=1_000, gate="g", digest=asked.digest, answer="approve", actor="bob", roles=("boss",)),
    )  # fmt: skip
    case.begin("a")
    case.end("a")
    assert [type(each) for each in case.due()] == [c.Dispatch]
    other = msgspec.structs.replace(case.state.steps["b"], approved=asked.covers["c"])
    case.state = msgspec.structs.replace(case.state, steps={**case.state.steps, "b": other})
    [again] = case.due()
    assert isinstance(again, c.Ask)
    assert (again.step, again.digest) == ("b", asked.covers["b"])
    assert "changed" in again.shown


async def test_a_withdrawal_holds_back_what_has_not_begun(workshop: Workshop) -> None:
    """After the first call is done, the approval of the others can still be taken back, and they wait again."""
    workshop.tool(
        "slow.it", taking(5_000), mode="destructive", authority=(), gates=("BOSS",), no_compensation="no"
    )
    pack = workshop.pack(gates=(BOSS,))
    steps = (
        step("a", "slow.it", params={"n": 1}),
        step("b", "slow.it", params={"n": 2}, depends_on=("a",)),
    )

    async with workshop.runtime(pack) as runtime:
        result = await runtime.run(ASK, plan=plan(*steps), actor=ADA)
        gate = gate_of(result)
        await runtime.approve(gate, actor=BOB)
        running = asyncio.ensure_future(runtime.resume(result.session_id))
        await workshop.clock.sleep(1_000)
        await runtime.withdraw(gate, actor=BOB)
        result = await running
        assert result.gate is not None
        assert (gate_of(result), result.gate.step, workshop.calls) == (gate, "b", [("a", 1)])
        await runtime.approve(gate, actor=CLEO)
        assert (await runtime.resume(result.session_id)).status == "completed"
    assert [name for name, _ in workshop.calls] == ["a", "b"]


async def test_a_repetition_is_not_part_of_the_sequence(workshop: Workshop) -> None:
    """The same action a second time has another key when its turn comes, and is asked about then."""
    workshop.tool(
        "wipe.it", mode="destructive", authority=(), gates=("BOSS",), no_compensation="gone is gone"
    )
    pack = workshop.pack(gates=(BOSS,), decision={"repeatable": ("wipe.it",)})
    twice = plan(step("a", "wipe.it", params={"n": 1}), step("b", "wipe.it", params={"n": 1}))

    async with workshop.runtime(pack) as runtime:
        result = await runtime.run(ASK, plan=twice, actor=ADA)
        state = await runtime.state(result.session_id)
        assert all(not gate.covers for gate in state.gates.values())
        while result.status == "awaiting_gate":
            await runtime.approve(gate_of(result), actor=BOB)
            result = await runtime.resume(result.session_id)
        assert result.status == "completed"
    assert len(set(workshop.keys)) == len(workshop.keys) == 2


def _slowly(workshop: Workshop, **gate: Any) -> Pack:
    """A pack whose gate over sequences is so, and whose tool takes 20 s."""
    workshop.tool(
        "wipe.it",
        taking(20_000),
        mode="destructive",
        authority=(),
        gates=("BOSS",),
        no_compensation="gone is gone",
    )
    return workshop.pack(gates=(BOSS.model_copy(update=gate),))


async def test_a_gate_that_is_open_again_shows_what_still_waits(workshop: Workshop, url: str) -> None:
    """Withdrawn while the first call is under way, the gate shows the second as the call and only the third behind it."""
    pack = _slowly(workshop)

    async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
        result = await runtime.run(ASK, plan=plan(*THREE), actor=ADA)
        await runtime.approve(gate_of(result), actor=BOB)
        running = asyncio.ensure_future(runtime.resume(result.session_id))
        await workshop.clock.sleep(5_000)
        await runtime.withdraw(gate_of(result), actor=BOB)
        gate = (await running).gate
        assert gate is not None
        assert (gate.step, gate.shown["params"]) == ("b", {"what": "b"})
        assert [(call["step"], call["params"]) for call in gate.shown["sequence"]] == [("c", {"what": "c"})]


async def test_an_approval_is_withdrawn_after_the_time_to_answer(workshop: Workshop, url: str) -> None:
    """As long as a call of the gate waits, its approval can be taken back; nobody can answer any more, so the run expires."""
    pack = _slowly(workshop, ttl_ms=10_000)

    async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
        result = await runtime.run(ASK, plan=plan(*THREE), actor=ADA)
        await runtime.approve(gate_of(result), actor=BOB)
        running = asyncio.ensure_future(runtime.resume(result.session_id))
        await workshop.clock.sleep(15_000)
        await runtime.withdraw(gate_of(result), actor=BOB)
        ended = await running
        assert (ended.status, ended.gate) == ("expired", None)
    assert [name for name, _ in workshop.calls] == ["a"]
