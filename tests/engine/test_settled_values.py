"""Values that people type when they settle an unknown call: who may make them trusted, and what they may decide."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.gate import Gate
from tercet.contracts.request import Actor
from tercet.core import events as e
from tercet.packs.pack import Pack
from tercet.runtime import RunResult, Runtime
from tercet.tools import ToolContext

from .test_runs import Script
from .workshop import ADA, ASK, BOB, DAN, Workshop, events, plan, step

BOSS = Gate(name="BOSS", roles=("boss",))
OPENED = step("open", "accounts.open", params={"order": {"$from": "request#/order"}})
PAID = step("pay", "money.pay", params={"to": {"$from": "open#/account"}})
PLAN = plan(OPENED, PAID)
TYPED = {"account": "acct_typed"}


async def lost(_: ToolContext, params: dict[str, Any]) -> Any:
    """A tool whose answer never arrives."""
    raise ConnectionError("lost")


def furnish(workshop: Workshop, **changes: Any) -> Pack:
    """A pack that opens an account and pays to it, and names a boss."""
    workshop.tool("accounts.open", lost)
    workshop.tool("money.pay", mode="network", authority=("to",), no_compensation="it is paid")
    return workshop.pack(gates=(BOSS,), **changes)


async def settle(runtime: Runtime, result: RunResult, actor: Actor) -> None:
    """Say what the lost call brought."""
    assert result.gate is not None
    assert result.gate.kind == "reconcile"
    assert result.gate.shown["trusted_roles"] == ["boss"]
    await runtime.settle(result.gate.id, happened=True, value=TYPED, actor=actor)


def paid(workshop: Workshop) -> int:
    """How often money was paid."""
    return [name for name, _ in workshop.calls].count("pay")


@pytest.mark.parametrize("actor", [ADA, DAN, Actor(id="ada", roles=("boss",))], ids=["owner", "guest", "own"])
async def test_a_value_that_the_owner_types_decides_nothing(
    workshop: Workshop, url: str, actor: Actor
) -> None:
    """Neither does that of a person without a role: the step that would pay there is refused, by name."""
    pack = furnish(workshop)

    async with workshop.journal(url) as journal:
        async with workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=PLAN, actor=ADA)
            await settle(runtime, result, actor)
        async with workshop.runtime(pack, journal) as runtime:  # as another process would
            ended = await runtime.resume(result.session_id)
            assert ended.status != "completed"
            [refused] = [
                event
                for event in await events(journal, result.session_id)
                if isinstance(event, e.StepRefused)
            ]
            assert (refused.step, refused.code) == ("pay", "unbound_argument")
            assert f"the result of step open was entered by {actor.id}" in refused.reason
    assert paid(workshop) == 0


async def test_a_value_from_a_person_with_the_named_role_is_trusted(workshop: Workshop) -> None:
    """And the journal says who gave it, in which role."""
    pack = furnish(workshop)

    async with workshop.runtime(pack) as runtime:
        result = await runtime.run(ASK, plan=PLAN, actor=ADA)
        await settle(runtime, result, BOB)
        result = await runtime.resume(result.session_id)
        assert result.gate is not None  # money.pay is above local_write and asks for an approval
        told = "open#/account, trusted: the result of step open was entered by bob"
        assert result.gate.shown["sources"] == {"to": told}
        await runtime.approve(result.gate.id, actor=BOB)
        assert (await runtime.resume(result.session_id)).status == "completed"
        [answered] = [
            event
            for event in await events(runtime.journal, result.session_id)
            if isinstance(event, e.GateAnswered) and event.answer == "happened"
        ]
        assert (answered.actor, answered.roles) == ("bob", ("boss",))
    assert paid(workshop) == 1


async def test_a_typed_value_waits_at_the_gate_for_unbound_values(workshop: Workshop) -> None:
    """Where the decision names one, a person sees who typed the value before it is used."""
    pack = furnish(workshop, decision={"unbound_gate": "BOSS"})

    async with workshop.runtime(pack) as runtime:
        result = await runtime.run(ASK, plan=PLAN, actor=ADA)
        await settle(runtime, result, ADA)
        result = await runtime.resume(result.session_id)
        assert result.gate is not None
        assert (result.gate.kind, result.gate.names) == ("approval", ("BOSS",))
        told = "open#/account, untrusted: the result of step open was entered by ada"
        assert str(result.gate.shown["sources"]["to"]).startswith(told)
    assert paid(workshop) == 0


@pytest.mark.parametrize("to", [{"$from": "open#/account"}, "acct_typed"], ids=["reference", "literal"])
async def test_a_typed_value_stays_untrusted_in_the_next_plan(workshop: Workshop, to: Any) -> None:
    """A re-plan keeps the step and what is known of its result; writing the value down does not help either."""
    pack = furnish(workshop)
    planner = Script(PLAN, plan(OPENED, step("pay", "money.pay", params={"to": to}, depends_on=("open",))))

    async with workshop.runtime(pack) as runtime:
        result = await runtime.run(ASK, planner=planner, actor=ADA)
        await settle(runtime, result, ADA)
        await runtime.resume(result.session_id, planner=planner)
        assert len(planner.told) > 1
        state = await runtime.state(result.session_id)
        assert state.entered["open"].by == "ada"
    assert paid(workshop) == 0


async def test_a_typed_value_decides_no_condition(workshop: Workshop) -> None:
    """An untrusted value does not decide whether a step above read_only runs."""
    pack = furnish(workshop)
    told = step("pay", "accounts.tell", params={}, when='open.account == "acct_typed"')
    workshop.tool("accounts.tell")
    pack = workshop.pack(gates=(BOSS,))

    async with workshop.runtime(pack) as runtime:
        result = await runtime.run(ASK, plan=plan(OPENED, told), actor=ADA)
        await settle(runtime, result, ADA)
        assert (await runtime.resume(result.session_id)).status != "completed"
    assert paid(workshop) == 0


@pytest.mark.parametrize(("actor", "trusted"), [(ADA, False), (BOB, True)])
async def test_memory_of_a_typed_value_is_as_trusted_as_the_person_who_typed_it(
    workshop: Workshop, actor: Actor, trusted: bool
) -> None:
    """What a run suggests remembering says whether it may be relied on."""
    pack = furnish(workshop)
    learning = plan(OPENED, memory={"habit": {"$from": "open#/account"}})

    async with workshop.runtime(pack) as runtime:
        result = await runtime.run(ASK, plan=learning, actor=ADA)
        await settle(runtime, result, actor)
        assert (await runtime.resume(result.session_id)).status == "completed"
        [said] = (await runtime.state(result.session_id)).memory
        assert said["trusted"] is trusted
