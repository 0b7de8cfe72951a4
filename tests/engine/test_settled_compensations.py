"""Compensations that read a result which a person entered: who decides about them."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.errors import UsageError
from tercet.contracts.gate import Gate
from tercet.contracts.plan import Plan
from tercet.contracts.request import Actor
from tercet.contracts.runs.record import RollbackResult, RollbackStatus
from tercet.packs.pack import Pack
from tercet.runtime import RunResult, Runtime
from tercet.tools import ToolContext

from .test_runs import Script
from .test_sagas import refusing, report_of
from .test_settled_values import lost
from .workshop import ADA, ASK, BOB, CLEO, DAN, Workshop, plan, step

BOSS = Gate(name="BOSS", roles=("boss",))
NEVER = Gate(name="NEVER", roles=("boss",), when="args.order == 'none'")
ENTERED = {"room": "typed"}
FREE = {"tool": "rooms.free", "params": {"room": {"$from": "self#/room"}}}
NOTE = "its compensation reads the result of hold, which ada entered, and no gate covers that"


class Hotel:
    """A run that holds a room, never hears the answer, and then fails; and the rooms that were freed."""

    def __init__(self, workshop: Workshop, *, free: dict[str, Any] | None = None, **hold: Any) -> None:
        self.workshop = workshop
        self.freed: list[dict[str, Any]] = []

        async def note_room(_: ToolContext, params: dict[str, Any]) -> Any:
            self.freed.append(params)
            return params

        declared: dict[str, Any] = {"compensate": FREE, "reversibility": "compensable"}
        workshop.tool("rooms.hold", lost, **{**declared, **hold})
        freeing: dict[str, Any] = {"authority": ("room",), "no_compensation": "it frees a room"}
        workshop.tool("rooms.free", note_room, **freeing, **(free or {}))
        workshop.tool("break.it", refusing(), no_compensation="it never happens")

    def pack(self, **header: Any) -> Pack:
        """A pack whose failed runs are compensated."""
        fields: dict[str, Any] = {"gates": (BOSS, NEVER), "on_failure": "compensate"}
        return self.workshop.pack(**{**fields, **header})

    def plan(self, **fields: Any) -> Plan:
        """A plan that holds a room, and then fails."""
        held = step("hold", "rooms.hold", params={"order": {"$from": "request#/order"}}, **fields)
        return plan(held, step("x", "break.it", depends_on=("hold",)))


async def fail(runtime: Runtime, course: Plan, settler: Actor, planner: Script | None = None) -> RunResult:
    """Run a plan that fails; `settler` enters the result of its lost call, and the boss answers all other gates."""
    given: dict[str, Any] = {"plan": course} if planner is None else {"planner": planner}
    result = await runtime.run(ASK, actor=ADA, **given)
    while (gate := result.gate) is not None and gate.step != "~hold":
        if gate.kind == "reconcile":
            await runtime.settle(gate.id, happened=True, value=ENTERED, actor=settler)
        elif gate.kind == "approval":
            await runtime.approve(gate.id, actor=BOB)
        else:
            await runtime.decide(gate.id, "abandon", actor=BOB)
        result = await runtime.resume(result.session_id, planner=planner)
    return result


async def rollback_of(runtime: Runtime, session_id: str) -> RollbackResult:
    """How compensating a run went."""
    rollback = (await report_of(runtime, session_id)).rollback
    assert rollback is not None
    return rollback


@pytest.mark.parametrize(
    "settler", [ADA, DAN, Actor(id="ada", roles=("boss",))], ids=["owner", "guest", "own"]
)
@pytest.mark.parametrize("compensate", [None, FREE], ids=["declared", "proposed"])
@pytest.mark.parametrize("is_unbound_gate", [True, False], ids=["unbound", "tool"])
def test_a_compensation_that_reads_an_entered_result_waits_for_an_approval(
    workshop: Workshop, url: str, compensate: dict[str, Any] | None, is_unbound_gate: bool, settler: Actor
) -> None:
    """At the gates of its tool and the decision's gate for unbound values; the call and who entered it are shown."""
    hotel = Hotel(workshop, free={} if is_unbound_gate else {"gates": ("BOSS",)})
    pack = hotel.pack(**({"decision": {"unbound_gate": "BOSS"}} if is_unbound_gate else {}))

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            result = await fail(runtime, hotel.plan(compensate=compensate), settler)
            gate = result.gate
            assert gate is not None
            assert (gate.kind, gate.step, gate.names, hotel.freed) == ("approval", "~hold", ("BOSS",), [])
            assert (gate.shown["tool"], gate.shown["params"]) == ("rooms.free", ENTERED)
            said = f"self#/room, untrusted: the result of step hold was entered by {settler.id}"
            assert gate.shown["sources"] == {"room": said}
            with pytest.raises(UsageError) as caught:
                await runtime.approve(gate.id, actor=ADA)
            assert caught.value.code == "own_gate"
            await runtime.approve(gate.id, actor=CLEO)
            result = await runtime.resume(result.session_id)
            assert (await rollback_of(runtime, result.session_id)).success

    workshop.run(main())
    assert hotel.freed == [ENTERED]


@pytest.mark.parametrize("where", ["step", "tool", "decision"])
def test_a_gate_that_did_not_apply_to_the_step_applies_to_its_entered_result(
    workshop: Workshop, where: str
) -> None:
    """The condition of a gate spoke about the call that was planned, and not about what its owner entered."""
    hold: dict[str, Any] = {"gates": ("NEVER",)} if where == "tool" else {}
    hotel = Hotel(workshop, **hold)
    fields: dict[str, Any] = {"gates": ("NEVER",)} if where == "step" else {}
    pack = hotel.pack(**({"decision": {"gates": ("NEVER",)}} if where == "decision" else {}))

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await fail(runtime, hotel.plan(**fields), ADA)
            assert result.gate is not None
            assert (result.gate.kind, result.gate.names, hotel.freed) == ("approval", ("NEVER",), [])

    workshop.run(main())


def test_a_denied_compensation_of_an_entered_result_is_not_made(workshop: Workshop) -> None:
    """The effect is listed for an operator."""
    hotel = Hotel(workshop, free={"gates": ("BOSS",)})

    async def main() -> None:
        async with workshop.runtime(hotel.pack()) as runtime:
            result = await fail(runtime, hotel.plan(), ADA)
            assert result.gate is not None
            await runtime.deny(result.gate.id, actor=BOB, note="not that room")
            result = await runtime.resume(result.session_id)
            [entry] = (await rollback_of(runtime, result.session_id)).log
            assert (entry.status, entry.error) == (
                RollbackStatus.COMPENSATION_FAILED,
                "bob denied it: not that room",
            )

    workshop.run(main())
    assert hotel.freed == []


@pytest.mark.parametrize("fields", [{}, {"compensate": FREE}], ids=["declared", "proposed"])
def test_without_a_gate_a_compensation_of_an_entered_result_is_left_to_an_operator(
    workshop: Workshop, fields: dict[str, Any]
) -> None:
    """A step that waited at no gate names no people who could decide about it."""
    hotel = Hotel(workshop)

    async def main() -> None:
        async with workshop.runtime(hotel.pack()) as runtime:
            result = await fail(runtime, hotel.plan(**fields), ADA)
            rollback = await rollback_of(runtime, result.session_id)
            assert rollback.requires_manual_intervention
            [entry] = rollback.log
            assert (entry.status, entry.note) == (RollbackStatus.CANNOT_ROLLBACK, NOTE)

    workshop.run(main())
    assert hotel.freed == []


@pytest.mark.parametrize(
    ("settler", "compensate", "freed"),
    [
        (BOB, FREE, ENTERED),
        (ADA, {"tool": "rooms.free", "params": {"room": {"$from": "params#/order"}}}, {"room": "o1"}),
    ],
    ids=["a trusted person", "parameters only"],
)
def test_a_compensation_without_an_untrusted_entry_runs_by_itself(
    workshop: Workshop, settler: Actor, compensate: dict[str, Any], freed: dict[str, Any]
) -> None:
    """What a person with a named role entered stands in for the tool's result; other values are not affected."""
    hotel = Hotel(workshop, compensate=compensate)

    async def main() -> None:
        async with workshop.runtime(hotel.pack()) as runtime:
            result = await fail(runtime, hotel.plan(), settler)
            assert result.gate is None
            assert (await rollback_of(runtime, result.session_id)).success

    workshop.run(main())
    assert hotel.freed == [freed]


def test_a_later_plan_does_not_make_an_entered_result_trusted(workshop: Workshop) -> None:
    """The next plan no longer holds the step, but what was entered for it is remembered with its effect."""
    hotel = Hotel(workshop)
    planner = Script(hotel.plan(), plan(step("y", "break.it")))

    async def main() -> None:
        async with workshop.runtime(hotel.pack()) as runtime:
            result = await fail(runtime, hotel.plan(), ADA, planner)
            [entry] = (await rollback_of(runtime, result.session_id)).log
            assert (entry.status, entry.note) == (RollbackStatus.CANNOT_ROLLBACK, NOTE)

    workshop.run(main())
    assert hotel.freed == []
