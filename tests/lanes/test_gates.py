"""A gate on a read of a lane: it is answered at the run that started the lane, which waits for it."""

from __future__ import annotations

from typing import Any

import pytest

from engine.workshop import ADA, BOB, CLEO, DAN, Death, Workshop, events
from tercet.contracts.errors import UsageError
from tercet.contracts.policy import Policy
from tercet.contracts.runs.behaviour import CURRENT, Behaviour
from tercet.core import events as e
from tercet.packs.pack import Pack
from tercet.runtime import Runtime
from tercet.tools import ToolContext

from .rooms import ASK, RESEARCH, children, lane_step, pack_with_lanes, plan, step, template

GATES = ({"name": "BOSS", "roles": ("boss",)},)
SECRET = Policy(
    name="SECRET",
    scope="step",
    expression="step.tool != 'look.up' || step.params.supplier != 'birch 000'",
    effect="gate",
    gate="BOSS",
)
"""Whoever looks the first supplier up needs the boss."""
HOUR_MS = 3_600_000


async def look_up(_: ToolContext, params: dict[str, Any]) -> Any:
    """A price."""
    return {"price": len(params["supplier"])}


def office(workshop: Workshop, **given: Any) -> Pack:
    """A pack whose lane reads something that a policy puts a gate on."""
    text = {"type": "object", "properties": {"supplier": {"type": "string"}}, "required": ["supplier"]}
    workshop.tool("look.up", look_up, mode="read_only", parameters=text)
    fields: dict[str, Any] = {"gates": GATES, "policies": (SECRET,), **given}
    return pack_with_lanes(workshop, **fields)


async def completes(runtime: Runtime, session: str) -> list[e.Complete]:
    """The results of a session."""
    return [each for each in await events(runtime.journal, session) if isinstance(each, e.Complete)]


@pytest.mark.req("R267", "R325")
def test_a_gate_of_a_lane_is_answered_at_its_parent(workshop: Workshop, url: str) -> None:
    """It is listed once, under the parent and with the lane; other lanes go on; approved, the lane reads and ends. Waiting
    costs neither of them time, calls or retries."""
    pack = office(workshop)

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=plan(lane_step("s", 0), lane_step("t", 1)), actor=ADA)
            assert result.status == "awaiting_gate"
            (gate,) = await runtime.gates()
            lanes = {lane.start.lane["step"]: lane for lane in await children(runtime)}
            waiting, other = lanes["s"], lanes["t"]
            assert (gate.session_id, gate.step, gate.names) == (result.session_id, "s", ("BOSS",))
            assert (gate.tool, gate.params) == ("look.up", {"supplier": "birch 000"})
            assert gate.shown["lane"]["session"] == waiting.start.session
            assert (waiting.status, other.status) == ("awaiting_gate", "completed")
            workshop.clock.advance(HOUR_MS)
            await runtime.approve(gate.id, actor=BOB)
            result = await runtime.resume(result.session_id)
            assert result.status == "completed", result.reason
            assert await runtime.gates() == []
            ended, state = (
                await runtime.state(waiting.start.session),
                await runtime.state(result.session_id),
            )
            assert (ended.status, ended.outputs) == ("completed", {"price": 9})
            assert [(a.actor, a.answer) for a in ended.answers] == [("bob", "approve")]
            assert (state.used.tool_calls, state.used.reserved_calls, state.used.retries) == (2, 0, 0)
            assert max(state.used.wall_clock, ended.used.wall_clock) < HOUR_MS

    workshop.run(main())
    assert sorted(workshop.calls) == [("a", 1), ("a", 1)]


@pytest.mark.req("R267")
def test_a_denial_ends_the_lane_and_not_its_parent(workshop: Workshop, url: str) -> None:
    """The parent gets an envelope that says so, and goes on."""
    pack = office(workshop)

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=plan(lane_step("s", 0)), actor=ADA)
            assert result.gate is not None
            await runtime.deny(result.gate.id, actor=BOB, note="not this one")
            result = await runtime.resume(result.session_id)
            assert result.status == "completed"
            (found,) = await completes(runtime, result.session_id)
            assert (found.value["status"], found.value["code"]) == ("rejected", "lane_rejected")
            assert "bob denied a: not this one" in found.value["reason"]
            state = await runtime.state(result.session_id)
            assert (state.used.tool_calls, state.used.reserved_calls) == (0, 0)

    workshop.run(main())
    assert workshop.calls == []


@pytest.mark.req("R268")
def test_a_lane_that_waits_ends_with_its_parent(workshop: Workshop, url: str) -> None:
    """What it has used is booked, nothing stays reserved, and nobody is asked any more."""
    looks = template(
        {"id": "a", "tool": "look.up", "params": {"supplier": "free"}},
        {"id": "b", "tool": "look.up", "params": {"supplier": "birch 000"}, "depends_on": ["a"]},
    )
    pack = office(workshop, templates=(looks,))

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=plan(lane_step("s", 0)), actor=ADA)
            assert result.status == "awaiting_gate"
            await runtime.cancel(result.session_id, actor=ADA)
            assert (await runtime.resume(result.session_id)).status == "cancelled"
            (lane,), state = await children(runtime), await runtime.state(result.session_id)
            assert (lane.status, await runtime.gates()) == ("cancelled", [])
            assert (state.used.tool_calls, state.used.reserved_calls) == (lane.used.tool_calls, 0) == (1, 0)

    workshop.run(main())


def test_who_may_answer_is_the_same_as_at_any_gate(workshop: Workshop) -> None:
    """The owner and people without the role are refused, and so is an answer to the lane itself; a quorum counts people."""
    pack = office(workshop, gates=({"name": "BOSS", "roles": ("boss",), "quorum": 2},))

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=plan(lane_step("s", 0)), actor=ADA)
            (lane,), gate = await children(runtime), result.gate
            assert gate is not None
            for actor, code in ((ADA, "own_gate"), (DAN, "role_missing")):
                with pytest.raises(UsageError) as refused:
                    await runtime.approve(gate.id, actor=actor)
                assert refused.value.code == code
            with pytest.raises(UsageError) as refused:
                await runtime.approve(next(iter(lane.gates)), actor=BOB)
            assert refused.value.code == "lane_gate"
            with pytest.raises(UsageError) as refused:
                await runtime.modify(gate.id, actor=BOB, note="another one")
            assert refused.value.code == "wrong_answer"
            await runtime.approve(gate.id, actor=BOB)
            assert (await runtime.resume(result.session_id)).status == "awaiting_gate"
            await runtime.approve(gate.id, actor=CLEO)
            assert (await runtime.resume(result.session_id)).status == "completed"
            (lane,) = await children(runtime)
            assert {answer.actor for answer in lane.answers} == {"bob", "cleo"}

    workshop.run(main())


def test_a_lane_inside_of_a_lane_is_asked_about_at_the_first_run(workshop: Workshop) -> None:
    """Each run passes the answer on to the one that it started."""
    outer = {
        **RESEARCH,
        "name": "outer",
        "intent": "outer",
        "tools": ("lane.research", "look.up"),
        "budget": {"tool_calls": 4},
    }
    inner = template(
        {
            "id": "i",
            "kind": "lane",
            "tool": "lane.research",
            "params": {"supplier": {"$from": "request#/supplier"}},
        },
        intent="outer",
    )
    looks = template({"id": "a", "tool": "look.up", "params": {"supplier": {"$from": "request#/supplier"}}})
    pack = office(
        workshop,
        lanes=(RESEARCH, outer),
        templates=(looks, inner),
        more=({"id": "outer", "risk_tier": "low"},),
    )

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=plan(lane_step("s", 0, lane="outer")), actor=ADA)
            (gate,) = await runtime.gates()
            assert gate.session_id == result.session_id
            await runtime.approve(gate.id, actor=BOB)
            assert (await runtime.resume(result.session_id)).status == "completed"
            assert [lane.status for lane in await children(runtime)] == ["completed"] * 2

    workshop.run(main())
    assert workshop.calls == [("a", 1)]


@pytest.mark.parametrize("point", ["after_append", "before_append", "after_answer", "before_call"])
@pytest.mark.parametrize("nth", [2, 4, 6, 8])
@pytest.mark.req("R268")
def test_a_waiting_lane_survives_whatever_process_dies(
    workshop: Workshop, file: str, point: str, nth: int
) -> None:
    """Before the gate and after its answer: there is one lane, one question, one read, and nothing stays reserved."""
    pack = office(workshop)

    async def main() -> None:
        death = Death(point, nth)
        async with workshop.journal(file) as journal, workshop.runtime(pack, journal, crash=death) as runtime:
            await death.of(runtime.run(ASK, plan=plan(lane_step("s", 0), step("n", None)), actor=ADA))
        async with workshop.journal(file) as journal, workshop.runtime(pack, journal) as runtime:
            rows = await runtime.sessions(limit=50)
            (parent,) = [
                row.session_id for row in rows if not (await runtime.state(row.session_id)).start.root
            ]
            await runtime.resume(parent)
            (gate,) = await runtime.gates()
            await runtime.approve(gate.id, actor=BOB)
        death = Death(point, nth)
        async with workshop.journal(file) as journal, workshop.runtime(pack, journal, crash=death) as runtime:
            await death.of(runtime.resume(parent))
        async with workshop.journal(file) as journal, workshop.runtime(pack, journal) as runtime:
            result = await runtime.resume(parent)
            assert result.status == "completed", result.reason
            (lane,) = await children(runtime)
            assert (lane.status, len(lane.answers)) == ("completed", 1)
            state = await runtime.state(parent)
            assert (state.used.tool_calls, state.used.reserved_calls) == (lane.used.tool_calls, 0)

    workshop.run(main())


def test_a_run_by_earlier_rules_refuses_the_read(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the number of the rule no gate opens, and the parent sees why the lane ended."""
    framed = Pack.run_context
    before = tuple(set(CURRENT) - {Behaviour.LANE_GATES})

    def old_frame(self: Pack, **given: Any) -> Any:
        return framed(self, **given).model_copy(update={"behaviour": before})

    monkeypatch.setattr(Pack, "run_context", old_frame)
    pack = office(workshop)

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            assert (await runtime.run(ASK, plan=plan(lane_step("s", 0)), actor=ADA)).status == "completed"
            (lane,) = await children(runtime)
            assert (lane.status, "a lane asks no person" in lane.reason) == ("failed", True)

    workshop.run(main())
    assert workshop.calls == []
