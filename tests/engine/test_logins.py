"""Who approved is who was logged in: the login is recorded, must be the one that the pack gives the approver, and counts
once."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest

from tercet.contracts.errors import UsageError
from tercet.contracts.gate import Gate
from tercet.contracts.request import Actor
from tercet.core import events as e
from tercet.core.transcript import approvals
from tercet.engine.session_reader import load_history
from tercet.packs.pack import Pack
from tercet.runtime import Runtime

from .test_escalation import BROKEN, broken
from .test_gates import gate_of
from .workshop import ASK, DAN, Workshop, plan, step

BOSS = Gate(name="BOSS", roles=("boss",))
TWO = Gate(name="BOSS", roles=("boss",), quorum=2)
ANYBODY = Gate(name="BOSS", roles=())
WIPE = plan(step("w", "wipe.it"))

ROSA = Actor(id="asker", os_user="rosa")
"""Who asks, at a terminal."""
NADIA = Actor(id="nadia", roles=("boss",), os_user="nadia_m")
OTTO = Actor(id="otto", roles=("boss",))
"""Listed without a login: the login is called like him."""
LISTED = (ROSA, NADIA, OTTO)


def at_terminal(who: Actor, login: str) -> Actor:
    """Somebody at a terminal, as a list of their own makes them out."""
    return who.model_copy(update={"os_user": login})


def dangerous(workshop: Workshop, gate: Gate = BOSS, actors: tuple[Actor, ...] = LISTED, **more: Any) -> Pack:
    """A pack with a tool that people must let through."""
    if not workshop.tools:
        workshop.tool("wipe.it", mode="destructive", authority=(), gates=("BOSS",), no_compensation="gone")
    return workshop.pack(gates=(gate,), actors=actors, **more)


async def refused(said: Awaitable[Any]) -> UsageError:
    """The refusal of what somebody said; it says what to do."""
    with pytest.raises(UsageError) as caught:
        await said
    assert caught.value.remedy
    return caught.value


async def answers_of(runtime: Runtime, session: str) -> list[e.GateAnswered]:
    """The answers that became events."""
    events = (await load_history(runtime.journal, "default", session)).events
    return [event for event in events if isinstance(event, e.GateAnswered)]


def test_the_login_of_an_answer_is_recorded(workshop: Workshop) -> None:
    """It stands in the event, in the state, and in the approvals that a record keeps; only where somebody was logged in."""

    by_token = Actor(id="otto", roles=("boss",), auth="oidc", os_user="otto")

    async def main() -> None:
        async with workshop.runtime(dangerous(workshop, TWO)) as runtime:
            result = await runtime.run(ASK, plan=WIPE, actor=ROSA)
            await runtime.approve(gate_of(result), actor=at_terminal(NADIA, "nadia_m"))
            await runtime.approve(gate_of(result), actor=by_token)
            said = [
                (each.actor, each.auth, each.login) for each in await answers_of(runtime, result.session_id)
            ]
            assert said == [("nadia", "local", "nadia_m"), ("otto", "oidc", "")]
            kept = approvals(await runtime.state(result.session_id))
            assert [each.login for each in kept] == ["nadia_m", None]
            assert "login" not in kept[1].model_dump()

    workshop.run(main())


@pytest.mark.parametrize("gate", [BOSS, ANYBODY], ids=["roles", "anybody"])
@pytest.mark.parametrize("who", [NADIA, OTTO], ids=["with a login", "called like it"])
def test_nobody_answers_as_somebody_whom_the_pack_gives_another_login(
    workshop: Workshop, gate: Gate, who: Actor
) -> None:
    """Whatever list they bring: an answer under a name whose login is another is told so, and nothing is recorded."""

    async def main() -> None:
        async with workshop.runtime(dangerous(workshop, gate)) as runtime:
            result = await runtime.run(ASK, plan=WIPE, actor=ROSA)
            for say in (runtime.approve, runtime.deny, runtime.withdraw):
                error = await refused(say(gate_of(result), actor=at_terminal(who, "nobody")))
                assert error.code == "wrong_login"
                assert f"{who.id} is not the login nobody" in error.message
            assert await answers_of(runtime, result.session_id) == []

    workshop.run(main())
    assert workshop.calls == []


def test_roles_of_a_login_are_those_of_the_runs_own_pack(workshop: Workshop) -> None:
    """A list that somebody brings along gives neither a stranger nor a colleague a role."""
    clerk = Actor(id="clerk", os_user="clerk")
    pack = dangerous(workshop, actors=(*LISTED, clerk))
    generous = workshop.pack(
        gates=(BOSS,),
        actors=(Actor(id="zed", roles=("boss",)), clerk.model_copy(update={"roles": ("boss",)})),
    )

    async def main() -> None:
        async with workshop.journal("memory:") as journal:
            async with workshop.runtime(pack, journal) as runtime:
                gate = gate_of(await runtime.run(ASK, plan=WIPE, actor=ROSA))
            async with workshop.runtime(generous, journal) as theirs:
                for who in ("zed", "clerk"):
                    error = await refused(theirs.approve(gate, actor=Actor(id=who, os_user=who)))
                    assert error.code == "role_missing"

    workshop.run(main())


def test_an_approval_from_another_login_is_found_when_the_call_is_due(workshop: Workshop) -> None:
    """Where the list was another one when somebody approved, the call is refused with the reason, and people are asked
    again; the true one lets it through."""
    evil = (ROSA, at_terminal(NADIA, "nobody"))

    async def main() -> None:
        async with workshop.journal("memory:") as journal:
            async with workshop.runtime(dangerous(workshop, actors=evil), journal) as runtime:
                result = await runtime.run(ASK, plan=WIPE, actor=ROSA)
                await runtime.approve(gate_of(result), actor=at_terminal(NADIA, "nobody"))
            async with workshop.runtime(dangerous(workshop), journal) as honest:
                result = await honest.resume(result.session_id)
                assert result.status == "paused"
                assert "nadia approved BOSS, and is not the login nobody" in result.reason
                assert workshop.calls == []
                result = await honest.resume(result.session_id)
                await honest.approve(gate_of(result), actor=at_terminal(NADIA, "nadia_m"))
                assert (await honest.resume(result.session_id)).status == "completed"

    workshop.run(main())
    assert workshop.calls == [("w", 1)]


@pytest.mark.req("R137")
def test_one_login_is_no_quorum_of_two(workshop: Workshop) -> None:
    """A login that approved under one name does not approve under another, also where no list says who is who."""
    pack = dangerous(workshop, TWO, actors=())

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=WIPE, actor=ROSA)
            await runtime.approve(gate_of(result), actor=at_terminal(NADIA, "nobody"))
            error = await refused(runtime.approve(gate_of(result), actor=at_terminal(OTTO, "nobody")))
            assert error.code == "already_approved"
            assert "the login nobody has approved" in error.message
            assert (await runtime.resume(result.session_id)).status == "awaiting_gate"

    workshop.run(main())
    assert workshop.calls == []


def test_the_login_that_asked_does_not_approve_under_another_name(workshop: Workshop) -> None:
    """Whoever started a run is known by the login as well."""
    pack = dangerous(workshop, actors=())

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=WIPE, actor=ROSA)
            error = await refused(runtime.approve(gate_of(result), actor=at_terminal(NADIA, "rosa")))
            assert error.code == "own_gate"
            assert "the login rosa" in error.message

    workshop.run(main())


def test_a_list_that_has_changed_is_read_when_the_run_is_resumed(workshop: Workshop) -> None:
    """Somebody who was put on the list while the run waited may answer once a process has read it."""
    late = Actor(id="late", roles=("boss",))

    async def main() -> None:
        async with workshop.journal("memory:") as journal:
            async with workshop.runtime(dangerous(workshop), journal) as runtime:
                result = await runtime.run(ASK, plan=WIPE, actor=ROSA)
            async with workshop.runtime(dangerous(workshop, actors=(*LISTED, late)), journal) as runtime:
                error = await refused(runtime.approve(gate_of(result), actor=at_terminal(late, "late")))
                assert error.code == "role_missing"
                assert "resume" in (error.remedy or "")
                await runtime.resume(result.session_id)
                await runtime.approve(gate_of(result), actor=at_terminal(late, "late"))
                assert (await runtime.resume(result.session_id)).status == "completed"

    workshop.run(main())


OUTPUT = {
    "required_outputs": ("n",),
    "outputs_schema": {"type": "object"},
    "requires_human_approval": True,
    "output_gate": "BOSS",
}


def test_outputs_are_accepted_by_logins_of_the_list(workshop: Workshop) -> None:
    """At a gate for outputs the same holds: another login, a second name of one login, the login that asked."""
    workshop.tool("do.it")
    pack = workshop.pack(gates=(TWO,), actors=LISTED, decision=OUTPUT)
    made = plan(step("a", params={"n": 1}), outputs={"n": {"$from": "a#/n"}})

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=made, actor=ROSA)
            gate = gate_of(result)
            assert result.gate is not None
            assert result.gate.kind == "output"
            codes = [
                (await refused(runtime.approve(gate, actor=at_terminal(who, login)))).code
                for who, login in ((NADIA, "nobody"), (NADIA, "rosa"), (DAN, "zed"))
            ]
            assert codes == ["wrong_login", "wrong_login", "role_missing"]
            await runtime.approve(gate, actor=at_terminal(NADIA, "nadia_m"))
            await runtime.approve(gate, actor=at_terminal(OTTO, "otto"))
            assert (await runtime.resume(result.session_id)).status == "completed"

    workshop.run(main())


def test_what_was_handed_over_is_accepted_by_logins_of_the_list(workshop: Workshop) -> None:
    """An escalation is answered under one's own login too, and not by the login that asked."""
    pack = broken(workshop, actors=LISTED)

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=BROKEN, actor=ROSA)
            assert result.gate is not None
            gate = result.gate.id
            stolen = await refused(runtime.decide(gate, "abandon", actor=at_terminal(NADIA, "nobody")))
            assert stolen.code == "wrong_login"
            own = await refused(runtime.decide(gate, "accept_partial", actor=Actor(id="max", os_user="rosa")))
            assert own.code == "own_gate"

    workshop.run(main())


def test_the_record_keeps_the_logins(workshop: Workshop) -> None:
    """What is left of a run says from which login each approval came."""
    pack = dangerous(workshop, TWO, actors=())

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=WIPE, actor=ROSA)
            for who, login in ((NADIA, "nadia_m"), (OTTO, "otto")):
                await runtime.approve(gate_of(result), actor=at_terminal(who, login))
            result = await runtime.resume(result.session_id)
            record = await runtime.record(result.session_id)
            assert [each.login for each in record.approvals] == ["nadia_m", "otto"]

    workshop.run(main())
