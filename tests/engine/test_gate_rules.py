"""Who may answer a gate, with what, and until when: each mistake has its own answer, and changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tercet.contracts.errors import UsageError
from tercet.contracts.gate import Gate
from tercet.contracts.request import Actor
from tercet.core import events as e
from tercet.core import messages
from tercet.engine import inbox
from tercet.packs.pack import Pack
from tercet.runtime import RunResult, Runtime
from tercet.tools import ToolContext

from .test_gates import gate_of
from .test_limits import failing, taking
from .test_runs import Script
from .test_sessions import session_under_way
from .workshop import ADA, ASK, BOB, CLEO, DAN, LEA, Workshop, events, names, plan, step

BOSS = Gate(name="BOSS", roles=("boss",))
TWO = Gate(name="BOSS", roles=("boss",), quorum=2)
LAW = Gate(name="LAW", roles=("law",))
WIPE = plan(step("w", "wipe.it"))


def dangerous(workshop: Workshop, *gates: Gate, **header: Any) -> Pack:
    """A pack with a tool that nobody calls without the word of these gates."""
    asked = gates or (BOSS,)
    workshop.tool(
        "wipe.it",
        mode="destructive",
        authority=(),
        gates=[gate.name for gate in asked],
        no_compensation="gone is gone",
    )
    return workshop.pack(gates=asked, **header)


async def refused(answer: Awaitable[Any]) -> str:
    """The code with which an answer is refused; the refusal says what to do."""
    with pytest.raises(UsageError) as caught:
        await answer
    assert caught.value.remedy
    return caught.value.code


Answering = Callable[[Runtime, str], Awaitable[RunResult]]


MISTAKES: list[tuple[str, Answering]] = [
    ("role_missing", lambda runtime, gate: runtime.approve(gate, actor=DAN)),
    ("role_missing", lambda runtime, gate: runtime.approve(gate, actor=LEA)),
    ("role_missing", lambda runtime, gate: runtime.deny(gate, actor=LEA)),
    ("role_missing", lambda runtime, gate: runtime.modify(gate, actor=LEA, note="less")),
    ("own_gate", lambda runtime, gate: runtime.approve(gate, actor=ADA)),
    ("own_gate", lambda runtime, gate: runtime.approve(gate, actor=Actor(id="ada", roles=("boss",)))),
    ("wrong_digest", lambda runtime, gate: runtime.approve(gate, actor=BOB, digest="sha256:other")),
    ("callers_plan", lambda runtime, gate: runtime.modify(gate, actor=BOB, note="less")),
    ("not_approved", lambda runtime, gate: runtime.withdraw(gate, actor=BOB)),
    ("wrong_answer", lambda runtime, gate: runtime.decide(gate, "abandon", actor=BOB)),
    ("gate_not_open", lambda runtime, gate: runtime.approve(f"{gate}7", actor=BOB)),
    ("unknown_gate", lambda runtime, gate: runtime.approve(gate.replace(".g", "-"), actor=BOB)),
    ("unknown_session", lambda runtime, _: runtime.approve("ses_none.g1", actor=BOB)),
]  # fmt: skip


@pytest.mark.req("R137")
@pytest.mark.parametrize(("code", "answer"), MISTAKES)
def test_an_answer_that_nobody_may_give_changes_nothing(
    workshop: Workshop, code: str, answer: Answering
) -> None:
    """Each mistake is told by its code and with a remedy, and not one event is written."""
    pack = dangerous(workshop)

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=WIPE, actor=ADA)
            before = await runtime.state(result.session_id)
            assert await refused(answer(runtime, gate_of(result))) == code
            assert await runtime.state(result.session_id) == before
            assert await inbox.read_unread(runtime.journal, "default", before) == []

    workshop.run(main())
    assert workshop.calls == []


@pytest.mark.parametrize(
    ("actor", "answer", "message"),
    [
        (DAN, "approve", "dan (no role) may not approve gate GATE: it needs chief or law"),
        (BOB, "approve", "bob (boss) may not approve gate GATE: it needs chief or law"),
        (DAN, "abandon", "gate GATE takes approve, deny, modify or withdraw, not abandon"),
    ],
)
def test_a_refused_answer_names_the_roles_that_are_needed(
    workshop: Workshop, actor: Actor, answer: Any, message: str
) -> None:
    """With the roles that the person holds; an answer that the gate does not take is refused with those that it takes."""
    pack = dangerous(workshop, LAW, Gate(name="CHIEF", roles=("chief",)))

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            gate = gate_of(await runtime.run(ASK, plan=WIPE, actor=ADA))
            with pytest.raises(UsageError) as refusal:
                await (
                    runtime.approve(gate, actor=actor)
                    if answer == "approve"
                    else runtime.decide(gate, answer, actor=actor)
                )
            assert refusal.value.message == message.replace("GATE", gate)

    workshop.run(main())


def test_the_list_of_people_says_who_holds_a_role(workshop: Workshop) -> None:
    """What somebody claims to hold counts for nothing where the pack lists them."""
    pack = dangerous(workshop, actors=(Actor(id="bob"), Actor(id="dan", roles=("boss",))))

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            gate = gate_of(await runtime.run(ASK, plan=WIPE, actor=ADA))
            assert await refused(runtime.approve(gate, actor=BOB)) == "role_missing"
            await runtime.approve(gate, actor=DAN)

    workshop.run(main())


def test_a_stranger_holds_no_role_where_people_are_listed(workshop: Workshop) -> None:
    """Only a runtime that trusts its caller believes that somebody unlisted holds a role, when they approve and again when
    the call is due."""
    pack = dangerous(workshop, actors=(CLEO,))

    async def main() -> None:
        async with workshop.journal("memory:") as journal:
            async with workshop.runtime(pack, journal) as runtime:
                result = await runtime.run(ASK, plan=WIPE, actor=ADA)
                assert await refused(runtime.approve(gate_of(result), actor=BOB)) == "role_missing"
            async with workshop.runtime(pack, journal, trusts_caller=True) as trusting:
                await trusting.approve(gate_of(result), actor=BOB)
            async with workshop.runtime(pack, journal) as runtime:
                held = await runtime.resume(result.session_id)
                assert "bob approved BOSS, and does not hold boss" in held.reason
                assert workshop.calls == []
            async with workshop.runtime(pack, journal, trusts_caller=True) as trusting:
                result = await trusting.resume(result.session_id)
                await trusting.approve(gate_of(result), actor=BOB)
                assert (await trusting.resume(result.session_id)).status == "completed"

    workshop.run(main())
    assert workshop.calls == [("w", 1)]


@pytest.mark.req("R137")
def test_a_quorum_counts_different_people(workshop: Workshop, url: str) -> None:
    """One person twice is told so; the call is made when the second person has approved, and not before."""
    pack = dangerous(workshop, TWO)

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=WIPE, actor=ADA)
            gate = gate_of(result)
            assert (await runtime.approve(gate, actor=BOB)).status == "awaiting_gate"
            assert await refused(runtime.approve(gate, actor=BOB)) == "already_approved"
            assert (await runtime.resume(result.session_id)).status == "awaiting_gate"
            assert workshop.calls == []
            assert (await runtime.approve(gate, actor=CLEO)).status == "in_progress"
            assert (await runtime.resume(result.session_id)).status == "completed"
            approvals = (await runtime.record(result.session_id)).approvals
            assert {each.approver for each in approvals} == {"bob", "cleo"}

    workshop.run(main())
    assert workshop.calls == [("w", 1)]


@pytest.mark.req("R137")
def test_two_gates_ask_two_kinds_of_people(workshop: Workshop) -> None:
    """A call behind two names waits until both have their people; more of one kind does not stand in for the other."""
    pack = dangerous(workshop, TWO, LAW)

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=WIPE, actor=ADA)
            gate = gate_of(result)
            assert result.gate is not None
            assert set(result.gate.names) == {"BOSS", "LAW"}
            for actor in (BOB, CLEO):
                assert (await runtime.approve(gate, actor=actor)).status == "awaiting_gate"
            third = Actor(id="max", roles=("boss",))
            assert await refused(runtime.approve(gate, actor=third)) == "role_missing"
            state = await runtime.state(result.session_id)
            assert state.gates[gate].unmet == ("LAW",)
            await runtime.approve(gate, actor=LEA)
            assert (await runtime.resume(result.session_id)).status == "completed"

    workshop.run(main())
    assert workshop.calls == [("w", 1)]


@pytest.mark.req("R139")
def test_one_denial_outweighs_an_approval(workshop: Workshop, url: str) -> None:
    """A gate with one of two approvals is denied at once, and nothing is called."""
    pack = dangerous(workshop, TWO)

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=WIPE, actor=ADA)
            gate = gate_of(result)
            await runtime.approve(gate, actor=BOB)
            denied = await runtime.deny(gate, actor=CLEO, note="no")
            assert (denied.status, denied.gate) == ("awaiting_gate", None)
            assert await refused(runtime.approve(gate, actor=LEA)) == "session_ending"
            result = await runtime.resume(result.session_id)
            assert (result.status, result.reason) == ("rejected", "cleo denied w: no")
            assert await refused(runtime.approve(gate, actor=BOB)) == "session_over"

    workshop.run(main())
    assert workshop.calls == []


def test_the_owner_may_deny(workshop: Workshop) -> None:
    """Whoever started a run can stop it at its gate, although they cannot let it through."""
    pack = dangerous(workshop)

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=WIPE, actor=ADA)
            await runtime.deny(gate_of(result), actor=ADA, note="I was wrong")
            assert (await runtime.resume(result.session_id)).status == "rejected"

    workshop.run(main())
    assert workshop.calls == []


def test_a_paused_run_can_be_denied(workshop: Workshop) -> None:
    """A run that was paused beside an open gate, and is denied then, ends rejected."""
    workshop.tool("slow.it", taking(5_000))
    pack = dangerous(workshop)
    both = plan(step("w", "wipe.it"), step("s", "slow.it"), step("t", "slow.it", depends_on=("s",)))

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            running = asyncio.ensure_future(runtime.run(ASK, plan=both, actor=ADA))
            await workshop.clock.sleep(1_000)
            [row] = await runtime.sessions()
            paused = await runtime.pause(row.session_id, actor=ADA)
            assert paused.status == "paused"
            assert (await running).status == "paused"
            await runtime.deny(f"{row.session_id}.g1", actor=BOB)
            assert (await runtime.resume(row.session_id)).status == "rejected"

    workshop.run(main())
    assert workshop.calls == [("s", 1)]


# --- modify ---


@pytest.mark.req("R144", "R145")
@pytest.mark.parametrize("optional", [False, True])
def test_a_change_goes_back_to_the_planner(workshop: Workshop, url: str, optional: bool) -> None:
    """The planner is told the words, its next plan waits at a gate of its own, and no approval from before counts."""
    pack = dangerous(workshop, TWO)
    first, second = (
        plan(step("w", "wipe.it", params={"n": number}, optional=optional)) for number in (100, 10)
    )
    planner = Script(first, second)

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, planner=planner, actor=ADA)
            gate = gate_of(result)
            await runtime.approve(gate, actor=BOB)
            assert await refused(runtime.modify(gate, actor=CLEO, note="")) == "note_missing"
            assert (await runtime.modify(gate, actor=CLEO, note="at most ten")).status == "in_progress"
            result = await runtime.resume(result.session_id, planner=planner)
            assert planner.told[1] == ("a person asks for a change: at most ten",)
            assert gate_of(result) != gate
            assert result.gate is not None
            assert (result.gate.shown["params"], result.gate.approved_by) == ({"n": 10}, ())
            assert await refused(runtime.approve(gate, actor=BOB)) == "gate_not_open"
            await runtime.approve(gate_of(result), actor=BOB)
            assert (await runtime.resume(result.session_id, planner=planner)).status == "awaiting_gate"
            await runtime.approve(gate_of(result), actor=CLEO)
            assert (await runtime.resume(result.session_id, planner=planner)).status == "completed"

    workshop.run(main())
    assert workshop.calls == [("w", 1)]


def test_the_same_words_again_need_a_new_approval(workshop: Workshop) -> None:
    """A call that the next plan makes as before is asked about again: what was approved was the plan that is gone."""
    workshop.tool("fail.it", failing(1))
    pack = dangerous(workshop, budget={"max_step_retries": 0})
    planner = Script(
        plan(step("f", "fail.it"), step("w", "wipe.it")), plan(step("g", None), step("w", "wipe.it"))
    )

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, planner=planner, actor=ADA)
            assert gate_of(result) == f"{result.session_id}.g2"
            await runtime.approve(gate_of(result), actor=BOB)
            assert (await runtime.resume(result.session_id, planner=planner)).status == "completed"

    workshop.run(main())


def test_a_change_that_is_asked_for_during_a_pause_is_not_lost(workshop: Workshop, url: str) -> None:
    """Resuming a paused run tries nothing afresh that a person sent back: the planner hears of it."""

    async def slow(_: ToolContext, __: dict[str, Any]) -> Any:
        await workshop.clock.sleep(5_000)

    workshop.tool("do.it", slow)
    workshop.tool("net.it", mode="network", authority=(), no_compensation="it only tells")
    script = Script(
        plan(step("a"), step("c", depends_on=("a",)), step("b", "net.it")),
        plan(step("a"), step("c", depends_on=("a",))),
    )

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(workshop.pack(), journal) as runtime:
            running = asyncio.ensure_future(runtime.run(ASK, planner=script, actor=ADA))
            await workshop.clock.sleep(1_000)
            [row] = await runtime.sessions()
            [asked] = (await runtime.state(row.session_id)).gates
            await runtime.pause(row.session_id, actor=ADA)
            assert (await running).status == "paused"
            await runtime.modify(asked, actor=BOB, note="without b")
            result = await runtime.resume(row.session_id, planner=script)
            assert result.status == "completed"
            assert script.told[-1] == ("a person asks for a change: without b",)

    workshop.run(main())
    assert [name for name, _ in workshop.calls] == ["a", "c"]


# --- withdraw ---


@pytest.mark.req("R136")
def test_a_withdrawn_approval_opens_the_gate_again(workshop: Workshop, url: str) -> None:
    """Before the call begins an approval can be taken back; the same gate waits again, and only its owner takes it."""
    pack = dangerous(workshop)

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=WIPE, actor=ADA)
            gate = gate_of(result)
            await runtime.approve(gate, actor=BOB)
            assert await refused(runtime.withdraw(gate, actor=CLEO)) == "not_approved"
            assert (await runtime.withdraw(gate, actor=BOB, note="wait")).status == "awaiting_gate"
            assert gate_of(await runtime.resume(result.session_id)) == gate
            assert workshop.calls == []
            await runtime.approve(gate, actor=CLEO)
            assert (await runtime.resume(result.session_id)).status == "completed"
            assert await refused(runtime.withdraw(gate, actor=CLEO)) == "session_over"

    workshop.run(main())
    assert workshop.calls == [("w", 1)]


def test_what_has_begun_is_not_withdrawn(workshop: Workshop) -> None:
    """While the approved call is under way it is too late to take the approval back."""
    workshop.tool("wipe.it", taking(10_000), mode="destructive", authority=(), gates=("BOSS",))
    pack = workshop.pack(gates=(BOSS,))

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=WIPE, actor=ADA)
            gate = gate_of(result)
            await runtime.approve(gate, actor=BOB)
            running = asyncio.ensure_future(runtime.resume(result.session_id))
            await workshop.clock.sleep(1_000)
            assert await refused(runtime.withdraw(gate, actor=BOB)) == "too_late"
            assert (await running).status == "completed"

    workshop.run(main())


# --- time ---


@pytest.mark.req("R138")
@pytest.mark.parametrize("touch", ["resume", "approve"])
def test_a_gate_that_nobody_answers_in_time_ends_its_session(
    workshop: Workshop, url: str, touch: str
) -> None:
    """At the next touch after its time to live the session expires, although the session itself may live on for days."""
    pack = dangerous(workshop, BOSS.model_copy(update={"ttl_ms": 1_000}))

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=WIPE, actor=ADA)
            workshop.clock.advance(1_000)
            if touch == "approve":
                assert await refused(runtime.approve(gate_of(result), actor=BOB)) == "gate_expired"
                assert (await runtime.state(result.session_id)).ending == "expired"
                assert await refused(runtime.approve(gate_of(result), actor=BOB)) == "gate_expired"
            ended = await runtime.resume(result.session_id)
            assert (ended.status, ended.gate) == ("expired", None)
            assert gate_of(result) in ended.reason
            assert await refused(runtime.approve(gate_of(result), actor=BOB)) == "session_over"

    workshop.run(main())
    assert workshop.calls == []


def test_a_session_that_has_lived_too_long_expires(workshop: Workshop) -> None:
    """The time to live of the session counts whatever its gates allow; a moment before, an approval is still good."""
    pack = dangerous(workshop)

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            late = await runtime.run(ASK, plan=WIPE, actor=ADA, ttl_ms=5_000)
            good = await runtime.run(ASK, plan=WIPE, actor=ADA, ttl_ms=5_001)
            workshop.clock.advance(5_000)
            assert await refused(runtime.approve(gate_of(late), actor=BOB)) == "gate_expired"
            assert (await runtime.resume(late.session_id)).status == "expired"
            await runtime.approve(gate_of(good), actor=BOB)
            assert (await runtime.resume(good.session_id)).status == "completed"

    workshop.run(main())
    assert workshop.calls == [("w", 1)]


def test_a_gate_expires_while_its_run_is_busy(workshop: Workshop) -> None:
    """A run whose other branch is under way notices: the call is seen to its end, and the session expires."""
    workshop.tool("slow.it", taking(20_000))
    workshop.tool("do.it")
    pack = dangerous(workshop, BOSS.model_copy(update={"ttl_ms": 5_000}))

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            both = plan(step("w", "wipe.it"), step("s", "slow.it"), step("t", depends_on=("s",)))
            result = await runtime.run(ASK, plan=both, actor=ADA)
            assert (result.status, result.steps_done) == ("expired", 1)

    workshop.run(main())
    assert workshop.calls == [("s", 1)]


# --- several processes ---


def test_of_two_answers_at_once_one_counts(workshop: Workshop, tmp_path: Any) -> None:
    """Two processes approve and deny at the same moment: the run has one outcome, and the other person is told."""
    pack = dangerous(workshop)
    url = f"sqlite:///{tmp_path / 'runs.db'}"

    async def main() -> None:
        async with workshop.processes(pack, url, 2) as (here, there):
            outcomes: set[str] = set()
            for turn in range(40):
                if turn >= 8 and len(outcomes) == 2:
                    break
                workshop.calls.clear()
                result = await here.run(ASK, plan=WIPE, actor=ADA)
                gate = gate_of(result)
                # Who is quicker is the machine's matter, so each of the two says either in turn.
                one, other = (here, there) if turn % 2 else (there, here)
                answers = [one.approve(gate, actor=BOB), other.deny(gate, actor=CLEO)]
                answers = answers if turn // 2 % 2 else answers[::-1]
                said = await asyncio.gather(*answers, return_exceptions=True)
                told = [each for each in said if isinstance(each, UsageError)]
                status = (await there.resume(result.session_id)).status
                found = await events(here.journal, result.session_id)
                answered = [each.answer for each in found if isinstance(each, e.GateAnswered)]
                assert len(answered) == 1 == len(told)
                assert told[0].code in ("gate_not_open", "session_ending", "session_over")
                assert status == {"approve": "completed", "deny": "rejected"}[answered[0]]
                assert bool(workshop.calls) == (status == "completed")
                outcomes.add(status)
            assert outcomes == {"completed", "rejected"}

    workshop.run(main())


def test_an_answer_is_heard_while_another_process_drives(workshop: Workshop, tmp_path: Any) -> None:
    """A process that has no lease puts the answer into the inbox; the one that drives hears it and makes the call."""
    workshop.tool("slow.it", taking(30_000), timeout_ms=60_000)
    pack = dangerous(workshop)
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    both = plan(step("w", "wipe.it"), step("s", "slow.it"))

    async def main() -> None:
        async with workshop.processes(pack, url, 2) as (here, there):
            running = asyncio.ensure_future(here.run(ASK, plan=both, actor=ADA))
            await workshop.clock.sleep(1_000)
            [row] = await there.sessions()
            result = await there.approve(f"{row.session_id}.g1", actor=BOB)
            assert not running.done()
            assert workshop.calls == [("s", 1), ("w", 1)]
            assert result.status == "in_progress"
            assert (await running).status == "completed"
            # One process drove it from its start to its end.
            assert "session_resumed" not in names(await events(there.journal, row.session_id))

    workshop.run(main())


def test_an_answer_whose_giver_died_is_heard_by_the_next(workshop: Workshop, url: str) -> None:
    """An approval that reached the inbox and not the events counts as soon as somebody resumes the session."""
    pack = dangerous(workshop)

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=WIPE, actor=ADA)
            await inbox.post(journal, "default", messages.reply(gate_of(result), "approve", BOB))
            assert (await runtime.state(result.session_id)).gates
            assert (await runtime.resume(result.session_id)).status == "completed"
            [answer] = (await runtime.state(result.session_id)).answers
            assert (answer.actor, answer.answer) == ("bob", "approve")

    workshop.run(main())
    assert workshop.calls == [("w", 1)]


def test_what_nobody_may_say_is_dropped_where_it_is_heard(workshop: Workshop, url: str) -> None:
    """The inbox is no way around the rules: the driver refuses what its author was not asked about, and says why."""
    pack = dangerous(workshop, TWO)

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=WIPE, actor=ADA)
            gate = gate_of(result)
            to: dict[str, Any] = {"session": result.session_id, "gate": gate}
            forged: dict[str, messages.Message] = {
                "own_gate": messages.Reply(**to, answer="approve", actor="ada", roles=("boss",)),
                "role_missing": messages.Reply(**to, answer="approve", actor="dan"),
                "wrong_digest": messages.Reply(**to, answer="approve", actor="bob", roles=("boss",), digest="x"),
                "wrong_extension": messages.Extend(session=result.session_id, actor="dan", more={"tokens": -1}),
            }  # fmt: skip
            for said in forged.values():
                await inbox.post(journal, "default", said)
            assert (await runtime.resume(result.session_id)).status == "awaiting_gate"
            state = await runtime.state(result.session_id)
            assert [code for _, code, _ in state.dropped] == list(forged)
            assert state.gates[gate].approvals == ()

    workshop.run(main())
    assert workshop.calls == []


def test_a_session_of_another_tenant_is_not_there(workshop: Workshop, url: str) -> None:
    """Whoever knows the gate's id and holds the role, but belongs to another tenant, finds no such session."""
    pack = dangerous(workshop)

    async def main() -> None:
        async with workshop.journal(url) as journal:
            ours = workshop.runtime(pack, journal)
            theirs = workshop.runtime(pack, journal, tenant="other")
            async with ours, theirs:
                result = await ours.run(ASK, plan=WIPE, actor=ADA)
                for answer in (theirs.approve, theirs.deny):
                    assert await refused(answer(gate_of(result), actor=BOB)) == "unknown_session"
                assert await refused(theirs.resume(result.session_id)) == "unknown_session"
                assert (await ours.resume(result.session_id)).status == "awaiting_gate"

    workshop.run(main())
    assert workshop.calls == []


def test_somebody_whose_name_is_no_text_is_one_person(workshop: Workshop, url: str) -> None:
    """Whoever starts a run under a name that cannot be stored is known by what of it can, and cannot approve their run."""
    pack, odd = dangerous(workshop), Actor(id="b\udc80b", roles=("boss",))

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=WIPE, actor=odd)
            assert await refused(runtime.approve(gate_of(result), actor=odd)) == "own_gate"

    workshop.run(main())


@pytest.mark.parametrize("is_driven", [True, False])
def test_of_many_answers_at_once_one_counts_and_each_is_told(
    workshop: Workshop, file: str, is_driven: bool
) -> None:
    """Thirty people deny a gate in the same moment: one denial ends the run, and all others hear that theirs did not."""
    workshop.tool("do.it", taking(5_000))
    pack = dangerous(workshop)
    course = plan(step("w", "wipe.it"), *([step("a")] if is_driven else []))
    people = [Actor(id=f"p{number}", roles=("boss",)) for number in range(30)]

    async def main() -> None:
        async with workshop.processes(pack, file, 2) as (one, two):
            running = asyncio.ensure_future(one.run(ASK, plan=course, actor=ADA))
            session = await session_under_way(workshop, two)
            [gate] = (await two.state(session)).gates
            told = await asyncio.gather(
                *(two.deny(gate, actor=actor) for actor in people), return_exceptions=True
            )
            await running
            assert sum(isinstance(each, RunResult) for each in told) == 1
            assert all(isinstance(each, RunResult | UsageError) for each in told)
            assert [each.answer for each in (await two.state(session)).answers] == ["deny"]

    workshop.run(main())


@pytest.mark.parametrize(
    "actor",
    [Actor(id="policy:all", roles=("boss",)), Actor(id="eve", auth="policy", roles=("boss",))],
    ids=["name", "auth"],
)
def test_nobody_answers_in_the_name_of_a_policy(workshop: Workshop, actor: Actor) -> None:
    """A person's answer must not look like a grant in the record: such a name is refused, and the gate stays open."""
    pack = dangerous(workshop)

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=WIPE, actor=ADA)
            assert await refused(runtime.approve(gate_of(result), actor=actor)) == "reserved_name"
            assert await refused(runtime.cancel(result.session_id, actor=actor)) == "reserved_name"
            assert list((await runtime.state(result.session_id)).gates) == [gate_of(result)]

    workshop.run(main())
